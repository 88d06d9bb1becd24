"""`xscore batch`: lists of questions judged without anyone waiting. One file for each of its commands."""

import click

from xscore.cli.catalogue import BATCH_COMMANDS
from xscore.cli.lazy_group import LazyGroup


@click.command(cls=LazyGroup, entries=BATCH_COMMANDS)
def batch() -> None:
    """Judge a list of questions against every memory: through a vendor's Batch API at half the price, or live."""

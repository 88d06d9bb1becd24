"""`xscore cache`: the judgments that were paid for. One file for each of its commands."""

import click

from xscore.cli.catalogue import CACHE_COMMANDS
from xscore.cli.lazy_group import LazyGroup


@click.command(cls=LazyGroup, entries=CACHE_COMMANDS)
def cache() -> None:
    """Look at the judgments that were paid for, sweep them, and move them between machines."""

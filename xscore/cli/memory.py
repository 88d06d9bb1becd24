"""`xscore memory`: what is remembered beside code, in all layers. One file for each of its commands."""

import click

from xscore.cli.catalogue import MEMORY_COMMANDS
from xscore.cli.lazy_group import LazyGroup


@click.command(cls=LazyGroup, entries=MEMORY_COMMANDS)
def memory() -> None:
    """Look at, add, change and erase what is remembered of this repository, its sessions and you."""

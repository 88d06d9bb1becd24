"""A group of commands that imports one when it is called, and none to list them."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

from xscore.cli.catalogue import Entry


class LazyGroup(click.Group):
    """Commands by name, from a table of the catalogue."""

    def __init__(self, *arguments: Any, entries: Mapping[str, Entry], **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.entries = entries

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the commands in the order of the table."""
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        entry = self.entries.get(cmd_name)
        if entry is None:
            return None
        command = getattr(import_module(entry.module), entry.attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from the table, importing none."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.line) for name, entry in self.entries.items()])

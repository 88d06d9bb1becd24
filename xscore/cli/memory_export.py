"""`xscore memory export`: memories as lines of JSON, or a snapshot. To stdout, or to a file of your own."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from xscore.cli.memory_choice import CHOICE, choice_of, is_narrow
from xscore.cli.opening import in_store
from xscore.cli.options import FILE, OUTPUT, Flags, options
from xscore.cli.private_file import write_private
from xscore.cli.terminal import Terminal, print_json
from xscore.errors import UsageError
from xscore.records import Layer
from xscore.wording import counted

if TYPE_CHECKING:
    from xscore.memory.lookup import Choice
    from xscore.memory.store import Store

_OF_THE_REPOSITORY = (Layer.SESSION, Layer.PROJECT, Layer.GOVERNANCE)
NOTHING = 1
"""Exit code."""


@click.command()
@click.option("--snapshot", is_flag=True, help="One object: memories, edges, turns' looks at them, maps of the files.")
@click.option("-o", "--output", type=FILE, help="Write to this file, for you alone, rather than to stdout.")
@options(CHOICE, OUTPUT)
def export(snapshot: bool, output: Path | None, flags: Flags) -> int:
    """Write what is remembered of this repository, one memory a line, sorted; `memory import` reads it back.

    Judgments are never in it, and your own layer only if you name it: `--layer user`. `--json`: one object instead.
    Ends with 1 where --layer, --scope or --kind leave nothing.
    """
    choice = choice_of(flags)
    if not snapshot:
        return in_store(lambda store: _memories(store, choice, output, flags), flags)
    if is_narrow(flags):
        raise UsageError("a snapshot is whole", hint="Leave out --layer, --scope and --kind, or --snapshot.")
    return in_store(lambda store: _snapshot(store, output, flags.terminal), flags)


def _memories(store: "Store", choice: "Choice", output: Path | None, flags: Flags) -> int:
    from xscore.memory.copies.export_lines import as_line, exported
    from xscore.pipeline.receipt import SCHEMA

    terminal = flags.terminal
    found = list(exported(store, choice if choice.layers else replace(choice, layers=_OF_THE_REPOSITORY)))
    if terminal.as_json:
        _put({"schema": SCHEMA, "memories": found}, output)
    elif output is not None:
        write_private(output, (as_line(one) + "\n" for one in found))
    elif found:
        terminal.data("".join(as_line(one) + "\n" for one in found))
    _say(len(found), output, terminal)
    return NOTHING if not found and is_narrow(flags) else 0


def _snapshot(store: "Store", output: Path | None, terminal: Terminal) -> int:
    from xscore.memory.copies.snapshot_form import snapshot_to_json

    taken = store.snapshot()
    _put(snapshot_to_json(taken, secret=store.secret), output)
    _say(len(taken.memories), output, terminal)
    return 0


def _put(whole: dict[str, object], output: Path | None) -> None:
    """Write one object: on one line of a file, or as every command prints it."""
    from xscore.memory.copies.export_lines import as_line

    if output is None:
        print_json(whole)
    else:
        write_private(output, [as_line(whole) + "\n"])


def _say(count: int, output: Path | None, terminal: Terminal) -> None:
    terminal.note(counted(count, "memory", "memories") + (f" written to {output}" if output else ""))

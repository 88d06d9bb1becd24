"""`xscore memory export`: memories as lines of JSON, or a snapshot. To stdout, or to a file of your own."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xscore.cli.figures import counted
from xscore.cli.memory_choice import CHOICE, choice_of
from xscore.cli.opening import in_store
from xscore.cli.options import FILE, OUTPUT, Flags, options
from xscore.cli.terminal import print_json
from xscore.errors import UsageError
from xscore.records import Layer

if TYPE_CHECKING:
    from xscore.memory.lookup import Choice
    from xscore.memory.store import Store

_OF_THE_REPOSITORY = (Layer.SESSION, Layer.PROJECT, Layer.GOVERNANCE)
NOTHING = 1
"""Exit code."""


@click.command()
@click.option("--snapshot", is_flag=True, help="One object: memories, edges, turns' looks at them, maps of the files.")
@click.option("--format", "form", type=click.Choice(["jsonl", "json"]), default="jsonl", help="Lines, or one object.")
@click.option("-o", "--output", type=FILE, help="Write to this file, for you alone, rather than to stdout.")
@options(CHOICE, OUTPUT)
def export(snapshot: bool, form: str, output: Path | None, flags: Flags) -> int:
    """Write what is remembered of this repository, one memory a line, sorted; `memory import` reads it back.

    Judgments are never in it, and your own layer only if you name it: `--layer user`.
    """
    choice = choice_of(flags)
    if snapshot and (choice.layers or choice.kinds or choice.scopes):
        raise UsageError("a snapshot is whole", hint="Leave out --layer, --scope and --kind, or --snapshot.")
    as_object = form == "json" or flags.terminal.as_json

    def work(store: "Store") -> int:
        told, count = _snapshot(store) if snapshot else _memories(store, choice)
        if output is not None:
            is_whole = snapshot or as_object
            _write(output, _text([told] if is_whole else list(told["memories"])))
        elif snapshot or as_object:
            print_json(told)
        elif count:
            flags.terminal.data(_text(told["memories"]))
        flags.terminal.note(counted(count, "memory", "memories") + (f" written to {output}" if output else ""))
        return 0 if count or snapshot else NOTHING

    return in_store(work, flags)


def _memories(store: "Store", choice: "Choice") -> tuple[dict[str, Any], int]:
    from xscore.memory.export_lines import export_lines

    wanted = choice if choice.layers else replace(choice, layers=_OF_THE_REPOSITORY)
    found: list[object] = [json.loads(line) for line in export_lines(store, wanted)]
    return {"schema": 1, "memories": found}, len(found)


def _snapshot(store: "Store") -> tuple[dict[str, Any], int]:
    from xscore.memory.snapshot_form import snapshot_to_json

    taken = store.snapshot()
    return snapshot_to_json(taken), len(taken.memories)


def _text(values: list[object]) -> str:
    return "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values)


def _write(path: Path, text: str) -> None:
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror}", hint="Name a file that you may write."
        ) from error

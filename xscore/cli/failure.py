"""`xscore failure`: record what went wrong and what mended it. Met often enough, it becomes a pattern to be avoided."""

from typing import TYPE_CHECKING

import click

from xscore.cli.memory_choice import text_of
from xscore.cli.opening import in_store
from xscore.cli.options import OUTPUT, Flags, options
from xscore.cli.terminal import Terminal, echo, print_json
from xscore.records import Memory
from xscore.safe_text import one_line
from xscore.wording import counted

if TYPE_CHECKING:
    from xscore.memory.store import Store
    from xscore.records import Failure


@click.group()
def failure() -> None:
    """Record failures and what mended them, so that nobody has to find it out twice."""


@failure.command()
@click.argument("text")
@click.option("--because", metavar="WHY", default="", help="Why it happened.")
@click.option("--fix", metavar="HOW", default="", help="What mended it; also later, with `failure resolve`.")
@click.option("--occurrence", metavar="NAME", default="", help="A name of this very happening: it is counted once.")
@options(OUTPUT)
def add(text: str, because: str, fix: str, occurrence: str, flags: Flags) -> None:
    """Record one occurrence of a failure; TEXT is the error as it was shown (`-`: standard input).

    Errors that differ in numbers, addresses, times and folders alone are the same failure.
    """

    def work(store: "Store") -> None:
        from xscore.memory.failures import record

        found = record(store, text=text_of(text), because=because, resolution=fix, occurrence=occurrence)
        _told(found, flags.terminal)

    in_store(work, flags)


@failure.command()
@click.argument("memory_id", metavar="ID")
@click.argument("fix")
@options(OUTPUT)
def resolve(memory_id: str, fix: str, flags: Flags) -> None:
    """Say that FIX mended the failure with this exact ID; its pattern tells it too."""

    def work(store: "Store") -> None:
        from xscore.memory import failures

        _told(failures.resolve(store, memory_id, text_of(fix)), flags.terminal)

    in_store(work, flags)


@failure.command("list")
@options(OUTPUT)
def list_failures(flags: Flags) -> None:
    """List the failures, those met most often first."""

    def work(store: "Store") -> None:
        from xscore.cli.memory_page import as_json
        from xscore.memory.failures import failures
        from xscore.pipeline.receipt import SCHEMA

        found = failures(store)
        if flags.terminal.as_json:
            print_json({"schema": SCHEMA, "memories": [as_json(memory) for memory in found]})
        elif found:
            echo("\n".join(map(_line, found)))
        else:
            flags.terminal.note("no failure is recorded here")

    in_store(work, flags)


def _line(memory: Memory) -> str:
    said = memory.particulars
    fix = f"fixed by: {one_line(said.resolution)}" if said.resolution else "not resolved"
    return f"{memory.id}  {said.occurrences:>4}×  {one_line(memory.title)}  ({fix})"


def _told(found: "Failure", terminal: Terminal) -> None:
    from xscore.cli.memory_page import as_json
    from xscore.pipeline.receipt import SCHEMA

    memory, pattern = found.memory, found.pattern
    if terminal.as_json:
        told = {"signature": found.signature, "is_counted": found.is_counted, "is_new_pattern": found.is_new_pattern}
        print_json(
            {"schema": SCHEMA, **as_json(memory), **told, "pattern": as_json(pattern) if pattern is not None else None}
        )
        return
    echo(_line(memory))
    if found.is_new_pattern and pattern is not None:
        met = counted(memory.particulars.occurrences, "time")
        terminal.note(f"met {met}: it is a pattern to be avoided now, {pattern.id}")

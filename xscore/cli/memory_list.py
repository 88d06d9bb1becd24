"""`xscore memory list`: what is remembered beside code, by layer, newest first."""

from typing import TYPE_CHECKING

import click

from xscore.cli.memory_choice import CHOICE, choice_of, is_narrow
from xscore.cli.opening import in_store
from xscore.cli.options import OUTPUT, Flags, options
from xscore.cli.terminal import Terminal, echo, print_json

if TYPE_CHECKING:
    from xscore.memory.lookup import Choice
    from xscore.memory.store import Store
    from xscore.records import Memory

NOTHING = 1
"""Exit code."""
SHOWN = 50
"""Lines, where nobody says how many."""


@click.command("list")
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(1),
    help=f"Only the newest N. Without it: {SHOWN}, and all of them with --json.",
)
@options(CHOICE, OUTPUT)
def list_memories(limit: int | None, flags: Flags) -> int:
    """List what is remembered beside code. Name `--layer graph` or `vector` for the memories of files.

    Ends with 1 where --layer, --scope or --kind leave nothing; an empty store is no error.
    """
    choice = choice_of(flags)
    any_there = in_store(lambda store: _show(store, choice, flags.terminal, limit=limit), flags)
    return NOTHING if is_narrow(flags) and not any_there else 0


def _show(store: "Store", choice: "Choice", terminal: Terminal, *, limit: int | None) -> bool:
    """Print the chosen memories, of more than `limit` the newest; whether there are any."""
    from xscore.memory.evidence import refresh
    from xscore.memory.lookup import chosen, newest

    refresh(store.connection, store.root, now=store.clock())
    found = chosen(store, choice)
    shown = newest(found, limit or (len(found) if terminal.as_json else SHOWN))
    print_memories(store, shown, terminal)
    if len(shown) < len(found):
        terminal.note(f"{len(found) - len(shown):,} older ones are not shown: `--limit {len(found)}` shows all")
    return bool(found)


def print_memories(store: "Store", found: "list[Memory]", terminal: Terminal) -> None:
    """Print these memories as lines or as one object; where there are none, say so on stderr."""
    from xscore.cli.memory_page import as_json, listed
    from xscore.memory.evidence import citations
    from xscore.pipeline.receipt import SCHEMA

    if terminal.as_json:
        cited = citations(store.connection, [memory.id for memory in found])
        told = [as_json(memory, cited.get(memory.id, ())) for memory in found]
        print_json({"schema": SCHEMA, "memories": told})
    elif found:
        now = store.clock()
        echo("\n".join(listed(memory, now=now) for memory in found))
    else:
        terminal.note("nothing of that sort is remembered; `xscore memory stats` counts what is")

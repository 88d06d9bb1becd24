"""`xscore memory list`: what is remembered beside code, by layer, newest first."""

from typing import TYPE_CHECKING

import click

from xscore.cli.memory_choice import CHOICE, choice_of
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

    Ends with 1 where nothing is of that sort.
    """
    choice = choice_of(flags)
    return in_store(lambda store: show_list(store, choice, flags.terminal, limit=limit), flags)


def show_list(store: "Store", choice: "Choice", terminal: Terminal, *, limit: int | None = None) -> int:
    """Print the chosen memories, of more than `limit` the newest; 1 where there are none."""
    from xscore.memory.evidence import refresh
    from xscore.memory.lookup import chosen, newest

    refresh(store.connection, store.root, now=store.clock())
    found = chosen(store, choice)
    shown = newest(found, limit or (len(found) if terminal.as_json else SHOWN))
    code = print_memories(store, shown, terminal)
    if len(shown) < len(found):
        terminal.note(f"{len(found) - len(shown):,} older ones are not shown: `--limit {len(found)}` shows all")
    return code


def print_memories(store: "Store", found: "list[Memory]", terminal: Terminal) -> int:
    """Print these memories as lines or as one object; 1 where there are none."""
    from xscore.cli.memory_page import as_json, listed
    from xscore.memory.evidence import citations

    if terminal.as_json:
        cited = citations(store.connection, [memory.id for memory in found])
        told = [as_json(memory, cited.get(memory.id, ())) for memory in found]
        print_json({"schema": 1, "memories": told})
    elif found:
        now = store.clock()
        echo("\n".join(listed(memory, now=now) for memory in found))
    else:
        terminal.note("nothing of that sort is remembered; `xscore memory stats` counts what is")
    return 0 if found else NOTHING

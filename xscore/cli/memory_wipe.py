"""`xscore memory wipe`: erase whole layers, scopes or kinds of what is remembered beside code.

It finds the ids and asks; erasing is `memory delete`'s. Memories of files are not among them: the index makes those.
"""

from typing import TYPE_CHECKING

import click

from xscore.cli.memory_delete import DRY_RUN, VERIFY, erase_and_tell
from xscore.cli.opening import in_store
from xscore.cli.options import OUTPUT, Flags, options
from xscore.errors import NothingMatched, UsageError
from xscore.records import Kind, Layer, MemoryScope, Source

if TYPE_CHECKING:
    from xscore.memory.store import Store

INDEXED = (Layer.VECTOR, Layer.GRAPH)
SCOPES = [*MemoryScope, "user", "project"]
_ROOMS = {"user": Layer.USER, "project": Layer.PROJECT}
"""Words that people use for a scope and that are layers here."""


@click.command()
@click.option("--layer", type=click.Choice(list(map(str, Layer))), multiple=True, help="Only this layer. Repeatable.")
@click.option("--scope", type=click.Choice(list(map(str, SCOPES))), multiple=True, help="Only this scope. Repeatable.")
@click.option("--kind", metavar="KIND", type=click.Choice(list(map(str, Kind))), multiple=True, help="Only this kind.")
@DRY_RUN
@VERIFY
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@options(OUTPUT)
def wipe(
    *,
    layer: tuple[str, ...],
    scope: tuple[str, ...],
    kind: tuple[str, ...],
    dry_run: bool,
    verify: bool,
    yes: bool,
    flags: Flags,
) -> int:
    """Erase every memory of a layer, scope or kind for good, and whatever was made with them.

    What comes from files is left: exclude the files, or remove the store. Asks first; scripts say --yes.
    """
    if not (layer or scope or kind):
        raise UsageError("nothing says what to wipe", hint="Name a --layer, --scope or --kind; several narrow it down.")
    layers = {*layer, *(_ROOMS[word] for word in scope if word in _ROOMS)}
    refused = sorted(layers.intersection(INDEXED))
    if refused:
        raise UsageError(
            f"the {refused[0]} layer comes from files and would be back with the next index",
            hint="Exclude files with `index.exclude`, then run `xscore index`.",
        )
    terminal = flags.terminal
    if not (yes or dry_run or terminal.can_ask):
        raise UsageError("there is nobody to ask before wiping", hint="Say --yes, or look first with --dry-run.")

    def work(store: "Store") -> int:
        ids = _ids(store, layers, set(scope) - _ROOMS.keys(), set(kind))
        if not ids:
            raise NothingMatched("no memory is of that sort", hint="`xscore memory stats` counts them by layer.")
        if not (yes or dry_run) and not click.confirm(
            f"Erase {len(ids):,} memories for good?", default=False, err=True
        ):
            terminal.note("nothing was erased")
            return 1
        return erase_and_tell(store, ids, dry_run=dry_run, verify=verify, terminal=terminal)

    return in_store(work, flags)


def _ids(store: "Store", layers: set[str], scopes: set[str], kinds: set[str]) -> list[str]:
    """Name the memories of these sorts, of both stores; an empty set lets all through."""
    found = (
        row
        for connection in store.connections()
        for row in connection.execute("SELECT id, layer, scope, kind FROM memory WHERE source <> ?", (Source.INDEX,))
    )
    wanted = ((1, layers), (2, scopes), (3, kinds))
    return sorted(row[0] for row in found if all(not among or row[at] in among for at, among in wanted))

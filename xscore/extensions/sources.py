"""Memories that another package supplies: tickets, incidents, pages of a wiki.

A source is a function (root of the repository) -> iterable of `Statement`, each with a key, and an
entry point of `xscore.sources` that `plugins.enabled` names. `xscore index` reads it: what is new
or changed is stored, what is no longer supplied is removed, the rest is left alone. A source that
fails changes nothing, and the run says so. Trade-off: a turn reads no source, so it sees what the
last index run saw.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from xscore.extension import ENABLED_SETTING, enabled_plugins, implements, plugin_errors
from xscore.pipeline.parts import AFTER_INDEX
from xscore.pipeline.resources import TurnResources
from xscore.platform.database import transaction
from xscore.platform.errors import UsageError
from xscore.records.memory import Layer, MemoryDetails, MemorySource
from xscore.records.statement import Statement
from xscore.settings import Settings
from xscore.store.composing import memory_from_statement, merge_details
from xscore.store.imported_memories import live_imported_from
from xscore.store.remembering import remember_within
from xscore.store.removal import remove_memory_rows
from xscore.store.store import Store


@implements(AFTER_INDEX)
async def read_sources(settings: Settings, *, store: Store, resources: TurnResources) -> str:
    """Bring the memories of every source up to date; return which failed. Raises StoreError."""
    failed = []
    for name, source in enabled_plugins("sources", settings).items():
        try:
            with plugin_errors(name, setting=ENABLED_SETTING):
                statements = [_checked(statement) for statement in source(store.root.path)]
            update_source(store, name, statements)
        except UsageError as error:
            failed.append(error.message)
    return "; ".join(failed)


def _checked(statement: Statement) -> Statement:
    if not statement.key or statement.layer is Layer.USER:
        raise ValueError(
            "each statement of a source needs a key, and none may be of the user layer"
        )
    return statement


def update_source(store: Store, name: str, statements: Sequence[Statement]) -> None:
    """Store what differs from the memories of this source, and remove what is not among these
    statements.

    Raises UsageError, and changes nothing, for a statement that cannot be stored.
    """
    details = MemoryDetails(imported_from=f"source:{name}")
    now = store.clock()
    stated = {}
    for unnamed in statements:
        statement = replace(
            unnamed,
            key=f"{name}:{unnamed.key}",
            source=MemorySource.IMPORT,
            allow_pii=store.settings.allow_pii,
        )
        memory, _ = memory_from_statement(statement, merge_details(statement, details), now=now)
        stated[memory.id, memory.text] = statement
    connection = store.connection
    with transaction(connection):
        stored = {}
        for memory in live_imported_from(connection, details.imported_from):
            stored[memory.id, memory.text] = memory
        gone = {memory.id: memory for key, memory in stored.items() if key not in stated}
        if gone:
            remove_memory_rows(connection, gone, now=now)
        for key in stated.keys() - stored.keys():
            remember_within(connection, stated[key], now=now, unstated=details)

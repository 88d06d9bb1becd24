"""Erase from a server the vectors that are gone here.

The store notes what a server was sent, and triggers mark what is gone, so nothing has to be worked
out from erased texts. Trade-off: a server that the settings no longer name stays owed until they
name it again, or the user gives it up (`--here-only`).
"""

from collections.abc import Sequence
from contextlib import aclosing
from sqlite3 import Connection

from msgspec.structs import replace

from xscore.extensions.vectors.search_backends import open_search, search_server_name
from xscore.extensions.vectors.vector_search import has_noted_partition, noted_partition
from xscore.platform.errors import SharedUnavailable, UsageError
from xscore.records.reports import ServerErasure
from xscore.settings import Settings
from xscore.store.vector_copies import (
    drop_copies,
    forget_complete,
    gone_copies,
    note_complete,
)

ERASURE_S = 60.0


async def erase_copies(
    connection: Connection, settings: Settings, servers: Sequence[str], *, verify: bool
) -> list[ServerErasure]:
    """Erase what each server has of vectors that are gone here; only the one of the settings can be
    reached.

    verify: ask once more, and count what is there by then.
    """
    erasures: list[ServerErasure] = []
    for server in servers:
        try:
            problem = ""
            if search_server_name(settings) != server:
                problem = "embedding.search names another server, or none"
            elif not has_noted_partition(connection):
                problem = "it is unknown here whose copies they are; the next turn erases them"
            if problem:
                erasures.append(ServerErasure(server=server, is_vectors=True, problem=problem))
                continue
            erasures.append(await _erased(connection, settings, server, verify=verify))
        except (SharedUnavailable, UsageError) as error:
            erasures.append(
                ServerErasure(server=server, is_vectors=True, problem=error.message)
            )
    return erasures


async def _erased(
    connection: Connection, settings: Settings, server: str, *, verify: bool
) -> ServerErasure:
    removed, remaining = 0, 0
    for embedder, text_hashes in gone_copies(connection, server).items():
        partition = noted_partition(connection, embedder)
        search = open_search(settings, partition, timeout_s=ERASURE_S)
        assert search is not None
        forget_complete(connection, embedder, server)
        async with aclosing(search):
            removed += await search.erase(text_hashes)
            if verify:
                remaining += await search.erase(text_hashes)
        drop_copies(connection, embedder, server, text_hashes)
        note_complete(connection, embedder, server)
    erasure = ServerErasure(server=server, is_vectors=True, removed=removed)
    return replace(erasure, left=remaining) if verify else erasure

"""What shared servers have yet to erase, and letting them do it.

Servers know contents by hash alone, which cannot be computed once the text is gone. So what they
have yet to erase is noted in the transaction that removes the text: a row of `meta` for each
server, and every later erasure asks again. Trade-off: a server that is gone for good is owed until
the user gives it up (`--here-only`).
"""

import asyncio
import json
import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterable

import msgspec
from msgspec.structs import replace

from xscore.extensions.privacy.erasure_plan import ErasurePlan
from xscore.platform import database
from xscore.records.reports import ErasureRequest, ServerErasure
from xscore.settings import Settings
from xscore.store.memory_rows import IN_JSON_LIST
from xscore.store.removal import shared_servers, team_server
from xscore.store.vector_copies import drop_copies, gone_copies, servers_with_gone_copies

_OWED = "erase_at "
"""Start of the keys in `meta`, followed by the server's name."""
_SHOWN = f"SELECT hash FROM content WHERE memories > 0 AND hash {IN_JSON_LIST}"
LEFT_ON_PURPOSE = "left there, as --here-only says"


def owe_erasure(
    connection: sqlite3.Connection,
    plan: ErasurePlan,
    judgments: Collection[tuple[str, str, int, str]],
) -> None:
    """Record what the servers must erase, after the rows are gone and in the same transaction.

    judgments: turn key, judge key, draw and content hash of judgments whose reasons are erased;
        "" for all contents.
    """
    if plan.memories:
        owe_team_erasure(connection, plan.memories)
    servers = shared_servers(connection)
    if not servers:
        return
    # What another memory shows as well is still judged there, as it is here.
    shown = {
        hash_ for (hash_,) in connection.execute(_SHOWN, (json.dumps(sorted(plan.hashes)),))
    }
    contents = tuple(sorted(plan.hashes - shown))
    turns = _by_turn(judgments)
    if not (contents or turns):
        return
    for server in servers:
        _owe(connection, server, ErasureRequest(contents=contents, turns=tuple(turns)))


def owe_team_erasure(connection: sqlite3.Connection, identities: Iterable[str]) -> None:
    """Record what the team's server must erase of what this store may have sent it; in a
    transaction.

    identities: ids of memories, and names of checkpoints.
    """
    server = team_server(connection)
    if server:
        _owe(connection, server, ErasureRequest(memories=tuple(sorted(identities))))


def _owe(connection: sqlite3.Connection, server: str, request: ErasureRequest) -> None:
    earlier = owed_erasures(connection).get(server, ErasureRequest())
    merged = ErasureRequest(
        contents=tuple(dict.fromkeys([*earlier.contents, *request.contents])),
        turns=(*earlier.turns, *request.turns),
        memories=tuple(dict.fromkeys([*earlier.memories, *request.memories])),
    )
    connection.execute(
        "INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)",
        (_OWED + server, msgspec.json.encode(merged).decode()),
    )


def _by_turn(
    judgments: Collection[tuple[str, str, int, str]],
) -> list[tuple[str, str, int, tuple[str, ...]]]:
    """Return each turn's key, judge and draw with its contents; without any: all of them."""
    contents_by_turn = defaultdict[tuple[str, str, int], set[str]](set)
    for turn_key, judge, draw, content in judgments:
        contents_by_turn[turn_key, judge, draw].add(content)
    turns: list[tuple[str, str, int, tuple[str, ...]]] = []
    for (turn_key, judge, draw), contents in sorted(contents_by_turn.items()):
        # An empty content means all contents of the turn.
        hashes = () if "" in contents else tuple(sorted(contents))
        turns.append((turn_key, judge, draw, hashes))
    return turns


def owed_erasures(connection: sqlite3.Connection) -> dict[str, ErasureRequest]:
    """Return what each server must still erase. Raises StoreDamaged."""
    rows = connection.execute(
        "SELECT key, value FROM meta WHERE key GLOB ?", (_OWED + "*",)
    ).fetchall()
    with database.damage_if_invalid("an erasure that is owed"):
        return {
            key.removeprefix(_OWED): msgspec.json.decode(value, type=ErasureRequest)
            for key, value in rows
        }


def _with_sessions_forgotten(
    settings: Settings, erasures: list[ServerErasure]
) -> list[ServerErasure]:
    """Delete the user's sessions on the server as well; where that fails, it is still owed."""
    if not (settings.shared.keeps_sessions and erasures):
        return erasures
    # Few users keep sessions.
    from xscore.extensions.shared.team.session_buffer import forget_sessions

    problem = forget_sessions(settings.shared)
    return [replace(erasure, problem=erasure.problem or problem) for erasure in erasures]


def settle_owed_erasures(
    connection: sqlite3.Connection,
    settings: Settings,
    *,
    verify: bool = False,
    here_only: bool = False,
) -> tuple[ServerErasure, ...]:
    """Let the servers erase what is owed; what one erased is owed no more.

    verify: ask again and count what is left.
    here_only: ask no server, and drop what is owed.
    """
    owed = owed_erasures(connection)
    done = list[ServerErasure]()
    if here_only:
        done = [ServerErasure(server=server, problem=LEFT_ON_PURPOSE) for server in owed]
    elif owed:
        from xscore.extensions.shared.connect import erase_shared  # another extension

        of_team = team_server(connection)
        of_judgments = {name: request for name, request in owed.items() if name != of_team}
        done = asyncio.run(erase_shared(settings.shared, of_judgments, verify=verify))
        done = _with_sessions_forgotten(settings, done)
        if of_team in owed:
            # Few stores share memories.
            from xscore.extensions.shared.team.erasing import erase_from_team

            request = owed[of_team]
            done.append(
                erase_from_team(connection, settings.shared, of_team, request, verify=verify)
            )
    vector_servers = servers_with_gone_copies(connection)
    if vector_servers and here_only:
        for server in vector_servers:
            for embedder, text_hashes in gone_copies(connection, server).items():
                drop_copies(connection, embedder, server, text_hashes)
            done.append(ServerErasure(server=server, is_vectors=True, problem=LEFT_ON_PURPOSE))
    elif vector_servers:
        # Few users have their vectors searched by a server.
        from xscore.extensions.vectors.erasing import erase_copies

        done += asyncio.run(erase_copies(connection, settings, vector_servers, verify=verify))
    for asked_server in done:
        if here_only or not asked_server.problem:
            connection.execute("DELETE FROM meta WHERE key = ?", (_OWED + asked_server.server,))
    return tuple(done)

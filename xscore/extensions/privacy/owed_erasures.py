"""What shared servers have yet to erase of this store's judgments, kept until they did.

A server knows contents and turns by hash alone, and nobody can compute those hashes once the text is gone. So they are
written down in the transaction that erases the text, one row of `meta` for each server that judgments went to, and
every later erasure asks again. Trade-off: until then the store keeps hashes of erased texts; other machines' own stores
are out of reach.
"""

import asyncio
import sqlite3
from collections import defaultdict
from collections.abc import Collection

import msgspec

from xscore import extension
from xscore.extensions.privacy.erasure_plan import ErasurePlan
from xscore.platform import database
from xscore.records.reports import ErasureRequest, ServerErasure
from xscore.settings import Settings
from xscore.store.removal import AMONG, shared_servers

_OWED = "erase_at "
"""Start of the keys in `meta`; the server's name follows."""
_SHOWN = f"SELECT hash FROM content WHERE memories > 0 AND hash {AMONG}"
LEFT_ON_PURPOSE = "left there, as --here-only says"


def owe_erasure(
    connection: sqlite3.Connection, plan: ErasurePlan, judgments: Collection[tuple[str, str, int, str]]
) -> None:
    """Write down what the servers are to erase, after the rows are gone and in the same transaction.

    judgments: turn key, judge key, sample and content hash of judgments whose reasons are erased; "": of all contents.
    """
    servers = shared_servers(connection)
    if not servers:
        return
    shown = {hash_ for (hash_,) in connection.execute(_SHOWN, (msgspec.json.encode(sorted(plan.hashes)).decode(),))}
    by_turn = defaultdict[tuple[str, str, int], set[str]](set)
    for *turn, content in judgments:
        by_turn[tuple(turn)].add(content)  # type: ignore[index]  # the three parts of a key
    turns = tuple((*turn, () if "" in some else tuple(sorted(some))) for turn, some in sorted(by_turn.items()))
    new = ErasureRequest(contents=tuple(sorted(plan.hashes - shown)), turns=turns)
    if not (new.contents or new.turns):
        return
    owed = owed_erasures(connection)
    for server in servers:
        old = owed.get(server, ErasureRequest())
        contents = tuple(dict.fromkeys([*old.contents, *new.contents]))
        merged = ErasureRequest(contents=contents, turns=(*old.turns, *new.turns))
        connection.execute(
            "INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)",
            (_OWED + server, msgspec.json.encode(merged).decode()),
        )


def owed_erasures(connection: sqlite3.Connection) -> dict[str, ErasureRequest]:
    """Return what each server has yet to erase. Raises StoreDamaged."""
    rows = connection.execute("SELECT key, value FROM meta WHERE key GLOB ?", (_OWED + "*",)).fetchall()
    with database.damage_if_invalid("an erasure that is owed"):
        return {key.removeprefix(_OWED): msgspec.json.decode(value, type=ErasureRequest) for key, value in rows}


def settle_owed_erasures(
    connection: sqlite3.Connection, settings: Settings, *, verify: bool = False, here_only: bool = False
) -> tuple[ServerErasure, ...]:
    """Have the servers erase what they owe; what one erased is owed no more.

    verify: ask again and count what is left. here_only: ask nobody, and owe nothing any more.
    """
    owed, done = owed_erasures(connection), list[ServerErasure]()
    if here_only:
        done = [ServerErasure(server=server, problem=LEFT_ON_PURPOSE) for server in owed]
    elif owed:
        (erase,) = extension.implementations("erase_shared", settings)
        done = asyncio.run(erase(settings.shared, owed, verify=verify))
    settled = [one.server for one in done if here_only or not one.problem]
    connection.executemany("DELETE FROM meta WHERE key = ?", [(_OWED + server,) for server in settled])
    return tuple(done)

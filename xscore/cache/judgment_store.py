"""Where judgments are kept while they are bought: a writer and claims for each turn and judge.

A pack is claimed whole, in one transaction that also checks whether its contents were judged
meanwhile. A claim ends when its judgments are written (in the same transaction), on release, or
with its lease. The local store is the default; a shared server wraps it (`shared.judgments`). A
committed judgment never changes; if two processes judge the same pair, the first wins. Scores from
an untrusted import are quarantined: they only order the work, and are deleted once the content is
judged. Trade-off: claims save money but do not guarantee it: two runners that both hold a content
pay twice, and the first result wins.
"""

import json
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from sqlite3 import Connection, Error
from typing import TYPE_CHECKING, Protocol, Self

from xscore.cache.heartbeat import Heartbeat
from xscore.cache.judgments import find_query, read_judgments
from xscore.cache.keys import FIRST_DRAW, JudgmentKey, judge_key
from xscore.cache.lease import HEARTBEAT_S, Lease
from xscore.platform import database
from xscore.platform.errors import StoreError
from xscore.platform.hashing import judgment_checksums, turn_checksum
from xscore.records.judgment import ClaimResult, ClaimState, JudgeIdentity, Judgment

if TYPE_CHECKING:
    from xscore.cache.group_commit import GroupCommit

_INSERT_CONTENTS = (
    "INSERT INTO content (hash) SELECT value FROM json_each(?) WHERE true ON CONFLICT (hash) DO"
    " NOTHING"
)
_WRITE_JUDGMENT = """
    INSERT INTO judgment (query_id, content_id, score, prior, pack, position, checksum)
    SELECT ?, id, ?, ?, ?, ?, ? FROM content WHERE hash = ?
    ON CONFLICT (query_id, content_id) DO NOTHING
"""
_WRITE_REASON = """
    INSERT INTO reason (query_id, content_id, text)
    SELECT query_id, content_id, ? FROM content JOIN judgment ON query_id = ?
      AND content_id = content.id WHERE hash = ?
    ON CONFLICT (query_id, content_id) DO NOTHING
"""
_CLAIMED_BY_OTHERS = """
    SELECT content FROM json_each(?) CROSS JOIN claim ON query_id = ? AND content = value
      WHERE runner <> ?
"""
_INSERT_CLAIMS = """
    INSERT INTO claim (query_id, content, runner) SELECT ?, value, ? FROM json_each(?) WHERE true
    ON CONFLICT (query_id, content) DO NOTHING
"""
_UNTRUSTED_OF_TURN = "turn_key = ? AND judge = ? AND sample = ?"
_ANY_UNTRUSTED = f"SELECT 1 FROM untrusted_score WHERE {_UNTRUSTED_OF_TURN} LIMIT 1"
_KEEP_UNTRUSTED = """
    INSERT INTO untrusted_score (turn_key, judge, sample, hash, score) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (turn_key, judge, sample, hash) DO NOTHING
"""
_DROP_UNTRUSTED = (
    f"DELETE FROM untrusted_score WHERE {_UNTRUSTED_OF_TURN} AND hash IN (SELECT value FROM"
    " json_each(?))"
)
_DROP_CLAIMS = (
    "DELETE FROM claim WHERE query_id = ? AND content IN (SELECT value FROM json_each(?))"
)
WriteJudgments = Callable[[Sequence[Judgment]], Awaitable[None]]
"""Returns once these judgments are committed and their claims removed."""


class Claims(Protocol):
    """Which runner is judging which content."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None:
        """Release everything."""
        ...

    async def claim(self, packs: Sequence[Sequence[str]], *, at_most: int) -> list[ClaimResult]:
        """Claim whole packs of content hashes, at most that many that still need judging; one
        result for each pack."""
        ...

    def release(self, hashes: Iterable[str]) -> None:
        """Give contents up without a judgment, so that another runner may take them."""
        ...


class JudgmentStore(Protocol):
    """Stores judgments, and claims contents before they are sent."""

    def writer(
        self, turn_key: str, judge: JudgeIdentity, draw: int = FIRST_DRAW
    ) -> WriteJudgments:
        """Return the writer of a turn's judgments."""
        ...

    def claims(self, turn_key: str, judge: JudgeIdentity, draw: int = FIRST_DRAW) -> Claims:
        """Return the claims that keep other processes from judging the same contents of a turn."""
        ...


class StoredJudgments:
    """The judgments of one SQLite store."""

    def __init__(
        self, commits: "GroupCommit", *, clock: Callable[[], float] = time.time
    ) -> None:
        """Write through this thread. clock: Unix seconds, for the lease of claims."""
        self._commits = commits
        self._clock = clock

    def writer(
        self, turn_key: str, judge: JudgeIdentity, draw: int = FIRST_DRAW
    ) -> WriteJudgments:
        """Return the writer of a turn's judgments, which returns once they are committed.

        It raises StoreError if they cannot be written, and then at every later call.
        """
        key = (turn_key, judge_key(judge), draw)

        def insert(batches: Sequence[Sequence[Judgment]], connection: Connection) -> None:
            insert_judgments(connection, list(chain.from_iterable(batches)), key)

        async def write(judgments: Sequence[Judgment]) -> None:
            if judgments:
                await self._commits.submit_item(insert, judgments)

        return write

    def claims(self, turn_key: str, judge: JudgeIdentity, draw: int = FIRST_DRAW) -> Claims:
        """Return the claims that keep other processes from judging the same contents of a turn."""
        return StoredClaims(
            self._commits, turn_key=turn_key, judge=judge, draw=draw, clock=self._clock
        )


def add_reasons(connection: Connection, key: JudgmentKey, reasons: Mapping[str, str]) -> None:
    """Store reasons of judgments that this store holds, by content hash; one that is there
    stays."""
    query = find_query(connection, key)
    with database.transaction(connection):
        connection.executemany(
            _WRITE_REASON, [(text, query, hash_) for hash_, text in reasons.items()]
        )


def find_or_add_query(connection: Connection, key: JudgmentKey) -> int:
    """Return the row id of turn and judge, adding it at the first call.

    Within an open transaction.
    """
    query = find_query(connection, key)
    if query is not None:
        return query
    connection.execute("INSERT INTO query (turn_key, judge, sample) VALUES (?, ?, ?)", key)
    with database.damage_if_invalid("the index of turns"):
        return int(find_query(connection, key))  # type: ignore[arg-type]  # TypeError for None is caught as damage


def insert_judgments(
    connection: Connection, judgments: Sequence[Judgment], key: JudgmentKey
) -> None:
    """Write judgments in an open transaction; delete the claims on these contents and their
    quarantined scores."""
    query = find_or_add_query(connection, key)
    turn = turn_checksum(*key)
    hashes = json.dumps([judgment.content_hash for judgment in judgments])
    connection.execute(_INSERT_CONTENTS, (hashes,))
    # + 0.0: SQLite keeps -0.0 as 0.0, and so must the checksum.
    rows = [
        (j.content_hash, j.score + 0.0, j.prior + 0.0, j.pack, j.position) for j in judgments
    ]
    written: list[tuple[object, ...]] = []
    for row, checksum in zip(rows, judgment_checksums(turn, rows), strict=True):
        content, *values = row
        written.append((query, *values, checksum, content))
    connection.executemany(_WRITE_JUDGMENT, written)
    reasons = [(j.reason, query, j.content_hash) for j in judgments if j.reason]
    connection.executemany(_WRITE_REASON, reasons)
    # Rarely true; saves a statement per write.
    if connection.execute(_ANY_UNTRUSTED, key).fetchone():
        connection.execute(_DROP_UNTRUSTED, (*key, hashes))
    # In the transaction that writes the judgments: no process sees neither claim nor judgment, and
    # pays again.
    connection.execute(_DROP_CLAIMS, (query, hashes))


def untrusted_scores(connection: Connection, key: JudgmentKey) -> dict[str, float]:
    """Return the quarantined scores for this turn by this judge: content hash -> 0..1."""
    rows = connection.execute(
        f"SELECT hash, score FROM untrusted_score WHERE {_UNTRUSTED_OF_TURN}", key
    )
    return dict(rows.fetchall())


def keep_untrusted(
    connection: Connection, key: JudgmentKey, scores: Sequence[tuple[str, float]]
) -> int:
    """Quarantine content hashes with scores 0..1; return how many were new.

    Within an open transaction.
    """
    return connection.executemany(
        _KEEP_UNTRUSTED, [(*key, *score) for score in scores]
    ).rowcount


def count_untrusted(connection: Connection) -> int:
    """Count the rows in quarantine."""
    return int(connection.execute("SELECT count(*) FROM untrusted_score").fetchone()[0])


class StoredClaims:
    """The claims of one turn by one judge: an async context manager that releases them all on
    exit."""

    def __init__(
        self,
        commits: "GroupCommit",
        *,
        turn_key: str,
        judge: JudgeIdentity,
        draw: int = FIRST_DRAW,
        heartbeat_s: float = HEARTBEAT_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._commits = commits
        self._key: JudgmentKey = (turn_key, judge_key(judge), draw)
        self._lease = Lease(clock)
        self._heartbeat = Heartbeat(self._renew, every_s=heartbeat_s)

    async def __aenter__(self) -> Self:
        """Start the heartbeat."""
        self._heartbeat.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Release everything, and what killed processes left; if the store cannot be written, the
        lease expires."""
        await self._heartbeat.stop()
        with suppress(StoreError, Error):
            self._commits.post(self._leave)
        self._lease.close()

    async def claim(self, packs: Sequence[Sequence[str]], *, at_most: int) -> list[ClaimResult]:
        """Claim whole packs of content hashes, at most that many that still need judging; one
        result for each pack.

        Raises StoreError when the claim cannot be written: then nothing may be sent.
        """
        return await self._commits.submit(partial(self._claim, packs, at_most))

    def release(self, hashes: Iterable[str]) -> None:
        """Give contents up without a judgment, so that another runner may take them."""
        given_up = list(hashes)
        if given_up:
            self._commits.post(partial(self._release, given_up))

    async def _renew(self) -> None:
        self._commits.post(self._lease.renew)

    def _leave(self, connection: Connection) -> None:
        self._lease.reap_dead(connection)
        self._lease.release(connection)

    def _claim(
        self, packs: Sequence[Sequence[str]], at_most: int, connection: Connection
    ) -> list[ClaimResult]:
        query = find_or_add_query(connection, self._key)
        # First of all: to the others a claim counts only while its runner lives.
        self._lease.renew(connection)
        contents = list(chain.from_iterable(packs))
        # What another runner judged since this one looked. Read in the transaction of the claim, so
        # that a content without judgment and claim is certainly not paid for.
        judged = read_judgments(connection, self._key, contents)
        taken: set[str] = set()
        # What dead runners held is free again; without living ones nothing is held.
        if self._lease.reap_dead(connection):
            rows = connection.execute(
                _CLAIMED_BY_OTHERS, (json.dumps(contents), query, self._lease.id)
            ).fetchall()
            taken = {content for (content,) in rows}
        results: list[ClaimResult] = []
        ours: list[str] = []
        for pack in packs:
            unjudged = [content for content in pack if content not in judged]
            state = ClaimState.OURS
            # A pack is paid for as a whole: one content of another runner keeps all of it from us.
            if not taken.isdisjoint(unjudged):
                state = ClaimState.THEIRS
            elif unjudged and not at_most:
                state = ClaimState.FREE
            elif unjudged:
                at_most -= 1
                ours += unjudged
            results.append(
                ClaimResult(
                    state, {content: judged[content] for content in pack if content in judged}
                )
            )
        connection.execute(_INSERT_CLAIMS, (query, self._lease.id, json.dumps(ours)))
        return results

    def _release(self, hashes: Sequence[str], connection: Connection) -> None:
        query = find_or_add_query(connection, self._key)
        connection.executemany(
            "DELETE FROM claim WHERE query_id = ? AND content = ? AND runner = ?",
            [(query, content, self._lease.id) for content in hashes],
        )

"""Cache statistics: what the cache of a store holds, how much a turn can use, and its hit rate.

Parts are read separately: an unreadable one is named, and the others are still shown. Invalid rows
count as rows. Trade-off: it reads every page once, about a second per gigabyte.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from sqlite3 import Connection
from typing import Any, TypeVar

from msgspec import Struct

from xscore.cache.prune import (
    JudgedTurn,
    count_judgments,
    is_indexed,
    judge_names,
    judged_turns,
)
from xscore.platform.clock import DAY_S
from xscore.platform.errors import StoreError

T = TypeVar("T")
HIT_RATE_DAYS = (None, 7, 30)
"""Days back over which the hit rate is shown; None: all time."""
_TABLE_NAMES = {
    "judgment": "judgments",
    "reason": "reasons",
    "content": "contents",
    "query": "turns",
    "untrusted_score": "quarantined",
}
_SIZES = (
    "SELECT tbl_name, sum(pgsize) FROM dbstat JOIN sqlite_master USING (name) WHERE"
    " dbstat.aggregate = TRUE GROUP BY 1"
)
_HITS = {
    "turns": (
        """
        SELECT count(*), total(candidates), total(cached + carried) FROM turn_figures
          JOIN turn ON turn.id = turn_id
        WHERE is_model = 1 AND started_at >= ?
    """
    ),
    "jobs": "SELECT count(*), total(candidates), total(cached) FROM job WHERE created_at >= ?",
}


class JudgeShare(Struct, frozen=True, kw_only=True):
    """Judgments of one judge."""

    judge: str
    name: str
    """`provider:model`; empty if no turn here knows it."""
    is_configured: bool
    """Whether the next turn would find these judgments."""
    turns: int
    judgments: int
    used_at: float | None
    """When one of its turns was last asked (Unix seconds); None: never here."""


class HitRate(Struct, frozen=True, kw_only=True):
    """The cache's hit rate over a period."""

    of: str
    """`turns`, or `jobs` (as planned)."""
    days: int | None
    asked: int
    candidates: int
    hits: int


class CacheStats(Struct, frozen=True, kw_only=True):
    """Contents of the cache."""

    judgments: int
    turns: int
    """Turns by one judge."""
    contents: int
    reasons: int
    quarantined: int
    unreachable: int
    """Judgments of contents that no memory has any more; 0 (unknown) before the first index."""
    parts_needed: int
    """Judgments of parts of memories too large for one pack and not yet judged as a whole."""
    parts_spare: int
    """Judgments of parts in turns that have judged all such memories."""
    is_indexed: bool
    judges: tuple[JudgeShare, ...]
    bytes: int
    free_bytes: int
    """Bytes that `prune --vacuum` frees."""
    parts: dict[str, int] | None
    """Approximate bytes per part; None: unknown, as in an encrypted store."""
    hit_rates: tuple[HitRate, ...]
    unreadable: tuple[str, ...]
    """Parts that could not be read: the store is damaged."""

    @property
    def of_other_judges(self) -> int:
        """Judgments of judges other than the configured one."""
        return sum(share.judgments for share in self.judges if not share.is_configured)


def cache_stats(
    connection: Connection, path: Path, *, judge: str | None, now: float
) -> CacheStats:
    """Return the statistics.

    path: the store file.
    judge: key of the configured judge.
    now: Unix seconds.
    """
    reader = _TolerantReader(connection)
    judgments_of: dict[int, int] = {}
    shown = parts = needed = 0
    rows = reader.read("judgments", count_judgments, list[tuple[int, int, int, int, int]]())
    for query, count, shown_count, parts_count, needs_parts in rows:
        judgments_of[query] = count
        shown += int(shown_count)
        parts += int(parts_count)
        needed += int(parts_count) if needs_parts else 0
    judgments = sum(judgments_of.values())
    # Before an index nothing tells which contents are still there, so all parts may be needed.
    indexed = reader.read("memories", is_indexed, False)
    unreachable, spare = 0, 0
    if indexed:
        unreachable = judgments - shown - parts
        spare = parts - needed
    database_files = path.parent.glob(f"{path.name}*")
    return CacheStats(
        judgments=judgments,
        turns=reader.count("query"),
        contents=reader.count("content"),
        reasons=reader.count("reason"),
        quarantined=reader.count("untrusted_score"),
        unreachable=unreachable,
        parts_needed=parts - spare,
        parts_spare=spare,
        is_indexed=indexed,
        judges=tuple(_judges(reader, judgments_of, judge)),
        bytes=sum(file.stat().st_size for file in database_files),
        free_bytes=reader.pragma("freelist_count") * reader.pragma("page_size"),
        parts=_bytes_by_part(reader) if path.exists() else {},
        hit_rates=tuple(_hit_rates(reader, now=now)),
        unreadable=tuple(dict.fromkeys(reader.unreadable)),
    )


class _TolerantReader:
    """Reads part by part, and records unreadable parts."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.unreadable: list[str] = []

    def read(self, part: str, look: Callable[[Connection], T], otherwise: T) -> T:
        try:
            return look(self.connection)
        except StoreError:
            self.unreadable.append(part)
            return otherwise

    def rows(self, part: str, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        return self.read(
            part, lambda connection: connection.execute(sql, parameters).fetchall(), []
        )

    def count(self, table: str) -> int:
        rows = self.rows(_TABLE_NAMES[table], f"SELECT count(*) FROM {table}")
        return sum(int(count) for (count,) in rows)

    def pragma(self, name: str) -> int:
        return int(self.connection.execute(f"PRAGMA {name}").fetchone()[0])


def _judges(
    reader: _TolerantReader, counts: dict[int, int], configured: str | None
) -> list[JudgeShare]:
    names: dict[str, str] = reader.read("judges", judge_names, {})
    by_judge: dict[str, list[JudgedTurn]] = {}
    turns_read: list[JudgedTurn] = reader.read("judges", judged_turns, [])
    for turn in turns_read:
        by_judge.setdefault(turn.judge, []).append(turn)
    shares: list[JudgeShare] = []
    for judge, turns in by_judge.items():
        times = [turn.used_at for turn in turns if turn.used_at is not None]
        shares.append(
            JudgeShare(
                judge=judge,
                name=names.get(judge, ""),
                is_configured=judge == configured,
                turns=len(turns),
                judgments=sum(counts.get(turn.query, 0) for turn in turns),
                used_at=max(times, default=None),
            )
        )
    return sorted(shares, key=lambda share: (-share.judgments, share.judge))


def _bytes_by_part(reader: _TolerantReader) -> dict[str, int] | None:
    """Return the size of each part; None if this SQLite has no `dbstat`."""
    if not reader.rows("sizes", "SELECT 1 FROM pragma_module_list WHERE name = 'dbstat'"):
        return None
    sizes = dict.fromkeys((*_TABLE_NAMES.values(), "other"), 0)
    for table, size in reader.rows("sizes", _SIZES):
        sizes[_TABLE_NAMES.get(table, "other")] += int(size)
    return sizes


def _hit_rates(reader: _TolerantReader, *, now: float) -> Iterator[HitRate]:
    for of, sql in _HITS.items():
        for days in HIT_RATE_DAYS:
            since = 0.0 if days is None else now - days * DAY_S
            rows = reader.rows(f"figures of {of}", sql, since)
            turns, candidates, hits = map(int, rows[0] if rows else (0, 0, 0))
            yield HitRate(of=of, days=days, asked=turns, candidates=candidates, hits=hits)

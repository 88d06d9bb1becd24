"""What the cache of a store holds, how much of it a turn can use, and how often it saved a call.

Each part is read by itself: one that cannot be read is named, and the others are still shown. Rows that make no sense
count as rows. Trade-off: it reads every page once, about a second for a gigabyte.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from sqlite3 import Connection
from typing import Any, TypeVar

from msgspec import Struct

from xscore.cache.prune import JUDGMENT_COUNTS, JudgedTurn, is_indexed, judge_names, judged_turns
from xscore.platform.clock import DAY_S
from xscore.platform.errors import StoreError

T = TypeVar("T")
HIT_RATE_DAYS = (None, 7, 30)
"""Days back; None: all time."""
_TABLE_NAMES = {
    "judgment": "judgments",
    "reason": "reasons",
    "content": "contents",
    "query": "turns",
    "untrusted_score": "hearsay",
}
_SIZES = (
    "SELECT tbl_name, sum(pgsize) FROM dbstat JOIN sqlite_master USING (name) WHERE dbstat.aggregate = TRUE GROUP BY 1"
)
_HITS = {
    "turns": """
        SELECT count(*), total(candidates), total(cached + carried) FROM turn_figures JOIN turn ON turn.id = turn_id
        WHERE is_model = 1 AND started_at >= ?
    """,
    "jobs": "SELECT count(*), total(candidates), total(cached) FROM job WHERE created_at >= ?",
}


class JudgeShare(Struct, frozen=True, kw_only=True):
    """Judgments of one judge."""

    judge: str
    """Judge key."""
    name: str
    """`provider:model`; empty: no turn here knows it."""
    is_configured: bool
    """Whether the next turn would find them."""
    turns: int
    judgments: int
    used_at: float | None
    """When one of its turns was last asked, Unix seconds; None: never here."""


class HitRate(Struct, frozen=True, kw_only=True):
    """How much the cache knew of what was asked."""

    of: str
    """`turns`, or `jobs` when they were planned."""
    days: int | None
    """Days back; None: all time."""
    asked: int
    """Turns or jobs."""
    candidates: int
    hits: int


class CacheStats(Struct, frozen=True, kw_only=True):
    """What the cache holds."""

    judgments: int
    turns: int
    """Turns by one judge."""
    contents: int
    reasons: int
    hearsay: int
    """Quarantined scores."""
    unreachable: int
    """Judgments of contents that no memory shows any more; 0 where nothing is indexed, as it is not known then."""
    parts_needed: int
    """Judgments of parts of memories too large for one pack, where such a memory is not judged as a whole yet."""
    parts_spare: int
    """Those of the turns that have judged all such memories."""
    is_indexed: bool
    """Whether the repository was indexed here."""
    judges: tuple[JudgeShare, ...]
    """Most judgments first."""
    bytes: int
    """Of the store's files."""
    free_bytes: int
    """Of them, what `prune --vacuum` frees."""
    parts: dict[str, int] | None
    """About how many bytes each part takes; None: unknown, as in an encrypted store."""
    hit_rates: tuple[HitRate, ...]
    unreadable: tuple[str, ...]
    """Parts that could not be read: the store is damaged."""

    @property
    def of_other_judges(self) -> int:
        """Judgments that the next turn would not find, since another judge is configured."""
        return sum(one.judgments for one in self.judges if not one.is_configured)


def cache_stats(connection: Connection, path: Path, *, judge: str | None, now: float) -> CacheStats:
    """Read the cache of this store. path: of its file. judge: key of the configured judge. now: Unix seconds."""
    reader = _TolerantReader(connection)
    counts = {row[0]: row[1:] for row in reader.rows("judgments", JUDGMENT_COUNTS)}
    judgments, parts = sum(row[0] for row in counts.values()), sum(int(row[2]) for row in counts.values())
    needed = sum(int(parts) for _, _, parts, is_needed in counts.values() if is_needed)
    shown, indexed = sum(int(row[1]) for row in counts.values()), reader.read("memories", is_indexed, False)
    return CacheStats(
        judgments=judgments,
        turns=reader.count("query"),
        contents=reader.count("content"),
        reasons=reader.count("reason"),
        hearsay=reader.count("untrusted_score"),
        unreachable=judgments - shown - parts if indexed else 0,
        parts_needed=needed if indexed else parts,
        parts_spare=parts - needed if indexed else 0,
        is_indexed=indexed,
        judges=tuple(_judges(reader, {query: row[0] for query, row in counts.items()}, judge)),
        bytes=sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*")),
        free_bytes=reader.pragma("freelist_count") * reader.pragma("page_size"),
        parts=_bytes_by_part(reader) if path.exists() else {},
        hit_rates=tuple(_hit_rates(reader, now=now)),
        unreadable=tuple(dict.fromkeys(reader.unreadable)),
    )


class _TolerantReader:
    """Reads part by part, and remembers which could not be read."""

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
        return self.read(part, lambda connection: connection.execute(sql, parameters).fetchall(), [])

    def count(self, table: str) -> int:
        return sum(int(count) for (count,) in self.rows(_TABLE_NAMES[table], f"SELECT count(*) FROM {table}"))

    def pragma(self, name: str) -> int:
        return int(self.connection.execute(f"PRAGMA {name}").fetchone()[0])


def _judges(reader: _TolerantReader, counts: dict[int, int], configured: str | None) -> list[JudgeShare]:
    no_names: dict[str, str] = {}
    no_turns: list[JudgedTurn] = []
    names = reader.read("judges", judge_names, no_names)
    by_judge: dict[str, list[JudgedTurn]] = {}
    for turn in reader.read("judges", judged_turns, no_turns):
        by_judge.setdefault(turn.judge, []).append(turn)
    found = [
        JudgeShare(
            judge=judge,
            name=names.get(judge, ""),
            is_configured=judge == configured,
            turns=len(turns),
            judgments=sum(counts.get(turn.query, 0) for turn in turns),
            used_at=max((turn.used_at for turn in turns if turn.used_at is not None), default=None),
        )
        for judge, turns in by_judge.items()
    ]
    return sorted(found, key=lambda one: (-one.judgments, one.judge))


def _bytes_by_part(reader: _TolerantReader) -> dict[str, int] | None:
    """Add up the pages of each part; None where this SQLite cannot."""
    if not reader.rows("sizes", "SELECT 1 FROM pragma_module_list WHERE name = 'dbstat'"):
        return None
    found = dict.fromkeys((*_TABLE_NAMES.values(), "other"), 0)
    for table, size in reader.rows("sizes", _SIZES):
        found[_TABLE_NAMES.get(table, "other")] += int(size)
    return found


def _hit_rates(reader: _TolerantReader, *, now: float) -> Iterator[HitRate]:
    for of, sql in _HITS.items():
        for days in HIT_RATE_DAYS:
            rows = reader.rows(f"figures of {of}", sql, 0.0 if days is None else now - days * DAY_S)
            asked, candidates, hits = rows[0] if rows else (0, 0, 0)
            yield HitRate(of=of, days=days, asked=int(asked), candidates=int(candidates), hits=int(hits))

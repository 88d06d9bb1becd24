"""Remove judgments that no turn can use again, and on demand those of old turns, of other judges, beyond a cap.

It decides nothing about truth: an edited memory's old judgments are right, only useless unless the edit is undone. What
a running turn or open job needs stays, whatever was asked; all quarantined scores go. A judgment has no date and a
judge key no name: both come from the turns and jobs that asked. Trade-off: deleted rows are overwritten
(`secure_delete`), which takes time, and the file keeps its size until `vacuum_store`.
"""

import json
import math
import time
from collections.abc import Sequence
from sqlite3 import Connection
from typing import NamedTuple

from msgspec import Struct

from xscore.cache import judgments
from xscore.platform import database
from xscore.platform.errors import NothingMatched, UsageError
from xscore.platform.processes import is_process_at_work
from xscore.records import Layer

MAX_JUDGMENTS = 2_000_000
"""About 76 MB."""
JUDGMENT_BYTES = 60
"""About what a judgment takes, with its share of contents and reasons."""
SHORTEST_KEY = 8
"""Characters of a judge key that name it."""
MIN_SPLIT_TOKENS = 200
"""No smaller memory is judged in parts: the smallest pack that can be set (`judge.pack_tokens`)."""
IS_PART = "memories = 0 AND substr(pack, 1, 18) = 'w_' || substr(hash, 1, 16)"
"""Of a row of `judgment` and its `content`: a part of a memory too large for one pack has a pack named by it.

A part is needed until its turn has judged the whole memory. It does not say whose it is, so the parts of a turn stay as
long as any memory large enough to be cut is not judged for it.
"""
JUDGMENT_COUNTS = f"""
    WITH large AS MATERIALIZED (
        SELECT shown.id AS shown, told.id AS told FROM memory
        JOIN content AS shown ON shown.hash = content_hash JOIN content AS told ON told.hash = text_hash
        WHERE max(tokens, text_tokens) > {MIN_SPLIT_TOKENS}
    ), counted AS (
        SELECT query_id AS query, count(*) AS judgments, total(memories > 0) AS shown, total({IS_PART}) AS parts
        FROM judgment LEFT JOIN content ON content.id = content_id GROUP BY query_id
    )
    SELECT query, judgments, shown, parts, parts > 0 AND EXISTS (
        SELECT 1 FROM large WHERE NOT EXISTS (
            SELECT 1 FROM judgment WHERE query_id = query AND content_id IN (large.shown, large.told)))
    FROM counted
"""
"""By turn and judge: judgments, those of contents that a memory shows, those of parts, whether the parts are needed."""
_INDEXED = """
    SELECT EXISTS (SELECT 1 FROM meta WHERE key = 'index_profile') OR EXISTS (SELECT 1 FROM file)
        OR EXISTS (SELECT 1 FROM memory WHERE layer IN (?, ?))
"""
_ASKED = """
    SELECT turn_key, judge, started_at FROM turn
    UNION ALL SELECT turn_key, judge, created_at FROM job_question JOIN job ON job.id = job
"""
_NAMES = """
    SELECT turn.judge, turn_figures.judge FROM turn JOIN turn_figures ON turn_id = turn.id WHERE is_model = 1
    UNION SELECT judge, judge_spec FROM job
"""
_RUNNING = """
    SELECT turn_key, judge, json_extract(context, '$.process'), started_at FROM turn WHERE state = 'running'
"""
_OF_JOBS = """
    SELECT turn_key, judge FROM job_question JOIN job ON job.id = job WHERE ended_at IS NULL
"""
_BATCH = 20_000
_OF_TURN = "FROM judgment WHERE query_id = ?"
_GONE = " AND NOT EXISTS (SELECT 1 FROM content WHERE id = content_id AND memories > 0)"
_PART = f" AND EXISTS (SELECT 1 FROM content WHERE id = content_id AND {IS_PART})"
_UNREACHABLE = f"DELETE {_OF_TURN}{_GONE}{_PART.replace('EXISTS', 'NOT EXISTS', 1)}"
_PARTS = f"DELETE {_OF_TURN}{_PART}"
_USELESS = """
    SELECT count(*) FROM content WHERE memories = 0 AND id NOT IN (
        SELECT content_id FROM judgment WHERE query_id IN (SELECT value FROM json_each(?)))
"""
_REMOVE_USELESS = """
    DELETE FROM content WHERE id IN (
        SELECT id FROM content WHERE memories = 0 AND id NOT IN (SELECT content_id FROM judgment) LIMIT ?)
"""


class JudgedTurn(Struct, frozen=True):
    """What judgments are filed under."""

    query: int
    turn_key: str
    judge: str
    """Judge key."""
    sample: int
    used_at: float | None
    """Unix seconds; None: no turn or job here has asked for it."""


class PruneOptions(Struct, frozen=True, kw_only=True):
    """What to remove beside what is unreachable."""

    max_judgments: int = MAX_JUDGMENTS
    unused_since: float | None = None
    """Unix seconds; judgments of turns last asked before it go, where that is known."""
    judges: Sequence[str] = ()
    """Names or beginnings of judge keys (`find_judge_keys`); theirs go."""


class PruneResult(Struct):
    """What was removed, or would be."""

    unreachable: int = 0
    """Judgments of contents that no memory shows any more."""
    over_cap: int = 0
    """Judgments of the turns longest unused, beyond the cap."""
    contents: int = 0
    """Contents that neither a memory nor a judgment uses."""
    unused: int = 0
    """Judgments of turns that were not asked for long enough."""
    of_judges: int = 0
    """Judgments of the named judges."""
    hearsay: int = 0
    """Quarantined scores."""
    parts: int = 0
    """Judgments of parts of memories that are judged as a whole."""
    needed_now: int = 0
    """Judgments that would have gone too, but a running turn or open job needs them."""

    @property
    def judgments(self) -> int:
        """All judgments that go."""
        return self.unreachable + self.parts + self.reachable

    @property
    def reachable(self) -> int:
        """Those of them that a turn could have used again."""
        return self.over_cap + self.unused + self.of_judges

    def add(self, cause: str, count: int) -> None:
        """Count judgments under the field that is named."""
        setattr(self, cause, getattr(self, cause) + count)


class _TurnCount(NamedTuple):
    judgments: int
    usable: int
    spare_parts: int
    """Judgments of parts that are not needed any more."""


class _PrunePlan(NamedTuple):
    removed: list[tuple[JudgedTurn, str, int]]
    """Turns with the field of `PruneResult` under which they go as a whole (empty: only what is of no use), and their
    judgments of parts that are not needed."""
    kept: list[int]
    """Turns that something running needs."""
    result: PruneResult


def is_indexed(connection: Connection) -> bool:
    """Whether the repository was indexed here, empty or not: before that no judgment's memory is known."""
    (found,) = connection.execute(_INDEXED, (Layer.GRAPH, Layer.VECTOR)).fetchone()
    return bool(found)


def judged_turns(connection: Connection) -> list[JudgedTurn]:
    """Return every turn by a judge that judgments may be filed under; a row that makes no sense is skipped."""
    asked: dict[tuple[object, object], float] = {}
    for turn_key, judge, at in connection.execute(_ASKED):
        asked[turn_key, judge] = max(asked.get((turn_key, judge), 0.0), _unix_time(at))
    rows = connection.execute("SELECT id, turn_key, judge, sample FROM query ORDER BY id").fetchall()
    return [
        JudgedTurn(query, turn_key, judge, sample, asked.get((turn_key, judge)))
        for query, turn_key, judge, sample in rows
        if isinstance(turn_key, str) and isinstance(judge, str) and isinstance(sample, int)
    ]


def judge_names(connection: Connection) -> dict[str, str]:
    """Return judge key -> `provider:model`, where a turn or job knows it; a script is called `scripted`."""
    found: dict[str, str] = {}
    for judge, name in connection.execute(_NAMES).fetchall():
        if isinstance(judge, str) and isinstance(name, str) and name:
            found[judge] = "scripted" if name.startswith("scripted:") else name
    return found


def find_judge_keys(connection: Connection, wanted: Sequence[str]) -> frozenset[str]:
    """Return the keys of the judges given by name or by at least 8 characters of a key.

    Raises UsageError for a shorter key, NothingMatched for no judge of this store.
    """
    names = judge_names(connection)
    keys = {judge for (judge,) in connection.execute("SELECT DISTINCT judge FROM query")}
    keys = {judge for judge in keys if isinstance(judge, str)} | names.keys()
    found: set[str] = set()
    for one in wanted:
        is_key = len(one) >= SHORTEST_KEY
        meant = {judge for judge in keys if (one and one == names.get(judge)) or (is_key and judge.startswith(one))}
        if not meant and not is_key and ":" not in one:
            raise UsageError(
                f"{one!r} names no judge: it is too short for a key",
                hint=f"Give its whole name, or {SHORTEST_KEY} characters of its key: `xscore store cache` has both.",
            )
        if not meant:
            raise NothingMatched(f"no judge here is {one!r}", hint="`xscore store cache` names the judges.")
        found |= meant
    return frozenset(found)


def preview_prune(connection: Connection, sweep: PruneOptions, *, now: float) -> PruneResult:
    """Return what `prune_judgments` would remove, and remove nothing. Raises what it does. now: Unix seconds."""
    with database.read_snapshot(connection):
        plan = _plan(connection, sweep, now=now)
        (plan.result.contents,) = connection.execute(_USELESS, (json.dumps(plan.kept),)).fetchone()
        plan.result.hearsay = judgments.count_untrusted(connection)
        return plan.result


def prune_judgments(
    connection: Connection, sweep: PruneOptions | None = None, *, now: float | None = None
) -> PruneResult:
    """Remove what is unreachable, then what else was asked for; the turns longest unused go first.

    Works in short transactions, so that others can write in between, and in each checks again whether something that
    began meanwhile needs the turn; an interrupted run has lost nothing else. now: Unix seconds.
    Raises UsageError where nothing is indexed; that or NothingMatched for an unknown judge.
    """
    now = time.time() if now is None else now
    plan = _plan(connection, sweep or PruneOptions(), now=now)
    done = PruneResult(needed_now=plan.result.needed_now)
    for turn, cause, spare_parts in plan.removed:
        with database.transaction(connection):
            if _pairs_in_use(connection, now=now, of=turn):
                kept = f"SELECT count(*) {_OF_TURN}{'' if cause else _GONE}"
                done.needed_now += int(connection.execute(kept, (turn.query,)).fetchone()[0])
                continue
            done.unreachable += connection.execute(_UNREACHABLE, (turn.query,)).rowcount
            if spare_parts:
                done.parts += connection.execute(_PARTS, (turn.query,)).rowcount
            if cause:
                done.add(cause, connection.execute(f"DELETE {_OF_TURN}", (turn.query,)).rowcount)
                connection.execute("DELETE FROM query WHERE id = ?", (turn.query,))
    with database.transaction(connection):
        done.hearsay = judgments.drop_untrusted(connection)
    last = _BATCH
    while last:
        with database.transaction(connection):
            last = connection.execute(_REMOVE_USELESS, (_BATCH,)).rowcount
        done.contents += last
    return done


def vacuum_store(connection: Connection) -> None:
    """Write the file again without its free pages. Raises StoreError where another process uses it."""
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _plan(connection: Connection, sweep: PruneOptions, *, now: float) -> _PrunePlan:
    needed, judges = _pairs_in_use(connection, now=now), find_judge_keys(connection, sweep.judges)
    plan, staying = _PrunePlan([], [], PruneResult()), list[JudgedTurn]()
    counts = _count_turns(connection)
    nothing = _TurnCount(0, 0, 0)
    surplus = -sweep.max_judgments
    for turn in judged_turns(connection):
        count = counts.get(turn.query, nothing)
        cause = _cause(turn, sweep, judges)
        if (turn.turn_key, turn.judge) in needed:
            plan.kept.append(turn.query)
            plan.result.needed_now += count.judgments - (0 if cause else count.usable)
            surplus += count.judgments
            continue
        plan.result.unreachable += count.judgments - count.usable - count.spare_parts
        plan.result.parts += count.spare_parts
        if cause or not count.usable:
            plan.removed.append((turn, cause or "unused", count.spare_parts))
            plan.result.add(cause or "unused", count.usable)
        else:
            staying.append(turn)
            surplus += count.usable
    partly = []
    for turn in sorted(staying, key=lambda turn: (turn.used_at or 0.0, turn.query)):
        count = counts[turn.query]
        if surplus > 0:
            plan.removed.append((turn, "over_cap", count.spare_parts))
            plan.result.over_cap += count.usable
            surplus -= count.usable
        else:
            partly.append((turn, "", count.spare_parts))
    plan.removed[:0] = partly
    return plan


def _count_turns(connection: Connection) -> dict[int, _TurnCount]:
    found = {
        query: _TurnCount(count, int(shown + parts * needs_parts), 0 if needs_parts else int(parts))
        for query, count, shown, parts, needs_parts in connection.execute(JUDGMENT_COUNTS).fetchall()
    }
    if found and not is_indexed(connection):
        raise UsageError(
            "nothing is indexed here yet, so no judgment's memory is known", hint="Run `xscore index` first."
        )
    return found


def _cause(turn: JudgedTurn, sweep: PruneOptions, judges: frozenset[str]) -> str:
    """Return the field under which all judgments of a turn go; empty: they do not."""
    if turn.judge in judges:
        return "of_judges"
    if sweep.unused_since is not None and turn.used_at is not None and turn.used_at < sweep.unused_since:
        return "unused"
    return ""


def _pairs_in_use(connection: Connection, *, now: float, of: JudgedTurn | None = None) -> set[tuple[str, str]]:
    """Return turn key and judge key of what running turns and open jobs need. of: look at this one alone, faster."""
    only, names = (" AND turn_key = ? AND judge = ?", (of.turn_key, of.judge)) if of else ("", ())
    running = connection.execute(_RUNNING + only, names).fetchall()
    found = {
        (turn_key, judge)
        for turn_key, judge, process, at in running
        if isinstance(process, str) and is_process_at_work(process, age_s=now - _unix_time(at))
    }
    return found | set(connection.execute(_OF_JOBS + only, names).fetchall())


def _unix_time(at: object) -> float:
    """Return Unix seconds; 0 for what is no time."""
    return float(at) if isinstance(at, int | float) and math.isfinite(at) else 0.0

"""Remove judgments that no turn can use again, and on demand those of old turns, of other judges,
beyond a cap.

Correctness never depends on it: an edited memory's old judgments are right, but useless unless the
edit is undone. Judgments that a running turn or open job needs always stay; all quarantined scores
are removed. A judgment has no date and a judge key no name: both come from turns and jobs.
Trade-off: deleted rows are overwritten (`secure_delete`), which takes time, and the file keeps its
size until `vacuum_store`.
"""

import json
import math
import time
from collections.abc import Sequence
from sqlite3 import Connection

from msgspec import Struct

from xscore.cache import judgment_store
from xscore.platform import database
from xscore.platform.errors import NothingMatched, UsageError
from xscore.platform.processes import is_process_at_work
from xscore.records.memory import Layer
from xscore.store.index_rows import files_left
from xscore.store.purposes import described_contents

MAX_JUDGMENTS = 2_000_000
"""Judgments kept by default: about 76 MB."""
JUDGMENT_BYTES = 60
"""Approximate size of a judgment, with its share of contents and reasons."""
SHORTEST_KEY = 8
"""Fewest characters of a judge key that identify it."""
MIN_SPLIT_TOKENS = 200
"""Size of the smallest pack that can be set (`judge.pack_tokens`); no smaller memory is judged
in parts."""
_IS_SHOWN = "(memories > 0 OR hash IN (SELECT value FROM json_each(?1)))"
"""SQL: whether a content is that of a memory. Its parameter is a JSON list of the contents that
are shown with the purpose of their file (`described_contents`)."""
_IS_PART = f"NOT {_IS_SHOWN} AND substr(pack, 1, 18) = 'w_' || substr(hash, 1, 16)"
"""SQL: whether a row of `judgment` is for a part of a memory too large for one pack (its pack is
named after it).

A part is needed until its turn has judged the whole memory. A part does not name its memory, so the
parts of a turn stay while any memory large enough to be split is not judged for it.
"""
# One query, since it holds all judgments against all contents; so it reads the views itself.
_JUDGMENT_COUNTS = f"""
    WITH large AS MATERIALIZED (
        SELECT memory, max(tokens) AS tokens, json_group_array(content.id) AS contents
        FROM memory_view JOIN content USING (hash) WHERE worktree = 0 GROUP BY memory
        HAVING max(tokens) > {MIN_SPLIT_TOKENS}
    ), counted AS (
        SELECT query_id AS query, count(*) AS judgments, total({_IS_SHOWN}) AS shown,
          total({_IS_PART}) AS parts
        FROM judgment LEFT JOIN content ON content.id = content_id GROUP BY query_id
    )
    SELECT query, judgments, shown, parts, parts > 0 AND EXISTS (
        SELECT 1 FROM large WHERE NOT EXISTS (
            SELECT 1 FROM judgment WHERE query_id = query
              AND content_id IN (SELECT value FROM json_each(large.contents))))
    FROM counted
"""
"""Counts by turn and judge: all judgments, those of contents that a memory has, those of parts,
and whether the parts are needed."""
_INDEXED = """
    SELECT EXISTS (SELECT 1 FROM worktree_meta WHERE key = 'index_profile')
      OR EXISTS (SELECT 1 FROM file_row)
        OR EXISTS (SELECT 1 FROM memory_row WHERE layer IN (?, ?) AND source = 'index')
"""
_ASKED = """
    SELECT turn_key, judge, started_at FROM turn
    UNION ALL SELECT turn_key, judge, created_at FROM job_question JOIN job ON job.id = job
"""
_NAMES = """
    SELECT turn.judge, turn_figures.judge FROM turn JOIN turn_figures ON turn_id = turn.id
      WHERE is_model = 1
    UNION SELECT judge, judge_spec FROM job
"""
_RUNNING = """
    SELECT turn_key, judge, json_extract(context, '$.process'), started_at FROM turn
      WHERE state = 'running'
"""
_OF_JOBS = """
    SELECT turn_key, judge FROM job_question JOIN job ON job.id = job WHERE ended_at IS NULL
"""
_OF_PAIR = " AND turn_key = ? AND judge = ?"
_BATCH = 20_000
_OF_TURN = "FROM judgment WHERE query_id = ?2"
_GONE = f" AND NOT EXISTS (SELECT 1 FROM content WHERE id = content_id AND {_IS_SHOWN})"
_PART = f" AND EXISTS (SELECT 1 FROM content WHERE id = content_id AND {_IS_PART})"
_USELESS = """
    SELECT count(*) FROM content WHERE memories = 0 AND id NOT IN (
        SELECT content_id FROM judgment WHERE query_id IN (SELECT value FROM json_each(?2)))
      AND NOT (id IN (SELECT content_id FROM judgment)
        AND hash IN (SELECT value FROM json_each(?1)))
"""
_REMOVE_USELESS = """
    DELETE FROM content WHERE id IN (
        SELECT id FROM content WHERE memories = 0 AND id NOT IN (SELECT content_id FROM judgment)
          LIMIT ?)
"""


class JudgedTurn(Struct, frozen=True):
    """A turn and judge with judgments."""

    query: int
    turn_key: str
    judge: str
    """Judge key."""
    draw: int
    used_at: float | None
    """Unix seconds; None: no turn or job here asked for it."""


class PruneOptions(Struct, frozen=True, kw_only=True):
    """What to remove besides unreachable judgments."""

    max_judgments: int = MAX_JUDGMENTS
    unused_since: float | None = None
    """Unix seconds; remove judgments of turns last asked before then."""
    judges: Sequence[str] = ()
    """Judges whose judgments are removed: names or key prefixes (`find_judge_keys`)."""


class PruneResult(Struct):
    """What was removed, or would be: judgments, except `contents` and `quarantined`."""

    unreachable: int = 0
    """Judgments of contents that no memory has any more."""
    over_cap: int = 0
    """Judgments of the least recently used turns, beyond the cap."""
    contents: int = 0
    """Contents that neither a memory nor a judgment uses."""
    unused: int = 0
    """Judgments of turns not asked since `unused_since`."""
    of_judges: int = 0
    quarantined: int = 0
    """Quarantined scores."""
    parts: int = 0
    """Judgments of parts of memories that are judged as a whole."""
    needed_now: int = 0
    """Judgments kept because a running turn or open job needs them."""

    @property
    def judgments(self) -> int:
        """All judgments removed."""
        return self.unreachable + self.parts + self.reachable

    @property
    def reachable(self) -> int:
        """Removed judgments that a turn could have used again."""
        return self.over_cap + self.unused + self.of_judges


class _TurnPlan(Struct):
    """What to remove of the judgments of one turn."""

    turn: JudgedTurn
    usable: int = 0
    spare_parts: int = 0
    """Judgments of parts that are not needed any more."""
    useless: int = 0
    """The other judgments to remove: those of contents that no memory has."""
    is_needed: bool = False
    cause: str = ""
    """Field of `PruneResult` that counts the usable judgments; empty if they stay."""

    def count(self, result: PruneResult) -> None:
        """Add this turn to the result."""
        if self.is_needed:
            usable = self.usable if self.cause else 0
            result.needed_now += self.useless + self.spare_parts + usable
            return
        result.unreachable += self.useless
        result.parts += self.spare_parts
        if self.cause:
            setattr(result, self.cause, getattr(result, self.cause) + self.usable)


def is_indexed(connection: Connection) -> bool:
    """Whether the repository was ever indexed here; before that, no judgment's memory is known."""
    (is_there,) = connection.execute(_INDEXED, (Layer.GRAPH, Layer.VECTOR)).fetchone()
    return bool(is_there)


def judged_turns(connection: Connection) -> list[JudgedTurn]:
    """Return every turn and judge with judgments; invalid rows are skipped."""
    asked_at: dict[tuple[object, object], float] = {}
    for turn_key, judge, at in connection.execute(_ASKED):
        asked_at[turn_key, judge] = max(asked_at.get((turn_key, judge), 0.0), _unix_time(at))
    rows = connection.execute(
        "SELECT id, turn_key, judge, sample FROM query ORDER BY id"
    ).fetchall()
    return [
        JudgedTurn(query, turn_key, judge, draw, asked_at.get((turn_key, judge)))
        for query, turn_key, judge, draw in rows
        if isinstance(turn_key, str) and isinstance(judge, str) and isinstance(draw, int)
    ]


def judge_names(connection: Connection) -> dict[str, str]:
    """Return judge key -> `provider:model`, as far as turns and jobs know it; a script is
    `scripted`."""
    names: dict[str, str] = {}
    for judge, name in connection.execute(_NAMES).fetchall():
        if isinstance(judge, str) and isinstance(name, str) and name:
            names[judge] = "scripted" if name.startswith("scripted:") else name
    return names


def find_judge_keys(connection: Connection, judges: Sequence[str]) -> frozenset[str]:
    """Return the keys of the judges given by name or by at least 8 characters of a key.

    Raises UsageError for a shorter key, NothingMatched for no judge of this store.
    """
    names = judge_names(connection)
    keys = {judge for (judge,) in connection.execute("SELECT DISTINCT judge FROM query")}
    keys = {judge for judge in keys if isinstance(judge, str)} | names.keys()
    meant: set[str] = set()
    for judge in judges:
        is_key = len(judge) >= SHORTEST_KEY
        matching = {key for key in keys if judge and judge == names.get(key)}
        if is_key:
            matching |= {key for key in keys if key.startswith(judge)}
        if not matching and not is_key and ":" not in judge:
            raise UsageError(
                f"{judge!r} is not a judge: it is too short for a key",
                hint=(
                    f"Give its full name, or at least {SHORTEST_KEY} characters of its key;"
                    " `xscore store cache` lists both."
                ),
            )
        if not matching:
            raise NothingMatched(
                f"this store has no judge {judge!r}",
                hint="`xscore store cache` lists the judges.",
            )
        meant |= matching
    return frozenset(meant)


def preview_prune(connection: Connection, sweep: PruneOptions, *, now: float) -> PruneResult:
    """Return what `prune_judgments` would remove. Raises the same errors."""
    result = PruneResult()
    with database.read_snapshot(connection):
        plan = _plan(connection, sweep, now=now)
        for turn_plan in plan:
            turn_plan.count(result)
        kept = [turn_plan.turn.query for turn_plan in plan if turn_plan.is_needed]
        lists = (_described_list(connection), json.dumps(kept))
        (result.contents,) = connection.execute(_USELESS, lists).fetchone()
        result.quarantined = judgment_store.count_untrusted(connection)
    return result


def prune_judgments(
    connection: Connection, sweep: PruneOptions | None = None, *, now: float | None = None
) -> PruneResult:
    """Remove unreachable judgments, then those selected by `sweep`, least recently used turns
    first.

    Works in short transactions, so that others can write in between; each checks again whether a
    running turn needs the judgments, so it can be interrupted at any time.
    Raises UsageError if not everything is indexed, UsageError or NothingMatched for an unknown
    judge.
    """
    now = time.time() if now is None else now
    result = PruneResult()
    described = _described_list(connection)
    for turn_plan in _plan(connection, sweep or PruneOptions(), now=now):
        with database.transaction(connection):
            # Asked again: a turn may have begun since the plan was made.
            if _pairs_in_use(connection, now=now, of=turn_plan.turn):
                turn_plan.is_needed = True
            if not turn_plan.is_needed:
                _remove(connection, turn_plan, described)
            turn_plan.count(result)
    with database.transaction(connection):
        result.quarantined = connection.execute("DELETE FROM untrusted_score").rowcount
    removed = _BATCH
    while removed:
        with database.transaction(connection):
            removed = connection.execute(_REMOVE_USELESS, (_BATCH,)).rowcount
        result.contents += removed
    return result


def count_judgments(connection: Connection) -> list[tuple[int, int, int, int, int]]:
    """Return turn and judge (`JudgedTurn.query`), its judgments, those of contents that a memory
    has, those of parts, and whether the parts are needed."""
    return connection.execute(_JUDGMENT_COUNTS, (_described_list(connection),)).fetchall()


def _described_list(connection: Connection) -> str:
    return json.dumps(described_contents(connection))


def _remove(connection: Connection, turn_plan: _TurnPlan, described: str) -> None:
    of_turn = (described, turn_plan.turn.query)
    if turn_plan.cause or not turn_plan.usable:
        connection.execute(f"DELETE {_OF_TURN}", of_turn)
        connection.execute("DELETE FROM query WHERE id = ?", (turn_plan.turn.query,))
        return
    if turn_plan.useless:
        connection.execute(
            f"DELETE {_OF_TURN}{_GONE}{_PART.replace('EXISTS', 'NOT EXISTS', 1)}", of_turn
        )
    if turn_plan.spare_parts:
        connection.execute(f"DELETE {_OF_TURN}{_PART}", of_turn)


def vacuum_store(connection: Connection) -> None:
    """Rewrite the file without free pages. Raises StoreError if another process uses it."""
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _plan(connection: Connection, sweep: PruneOptions, *, now: float) -> list[_TurnPlan]:
    """Plan every turn, least recently used first."""
    needed = _pairs_in_use(connection, now=now)
    judges = find_judge_keys(connection, sweep.judges)
    counts = {query: counted for query, *counted in count_judgments(connection)}
    if counts:
        _refuse_unindexed(connection)
    plan: list[_TurnPlan] = []
    surplus = -sweep.max_judgments
    turns = judged_turns(connection)
    for turn in sorted(turns, key=lambda turn: (turn.used_at or 0.0, turn.query)):
        count, shown, parts, needs_parts = counts.get(turn.query, (0, 0, 0, 0))
        usable = int(shown + parts * needs_parts)
        spare = 0 if needs_parts else int(parts)
        is_needed = (turn.turn_key, turn.judge) in needed
        turn_plan = _TurnPlan(turn, usable, spare, count - usable - spare, is_needed)
        if turn.judge in judges:
            turn_plan.cause = "of_judges"
        elif _is_unused(turn, sweep):
            turn_plan.cause = "unused"
        plan.append(turn_plan)
        # What is needed stays whole; only the usable judgments of the others count against the
        # cap.
        if is_needed:
            surplus += count
        elif not turn_plan.cause:
            surplus += usable
    for turn_plan in plan:
        if surplus > 0 and turn_plan.usable and not (turn_plan.cause or turn_plan.is_needed):
            turn_plan.cause = "over_cap"
            surplus -= turn_plan.usable
    return plan


def _refuse_unindexed(connection: Connection) -> None:
    """Raise UsageError while not every judgment's memory is known: all would seem unreachable."""
    if not is_indexed(connection):
        raise UsageError(
            "nothing is indexed here yet, so it is not known which judgments are still of use",
            hint="Run `xscore index` first.",
        )
    # Files may be left by a first run that was stopped, or since the store was migrated.
    if files_left(connection):
        raise UsageError(
            "the index is still being built, so it is not yet known which judgments are of use",
            hint="Run `xscore index` first.",
        )


def _is_unused(turn: JudgedTurn, sweep: PruneOptions) -> bool:
    if sweep.unused_since is None or turn.used_at is None:
        return False
    return turn.used_at < sweep.unused_since


def _pairs_in_use(
    connection: Connection, *, now: float, of: JudgedTurn | None = None
) -> set[tuple[str, str]]:
    """Return the (turn key, judge key) pairs that running turns and open jobs need. of: check only
    this one."""
    condition, names = ("", ()) if of is None else (_OF_PAIR, (of.turn_key, of.judge))
    pairs: set[tuple[str, str]] = set()
    running = connection.execute(_RUNNING + condition, names).fetchall()
    for turn_key, judge, process, at in running:
        if isinstance(process, str) and is_process_at_work(process, age_s=now - _unix_time(at)):
            pairs.add((turn_key, judge))
    return pairs | set(connection.execute(_OF_JOBS + condition, names).fetchall())


def _unix_time(at: object) -> float:
    """Return Unix seconds; 0 for an invalid time."""
    if isinstance(at, int | float) and math.isfinite(at):
        return float(at)
    return 0.0

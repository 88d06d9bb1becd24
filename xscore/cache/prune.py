"""Which judgments a turn can use again: of contents that a memory shows, and of parts whose memory still needs them.

A memory too large for one pack is judged in parts, under hashes that no memory shows. They are of use until the turn
has judged the whole memory, and to spare then. Trade-off: a part does not say whose it is, so the parts of a turn are
kept as long as there is any memory it has not judged that is large enough to be cut.

Which turns the judgments of a store belong to: when each was last asked, by whom, and whether it is needed just now.

A judgment bears no date and a judge key tells no name; both come from the turns and jobs that asked. Trade-off: what
came by an import has neither until someone here asks the same.

Sweep judgments that nothing can reach any more, and on demand those of old turns, of other judges, beyond a cap.

It decides nothing about truth: an edited memory's old judgments are right, only useless unless the edit is undone. What
a turn or a job under way rests on stays, whatever was asked. It runs when asked, and all that is in quarantine goes
with it. Trade-off: deleted rows are overwritten (`secure_delete`), which costs time, and the file keeps its size for
the next judgments until it is shrunk (`shrink`).
"""

import json
import math
import time
from collections import Counter
from collections.abc import Sequence
from sqlite3 import Connection

from msgspec import Struct, field

from xscore.cache import judgments
from xscore.platform import database
from xscore.platform.errors import NothingMatched, UsageError
from xscore.platform.processes import is_process_at_work
from xscore.records import Layer

MIN_SPLIT_TOKENS = 200
"""No smaller memory is judged in parts: the smallest pack that can be set (`judge.pack_tokens`)."""
IS_PART = "memories = 0 AND substr(pack, 1, 18) = 'w_' || substr(hash, 1, 16)"
"""Of a row of `judgment` and its `content`: a part has a pack of its own, named by it (`scorer.draft`)."""
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
"""Turn by a judge; its judgments, those of contents that a memory shows, those of parts, whether these are needed."""
_INDEXED = "SELECT EXISTS (SELECT 1 FROM file) OR EXISTS (SELECT 1 FROM memory WHERE layer IN (?, ?))"


def is_indexed(connection: Connection) -> bool:
    """Whether the repository was indexed here: before that no judgment's memory is known."""
    (found,) = connection.execute(_INDEXED, (Layer.GRAPH, Layer.VECTOR)).fetchone()
    return bool(found)


SHORTEST_KEY = 8
"""Characters of a judge key that name it."""
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
_OF_ONE_TURN = " AND turn_key = ? AND judge = ?"


class JudgedTurn(Struct, frozen=True):
    """What judgments are filed under."""

    query: int
    turn_key: str
    judge: str
    """Judge key."""
    sample: int
    used_at: float | None
    """Unix seconds; None: no turn or job here has asked for it."""


def judged_turns(connection: Connection) -> list[JudgedTurn]:
    """Return every turn by a judge that judgments may be filed under; a row that makes no sense is passed over."""
    asked: dict[tuple[object, object], float] = {}
    for turn_key, judge, at in connection.execute(_ASKED):
        asked[turn_key, judge] = max(asked.get((turn_key, judge), 0.0), _moment(at))
    rows = connection.execute("SELECT id, turn_key, judge, sample FROM query ORDER BY id").fetchall()
    return [
        JudgedTurn(query, turn_key, judge, sample, asked.get((turn_key, judge)))
        for query, turn_key, judge, sample in rows
        if isinstance(turn_key, str) and isinstance(judge, str) and isinstance(sample, int)
    ]


def judge_names(connection: Connection) -> dict[str, str]:
    """Name the judges, `provider:model` by judge key, where a turn or job tells; of a script only that it was one."""
    found: dict[str, str] = {}
    for judge, name in connection.execute(_NAMES).fetchall():
        if isinstance(judge, str) and isinstance(name, str) and name:
            found[judge] = "scripted" if name.startswith("scripted:") else name
    return found


def turns_in_use(connection: Connection, *, now: float) -> set[tuple[str, str]]:
    """Return turn key and judge key of what jobs and turns under way rest on. now: Unix seconds."""
    running = connection.execute(_RUNNING).fetchall()
    found = {(turn_key, judge) for turn_key, judge, process, at in running if _is_at_work(process, at, now=now)}
    return found | set(connection.execute(_OF_JOBS).fetchall())


def is_turn_in_use(connection: Connection, turn: JudgedTurn, *, now: float) -> bool:
    """Say the same of one turn by a judge, which is cheaper than to ask for all."""
    one = (turn.turn_key, turn.judge)
    running = connection.execute(_RUNNING + _OF_ONE_TURN, one).fetchall()
    return any(_is_at_work(process, at, now=now) for _, _, process, at in running) or (
        connection.execute(_OF_JOBS + _OF_ONE_TURN + " LIMIT 1", one).fetchone() is not None
    )


def find_judge_keys(connection: Connection, wanted: Sequence[str]) -> frozenset[str]:
    """Return the keys of the judges that are meant, each by its name or at least 8 characters of its key.

    Raises UsageError for less of a key, NothingMatched where one means no judge of this store.
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
                hint=f"Give its whole name, or {SHORTEST_KEY} characters of its key: `xscore cache stats` has both.",
            )
        if not meant:
            raise NothingMatched(f"no judge here is {one!r}", hint="`xscore cache stats` names the judges.")
        found |= meant
    return frozenset(found)


def _is_at_work(process: object, at: object, *, now: float) -> bool:
    return isinstance(process, str) and is_process_at_work(process, age_s=now - _moment(at))


def _moment(at: object) -> float:
    """Unix seconds; 0 for what is no moment."""
    return float(at) if isinstance(at, int | float) and math.isfinite(at) else 0.0


MAX_JUDGMENTS = 2_000_000
"""About 76 MB."""
JUDGMENT_BYTES = 60
"""About what a judgment takes, with its share of contents and reasons."""
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


class PruneOptions(Struct, frozen=True, kw_only=True):
    """What is to go, beside what is unreachable."""

    max_judgments: int = MAX_JUDGMENTS
    unused_since: float | None = None
    """Unix seconds; judgments of turns that were last asked before go, where that is known."""
    judges: Sequence[str] = ()
    """Names or beginnings of judge keys (`usage.judges_meant`); theirs go."""


class PruneResult(Struct, frozen=True):
    """What a sweep removed, or would."""

    unreachable: int
    """Judgments of contents that no memory shows any more."""
    over_cap: int
    """Judgments of the turns longest unused, beyond the cap."""
    contents: int
    """Contents that neither a memory nor a judgment uses."""
    unused: int = 0
    """Judgments of turns that nobody has asked for so long."""
    of_judges: int = 0
    """Judgments of the judges that were named."""
    hearsay: int = 0
    """Scores in quarantine."""
    parts: int = 0
    """Judgments of parts of memories that are judged as a whole."""
    needed_now: int = 0
    """Judgments that would have gone too, had nothing under way rested on them."""

    @property
    def judgments(self) -> int:
        """All judgments that go."""
        return self.unreachable + self.parts + self.over_cap + self.unused + self.of_judges

    @property
    def reachable(self) -> int:
        """Those that a turn could have used again."""
        return self.judgments - self.unreachable - self.parts


class _PrunePlan(Struct):
    going: list[tuple[JudgedTurn, str]] = field(default_factory=list)
    """Those that go as a whole, with the field of `Pruned` that counts their judgments; empty: their unreachable go."""
    spare: Counter[int] = field(default_factory=Counter)
    """Judgments of parts that are to spare, by turn."""
    kept: list[int] = field(default_factory=list)
    """Those that something under way rests on."""
    counted: Counter[str] = field(default_factory=Counter)


def preview_prune(connection: Connection, sweep: PruneOptions, *, now: float) -> PruneResult:
    """Tell what `prune` would remove, and remove nothing. Raises what it does. now: Unix seconds."""
    with database.read_snapshot(connection):
        plan = _planned(connection, sweep, now=now)
        (contents,) = connection.execute(_USELESS, (json.dumps(plan.kept),)).fetchone()
        return _pruned(plan.counted, contents=contents, heard=judgments.count_untrusted(connection))


def prune_judgments(
    connection: Connection, sweep: PruneOptions | None = None, *, now: float | None = None
) -> PruneResult:
    """Remove what is unreachable, then what else was asked for; the turns longest unused go first.

    Works in short transactions, so that others can write in between, and in each looks again whether something that
    began meanwhile rests on the turn; an interrupted sweep has lost nothing else. now: Unix seconds.
    Raises UsageError where nothing is indexed; that or NothingMatched for a judge that is not known.
    """
    now = time.time() if now is None else now
    plan = _planned(connection, sweep or PruneOptions(), now=now)
    done = Counter[str](needed_now=plan.counted["needed_now"])
    for turn, cause in plan.going:
        with database.transaction(connection):
            if is_turn_in_use(connection, turn, now=now):
                done["needed_now"] += _count(connection, turn, is_whole=bool(cause))
                continue
            done["unreachable"] += connection.execute(_UNREACHABLE, (turn.query,)).rowcount
            if plan.spare[turn.query]:
                done["parts"] += connection.execute(_PARTS, (turn.query,)).rowcount
            if cause:
                done[cause] += connection.execute(f"DELETE {_OF_TURN}", (turn.query,)).rowcount
                connection.execute("DELETE FROM query WHERE id = ?", (turn.query,))
    with database.transaction(connection):
        heard = judgments.drop_untrusted(connection)
    return _pruned(done, contents=_remove_contents(connection), heard=heard)


def _count(connection: Connection, turn: JudgedTurn, *, is_whole: bool) -> int:
    """Count what would have gone of a turn."""
    ((count,),) = connection.execute(f"SELECT count(*) {_OF_TURN}{'' if is_whole else _GONE}", (turn.query,))
    return int(count)


def vacuum_store(connection: Connection) -> None:
    """Write the file anew without its free pages. Raises StoreError where another process is at work on it."""
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _planned(connection: Connection, sweep: PruneOptions, *, now: float) -> _PrunePlan:
    needed, meant = turns_in_use(connection, now=now), find_judge_keys(connection, sweep.judges)
    plan, staying = _PrunePlan(), list[JudgedTurn]()
    counts = _counts(connection, plan)
    for turn in judged_turns(connection):
        count, reachable = counts.get(turn.query, (0, 0))
        cause = _cause(turn, sweep, meant)
        if (turn.turn_key, turn.judge) in needed:
            plan.kept.append(turn.query)
            plan.counted["needed_now"] += count if cause else count - reachable
            continue
        plan.counted["unreachable"] += count - reachable - plan.spare[turn.query]
        plan.counted["parts"] += plan.spare[turn.query]
        if cause or not reachable:
            plan.going.append((turn, cause or "unused"))
            plan.counted[cause or "unused"] += reachable
        else:
            staying.append(turn)
    surplus = sum(counts.get(query, (0, 0))[0] for query in plan.kept) - sweep.max_judgments
    surplus += sum(counts[turn.query][1] for turn in staying)
    partly: list[tuple[JudgedTurn, str]] = []
    for turn in sorted(staying, key=lambda turn: (turn.used_at or 0.0, turn.query)):
        if surplus <= 0:
            partly.append((turn, ""))
            continue
        plan.going.append((turn, "over_cap"))
        plan.counted["over_cap"] += counts[turn.query][1]
        surplus -= counts[turn.query][1]
    plan.going[:0] = partly
    return plan


def _counts(connection: Connection, plan: _PrunePlan) -> dict[int, tuple[int, int]]:
    """Count each turn's judgments, and those of them that can be used again; enter in the plan what is to spare."""
    found: dict[int, tuple[int, int]] = {}
    for query, count, shown, parts, needs_parts in connection.execute(JUDGMENT_COUNTS).fetchall():
        found[query] = (count, int(shown + parts * needs_parts))
        plan.spare[query] = 0 if needs_parts else int(parts)
    if found and not is_indexed(connection):
        raise UsageError(
            "nothing is indexed here yet, so that no judgment's memory is known", hint="Run `xscore index` first."
        )
    return found


def _cause(turn: JudgedTurn, sweep: PruneOptions, meant: frozenset[str]) -> str:
    """Say why all of a turn's judgments are to go; empty: they are not."""
    if turn.judge in meant:
        return "of_judges"
    if sweep.unused_since is not None and turn.used_at is not None and turn.used_at < sweep.unused_since:
        return "unused"
    return ""


def _pruned(done: Counter[str], *, contents: int, heard: int) -> PruneResult:
    return PruneResult(
        unreachable=done["unreachable"],
        over_cap=done["over_cap"],
        contents=contents,
        unused=done["unused"],
        of_judges=done["of_judges"],
        parts=done["parts"],
        hearsay=heard,
        needed_now=done["needed_now"],
    )


def _remove_contents(connection: Connection) -> int:
    removed, last = 0, -1
    while last != 0:
        with database.transaction(connection):
            last = connection.execute(
                "DELETE FROM content WHERE id IN (SELECT id FROM content WHERE memories = 0"
                " AND id NOT IN (SELECT content_id FROM judgment) LIMIT ?)",
                (_BATCH,),
            ).rowcount
        removed += last
    return removed

"""Which turns the judgments of a store belong to: when each was last asked, by whom, and whether it is needed just now.

A judgment bears no date and a judge key tells no name; both come from the turns and jobs that asked. Trade-off: what
came by an import has neither until someone here asks the same.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from sqlite3 import Connection

from xscore.errors import NothingMatched, UsageError
from xscore.processes import is_at_work

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
    SELECT turn_key, judge, json_extract(moment, '$.life'), started_at FROM turn WHERE state = 'running'
"""
_OF_JOBS = """
    SELECT turn_key, judge FROM job_question JOIN job ON job.id = job WHERE ended_at IS NULL
"""
_ONE = " AND turn_key = ? AND judge = ?"


@dataclass(frozen=True, slots=True)
class JudgedTurn:
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


def needed_now(connection: Connection, *, now: float) -> set[tuple[str, str]]:
    """Return turn key and judge key of what jobs and turns under way rest on. now: Unix seconds."""
    running = connection.execute(_RUNNING).fetchall()
    found = {(turn_key, judge) for turn_key, judge, life, at in running if _is_at_work(life, at, now=now)}
    return found | set(connection.execute(_OF_JOBS).fetchall())


def is_needed(connection: Connection, turn: JudgedTurn, *, now: float) -> bool:
    """Say the same of one turn by a judge, which is cheaper than to ask for all."""
    one = (turn.turn_key, turn.judge)
    running = connection.execute(_RUNNING + _ONE, one).fetchall()
    return any(_is_at_work(life, at, now=now) for _, _, life, at in running) or (
        connection.execute(_OF_JOBS + _ONE + " LIMIT 1", one).fetchone() is not None
    )


def judges_meant(connection: Connection, wanted: Sequence[str]) -> frozenset[str]:
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


def _is_at_work(life: object, at: object, *, now: float) -> bool:
    return isinstance(life, str) and is_at_work(life, age_s=now - _moment(at))


def _moment(at: object) -> float:
    """Unix seconds; 0 for what is no moment."""
    return float(at) if isinstance(at, int | float) and math.isfinite(at) else 0.0

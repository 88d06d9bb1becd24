"""Which turns the judgments of a store belong to: when each was last asked, by whom, and whether it is needed just now.

A judgment bears no date and a judge key tells no name; both come from the turns and jobs that asked. Trade-off: what
came by an import has neither until someone here asks the same.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from sqlite3 import Connection

from xscore.processes import is_at_work

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
    found = {
        (turn_key, judge)
        for turn_key, judge, life, at in running
        if isinstance(life, str) and is_at_work(life, age_s=now - _moment(at))
    }
    return found | set(connection.execute(_OF_JOBS).fetchall())


def is_one_of(judge: str, names: Mapping[str, str], wanted: Sequence[str]) -> bool:
    """Whether a judge is meant by one of these: its name, or the beginning of its key."""
    return any(one == names.get(judge) or judge.startswith(one) for one in wanted)


def _moment(at: object) -> float:
    """Unix seconds; 0 for what is no moment."""
    return float(at) if isinstance(at, int | float) and math.isfinite(at) else 0.0

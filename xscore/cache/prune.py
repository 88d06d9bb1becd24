"""Sweep judgments that nothing can reach any more, and on demand those of old turns, of other judges, beyond a cap.

It decides nothing about truth: an edited memory's old judgments are right, only useless unless the edit is undone. What
a turn or a job under way rests on stays, whatever was asked. It runs when asked, and all that is in quarantine goes
with it. Trade-off: deleted rows are overwritten (`secure_delete`), which costs time, and the file keeps its size for
the next judgments until it is shrunk (`shrink`).
"""

import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from sqlite3 import Connection

from xscore import database
from xscore.cache import hearsay
from xscore.cache.usage import JudgedTurn, is_one_of, judge_names, judged_turns, needed_now

MAX_JUDGMENTS = 2_000_000
"""About 76 MB."""
BYTES = 60
"""About what a judgment takes, with its share of contents and reasons."""
_BATCH = 20_000
_COUNTS = """
    SELECT query_id, count(*), total(memories > 0) FROM judgment LEFT JOIN content ON content.id = content_id
    GROUP BY query_id
"""
_UNREACHABLE = """
    DELETE FROM judgment WHERE query_id = ?
    AND NOT EXISTS (SELECT 1 FROM content WHERE id = content_id AND memories > 0)
"""
_USELESS = """
    SELECT count(*) FROM content WHERE memories = 0 AND id NOT IN (
        SELECT content_id FROM judgment WHERE query_id IN (SELECT value FROM json_each(?)))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What is to go, beside what is unreachable."""

    max_judgments: int = MAX_JUDGMENTS
    unused_since: float | None = None
    """Unix seconds; judgments of turns that were last asked before go, where that is known."""
    judges: Sequence[str] = ()
    """Beginnings of judge keys, or names; theirs go."""


@dataclass(frozen=True, slots=True)
class Pruned:
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
    needed_now: int = 0
    """Judgments that would have gone too, had nothing under way rested on them."""

    @property
    def judgments(self) -> int:
        """All judgments that go."""
        return self.unreachable + self.over_cap + self.unused + self.of_judges

    @property
    def reachable(self) -> int:
        """Those that a turn could have used again."""
        return self.judgments - self.unreachable


@dataclass(slots=True)
class _Plan:
    whole: dict[int, str] = field(default_factory=dict)
    """Turn by a judge -> the field of `Pruned` that counts its judgments."""
    partly: list[int] = field(default_factory=list)
    """Those that lose what is unreachable."""
    kept: list[int] = field(default_factory=list)
    """Those that something under way rests on."""
    counted: Counter[str] = field(default_factory=Counter)


def preview(connection: Connection, sweep: Sweep, *, now: float) -> Pruned:
    """Tell what `prune` would remove, and remove nothing. now: Unix seconds."""
    with database.snapshot(connection):
        plan = _planned(connection, sweep, now=now)
        (contents,) = connection.execute(_USELESS, (json.dumps(plan.kept),)).fetchone()
        return _pruned(plan.counted, contents=contents, heard=hearsay.count(connection))


def prune(
    connection: Connection, sweep: Sweep | None = None, *, max_judgments: int = MAX_JUDGMENTS, now: float | None = None
) -> Pruned:
    """Remove what is unreachable, then what else was asked for; the turns longest unused go first.

    max_judgments: the cap where nothing else is asked. Works in short transactions, so that others can write in
    between; an interrupted sweep has lost nothing else. now: Unix seconds.
    """
    sweep = sweep or Sweep(max_judgments=max_judgments)
    plan = _planned(connection, sweep, now=time.time() if now is None else now)
    done = Counter[str](needed_now=plan.counted["needed_now"])
    for query in plan.partly:
        with database.transaction(connection):
            done["unreachable"] += connection.execute(_UNREACHABLE, (query,)).rowcount
    for query, cause in plan.whole.items():
        with database.transaction(connection):
            done["unreachable"] += connection.execute(_UNREACHABLE, (query,)).rowcount
            done[cause] += connection.execute("DELETE FROM judgment WHERE query_id = ?", (query,)).rowcount
            connection.execute("DELETE FROM query WHERE id = ?", (query,))
    with database.transaction(connection):
        heard = hearsay.drop(connection)
    return _pruned(done, contents=_remove_contents(connection), heard=heard)


def shrink(connection: Connection) -> None:
    """Write the file anew without its free pages. Raises StoreError where another process is at work on it."""
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _planned(connection: Connection, sweep: Sweep, *, now: float) -> _Plan:
    needed, names = needed_now(connection, now=now), judge_names(connection)
    counts = {query: (count, int(reachable)) for query, count, reachable in connection.execute(_COUNTS).fetchall()}
    plan, staying = _Plan(), list[JudgedTurn]()
    for turn in judged_turns(connection):
        count, reachable = counts.get(turn.query, (0, 0))
        cause = _cause(turn, sweep, names)
        if (turn.turn_key, turn.judge) in needed:
            plan.kept.append(turn.query)
            plan.counted["needed_now"] += count if cause else count - reachable
            continue
        plan.counted["unreachable"] += count - reachable
        if cause or not reachable:
            plan.whole[turn.query] = cause or "unused"
            plan.counted[cause or "unused"] += reachable
        else:
            plan.partly.append(turn.query)
            staying.append(turn)
    surplus = sum(counts.get(query, (0, 0))[0] for query in plan.kept) - sweep.max_judgments
    surplus += sum(counts[turn.query][1] for turn in staying)
    for turn in sorted(staying, key=lambda turn: (turn.used_at or 0.0, turn.query)):
        if surplus <= 0:
            break
        plan.whole[turn.query] = "over_cap"
        plan.counted["over_cap"] += counts[turn.query][1]
        surplus -= counts[turn.query][1]
    plan.partly = [query for query in plan.partly if query not in plan.whole]
    return plan


def _cause(turn: JudgedTurn, sweep: Sweep, names: dict[str, str]) -> str:
    """Say why all of a turn's judgments are to go; empty: they are not."""
    if sweep.judges and is_one_of(turn.judge, names, sweep.judges):
        return "of_judges"
    if sweep.unused_since is not None and turn.used_at is not None and turn.used_at < sweep.unused_since:
        return "unused"
    return ""


def _pruned(done: Counter[str], *, contents: int, heard: int) -> Pruned:
    return Pruned(
        unreachable=done["unreachable"],
        over_cap=done["over_cap"],
        contents=contents,
        unused=done["unused"],
        of_judges=done["of_judges"],
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

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
from xscore.cache.reach import COUNTS, IS_PART, is_indexed
from xscore.cache.usage import JudgedTurn, is_needed, judged_turns, judges_meant, needed_now
from xscore.errors import UsageError

MAX_JUDGMENTS = 2_000_000
"""About 76 MB."""
BYTES = 60
"""About what a judgment takes, with its share of contents and reasons."""
_BATCH = 20_000
_OF_TURN = "FROM judgment WHERE query_id = ?"
_GONE = " AND NOT EXISTS (SELECT 1 FROM content WHERE id = content_id AND memories > 0)"
_PART = f" AND EXISTS (SELECT 1 FROM content WHERE id = content_id AND {IS_PART})"  # noqa: S608  names are ours
_UNREACHABLE = f"DELETE {_OF_TURN}{_GONE}{_PART.replace('EXISTS', 'NOT EXISTS', 1)}"
_PARTS = f"DELETE {_OF_TURN}{_PART}"
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
    """Names or beginnings of judge keys (`usage.judges_meant`); theirs go."""


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


@dataclass(slots=True)
class _Plan:
    going: list[tuple[JudgedTurn, str]] = field(default_factory=list)
    """Those that go as a whole, with the field of `Pruned` that counts their judgments; empty: their unreachable go."""
    spare: Counter[int] = field(default_factory=Counter)
    """Judgments of parts that are to spare, by turn."""
    kept: list[int] = field(default_factory=list)
    """Those that something under way rests on."""
    counted: Counter[str] = field(default_factory=Counter)


def preview(connection: Connection, sweep: Sweep, *, now: float) -> Pruned:
    """Tell what `prune` would remove, and remove nothing. Raises what it does. now: Unix seconds."""
    with database.snapshot(connection):
        plan = _planned(connection, sweep, now=now)
        (contents,) = connection.execute(_USELESS, (json.dumps(plan.kept),)).fetchone()
        return _pruned(plan.counted, contents=contents, heard=hearsay.count(connection))


def prune(connection: Connection, sweep: Sweep | None = None, *, now: float | None = None) -> Pruned:
    """Remove what is unreachable, then what else was asked for; the turns longest unused go first.

    Works in short transactions, so that others can write in between, and in each looks again whether something that
    began meanwhile rests on the turn; an interrupted sweep has lost nothing else. now: Unix seconds.
    Raises UsageError where nothing is indexed; that or NothingMatched for a judge that is not known.
    """
    now = time.time() if now is None else now
    plan = _planned(connection, sweep or Sweep(), now=now)
    done = Counter[str](needed_now=plan.counted["needed_now"])
    for turn, cause in plan.going:
        with database.transaction(connection):
            if is_needed(connection, turn, now=now):
                done["needed_now"] += _count(connection, turn, is_whole=bool(cause))
                continue
            done["unreachable"] += connection.execute(_UNREACHABLE, (turn.query,)).rowcount
            if plan.spare[turn.query]:
                done["parts"] += connection.execute(_PARTS, (turn.query,)).rowcount
            if cause:
                done[cause] += connection.execute(f"DELETE {_OF_TURN}", (turn.query,)).rowcount
                connection.execute("DELETE FROM query WHERE id = ?", (turn.query,))
    with database.transaction(connection):
        heard = hearsay.drop(connection)
    return _pruned(done, contents=_remove_contents(connection), heard=heard)


def _count(connection: Connection, turn: JudgedTurn, *, is_whole: bool) -> int:
    """Count what would have gone of a turn."""
    ((count,),) = connection.execute(f"SELECT count(*) {_OF_TURN}{'' if is_whole else _GONE}", (turn.query,))
    return int(count)


def shrink(connection: Connection) -> None:
    """Write the file anew without its free pages. Raises StoreError where another process is at work on it."""
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _planned(connection: Connection, sweep: Sweep, *, now: float) -> _Plan:
    needed, meant = needed_now(connection, now=now), judges_meant(connection, sweep.judges)
    plan, staying = _Plan(), list[JudgedTurn]()
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


def _counts(connection: Connection, plan: _Plan) -> dict[int, tuple[int, int]]:
    """Count each turn's judgments, and those of them that can be used again; enter in the plan what is to spare."""
    found: dict[int, tuple[int, int]] = {}
    for query, count, shown, parts, needs_parts in connection.execute(COUNTS).fetchall():
        found[query] = (count, int(shown + parts * needs_parts))
        plan.spare[query] = 0 if needs_parts else int(parts)
    if found and not is_indexed(connection):
        raise UsageError(
            "nothing is indexed here yet, so that no judgment's memory is known", hint="Run `xscore index` first."
        )
    return found


def _cause(turn: JudgedTurn, sweep: Sweep, meant: frozenset[str]) -> str:
    """Say why all of a turn's judgments are to go; empty: they are not."""
    if turn.judge in meant:
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

"""What is brought up to date after edits, or under a new judge: which questions, against the memories of which files.

Without a file of questions it is what was asked here lately: the tasks of working sessions that are open, and of the
last `DAYS` days, each once, the newest `MOST`. Evaluations and lists are nobody's tasks. It judges nothing. Trade-off:
a task is asked of all the files that are looked at, also where it was narrowed when it was asked first.
"""

import json
import sqlite3
from dataclasses import dataclass

from xscore.database import as_it_can_be_read
from xscore.errors import UsageError
from xscore.git import changed_files
from xscore.hashing import digest
from xscore.paths import Root, native, portable
from xscore.records.offline import Question, Questions

DAYS = 14
MOST = 100
DAY_S = 86_400.0
_RECENT = """
    SELECT id, task, moment, turn_key FROM turn
    WHERE thread <> '' AND task <> '' AND started_at <= :now
        AND (started_at >= :since OR thread IN (SELECT thread FROM session WHERE closed_at IS NULL))
        AND NOT EXISTS (SELECT 1 FROM turn_figures WHERE turn_id = turn.id AND command = 'eval')
    ORDER BY started_at DESC, id
"""


@dataclass(frozen=True, slots=True)
class Recent:
    """What was asked lately."""

    questions: Questions
    beyond: int
    """Older tasks that are left out, since there are more than `MOST`."""

    def in_words(self) -> str:
        """Say how many and by which rule."""
        count = len(self.questions.all)
        said = f"{count} recent task{'s' if count != 1 else ''}: of open sessions, and of the last {DAYS} days"
        return said + (f"; {self.beyond} older ones are left out, the newest {MOST} are taken" if self.beyond else "")


def recent(connection: sqlite3.Connection, root: Root, *, now: float) -> Recent:
    """Return the tasks that were asked lately, the newest first, each once. now: Unix seconds."""
    found: dict[str, Question] = {}
    beyond = 0
    with as_it_can_be_read(connection):
        for turn_id, task, moment, key in connection.execute(_RECENT, {"now": now, "since": now - DAYS * DAY_S}):
            if key in found:
                continue
            if len(found) == MOST:
                beyond += 1
                continue
            found[key] = _question(str(turn_id), str(task), str(moment), root)
    name = digest("rescore", *(f"{one.task}\n{one.errors}\n{one.file}" for one in found.values()))
    return Recent(Questions(tuple(found.values()), name), beyond)


def edited(root: Root, *, since: str = "") -> frozenset[str]:
    """Return the files that differ from a revision, or from what was committed last; new ones among them.

    Raises UsageError where git cannot tell.
    """
    found = changed_files(root.path, since or "HEAD") if root.is_git else None
    if found is None:
        what = f"what has changed since {since}" if since else "what has changed"
        raise UsageError(
            f"git does not tell {what} in {root.path}", hint="Name a revision that is there, or take everything: --all."
        )
    return frozenset(map(portable, found))


def _question(turn_id: str, task: str, moment: str, root: Root) -> Question:
    try:
        known = json.loads(moment)
        file, errors = str(known.get("file", "")), str(known.get("errors", ""))
    except (ValueError, AttributeError):
        file = errors = ""
    is_there = bool(file) and (root.path / native(file)).exists()
    return Question(id=turn_id, task=task, errors=errors, file=str(root.path / native(file)) if is_there else "")

"""What the `memory` form of the bundle says beside the memories: branch, commit, what was decided lately.

Read only for that form, since it asks git. Trade-off: the history is of the store, not of the task, so it may name a
decision that the judge found irrelevant; that is what a history is for.
"""

import json

from xscore.git import ask_git, branch
from xscore.memory import rows
from xscore.pipeline.parts import Parts
from xscore.prompts.bundle_entry import Surroundings
from xscore.prompts.provenance import ago

LATEST = 5
"""So many decisions are told of, and so many verdicts on the context of a task."""


def surroundings(parts: Parts) -> Surroundings:
    """Look around: git where it is used, decisions and verdicts from the store."""
    root = parts.root
    if not (parts.settings.index.git and root.is_git and root.git_dir):
        return Surroundings(history=history(parts))
    commit = (ask_git(root.path, "rev-parse", "--short", "HEAD") or b"").decode("ascii", "replace").strip()
    return Surroundings(branch(root.git_dir), commit, history(parts))


def history(parts: Parts) -> tuple[str, ...]:
    """One line for each of the latest decisions, then for each verdict on the context of a task, newest first."""
    now, connection = parts.clock(), parts.store.connection
    decided = rows.memories(
        connection,
        "id IN (SELECT id FROM memory WHERE kind = 'decision' AND status IN ('active', 'stale')"
        " ORDER BY updated_at DESC, id LIMIT ?)",
        (LATEST,),
    )
    lines = [
        f"{ago(now - memory.updated_at)}: {memory.title} [{memory.id}]"
        for memory in sorted(decided, key=lambda memory: (-memory.updated_at, memory.id))
    ]
    verdicts = connection.execute(
        "SELECT at, subject, payload FROM event WHERE name = 'decision.recorded' AND subject LIKE 't\\_%' ESCAPE '\\'"
        " ORDER BY id DESC LIMIT ?",
        (LATEST,),
    ).fetchall()
    for at, turn_id, payload in verdicts:
        words = json.loads(payload).get("words", "")
        lines += [f"{ago(now - at)}: context of {turn_id}: {words}"] if words else []
    return tuple(lines)

"""Working sessions in words: what was worked on, where, and how long ago. It prints nothing."""

from xscore.cli.safe_text import one_line
from xscore.records import SessionInfo, WorkingSession

TASK_CHARS = 72
_UNITS = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"))


def taken_up(session: SessionInfo, *, now: float) -> str:
    """`You were working on "…" (branch feat/x, 2 h ago).`"""
    return (
        f"You were working on {_quoted(session.last_task)} ({_place(session.branch)}{ago(session.last_updated, now)})."
    )


def listed(session: WorkingSession, *, now: float) -> str:
    """One line of a list: thread, branch, when, how many tasks, the last of them."""
    state = "closed" if session.closed_at is not None else ago(session.last_updated, now)
    counted = "1 task" if session.tasks == 1 else f"{session.tasks} tasks"
    task = f"  {_quoted(session.task)}" if session.task else ""
    return f"{session.thread}  {_place(session.branch)}{state}, {counted}{task}"


def ago(then: float, now: float) -> str:
    """`2 h ago`; a moment that lies ahead, after a clock was set back, is now."""
    past = now - then
    for seconds, unit in _UNITS:
        if past >= seconds:
            return f"{past / seconds:.0f} {unit} ago"
    return "just now"


def _place(branch: str) -> str:
    return f"branch {one_line(branch)}, " if branch else ""


def _quoted(task: str) -> str:
    words = " ".join(task.split())
    return f'"{one_line(words if len(words) <= TASK_CHARS else words[: TASK_CHARS - 1].rstrip() + "…")}"'

"""Working sessions in words: what was worked on, where, and how long ago. It prints nothing."""

from xscore.records import SessionInfo, WorkingSession
from xscore.safe_text import one_line
from xscore.wording import counted

TASK_CHARS = 72
_UNITS = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"))


def taken_up(session: SessionInfo, *, now: float) -> str:
    """`You were working on "…" (branch feat/x, 2 h ago).`"""
    return (
        f"You were working on {quoted(session.last_task)} ({place_of(session.branch)}{ago(session.last_updated, now)})."
    )


def listed(session: WorkingSession, *, now: float) -> str:
    """One line of a list: thread, branch, when, how many tasks, the last of them."""
    state = "closed" if session.closed_at is not None else ago(session.last_updated, now)
    task = f"  {quoted(session.task)}" if session.task else ""
    return f"{session.thread}  {place_of(session.branch)}{state}, {tasks(session.tasks)}{task}"


def ago(then: float, now: float) -> str:
    """`2 h ago`; a moment that lies ahead, after a clock was set back, is now."""
    past = now - then
    for seconds, unit in _UNITS:
        if past >= seconds:
            return f"{past / seconds:.0f} {unit} ago"
    return "just now"


def place_of(branch: str) -> str:
    """`branch feat/x, `; empty where there is no git."""
    return f"branch {one_line(branch)}, " if branch else ""


def quoted(task: str) -> str:
    """A task in quotation marks, on one line, cut to its beginning."""
    words = " ".join(task.split())
    return f'"{one_line(words if len(words) <= TASK_CHARS else words[: TASK_CHARS - 1].rstrip() + "…")}"'


def tasks(number: int) -> str:
    """`1 task`, `2 tasks`."""
    return counted(number, "task")

"""What receipts, reports and lists say about candidates, files and working sessions, in words.

Figures are rounded; the JSON has them exact. It prints nothing.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from xscore.cli.text_layout import most_first
from xscore.platform.figures import format_seconds, format_tokens
from xscore.platform.text import counted, ellipsize, one_line
from xscore.records.indexing import CommitCounts, ExcludedCounts
from xscore.records.receipt import Coverage
from xscore.records.turn import SessionInfo, WorkingSession

if TYPE_CHECKING:
    # `status` takes its phrases from here and reports no progress: it starts without these.
    from xscore.records.events import IndexProgress


def describe_unjudged(coverage: Coverage, causes: Mapping[str, int]) -> str:
    """`3 of 812 candidates are unjudged (2 refused, 1 deadline)`; `None of the 151 candidates was
    judged (budget)`."""
    by_cause = ", ".join(f"{count:,} {cause}" for cause, count in sorted(causes.items()))
    if coverage.unjudged == coverage.candidates > 1:
        why = by_cause if len(causes) > 1 else "".join(causes)
        return f"None of the {coverage.candidates:,} candidates was judged ({why})"
    verb = "is" if coverage.unjudged == 1 else "are"
    return (
        f"{coverage.unjudged:,} of {counted(coverage.candidates, 'candidate')} {verb} unjudged"
        f" ({by_cause})"
    )


def describe_kept_out(by_reason: Mapping[str, int]) -> str:
    """`572 kept out: 500 bundle, 72 lockfile; `xscore index -v` lists them`; empty if there are
    none."""
    why = ", ".join(f"{count:,} {reason}" for reason, count in most_first(by_reason))
    if why:
        return f"{sum(by_reason.values()):,} kept out: {why}; `xscore index -v` lists them"
    return ""


def describe_files_left(files: int) -> str:
    """Say how many files an index run has left, and what reads them."""
    return f"{files:,} still to be read: `xscore index`"


def list_kept_out(excluded: ExcludedCounts) -> list[str]:
    """One line for each file kept out of the index, and how many more there are."""
    lines = [f"{one_line(file.path)}: {file.reason}" for file in excluded.sample]
    unnamed = sum(excluded.by_reason.values()) - len(lines)
    return [*lines, *([f"and {unnamed:,} more"] if unnamed else [])]


RUN_AGAIN = "run the same command again to continue; existing judgments cost nothing"
LIST_ENDED = {
    "interrupted": f"interrupted: {RUN_AGAIN}",
    "budget": f"the cap was reached: raise it, then {RUN_AGAIN}",
    "deadline": f"the deadline passed: {RUN_AGAIN}",
    "provider": f"the judge stopped answering: {RUN_AGAIN}",
    "store": f"the store failed: repair it, then {RUN_AGAIN}",
    "replay": "leave out --replay to have the rest judged",
}
"""Why a list ended early, and what to do."""


def describe_tokens(tokens_in: int, tokens_out: int) -> str:
    """`98k in / 1.2k out`."""
    return f"{format_tokens(tokens_in)} in / {format_tokens(tokens_out)} out"


def describe_commits(commits: CommitCounts) -> str:
    """`1,204 memories · left out: 318 merge, 90 version`; empty where there is no history."""
    if not commits.memories and not commits.left_out:
        return ""
    parts = [counted(commits.memories, "memory", "memories")]
    if commits.added or commits.removed:
        parts.append(f"{commits.added:,} added · {commits.removed:,} removed")
    if commits.left_out:
        reasons: list[str] = []
        for reason, count in most_first(commits.left_out):
            reasons.append(f"{count:,} {reason}")
        parts.append(f"left out: {', '.join(reasons)}")
    if commits.is_shallow:
        parts.append("shallow clone")
    if not commits.is_complete:
        parts.append("more to read: `xscore index` finishes it")
    return " · ".join(parts)


def render_index_progress(progress: "IndexProgress") -> str:
    """Render the progress of the index in one plain line."""
    line = f"{progress.files:,} of {progress.of:,} files"
    if progress.seconds_left is None:
        return line
    rate = progress.files / progress.elapsed_s
    return f"{line} · {rate:.0f}/s · {format_seconds(progress.seconds_left)} left"


TASK_CHARS = 72
_AGE_UNITS = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"))


def describe_resumed_session(session: SessionInfo, *, now: float) -> str:
    """`You were working on "…" (branch feat/x, 2 h ago).`"""
    where = f"{format_branch(session.branch)}{format_age(session.last_updated, now)}"
    return f"You were working on {quote_task(session.last_task)} ({where})."


def render_session_line(session: WorkingSession, *, now: float) -> str:
    """One line of a list: thread, branch, when, how many tasks, the last of them."""
    if session.closed_at is not None:
        state = "closed"
    else:
        state = format_age(session.last_updated, now)
    task = ""
    if session.task:
        task = f"  {quote_task(session.task)}"
    tasks = counted(session.tasks, "task")
    if session.carried:
        tasks += f", {counted(session.carried, 'judgment')} from earlier questions"
    return f"{session.thread}  {format_branch(session.branch)}{state}, {tasks}{task}"


def format_age(then: float, now: float) -> str:
    """Format an age: `2 h ago`. A time in the future (the clock was set back) counts as now."""
    past = now - then
    for seconds, unit in _AGE_UNITS:
        if past >= seconds:
            return f"{past / seconds:.0f} {unit} ago"
    return "just now"


def format_branch(branch: str) -> str:
    """`branch feat/x, `; empty where there is no git."""
    if branch:
        return f"branch {one_line(branch)}, "
    return ""


def quote_task(task: str) -> str:
    """Quote a task on one line, truncated."""
    return f'"{ellipsize(task, TASK_CHARS)}"'

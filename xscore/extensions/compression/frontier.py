"""The frontier of work: what an agent must know to go on after its context was compacted.

That is the last request, what was being done, open ends, failed attempts with their errors, files
in work and the commands that ran. The same log always gives the same bytes: nothing in it is an age
or a time. Trade-off: open ends are what the agent wrote down as such, and commands that failed and
have not passed since.
"""

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from xscore.extensions.compression import marks
from xscore.extensions.compression.session_turns import (
    AgentSession,
    CallOutcome,
    LoggedCall,
    SessionTurn,
    Speaker,
)
from xscore.platform.text import ellipsize, one_line, without_invisible
from xscore.prompts.fences import shorten_middle
from xscore.store.session_summary import open_items

MAX_BYTES = 2_000
REQUEST_CHARS = 600
SHORT_REQUEST_CHARS = 40
"""Shortest request that says what to do; a shorter one is like `yes, go on`."""
LINE_CHARS = 200
MOST_ATTEMPTS = 6
MOST_FILES = 8
MOST_COMMANDS = 4
MOST_OPEN = 6
_LATEST_TURNS = 12
"""Turns whose words are searched for open ends."""
_CHECKS = re.compile(
    r"\b(?:tests?|pytest|jest|vitest|build|lint|check|clippy|mypy|tsc|ruff|make|verify|cargo|gradle"
    r"|mvn)\b"
)
"""Commands that say whether the work is right."""
_NO_CHECK = re.compile(r"\s*(?:git|gh|cat|ls|grep|rg|find|sed|head|tail|echo|cd \S+ && git)\b")
"""Commands that name a test without running one."""
CHECKED_CHARS = 120


class FailedAttempt(Struct, frozen=True):
    """A command that failed."""

    command: str
    error: str
    """The first and last line of the error."""
    is_open: bool
    """Whether it has not passed since."""


class Frontier(Struct, frozen=True, kw_only=True):
    """The state of the work."""

    request: str = ""
    """The user's last words, whole."""
    request_turn: int = 0
    task: str = ""
    """The user's earlier words, where the last ones only say to go on."""
    memory_id: str = ""
    """Memory of the exchange of the last request, if that is imported."""
    doing: str = ""
    """The agent's last words."""
    open_ends: tuple[str, ...] = ()
    attempts: tuple[FailedAttempt, ...] = ()
    """Failed attempts: first those that still fail, then the others, the latest first."""
    files: tuple[str, ...] = ()
    """Changed files, the latest first, then those that were only read."""
    commands: tuple[str, ...] = ()
    """Commands that check the work and passed, the latest first."""


def find_frontier(session: AgentSession) -> Frontier:
    """Return the frontier of a session."""
    request = session.last_request
    return Frontier(
        request=request.words if request else "",
        request_turn=request.number if request else 0,
        task=_task_before(session.turns, request) if request else "",
        memory_id=request.memory_id if request else "",
        doing=_last_words(session.turns),
        open_ends=_open_ends(session),
        attempts=tuple(_attempts(session)),
        files=tuple(_files(session)),
        commands=tuple(_commands(session.turns)),
    )


def frontier_text(frontier: Frontier, *, max_bytes: int = MAX_BYTES) -> str:
    """Return the frontier as lines; what matters most comes first, and the end is left out where it
    does not fit."""
    kept: list[str] = []
    room = max_bytes
    for heading, lines in _sections(frontier):
        section: list[str] = []
        for line in lines:
            clean = without_invisible(line)
            needed = _size(clean) + (0 if section else _size(heading))
            if needed <= room:
                section.append(clean)
                room -= needed
        if section:
            kept += [heading, *section] if heading else section
    return "\n".join(kept)


def _sections(frontier: Frontier) -> Iterator[tuple[str, list[str]]]:
    if frontier.request:
        request = shorten_middle(frontier.request, REQUEST_CHARS)
        heading = f"{marks.LAST_REQUEST} (turn {frontier.request_turn}):"
        yield heading, [marks.escape_frontier_marks(request)]
    if frontier.task:
        task = shorten_middle(frontier.task, REQUEST_CHARS // 2)
        yield marks.EARLIER_REQUEST, [marks.escape_frontier_marks(task)]
    if frontier.open_ends:
        yield marks.OPEN_ENDS, [f"- {item}" for item in frontier.open_ends[:MOST_OPEN]]
    if frontier.files:
        files = map(one_line, frontier.files[:MOST_FILES])
        yield "", [f"{marks.FILES} {', '.join(files)}"]
    if frontier.attempts:
        lines = [_attempt_line(attempt) for attempt in frontier.attempts[:MOST_ATTEMPTS]]
        yield marks.FAILED, lines
    if frontier.doing:
        yield "", [f"{marks.LAST_WORDS} {ellipsize(frontier.doing, LINE_CHARS)}"]
    if frontier.commands:
        lines = [f"- {ellipsize(command, LINE_CHARS)}" for command in frontier.commands]
        yield marks.CHECKS, lines[:MOST_COMMANDS]


def _attempt_line(attempt: FailedAttempt) -> str:
    passed = "" if attempt.is_open else " (passed later)"
    command = ellipsize(attempt.command, LINE_CHARS // 2)
    return f"- `{command}`{passed}: {ellipsize(attempt.error, LINE_CHARS * 3 // 4)}"


def _size(line: str) -> int:
    """Bytes of a line with its end."""
    return len(line.encode("utf-8", "replace")) + 1


def _last_words(turns: Sequence[SessionTurn]) -> str:
    for turn in reversed(turns):
        if turn.speaker is Speaker.AGENT and turn.words:
            return turn.words
    return ""


def _task_before(turns: Sequence[SessionTurn], request: SessionTurn) -> str:
    """Return the last words of the user that say what to do, if the request is too short to."""
    if len(request.words) >= SHORT_REQUEST_CHARS:
        return ""
    for turn in reversed(turns[: request.number]):
        if turn.speaker is Speaker.USER and len(turn.words) >= SHORT_REQUEST_CHARS:
            return turn.words
    return ""


def _open_ends(session: AgentSession) -> tuple[str, ...]:
    """Return what the agent's list has left, then what it wrote as left to do."""
    ends = [item.text for item in session.items if not item.is_done]
    done = {item.text for item in session.items if item.is_done}
    for turn in session.turns[-_LATEST_TURNS:]:
        ends += [item for item in open_items(turn.words) if item not in done]
    return tuple(dict.fromkeys(ends))


def _attempts(session: AgentSession) -> list[FailedAttempt]:
    last_outcome: dict[str, CallOutcome] = {}
    for call in _shell_calls(session.turns):
        if call.outcome in (CallOutcome.PASSED, CallOutcome.FAILED):
            last_outcome[call.subject] = call.outcome
    attempts: list[FailedAttempt] = []
    tried: set[str] = set()
    for call in reversed(session.failed_attempts):
        if call.subject in tried:
            continue  # how it failed last is what counts
        tried.add(call.subject)
        errors = [line.strip() for line in call.frame.errors]
        # Compilers name the cause first, test runners last.
        error = " … ".join(dict.fromkeys([*errors[:1], *errors[-1:]]))
        is_open = last_outcome.get(call.subject) is CallOutcome.FAILED
        attempts.append(FailedAttempt(call.subject, error, is_open))
    return sorted(attempts, key=lambda attempt: not attempt.is_open)


def _files(session: AgentSession) -> dict[str, None]:
    files = dict.fromkeys(reversed(session.changed))
    for turn in reversed(session.turns):
        for call in reversed(turn.calls):
            if call.path:
                files.setdefault(call.path)
    return files


def _commands(turns: Sequence[SessionTurn]) -> list[str]:
    """Return the commands that checked the work and passed, the latest first."""
    passed: dict[str, None] = {}
    for call in reversed(list(_shell_calls(turns))):
        if call.outcome is CallOutcome.PASSED and not _NO_CHECK.match(call.subject):
            passed.setdefault(" ".join(call.subject.split()))
    return [command for command in passed if _CHECKS.search(command[:CHECKED_CHARS])]


def _shell_calls(turns: Sequence[SessionTurn]) -> Iterator[LoggedCall]:
    for turn in turns:
        for call in turn.calls:
            if not call.tool:
                yield call

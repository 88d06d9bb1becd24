"""What a coding agent's hook stores for the next one: the last failure, what was added to each
session, and of which memories its brief is made.

It is one small private file per repository, in the user's own folder and not in the store: a hook
must be able to record that the store is damaged, and a cloned repository must not be able to write
here. It holds ids and digests, never a text, so nothing that is erased stays in it. A missing or
damaged file counts as empty; failing to write it is not an error. Hooks that end
at once wait for each other, but not for long. Trade-off: behind a hook that hangs while it writes,
the next one may overwrite what it stored.
"""

import fcntl
import os
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from xscore.platform.errors import XscoreError
from xscore.platform.files import FileRefused, read_private_file, write_private_file
from xscore.platform.hashing import digest
from xscore.platform.paths import RepositoryRoot
from xscore.records.reports import HookFailure
from xscore.store.redaction import redact

PROBLEM_CHARS = 300
MOST_SESSIONS, MOST_GIVEN, MOST_TERMS = 50, 100, 120
ADVISE_EVERY_S = 86_400.0
_MAX_BYTES = 800_000
_LOCK_WAIT_S, _LOCK_STEP_S = 0.1, 0.002
"""How long to wait for other hooks: less than a hook whose time is up has left to store why."""


class SessionBrief(Struct, frozen=True):
    """What a session got of earlier work."""

    at: float = 0.0
    """When the session first received something that bears on a prompt, in Unix seconds, from
    which its ages count; 0: not yet."""
    heads: tuple[str, ...] = ()
    """Ids of the memories that the brief is made of, in its order."""
    told: tuple[str, ...] = ()
    """Ids of all memories that the session has received, the latest last."""
    subject: tuple[int, ...] = ()
    """Terms of the prompts for which it received something (`term_vectors.text_terms`)."""
    is_whole: bool = True
    """Whether all memories were judged by then."""
    start_bytes: int = 0
    """Size of what the session received at its start."""


class HookState(Struct, frozen=True):
    """The state of a repository's hooks."""

    failure: HookFailure | None = None
    """The failure of the last hook; None if it succeeded."""
    given: dict[str, list[str]] = {}
    """Session -> digests of what was added to it, latest last; the most recently active session
    comes last."""
    briefs: dict[str, SessionBrief] = {}
    """Session -> what it received of earlier work; the most recent session comes last."""
    advised_at: float = 0.0
    """When the agent last received what its user has to decide, in Unix seconds; 0: never."""


def hook_state_file(root: RepositoryRoot, user_data_dir: Path) -> Path:
    """Return the path of a repository's hook state, whether or not it exists."""
    return user_data_dir / "hooks" / f"{digest('hooks', str(root.path))}.json"


def read_hook_state(path: Path) -> HookState:
    """Return the state; empty if it is missing or cannot be read."""
    try:
        data = read_private_file(path, max_bytes=_MAX_BYTES)
        if data is None:
            return HookState()
        return msgspec.json.decode(data, type=HookState)
    except (OSError, FileRefused, ValueError, RecursionError):
        return HookState()


def was_given(state: HookState, session: str, text: str) -> bool:
    """Return whether exactly this text was already added to the session."""
    return digest("given", text) in state.given.get(session, ())


def session_brief(state: HookState, session: str) -> SessionBrief:
    """Return what a session got of earlier work; empty for a session without a name."""
    return state.briefs.get(session, SessionBrief())


def note_end(
    path: Path,
    *,
    failure: HookFailure | None,
    session: str = "",
    texts: Collection[str] = (),
    brief: SessionBrief | None = None,
) -> None:
    """Store how a hook ended.

    texts: what it added and must not add to this session again.
    brief: what the session has got by now; None: nothing more than before.
    """
    with _locked(path):
        before = read_hook_state(path)
        after = replace(before, failure=failure)
        if session:
            added = before.given
            for text in texts:
                added = _with_given(added, session, digest("given", text))
            after = replace(after, given=added)
        if session and brief is not None:
            after = replace(after, briefs=_with_brief(before.briefs, session, brief))
        if after != before:
            _write(path, after)


def may_advise(path: Path, *, now: float) -> bool:
    """Return whether the agent got nothing for a day, and record that it does now."""
    with _locked(path):
        state = read_hook_state(path)
        if 0 <= now - state.advised_at < ADVISE_EVERY_S:
            return False
        _write(path, replace(state, advised_at=now))
        return True


def describe_failure(event: str, error: BaseException | str, *, at: float) -> HookFailure:
    """Return the record of a failure, redacted and shortened. at: Unix seconds."""
    if isinstance(error, XscoreError):
        problem = error.message
    elif isinstance(error, BaseException):
        problem = f"{type(error).__name__}: {error}"
    else:
        problem = error
    line = redact(" ".join(problem.split())).text
    return HookFailure(at, event[:PROBLEM_CHARS], line[:PROBLEM_CHARS])


def forget_session(path: Path, session: str) -> None:
    """Forget what was added to this session, because the agent has dropped its context."""
    with _locked(path):
        state = read_hook_state(path)
        if session in state.given or session in state.briefs:
            digests_by_session = {
                name: digests for name, digests in state.given.items() if name != session
            }
            briefs = {name: brief for name, brief in state.briefs.items() if name != session}
            _write(path, replace(state, given=digests_by_session, briefs=briefs))


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Keep other hooks from changing the state; go on without the lock where it cannot be had in
    time."""
    folder = -1
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        _wait_for_lock(folder)
    try:
        yield
    finally:
        if folder >= 0:
            os.close(folder)


def _wait_for_lock(folder: int) -> None:
    give_up = time.monotonic() + _LOCK_WAIT_S
    while time.monotonic() < give_up:
        with suppress(BlockingIOError):
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(_LOCK_STEP_S)


def _with_given(added: dict[str, list[str]], session: str, name: str) -> dict[str, list[str]]:
    """Add a digest to a session, which becomes the most recent one, within both limits."""
    of_session = [digest_ for digest_ in added.get(session, []) if digest_ != name]
    recent = [(thread, names) for thread, names in added.items() if thread != session]
    return dict(recent[-MOST_SESSIONS + 1 :]) | {session: [*of_session, name][-MOST_GIVEN:]}


def _with_brief(
    briefs: dict[str, SessionBrief], session: str, brief: SessionBrief
) -> dict[str, SessionBrief]:
    """Add what a session got, which becomes the most recent one, within all limits."""
    bounded = replace(brief, told=brief.told[-MOST_GIVEN:], subject=brief.subject[-MOST_TERMS:])
    recent = [(name, earlier) for name, earlier in briefs.items() if name != session]
    return dict(recent[-MOST_SESSIONS + 1 :]) | {session: bounded}


def _write(path: Path, state: HookState) -> None:
    with suppress(OSError):
        write_private_file(path, msgspec.json.encode(state))

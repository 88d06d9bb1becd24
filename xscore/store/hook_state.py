"""What hooks of coding agents leave for the next one: the last failure, and what was added to each session.

One small private file per repository, in the user's own folder: a hook must be able to say that the store is damaged,
and a cloned repository must not be able to say anything here. A missing or damaged file counts as empty, and one that
cannot be written is no error. Trade-off: of two hooks that end at once, one may forget what the other kept.
"""

from contextlib import suppress
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
MOST_SESSIONS, MOST_GIVEN = 50, 100
_MAX_BYTES = 400_000


class HookState(Struct, frozen=True):
    """What is kept of a repository's hooks."""

    failure: HookFailure | None = None
    """Of the last hook; None: it did not fail."""
    given: dict[str, list[str]] = {}
    """Session -> digests of what was added to it, the latest last; the session that was active last comes last."""


def hook_state_file(root: RepositoryRoot, user_data_dir: Path) -> Path:
    """Where the state of a repository's hooks is, or would be."""
    return user_data_dir / "hooks" / f"{digest('hooks', str(root.path))}.json"


def read_hook_state(path: Path) -> HookState:
    """Return the state; empty if there is none that can be read."""
    try:
        data = read_private_file(path, max_bytes=_MAX_BYTES)
        return HookState() if data is None else msgspec.json.decode(data, type=HookState)
    except (OSError, FileRefused, ValueError, RecursionError):
        return HookState()


def write_failure(path: Path, *, event: str, error: BaseException | str, at: float) -> None:
    """Keep why a hook failed, redacted and bounded. at: Unix seconds."""
    said = error if isinstance(error, str) else _words_of(error)
    problem = redact(" ".join(said.split())).text[:PROBLEM_CHARS]
    _write(path, replace(read_hook_state(path), failure=HookFailure(at, event, problem)))


def clear_failure(path: Path) -> None:
    """Forget the last failure, if there is one."""
    known = read_hook_state(path)
    if known.failure is not None:
        _write(path, replace(known, failure=None))


def was_given(path: Path, session: str, text: str) -> bool:
    """Return whether this very text was added to the session before; from now on it counts as added."""
    known, name = read_hook_state(path), digest("given", text)
    before = known.given.get(session, [])
    if name in before:
        return True
    others = {other: names for other, names in known.given.items() if other != session}
    kept = dict(list(others.items())[-MOST_SESSIONS + 1 :]) | {session: [*before, name][-MOST_GIVEN:]}
    _write(path, replace(known, given=kept))
    return False


def forget_session(path: Path, session: str) -> None:
    """Count nothing as added to this session: the agent has dropped its context."""
    known = read_hook_state(path)
    if session in known.given:
        _write(path, replace(known, given={name: all_ for name, all_ in known.given.items() if name != session}))


def _words_of(error: BaseException) -> str:
    return error.message if isinstance(error, XscoreError) else f"{type(error).__name__}: {error}"


def _write(path: Path, state: HookState) -> None:
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private_file(path, msgspec.json.encode(state))

"""Complete a turn with what the moment shows: the current file and the uncommitted work.

Everything that may leave the machine is redacted here, before it becomes part of a key or a prompt. It decides nothing
about what is judged. Trade-off: long texts are cut after redaction, so more is read than is shown.
"""

from collections.abc import Callable, Iterable
from pathlib import Path, PurePath

from msgspec.structs import replace

from xscore.pipeline.uncommitted import SCREENED_FACTOR, UncommittedWork, sections_among, shown_diff
from xscore.platform.errors import UsageError
from xscore.platform.paths import RepositoryRoot, native_name, portable_name
from xscore.records.turn import Scope, Turn
from xscore.store.personal_data import redact_said
from xscore.store.redaction import is_safe_name, is_secret_file, redact

MAX_TASK_CHARS = 100_000
MAX_FILE_CHARS = 60_000


def complete_turn(
    turn: Turn,
    root: RepositoryRoot,
    *,
    work: UncommittedWork,
    allow_pii: bool = False,
    indexed: Callable[[], Iterable[str]] = tuple,
) -> Turn:
    """Fill in the turn's missing fields. Raises UsageError for an empty or huge task, or a file outside the root.

    work: what the turn does not bring itself. allow_pii: leave e-mail addresses and the like in what the user asks
    and pastes. indexed: the paths among which an error finds those nearest to a file that is not there.
    """
    task = turn.task.strip()
    if not task:
        raise UsageError(
            "the task is empty", hint='Say what you want to do, e.g. xscore ask "why does login fail twice?"'
        )
    if len(task) > MAX_TASK_CHARS:
        raise UsageError(
            f"the task has {len(task):,} characters; at most {MAX_TASK_CHARS:,} are taken",
            hint="Put logs and traces into --errors, of which the end is kept.",
        )
    file = _path_in_root(turn.file, root, indexed) if turn.file else ""
    file = file if is_safe_name(file) else ""
    errors = turn.errors[-SCREENED_FACTOR * MAX_TASK_CHARS :]
    given = sections_among(turn.diff, _is_not_secret) if "diff --git " in turn.diff else turn.diff
    return replace(
        turn,
        task=redact_said(task, allow_pii=allow_pii).text,
        errors=redact_said(errors, prose=False, allow_pii=allow_pii).text[-MAX_TASK_CHARS:].strip(),
        file=file,
        scope=_scope_in_root(turn.scope, root, indexed) if turn.scope.within else turn.scope,
        file_text=_file_text(file, root) if file else "",
        recent=tuple(
            name
            for name in dict.fromkeys(_path_in_root(path, root, indexed) for path in turn.recent)
            if is_safe_name(name)
        ),
        diff=shown_diff(given) if turn.diff else work.diff,
        changed=work.changed if turn.changed is None else turn.changed,
    )


def _scope_in_root(scope: Scope, root: RepositoryRoot, indexed: Callable[[], Iterable[str]]) -> Scope:
    """Name what the scope lies within relative to the root. Raises UsageError for a path that is not there."""

    def known() -> list[str]:
        files = list(indexed())
        return [*files, *{f"{folder}/" for file in files for folder in map(str, PurePath(file).parents[:-1])}]

    try:
        return replace(scope, within=tuple(_path_in_root(path, root, known) for path in scope.within))
    except UsageError as error:
        raise UsageError(error.message, hint=f"{error.hint} Quote the task if it has several words.") from error


def _path_in_root(path: str, root: RepositoryRoot, indexed: Callable[[], Iterable[str]]) -> str:
    """Return a path relative to the root; it may be given so, absolute, or relative to the working folder."""
    given = Path(path)
    tried = [given] if given.is_absolute() else [Path.cwd() / given, root.path / given]
    for candidate in tried:
        real = candidate.resolve()
        if real.is_relative_to(root.path.resolve()) and real.exists():
            return portable_name(str(real.relative_to(root.path.resolve())))
    from xscore.platform.near_names import did_you_mean, nearest_names  # for an error alone

    hint = did_you_mean(nearest_names(path, indexed()), "Give a path inside the repository.")
    raise UsageError(f"{path} is not in {root.path}", hint=hint)


def _file_text(file: str, root: RepositoryRoot) -> str:
    """Read the current file for the answering model; empty for a folder, an unreadable file or a file of secrets."""
    path = root.path / native_name(file)
    if is_secret_file(file) or not path.is_file():
        return ""
    try:
        with path.open("rb") as opened:
            text = redact(opened.read(SCREENED_FACTOR * MAX_FILE_CHARS).decode("utf-8", "replace")).text
    except OSError:
        return ""
    return text if len(text) <= MAX_FILE_CHARS else text[:MAX_FILE_CHARS] + "\n… (file goes on)"


def _is_not_secret(path: str) -> bool:
    return not is_secret_file(path)

"""Complete a turn: what the user said, and what the moment shows (current file, uncommitted change, recent work).

Everything that may leave the machine is redacted here, before it becomes part of a key or a prompt. It judges nothing.
"""

import re
from dataclasses import replace
from pathlib import Path

from xscore.errors import UsageError
from xscore.git import recent_commits, working_diff
from xscore.memory.secrets.pii import redact_pii
from xscore.memory.secrets.redact import Redacted, is_secret_file, may_be_named, redact
from xscore.paths import Root, native, portable
from xscore.records import ChangedFile, Turn

MAX_TASK_CHARS = 100_000
MAX_FILE_CHARS = 60_000
MAX_DIFF_CHARS = 20_000
MAX_RECENT_DAYS = 30.0
SECONDS_PER_DAY = 86_400.0

_ROOM = 4
"""So many times what is shown is looked at for secrets, so that none is cut in two and not seen for one."""
_SECTION = re.compile(r"^(?=diff --git )", re.MULTILINE)
_NAMES = re.compile(r'^(?:---|\+\+\+|rename from|rename to|copy from|copy to) "?(?:[ab]/)?(.+?)"?\t?$', re.MULTILINE)


def complete(turn: Turn, root: Root, *, use_git: bool, now: float, allow_pii: bool = False) -> Turn:
    """Fill in what the turn leaves open. Raises UsageError for an empty or huge task, or a file outside the root.

    allow_pii: leave e-mail addresses and the like in what the user asks and pastes.
    """
    clean = redact if allow_pii else _screened
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
    file = _inside(turn.file, root) if turn.file else ""
    file = file if may_be_named(file) else ""
    diff, changed = _work(root, now) if use_git and root.is_git else ("", ())
    return replace(
        turn,
        task=clean(task).text,
        errors=clean(turn.errors[-_ROOM * MAX_TASK_CHARS :]).text[-MAX_TASK_CHARS:].strip(),
        file=file,
        file_text=_file_text(file, root) if file else "",
        recent=tuple(name for name in dict.fromkeys(_inside(path, root) for path in turn.recent) if may_be_named(name)),
        diff=redact(_without_secret_files(turn.diff or diff)[: _ROOM * MAX_DIFF_CHARS]).text[:MAX_DIFF_CHARS],
        changed=turn.changed or changed,
    )


def _screened(text: str) -> Redacted:
    return redact_pii(redact(text).text)


def _inside(path: str, root: Root) -> str:
    """Name a path relative to the root, whether it was given so, absolutely, or from the working folder."""
    given = Path(path)
    tried = [given] if given.is_absolute() else [Path.cwd() / given, root.path / given]
    for candidate in tried:
        real = candidate.resolve()
        if real.is_relative_to(root.path.resolve()) and real.exists():
            return portable(str(real.relative_to(root.path.resolve())))
    raise UsageError(f"{path} is not a file of {root.path}", hint="Give a path inside the repository.")


def _file_text(file: str, root: Root) -> str:
    """Read the current file for the answering model; a folder, unreadable file or file of secrets shows nothing."""
    path = root.path / native(file)
    if is_secret_file(file) or not path.is_file():
        return ""
    try:
        with path.open("rb") as opened:
            text = redact(opened.read(_ROOM * MAX_FILE_CHARS).decode("utf-8", "replace")).text
    except OSError:
        return ""
    return text if len(text) <= MAX_FILE_CHARS else text[:MAX_FILE_CHARS] + "\n… (file goes on)"


def _without_secret_files(diff: str) -> str:
    """Leave out what the change does to files that hold nothing but secrets: those stay out of everything."""
    parts = _SECTION.split(diff)
    return "".join(part for part in parts if not any(map(is_secret_file, _NAMES.findall(part.partition("\n@@")[0]))))


def _work(root: Root, now: float) -> tuple[str, tuple[ChangedFile, ...]]:
    diff = working_diff(root.path)
    ages = {line[6:]: 0.0 for line in diff.splitlines() if line.startswith("+++ b/")}
    for at, path in recent_commits(root.path):
        days = max(0.0, (now - at) / SECONDS_PER_DAY)
        if days <= MAX_RECENT_DAYS:
            ages.setdefault(path, days)
    return diff, tuple(ChangedFile(portable(path), days) for path, days in ages.items())

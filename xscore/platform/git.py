"""Run git safely: a fixed command line and environment; no hook, monitor, pager or filter of a
repository runs.

It never fetches or prompts, writes nothing but the files of `fill_work_tree`, and returns None
where git is missing or fails, so that callers work in a plain folder too. Trade-off: only the root
is checked for pipes before git runs; one in a deeper folder is looked for once git has taken
`PATIENCE_S`.
"""

import os
import subprocess
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from time import monotonic

from msgspec import Struct

from xscore.platform.files import leads_out
from xscore.platform.git_folder import git_folder

SAFE = """
    core.fsmonitor=false core.hooksPath=/dev/null core.quotePath=false log.showSignature=false
    safe.bareRepository=explicit submodule.recurse=false
    """.split()
KEPT_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "XDG_CONFIG_HOME", "SYSTEMROOT")
TIMEOUT_S = 30
PATIENCE_S = 1.0
"""How long git works before a check whether a pipe blocks it."""
FILL_TIMEOUT_S = 300
"""Deadline for writing all files of a large repository."""
_OPENED = tuple(
    """
    .gitignore .gitattributes .mailmap .git/HEAD .git/config .git/index .git/packed-refs
    .git/info/exclude .git/info/attributes
    """.split()
)
"""Files that git opens at a root without checking their type; a pipe or device would block it
forever."""
_OPENED_IN_FOLDERS = frozenset({".gitignore", ".gitattributes"})
_LOOK_S = 2.0
"""Most seconds of a search for a pipe."""

_NEW_FILES = ("ls-files", "--others", "--exclude-standard", "-z", "--", ".")
_DIFF = ("diff", "--no-ext-diff", "--no-textconv", "--ignore-submodules=all", "--relative")


def run_git(
    root: Path,
    *arguments: str,
    stdin: str = "",
    timeout_s: float = TIMEOUT_S,
    most_bytes: int | None = None,
) -> str | None:
    """Run a read-only git command in `root` and return its output; None if git fails, hangs, is
    missing or leads away.

    most_bytes: git is stopped once it has printed this many, and its output ends there; None: all
        of it is read.
    The work tree is named, so that no setting of the repository (`core.worktree`) can choose
    another.
    """
    if git_folder(root) is None or _is_blocked(root):
        return None
    command = ["git", *_set(SAFE), *arguments]
    quiet = subprocess.DEVNULL
    pipe = subprocess.PIPE
    source = pipe if stdin else quiet
    try:
        with subprocess.Popen(
            command, cwd=root, env=_environment(root), stdin=source, stdout=pipe, stderr=quiet
        ) as git:
            _running.add(git)
            try:
                if most_bytes is None:
                    out = _all_bytes(git, stdin, timeout_s, root)
                else:
                    out = _first_bytes(git, most_bytes, timeout_s, root)
            finally:
                _running.discard(git)
                git.kill()
    except (OSError, subprocess.TimeoutExpired):
        return None
    # One that was stopped at the bound has done what was asked of it.
    is_cut = most_bytes is not None and len(out) == most_bytes
    if git.returncode and not is_cut:
        return None
    return out.decode("utf-8", "surrogateescape")


def _all_bytes(
    git: "subprocess.Popen[bytes]", stdin: str, timeout_s: float, root: Path
) -> bytes:
    """Return all that git prints. Raises TimeoutExpired if it takes too long, or a pipe blocks
    it."""
    try:
        out, _ = git.communicate(stdin.encode() or None, timeout=min(PATIENCE_S, timeout_s))
    except subprocess.TimeoutExpired:
        if timeout_s <= PATIENCE_S or _find_blocking(root):
            raise
        out, _ = git.communicate(timeout=timeout_s - PATIENCE_S)
    return out


def _first_bytes(
    git: "subprocess.Popen[bytes]", most_bytes: int, timeout_s: float, root: Path
) -> bytes:
    """Return the first bytes that git prints; fewer if it takes too long, or a pipe blocks it."""
    assert git.stdout is not None

    def kill_blocked() -> None:
        if _find_blocking(root):
            git.kill()

    # The pipe has no deadline of its own: a killed git closes it.
    alarms = (threading.Timer(PATIENCE_S, kill_blocked), threading.Timer(timeout_s, git.kill))
    for alarm in alarms:
        alarm.start()
    try:
        out = git.stdout.read(most_bytes)
        if len(out) < most_bytes:
            git.wait()
    finally:
        for alarm in alarms:
            alarm.cancel()
    return out


def _environment(root: Path) -> dict[str, str]:
    """Return all that git sees of our environment: a variable of git's own could lead it away."""
    top = Path(os.path.realpath(root))
    environment = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    environment |= {
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_PAGER": "cat",
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_WORK_TREE": str(top),
        "GIT_CEILING_DIRECTORIES": str(top.parent),
        # Outranks any `protocol.*.allow`: a missing object is not fetched.
        "GIT_ALLOW_PROTOCOL": "none",
    }
    return environment


_running: set["subprocess.Popen[bytes]"] = set()


def kill_git() -> None:
    """Kill the git commands of this process, which would outlive it if it ended now."""
    for git in tuple(_running):
        git.kill()


_blocking: dict[Path, Path] = {}
"""Root -> a pipe or device below it that git waited for."""
_without_pipes: set[Path] = set()
"""Roots without pipes, where git is slow for another reason."""


def _is_blocked(root: Path) -> bool:
    """Whether git would wait forever: it opens files without looking what they are.

    Looked at before each command, since they may be replaced.
    """
    opened = [root / name for name in _OPENED]
    if root in _blocking:
        opened.append(_blocking[root])
    return any(map(_is_endless, opened))


def _find_blocking(root: Path) -> bool:
    """Look for a pipe or device that blocks git in any folder of a root, and remember it; False
    also if none was found in time."""
    if root in _without_pipes:
        return False
    give_up = monotonic() + _LOOK_S
    git_files = f"{root}{os.sep}.git{os.sep}"
    folders = [str(root)]
    while folders and monotonic() < give_up:
        with suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                    continue
                # Most files are told by their entry alone.
                if entry.is_file(follow_symlinks=False):
                    continue
                is_opened = entry.name in _OPENED_IN_FOLDERS or entry.path.startswith(git_files)
                if is_opened and _is_endless(Path(entry.path)):
                    _blocking[root] = Path(entry.path)
                    return True
    _without_pipes.add(root)
    return False


def _is_endless(place: Path) -> bool:
    try:
        mode = place.stat().st_mode
    except OSError:
        return False
    return not (S_ISREG(mode) or S_ISDIR(mode))


class WorkingDiff(Struct, frozen=True):
    """The uncommitted change against HEAD."""

    patch: str = ""
    """A unified diff with the prefixes `a/` and `b/`."""
    changed: Mapping[str, bool] = {}
    """Each file that git lists as changed -> whether only HEAD still has it.

    Names that git quotes are missing.
    """
    is_known: bool = False
    """Whether git could say."""


def working_diff(root: Path, since: Sequence[str] = ("HEAD",)) -> WorkingDiff:
    """Return the change of the working tree against HEAD, made without external helpers.

    since: another commit than HEAD, or two, whose difference is returned; full hashes.

    A repository can configure clean filters, which git would run on changed files; they are
    switched off. Submodules have their own configuration and are skipped. If a filter cannot be
    switched off, there is no diff, and none if git lists a file outside the root: git reads such a
    file, and writes its path into the diff like one inside, so the text of the diff cannot tell
    them apart. Only an index that was made by hand lists one.
    """
    off = _filters_off(root)
    if off is None:
        return WorkingDiff()
    form = ("--patch-with-raw", "--no-color", "--src-prefix=a/", "--dst-prefix=b/")
    printed = run_git(root, *off, *_DIFF, *form, *since, "--", ".")
    if printed is None:
        return WorkingDiff()
    listing, _, patch = (
        printed.encode("utf-8", "surrogateescape").decode("utf-8", "replace").partition("\n\n")
    )
    changed: dict[str, bool] = {}
    for line in listing.split("\n"):
        # `:modes and hashes STATUS`, then one name, or the old and the new one.
        status, *names = line.split("\t")
        if any(leads_out(name.strip('"')) for name in names):
            return WorkingDiff()
        status = status.rpartition(" ")[2]
        for name in names:
            is_gone = status == "D" or (status.startswith("R") and name == names[0])
            changed[name] = is_gone and changed.get(name, True)
    named = {name: is_gone for name, is_gone in changed.items() if not name.startswith('"')}
    return WorkingDiff(patch, named, is_known=True)


def fill_work_tree(root: Path, commit: str) -> bool:
    """Write the files of a commit into a work tree that is ours alone, and remove those of another;
    whether git could.

    The one command that writes. No hook and no filter runs, and links stay links.
    """
    off = _filters_off(root)
    if off is None:
        return False
    arguments = ("read-tree", "--reset", "-u", commit)
    return run_git(root, *off, *arguments, timeout_s=FILL_TIMEOUT_S) is not None


def changed_files(root: Path, since: str = "HEAD") -> frozenset[str] | None:
    """Return the files that differ between a revision and the working tree, new files included, as
    git writes paths.

    None: git is missing or fails, the revision does not exist, or a filter cannot be switched off.
    Filters and submodules are treated as by `working_diff`.
    """
    off = _filters_off(root)
    commit = commit_named(root, since)
    if off is None or not commit:
        return None
    differs = run_git(
        root, *off, *_DIFF, "--no-renames", "--name-only", "-z", commit, "--", "."
    )
    new = run_git(root, *off, *_NEW_FILES)
    if differs is None or new is None:
        return None
    return frozenset(
        name for name in (differs + new).split("\0") if name and not leads_out(name)
    )


def new_files(root: Path) -> tuple[str, ...]:
    """Return the files that git neither tracks nor ignores, as git writes paths."""
    off = _filters_off(root)
    if off is None:
        printed = None
    else:
        printed = run_git(root, *off, *_NEW_FILES)
    return tuple(name for name in (printed or "").split("\0") if name and not leads_out(name))


def tracked_files(root: Path) -> tuple[str, ...]:
    """Return the files that git tracks below the root, as git writes paths."""
    printed = run_git(root, "ls-files", "-z", "--", ".")
    return tuple(name for name in (printed or "").split("\0") if name and not leads_out(name))


def commit_named(root: Path, name: str) -> str:
    """Return the full hash of the commit that a name means; empty if there is none."""
    query = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    return (run_git(root, *query) or "").strip()


def is_shallow(root: Path) -> bool:
    """Return whether a repository was cloned without its older commits."""
    return (run_git(root, "rev-parse", "--is-shallow-repository") or "").strip() == "true"


def merge_base(root: Path, first: str, second: str) -> str:
    """Return the commit from which two commits parted; empty if there is none."""
    return (run_git(root, "merge-base", first, second) or "").partition("\n")[0].strip()


def commit_messages(root: Path, base: str, tip: str, *, limit: int) -> tuple[str, ...]:
    """Return the messages of the newest commits that `tip` has and `base` has not."""
    form = ("log", f"-n{limit}", "-z", "--format=%B", f"{base}..{tip}")
    printed = run_git(root, *form) or ""
    text = printed.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return tuple(message for message in text.split("\0") if message.strip())


def _filters_off(root: Path) -> list[str] | None:
    """Return the options that switch off every filter the repository configures; None if one cannot
    be."""
    query = ("config", "--includes", "--name-only", "--null", "--get-regexp", r"^filter\.")
    listed = run_git(root, *query) or ""
    names = sorted({key.rsplit(".", 1)[0] for key in listed.split("\0") if key})
    if any("=" in name for name in names):  # `-c` would end the name there
        return None
    settings: list[str] = []
    for name in names:
        # Each of them could run a program of the repository; a filter without one must not be
        # required, or git refuses the file.
        settings += [
            f"{name}.{end}" for end in ("clean=", "smudge=", "process=", "required=false")
        ]
    return _set(settings)


def _set(settings: Iterable[str]) -> list[str]:
    """Return the options that set these settings for one command."""
    options: list[str] = []
    for setting in settings:
        options += ("-c", setting)
    return options


def git_user(root: Path) -> str:
    """Return the name under which commits would be made in `root`; empty if there is none."""
    printed = run_git(root, "config", "user.name") or ""
    return printed.strip().encode("utf-8", "replace").decode("utf-8")

"""Ask git, safely: a fixed command line and environment; no hook, monitor, pager or filter of a repository runs.

It never writes (`GIT_OPTIONAL_LOCKS=0`), fetches or prompts, and answers None where git is missing or refuses, so that
everything built on it works in a plain folder too. Trade-off: a pipe in the place of an ignore file deeper down is not
looked for, and there git is given up after `TIMEOUT_S`.
"""

import os
import re
import subprocess
from pathlib import Path
from stat import S_ISDIR, S_ISREG

SAFE = (
    "-c", "core.fsmonitor=false",
    "-c", "core.hooksPath=/dev/null",
    "-c", "core.quotePath=false",
    "-c", "log.showSignature=false",
    "-c", "submodule.recurse=false",
)  # fmt: skip
KEPT_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "XDG_CONFIG_HOME", "SYSTEMROOT")
TIMEOUT_S = 30
_OPENED = tuple(
    """
    .gitignore .gitattributes .mailmap .git/HEAD .git/config .git/index .git/packed-refs .git/info/exclude
    .git/info/attributes
    """.split()  # noqa: SIM905  read as a list of names
)
"""What git opens at a root without a look: of a pipe or a device it would wait for an end that never comes."""

DETACHED_HEAD = "detached HEAD"
"""Stands for the branch where none is checked out; no branch can have a blank in its name."""
_BEGAN_FROM = ("rebase-merge/head-name", "rebase-apply/head-name", "BISECT_START")
_RENAMED = re.compile(rb"\tBranch: renamed refs/heads/(.+) to refs/heads/(.+)$", re.MULTILINE)
_REFLOG_BYTES = 65_536
_COMMIT = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")


def run_git(root: Path, *arguments: str) -> bytes | None:
    """Run one reading git command in `root` and return what it printed; None when git fails, hangs or is not there."""
    if any(map(_is_endless, map(root.joinpath, _OPENED))):
        return None
    environment = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    environment |= {
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_PAGER": "cat",
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_ALLOW_PROTOCOL": "none",  # outranks any `protocol.*.allow`: a missing object is not fetched
    }
    try:
        done = subprocess.run(
            ["git", *SAFE, *arguments],
            cwd=root,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _is_endless(place: Path) -> bool:
    try:
        mode = place.stat().st_mode
    except OSError:
        return False
    return not (S_ISREG(mode) or S_ISDIR(mode))


def working_diff(root: Path) -> str:
    """Return the uncommitted change against HEAD as a unified diff, made without external helpers.

    A repository can configure clean filters, which git would run on changed files; they are switched off. Submodules,
    which bring a configuration of their own, are not looked into. Where a filter cannot be switched off: no diff.
    """
    off = _filters_off(root)
    if off is None:
        return ""
    plain = ("--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=all")
    diff = run_git(root, *off, "diff", "HEAD", *plain, "--src-prefix=a/", "--dst-prefix=b/", "--relative", "--", ".")
    return (diff or b"").decode("utf-8", "replace")


def changed_files(root: Path, since: str = "HEAD") -> frozenset[str] | None:
    """Return the files that differ between a revision and the working tree, new ones among them, as git writes paths.

    None: git is missing or refuses, or there is no such revision. Filters and submodules are treated as by
    `working_diff`; where a filter cannot be switched off, it is None as well.
    """
    off = _filters_off(root)
    named = run_git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{since}^{{commit}}")
    if off is None or named is None:
        return None
    plain = ("--no-ext-diff", "--no-textconv", "--ignore-submodules=all", "--no-renames", "--relative")
    commit = named.decode("ascii", "replace").strip()
    differs = run_git(root, *off, "diff", "--name-only", "-z", *plain, commit, "--", ".")
    new = run_git(root, *off, "ls-files", "--others", "--exclude-standard", "-z", "--", ".")
    if differs is None or new is None:
        return None
    return frozenset(name for name in (differs + new).decode("utf-8", "surrogateescape").split("\0") if name)


def _filters_off(root: Path) -> list[str] | None:
    """Return what switches off every clean filter that the repository configures; None: one cannot be."""
    listed = run_git(root, "config", "--includes", "--name-only", "--null", "--get-regexp", r"^filter\.") or b""
    names = {key.rsplit(".", 1)[0] for key in listed.decode("utf-8", "surrogateescape").split("\0") if key}
    if any("=" in name for name in names):  # `-c` ends a name there
        return None
    off = [
        part for name in sorted(names) for key in ("clean", "smudge", "process") for part in ("-c", f"{name}.{key}=")
    ]
    return off + [part for name in sorted(names) for part in ("-c", f"{name}.required=false")]


def recent_commits(root: Path, *, commits: int = 30) -> tuple[tuple[float, str], ...]:
    """Return (unix seconds, path) of the files that the newest commits touched, newest first, each path once."""
    printed = run_git(root, "log", f"-n{commits}", "--no-merges", "--relative", "--name-only", "-z", "--format=%x01%ct")
    seen: dict[str, float] = {}
    when = 0.0
    for field in (printed or b"").decode("utf-8", "surrogateescape").replace("\n", "\0").split("\0"):
        if field.startswith("\x01"):
            when = float(field[1:] or 0)
        elif field:
            seen.setdefault(field, when)
    return tuple((at, path) for path, at in seen.items())


def merged_branches(root: Path) -> tuple[str, ...]:
    """Name the local branches that the last merge or pull brought into HEAD, by name; the one it went into is none.

    They are in HEAD and were not in ORIG_HEAD, so a branch that was only just begun is not taken for a merged one.
    Squashed and rebased branches leave no trace of where they came from.
    """
    form = "--format=%(HEAD)%(refname:lstrip=2)"
    printed = run_git(root, "for-each-ref", "--merged=HEAD", "--no-merged=ORIG_HEAD", form, "refs/heads")
    names = (printed or b"").decode("utf-8", "surrogateescape").splitlines()
    return tuple(name[1:] for name in names if not name.startswith("*"))


def head_branch(git_dir: Path) -> str:
    """Name the branch by reading HEAD; a detached head is named by its commit."""
    if not (git_dir / "HEAD").is_file():  # a pipe would be waited for
        return ""
    try:
        head = (git_dir / "HEAD").read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""
    return head.removeprefix("ref: refs/heads/")


def working_branch(git_dir: Path) -> str:
    """Name the branch that is worked on, by reading files: of a rebase or bisect under way, the one it began from."""
    named = head_branch(git_dir)
    if not _COMMIT.fullmatch(named):
        return named
    for file in _BEGAN_FROM:
        began = _small_text(git_dir / file).strip().removeprefix("refs/heads/")
        if began and not _COMMIT.fullmatch(began) and began != DETACHED_HEAD:
            return began
    return DETACHED_HEAD


def earlier_branch_names(git_dir: Path, name: str) -> tuple[str, ...]:
    """Return what a branch was called before it was renamed, latest first, by its reflog."""
    shared = _small_text(git_dir / "commondir").strip()
    log = (git_dir / shared if shared else git_dir) / "logs" / "refs" / "heads" / name
    found: list[str] = []
    wanted = name
    for old, new in reversed(_RENAMED.findall(_small_bytes(log))):
        if new.decode("utf-8", "surrogateescape") == wanted:
            wanted = old.decode("utf-8", "surrogateescape")
            found.append(wanted)
    return tuple(found)


def _small_text(file: Path) -> str:
    return _small_bytes(file).decode("utf-8", "surrogateescape")


def _small_bytes(file: Path) -> bytes:
    """Read the end of a file of git's; nothing where it is none, or no regular one."""
    try:
        if not file.is_file():
            return b""
        with file.open("rb") as opened:
            opened.seek(max(0, file.stat().st_size - _REFLOG_BYTES))
            return opened.read()
    except (OSError, ValueError):
        return b""

"""Files of a repository at a commit: archived once, or in a clone that goes from one to another.

Not a benchmark itself. No hook of a clone runs.
"""

import io
import subprocess
import tarfile
from pathlib import Path

GIT = ("git", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0")
AUTHOR = [
    "-c",
    "user.name=bench",
    "-c",
    "user.email=bench@example.invalid",
    "-c",
    "commit.gpgsign=false",
]


def run_git(folder: Path, *arguments: str) -> str:
    """Run git in a clone."""
    done = subprocess.run(
        [*GIT, *arguments],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
        errors="replace",
    )
    return done.stdout


def clone_without_files(clone: Path, tree: Path, *, reads_history: bool = False) -> None:
    """Make a clone that shares the objects of another, with an empty work tree.

    reads_history: give it hard links to them instead. Git is not asked where objects are shared.
    """
    objects = [] if reads_history else ["--shared"]
    command = [*GIT, "clone", "-q", *objects, "--no-checkout", str(clone), str(tree)]
    subprocess.run(command, check=True, capture_output=True)


def check_out(tree: Path, commit: str) -> None:
    """Have a clone's work tree hold the files of a commit and nothing else."""
    run_git(tree, "checkout", "-q", "-f", "--detach", commit)
    run_git(tree, "clean", "-fdxq")


def checked_out(clones: Path, repository: str, commit: str, target: Path) -> Path:
    """Return the files of a commit below `target`, written from a clone where they are not there
    yet.

    clones: has OWNER+NAME for each repository, a work tree or a bare one.
    """
    clone = clones / repository.replace("/", "+")
    git_dirs = [clone / end for end in ("repo", ".git", ".") if (clone / end).exists()]
    if not git_dirs:
        raise SystemExit(f"there is no clone of {repository} at {clone}")
    git_dir = git_dirs[0]
    if not target.exists():
        command = ["git", f"--git-dir={git_dir}", "archive", commit]
        done = subprocess.run(command, capture_output=True, check=True)
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as tree:
            # A link to an absolute path is one of the tests of a repository; nothing asks for it.
            inside = [
                member
                for member in tree
                if not (member.issym() and member.linkname.startswith("/"))
            ]
            tree.extractall(target, inside, filter="data")
    return target


def as_repository(tree: Path) -> Path:
    """Make a tree a repository with one commit, if it is none."""
    if not (tree / ".git").exists():
        for command in (
            ["init", "-q"],
            ["add", "-Af"],
            [*AUTHOR, "commit", "-qm", "all", "--no-verify"],
        ):
            subprocess.run(["git", "-C", str(tree), *command], check=True, capture_output=True)
    return tree

"""`xscore eval mine`: cases from the history of this repository, as lines of JSON.

The cases go to standard output or to a file, what was left out to standard error. It reads git
alone: no store is made, nothing is sent.
"""

import time
from pathlib import Path

import msgspec

from xscore.cli.flags import Flags, command
from xscore.cli.options import COUNT, FILE, option, utc_time
from xscore.cli.settings_and_store import read_settings
from xscore.cli.terminal import Terminal
from xscore.extensions.evaluation.mining import Mined, mine_cases
from xscore.platform.errors import ExitCode, NothingMatched, UsageError
from xscore.platform.files import write_atomically
from xscore.platform.git import commit_named
from xscore.platform.paths import find_root
from xscore.platform.text import counted, escape_in_json

DEFAULT_MOST = 100
SECONDS_BETWEEN_LINES = 5.0
_MINE_OPTIONS = [
    option(
        "--most",
        metavar="N",
        type=COUNT,
        default=DEFAULT_MOST,
        help=f"At most N cases, of the newest commits (default {DEFAULT_MOST}).",
    ),
    option(
        "--since",
        metavar="TIME",
        type=utc_time,
        help="Commits since 2026-11-01, or of the last 90d.",
    ),
    option(
        "-o", "--out", "--output", "output", metavar="FILE", type=FILE, help="Write to FILE."
    ),
]


@command(_MINE_OPTIONS)
def mine(flags: Flags) -> int:
    """Make cases for `eval run` from the commits of this repository.

    A commit that changed one to five functions and says why becomes a case: the message is the
    task, without names, paths and numbers that give the answer away; what it changed, as it was
    before, is the gold. One JSON object a line; the same history gives the same lines. Commits that
    are left out are counted by reason on standard error. Nothing is sent.
    """
    terminal = flags.terminal
    root = find_root(Path.cwd()).path
    settings = read_settings(flags).settings
    refuse_without_history(root, uses_git=settings.index.git)
    mined = mine_cases(
        root,
        settings.index,
        limit=flags.given["most"],
        since=flags.given["since"],
        progress=_Progress(terminal).show,
    )
    output: Path | None = flags.given["output"]
    lines = case_lines(mined)
    if output is not None:
        write_atomically(output, lines.encode())
        terminal.note(f"{counted(len(mined.cases), 'case')} written to {output}")
    if terminal.as_json:
        terminal.print_result(mined, "", more={"output": str(output) if output else ""})
    elif output is None and lines:
        terminal.data(lines, is_json=True)
    terminal.lines(describe_left_out(mined))
    return ExitCode.DONE if mined.cases else ExitCode.PARTLY


def case_lines(mined: Mined) -> str:
    """Return the cases as lines of JSON."""
    lines: list[str] = []
    for case in mined.cases:
        text = msgspec.json.encode(case).decode()
        lines.append(escape_in_json(text) + "\n")
    return "".join(lines)


def describe_left_out(mined: Mined) -> str:
    """Say how many commits became cases, and why the others did not."""
    looked_at = counted(mined.commits, "commit")
    lines = [f"{counted(len(mined.cases), 'case')} of {looked_at} (merges not counted)"]
    for reason, count in mined.left_out.items():
        lines.append(f"{count:7,}  {reason}")
    if mined.is_shallow:
        lines.append(
            "this clone is shallow: `git fetch --unshallow` brings the rest of the history"
        )
    return "\n".join(lines)


def refuse_without_history(root: Path, *, uses_git: bool) -> None:
    """Raise UsageError or NothingMatched where there are no commits to read."""
    if not uses_git:
        raise UsageError("index.git is off, and cases come from git", hint="Turn index.git on.")
    if not commit_named(root, "HEAD"):
        raise NothingMatched(
            f"there is no history to read in {root}: no git, no commit yet, or a git folder that"
            " leads elsewhere",
            hint="Go to a repository with commits.",
        )


class _Progress:
    """Says now and then how far it is."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._last_line = time.monotonic()

    def show(self, looked_at: int, cases: int) -> None:
        """Print a line, a few seconds after the last."""
        if time.monotonic() - self._last_line >= SECONDS_BETWEEN_LINES:
            self._last_line = time.monotonic()
            self._terminal.lines(
                f"{counted(looked_at, 'commit')} looked at, {counted(cases, 'case')} so far …"
            )

"""Records of the session importer: exchanges, session files and their lines, and the import report."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct, field


class FailedCommand(Struct, frozen=True):
    """A command that failed during an exchange."""

    command: str
    output: str
    """The end of its output."""
    passed_later: bool = False
    """Whether the same command succeeded later in the exchange."""


class ImportedExchange(Struct, frozen=True, kw_only=True):
    """One task of a past session and its answer."""

    origin: str
    """Name of the format: `claude-code`, `codex`, `aider`, `cline`."""
    session: str
    """The agent's name for the session."""
    identity: str
    """Stable across copies and repeated reads."""
    asked: str
    """What the person typed, without injected text."""
    answered: str
    """The agent's last words."""
    at: float
    """Unix seconds of the question."""
    ended_at: float
    """Unix seconds of the last record."""
    cwd: str
    """The agent's working directory."""
    paths: tuple[str, ...] = ()
    """Changed files as the agent wrote them, in order of the first change."""
    failures: tuple[FailedCommand, ...] = ()


class UnreadableSession(Exception):  # not part of the XscoreError tree: the import report shows it
    """A file does not follow its format. `line` is 0 when the whole file is meant."""

    def __init__(self, line: int, expected: str) -> None:
        super().__init__(f"line {line}: {expected}" if line else expected)


class AgentFolders(Struct, frozen=True):
    """Where agents keep their sessions."""

    home: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    root: Path = Path()
    """The repository to import for; absolute, symlinks resolved."""


class SessionFile(Struct, frozen=True):
    """A file that may hold exchanges of this repository."""

    path: Path
    is_in_repository: bool = False
    """Its location proves that it belongs to the repository; otherwise its recorded folder decides."""
    is_json_array: bool = False
    cwd: str = ""
    """The folder it belongs to, when its records do not name one."""
    skip_reason: str = ""
    """Why the file is skipped; empty to read it."""


class SessionLine(NamedTuple):
    """One line of a file. A named tuple, because a gigabyte holds ten million of them."""

    number: int
    """1-based."""
    data: bytes
    """Without the line end."""
    is_truncated: bool = False
    """Too long: `data` is only its beginning."""
    is_unterminated: bool = False
    """It has no line end, so its agent may still be writing it."""


class RefusedFile(Struct, frozen=True):
    """A file that could not be read."""

    path: str
    origin: str
    reason: str
    """Names the line and what was expected there."""


class SessionImportReport(Struct, frozen=True, kw_only=True):
    """The result of one import."""

    dry_run: bool
    files: int
    """Files of this repository."""
    unchanged: int
    """Of these, already imported and not opened."""
    bytes_read: int
    exchanges: int
    """Exchanges read; the sum of the next five."""
    added: int
    updated: int
    """Known, and continued since."""
    known: int
    forgotten: int
    """Erased by the user, so not imported again."""
    elsewhere: int
    """Of other folders, or older than `--since`."""
    failures: int
    """Failing commands that became failures of the project."""
    links: int
    """Edges to code that exchanges name."""
    secrets_redacted: int
    by_origin: dict[str, int]
    """Exchanges added or updated."""
    refused: tuple[RefusedFile, ...]
    notes: tuple[str, ...]

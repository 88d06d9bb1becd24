"""What a past session comes to: exchanges, each with the words of the person and of the agent, and what went wrong.

Records only; how a format spells them is each format's business, and how they become memories `remembering`'s.

What a format of past sessions is: it finds its files, and reads one line after another into exchanges.

To add one, write a module with these two classes and name it in `formats.py`. A reader keeps nothing but the exchange
that is open, and can say at any time from where, and knowing what, another reader could go on. Trade-off: a format sees
one file at a time, so copies over files are told by the identities it gives, not by looking.

What an import found, took and left, for the command line.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from msgspec import Struct, field


class FailedCommand(Struct, frozen=True):
    """A command that failed during an exchange."""

    command: str
    output: str
    """The end of what it printed."""
    passed_later: bool = False
    """Whether the very same command succeeded after that, in the same exchange."""


class ImportedExchange(Struct, frozen=True, kw_only=True):
    """One task of a past session, and what came of it."""

    origin: str
    """Name of the format: `claude-code`, `codex`, `aider`, `cline`."""
    session: str
    """The agent's own name of the session."""
    identity: str
    """The same wherever the exchange was copied to, and whenever it is read again."""
    asked: str
    """What the person said; nothing that a tool, an agent or xscore put there."""
    answered: str
    """The last words of the agent."""
    at: float
    """Unix seconds of the question."""
    ended_at: float
    """Unix seconds of the last record."""
    cwd: str
    """Where the agent stood when it was asked."""
    branch: str = ""
    paths: tuple[str, ...] = ()
    """Files it changed, as the agent wrote them, in order of the first change."""
    failures: tuple[FailedCommand, ...] = ()


ReaderState = Mapping[str, object]
"""What a reader must know to go on in the middle of a file; plain JSON."""


class UnreadableSession(Exception):  # not of the XscoreError tree: the report says what it means
    """A file that is not what its format says; nothing of what was just read is kept."""

    def __init__(self, line: int, expected: str) -> None:
        super().__init__(f"line {line}: {expected}" if line else expected)


class AgentFolders(Struct, frozen=True):
    """Where agents keep their sessions; read from the environment at the door."""

    home: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    root: Path = Path()
    """The repository whose sessions are wanted; absolute, symlinks resolved."""


class SessionFile(Struct, frozen=True):
    """A file that may hold exchanges of this repository."""

    path: Path
    origin: str
    certain: bool = False
    """Its very place says that it belongs to the repository; else the folder recorded in it must."""
    whole: bool = False
    """It is one JSON array, handed over an element a line, and read anew whenever it changes."""
    cwd: str = ""
    """The folder it was found to speak of, where it is not in every record."""
    speaking: bytes = b""
    """What a line begins with that tells something; lines between are handed over as one. Empty: each tells."""
    left_out: str = ""
    """Why it is not read although it is there; empty: it is."""


class SessionLine(NamedTuple):
    """One line of a file, or a run of lines. A named tuple, since a gigabyte has ten million of them."""

    number: int
    """1-based."""
    offset: int
    """Byte where it begins, unpacked."""
    data: bytes
    """Without its line end."""
    is_cut: bool = False
    """It is too long, and this is only its beginning."""
    is_open: bool = False
    """It has no line end yet: its agent may be writing it just now."""
    end: int = 0
    """Byte where the next one begins; its own beginning while it has no line end."""
    lines: int = 1
    """How many lines it is; `data` then holds the line breaks between them."""


class ReadPosition(Struct, frozen=True):
    """From where to go on: the beginning of the exchange that is open, or the end of what was read."""

    offset: int
    number: int
    """Of the line that begins there."""
    state: ReaderState


class SessionReader(Protocol):
    """Reads one file of past sessions."""

    def take(self, line: SessionLine) -> ImportedExchange | None:
        """Read a line; the exchange that it ends, if it ends one. Raises UnreadableSession."""
        ...

    def rest(self) -> ImportedExchange | None:
        """Return the exchange that is still open at the end, as far as it went. Raises UnreadableSession."""
        ...

    def mark(self) -> ReadPosition | None:
        """Tell where the open exchange began and what was known there; None: none is open."""
        ...

    def state(self) -> ReaderState:
        """Tell what is known now."""
        ...


class SessionFormat(Protocol):
    """A format of past sessions."""

    @property
    def origin(self) -> str:
        """Its name, as `--from` takes it."""
        ...

    def find(self, places: AgentFolders) -> Iterator[SessionFile]:
        """Find the files of its agent, whichever repository they belong to."""
        ...

    def cwd_of(self, head: bytes) -> list[str]:
        """Return the folders that the first 64 KiB of a file record, as far as they can be told."""
        ...

    def reader(self, file: SessionFile, state: ReaderState) -> SessionReader:
        """Begin to read, at the start or where a mark was made."""
        ...


class RefusedFile(Struct, frozen=True):
    """A file, or the rest of one, of which nothing was taken."""

    path: str
    origin: str
    reason: str
    """Names the line and what was expected there."""


class SessionImportReport(Struct, frozen=True, kw_only=True):
    """All that came of one import."""

    dry_run: bool
    files: int
    """Files of this repository."""
    unchanged: int
    """Of these, known and not looked into."""
    bytes_read: int
    exchanges: int
    """Exchanges read; the sum of the five below."""
    added: int
    updated: int
    """Known, and gone on since."""
    known: int
    """Met before, here or in a copy."""
    forgotten: int
    """Erased by you, and so not taken again."""
    elsewhere: int
    """Of other repositories or folders, or older than `--since`."""
    failures: int
    """Failing commands that became failures of the project."""
    links: int
    """Edges to the code that exchanges name."""
    secrets_redacted: int
    by_origin: dict[str, int]
    """Exchanges added or updated."""
    refused: tuple[RefusedFile, ...]
    notes: tuple[str, ...]

"""What a format of past sessions is: it finds its files, and reads one line after another into exchanges.

To add one, write a module with these two classes and name it in `formats.py`. A reader keeps nothing but the exchange
that is open, and can say at any time from where, and knowing what, another reader could go on. Trade-off: a format sees
one file at a time, so copies over files are told by the identities it gives, not by looking.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from xscore.sessions.exchange import Exchange

State = Mapping[str, object]
"""What a reader must know to go on in the middle of a file; plain JSON."""


class UnreadableSession(Exception):  # not of the XscoreError tree: the report says what it means
    """A file that is not what its format says; nothing of what was just read is kept."""

    def __init__(self, line: int, expected: str) -> None:
        super().__init__(f"line {line}: {expected}" if line else expected)


@dataclass(frozen=True, slots=True)
class Places:
    """Where agents keep their sessions; read from the environment at the door."""

    home: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    root: Path = Path()
    """The repository whose sessions are wanted; absolute, symlinks resolved."""


@dataclass(frozen=True, slots=True)
class SessionFile:
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


class Line(NamedTuple):
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


@dataclass(frozen=True, slots=True)
class Mark:
    """From where to go on: the beginning of the exchange that is open, or the end of what was read."""

    offset: int
    number: int
    """Of the line that begins there."""
    state: State


class Reader(Protocol):
    """Reads one file of past sessions."""

    def take(self, line: Line) -> Exchange | None:
        """Read a line; the exchange that it ends, if it ends one. Raises UnreadableSession."""
        ...

    def rest(self) -> Exchange | None:
        """Return the exchange that is still open at the end, as far as it went. Raises UnreadableSession."""
        ...

    def mark(self) -> Mark | None:
        """Tell where the open exchange began and what was known there; None: none is open."""
        ...

    def state(self) -> State:
        """Tell what is known now."""
        ...


class SessionFormat(Protocol):
    """A format of past sessions."""

    @property
    def origin(self) -> str:
        """Its name, as `--from` takes it."""
        ...

    def find(self, places: Places) -> Iterator[SessionFile]:
        """Find the files of its agent, whichever repository they belong to."""
        ...

    def cwd_of(self, head: bytes) -> list[str]:
        """Return the folders that the first 64 KiB of a file record, as far as they can be told."""
        ...

    def reader(self, file: SessionFile, state: State) -> Reader:
        """Begin to read, at the start or where a mark was made."""
        ...

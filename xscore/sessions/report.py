"""What an import found, took and left, for the command line."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refused:
    """A file, or the rest of one, of which nothing was taken."""

    path: str
    origin: str
    reason: str
    """Names the line and what was expected there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
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
    refused: tuple[Refused, ...]
    notes: tuple[str, ...]

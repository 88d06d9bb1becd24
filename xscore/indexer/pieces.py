"""What the cutters hand over: a source file, and the pieces that it is cut into. Rows count from 0, ends inclusive."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from xscore.indexer.languages import Language
from xscore.records import CodeFacts, Kind


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A textual file, as read."""

    path: str
    text: str
    """Line ends are `\\n`."""
    language: Language
    is_test: bool
    window_lines: int

    @property
    def lines(self) -> list[str]:
        """Without their line breaks."""
        return self.text.split("\n")


@dataclass(frozen=True, slots=True)
class Use:
    """A name that a piece uses; what the hint says is written down in `links`."""

    name: str
    hint: str
    is_reference: bool = False
    """Named (a base class, a doc's mention) rather than called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A memory to be."""

    kind: Kind
    entity: str
    start: int
    end: int
    text: str
    title: str
    card: str = ""
    facts: CodeFacts = field(default_factory=CodeFacts)
    uses: tuple[Use, ...] = ()


def numbered(names: Sequence[str]) -> list[str]:
    """Tell repeated names of one file apart: `x`, `x#2`, `x#3`."""
    seen: dict[str, int] = {}
    told = []
    for name in names:
        count = seen[name] = seen.get(name, 0) + 1
        told.append(name if count == 1 else f"{name}#{count}")
    return told


def trimmed(lines: Sequence[str], start: int, end: int) -> tuple[int, int]:
    """The same rows without blank ones at either end; empty (end < start) where all are blank."""
    while start <= end and not lines[start].strip():
        start += 1
    while end >= start and not lines[end].strip():
        end -= 1
    return start, end

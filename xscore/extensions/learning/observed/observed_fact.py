"""One thing that files show, and the memory that it becomes.

The id is of the key and the value: what is shown again is the same memory. The words may hold a
share ("112 of 118 modules"), which is compared loosely, so that a new file does not change what a
judge has judged.
"""

import re
from collections.abc import Iterable

from msgspec import Struct

from xscore.platform.hashing import integer_id
from xscore.records.memory import (
    OBSERVED_ORIGIN,
    STACK_ORIGIN,
    Citation,
    Kind,
    Layer,
    Memory,
    MemoryDetails,
    MemorySource,
)
from xscore.store import memory_writer
from xscore.store.composing import details_text

SHARE_TOLERANCE = 0.03
"""Least change of a share that changes its words."""
COUNT_TOLERANCE = 0.2
"""A count out of a total that changes by less than this part keeps its words, too."""
FILES_NAMED = 3
_ASIDE = re.compile(r"(?:\A|/)(?:examples?|docs?|vendor|node_modules|templates?|bench\w*)/")
"""Matches folders whose files say nothing about how the project itself is made."""
_SHARE = re.compile(r"(?<![\d,])(\d[\d,]*+) of (\d[\d,]*+)")


def is_aside(path: str) -> bool:
    """Whether a file is an example, a copy of others or the like."""
    return _ASIDE.search(path) is not None


class SourceLine(Struct, frozen=True, array_like=True):
    """A line of a file; 0: the file as a whole, of which no line is cited."""

    path: str
    line: int = 0

    @property
    def place(self) -> str:
        """The place as a citation names it."""
        if self.line:
            return f"{self.path}:{self.line}"
        return self.path


class ObservedFact(Struct, frozen=True, kw_only=True):
    """One thing that files show."""

    key: str
    value: str
    """The value that identifies the fact under its key."""
    words: str
    kind: Kind = Kind.CONVENTION
    because: str = ""
    aliases: tuple[str, ...] = ()
    lines: tuple[SourceLine, ...] = ()
    """The lines that show the fact, which its memory cites."""
    files: tuple[str, ...] = ()
    """Files that show the fact without a line of their own."""
    count: int = 1
    """How many files or definitions show the fact."""
    topic: str = ""
    """What the fact is about where its key says more; empty: its key."""


def memory_of_fact(fact: ObservedFact, *, confidence: float, now: float) -> Memory:
    """Return the memory of a fact. now: Unix seconds."""
    origin = OBSERVED_ORIGIN
    if fact.kind is Kind.TECH_STACK:
        origin = STACK_ORIGIN
    paths = list(dict.fromkeys(line.path for line in fact.lines)) or list(
        fact.files[:FILES_NAMED]
    )
    details = MemoryDetails(
        rationale=fact.because, imported_from=origin, paths=tuple(paths), aliases=fact.aliases
    )
    memory, _ = memory_writer.make_memory(
        layer=Layer.PROJECT,
        kind=fact.kind,
        title=f"{fact.key}: {fact.value}",
        text=f"{fact.words}{details_text(details)}",
        ordinal=integer_id(origin, fact.key, fact.value),
        details=details,
        key=fact.key,
        confidence=confidence,
        evidence_count=max(1, fact.count),
        source=MemorySource.INFERRED,
        updated_at=now,
    )
    return memory


def says_the_same(earlier: str, later: str) -> bool:
    """Whether two texts differ in nothing but shares that are nearly the same."""
    if earlier == later:
        return True
    if _SHARE.sub("", earlier) != _SHARE.sub("", later):
        return False
    pairs = zip(_shares(earlier), _shares(later), strict=True)
    return all(_is_close(before, after) for before, after in pairs)


def _shares(text: str) -> Iterable[tuple[int, int]]:
    for part, total in _SHARE.findall(text):
        yield int(part.replace(",", "")), int(total.replace(",", ""))


def _is_close(before: tuple[int, int], after: tuple[int, int]) -> bool:
    if not (before[1] and after[1]):
        return False
    share_moved = abs(before[0] / before[1] - after[0] / after[1])
    total_moved = abs(before[1] - after[1]) / before[1]
    return share_moved <= SHARE_TOLERANCE and total_moved <= COUNT_TOLERANCE


def cited_places(citations: Iterable[Citation]) -> set[tuple[str, str]]:
    """Return what is cited, wherever it is in its file."""
    return {(citation.path, citation.span_hash) for citation in citations}

"""Input and output of a bundle, and what every form shows of one memory: value, caption, provenance.

A five-term score orders the memories. Provenance (who wrote it, how long ago) is our own text and precedes anything
quoted. Only the answering prompt has ages: in the judging prompt they would change every content hash each day.
Trade-off: ages are coarse, so that the same question asked twice in an hour gives the same text.
"""

import re
from collections.abc import Sequence
from math import exp

from msgspec import Struct

from xscore.platform.clock import DAY_S
from xscore.prompts.fences import escape_tags, well_formed
from xscore.records.judgment import Ranked
from xscore.records.memory import Citation, Kind, Layer, Memory, MemorySource, MemoryStatus
from xscore.settings import BundleSettings

SYSTEM_CONTEXT_LAYERS = frozenset({Layer.SESSION, Layer.PROJECT, Layer.USER})
"""Layers of the first section, *system context*; the others are *evidence*."""


class BundleEntry(Struct, frozen=True):
    """A chosen memory on its way into the bundle."""

    memory: Memory
    ranked: Ranked | None
    """None: a detail of a kept summary, not selected itself."""
    header: str = ""
    """Imports and module head of its file, the same for every memory of that file."""
    below_threshold: bool = False
    """Taken in by `min_keep`."""
    alike: tuple[str, ...] = ()
    """Ids of selected near duplicates that this one represents."""
    resolved: str = ""
    """The sentence that resolves a conflict with others, shown instead of its text."""
    settles: tuple[str, ...] = ()
    """Ids of the other selected memories in that conflict."""
    changed: tuple[Citation, ...] = ()
    """Cited spans that changed."""
    summary: str = ""
    """Id of the kept summary that it is a detail of."""

    @property
    def score(self) -> float:
        """Its final score; 0 for a detail."""
        return self.ranked.score if self.ranked else 0.0

    @property
    def others(self) -> tuple[str, ...]:
        """Ids of the selected memories that this one represents."""
        return (*self.alike, *self.settles)


class RepositoryContext(Struct, frozen=True):
    """What the `memory` form shows besides the memories."""

    branch: str = ""
    commit: str = ""
    """Short hash of the commit that is checked out."""
    history: tuple[str, ...] = ()
    """Recent decisions, one line each, newest first."""


class Bundle(Struct, frozen=True):
    """What the answering model is shown of the memories."""

    text: str
    included: tuple[str, ...]
    """Memory ids, in the order shown."""
    omitted: tuple[str, ...]
    """Memory ids that did not fit."""
    tokens: int
    """Estimated; at most the budget, unless the list of omissions alone exceeds it."""
    merged: tuple[str, ...] = ()
    """Selected memories represented by another one: near duplicates, settled conflicts."""

    @property
    def citable(self) -> tuple[str, ...]:
        """Ids that an answer may cite."""
        return (*self.included, *self.merged)


CODE_KINDS = frozenset({Kind.FUNCTION, Kind.METHOD, Kind.CLASS, Kind.TEST, Kind.BLOCK})
MAX_NAMED_OMISSIONS = 30
"""Name at most this many omitted memories; count the rest."""


class BundlePiece(Struct, frozen=True):
    """One memory with what is shown of it."""

    entry: BundleEntry
    text: str
    tokens: int
    header: str = ""
    """Head of its file; empty if already shown."""
    note: str = ""
    """Who said it and when, in our words."""

    @property
    def memory(self) -> Memory:
        """The memory."""
        return self.entry.memory

    @property
    def score(self) -> float | None:
        """Its final score; None for a detail of a summary."""
        return self.entry.ranked.score if self.entry.ranked else None


class BundleLayout(Struct, frozen=True):
    """What a form lays out."""

    pieces: tuple[BundlePiece, ...]
    omitted: tuple[BundlePiece, ...]
    repository: RepositoryContext | None = None


def piece_caption(piece: BundlePiece) -> str:
    """`[m_…] decision (said by the user 3 days ago) docs/adr.md lines 3-9`, on one line."""
    memory = piece.memory
    words = [f"[{memory.id}]", memory.kind.value]
    remarks = piece_remarks(piece)
    if remarks:
        words.append(f"({escape_tags(remarks)})")
    if memory.kind not in CODE_KINDS:
        words.append(piece_heading(piece))
    if memory.start_line:
        words.append(f"lines {memory.start_line}-{memory.end_line}")
    if piece.entry.below_threshold:
        words.append("(below the threshold)")
    return collapse_blanks(" ".join(word for word in words if word))


def piece_remarks(piece: BundlePiece) -> str:
    """Return provenance and the memories it represents; may be empty."""
    remarks = [piece.note] if piece.note else []
    if piece.entry.summary:
        remarks.append(f"a detail of [{piece.entry.summary}]")
    if piece.entry.settles:
        remarks.append(f"settled with {_ids(piece.entry.settles)}")
    if piece.entry.alike:
        remarks.append(f"said alike by {_ids(piece.entry.alike)}")
    return "; ".join(remarks)


def omission_lines(omitted: Sequence[BundlePiece]) -> list[str]:
    """Return the selected memories that did not fit, with place and size."""
    lines = ["Chosen as well, but without room in the token budget or in their layer's share; ask for what you need:"]
    for piece in omitted[:MAX_NAMED_OMISSIONS]:
        memory = piece.memory
        where = f", lines {memory.start_line}-{memory.end_line}" if memory.start_line else ""
        ids = _ids((memory.id, *piece.entry.alike, *piece.entry.settles))
        lines.append(collapse_blanks(f"{ids} {memory_place(memory)}{where}, about {piece.tokens:,} tokens"))
    if len(omitted) > MAX_NAMED_OMISSIONS:
        lines.append(f"and {len(omitted) - MAX_NAMED_OMISSIONS} more")
    return lines


def memory_place(memory: Memory) -> str:
    """Return where a memory is: its path and entity, or its title."""
    found = "::".join(part for part in (memory.path, memory.entity) if part) if memory.path else ""
    return escape_tags(found or memory.title or memory.entity)


def piece_heading(piece: BundlePiece) -> str:
    """Return the place, unless it is a title that repeats the text."""
    memory = piece.memory
    title = collapse_blanks(memory.title).rstrip("…")
    repeats = piece.entry.settles or collapse_blanks(memory.text[: 4 * len(title) + 80]).startswith(title)
    return "" if repeats and not memory.path else memory_place(memory)


def collapse_blanks(text: str) -> str:
    """Collapse runs of whitespace."""
    return " ".join(well_formed(text).split())


def _ids(ids: Sequence[str]) -> str:
    return " ".join(f"[{id_}]" for id_ in ids)


def memory_value(memory: Memory, rel: float, *, settings: BundleSettings, now: float) -> float:
    """Return `w_rel·rel + w_rec·exp(-λ·days) + w_auth·layer + w_conf·confidence + w_imp·importance`.

    rel: the final score in 0..1. now: Unix seconds; later dates count as now.
    """
    days = max(0.0, now - memory.updated_at) / DAY_S
    return (
        settings.w_rel * rel
        + settings.w_rec * exp(-settings.decay_per_day * days)
        + settings.w_auth * settings.authority.get(memory.layer.value, 0.0)
        + settings.w_conf * memory.confidence
        + settings.w_imp * memory.importance
    )


PRIOR_CONTEXT_NOTE = "prior context, not immutable law"
"""Added to every decision."""
MAX_AUTHOR_CHARS = 60
MAX_NAMED_SPANS = 3
"""Name at most this many changed spans; count the rest."""


def provenance_text(entry: BundleEntry, *, now: float) -> str:
    """Return the provenance of a memory, such as `said by the user 3 days ago`; may be empty."""
    memory = entry.memory
    said = [_who(entry, age_text(now - memory.updated_at))]
    if memory.kind is Kind.DECISION:
        said.append(PRIOR_CONTEXT_NOTE)
    if memory.particulars.occurrences:
        count = memory.particulars.occurrences
        said.append("met once" if count == 1 else f"met {count} times")
    if memory.particulars.polarity == "antipattern":
        said.append("not to be repeated")
    if memory.particulars.exception_of:
        said.append("an exception made here")
    if memory.status is MemoryStatus.STALE:
        said.append(f"stale: what it cites has changed{_spans(entry.changed)}")
    return "; ".join(part for part in said if part)


def age_text(seconds: float) -> str:
    """Return an age: `within the hour`, `5 hours ago`, `3 days ago`, `4 months ago`, `2 years ago`."""
    days = max(0.0, seconds) / DAY_S
    if days < 1 / 24:
        return "within the hour"
    for unit, length in (("year", 365.25), ("month", 30.44), ("day", 1.0), ("hour", 1 / 24)):
        if days >= (length if unit in {"day", "hour"} else 2 * length):
            count = int(days / length)
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    raise AssertionError("an hour is the least")


def _who(entry: BundleEntry, age: str) -> str:
    memory = entry.memory
    match memory.source:
        case MemorySource.IMPORT:
            origin = re.sub(r"[^A-Za-z0-9._+-]+", "-", memory.particulars.origin)
            return f"imported from {origin[:40] or 'elsewhere'}, {age}"
        case MemorySource.INFERRED:
            return f"inferred, confidence {memory.confidence:.2f}, {age}"
        case MemorySource.EXPLICIT if memory.kind in {Kind.EXCHANGE, Kind.SUMMARY}:
            return f"from earlier work, {age}"
        case MemorySource.EXPLICIT:
            name = re.sub(r"[^\w .,'’-]+", "-", memory.particulars.author)
            return f"said by {name[:MAX_AUTHOR_CHARS] or 'the user'} {age}"
        case _:
            return f"written {age}" if memory.kind is Kind.DECISION else ""


def _spans(changed: tuple[Citation, ...]) -> str:
    named = [f"{span.path}:{span.start_line}-{span.end_line}" for span in changed[:MAX_NAMED_SPANS]]
    more = [f"{len(changed) - MAX_NAMED_SPANS} more"] if len(changed) > MAX_NAMED_SPANS else []
    return " in " + ", ".join([*named, *more]) if named else ""

"""One memory as every form of the bundle shows it: its parts, its caption, and the note of what was left out.

Nothing here knows a form. What a stranger may have written (names, headings, texts) comes after what we say.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xscore.prompts.bundle_entry import Surroundings
from xscore.prompts.fences import escape, well_formed
from xscore.records import Kind, Memory

CODE_KINDS = frozenset({Kind.FUNCTION, Kind.METHOD, Kind.CLASS, Kind.TEST, Kind.BLOCK})
NAMED = 30
"""At most so many omitted memories are named; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One memory with what is shown of it."""

    memory: Memory
    score: float | None
    """None: a detail of a summary, which has no score of its own."""
    below_threshold: bool
    text: str
    header: str
    """Head of its file; empty where it was shown already."""
    tokens: int
    told: str = ""
    """Who said it and when, in our words."""
    alike: tuple[str, ...] = ()
    settles: tuple[str, ...] = ()
    summary: str = ""


@dataclass(frozen=True, slots=True)
class Layout:
    """What a form lays out."""

    pieces: tuple[Piece, ...]
    omitted: tuple[Piece, ...]
    surroundings: Surroundings | None = None


def caption(piece: Piece) -> str:
    """`[m_…] decision (said by the user 3 days ago) docs/adr.md lines 3-9`, on one line."""
    memory = piece.memory
    words = [f"[{memory.id}]", memory.kind.value]
    told = remarks(piece)
    if told:
        words.append(f"({escape(told)})")
    if memory.kind not in CODE_KINDS:
        words.append(heading(piece))
    if memory.start_line:
        words.append(f"lines {memory.start_line}-{memory.end_line}")
    if piece.below_threshold:
        words.append("(below the threshold)")
    return one_line(" ".join(word for word in words if word))


def remarks(piece: Piece) -> str:
    """Who said it and when, and for which other memories it stands; empty: there is nothing to say."""
    said = [piece.told] if piece.told else []
    if piece.summary:
        said.append(f"a detail of [{piece.summary}]")
    if piece.settles:
        said.append(f"settled with {_ids(piece.settles)}")
    if piece.alike:
        said.append(f"said alike by {_ids(piece.alike)}")
    return "; ".join(said)


def omissions(omitted: Sequence[Piece]) -> list[str]:
    """Name what was chosen and has no room, with its place and size."""
    lines = ["Chosen as well, but without room in the token budget or in their layer's share; ask for what you need:"]
    for piece in omitted[:NAMED]:
        memory = piece.memory
        where = f", lines {memory.start_line}-{memory.end_line}" if memory.start_line else ""
        ids = _ids((memory.id, *piece.alike, *piece.settles))
        lines.append(one_line(f"{ids} {place(memory)}{where}, about {piece.tokens:,} tokens"))
    if len(omitted) > NAMED:
        lines.append(f"and {len(omitted) - NAMED} more")
    return lines


def place(memory: Memory) -> str:
    """Return where a memory is: its path and entity, or its title."""
    found = "::".join(part for part in (memory.path, memory.entity) if part) if memory.path else ""
    return escape(found or memory.title or memory.entity)


def heading(piece: Piece) -> str:
    """Return the place, unless that is a title which says no more than the text."""
    memory = piece.memory
    title = one_line(memory.title).rstrip("…")
    repeats = piece.settles or one_line(memory.text[: 4 * len(title) + 80]).startswith(title)
    return "" if repeats and not memory.path else place(memory)


def one_line(text: str) -> str:
    """Collapse every run of blanks."""
    return " ".join(well_formed(text).split())


def _ids(ids: Sequence[str]) -> str:
    return " ".join(f"[{id_}]" for id_ in ids)

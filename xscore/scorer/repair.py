"""What gets a score of its own, and what to do about memories that a reply did not score. Pure.

A memory larger than a pack is split at inner boundaries; its score is the best of its parts, and
only if all have one. Missing scores are asked for again: pack -> half a pack -> one by one ->
Unjudged(cause). A refusal goes to one by one at once. Nothing is clamped or becomes 0. Trade-off:
three asks a memory, then it stays visibly unjudged.
"""

from collections.abc import Sequence
from enum import IntEnum
from itertools import pairwise
from math import ceil
from typing import NamedTuple

from msgspec import Struct, field

from xscore.platform.hashing import content_hash, described_hash
from xscore.records.candidates import Candidate
from xscore.records.judgment import Judgment, Unjudged, UnjudgedCause


class MemoryPiece(NamedTuple):
    """One thing that gets a score of its own. A named tuple: there is one for each candidate."""

    content_hash: str
    kind: str
    path: str
    entity: str
    text: str
    memory: str
    """Content hash of the memory that it is, or of which it is a part."""
    parts: int = 1
    """Number of parts of that memory."""
    purpose: str = ""
    """What a model says that its file is for; empty if it is shown without."""

    @property
    def is_part(self) -> bool:
        """Whether its score is that of a part only."""
        return self.parts > 1


def memory_pieces(
    candidate: Candidate, text: str, *, max_tokens: int
) -> tuple[MemoryPiece, ...]:
    """Return the candidate whole, or in parts of at most about `max_tokens`, estimated by its own
    characters a token."""
    texts = [text]
    if candidate.tokens > max_tokens:
        texts = split_text(text, max_chars=max(1, len(text) * max_tokens // candidate.tokens))
    kind = str(candidate.kind)
    path = candidate.path
    memory = candidate.content_hash
    purpose = candidate.purpose
    if len(texts) == 1:
        undivided = MemoryPiece(
            memory, kind, path, candidate.entity, text, memory, purpose=purpose
        )
        return (undivided,)
    parts = []
    for number, part in enumerate(texts, start=1):
        name = f"{candidate.entity} part {number}/{len(texts)}".lstrip()
        hash_ = described_hash(content_hash(path, name, part), purpose)
        parts.append(MemoryPiece(hash_, kind, path, name, part, memory, len(texts), purpose))
    return tuple(parts)


def split_text(text: str, *, max_chars: int) -> list[str]:
    """Cut a text into pieces of at most `max_chars` whose sum is the text.

    The last blank line in the second half of a piece is the best place, then the deepest dedent,
    then any line end; a single longer line is cut where it must be. Pieces are of even size, so
    that no tiny piece is left over.
    """
    count = ceil(len(text) / max_chars)
    cut_texts: list[str] = []
    start = 0
    while len(text) - start > max_chars:
        even = ceil((len(text) - start) / max(1, count - len(cut_texts)))
        limit = min(max_chars, max(even + max_chars // 8, max_chars // 2))
        end = start + _boundary(text[start : start + limit])
        cut_texts.append(text[start:end])
        start = end
    return [*cut_texts, text[start:]]


def _boundary(window: str) -> int:
    """Where to end a piece that may reach to the end of this window."""
    best = len(window)
    best_rank = (0, 0, 0)
    offset = 0
    lines = window.splitlines(keepends=True)
    for line, following in pairwise(lines):
        offset += len(line)
        if offset < len(window) // 2:
            continue
        if following.strip() and not line.strip():
            rank = (2, -_indent(following), offset)
        elif following.strip():
            dedent = max(0, _indent(line) - _indent(following))
            rank = (1, dedent, offset)
        else:
            rank = (1, 0, offset)
        if rank > best_rank:
            best, best_rank = offset, rank
    return best


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


class PartTally(Struct):
    """Brings the parts of oversized memories together; a memory leaves it once, with the result of
    its last part."""

    _results: dict[str, dict[str, Judgment | Unjudged]] = field(default_factory=dict)
    """Memory -> part -> its result."""

    def add(
        self, piece: MemoryPiece, result: Judgment | Unjudged
    ) -> Judgment | Unjudged | None:
        """Add one piece's result; return its memory's, or None while parts are missing."""
        if not piece.is_part:
            return result
        parts = self._results.setdefault(piece.memory, {})
        parts[piece.content_hash] = result
        if len(parts) < piece.parts:
            return None
        return score_of_parts(piece.memory, list(self._results.pop(piece.memory).values()))


def score_of_parts(memory: str, parts: Sequence[Judgment | Unjudged]) -> Judgment | Unjudged:
    """Score a memory by its best part, or say why a part of it has no score."""
    judged: list[Judgment] = []
    lost: list[Unjudged] = []
    for part in parts:
        if isinstance(part, Unjudged):
            lost.append(part)
        else:
            judged.append(part)
    if lost:
        detail = f"{len(lost)} of {len(parts)} parts: {lost[0].detail or lost[0].cause.value}"
        return Unjudged(memory, lost[0].cause, detail)
    best = max(judged, key=lambda part: part.score)
    return Judgment(memory, best.score, best.reason, prior=best.prior)


class RepairRung(IntEnum):
    """How far down the repair ladder a prompt is."""

    PACK = 0
    HALF = 1
    ALONE = 2


class PackPrompt(Struct, frozen=True):
    """One prompt to send: pieces in the order of the prompt."""

    pack: str
    """Name of the prompt, which deals its ids and routes its prefix."""
    pieces: tuple[MemoryPiece, ...]
    rung: RepairRung = RepairRung.PACK
    is_lasting: bool = False
    """Whether another turn would ask about the same pieces under the same name."""

    @property
    def is_again(self) -> bool:
        """Whether its pieces were asked about before."""
        return self.rung is not RepairRung.PACK


class RepairReason(Struct, frozen=True):
    """Why a prompt left pieces without a score."""

    cause: UnjudgedCause
    """Cause for which the pieces are lost at the end of the ladder."""
    detail: str
    one_by_one: bool = False
    """Whether to go straight to the last rung."""
    final_when_alone: bool = False
    """Whether a piece alone in its prompt need not be asked again: the answer would be the
    same."""
    halve: bool = False
    """Whether to halve until the pieces that are at fault are alone, where a prompt holds
    hundreds."""


UNREADABLE = RepairReason(UnjudgedCause.UNREADABLE, "no valid score in the reply")
CUT_SHORT = RepairReason(UnjudgedCause.UNREADABLE, "the reply was cut short before its score")
REFUSED = RepairReason(
    UnjudgedCause.REFUSED, "the model declined", one_by_one=True, final_when_alone=True
)


def prompt_too_long(detail: str) -> RepairReason:
    """A prompt that the model's context does not hold."""
    return RepairReason(UnjudgedCause.TOO_LONG, detail, final_when_alone=True, halve=True)


def prompt_rejected(detail: str) -> RepairReason:
    """A prompt that the host will not take, while it takes others."""
    return RepairReason(
        UnjudgedCause.PROVIDER, detail, one_by_one=True, final_when_alone=True, halve=True
    )


def next_prompts(
    prompt: PackPrompt,
    missing: Sequence[MemoryPiece],
    reason: RepairReason,
    *,
    is_independent: bool = False,
) -> tuple[list[PackPrompt], list[tuple[MemoryPiece, Unjudged]]]:
    """Return the prompts that may still score what is missing, or the pieces lost for good.

    is_independent: the pieces of a prompt do not influence each other, so that smaller prompts give
        no better answers; a prompt that is refused as a whole is halved until the cause is alone.
    """
    was_alone = len(prompt.pieces) == 1
    if prompt.rung is RepairRung.ALONE or (was_alone and reason.final_when_alone):
        return [], [
            (piece, Unjudged(piece.content_hash, reason.cause, reason.detail))
            for piece in missing
        ]
    if is_independent and not was_alone:
        if reason.halve:
            return _split_prompts(prompt, missing, RepairRung.HALF, ceil(len(missing) / 2)), []
        # Smaller prompts would give no better answers, so what is missing stays together.
        if not reason.one_by_one:
            rung = RepairRung(prompt.rung + 1)
            return _split_prompts(prompt, missing, rung, len(missing)), []
    if reason.one_by_one or was_alone or prompt.rung is RepairRung.HALF:
        return _split_prompts(prompt, missing, RepairRung.ALONE, 1), []
    # Half of the pieces asked about, not of those missing: the prompt was too much for the model.
    return _split_prompts(prompt, missing, RepairRung.HALF, ceil(len(prompt.pieces) / 2)), []


def _split_prompts(
    prompt: PackPrompt, missing: Sequence[MemoryPiece], rung: RepairRung, size: int
) -> list[PackPrompt]:
    """Ask for what is missing in prompts of this size."""
    groups = [tuple(missing[start : start + size]) for start in range(0, len(missing), size)]
    return [
        PackPrompt(f"{prompt.pack}/{rung.value}.{number}", group, rung)
        for number, group in enumerate(groups)
    ]

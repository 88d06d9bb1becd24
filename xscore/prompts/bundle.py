"""The bundle: the chosen memories as one text, in order, within a token budget, each file's header once.

What does not fit is named in a note and never cut in silence. A class leaves out the signatures of those methods that
the bundle also carries. How each form looks is `prompts.bundle_forms`; which memories are in it was decided before.
Its trade-off: a memory larger than the whole budget is only named, with its lines, instead of being shown in part.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp

from xscore import tokens
from xscore.prompts.bundle_forms import FORMS, Layout, Piece
from xscore.records import Kind, Layer, Memory, Ranked
from xscore.settings import BundleSettings

SECONDS_PER_DAY = 86_400.0
_OWNER = re.compile(r"(?:\.| > )(?:(?!\.| > ).)+\Z")
"""The last part of a qualified name."""
HEADER_SHARE = 0.1
"""Most of the budget that one file's header may take."""
CODE_LAYERS = frozenset({Layer.GRAPH, Layer.VECTOR})
"""What other layers leave of their ceilings goes to these."""


@dataclass(frozen=True, slots=True)
class BundleEntry:
    """A chosen memory on its way into the bundle."""

    memory: Memory
    ranked: Ranked
    header: str = ""
    """Imports and module head of its file, the same for every memory of that file."""
    below_threshold: bool = False
    """Taken in by `min_keep`."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """What the answering model is shown of the memories."""

    text: str
    included: tuple[str, ...]
    """Memory ids, in the order shown."""
    omitted: tuple[str, ...]
    """Memory ids that did not fit."""
    tokens: int
    """Estimated; at most the budget, but for the note when even that does not fit."""


def render(
    entries: Sequence[BundleEntry], *, form: str, max_tokens: int, settings: BundleSettings, now: float
) -> Bundle:
    """Render the memories best first, grouped by file.

    form: `xml`, `markdown` or `json`. now: unix seconds.
    """
    affordable = [_with_affordable_header(entry, max_tokens) for entry in entries]
    ordered = sorted(affordable, key=lambda entry: (-value(entry, settings, now), entry.memory.id))
    chosen = _fitting(ordered, max_tokens, settings)
    while True:
        included = _grouped([entry for entry in ordered if entry.memory.id in chosen])
        omitted = [entry for entry in ordered if entry.memory.id not in chosen]
        text = FORMS[form](Layout(_pieces(included), tuple(_piece(entry) for entry in omitted)))
        size = _size(text, included)
        if size <= max_tokens or not included:
            ids = tuple(entry.memory.id for entry in included)
            return Bundle(text, ids, tuple(entry.memory.id for entry in omitted), size)
        chosen.discard(min(included, key=lambda entry: (value(entry, settings, now), entry.memory.id)).memory.id)


def _with_affordable_header(entry: BundleEntry, max_tokens: int) -> BundleEntry:
    """Leave out a header that would take more than its share of the budget: memories come first."""
    if _tokens(entry.memory, len(entry.header)) <= HEADER_SHARE * max_tokens:
        return entry
    return replace(entry, header="")


def value(entry: BundleEntry, settings: BundleSettings, now: float) -> float:
    """What the bundle is ordered by.

    `w_rel·rel + w_rec·exp(-λ·days) + w_auth·layer + w_conf·confidence + w_imp·importance`
    """
    memory = entry.memory
    days = max(0.0, now - memory.updated_at) / SECONDS_PER_DAY
    return (
        settings.w_rel * entry.ranked.score
        + settings.w_rec * exp(-settings.decay_per_day * days)
        + settings.w_auth * settings.authority.get(memory.layer.value, 0.0)
        + settings.w_conf * memory.confidence
        + settings.w_imp * memory.importance
    )


def without_signatures(text: str, signatures: Sequence[str]) -> str:
    """Take the one-line stubs of these members out of a class as the indexer shows it; each is taken out once."""
    lines = text.split("\n")
    for signature in signatures:
        wanted = [line.strip() for line in signature.split("\n") if line.strip()]
        place = _find(lines, wanted) if wanted else -1
        if place >= 0:
            del lines[place : place + len(wanted)]
    return "\n".join(lines)


def _find(lines: Sequence[str], wanted: Sequence[str]) -> int:
    """Where a stub stands: the signature's lines, the last with nothing but a placeholder behind it."""
    for place in range(1, len(lines) - len(wanted) + 1):
        window = [line.strip() for line in lines[place : place + len(wanted)]]
        rest = window[-1].removeprefix(wanted[-1])
        if window[:-1] == list(wanted[:-1]) and window[-1].startswith(wanted[-1]) and not any(map(str.isalnum, rest)):
            return place
    return -1


def _fitting(ordered: Sequence[BundleEntry], max_tokens: int, settings: BundleSettings) -> set[str]:
    """Fill the budget best first: other layers up to their ceilings, code with all that they leave."""
    chosen: set[str] = set()
    spent = 0
    for layer, ceiling in settings.ceilings.items():
        own = [entry for entry in ordered if entry.memory.layer == layer]
        spent += _fill(own, int(ceiling * max_tokens), chosen)
    _fill([entry for entry in ordered if entry.memory.layer in CODE_LAYERS], max_tokens - spent, chosen)
    return chosen


def _fill(entries: Sequence[BundleEntry], budget: int, chosen: set[str]) -> int:
    spent = 0
    opened: set[str] = set()
    for entry in entries:
        header = entry.header if entry.memory.path not in opened else ""
        cost = _tokens(entry.memory, len(entry.memory.text) + len(header))
        if spent + cost <= budget:
            spent += cost
            opened.add(entry.memory.path)
            chosen.add(entry.memory.id)
    return spent


def _grouped(entries: Sequence[BundleEntry]) -> list[BundleEntry]:
    """Bring the memories of a file together, at the place of the best of them."""
    by_file: dict[str, list[BundleEntry]] = {}
    for entry in entries:
        by_file.setdefault(entry.memory.path or entry.memory.id, []).append(entry)
    return [entry for group in by_file.values() for entry in group]


def _pieces(included: Sequence[BundleEntry]) -> tuple[Piece, ...]:
    signatures: dict[tuple[str, str], list[str]] = {}
    own_text = {entry.memory.text.strip() for entry in included}
    for entry in included:
        owner = _OWNER.sub("", entry.memory.entity)
        if owner != entry.memory.entity and entry.memory.facts.signature:
            signatures.setdefault((entry.memory.path, owner), []).append(entry.memory.facts.signature)
    pieces, opened = [], set[str]()
    for entry in included:
        memory = entry.memory
        header = entry.header.strip("\n") if memory.path not in opened else ""
        opened.add(memory.path)
        header = "" if header.strip() in own_text else header
        text = without_signatures(memory.text, _carried(memory, signatures))
        pieces.append(_piece(entry, text=text, header=header))
    return tuple(pieces)


def _carried(memory: Memory, signatures: Mapping[tuple[str, str], Sequence[str]]) -> Sequence[str]:
    holds = memory.kind in {Kind.CLASS, Kind.TEST, Kind.BLOCK}
    return signatures.get((memory.path, memory.entity.removeprefix("module:")), ()) if holds else ()


def _piece(entry: BundleEntry, *, text: str | None = None, header: str = "") -> Piece:
    memory = entry.memory
    return Piece(
        memory=memory,
        score=entry.ranked.score,
        below_threshold=entry.below_threshold,
        text=memory.text if text is None else text,
        header=header,
        tokens=_tokens(memory, len(memory.text)),
    )


def _tokens(memory: Memory, chars: int) -> int:
    return tokens.estimate(chars, kind=memory.kind.value, language=memory.language)


def _size(text: str, included: Sequence[BundleEntry]) -> int:
    """Memories by the ratio of their language, the rest by the ratio of plain text."""
    inner = sum(len(entry.memory.text) for entry in included)
    rest = max(0, len(text) - inner)
    shrink = min(1.0, len(text) / inner) if inner else 0.0
    return int(shrink * sum(_tokens(e.memory, len(e.memory.text)) for e in included)) + tokens.estimate(rest)

"""The bundle: the chosen memories as one text in two sections, in order, within a token budget.

*System context* is what is known of the work, the project and the user; *evidence* is places in the repository, and
decisions. Both are quoted data for the user message. Each file's header stands once. What does not fit is named in a
note and never cut in silence. A class leaves out the signatures of those methods that the bundle also carries. How each
form looks is `prompts.bundle_forms`; which memories are in it, and which of them say the same, was decided before. Its
trade-off: a memory larger than the whole budget is only named, with its lines, instead of being shown in part.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from xscore import tokens
from xscore.prompts.bundle_entry import SYSTEM_CONTEXT, Bundle, BundleEntry, Surroundings
from xscore.prompts.bundle_forms import FORMS
from xscore.prompts.bundle_piece import Layout, Piece
from xscore.prompts.fact_tables import is_fact
from xscore.prompts.provenance import provenance
from xscore.prompts.shares import cost, fitting
from xscore.prompts.stubs import signatures, without_carried
from xscore.prompts.value import value
from xscore.records import Kind, Layer
from xscore.settings import BundleSettings

HEADER_SHARE = 0.1
"""Most of the budget that one file's header may take."""


def render(
    entries: Sequence[BundleEntry],
    *,
    form: str,
    max_tokens: int,
    settings: BundleSettings,
    now: float,
    ceilings: Mapping[Layer, float] | None = None,
    surroundings: Surroundings | None = None,
) -> Bundle:
    """Render the memories best first, grouped by file, summaries before their details.

    form: `xml`, `markdown`, `json` or `memory`. now: unix seconds. ceilings: layer -> share of the budget; None: those
    of the settings. surroundings: what the form `memory` says beside the memories.
    """
    affordable = [_with_affordable_header(entry, max_tokens) for entry in entries]
    ordered = sorted(affordable, key=lambda entry: _worth(entry, settings, now))
    if ceilings is None:
        ceilings = {Layer(name): share for name, share in settings.ceilings.items()}
    chosen = fitting(ordered, max_tokens=max_tokens, ceilings=ceilings)
    while True:
        included = _in_place([entry for entry in ordered if entry.memory.id in chosen])
        omitted = [entry for entry in ordered if entry.memory.id not in chosen and entry.ranked is not None]
        layout = Layout(_pieces(included, now), tuple(_piece(entry, now) for entry in omitted), surroundings)
        text = FORMS[form](layout)
        size = _size(text, included)
        if size <= max_tokens or not included:
            return _bundle(text, included, omitted, size)
        chosen.discard(max(included, key=lambda entry: (entry.ranked is None, *_worth(entry, settings, now))).memory.id)


def _bundle(text: str, included: Sequence[BundleEntry], omitted: Sequence[BundleEntry], size: int) -> Bundle:
    left_out = [id_ for entry in omitted for id_ in (entry.memory.id, *entry.others)]
    merged = tuple(id_ for entry in included for id_ in entry.others)
    return Bundle(text, tuple(entry.memory.id for entry in included), tuple(left_out), size, merged)


def _with_affordable_header(entry: BundleEntry, max_tokens: int) -> BundleEntry:
    """Leave out a header that would take more than its share of the budget: memories come first."""
    if cost(entry.memory, len(entry.header)) <= HEADER_SHARE * max_tokens:
        return entry
    return replace(entry, header="")


def _worth(entry: BundleEntry, settings: BundleSettings, now: float) -> tuple[float, str]:
    return -value(entry.memory, entry.score, settings=settings, now=now), entry.memory.id


def _in_place(entries: Sequence[BundleEntry]) -> list[BundleEntry]:
    """Put system context before evidence, summaries first; bring together what belongs together, at its best's place.

    Together belong the memories of a file, a summary and its details, and short facts.
    """
    groups: dict[tuple[int, str], list[BundleEntry]] = {}
    summaries = {entry.memory.id for entry in entries if entry.memory.kind is Kind.SUMMARY}
    for entry in entries:
        groups.setdefault(_group(entry, summaries), []).append(entry)
    placed = sorted(groups.items(), key=lambda group: group[0][0])
    return [entry for _, group in placed for entry in sorted(group, key=lambda one: one.memory.id not in summaries)]


def _group(entry: BundleEntry, summaries: set[str]) -> tuple[int, str]:
    memory = entry.memory
    section = 0 if memory.layer in SYSTEM_CONTEXT else 2
    about = memory.id if memory.kind is Kind.SUMMARY else entry.summary
    if about in summaries:
        return section, about
    if is_fact(memory):
        return section + 1, f"facts of {section}"
    return section + 1, memory.path or memory.id


def _pieces(included: Sequence[BundleEntry], now: float) -> tuple[Piece, ...]:
    shown = signatures([entry.memory for entry in included])
    own_text = {entry.memory.text.strip() for entry in included}
    pieces, opened = [], set[str]()
    for entry in included:
        memory = entry.memory
        header = entry.header.strip("\n") if memory.path not in opened else ""
        opened.add(memory.path)
        header = "" if header.strip() in own_text else header
        piece = _piece(entry, now)
        pieces.append(replace(piece, text=without_carried(memory, piece.text, shown), header=header))
    return tuple(pieces)


def _piece(entry: BundleEntry, now: float) -> Piece:
    memory = entry.memory
    return Piece(
        memory=memory,
        score=entry.ranked.score if entry.ranked else None,
        below_threshold=entry.below_threshold,
        text=_shown(entry),
        header="",
        tokens=cost(memory, len(memory.text)),
        told=provenance(entry, now=now),
        alike=entry.alike,
        settles=entry.settles,
        summary=entry.summary,
    )


def _shown(entry: BundleEntry) -> str:
    """The text, with what was said beside it and does not stand in it; of a settled conflict the sentence alone."""
    if entry.resolved:
        return entry.resolved
    text, said = entry.memory.text, entry.memory.particulars
    beside = {
        "Because": said.rationale,
        "Alternatives": "; ".join(other for other in said.alternatives if other not in text),
        "Resolved by": said.resolution,
    }
    lines = [f"{name}: {words}" for name, words in beside.items() if words and words not in text]
    return "\n".join([text, *lines]) if lines else text


def _size(text: str, included: Sequence[BundleEntry]) -> int:
    """Memories by the ratio of their language, the rest by the ratio of plain text."""
    shown = [(entry.memory, len(entry.resolved or entry.memory.text)) for entry in included]
    inner = sum(chars for _, chars in shown)
    rest = max(0, len(text) - inner)
    shrink = min(1.0, len(text) / inner) if inner else 0.0
    return int(shrink * sum(cost(memory, chars) for memory, chars in shown)) + tokens.estimate(rest)

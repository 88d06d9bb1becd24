"""The bundle: the chosen memories as one text in two sections, in order, within a token budget.

*System context* is what is known of the work, the project and the user; *evidence* is places in the repository, and
decisions. Each layer fills up to its ceiling, best first, and code gets what the others leave. A class leaves out the
stubs of those methods that the bundle also shows. What does not fit is named, never cut silently. Trade-off: a memory
larger than the room left is passed over for a smaller one behind it.
"""

import re
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from xscore.platform import tokens
from xscore.prompts.bundle_forms import FORMS, is_fact
from xscore.prompts.bundle_parts import (
    SYSTEM_CONTEXT_LAYERS,
    Bundle,
    BundleEntry,
    BundleLayout,
    BundlePiece,
    RepositoryContext,
    memory_value,
    provenance_text,
)
from xscore.records import Kind, Layer, Memory
from xscore.settings import BundleSettings

CODE_LAYERS = frozenset({Layer.GRAPH, Layer.VECTOR})
"""What other layers leave of their ceilings goes to these."""


def choose_fitting(ordered: Sequence[BundleEntry], *, max_tokens: int, ceilings: Mapping[Layer, float]) -> set[str]:
    """Choose the ids of the entries that fit, best first.

    ceilings: layer -> share of the budget in 0..1; where they come to more than 1 they are taken in proportion. A share
    of a code layer keeps that much from the others. Details of summaries get what is left of their layer's share when
    all chosen ones are in.
    """
    chosen: set[str] = set()
    whole = max(1.0, sum(ceilings.values()))
    left = {layer: int(share / whole * max_tokens) for layer, share in ceilings.items() if layer not in CODE_LAYERS}
    spent = 0
    asked = [entry for entry in ordered if entry.ranked is not None]
    for layer, room in left.items():
        taken = _fill([entry for entry in asked if entry.memory.layer == layer], room, chosen)
        left[layer] = room - taken
        spent += taken
    spent += _fill([entry for entry in asked if entry.memory.layer in CODE_LAYERS], max_tokens - spent, chosen)
    for layer, room in left.items():
        details = [entry for entry in ordered if entry.ranked is None and entry.memory.layer == layer]
        spent += _fill([entry for entry in details if entry.summary in chosen], min(room, max_tokens - spent), chosen)
    return chosen


def memory_tokens(memory: Memory, chars: int) -> int:
    """Estimate the tokens of so many characters of this memory."""
    return tokens.estimate(chars, kind=memory.kind.value, language=memory.language)


def _fill(entries: Sequence[BundleEntry], budget: int, chosen: set[str]) -> int:
    spent = 0
    opened: set[str] = set()
    for entry in entries:
        header = entry.header if entry.memory.path not in opened else ""
        price = memory_tokens(entry.memory, len(entry.resolved or entry.memory.text) + len(header))
        if spent + price <= budget:
            spent += price
            opened.add(entry.memory.path)
            chosen.add(entry.memory.id)
    return spent


Signatures = Mapping[tuple[str, str], Sequence[str]]
"""(path, entity) of an owner -> signatures of its members that are shown."""


def member_signatures(memories: Sequence[Memory]) -> Signatures:
    """Collect the signatures of shown members by their owner."""
    found: dict[tuple[str, str], list[str]] = {}
    for memory in memories:
        owner = re.sub(r"(?:\.| > )(?:(?!\.| > ).)+\Z", "", memory.entity)  # without its last part
        if owner != memory.entity and memory.facts.signature:
            found.setdefault((memory.path, owner), []).append(memory.facts.signature)
    return found


def without_shown_members(memory: Memory, text: str, shown: Signatures) -> str:
    """Return the text without the stubs of members that the bundle shows in full."""
    if memory.kind not in {Kind.CLASS, Kind.TEST, Kind.BLOCK}:
        return text
    return without_signatures(text, shown.get((memory.path, memory.entity.removeprefix("module:")), ()))


def without_signatures(text: str, stubs: Sequence[str]) -> str:
    """Take the one-line stubs of these members out of a class as the indexer shows it; each is taken out once."""
    lines = text.split("\n")
    for stub in stubs:
        wanted = [line.strip() for line in stub.split("\n") if line.strip()]
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


HEADER_SHARE = 0.1
"""Most of the budget that one file's header may take."""


def render_bundle(
    entries: Sequence[BundleEntry],
    *,
    form: str,
    max_tokens: int,
    settings: BundleSettings,
    now: float,
    ceilings: Mapping[Layer, float] | None = None,
    repository: RepositoryContext | None = None,
) -> Bundle:
    """Render the memories best first, grouped by file, summaries before their details.

    form: `xml`, `markdown`, `json` or `memory`. now: unix seconds. ceilings: layer -> share of the budget; None: those
    of the settings. repository: what the form `memory` says beside the memories.
    """
    affordable = [_with_affordable_header(entry, max_tokens) for entry in entries]
    ordered = sorted(affordable, key=lambda entry: _worth(entry, settings, now))
    if ceilings is None:
        ceilings = {Layer(name): share for name, share in settings.ceilings.items()}
    chosen = choose_fitting(ordered, max_tokens=max_tokens, ceilings=ceilings)
    while True:
        included = _in_place([entry for entry in ordered if entry.memory.id in chosen])
        omitted = [entry for entry in ordered if entry.memory.id not in chosen and entry.ranked is not None]
        layout = BundleLayout(_pieces(included, now), tuple(_piece(entry, now) for entry in omitted), repository)
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
    if memory_tokens(entry.memory, len(entry.header)) <= HEADER_SHARE * max_tokens:
        return entry
    return replace(entry, header="")


def _worth(entry: BundleEntry, settings: BundleSettings, now: float) -> tuple[float, str]:
    return -memory_value(entry.memory, entry.score, settings=settings, now=now), entry.memory.id


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
    section = 0 if memory.layer in SYSTEM_CONTEXT_LAYERS else 2
    about = memory.id if memory.kind is Kind.SUMMARY else entry.summary
    if about in summaries:
        return section, about
    if is_fact(memory):
        return section + 1, f"facts of {section}"
    return section + 1, memory.path or memory.id


def _pieces(included: Sequence[BundleEntry], now: float) -> tuple[BundlePiece, ...]:
    shown = member_signatures([entry.memory for entry in included])
    own_text = {entry.memory.text.strip() for entry in included}
    pieces, opened = [], set[str]()
    for entry in included:
        memory = entry.memory
        header = entry.header.strip("\n") if memory.path not in opened else ""
        opened.add(memory.path)
        header = "" if header.strip() in own_text else header
        piece = _piece(entry, now)
        pieces.append(replace(piece, text=without_shown_members(memory, piece.text, shown), header=header))
    return tuple(pieces)


def _piece(entry: BundleEntry, now: float) -> BundlePiece:
    tokens_ = memory_tokens(entry.memory, len(entry.memory.text))
    return BundlePiece(entry, _shown(entry), tokens_, note=provenance_text(entry, now=now))


def _shown(entry: BundleEntry) -> str:
    """The text, with what was said beside it and does not stand in it; of a settled conflict the sentence alone."""
    if entry.resolved:
        return entry.resolved
    text, details = entry.memory.text, entry.memory.particulars
    beside = {
        "Because": details.rationale,
        "Alternatives": "; ".join(other for other in details.alternatives if other not in text),
        "Resolved by": details.resolution,
    }
    lines = [f"{name}: {words}" for name, words in beside.items() if words and words not in text]
    return "\n".join([text, *lines]) if lines else text


def _size(text: str, included: Sequence[BundleEntry]) -> int:
    """Memories by the ratio of their language, the rest by the ratio of plain text."""
    shown = [(entry.memory, len(entry.resolved or entry.memory.text)) for entry in included]
    inner = sum(chars for _, chars in shown)
    rest = max(0, len(text) - inner)
    shrink = min(1.0, len(text) / inner) if inner else 0.0
    return int(shrink * sum(memory_tokens(memory, chars) for memory, chars in shown)) + tokens.estimate(rest)

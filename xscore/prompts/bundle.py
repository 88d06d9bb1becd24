"""The bundle: the chosen memories as one text in two sections, in order, within a token budget.

*System context* is the session, project and user layers; *evidence* is code, documents and decisions. Each layer fills
up to its ceiling, best first, and code gets the rest. A class omits the stubs of methods that the bundle also shows.
Memories that do not fit are named, never dropped silently. Trade-off: a memory larger than the remaining budget is
skipped in favor of a smaller one ranked lower.
"""

import re
from collections import defaultdict
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
from xscore.records.memory import Kind, Layer, Memory
from xscore.settings import BundleSettings

CODE_LAYERS = frozenset({Layer.GRAPH, Layer.VECTOR})
"""Layers that get what the others leave of their ceilings."""
STUB_KINDS = frozenset({Kind.CLASS, Kind.TEST, Kind.BLOCK})
"""Kinds whose text holds the stubs of their members."""
HEADER_SHARE = 0.1
"""Largest share of the budget for one file's header."""


def choose_fitting(ordered: Sequence[BundleEntry], *, max_tokens: int, ceilings: Mapping[Layer, float]) -> set[str]:
    """Choose the ids of the entries that fit, best first.

    ceilings: layer -> share of the budget in 0..1, scaled down if their sum exceeds 1. A ceiling of a code layer
    reserves that share for code. Details of summaries get what the selected memories leave of their layer's share.
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
    """Estimate the tokens of `chars` characters of this memory."""
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


def without_stubs(text: str, signatures: Sequence[str]) -> str:
    """Remove the stubs of these members from a class as the indexer renders it, each once.

    A stub is the lines of the signature, the last followed only by a placeholder.
    """
    lines = text.split("\n")
    for signature in signatures:
        wanted = [line.strip() for line in signature.split("\n") if line.strip()]
        for place in range(1, len(lines) - len(wanted) + 1) if wanted else ():
            window = [line.strip() for line in lines[place : place + len(wanted)]]
            rest = window[-1].removeprefix(wanted[-1])
            is_stub = window[-1].startswith(wanted[-1]) and not any(map(str.isalnum, rest))
            if is_stub and window[:-1] == wanted[:-1]:
                del lines[place : place + len(wanted)]
                break
    return "\n".join(lines)


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

    form: `xml`, `markdown`, `json` or `memory`. now: Unix seconds. ceilings: layer -> share of the budget; None: those
    of the settings. repository: what the form `memory` shows besides the memories.
    """
    by_worth = sorted(entries, key=lambda entry: _worth(entry, settings, now))
    most = HEADER_SHARE * max_tokens
    ordered = [
        entry if memory_tokens(entry.memory, len(entry.header)) <= most else replace(entry, header="")
        for entry in by_worth
    ]
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
            break
        chosen.discard(max(included, key=lambda entry: (entry.ranked is None, *_worth(entry, settings, now))).memory.id)
    return Bundle(
        text=text,
        included=tuple(entry.memory.id for entry in included),
        omitted=tuple(id_ for entry in omitted for id_ in (entry.memory.id, *entry.others)),
        tokens=size,
        merged=tuple(id_ for entry in included for id_ in entry.others),
    )


def _worth(entry: BundleEntry, settings: BundleSettings, now: float) -> tuple[float, str]:
    return -memory_value(entry.memory, entry.score, settings=settings, now=now), entry.memory.id


def _in_place(entries: Sequence[BundleEntry]) -> list[BundleEntry]:
    """Order system context before evidence, summaries first; groups take the place of their best member.

    A group is the memories of a file, a summary with its details, or short facts.
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
    """Render each memory; a file's header is shown once, and a class omits members that are shown themselves."""
    own_text = {entry.memory.text.strip() for entry in included}
    members: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for entry in included:
        memory = entry.memory
        owner = re.sub(r"(?:\.| > )(?:(?!\.| > ).)+\Z", "", memory.entity)  # without its last part
        if owner != memory.entity and memory.facts.signature:
            members[memory.path, owner].append(memory.facts.signature)
    pieces, opened = [], set[str]()
    for entry in included:
        memory, piece = entry.memory, _piece(entry, now)
        header = entry.header.strip("\n") if memory.path not in opened else ""
        opened.add(memory.path)
        stubs = members[memory.path, memory.entity.removeprefix("module:")] if memory.kind in STUB_KINDS else ()
        shown_header = "" if header.strip() in own_text else header
        pieces.append(replace(piece, text=without_stubs(piece.text, stubs), header=shown_header))
    return tuple(pieces)


def _piece(entry: BundleEntry, now: float) -> BundlePiece:
    tokens_ = memory_tokens(entry.memory, len(entry.memory.text))
    return BundlePiece(entry, _shown(entry), tokens_, note=provenance_text(entry, now=now))


def _shown(entry: BundleEntry) -> str:
    """Return the text with the details missing from it; for a settled conflict, only its sentence."""
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
    """Estimate tokens: memories by the ratio of their language, the rest as plain text."""
    shown = [(entry.memory, len(entry.resolved or entry.memory.text)) for entry in included]
    inner = sum(chars for _, chars in shown)
    rest = max(0, len(text) - inner)
    shrink = min(1.0, len(text) / inner) if inner else 0.0
    return int(shrink * sum(memory_tokens(memory, chars) for memory, chars in shown)) + tokens.estimate(rest)

"""The bundle: the chosen memories as one text in sections, in order, within a token budget.

*System context* is what is known about session, project and user; *evidence* is code, documents
and decisions; *past answers* are earlier exchanges, within their own share. Each layer fills up
to its ceiling, best first, and code gets the rest. What does not fit is shown in part or named,
never dropped silently. Trade-off: a memory larger than the remaining budget gives way to a
smaller one ranked lower.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from xscore.platform import tokens
from xscore.prompts.bundle_forms import FORMS, is_fact
from xscore.prompts.bundle_headings import LeftOutCause
from xscore.prompts.bundle_parts import (
    NO_EXTRAS,
    Bundle,
    BundleEntry,
    BundleExtras,
    BundleLayout,
    BundlePiece,
    Section,
    memory_value,
    provenance_text,
)
from xscore.prompts.file_heads import used_head
from xscore.prompts.left_out import (
    LeftOut,
    name_methods,
    show_in_part,
    telling_words,
    without_stubs,
)
from xscore.records.memory import (
    BLOCK_NAME,
    PROSE_KINDS,
    Kind,
    Layer,
    Memory,
    labelled_details,
)
from xscore.settings import BundleSettings

CODE_LAYERS = frozenset({Layer.GRAPH, Layer.VECTOR})
"""Layers that get what the others leave of their ceilings."""
OUTLINE_KINDS = frozenset({Kind.CLASS, Kind.TEST, Kind.BLOCK})
"""Kinds whose text contains the stubs of their members."""
PARTIAL_KINDS = frozenset(
    {Kind.FUNCTION, Kind.METHOD, Kind.TEST, Kind.TEXT, Kind.COMMIT, *PROSE_KINDS}
)
"""Kinds that may be shown in part; never an outline."""
HEADER_SHARE = 0.1
"""Largest share of the budget for one file's header."""
LEFT_OUT_SHARE, SPARE_TOKENS = 0.05, 100
"""Share of the budget for naming what is not shown; or this many tokens, if the memories leave
them."""
CAPTION_TOKENS = 30
"""Tokens that the caption and the fence of a memory take, roughly."""
PAST_ANSWERS_SHARE = 0.15
"""Largest share of the budget for past answers, whatever their layers: 1,200 tokens of the default
8,000, two or three answers. They repeat a model's words about the code; code and stated memories
come first."""
COMMITS_SHARE = 0.05
"""Share of the budget for commits, in addition to what the decisions leave of the governance
layer's."""
FEWEST_PART_TOKENS = 60
"""Least room in which a memory is shown in part."""
NOTICE_CHARS = 300
"""How much of a file's first comment is searched for a notice of licence; later words are about
the code."""
_FIRST_COMMENT = re.compile(
    r"\s*+(?:/\*.*?\*/|<!--.*?-->|(?:[ \t]*+(?://|--|;|#(?![\w\[]|!\[))[^\n]*(?:\n|\Z))+)",
    re.DOTALL,
)
_NOTICE = re.compile(r"licen[sc]e|copyright|SPDX-", re.IGNORECASE)


def _by_layer() -> defaultdict[Layer, list[BundlePiece]]:
    return defaultdict(list)


class _Groups(Struct):
    """Pieces by the share of the budget that they draw on, best first."""

    code: list[BundlePiece] = field(default_factory=list)
    stated: defaultdict[Layer, list[BundlePiece]] = field(default_factory=_by_layer)
    past_answers: defaultdict[Layer, list[BundlePiece]] = field(default_factory=_by_layer)
    details: defaultdict[Layer, list[BundlePiece]] = field(default_factory=_by_layer)
    """Pieces that this turn did not rank: the details of summaries."""
    commits: list[BundlePiece] = field(default_factory=list)


def _group_by_share(ordered: Sequence[BundlePiece]) -> _Groups:
    groups = _Groups()
    for piece in ordered:
        layer = piece.memory.layer
        if piece.entry.ranked is None:
            groups.details[layer].append(piece)
        elif layer in CODE_LAYERS:
            groups.code.append(piece)
        elif piece.memory.kind is Kind.COMMIT:
            groups.commits.append(piece)
        elif piece.entry.section is Section.PAST_ANSWERS:
            groups.past_answers[layer].append(piece)
        else:
            groups.stated[layer].append(piece)
    return groups


def _room_by_layer(ceilings: Mapping[Layer, float], max_tokens: int) -> dict[Layer, int]:
    """Return the tokens of each layer of stated memories; code gets the rest."""
    total_share = max(1.0, sum(ceilings.values()))
    tokens_by_layer: dict[Layer, int] = {}
    for layer, share in ceilings.items():
        if layer not in CODE_LAYERS:
            tokens_by_layer[layer] = int(share / total_share * max_tokens)
    return tokens_by_layer


def choose_fitting(
    ordered: Sequence[BundlePiece],
    *,
    max_tokens: int,
    ceilings: Mapping[Layer, float],
    reserved: int = 0,
) -> set[str]:
    """Choose the ids of the memories that fit, best first.

    ceilings: layer -> share of the budget in 0..1, scaled down if their sum exceeds 1. A ceiling of
        a code layer reserves that share for code. Past answers get what the stated memories leave
        of their layer's share, and together at most `PAST_ANSWERS_SHARE`; details of summaries come
        last.
    reserved: tokens of the budget that code and details leave free.
    """
    chosen: set[str] = set()
    groups = _group_by_share(ordered)
    tokens_left = _room_by_layer(ceilings, max_tokens)
    spent = 0
    past = int(PAST_ANSWERS_SHARE * max_tokens)
    for layer, room in tokens_left.items():
        stated = _fill(groups.stated[layer], room, chosen)
        answers = _fill(groups.past_answers[layer], min(past, room - stated), chosen)
        past -= answers
        tokens_left[layer] = room - stated - answers
        spent += stated + answers
    of_commits = tokens_left.get(Layer.GOVERNANCE, 0) + int(COMMITS_SHARE * max_tokens)
    spent += _fill(groups.commits, min(of_commits, max_tokens - spent), chosen)
    spent += reserved + _fill(groups.code, max_tokens - reserved - spent, chosen)
    for layer, room in tokens_left.items():
        # A detail without its summary would be out of context.
        shown = [piece for piece in groups.details[layer] if piece.entry.summary in chosen]
        taken = _fill(shown, min(room, past, max_tokens - spent), chosen)
        past = past - taken
        spent = spent + taken
    return chosen


def memory_tokens(memory: Memory, chars: int) -> int:
    """Estimate the tokens of `chars` characters of this memory."""
    return tokens.estimate(chars, kind=memory.kind.value, language=memory.language)


def _fill(pieces: Sequence[BundlePiece], budget: int, chosen: set[str]) -> int:
    spent = 0
    opened: set[str] = set()
    for piece in pieces:
        above = 0
        if piece.memory.path not in opened:
            above = len(piece.header) + sum(map(len, piece.purposes))
        price = memory_tokens(piece.memory, len(piece.text) + above)
        if spent + price <= budget:
            spent += price
            opened.add(piece.memory.path)
            chosen.add(piece.memory.id)
    return spent


def render_bundle(
    entries: Sequence[BundleEntry],
    *,
    form: str,
    max_tokens: int,
    settings: BundleSettings,
    now: float,
    extras: BundleExtras = NO_EXTRAS,
) -> Bundle:
    """Render the memories best first, grouped by file, summaries before their details.

    form: `xml`, `markdown`, `json` or `memory`.
    now: Unix seconds.
    """
    best_first = sorted(entries, key=lambda entry: _worth(entry, settings, now))
    pieces = _pieces(best_first, now, header_limit=HEADER_SHARE * max_tokens)
    ceilings = {Layer(name): share for name, share in settings.ceilings.items()}
    chosen = choose_fitting(pieces, max_tokens=max_tokens, ceilings=ceilings)
    naming = int(LEFT_OUT_SHARE * max_tokens)
    ranked_ids = {piece.memory.id for piece in pieces if piece.entry.ranked}
    if extras.near or ranked_ids - chosen:
        # Not all fits, or something came near: room is kept for naming it.
        chosen = choose_fitting(
            pieces, max_tokens=max_tokens, ceilings=ceilings, reserved=naming
        )
        pieces = _with_parts(pieces, chosen, max_tokens - naming, extras.task_words)
    # What a piece takes is estimated, so the rendered text may be too long: the worst piece goes,
    # and it is rendered again.
    while True:
        fitting, no_room = _split_by_choice(pieces, chosen)
        included = _in_place(fitting)
        left_out = (*map(_left_out, no_room), *extras.near)
        token_limit = max_tokens
        if included:
            token_limit = max(naming, min(_room_left(included, max_tokens), SPARE_TOKENS))
        layout = BundleLayout(_laid_out(included), left_out, token_limit, extras)
        text = FORMS[form](layout)
        size = _size(text, included)
        if size <= max_tokens or not included:
            break
        chosen.discard(_worst(included, settings, now).memory.id)
    return _bundle_of(text, size, included, no_room)


def _bundle_of(
    text: str, size: int, included: Sequence[BundlePiece], no_room: Sequence[BundlePiece]
) -> Bundle:
    merged: list[str] = []
    for piece in included:
        merged += piece.entry.others
    without_room: list[str] = []
    for piece in no_room:
        without_room += (piece.memory.id, *piece.entry.others)
    return Bundle(
        text=text,
        included=tuple(piece.memory.id for piece in included),
        left_out=tuple(without_room),
        tokens=size,
        merged=tuple(merged),
    )


def _split_by_choice(
    pieces: Sequence[BundlePiece], chosen: Collection[str]
) -> tuple[list[BundlePiece], list[BundlePiece]]:
    """Return the chosen pieces, and the ranked ones without room; other details are dropped."""
    fitting: list[BundlePiece] = []
    no_room: list[BundlePiece] = []
    for piece in pieces:
        if piece.memory.id in chosen:
            fitting.append(piece)
        elif piece.entry.ranked is not None:
            no_room.append(piece)
    return fitting, no_room


def _worst(pieces: Sequence[BundlePiece], settings: BundleSettings, now: float) -> BundlePiece:
    def rank(piece: BundlePiece) -> tuple[bool, float, str]:
        # What this turn did not rank goes before what it did.
        is_unranked = piece.entry.ranked is None
        return (is_unranked, *_worth(piece.entry, settings, now))

    return max(pieces, key=rank)


def _worth(entry: BundleEntry, settings: BundleSettings, now: float) -> tuple[float, str]:
    return -memory_value(entry.memory, entry.score, settings=settings, now=now), entry.memory.id


def _pieces(
    entries: Sequence[BundleEntry], now: float, *, header_limit: float
) -> list[BundlePiece]:
    """Return what is shown of each entry. header_limit: see `_piece`."""
    texts: defaultdict[str, list[str]] = defaultdict(list)
    for entry in entries:
        texts[entry.memory.path].append(entry.memory.text)
    pieces: list[BundlePiece] = []
    for entry in entries:
        pieces.append(_piece(entry, texts[entry.memory.path], now, token_limit=header_limit))
    return pieces


def _piece(
    entry: BundleEntry, texts: Sequence[str], now: float, *, token_limit: float
) -> BundlePiece:
    """Return what is shown of an entry.

    texts: those of all entries of its file, whose imports its header keeps.
    token_limit: tokens above which it is left out.
    """
    memory = entry.memory
    text = _shown(entry)
    if memory.kind is Kind.CLASS:
        text = name_methods(text)
    header = used_head(_without_notice(entry.header).strip("\n"), texts)
    header = header if memory_tokens(memory, len(header)) <= token_limit else ""
    note = provenance_text(entry, now=now)
    size = memory_tokens(memory, len(text))
    return BundlePiece(entry, text, size, header=header, purposes=entry.purposes, note=note)


def _without_notice(header: str) -> str:
    """Drop the copyright notice at the head of a file: it says nothing about the code, and
    every file repeats it."""
    comment = _FIRST_COMMENT.match(header)
    if comment and _NOTICE.search(comment[0][:NOTICE_CHARS]):
        return header[comment.end() :]
    return header


def _with_parts(
    pieces: Sequence[BundlePiece], chosen: set[str], room: int, task_words: frozenset[str]
) -> list[BundlePiece]:
    """Show the lines that matter of functions for which there is no room; add their ids to the
    chosen.

    The best of what does not fit comes first, and only while there is room for a useful part.
    """
    tokens_left = _room_left([piece for piece in pieces if piece.memory.id in chosen], room)
    with_parts = list(pieces)
    for place, piece in enumerate(pieces):
        memory = piece.memory
        if tokens_left < FEWEST_PART_TOKENS:
            break
        if memory.id in chosen or memory.layer not in CODE_LAYERS:
            continue
        if memory.kind not in PARTIAL_KINDS:
            continue
        chars = int((tokens_left - CAPTION_TOKENS) * len(piece.text) / max(1, piece.tokens))
        words = task_words | telling_words(piece.entry.reason)
        text = show_in_part(
            piece.text, words, first_line=max(1, memory.start_line), limit=chars
        )
        if text:
            size = memory_tokens(memory, len(text))
            with_parts[place] = replace(piece, text=text, tokens=size, header="", in_part=True)
            tokens_left -= size + CAPTION_TOKENS
            chosen.add(memory.id)
    return with_parts


def _room_left(pieces: Sequence[BundlePiece], room: int) -> int:
    """Return about how many tokens these leave, captions and each file's header included."""
    headers: dict[str, int] = {}
    tokens_left = room
    for piece in pieces:
        tokens_left -= piece.tokens + CAPTION_TOKENS
        above = len(piece.header) + sum(map(len, piece.purposes))
        headers[piece.memory.path] = memory_tokens(piece.memory, above)
    return tokens_left - sum(headers.values())


def _left_out(piece: BundlePiece) -> LeftOut:
    memory = piece.memory
    entry = piece.entry
    candidate = None
    if entry.ranked:
        candidate = entry.ranked.candidate
    assert candidate is not None
    return LeftOut(
        candidate._replace(start_line=memory.start_line, end_line=memory.end_line),
        LeftOutCause.NO_ROOM,
        entry.score,
        reason=entry.reason,
        title=memory.title,
        others=entry.others,
        tokens=piece.tokens,
    )


def _in_place(pieces: Sequence[BundlePiece]) -> list[BundlePiece]:
    """Order by section, summaries first; groups take the place of their best member.

    A group is the memories of a file, a summary with its details, or short facts.
    """
    groups: dict[tuple[Section, bool, str], list[BundlePiece]] = {}
    summaries = {piece.memory.id for piece in pieces if piece.memory.kind is Kind.SUMMARY}
    for piece in pieces:
        groups.setdefault(_group(piece, summaries), []).append(piece)
    section_order = list(Section)
    # A stable sort: within a section groups keep the order of their best members.
    keys = sorted(groups, key=lambda key: (section_order.index(key[0]), not key[1]))
    ordered: list[BundlePiece] = []
    for key in keys:
        # A file's summary comes before what it sums up.
        ordered += sorted(groups[key], key=lambda piece: piece.memory.id not in summaries)
    return ordered


def _group(piece: BundlePiece, summaries: set[str]) -> tuple[Section, bool, str]:
    """Return section, whether it comes first in it, and the name of the group."""
    memory = piece.memory
    if memory.kind is Kind.SUMMARY:
        about = memory.id
    else:
        about = piece.entry.summary
    if about in summaries:
        return Section.PAST_ANSWERS, True, about
    section = piece.entry.section
    return (
        section,
        False,
        f"facts of {section}" if is_fact(memory) else memory.path or memory.id,
    )


def _laid_out(included: Sequence[BundlePiece]) -> tuple[BundlePiece, ...]:
    """Show a file's header once, and leave out of a class the members that are shown themselves."""
    own_text = {piece.memory.text.strip() for piece in included}
    members: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for piece in included:
        memory = piece.memory
        # Without its last part.
        owner = re.sub(r"(?:\.| > )(?:(?!\.| > ).)+\Z", "", memory.entity)
        if owner != memory.entity and memory.facts.signature:
            members[memory.path, owner].append(memory.facts.signature)
    pieces = []
    opened = set[str]()
    for piece in included:
        memory = piece.memory
        header = ""
        purposes: tuple[str, ...] = ()
        if memory.path not in opened:
            header = piece.header
            purposes = piece.purposes
        opened.add(memory.path)
        if header.strip() in own_text:
            header = ""  # it is a memory of its own, and shown as one
        text = piece.text
        stubs = members[memory.path, memory.entity.removeprefix(BLOCK_NAME)]
        if memory.kind in OUTLINE_KINDS and stubs:
            text = name_methods(without_stubs(_shown(piece.entry), stubs))
        pieces.append(replace(piece, text=text, header=header, purposes=purposes))
    return tuple(pieces)


def _shown(entry: BundleEntry) -> str:
    """Return the text with the details missing from it; for a settled conflict, only its
    sentence."""
    if entry.resolved:
        return entry.resolved
    text = entry.memory.text
    details = entry.memory.details
    unsaid = tuple(words for words in details.alternatives if words not in text)
    lines = [text]
    for label, words in labelled_details(replace(details, alternatives=unsaid)).items():
        if words not in text:
            lines.append(f"{label}: {words}")
    return "\n".join(lines)


def _size(text: str, included: Sequence[BundlePiece]) -> int:
    """Estimate tokens: memories by the ratio of their language, the rest as plain text."""
    inner = inner_tokens = 0
    for piece in included:
        inner += len(piece.text)
        inner_tokens += piece.tokens
    rest = max(0, len(text) - inner)
    shrink = 0.0
    if inner:
        shrink = min(1.0, len(text) / inner)
    return int(shrink * inner_tokens) + tokens.estimate(rest)

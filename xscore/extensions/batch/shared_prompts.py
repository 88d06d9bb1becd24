"""Prompts that several questions share: which questions share which packs, how many fit, and how to
read replies.

`batch.questions_a_call` is lowered where a host takes less: by the size of a strict schema, the
model's output cap or its context. A score counts only for the question under whose code it stands,
and a damaged reply to several questions counts for none. Trade-off: packs that differ in one member
are not shared, and with a model of a small output cap fewer questions share a prompt than its
replies would need.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import ceil

from msgspec import Struct
from msgspec.structs import replace

from xscore.platform import tokens
from xscore.prompts.judge import PackEntry, PromptOptions
from xscore.prompts.questions import (
    QUESTIONS_VERSION,
    questions_block,
    questions_request,
    questions_rubric,
)
from xscore.records.calls import Request
from xscore.scorer.packs import ENTRY_TOKENS, Pack
from xscore.scorer.prompt_builder import (
    MOST_FRAME_TOKENS,
    REASON_TOKENS,
    SCORE_TOKENS,
    PromptBuilder,
    PromptLayout,
)
from xscore.scorer.repair import PackPrompt
from xscore.scorer.replies import (
    EMPTY_REPLY,
    ParsedReply,
    believed_scores,
    find_object,
    has_conflict,
    printable_reason,
)

MOST_REPAIRED_SCORES = 60
"""Bounds the brackets of a reply to repair, by what one turn's reply can hold: repair time is
quadratic in them."""


class QuestionReplies(Struct, frozen=True):
    """What a reply validly states for each question."""

    by_question: Mapping[str, ParsedReply]
    whole: ParsedReply
    """Without scores: counts the faults of the whole reply."""


def read_one_question(text: str, ids: Collection[str]) -> ParsedReply:
    """Read a reply to the prompt with one question, `q1`."""
    found = read_questions(text, ("q1",), ids)
    one, whole = found.by_question["q1"], found.whole
    return ParsedReply(one.scores, one.reasons, whole.foreign, whole.void, whole.repaired)


def read_questions(text: str, questions: Collection[str], ids: Collection[str]) -> QuestionReplies:
    """Read a reply to a prompt with these questions and ids; there is a `Reply` for each
    question."""
    found = find_object(text, scores=min(len(questions) * (len(ids) + 1), MOST_REPAIRED_SCORES))
    # Whose a score is cannot be told for certain.
    if found is not None and found.damaged and len(questions) > 1:
        return QuestionReplies(
            dict.fromkeys(questions, EMPTY_REPLY), ParsedReply({}, {}, repaired=True)
        )
    by_question = dict.fromkeys(questions, EMPTY_REPLY)
    data = found.data if found else None
    if found is None or not isinstance(data, dict):
        return QuestionReplies(
            by_question, ParsedReply({}, {}, repaired=bool(found and found.repaired))
        )
    scores = data.get("scores")
    if has_conflict(data, "scores") or not isinstance(scores, dict):
        return QuestionReplies(by_question, ParsedReply({}, {}, repaired=found.repaired))
    reasons = _reasons_by_question(data.get("reasons"))
    foreign = void = 0
    for code, given in scores.items():
        if code not in by_question:
            foreign += 1
        elif not isinstance(given, dict) or has_conflict(scores, code):
            void += 1
        else:
            reply = by_question[code] = believed_scores(given, ids, reasons.get(code, {}), found)
            foreign, void = foreign + reply.foreign, void + reply.void
    return QuestionReplies(by_question, ParsedReply({}, {}, foreign, void, found.repaired))


def _reasons_by_question(data: object) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for entry in data if isinstance(data, list) else ():
        if not isinstance(entry, dict):
            continue
        code, id_, said = (
            entry.get("q"),
            entry.get("id"),
            entry.get("reason", entry.get("reasoning")),
        )
        if isinstance(code, str) and isinstance(id_, str) and isinstance(said, str):
            found.setdefault(code, {})[id_] = printable_reason(said)
    return found


def _one_question(entries: Sequence[PackEntry], turn_text: str, options: PromptOptions) -> Request:
    return questions_request(entries, (turn_text,), options)


QUESTIONS_LAYOUT = PromptLayout(QUESTIONS_VERSION, _one_question, read_one_question, "memory_first")


MOST_SCORES = 480
"""Scores of one reply, far below a strict schema's limit of 5,000 properties."""
MOST_OUTPUT_TOKENS = 16_384
"""Output tokens of one reply, without reasoning: unstreamed replies may not be much longer at every
host."""
QUESTION_TOKENS = 8
"""Most tokens of one question's braces and code in a reply."""
CODE_TOKENS = 6
"""Most tokens by which a question's code lengthens a reason."""


def shared_request(
    builder: PromptBuilder, ask: PackPrompt, turn_texts: Sequence[str]
) -> tuple[Request, tuple[str, ...]]:
    """Render an ask for these questions; return the request and each piece's id."""
    entries = builder.entries(ask)
    cap = shared_output_cap(builder, len(entries), len(turn_texts))
    request = questions_request(entries, turn_texts, builder.options(ask, max_output_tokens=cap))
    timeout_s = builder.model.timeout_s * (1 + len(turn_texts)) / 2
    return replace(request, timeout_s=timeout_s), tuple(entry.code_id for entry in entries)


def shared_output_cap(builder: PromptBuilder, memories: int, questions: int) -> int:
    """Maximum tokens of the reply: every id scored and explained for each question, plus
    reasoning."""
    cap = _reply_tokens(memories, questions) + builder.model.reasoning_reserve
    most = builder.model.max_output_tokens
    return cap if most is None else min(cap, most)


def shared_expected_output(builder: PromptBuilder, memories: int, questions: int) -> int:
    """Likely tokens of the reply."""
    return (
        questions * (builder.expected_output(memories) - tokens.REPLY_FRAME + QUESTION_TOKENS)
        + tokens.REPLY_FRAME
    )


def _max_questions(builder: PromptBuilder, memories: int, *, wanted: int) -> int:
    """Return how many of the wanted questions may share a pack of this many memories; at least
    1."""
    most, reserve = builder.model.max_output_tokens, builder.model.reasoning_reserve
    room = MOST_OUTPUT_TOKENS if most is None else min(MOST_OUTPUT_TOKENS, most - reserve)
    by_output = (room - MOST_FRAME_TOKENS) // (_reply_tokens(memories, 1) - MOST_FRAME_TOKENS)
    return max(1, min(wanted, MOST_SCORES // max(1, memories), by_output))


def _split_questions(
    questions: Sequence[int], sizes: Sequence[int], *, most: int, room: int
) -> Iterator[tuple[int, ...]]:
    """Split questions into runs of nearly equal length, at most `most` each, with texts within
    `room`."""
    count = ceil(len(questions) / most)
    for at in range(count):
        run = questions[at * len(questions) // count : (at + 1) * len(questions) // count]
        while run:
            fits = next(
                n
                for n in range(len(run), 0, -1)
                if n == 1 or sum(sizes[one] for one in run[:n]) <= room
            )
            yield tuple(run[:fits])
            run = run[fits:]


def _reply_tokens(memories: int, questions: int) -> int:
    return MOST_FRAME_TOKENS + questions * (
        QUESTION_TOKENS + (SCORE_TOKENS + REASON_TOKENS + CODE_TOKENS) * memories
    )


class SharedUnit(Struct, frozen=True):
    """A pack and the questions, by number, that are to share it."""

    pack: Pack
    questions: tuple[int, ...]


def plan_shared_units(
    builder: PromptBuilder,
    packs: Sequence[Sequence[Pack]],
    turn_texts: Sequence[str],
    *,
    most: int,
    context_tokens: int,
) -> list[SharedUnit]:
    """Plan which questions share which packs; packs of single questions are included.

    packs: what each question lacks. A memory too large for one prompt is not shared: its parts are
        each question's own to judge.
    """
    ratio = builder.model.chars_per_token
    sizes = [ceil(tokens.size(questions_block((text,))) / ratio) for text in turn_texts]
    rubric = ceil(tokens.size(questions_rubric()) / ratio)
    units: list[SharedUnit] = []
    for pack, askers in _by_pack(packs):
        whole = tuple(member for member in pack.members if member.tokens <= builder.profile.tokens)
        if len(whole) < len(pack.members):
            large = Pack("", tuple(member for member in pack.members if member not in whole))
            units.extend(SharedUnit(large, (number,)) for number in askers)
        shared = (
            pack if len(whole) == len(pack.members) else replace(pack, members=whole, is_kept=False)
        )
        memories = len(whole)
        if not memories:
            continue
        fits = _max_questions(builder, memories, wanted=most)
        size = sum(member.tokens for member in whole)
        taken = rubric + size + memories * ENTRY_TOKENS + shared_output_cap(builder, memories, fits)
        room = context_tokens - taken
        units.extend(
            SharedUnit(shared, run) for run in _split_questions(askers, sizes, most=fits, room=room)
        )
    return units


def _by_pack(packs: Sequence[Sequence[Pack]]) -> list[tuple[Pack, list[int]]]:
    found: dict[tuple[str, tuple[str, ...]], tuple[Pack, list[int]]] = {}
    for number, lacking in enumerate(packs):
        for pack in lacking:
            key = pack.id, tuple(member.content_hash for member in pack.members)
            found.setdefault(key, (pack, []))[1].append(number)
    return list(found.values())

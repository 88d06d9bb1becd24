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
    faults: ParsedReply
    """The faults of the whole reply; no scores."""


def read_one_question(text: str, ids: Collection[str]) -> ParsedReply:
    """Read a reply to the prompt with one question, `q1`."""
    replies = read_questions(text, ("q1",), ids)
    reply = replies.by_question["q1"]
    faults = replies.faults
    return ParsedReply(reply.scores, reply.reasons, faults.foreign, faults.void, faults.repaired)


def read_questions(text: str, questions: Collection[str], ids: Collection[str]) -> QuestionReplies:
    """Read a reply to a prompt with these questions and ids; there is a `Reply` for each
    question."""
    reply_object = find_object(
        text, scores=min(len(questions) * (len(ids) + 1), MOST_REPAIRED_SCORES)
    )
    # Whose a score is cannot be told for certain.
    if reply_object is not None and reply_object.damaged and len(questions) > 1:
        return QuestionReplies(
            dict.fromkeys(questions, EMPTY_REPLY), ParsedReply({}, {}, repaired=True)
        )
    by_question = dict.fromkeys(questions, EMPTY_REPLY)
    data = reply_object.data if reply_object else None
    if reply_object is None or not isinstance(data, dict):
        return QuestionReplies(
            by_question, ParsedReply({}, {}, repaired=bool(reply_object and reply_object.repaired))
        )
    scores = data.get("scores")
    if has_conflict(data, "scores") or not isinstance(scores, dict):
        return QuestionReplies(by_question, ParsedReply({}, {}, repaired=reply_object.repaired))
    reasons = _reasons_by_question(data.get("reasons"))
    foreign = void = 0
    for code, scores_by_id in scores.items():
        if code not in by_question:
            foreign += 1
        elif not isinstance(scores_by_id, dict) or has_conflict(scores, code):
            void += 1
        else:
            reply = by_question[code] = believed_scores(
                scores_by_id, ids, reasons.get(code, {}), reply_object
            )
            foreign = foreign + reply.foreign
            void = void + reply.void
    return QuestionReplies(by_question, ParsedReply({}, {}, foreign, void, reply_object.repaired))


def _reasons_by_question(data: object) -> dict[str, dict[str, str]]:
    reasons: dict[str, dict[str, str]] = {}
    for entry in data if isinstance(data, list) else ():
        if not isinstance(entry, dict):
            continue
        code = entry.get("q")
        id_ = entry.get("id")
        reason = entry.get("reason", entry.get("reasoning"))
        if isinstance(code, str) and isinstance(id_, str) and isinstance(reason, str):
            reasons.setdefault(code, {})[id_] = printable_reason(reason)
    return reasons


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
    builder: PromptBuilder, prompt: PackPrompt, turn_texts: Sequence[str]
) -> tuple[Request, tuple[str, ...]]:
    """Render a prompt for these questions; return the request and each piece's id."""
    entries = builder.entries(prompt)
    cap = shared_output_cap(builder, len(entries), len(turn_texts))
    request = questions_request(entries, turn_texts, builder.options(prompt, max_output_tokens=cap))
    timeout_s = builder.model.timeout_s * (1 + len(turn_texts)) / 2
    return replace(request, timeout_s=timeout_s), tuple(entry.code_id for entry in entries)


def shared_output_cap(builder: PromptBuilder, memories: int, questions: int) -> int:
    """Maximum tokens of the reply: every id scored and explained for each question, plus
    reasoning."""
    cap = _reply_tokens(memories, questions) + builder.model.reasoning_reserve
    model_cap = builder.model.max_output_tokens
    if model_cap is None:
        return cap
    return min(cap, model_cap)


def shared_expected_output(builder: PromptBuilder, memories: int, questions: int) -> int:
    """Likely tokens of the reply."""
    return (
        questions * (builder.expected_output(memories) - tokens.REPLY_FRAME + QUESTION_TOKENS)
        + tokens.REPLY_FRAME
    )


def _max_questions(builder: PromptBuilder, memories: int, *, limit: int) -> int:
    """Return how many of the wanted questions may share a pack of this many memories; at least
    1."""
    model_cap = builder.model.max_output_tokens
    reserve = builder.model.reasoning_reserve
    room = MOST_OUTPUT_TOKENS if model_cap is None else min(MOST_OUTPUT_TOKENS, model_cap - reserve)
    by_output = (room - MOST_FRAME_TOKENS) // (_reply_tokens(memories, 1) - MOST_FRAME_TOKENS)
    return max(1, min(limit, MOST_SCORES // max(1, memories), by_output))


def _split_questions(
    questions: Sequence[int], sizes: Sequence[int], *, limit: int, room: int
) -> Iterator[tuple[int, ...]]:
    """Split questions into runs of nearly equal length, at most `most` each, with texts within
    `room`."""
    count = ceil(len(questions) / limit)
    for at in range(count):
        run = questions[at * len(questions) // count : (at + 1) * len(questions) // count]
        while run:
            fits = len(run)
            # One question always stays: a unit of its own is judged in its own turn.
            while fits > 1 and sum(sizes[number] for number in run[:fits]) > room:
                fits -= 1
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
    limit: int,
    context_tokens: int,
) -> list[SharedUnit]:
    """Plan which questions share which packs; packs of single questions are included.

    packs: what each question lacks. A memory too large for one prompt is not shared: its parts are
        each question's own to judge.
    """
    ratio = builder.model.chars_per_token
    sizes = [ceil(tokens.size(questions_block((text,))) / ratio) for text in turn_texts]
    rubric_tokens = ceil(tokens.size(questions_rubric()) / ratio)
    units: list[SharedUnit] = []
    for pack, askers in _by_pack(packs):
        largest = builder.profile.tokens
        small = tuple(member for member in pack.members if member.tokens <= largest)
        shared = pack
        if len(small) < len(pack.members):
            large = Pack("", tuple(member for member in pack.members if member not in small))
            units.extend(SharedUnit(large, (number,)) for number in askers)
            shared = replace(pack, members=small, is_kept=False)
        if not small:
            continue
        fits = _max_questions(builder, len(small), limit=limit)
        pack_tokens = sum(member.tokens for member in small) + len(small) * ENTRY_TOKENS
        reply_tokens = shared_output_cap(builder, len(small), fits)
        room = context_tokens - rubric_tokens - pack_tokens - reply_tokens
        runs = _split_questions(askers, sizes, limit=fits, room=room)
        units.extend(SharedUnit(shared, run) for run in runs)
    return units


def _by_pack(packs: Sequence[Sequence[Pack]]) -> list[tuple[Pack, list[int]]]:
    by_members: dict[tuple[str, tuple[str, ...]], tuple[Pack, list[int]]] = {}
    for number, lacking in enumerate(packs):
        for pack in lacking:
            key = pack.id, tuple(member.content_hash for member in pack.members)
            by_members.setdefault(key, (pack, []))[1].append(number)
    return list(by_members.values())

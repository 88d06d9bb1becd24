"""Prompts that several questions share: their layout, and which questions share which packs.

A prompt takes up to `batch.questions_a_call` questions, and fewer where the model's output cap
or its context would not hold them. Its reply is read by `scorer.chat_replies`. Trade-off: packs
that differ in one member are not shared, and one very long question leaves room for fewer
others.
"""

from collections.abc import Collection, Sequence
from math import ceil

from msgspec import Struct
from msgspec.structs import replace

from xscore.platform import tokens
from xscore.prompts.judge import PackEntry, PromptOptions
from xscore.prompts.questions import (
    QUESTIONS_VERSION,
    question_codes,
    questions_block,
    questions_request,
    questions_rubric,
)
from xscore.records.calls import Request
from xscore.records.candidates import Candidate
from xscore.scorer.chat_replies import parse_replies
from xscore.scorer.packs import ENTRY_TOKENS, Pack
from xscore.scorer.prompt_builder import (
    MOST_FRAME_TOKENS,
    REASON_TOKENS,
    SCORE_TOKENS,
    PromptBuilder,
    PromptLayout,
)
from xscore.scorer.repair import PackPrompt
from xscore.scorer.replies import ParsedReply

MOST_OUTPUT_TOKENS = 16_384
"""Output tokens of one reply, without reasoning: unstreamed replies may not be much longer at every
host."""
QUESTION_TOKENS = 8
"""Most tokens of one question's braces and code in a reply."""
PAIR_TOKENS = SCORE_TOKENS + REASON_TOKENS + 6
"""Most tokens of one score and its reason, which names the question too."""


def _one_question(
    entries: Sequence[PackEntry], turn_text: str, options: PromptOptions
) -> Request:
    return questions_request(entries, (turn_text,), options)


def _read_one_question(text: str, ids: Collection[str]) -> ParsedReply:
    (reply,) = parse_replies(text, ids, question_codes(1))
    return reply


QUESTIONS_LAYOUT = PromptLayout(
    QUESTIONS_VERSION, _one_question, _read_one_question, only_order="memory_first"
)


def shared_request(
    builder: PromptBuilder, prompt: PackPrompt, turn_texts: Sequence[str]
) -> tuple[Request, tuple[str, ...]]:
    """Render a prompt for these questions; return the request and each piece's id."""
    entries = builder.entries(prompt)
    model = builder.model
    cap = MOST_FRAME_TOKENS + len(turn_texts) * _question_tokens(len(entries))
    cap += model.reasoning_reserve
    if model.max_output_tokens is not None:
        cap = min(cap, model.max_output_tokens)
    request = questions_request(
        entries, turn_texts, builder.options(prompt, max_output_tokens=cap)
    )
    timeout_s = model.timeout_s * (1 + len(turn_texts)) / 2
    return replace(request, timeout_s=timeout_s), tuple(entry.code for entry in entries)


def shared_expected_output(builder: PromptBuilder, memories: int, questions: int) -> int:
    """Likely tokens of the reply."""
    one_question = builder.expected_output(memories) - tokens.REPLY_FRAME + QUESTION_TOKENS
    return questions * one_question + tokens.REPLY_FRAME


def _question_tokens(memories: int) -> int:
    """Return the most tokens of a reply's part for one question."""
    return QUESTION_TOKENS + PAIR_TOKENS * memories


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
    units: list[SharedUnit] = []
    for pack, askers in _by_pack(packs):
        small: list[Candidate] = []
        large: list[Candidate] = []
        for member in pack.members:
            (small if member.tokens <= builder.profile.tokens else large).append(member)
        shared = pack
        if large:
            for number in askers:
                units.append(SharedUnit(Pack("", tuple(large)), (number,)))
            shared = replace(pack, members=tuple(small), is_lasting=False)
        if small:
            longest = max(sizes[number] for number in askers)
            fits = min(limit, _max_questions(builder, small, longest, context_tokens))
            count = ceil(len(askers) / fits)
            # Runs of nearly equal length: six questions, of which four fit, are three and three.
            for at in range(count):
                first = at * len(askers) // count
                end = (at + 1) * len(askers) // count
                units.append(SharedUnit(shared, tuple(askers[first:end])))
    return units


def _max_questions(
    builder: PromptBuilder, members: Sequence[Candidate], longest: int, context_tokens: int
) -> int:
    """Return how many questions of this length may share a pack, by the longest reply and by the
    context of the model; at least 1."""
    model = builder.model
    reply_tokens = _question_tokens(len(members))
    output_room = MOST_OUTPUT_TOKENS
    if model.max_output_tokens is not None:
        output_room = min(output_room, model.max_output_tokens - model.reasoning_reserve)
    rubric_tokens = ceil(tokens.size(questions_rubric()) / model.chars_per_token)
    pack_tokens = sum(member.tokens + ENTRY_TOKENS for member in members)
    context_room = context_tokens - rubric_tokens - pack_tokens - model.reasoning_reserve
    by_output = (output_room - MOST_FRAME_TOKENS) // reply_tokens
    by_context = (context_room - MOST_FRAME_TOKENS) // (reply_tokens + longest)
    return max(1, min(by_output, by_context))


def _by_pack(packs: Sequence[Sequence[Pack]]) -> list[tuple[Pack, list[int]]]:
    """Return each distinct pack, and which questions lack it."""
    by_members: dict[tuple[str, tuple[str, ...]], tuple[Pack, list[int]]] = {}
    for number, lacking in enumerate(packs):
        for pack in lacking:
            key = pack.id, tuple(member.content_hash for member in pack.members)
            by_members.setdefault(key, (pack, []))[1].append(number)
    return list(by_members.values())

"""What questions that share a pack are sent as, and how many of them may share it. Pure.

How many is the user's to say (`batch.questions_a_call`); here it is brought down to what a host takes: properties of a
strict schema, the model's output cap, its context. Trade-off: the output cap reserves a reason for every score, so that
a model with a small cap shares less than its replies would need.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import ceil

from xscore import tokens
from xscore.prompts.questions import asked_alone_chars, questions_block, questions_rubric
from xscore.records import Request
from xscore.scorer.draft import MOST_FRAME_TOKENS, REASON_TOKENS, SCORE_TOKENS, Drafts
from xscore.scorer.repair import Ask
from xscore.scorer.shared_layout import render
from xscore.scorer.slots import ENTRY_TOKENS

MOST_SCORES = 480
"""Of one reply, so that its schema stays far below the 5,000 properties that a strict one may have."""
MOST_OUTPUT_TOKENS = 16_384
"""Of one reply, reasoning beside: what is not streamed may not be much longer at every host."""
QUESTION_TOKENS = 8
"""Most tokens of one question's braces and code in a reply."""
CODE_TOKENS = 6
"""Most tokens by which a question's code lengthens a reason."""


def shared_request(drafts: Drafts, ask: Ask, turn_texts: Sequence[str]) -> tuple[Request, tuple[str, ...]]:
    """Render an ask for these questions; give the request and the id of each piece."""
    entries = drafts.entries(ask)
    options = replace(
        drafts.options(ask, max_output_tokens=output_cap(drafts, len(entries), len(turn_texts))),
        timeout_s=drafts.model.timeout_s * (1 + len(turn_texts)) / 2,
    )
    request = render(entries, turn_texts, options)
    return request, tuple(entry.code_id for entry in entries)


def alone_tokens(drafts: Drafts, shared: Request, turn_texts: Sequence[str]) -> tuple[int, ...]:
    """Return the input tokens of the prompts that questions of a shared one would have been sent by themselves.

    By sizes, since rubric and pack are the same to the byte: nothing is rendered again but the question.
    """
    prefix, memories = tokens.size(shared.system, shared.content[0]), len(shared.reply_ids)
    asked = (asked_alone_chars(text, memories, reasons_from=drafts.reasons_from) for text in turn_texts)
    return tuple(ceil((prefix + chars) / drafts.model.chars_per_token) for chars in asked)


def output_cap(drafts: Drafts, memories: int, questions: int) -> int:
    """Most tokens the reply may have: every id scored and explained for each question, and what is reasoned before."""
    cap = _reply(memories, questions) + drafts.model.reasoning_reserve
    most = drafts.model.max_output_tokens
    return cap if most is None else min(cap, most)


def expected_output(drafts: Drafts, memories: int, questions: int) -> int:
    """Tokens that the reply is likely to have."""
    return questions * (drafts.expected_output(memories) - tokens.REPLY_FRAME + QUESTION_TOKENS) + tokens.REPLY_FRAME


def most_questions(drafts: Drafts, memories: int, *, wanted: int) -> int:
    """Return how many questions, at most those wanted, may share a pack of so many memories; at least 1."""
    most, reserve = drafts.model.max_output_tokens, drafts.model.reasoning_reserve
    room = MOST_OUTPUT_TOKENS if most is None else min(MOST_OUTPUT_TOKENS, most - reserve)
    by_output = (room - MOST_FRAME_TOKENS) // (_reply(memories, 1) - MOST_FRAME_TOKENS)
    return max(1, min(wanted, MOST_SCORES // max(1, memories), by_output))


def chunks(questions: Sequence[int], sizes: Sequence[int], *, most: int, room: int) -> list[list[int]]:
    """Cut questions into runs of nearly equal length, none above `most`, nor with texts that take more than `room`.

    sizes: tokens of each question's text, by number.
    """
    count = ceil(len(questions) / most)
    found: list[list[int]] = []
    for at in range(count):
        run = list(questions[at * len(questions) // count : (at + 1) * len(questions) // count])
        while run:
            fits = next(n for n in range(len(run), 0, -1) if n == 1 or sum(sizes[one] for one in run[:n]) <= room)
            found.append(run[:fits])
            run = run[fits:]
    return found


def room_for_questions(drafts: Drafts, pack_tokens: int, memories: int, *, most: int, context_tokens: int) -> int:
    """Return the tokens that the questions' texts may take beside a pack and the reply to `most` of them."""
    rubric = ceil(tokens.size(questions_rubric()) / drafts.model.chars_per_token)
    return context_tokens - rubric - pack_tokens - memories * ENTRY_TOKENS - output_cap(drafts, memories, most)


def question_size(drafts: Drafts, turn_text: str) -> int:
    """Return about how many tokens a question takes in a prompt."""
    return ceil(tokens.size(questions_block((turn_text,))) / drafts.model.chars_per_token)


def _reply(memories: int, questions: int) -> int:
    return MOST_FRAME_TOKENS + questions * (QUESTION_TOKENS + (SCORE_TOKENS + REASON_TOKENS + CODE_TOKENS) * memories)

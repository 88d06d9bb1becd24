"""Read a decision model's answers without trust, as `providers.decisions` hands them on. Pure.

A predicate's probability is the score; of a rating it is the expected middle of the band, so that 0.7 means the same
for both. Nothing is clamped. Trade-off: probabilities of levels that do not add up to 1 void the answer.
"""

import json
from collections.abc import Collection
from functools import partial

from xscore.prompts.decision import DECISION_VERSION, LEVELS, decision_request, decision_rubric, question_names
from xscore.records.calls import DECLINED, DecisionForm
from xscore.records.judgment import DECISION_ORDER
from xscore.scorer.drafts import PromptLayout
from xscore.scorer.replies import ParsedReply

SUM_TOLERANCE = 0.02
"""By how much the probabilities of the levels may miss 1; hosts round them."""
SCORE_DIGITS = 4


def parse_answers(text: str, ids: Collection[str]) -> ParsedReply:
    """Read the answers to these questions. Every other name, and every value in doubt, is void."""
    found = json.loads(text)
    scores: dict[str, float] = {}
    refused, void = set(), 0
    for name in ids:
        value = found.get(name)
        if value == DECLINED:
            refused.add(name)
        elif (score := _score(value)) is not None:
            scores[name] = score
        elif name in found:
            void += 1
    return ParsedReply(scores, {}, foreign=len(found.keys() - set(ids)), void=void, refused=frozenset(refused))


def _score(value: object) -> float | None:
    """Return 0..100; None: no score."""
    if isinstance(value, list):
        if abs(sum(value) - 1) > SUM_TOLERANCE:
            return None
        value = sum(share * middle for share, (_, middle) in zip(value, LEVELS, strict=True)) / sum(value)
    return round(100 * value, SCORE_DIGITS - 2) if isinstance(value, int | float) else None


def decision_layout(form: DecisionForm, turn_chars: int) -> PromptLayout:
    """Return how requests of this form are made and read. turn_chars: a longer turn is shortened in the middle."""
    return PromptLayout(
        version=f"{DECISION_VERSION}/{form.value}",
        render=partial(decision_request, form=form, turn_chars=turn_chars),
        turn_chars=turn_chars,
        read=parse_answers,
        only_order=DECISION_ORDER,
        name_questions=question_names,
        system=partial(decision_rubric, form),
    )

"""The layout of questions that share a pack. With one question in it, it is that of whatever is asked again alone.

Its pack stands first, always, so that all questions share a prefix.
"""

from collections.abc import Sequence

from xscore.prompts.judge import PackEntry
from xscore.prompts.questions import QUESTIONS_VERSION, questions_request
from xscore.records import Request
from xscore.scorer.layouts import Layout, Options
from xscore.scorer.parse_questions import read_one


def render(entries: Sequence[PackEntry], turn_texts: Sequence[str], options: Options) -> Request:
    """Build the request that judges these entries for each of these rendered turns."""
    assert options.order == SHARED.only_order
    return questions_request(
        entries,
        turn_texts,
        model=options.model,
        max_output_tokens=options.max_output_tokens,
        reasons_from=options.reasons_from,
        cache_key=options.cache_key,
        is_kept=options.is_kept,
        prefix_ttl_s=options.prefix_ttl_s,
        reasoning=options.reasoning,
        temperature=options.temperature,
        timeout_s=options.timeout_s,
        chars_per_token=options.chars_per_token,
    )


def _one_question(entries: Sequence[PackEntry], turn_text: str, options: Options) -> Request:
    return render(entries, (turn_text,), options)


SHARED = Layout(QUESTIONS_VERSION, _one_question, read_one, "memory_first")

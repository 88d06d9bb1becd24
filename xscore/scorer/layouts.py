"""A layout of the judging prompt: how it is rendered, and how its reply is read. Here that of one turn.

A layout may change scores, so its version is part of the judge's identity. That of questions which share a pack stands
apart (`shared_layout`), since few commands need it. Trade-off: whoever drafts hands all options to a layout, also one
that it has no use for.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from xscore.prompts.judge import PROMPT_VERSION, PackEntry, judging_request
from xscore.records import Request
from xscore.scorer import parse
from xscore.scorer.scores_read import Reply


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """All that shapes a request but its texts. Each as `prompts.judge.judging_request` says of its own."""

    model: str
    max_output_tokens: int
    order: str
    reasons_from: float
    cache_key: str
    is_kept: bool
    prefix_ttl_s: int
    reasoning: str
    temperature: float | None
    timeout_s: float
    chars_per_token: float


@dataclass(frozen=True, slots=True)
class Layout:
    """How a prompt about one turn is rendered, and its reply read."""

    version: str
    render: Callable[[Sequence[PackEntry], str, Options], Request]
    """Entries, a rendered turn, and the options."""
    read: Callable[[str, Collection[str]], Reply]
    """A reply, and the ids of its prompt."""
    only_order: str = ""
    """The one order it has; empty: the model's."""


def _one_turn(entries: Sequence[PackEntry], turn_text: str, options: Options) -> Request:
    return judging_request(
        entries,
        turn_text,
        model=options.model,
        max_output_tokens=options.max_output_tokens,
        order=options.order,
        reasons_from=options.reasons_from,
        cache_key=options.cache_key,
        is_kept=options.is_kept,
        prefix_ttl_s=options.prefix_ttl_s,
        reasoning=options.reasoning,
        temperature=options.temperature,
        timeout_s=options.timeout_s,
        chars_per_token=options.chars_per_token,
    )


ONE_TURN = Layout(PROMPT_VERSION, _one_turn, parse.read)

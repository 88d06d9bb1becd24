"""Where the time of a turn went, in parts that add up.

A turn's row is written once its candidates are known, so its calls are counted from there; a page
counts them from the start of the turn. Trade-off: what no stage measured (start-up, saving) is one
part, and nothing says when it was.
"""

from msgspec import Struct

from xscore.extensions.pages.records import TurnPage
from xscore.pipeline.stage_words import ELSEWHERE, STAGE_WORDS
from xscore.records.calls import Stage


class StageTime(Struct, frozen=True):
    """One part of the time of a turn."""

    name: str
    words: str
    seconds: float
    share: float
    """Share of the whole time, 0..1."""
    start: float
    """Where the stage begins in a bar of all parts, 0..1."""


def stage_times(page: TurnPage) -> tuple[StageTime, ...]:
    """Return the parts that add up to the whole time; none without a receipt."""
    if page.receipt is None:
        return ()
    latency = page.receipt.latency
    seconds = {name: getattr(latency, name) for name in STAGE_WORDS if name != ELSEWHERE}
    seconds[ELSEWHERE] = max(0.0, latency.total - sum(seconds.values()))
    total = sum(seconds.values()) or 1.0
    parts: list[StageTime] = []
    start = 0.0
    for name, words in STAGE_WORDS.items():
        share = seconds[name] / total
        if seconds[name] >= 0.0005:
            parts.append(StageTime(name, words, seconds[name], share, start))
        start += share
    return tuple(parts)


def before_calls_s(page: TurnPage) -> float:
    """Return how long a turn had taken when its row was written."""
    if page.receipt is None:
        return 0.0
    latency = page.receipt.latency
    return latency.index + latency.pool + latency.cache


def before_first_call_s(page: TurnPage) -> float:
    """Return how long a turn worked before it sent anything; 0 where it sent nothing."""
    if not page.calls:
        return 0.0
    sent_at = min(call.started_at for call in page.calls)
    return max(0.0, sent_at - page.turn.at + before_calls_s(page))


def before_answer_s(page: TurnPage) -> float:
    """Return how long no call was under way before the answer was asked for.

    0: no answer, or nothing was sent before it.
    """
    answers_at = [call.started_at for call in page.calls if call.stage is Stage.PRIMARY]
    if not answers_at:
        return 0.0
    asked_at = min(answers_at)
    ends = [
        call.started_at + call.duration_s for call in page.calls if call.started_at < asked_at
    ]
    if not ends:
        return 0.0
    return max(0.0, asked_at - max(ends))

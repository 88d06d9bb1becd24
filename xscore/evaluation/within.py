"""What a turn within an evaluation tells, and what all of them together would take."""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from xscore.cost_reports.caps import caps_of, standing
from xscore.pipeline.opening import open_turn
from xscore.pipeline.parts import Parts
from xscore.pipeline.stopwatch import Stopwatch
from xscore.records import CapLeft, Estimate, JudgeEstimate, Observer, Progress, SessionInfo, Turn


class OfQuestion:
    """Passes on how the judging of one question goes; whether to go on was asked once, for all of them."""

    can_confirm = False

    def __init__(self, observer: Observer, called: str) -> None:
        """called: `question 3 of 12`."""
        self._observer, self._called = observer, called

    def stage(self, name: str) -> None:
        """Tell which question is judged."""
        if name == "judge":
            self._observer.stage(f"judging {self._called}")

    def forecast(self, forecast: JudgeEstimate) -> None:
        """Say nothing: it is of one question."""

    def progress(self, progress: Progress) -> None:
        """Pass it on."""
        self._observer.progress(progress)

    def note(self, message: str) -> None:
        """Pass it on."""
        self._observer.note(message)

    def session(self, session: SessionInfo) -> None:
        """Say nothing: an evaluation belongs to no session."""

    def answer_text(self, piece: str) -> None:
        """Say nothing: there is none."""

    def confirm(self, estimate: Estimate) -> bool:
        """Agree: the user has agreed to the whole."""
        return True


def estimate_all(parts: Parts, turns: Sequence[Turn]) -> Estimate:
    """Say about what judging these turns would take, by sizes alone; sends nothing. `turns` is not empty."""
    each = [_forecast(parts, turn) for turn in turns]
    costs = [one.cost_usd for one in each]
    longest = max(each, key=lambda one: one.seconds)
    whole = replace(
        longest,
        candidates=sum(one.candidates for one in each),
        cached=sum(one.cached for one in each),
        to_judge=sum(one.to_judge for one in each),
        calls=sum(one.calls for one in each),
        input_tokens=sum(one.input_tokens for one in each),
        output_tokens=sum(one.output_tokens for one in each),
        cost_usd=None if None in costs else sum((cost for cost in costs if cost is not None), Decimal(0)),
        seconds=sum(one.seconds for one in each),
    )
    return Estimate(judge=whole, primary=None, by_kind={}, by_folder={}, caps=caps_left(parts, Decimal(0)))


def caps_left(parts: Parts, spent: Decimal) -> tuple[CapLeft, ...]:
    """Return what is left of each cap; that of a turn is one of the whole run, which spent so much of it."""
    caps = caps_of(parts.settings.budget)
    others = standing(parts.store.connection, replace(caps, turn=None), now=parts.clock())
    if caps.turn is None:
        return others
    return (CapLeft(of="run", cap_usd=caps.turn, left_usd=caps.turn - spent), *others)


def _forecast(parts: Parts, turn: Turn) -> JudgeEstimate:
    opened = open_turn(parts, turn, Stopwatch(), takes_up=False)
    return parts.judge.forecast(opened.turn, opened.pool)

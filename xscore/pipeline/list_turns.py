"""Ask a list of questions turn by turn with one index update, one confirmation and one cap for all of it.

Ctrl-C, a cap, or a failing host or store end the list; earlier questions are still reported. Trade-off: the
index is brought up to date once, so files that change meanwhile are judged as they were found.
"""

import asyncio
from collections.abc import Awaitable, Callable
from decimal import Decimal

from msgspec import Struct, field
from msgspec.structs import replace

from xscore.costs.caps import spent_in_period
from xscore.pipeline.judging import take_back_cancellation
from xscore.pipeline.parts import PipelineParts, TurnOptions
from xscore.pipeline.turn import run_turn
from xscore.platform.errors import NoUsableModel, ProviderError, StoreError
from xscore.platform.text import join_sentences
from xscore.records.judgment import UnjudgedCause
from xscore.records.receipt import Answer
from xscore.records.reports import Observer
from xscore.records.turn import Turn


class ConfirmedObserver(Observer):
    """Forwards to another observer and always confirms, since the user has confirmed the whole list."""

    def __init__(self, observer: Observer) -> None:
        passed_on = ("stage", "forecast", "progress", "note", "session", "answer_text")
        vars(self).update({name: getattr(observer, name) for name in passed_on})


class TurnList(Struct):
    """A running list."""

    parts: PipelineParts
    with_judge: Callable[[PipelineParts], PipelineParts] = lambda parts: parts
    """Replaces the judge of the parts by that of the list."""
    answers: list[Answer] = field(default_factory=list)
    charged: dict[str, Decimal] = field(default_factory=dict)
    """Dollars by what they were charged to: turns, and prompts that turns shared."""
    ended: str = ""
    """Why it ended before the last question: `interrupted`, `provider`, `store`; empty if it did not."""
    warnings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.parts.observer.stage("index")
        report = self.parts.index()
        self.parts = replace(self.with_judge(self.parts), index=lambda: report)

    @property
    def spent(self) -> Decimal:
        """Dollars charged so far."""
        return sum(self.charged.values(), Decimal(0))

    def parts_within_cap(self) -> PipelineParts:
        """Return the parts with the cap reduced by what the list has spent."""
        parts, cap = self.parts, self.parts.settings.budget.max_usd
        if cap is None or parts.with_cap is None or not self.charged:
            return parts
        capped = self.with_judge(parts.with_cap(max(Decimal(0), cap - self.spent)))
        return replace(capped, observer=parts.observer, index=parts.index, with_cap=parts.with_cap)

    def charge(self, period: str) -> None:
        """Record what was spent on a turn of the list, or on prompts that its turns share."""
        self.charged[period] = spent_in_period(self.parts.store.connection, period)

    async def ask(self, turn: Turn, options: TurnOptions, observer: Observer) -> Answer:
        """Run one turn under what is left of the cap."""
        answer = await run_turn(replace(self.parts_within_cap(), observer=observer), turn, options)
        self.answers.append(answer)
        self.charge(answer.turn_id)
        if answer.exit_code == 130:
            self.ended = str(UnjudgedCause.INTERRUPTED)
        return answer

    async def goes_on_after(self, work: Callable[[], Awaitable[object]]) -> bool:
        """Run a step of the list; return False if the list has ended. Raises errors before the first answer."""
        try:
            await asyncio.sleep(0)  # Ctrl-C between two cached turns is noticed here
            await work()
        except asyncio.CancelledError:
            take_back_cancellation(asyncio.current_task())
            self.ended = str(UnjudgedCause.INTERRUPTED)
        except (ProviderError, NoUsableModel, StoreError) as error:
            if not self.answers:
                raise
            self.ended = "store" if isinstance(error, StoreError) else str(UnjudgedCause.PROVIDER)
            self.warnings.append(join_sentences(error.message, error.hint))
        return not self.ended

"""`ask --batch`: the questions of a list asked in one working session, sharing each pack where they can.

First what questions can share is judged, then each is an ordinary turn, which has judged alone what is left. Both are
the same judge, that of the shared layout. The run is one purchase: `budget.max_usd` holds for all of it. Trade-off:
questions are taken up some at a time, so that the first answers do not wait for the last question.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from secrets import token_hex

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from xscore.costs.caps import spent_in_period
from xscore.extensions.batch.shared_judging import SharedPhase, estimate_ask_list, judge_shared_packs
from xscore.extensions.batch.shared_packs import (
    AskListReport,
    SeparatePromptsCost,
    add_usd,
    counterfactual_totals,
    judging_totals,
)
from xscore.pipeline.answering import typical_answer_s
from xscore.pipeline.judging import Deadline, take_back_cancellation
from xscore.pipeline.model_factory import ModelJudgeFactory
from xscore.pipeline.parts import PipelineParts, Stopwatch
from xscore.pipeline.prepare import open_turn
from xscore.pipeline.question_list import ListMemories, PreparedQuestion, confirm_list_cost, prepare_questions
from xscore.pipeline.turn import TurnOptions, run_turn
from xscore.platform.errors import NoUsableModel, ProviderError, StoreError, XscoreError
from xscore.records import (
    Answer,
    Estimate,
    Observer,
    Scope,
    StageUsage,
    Turn,
    UnjudgedCause,
)
from xscore.records.batch import Question, QuestionList


class ConfirmedObserver:
    """Passes everything on to another observer; whether to go on was asked once, for the whole run."""

    can_confirm = False

    def __init__(self, observer: Observer) -> None:
        self.stage, self.forecast, self.progress = observer.stage, observer.forecast, observer.progress
        self.note, self.session, self.answer_text = observer.note, observer.session, observer.answer_text

    def confirm(self, estimate: Estimate) -> bool:
        """Agree."""
        return True


QUESTIONS_AT_ONCE = 32
"""Questions that are taken up together: so many pools of judgments and guesses are in memory."""
WORST_FIRST = (130, 6, 4, 3, 7, 1)
"""Of several turns the run ends as the one whose exit code stands first here."""

OnAnswer = Callable[[Question, Answer], None]


class AskListOptions(Struct, frozen=True, kw_only=True):
    """What is the same for all questions of the list."""

    scope: Scope = msgspec.field(default_factory=Scope)
    answer: bool = True
    fresh: bool = False
    """Begin a new working session with the first question."""
    checkpoint: str = ""
    started: float | None = None
    """`time.monotonic()` from which the deadline counts; None: from now."""


async def ask_list(
    parts: PipelineParts, questions: QuestionList, asked: AskListOptions, *, told: OnAnswer = lambda *_: None
) -> AskListReport:
    """Ask every question, tell of each answer as it comes, and account for the whole.

    Ctrl-C, a host or a store that fails end the run after what was asked so far. Raises UsageError where the estimate
    is declined, and what the first turn raises where nothing was asked yet.
    """
    run = _AskListRun(
        parts, questions.all, asked, told, asked.started if asked.started is not None else time.monotonic()
    )
    await run.go()
    return run.account()


@dataclass(slots=True)
class _AskListRun:
    """One run under way."""

    parts: PipelineParts
    questions: Sequence[Question]
    asked: AskListOptions
    told: OnAnswer
    started: float
    id: str = field(default_factory=lambda: f"a_{token_hex(8)}")
    answers: list[Answer] = field(default_factory=list)
    phases: list[SharedPhase] = field(default_factory=list)
    alone: SeparatePromptsCost = field(init=False)
    spent: Decimal = Decimal(0)
    ended: str = ""
    warnings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        report = self.parts.index()  # once for all of them
        self.parts = replace(self.parts, index=lambda: report)
        self.parts = self._seated(self.parts)
        identity = self.parts.judge.identity
        self.alone = SeparatePromptsCost(identity.provider, identity.host)

    def _seated(self, parts: PipelineParts) -> PipelineParts:
        """Return the parts with the judge of the shared layout, and the one look at the index."""
        return replace(parts, judge=parts.judge.with_shared_prompts(), index=self.parts.index)

    async def go(self) -> None:
        found = self._memories()
        self._confirm(found)
        for some in self._some_at_a_time(found):
            try:
                phase = await self._share(some)
                for at, prepared in enumerate(some):
                    if self.ended:
                        return
                    await asyncio.sleep(0)  # a press of Ctrl-C between two cached turns is met here
                    await self._ask(prepared, phase.judged[at] if phase else frozenset())
            except asyncio.CancelledError:
                take_back_cancellation(asyncio.current_task())
                self.ended = str(UnjudgedCause.INTERRUPTED)
            except (ProviderError, NoUsableModel, StoreError) as error:
                if not self.answers:
                    raise
                self.ended = "store" if isinstance(error, StoreError) else str(UnjudgedCause.PROVIDER)
                self.warnings.append(_error_text(error))
            if self.ended:
                return

    def _memories(self) -> ListMemories:
        """Fetch once what all questions are asked of, as the working session of the first would."""
        opened = open_turn(self.parts, self._turn(self.questions[0], is_first=True), Stopwatch(), takes_up=False)
        return ListMemories(opened.pool.all_candidates, opened.pool.candidates, self.asked.scope)

    def _some_at_a_time(self, found: ListMemories) -> Iterator[list[PreparedQuestion]]:
        for start in range(0, len(self.questions), QUESTIONS_AT_ONCE):
            some = enumerate(self.questions[start : start + QUESTIONS_AT_ONCE], start=start)
            yield list(prepare_questions(self.parts, some, found))

    def _shares(self, some: Sequence[PreparedQuestion]) -> bool:
        settings = self.parts.settings
        is_possible = self.parts.judge.is_model and not settings.judge.replay and settings.batch.questions_a_call > 1
        return is_possible and sum(bool(one.pool.misses) for one in some) > 1

    def _confirm(self, found: ListMemories) -> None:
        """Ask once, before a costly run. Raises UsageError when the user declines."""
        parts, answers = self.parts, self._answers
        if not parts.observer.can_confirm:
            return
        whole = estimate_ask_list(parts, self._some_at_a_time(found), questions=len(self.questions), answers=answers)
        confirm_list_cost(parts, whole)

    @property
    def _answers(self) -> bool:
        return self.asked.answer and self.parts.answerer is not None

    async def _share(self, some: Sequence[PreparedQuestion]) -> SharedPhase | None:
        """Have judged what these questions can share."""
        if not self._shares(some):
            return None
        parts = self._under_what_is_left()
        assert isinstance(parts.judge, ModelJudgeFactory)
        phase = await judge_shared_packs(
            parts, parts.judge, some, run_id=self.id, alone=self.alone, deadline=self._deadline(len(some))
        )
        self.phases.append(phase)
        self.spent = self._charged()
        self.warnings.extend(phase.remarks)
        if phase.interrupted:
            self.ended = str(UnjudgedCause.INTERRUPTED)
        return phase

    def _deadline(self, answers: int) -> Deadline | None:
        """Return when shared prompts are to be over: what answering takes is kept back."""
        seconds = self.parts.settings.budget.deadline_s
        if seconds is None:
            return None
        deadline = Deadline(self.started + seconds)
        return deadline.with_answer(answers * typical_answer_s(self.parts)) if self._answers else deadline

    async def _ask(self, prepared: PreparedQuestion, judged: frozenset[str]) -> None:
        """Take one turn; it belongs to the working session."""
        parts = self._under_what_is_left()
        wishes = TurnOptions(answer=self.asked.answer, judged=judged, started=self.started)
        answer = await run_turn(
            replace(parts, observer=ConfirmedObserver(parts.observer)),
            self._turn(prepared.question, is_first=prepared.number == 0),
            wishes,
        )
        self.answers.append(answer)
        self.spent = self._charged()
        if answer.exit_code == WORST_FIRST[0]:
            self.ended = str(UnjudgedCause.INTERRUPTED)
        self.told(prepared.question, answer)

    def _turn(self, question: Question, *, is_first: bool) -> Turn:
        return Turn(
            task=question.task,
            errors=question.errors,
            file=question.file,
            scope=self.asked.scope,
            fresh=self.asked.fresh and is_first,
            checkpoint=self.asked.checkpoint,
        )

    def _charged(self) -> Decimal:
        connection = self.parts.store.connection
        return sum(
            (spent_in_period(connection, span) for span in (self.id, *(one.turn_id for one in self.answers))),
            Decimal(0),
        )

    def _under_what_is_left(self) -> PipelineParts:
        """Return the parts whose cap is what the run so far has left of it."""
        cap = self.parts.settings.budget.max_usd
        if cap is None or self.parts.with_cap is None or not (self.phases or self.answers):
            return self.parts
        capped = self._seated(self.parts.with_cap(max(Decimal(0), cap - self.spent)))
        return replace(capped, observer=self.parts.observer, with_cap=self.parts.with_cap)

    def account(self) -> AskListReport:
        """Sum up."""
        shared = sum((phase.spent for phase in self.phases), StageUsage())
        turns = judging_totals(stage for answer in self.answers for stage in [answer.judge_usage])
        whole = judging_totals([shared, *(answer.judge_usage for answer in self.answers)])
        alone = counterfactual_totals(self.alone, turns)
        at_best = add_usd(self.alone.at_best_usd, turns.cost_usd)
        codes = {answer.exit_code for answer in self.answers} | ({_code_of(self.ended)} if self.ended else set())
        return AskListReport(
            id=self.id if self.phases else "",
            questions=len(self.questions),
            asked=len(self.answers),
            questions_a_call=self.parts.settings.batch.questions_a_call,
            ended=self.ended,
            judged_together=sum(len(hashes) for phase in self.phases for hashes in phase.judged),
            shared=shared,
            took=whole,
            alone=alone,
            alone_at_best_usd=at_best,
            saved=replace(alone, cost_usd=at_best) - whole,
            warnings=tuple(dict.fromkeys(self.warnings)),
            exit_code=next((code for code in WORST_FIRST if code in codes), max(codes, default=0)),
        )


def _code_of(ended: str) -> int:
    """Return the exit code of what ended a run before its end."""
    return {str(UnjudgedCause.INTERRUPTED): 130, "store": StoreError.exit_code}.get(ended, ProviderError.exit_code)


def _error_text(error: XscoreError) -> str:
    return f"{error.message.rstrip('.')}. {error.hint}".strip()

"""`ask --batch`: the questions of a list asked in one working session, sharing packs if possible.

Packs that questions can share are judged first. Then each question is an ordinary turn, which
judges what is left with the same judge, that of the shared layout. If the first questions can share
nothing, or get no usable score in that layout, all are judged as by `xscore ask`; that a model gave
no usable score is remembered for later lists. A decision model is always asked as by `xscore ask`,
since it has no packs to share. Trade-off: questions are handled 32 at a time, so that the first
answers do not wait for the last question; packs are shared within these 32 only.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import partial, reduce
from operator import add
from pathlib import Path
from typing import Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from xscore.cache import capabilities
from xscore.cli.flags import Flags
from xscore.cli.pipeline_run import run_with_pipeline
from xscore.cli.progress import TurnObserver
from xscore.cli.settings_and_store import read_settings
from xscore.cli.start import STARTED_AT
from xscore.cli.terminal import Terminal, print_json, write_stdout
from xscore.cli.text_layout import bold
from xscore.extensions.batch.shared_account import (
    AskListReport,
    JudgingTotals,
    SeparatePromptsCost,
    render_shared_account,
)
from xscore.extensions.batch.shared_packs import (
    SharedPackJudge,
    forecast_shared,
    judge_shared_packs,
)
from xscore.pipeline.answering import answer_estimate, typical_answer_s
from xscore.pipeline.json_form import SCHEMA, Json, answer_json, record_json
from xscore.pipeline.judge_prompts import sharing_prompts
from xscore.pipeline.known_hosts import REMEMBERED_S
from xscore.pipeline.parts import PipelineParts, TurnOptions
from xscore.pipeline.prepare import prepare_turn
from xscore.pipeline.question_list import (
    ConfirmedObserver,
    ListMemories,
    PreparedQuestion,
    Question,
    QuestionList,
    TurnList,
    confirm_list_cost,
    prepare_questions,
    read_question_file,
)
from xscore.pipeline.turn_clock import Deadline, Stopwatch
from xscore.platform.errors import ExitCode, NoUsableModel, ProviderError, UsageError
from xscore.platform.processes import random_hex
from xscore.platform.text import one_line
from xscore.providers.prices import PriceList
from xscore.records.calls import Stage
from xscore.records.judgment import UnjudgedCause
from xscore.records.receipt import Answer, StageUsage, add_costs
from xscore.records.turn import Turn

NO_SHARED_SCORE = (
    "the model gave no usable scores to questions that shared a prompt, so each is judged alone,"
    " as in `xscore ask`"
)
QUESTIONS_AT_ONCE = 32
"""Questions handled together, and so the number of pools in memory."""
WORST_FIRST = (
    *(ExitCode.INTERRUPTED, ExitCode.STORE, ExitCode.BUDGET),
    *(ExitCode.NOTHING_JUDGED, ExitCode.NO_ANSWER, ExitCode.PARTLY),
)
"""The run's exit code is the first of these that any turn had."""


async def ask_list(
    parts: PipelineParts,
    questions: QuestionList,
    options: TurnOptions,
    *,
    like: Turn,
    on_answer: Callable[[Question, Answer], None] = lambda *_: None,
) -> AskListReport:
    """Ask every question, call back with each answer, and report on the whole list.

    like: what all their turns share: the scope, the checkpoint, and `fresh` for the first of them.
    Raises UsageError where the estimate is declined, and what the first turn raises where nothing
    was asked yet.
    """
    identity = parts.judge.identity
    options = replace(options, started=options.started or time.monotonic())
    failed = _shared_form_failed(parts)
    # Alone, a question is judged as by `xscore ask`, and finds its judgments.
    has_company = len(questions.all) > 1 and parts.settings.batch.questions_a_call > 1
    shares = has_company and not failed and sharing_prompts(parts.judge) is not parts.judge
    turns = TurnList(parts, shares)
    cost = SeparatePromptsCost(
        identity.provider, identity.host, PriceList(parts.settings.provider.price)
    )
    run = _AskListRun(parts, turns, questions.all, options, like, on_answer, cost)
    if failed and has_company:
        turns.warnings.append(f"earlier {NO_SHARED_SCORE}")
    await run.go()
    return run.account()


def _shared_form_failed(parts: PipelineParts) -> bool:
    """Return whether the model recently gave no usable score to shared prompts."""
    judge = parts.judge.identity
    capability = capabilities.read_capability(
        parts.store.connection, provider=judge.provider, host=judge.host, model=judge.model
    )
    failed_at = 0.0
    if capability:
        failed_at = capability.shared_form_failed_at
    return failed_at > 0 and 0 <= parts.clock() - failed_at < REMEMBERED_S


class _AskListRun(Struct):
    parts: PipelineParts
    """The parts as given: with the judge of a single question."""
    turns: TurnList
    questions: Sequence[Question]
    options: TurnOptions
    like: Turn
    on_answer: Callable[[Question, Answer], None]
    separate: SeparatePromptsCost
    id: str = field(default_factory=lambda: f"a_{random_hex(8)}")
    phases: list[SharedPackJudge] = field(default_factory=list)

    async def go(self) -> None:
        parts = self.turns.parts
        first_turn = prepare_turn(
            parts,
            self._turn(self.questions[0], is_first=True),
            Stopwatch(),
            continues_session=False,
        )
        memories = ListMemories(
            first_turn.pool.all_candidates, first_turn.pool.candidates, self.like.scope
        )
        if parts.observer.can_confirm:
            self._confirm(memories)
        for questions in self._some_at_a_time(memories):
            if not await self.turns.goes_on_after(partial(self._take, questions)):
                return

    def _some_at_a_time(self, memories: ListMemories) -> Iterator[list[PreparedQuestion]]:
        for start in range(0, len(self.questions), QUESTIONS_AT_ONCE):
            numbered = enumerate(self.questions[start : start + QUESTIONS_AT_ONCE], start=start)
            yield list(prepare_questions(self.turns.parts, numbered, memories))

    async def _take(self, questions: Sequence[PreparedQuestion]) -> None:
        phase = None
        if self._can_share(questions):
            phase = await self._share(questions)
        has_scores = phase is not None and phase.count_judged() > 0
        # There is no score in the shared form, new or cached, that a change of form would lose.
        if not has_scores and not any(question.pool.known for question in questions):
            self._ask_alone()
        for at, question in enumerate(questions):
            if not self.turns.ended:
                judged = phase.judged[at] if phase else set[str]()
                await self.turns.goes_on_after(partial(self._ask, question, judged))

    def _can_share(self, questions: Sequence[PreparedQuestion]) -> bool:
        parts = self.turns.parts
        if not self.turns.shares_prompts or parts.settings.judge.replay:
            return False
        return sum(bool(question.pool.misses) for question in questions) > 1

    async def _share(self, questions: Sequence[PreparedQuestion]) -> SharedPackJudge | None:
        """Judge what these questions can share; None if the host cannot be asked so, and each
        is asked alone."""
        parts = self.turns.parts_within_cap()
        assert self.options.started is not None
        deadline = Deadline.of(self.options.started, parts.settings.budget.deadline_s)
        if self._answers:  # reserve the time for answering
            deadline = deadline.with_answer(len(questions) * typical_answer_s(parts))
        try:
            phase = await judge_shared_packs(
                parts,
                parts.judge,
                questions,
                run_id=self.id,
                separate=self.separate,
                deadline=deadline,
            )
        except NoUsableModel:  # its first contact was in the form that questions share
            self._stop_sharing()
            return None
        # Each question's own turn says so, and has other judges or words take over.
        except ProviderError:
            return None
        finally:
            self.turns.charge(self.id)
        self.phases.append(phase)
        self.turns.warnings.extend(phase.remarks)
        if phase.was_interrupted:
            self.turns.ended = str(UnjudgedCause.INTERRUPTED)
        elif phase.gave_up:
            self._stop_sharing()
        return phase

    def _stop_sharing(self) -> None:
        """Remember for later lists that this model gives no score in the form that they share."""
        judge = self.parts.judge.identity
        now = self.parts.clock()
        capabilities.amend_capability(
            self.parts.store.connection,
            provider=judge.provider,
            host=judge.host,
            model=judge.model,
            at=now,
            shared_form_failed_at=now,
        )
        self.turns.warnings.append(NO_SHARED_SCORE)
        self._ask_alone()

    def _ask_alone(self) -> None:
        """Ask from now on as `xscore ask` does, and find its judgments."""
        self.turns.shares_prompts = False
        self.turns.parts = replace(self.turns.parts, judge=self.parts.judge)

    @property
    def _answers(self) -> bool:
        return self.options.answer and self.turns.parts.answerer is not None

    async def _ask(self, prepared: PreparedQuestion, judged: AbstractSet[str]) -> None:
        turn = self._turn(prepared.question, is_first=prepared.number == 0)
        observer = ConfirmedObserver(self.turns.parts.observer)
        answer = await self.turns.ask(
            turn, replace(self.options, just_judged_hashes=judged), observer
        )
        self.on_answer(prepared.question, answer)

    def _turn(self, question: Question, *, is_first: bool) -> Turn:
        fresh = self.like.fresh and is_first
        return replace(
            self.like,
            task=question.task,
            errors=question.errors,
            file=question.file,
            fresh=fresh,
        )

    def _confirm(self, memories: ListMemories) -> None:
        parts = self.turns.parts
        count = len(self.questions)
        judging = reduce(
            add,
            (forecast_shared(parts, questions) for questions in self._some_at_a_time(memories)),
        )
        primary = None
        if self._answers and parts.answerer is not None:
            # The confirmation counts one answer more.
            judging = replace(judging, calls=judging.calls + count - 1)
            answer = answer_estimate(parts.answerer, parts.settings)
            primary = replace(
                answer,
                input_tokens=count * answer.input_tokens,
                output_tokens=count * answer.output_tokens,
                cost_usd=None if answer.cost_usd is None else count * answer.cost_usd,
            )
        confirm_list_cost(parts, judging, primary)

    def account(self) -> AskListReport:
        turns = self.turns
        separate = self.separate
        shared = sum((phase.spent for phase in self.phases), StageUsage())
        separately = sum((answer.spent(Stage.JUDGE) for answer in turns.answers), StageUsage())
        alone = separate.alone + separately
        took = shared + separately
        at_best_usd = add_costs(separate.at_best_usd, separately.cost_usd)
        codes = {answer.exit_code for answer in turns.answers}
        if turns.ended:
            early = {"interrupted": ExitCode.INTERRUPTED, "store": ExitCode.STORE}
            codes.add(early.get(turns.ended, ProviderError.exit_code))
        worst = [code for code in WORST_FIRST if code in codes]
        return AskListReport(
            id=self.id if self.phases else "",
            questions=len(self.questions),
            asked=len(turns.answers),
            questions_a_call=turns.parts.settings.batch.questions_a_call,
            ended=turns.ended,
            judged_together=sum(phase.count_judged() for phase in self.phases),
            shared=shared,
            took=JudgingTotals.of(took),
            alone=JudgingTotals.of(alone),
            alone_at_best_usd=at_best_usd,
            saved=JudgingTotals.of(replace(alone, cost_usd=at_best_usd), less=took),
            warnings=tuple(dict.fromkeys(turns.warnings)),
            exit_code=worst[0] if worst else max(codes, default=0),
        )


OF_ONE = {
    "file": "--file",
    "errors": "--errors",
    "recent": "--recent",
    "all_scores": "--all-scores",
    "thread": "--thread",
    "follows_latest": "--continue",
}
"""Options of a single question, which a list has in its lines or not at all."""


class PrintTurn(Protocol):
    """Prints a turn as `ask` does."""

    def __call__(self, answer: Answer, terminal: Terminal, *, may_hint: bool) -> object:
        """Print this turn. may_hint: say how to get one where no model gave it."""
        ...


def ask_batch(path: Path, flags: Flags, *, print_turn: PrintTurn) -> int:
    """Ask every question of the list; return the exit code of the worst."""
    for name, flag in OF_ONE.items():
        if flags.given.get(name):
            raise UsageError(
                f"{flag} is for one question, and --batch asks many",
                hint='A line may hold "file" and "errors".',
            )
    questions = read_question_file(path)
    terminal = flags.terminal
    answers = not flags.given["no_answer"]
    settings = read_settings(flags)
    anyway = bool(flags.given["answer_anyway"])
    options = TurnOptions(answer=answers, answer_anyway=anyway, started=STARTED_AT)
    like = flags.turn("")
    watch = TurnObserver(terminal, assume_yes=flags.assume_yes, noun="This list")
    objects: list[dict[str, Json]] = []

    def print_answer(question: Question, answer: Answer) -> None:
        objects.append({"id": question.id, **answer_json(answer)})
        if terminal.as_json:
            return
        watch.close()
        gap = "\n" if len(objects) > 1 else ""
        write_stdout(f"{gap}{bold(f'# {one_line(question.id)}')}  {one_line(question.task)}")
        if answer.answer is None and not answer.selected:
            write_stdout("nothing was chosen")  # the account says why
        print_turn(answer, terminal, may_hint=answers and not settings.settings.judge.replay)

    report = run_with_pipeline(
        flags,
        lambda pipeline: ask_list(
            pipeline.parts, questions, options, like=like, on_answer=print_answer
        ),
        settings=settings,
        watch=watch,
    )
    if terminal.as_json:
        account = record_json(report)
        account.pop("exit_code")
        print_json({"schema": SCHEMA, "questions": objects, "together": account})
    terminal.notes(report.warnings)
    if not terminal.as_json:
        terminal.lines("\n" + render_shared_account(report))
    return report.exit_code

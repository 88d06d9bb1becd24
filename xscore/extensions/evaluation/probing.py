"""Ask the same tasks with and without one part of the memory, and compare the two.

Each task is two turns apart from the user's work (`TurnOptions.isolated`), under the user's
caps. A judgment depends on the memory and the task alone, so the second turn finds nearly all
of them in the cache. Which is better is not decided, unless a model is asked to compare the
answers: in both orders, since models prefer what they read first.
"""

import time
from collections.abc import Sequence
from decimal import Decimal
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from xscore.extensions.evaluation.answer_grading import ORDERS, Grade, grade_answers
from xscore.extensions.evaluation.asking import cut_short
from xscore.extensions.evaluation.probe_parts import Arm, Arms
from xscore.extensions.evaluation.probed_brief import agents_text, answer_with
from xscore.pipeline.answering import answer_estimate
from xscore.pipeline.estimating import forecast_judging
from xscore.pipeline.parts import PipelineParts, TurnOptions
from xscore.pipeline.prepare import prepare_turn
from xscore.pipeline.question_list import (
    ConfirmedObserver,
    Question,
    TurnList,
    confirm_list_cost,
)
from xscore.pipeline.turn_clock import Stopwatch
from xscore.platform.errors import ExitCode, NoUsableModel
from xscore.records.estimates import JudgeEstimate, PrimaryEstimate
from xscore.records.judgment import UnjudgedCause
from xscore.records.receipt import Answer, Coverage, Selected
from xscore.records.turn import Turn
from xscore.store.redaction import redact


class ProbedMemory(Struct, frozen=True, kw_only=True):
    """A memory that an arm kept."""

    id: str
    kind: str
    layer: str
    path: str
    entity: str
    title: str
    score: float


class ProbedTurn(Struct, frozen=True, kw_only=True):
    """What one arm did with a task."""

    turn_id: str
    kept: tuple[ProbedMemory, ...]
    coverage: Coverage
    answer: str | None
    """The answer; None if none was asked for, or there is none."""
    cost_usd: Decimal | None
    """Dollars spent; None: unpriced."""
    seconds: float
    brief: str | None = None
    """The brief of earlier work that an agent's session would get; empty: nothing, None: no brief
    was probed."""


class ProbedTask(Struct, frozen=True, kw_only=True):
    """One task, asked both ways."""

    id: str
    task: str
    with_part: ProbedTurn
    without_part: ProbedTurn
    grade: Grade | None = None
    """What the model says of the two answers; None if it did not compare them."""

    @property
    def only_with(self) -> tuple[ProbedMemory, ...]:
        """What was kept only with the part."""
        ids = {memory.id for memory in self.without_part.kept}
        return tuple(memory for memory in self.with_part.kept if memory.id not in ids)

    @property
    def only_without(self) -> tuple[ProbedMemory, ...]:
        """What was kept only without the part: it took the places that were left free."""
        ids = {memory.id for memory in self.with_part.kept}
        return tuple(memory for memory in self.without_part.kept if memory.id not in ids)


class ProbeReport(Struct, frozen=True, kw_only=True):
    """All tasks of a probe."""

    part: str
    judge: str
    tasks: tuple[ProbedTask, ...]
    of: int
    """Number of tasks; if there are fewer results, the probe ended early."""
    ended: str
    """Why it ended before the last task; empty if it did not."""
    cost_usd: Decimal | None
    seconds: float
    warnings: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """0; 130 where it was interrupted, 1 where anything else ended it early."""
        if self.ended == UnjudgedCause.INTERRUPTED:
            return ExitCode.INTERRUPTED
        return ExitCode.PARTLY if self.ended else ExitCode.DONE


class ProbeOptions(Struct, frozen=True, kw_only=True):
    """What a probe does in addition to judging."""

    answers: bool = False
    """Whether the answering model is asked in both arms."""
    grades: bool = False
    """Whether the answering model compares the answers."""


async def run_probe(
    parts: PipelineParts, questions: Sequence[Question], arms: Arms, options: ProbeOptions
) -> ProbeReport:
    """Ask each question with and without the part.

    Raises UsageError where the estimate is declined, NoUsableModel where answers are wanted and no
    model answers, and what the first turn raises.
    """
    if options.answers and parts.answerer is None:
        raise NoUsableModel(
            "there is no model to answer with", hint="Set a key, or leave out --answers."
        )
    started = time.monotonic()
    turns = TurnList(parts)
    _confirm(turns.parts, questions, arms, options)
    probed: list[ProbedTask] = []
    for question in questions:
        step = partial(_probe_into, probed, turns, question, arms, options)
        if not await turns.goes_on_after(step):
            break
    warnings = [*turns.warnings]
    for answer in turns.answers:
        warnings += answer.warnings
    return ProbeReport(
        part=arms.part,
        judge=parts.judge.name,
        tasks=tuple(probed),
        of=len(questions),
        ended=turns.ended,
        cost_usd=turns.spent,
        seconds=time.monotonic() - started,
        warnings=tuple(dict.fromkeys(warnings)),
    )


def _confirm(
    parts: PipelineParts, questions: Sequence[Question], arms: Arms, options: ProbeOptions
) -> None:
    """Say what all tasks will take, and ask where it is much.

    The arm with the part is forecast: the other asks about the same memories, which are judged by
    then.
    """
    answering: PrimaryEstimate | None = None
    if options.answers and parts.answerer is not None:
        answering = answer_estimate(parts.answerer, parts.settings)
        calls = 2 * len(questions)
        if options.grades:
            calls += ORDERS * len(questions)
        answering = replace(
            answering,
            input_tokens=calls * answering.input_tokens,
            output_tokens=calls * answering.output_tokens,
            cost_usd=None if answering.cost_usd is None else calls * answering.cost_usd,
        )
    is_paid = parts.judge.paid and not parts.settings.judge.replay
    if not is_paid and answering is None:
        return
    judging = JudgeEstimate()
    for question in questions:
        prepared = prepare_turn(
            parts,
            _turn(question, arms.with_part),
            Stopwatch(),
            continues_session=False,
        )
        judging += forecast_judging(parts.judge, prepared.turn, prepared.pool)
    if judging.to_judge:
        parts.observer.on(judging)
    confirm_list_cost(parts, judging, answering)


def _turn(question: Question, arm: Arm) -> Turn:
    return Turn(
        task=question.task,
        errors=question.errors,
        file=question.file,
        scope=arm.scope,
        checkpoint=arm.checkpoint,
        fresh=True,
    )


async def _probe_into(
    probed: list[ProbedTask],
    turns: TurnList,
    question: Question,
    arms: Arms,
    options: ProbeOptions,
) -> None:
    """Ask one question both ways; a question that a cap or Ctrl-C cut short is left out."""
    sides: list[ProbedTurn] = []
    for arm in (arms.with_part, arms.without_part):
        turns.parts.observer.stage(f"{question.id}, {arm.name} {arms.part}")
        side = await _probed_side(turns, question, arm, arms, options)
        if side is None:
            return
        # Where there was no brief, the other arm is the same, and its answer shows nothing.
        if side.brief == "" and arm.has_brief:
            options = replace(options, answers=False)
        sides.append(side)
    with_part, without_part = sides
    grade: Grade | None = None
    if options.grades and with_part.answer and without_part.answer:
        grade = await grade_answers(
            turns.parts_within_cap(),
            question.task,
            with_part.answer,
            without_part.answer,
            turn_id=without_part.turn_id,
        )
        turns.charge(without_part.turn_id)
    probed.append(
        ProbedTask(
            id=question.id,
            task=redact(question.task, prose=True).text,
            with_part=with_part,
            without_part=without_part,
            grade=grade,
        )
    )


async def _probed_side(
    turns: TurnList, question: Question, arm: Arm, arms: Arms, options: ProbeOptions
) -> ProbedTurn | None:
    """Ask one question one way; None where a cap or Ctrl-C cut it short."""
    judged: list[Turn] = []
    turn_options = TurnOptions(
        answer=options.answers and not arms.compares_briefs,
        answer_anyway=True,
        command="eval",
        isolated=True,
        sees_past=True,
        ranked=lambda turn, _: judged.append(turn),
    )
    observer = ConfirmedObserver(turns.parts.observer)
    answer = await turns.ask(_turn(question, arm), turn_options, observer)
    turns.ended = turns.ended or cut_short(answer)
    if turns.ended:
        return None
    if arms.compares_briefs:
        return await _side_of_brief(turns, judged[0], answer, arm, options)
    return _probed_turn(answer)


async def _side_of_brief(
    turns: TurnList, turn: Turn, answer: Answer, arm: Arm, options: ProbeOptions
) -> ProbedTurn:
    """Return what an agent would be shown of a judged turn, and the answer to that."""
    parts = turns.parts
    text = agents_text(
        parts.store,
        answer,
        has_brief=arm.has_brief,
        max_chars=parts.settings.agents.hook_max_chars,
    )
    side = replace(
        _probed_turn(answer), kept=tuple(map(_probed_memory, text.selected)), brief=text.brief
    )
    # Without a brief, the arm with it shows what the other one does: no answer tells them apart.
    if not options.answers or (arm.has_brief and not text.brief):
        return side
    started = time.monotonic()
    completion = await answer_with(turns.parts_within_cap(), turn, text, turn_id=answer.turn_id)
    turns.charge(answer.turn_id)
    cost = completion.cost_usd
    if cost is not None and side.cost_usd is not None:
        cost += side.cost_usd
    else:
        cost = None
    return replace(
        side,
        answer=completion.text,
        cost_usd=cost,
        seconds=side.seconds + time.monotonic() - started,
    )


def _probed_turn(answer: Answer) -> ProbedTurn:
    return ProbedTurn(
        turn_id=answer.turn_id,
        kept=tuple(_probed_memory(selected) for selected in answer.selected),
        coverage=answer.coverage,
        answer=answer.answer,
        cost_usd=answer.spent().cost_usd,
        seconds=answer.latency.total,
    )


def _probed_memory(selected: Selected) -> ProbedMemory:
    return ProbedMemory(
        id=selected.id,
        kind=selected.kind,
        layer=selected.layer,
        path=selected.path,
        entity=selected.entity,
        title=selected.title,
        score=selected.score,
    )

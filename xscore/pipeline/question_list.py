"""Lists of questions, one JSON object a line (`{"id", "task" or "query", "file"?, "errors"?}`),
read and prepared.

Memories and the uncommitted diff are read once per list; each question then has a turn, a key and a
pool, and belongs to no working session. `TurnList` asks them turn by turn, with one index update,
one confirmation and one cap for all; Ctrl-C, a cap, or a failing host or store end the list, and
earlier questions are still reported. Trade-off: only one pool is in memory, so iterating twice
prepares each question twice (a few milliseconds each).
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from xscore.cache.keys import judge_key, turn_key
from xscore.costs.caps import ZERO_USD, Caps, cap_status, spent_in_period
from xscore.pipeline.assembly import with_cap
from xscore.pipeline.judge_prompts import sharing_prompts
from xscore.pipeline.parts import PipelineParts, TurnOptions
from xscore.pipeline.pool import (
    PooledTurn,
    known_or_taken_over,
    narrow_to_scope,
    pool_among,
)
from xscore.pipeline.turn import run_turn
from xscore.pipeline.turn_estimate import confirm_estimate
from xscore.pipeline.uncommitted import complete_turn, uncommitted_work
from xscore.platform.errors import (
    ExitCode,
    NoUsableModel,
    ProviderError,
    StoreError,
    UsageError,
)
from xscore.platform.event_loop import clear_cancellation
from xscore.platform.hashing import digest
from xscore.platform.json_lines import name_lines_file, parse_lines, read_lines_file
from xscore.platform.processes import gc_paused
from xscore.platform.text import join_sentences
from xscore.prompts.turn_text import turn_block
from xscore.records.candidates import Candidate
from xscore.records.estimates import CapLeft, Estimate, JudgeEstimate, PrimaryEstimate
from xscore.records.events import ForwardingObserver, Observer
from xscore.records.judgment import Judgment, UnjudgedCause
from xscore.records.memory import Layer
from xscore.records.receipt import Answer
from xscore.records.turn import Scope, Turn
from xscore.store.redaction import is_safe_name

QUESTION_LINE_HINT = (
    'A line is {"id": "…", "task": "…"}, and where they help "file" and "errors".'
)


class Question(Struct, frozen=True, kw_only=True):
    """One line of a list of questions."""

    id: str
    task: str
    file: str = ""
    errors: str = ""


class QuestionList(Struct, frozen=True):
    """A list of questions: at least one, each with an id of its own."""

    all: tuple[Question, ...]
    digest: str


class _QuestionLine(Struct, forbid_unknown_fields=True):
    id: Annotated[str, Meta(max_length=200)]
    task: str = ""
    query: str = ""
    """Another name of the task."""
    file: Annotated[str, Meta(max_length=4_096)] = ""
    errors: str = ""

    def __post_init__(self) -> None:
        if not self.id.strip() or bool(self.task.strip()) == bool(self.query.strip()):
            raise ValueError("it needs an id, and a task or a query")
        if not self.id.isprintable():
            raise ValueError("its id has characters that cannot be shown")
        if not is_safe_name(self.id):
            raise ValueError("its id looks like a secret, and ids are stored and shown")
        if "\0" in self.file:
            raise ValueError("its file has a character that no file's name can have")


def read_question_file(path: Path) -> QuestionList:
    """Return the questions of a file, or of standard input for `-`.

    Raises UsageError that names the line.
    """
    return parse_questions_file(read_lines_file(path), name_lines_file(path))


def parse_questions_file(data: bytes, name: str) -> QuestionList:
    """Parse the questions. name: their source. Raises UsageError that names the line."""
    questions: list[Question] = []
    texts: list[str] = []
    for line in parse_lines(data, name, _QuestionLine, hint=QUESTION_LINE_HINT):
        task = line.task or line.query
        questions.append(Question(id=line.id, task=task, file=line.file, errors=line.errors))
        texts += (line.id, task, line.file, line.errors)
    if not questions:
        raise UsageError(f"{name} holds no question", hint=QUESTION_LINE_HINT)
    return QuestionList(tuple(questions), digest(*texts))


class PreparedQuestion(PooledTurn, frozen=True):
    """One question, ready to be judged."""

    number: int
    """Number of the question in the list, from 0."""
    question: Question


class ListMemories(Struct, frozen=True):
    """All candidates, fetched once for a list."""

    everything: tuple[Candidate, ...]
    candidates: tuple[Candidate, ...]
    """Candidates of the question that are in the scope."""
    scope: Scope

    def of_repository(self) -> "ListMemories":
        """Return these without the candidates of the user's own store; packs are still made of
        all."""
        of_repository = [memory for memory in self.candidates if memory.layer is not Layer.USER]
        if len(of_repository) == len(self.candidates):
            return self
        return replace(self, candidates=tuple(of_repository))


def fetch_list_memories(
    parts: PipelineParts, scope: Scope, *, only: frozenset[str] | None = None
) -> ListMemories:
    """Fetch the pool that all questions share. Raises UsageError for an invalid scope,
    StoreDamaged.

    only: paths; other files' memories are left out. None: only the scope filters.
    """
    with gc_paused():
        judge = parts.settings.judge
        fetched = parts.store.fetch(tests=judge.tests, purposes=judge.purposes)
        everything = fetched.candidates
        inside = narrow_to_scope(everything, scope)
        if only is not None:
            inside = tuple([candidate for candidate in inside if candidate.path in only])
        return ListMemories(everything, inside, scope)


def prepare_questions(
    parts: PipelineParts, questions: Iterable[tuple[int, Question]], memories: ListMemories
) -> Iterator[PreparedQuestion]:
    """Prepare these questions in order. Raises UsageError that names an invalid question."""
    settings = parts.settings
    judge = judge_key(parts.judge.identity)
    work = uncommitted_work(
        parts.store.connection, parts.root, settings.index, now=parts.clock()
    )
    for number, question in questions:
        draft = Turn(
            task=question.task,
            errors=question.errors,
            file=question.file,
            scope=memories.scope,
            fresh=True,
        )
        try:
            turn = complete_turn(
                draft, parts.root, work=work, allow_pii=settings.memory.allow_pii
            )
        except UsageError as error:
            raise UsageError(
                f"question {question.id}: {error.message}", hint=error.hint
            ) from error
        key = turn_key(turn_block(turn, sees=settings.judge.sees))
        with gc_paused():
            judgments: Mapping[str, Judgment] = {}
            if parts.judge.stored:
                judgments = known_or_taken_over(parts.store, key, judge, memories.candidates)
            pool = pool_among(memories.everything, memories.candidates, judgments)
        yield PreparedQuestion(turn, key, pool, number, question)


def list_caps_left(parts: PipelineParts, *, spent: Decimal = ZERO_USD) -> tuple[CapLeft, ...]:
    """Return what is left of each cap; the cap of a turn applies to the whole list. spent: by the
    list so far."""
    caps = cap_status(parts.store.connection, Caps.of(parts.settings.budget), now=parts.clock())
    of_list: list[CapLeft] = []
    for cap in caps:
        if cap.of == "turn":
            of_list.append(replace(cap, of="run", left_usd=cap.left_usd - spent))
        else:
            of_list.append(cap)
    return tuple(of_list)


def confirm_list_cost(
    parts: PipelineParts,
    judge: JudgeEstimate,
    primary: PrimaryEstimate | None = None,
    *,
    hint: str = "Narrow with --glob, ask fewer, or pass --yes.",
) -> None:
    """Ask before a list whose estimate is above the limit. hint: how to have less judged.

    Raises UsageError when the user declines.
    """
    if parts.observer.can_confirm:
        estimate = Estimate(
            judge=judge, primary=primary, by_kind={}, by_folder={}, caps=list_caps_left(parts)
        )
        confirm_estimate(parts, estimate, hint=hint)


class ConfirmedObserver(ForwardingObserver):
    """Forwards to another observer and always confirms, since the user has confirmed the whole
    list."""

    can_confirm = False


class TurnList(Struct):
    """A running list."""

    parts: PipelineParts
    shares_prompts: bool = False
    """Whether its questions are judged by prompts that several of them can share."""
    starts_here: bool = True
    """Whether it begins in the folder of its parts; otherwise `move_to` says where."""
    answers: list[Answer] = field(default_factory=list)
    charged: dict[str, Decimal] = field(default_factory=dict)
    """Dollars by what they were charged to: turns, and prompts that turns shared."""
    ended: str = ""
    """Why it ended before the last question: `interrupted`, `provider`, `store`; empty if it did
    not."""
    warnings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.starts_here:
            self.move_to(self.parts)

    def move_to(self, parts: PipelineParts) -> None:
        """Ask the next questions of this folder, and bring its index up to date, once for all."""
        parts.observer.stage("index")
        report = parts.index(None)
        self.parts = replace(self._with_judge(parts), index=lambda until: report)

    def _with_judge(self, parts: PipelineParts) -> PipelineParts:
        if self.shares_prompts:
            return replace(parts, judge=sharing_prompts(parts.judge))
        return parts

    @property
    def spent(self) -> Decimal:
        """Dollars charged so far."""
        return sum(self.charged.values(), Decimal(0))

    def parts_within_cap(self) -> PipelineParts:
        """Return the parts with the cap reduced by what the list has spent."""
        parts = self.parts
        cap = self.parts.settings.budget.max_usd
        if cap is None or not self.charged:
            return parts
        return self._with_judge(with_cap(parts, max(Decimal(0), cap - self.spent)))

    def charge(self, period: str) -> None:
        """Record what was spent on a turn of the list, or on prompts that its turns share."""
        self.charged[period] = spent_in_period(self.parts.store.connection, period)

    async def ask(self, turn: Turn, options: TurnOptions, observer: Observer) -> Answer:
        """Run one turn under what is left of the cap."""
        answer = await run_turn(
            replace(self.parts_within_cap(), observer=observer), turn, options
        )
        self.answers.append(answer)
        self.charge(answer.turn_id)
        if answer.exit_code == ExitCode.INTERRUPTED:
            self.ended = str(UnjudgedCause.INTERRUPTED)
        return answer

    async def goes_on_after(self, work: Callable[[], Awaitable[object]]) -> bool:
        """Run a step of the list; return False if the list has ended.

        Raises errors before the first answer.
        """
        try:
            await asyncio.sleep(0)  # Ctrl-C between two cached turns is noticed here
            await work()
        except asyncio.CancelledError:
            clear_cancellation()
            self.ended = str(UnjudgedCause.INTERRUPTED)
        except (ProviderError, NoUsableModel, StoreError) as error:
            if not self.answers:
                raise
            of_store = isinstance(error, StoreError)
            self.ended = "store" if of_store else str(UnjudgedCause.PROVIDER)
            self.warnings.append(join_sentences(error.message, error.hint))
        return not self.ended

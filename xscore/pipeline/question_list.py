"""Lists of questions, one JSON object a line (`{"id", "task" or "query", "file"?, "errors"?}`), read and prepared.

The memories are fetched once for a list, and the uncommitted change is looked at once; each question then has a turn, a
key and a pool, and belongs to no working session. The caller brings the index up to date; nothing is sent. Trade-off:
one question's pool is alive at a time, so going through a list twice prepares it twice (some milliseconds each).
"""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from xscore.cache.keys import judge_key, turn_key
from xscore.costs.caps import Caps, cap_status
from xscore.pipeline import pool as kept
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.pool import Pool, narrow_to_scope, pool_among, refuse_empty_scope
from xscore.pipeline.prepare import complete_turn
from xscore.platform.errors import UsageError
from xscore.platform.hashing import digest
from xscore.platform.json_lines import MAX_BYTES, TOO_LARGE, JsonLinesReader, with_unique_ids
from xscore.platform.processes import gc_paused
from xscore.prompts.judge import turn_block
from xscore.records import Candidate, CapLeft, Estimate, Layer, Scope, Turn
from xscore.records.batch import Question, QuestionList

QUESTION_LINE_HINT = 'A line is {"id": "…", "task": "…"}, and where they help "file" and "errors".'
STDIN = "-"


class _QuestionLine(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", hide_input_in_errors=True)

    id: str = Field(min_length=1, max_length=200)
    task: str = Field(min_length=1, validation_alias=AliasChoices("task", "query"))
    file: str = Field("", max_length=4_096)
    errors: str = ""

    @field_validator("id", "task", "file")
    @classmethod
    def _usable(cls, given: str, info: ValidationInfo) -> str:
        if info.field_name != "file" and not given.strip():
            raise ValueError("it is blank")
        if info.field_name == "id" and not given.isprintable():
            raise ValueError("it has characters that cannot be shown")
        if info.field_name == "file" and "\0" in given:
            raise ValueError("it has a character that no file's name can have")
        return given


_LINES = JsonLinesReader(_QuestionLine, QUESTION_LINE_HINT)


def read_question_file(path: Path) -> QuestionList:
    """Return the questions of a file, or of standard input for `-`. Raises UsageError that names the line."""
    if str(path) != STDIN:
        return parse_questions_file(_LINES.read(path), str(path))
    data = sys.stdin.buffer.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise UsageError(f"standard input {TOO_LARGE}", hint="Ask fewer questions at a time.")
    return parse_questions_file(data, "standard input")


def is_question_file(path: Path) -> bool:
    """Whether a file that is there begins with a question: results must not take its place."""
    try:
        with path.open("rb") as file:
            first = next((line for line in file if line.strip()), b"")
        return bool(parse_questions_file(first, str(path)).all)
    except (OSError, UsageError):
        return False


def parse_questions_file(data: bytes, name: str) -> QuestionList:
    """Return the questions of these bytes. name: where they are from. Raises UsageError that names the line."""
    found = tuple(
        Question(id=line.id, task=line.task, file=line.file, errors=line.errors)
        for line in with_unique_ids(_LINES.of(data, name))
    )
    if not found:
        raise UsageError(f"{name} holds no question", hint=QUESTION_LINE_HINT)
    return QuestionList(found, digest(*(field for one in found for field in (one.id, one.task, one.file, one.errors))))


class PreparedQuestion(Struct, frozen=True):
    """One question, ready to be judged."""

    number: int
    """From 0, as in the list."""
    question: Question
    turn: Turn
    """Complete and redacted."""
    key: str
    pool: Pool


class ListMemories(Struct, frozen=True):
    """All that may be judged, fetched once for a list."""

    everything: tuple[Candidate, ...]
    candidates: tuple[Candidate, ...]
    """What the scope leaves."""
    scope: Scope

    def of_repository(self) -> "ListMemories":
        """Return the same without the memories of the user's own store; packs are made of all of them still."""
        if not any(one.layer is Layer.USER for one in self.candidates):
            return self
        return replace(self, candidates=tuple(one for one in self.candidates if one.layer is not Layer.USER))


def fetch_list_memories(parts: PipelineParts, scope: Scope, *, only: frozenset[str] | None = None) -> ListMemories:
    """Fetch the pool that all questions share. Raises UsageError for a scope that names nothing, StoreDamaged.

    only: paths; what belongs to no other file is to be judged. None: the scope alone narrows.
    """
    with gc_paused():
        everything = parts.store.fetch(tests=parts.settings.judge.tests).candidates
        inside = narrow_to_scope(everything, scope)
        if only is not None:
            inside = tuple([one for one in inside if one.path in only])
        return ListMemories(everything, inside, scope)


def require_matching_files(found: ListMemories) -> None:
    """Stop where the globs of a list name no file. Raises NothingMatched.

    What has no path passes every glob; a list that names paths is not about that alone.
    """
    scope = found.scope
    is_about_files = bool(scope.paths) and not (scope.kinds or scope.layers)
    inside = [one for one in found.candidates if one.path] if is_about_files else found.candidates
    refuse_empty_scope(found.everything, inside, scope)


def prepare_questions(
    parts: PipelineParts, questions: Iterable[tuple[int, Question]], found: ListMemories
) -> Iterator[PreparedQuestion]:
    """Make these questions ready in their order. Raises UsageError that names the question it cannot ask."""
    settings, judge = parts.settings, parts.judge
    name = judge_key(judge.identity)
    moment: Turn | None = None
    for number, question in questions:
        asked = Turn(
            task=question.task,
            errors=question.errors,
            file=question.file,
            scope=found.scope,
            fresh=True,
            diff=moment.diff if moment else "",
            changed=moment.changed if moment else (),
        )
        try:
            turn = complete_turn(
                asked,
                parts.root,
                use_git=settings.index.git and moment is None,
                now=parts.clock(),
                allow_pii=settings.memory.allow_pii,
            )
        except UsageError as error:
            raise UsageError(f"question {question.id}: {error.message}", hint=error.hint) from error
        moment = moment or turn
        key = turn_key(turn_block(turn, context=settings.judge.context))
        with gc_paused():
            known = kept.known_judgments(parts.store, key, name) if judge.is_model else {}
            pool = pool_among(found.everything, found.candidates, known)
        yield PreparedQuestion(number, question, turn, key, pool)


def list_caps_left(parts: PipelineParts) -> tuple[CapLeft, ...]:
    """Return what is left of each cap; that of a turn is one of the whole list."""
    found = cap_status(parts.store.connection, Caps.of(parts.settings.budget), now=parts.clock())
    return tuple(replace(cap, of="run") if cap.of == "turn" else cap for cap in found)


def confirm_list_cost(parts: PipelineParts, estimate: Estimate) -> None:
    """Ask once where it may cost more than `budget.confirm_usd`. Raises UsageError when the user declines."""
    if not parts.observer.can_confirm:
        return
    cost = estimate.cost_usd
    if (cost is None or cost > parts.settings.budget.confirm_usd) and not parts.observer.confirm(estimate):
        raise UsageError(
            "nothing was sent: the estimate was declined", hint="Narrow with --path, ask fewer, or pass --yes."
        )

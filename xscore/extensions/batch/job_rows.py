"""Rows of jobs: what was planned of a list of questions, written and read. No vendor, no money, no decision.

A job is written whole in one transaction, or not at all. An ask stands once, however many questions share it, and its
pieces without their texts: those stand in the store, and nowhere else. Batches are `batch_rows`' business. Every
function works within a transaction of its caller where it writes. Trade-off: an ask is read by parsing its JSON, some
10 µs, so whoever needs one for many questions keeps it.

What jobs under way are having judged, so that nothing is asked of two jobs.

It goes by turn key and content, so another list, or the same question under another name, is met as well. Trade-off: a
live turn does not wait for a batch; whoever asks live what a job asks pays for it, and the first judgment stands.

Which jobs a command means: named by the beginning of an id, or those under way, or the newest.
"""

import json
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from typing import Any, Literal

from msgspec import Struct

from xscore.platform import money
from xscore.platform.database import damage_if_invalid
from xscore.platform.errors import NothingMatched, UsageError
from xscore.platform.hashing import row_checksum
from xscore.platform.text import one_line
from xscore.prompts.judge import turn_block
from xscore.records import JudgeIdentity, Scope, Turn
from xscore.scorer.drafts import JudgeModel, PromptDrafts
from xscore.scorer.packs import PackProfile
from xscore.scorer.repair import MemoryPart, PackPrompt, RepairRung

JobCommand = Literal["submit", "run", "rescore"]
RequestName = tuple[int, int]
"""Question and ask of a request, by their numbers within the job."""

_JOB = (
    "SELECT id, created_at, command, questions, judge_spec, judge, plan, max_usd, candidates, cached, ended_at,"
    " stopped_at, checksum FROM job"
)
_ASKS = """
    SELECT number, pack, rung, is_kept, pieces, checksum FROM job_ask
    WHERE job = ? AND number IN (SELECT value FROM json_each(?))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecipe:
    """What every request of a job needs beside its question and memories; settings may change meanwhile."""

    provider: str
    host: str
    model: JudgeModel
    packs: PackProfile
    reasons_from: float
    context: str
    """`judge.context` as it was."""
    tests: Literal["cards", "full"]
    """`judge.tests` as it was."""
    scope: Scope = Scope()  # noqa: RUF009  frozen
    """What the user narrowed the list to."""
    only: tuple[str, ...] | None = None
    """Paths, where memories of these alone are judged."""
    deal: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)
    """Keys the deal of ids, in hex. The job's own and not the store's: that is another where another user accepts the
    store, or a cache brings it to another machine; a reply read by it would give scores to the wrong memories."""

    def drafts(self) -> PromptDrafts:
        """Return what shapes the prompts."""
        return PromptDrafts(self.model, self.packs, bytes.fromhex(self.deal), self.reasons_from)

    def identity(self) -> JudgeIdentity:
        """Name the judge."""
        return self.drafts().identity(provider=self.provider, host=self.host)

    def to_json(self) -> str:
        """Write it for the store."""
        return json.dumps(asdict(self))

    @classmethod
    def of_json(cls, text: str) -> "JobRecipe":
        """Read it from the store. Raises StoreDamaged."""
        with damage_if_invalid("the plan of a job"):
            given = json.loads(text)
            model, packs = JudgeModel(**given.pop("model")), PackProfile(**given.pop("packs"))
            scope = Scope(**{name: tuple(words) for name, words in given.pop("scope", {}).items()})
            paths = given.pop("only", None)
            only = None if paths is None else tuple(paths)
            return cls(model=model, packs=packs, scope=scope, only=only, **given)


class BatchJob(Struct, frozen=True, kw_only=True):
    """A list of questions that is judged offline."""

    id: str
    """`b_…`"""
    created_at: float
    command: str
    digest: str
    """Of the list of questions."""
    judge_spec: str
    """`provider:model`"""
    judge: str
    """Judge key, as it was planned."""
    recipe: JobRecipe
    max_usd: Decimal | None
    """Cap of its own."""
    candidates: int
    """Over all questions, when it was planned."""
    cached: int
    ended_at: float | None = None
    stopped_at: float | None = None


class JobQuestion(Struct, frozen=True, kw_only=True):
    """One question of a job, as it is judged."""

    number: int
    name: str
    """Its id in the list."""
    turn: Turn
    """Task, errors and file alone, redacted."""
    shown: str = ""
    """What the judge is shown of the turn, where that is more than task and errors."""
    turn_key: str
    candidates: int
    cached: int

    @property
    def turn_text(self) -> str:
        """What the judge is shown of the turn."""
        return self.shown or turn_block(self.turn)


def new_job_id() -> str:
    """Deal a job's id."""
    return "b_" + secrets.token_hex(8)


def add_job(
    connection: sqlite3.Connection,
    job: BatchJob,
    questions: Iterable[JobQuestion],
    asks: Sequence[PackPrompt],
    requests: Iterable[RequestName],
) -> None:
    """Write a job that was planned, within an open transaction. Requests name asks by their place in `asks`."""
    cap = None if job.max_usd is None else money.picodollars(job.max_usd)
    plan = job.recipe.to_json()
    named = (job.id, job.created_at, job.command, job.digest, job.judge_spec, job.judge)
    connection.execute(
        "INSERT INTO job (id, created_at, command, questions, judge_spec, judge, plan, max_usd, candidates, cached,"
        " checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*named, plan, cap, job.candidates, job.cached, row_checksum(job.id, job.judge, plan)),
    )
    connection.executemany(
        "INSERT INTO job_question (job, number, name, context, turn_key, candidates, cached, checksum)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (_question_row(job.id, one) for one in questions),
    )
    add_asks(connection, job.id, asks)
    add_requests(connection, job.id, requests)


def add_asks(connection: sqlite3.Connection, job_id: str, asks: Sequence[PackPrompt]) -> range:
    """Write asks after those that are there; return their numbers. Within an open transaction."""
    (last,) = connection.execute("SELECT coalesce(max(number), -1) FROM job_ask WHERE job = ?", (job_id,)).fetchone()
    numbers = range(last + 1, last + 1 + len(asks))
    connection.executemany(
        "INSERT INTO job_ask (job, number, pack, rung, is_kept, pieces, checksum) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (_ask_row(job_id, number, ask) for number, ask in zip(numbers, asks, strict=True)),
    )
    return numbers


def add_requests(connection: sqlite3.Connection, job_id: str, requests: Iterable[RequestName]) -> None:
    """Plan questions to asks. Within an open transaction."""
    connection.executemany(
        "INSERT INTO job_request (job, question, ask) VALUES (?, ?, ?)",
        ((job_id, question, ask) for question, ask in requests),
    )


def read_job(connection: sqlite3.Connection, job_id: str) -> BatchJob:
    """Return a job by its id. Raises NothingMatched, StoreDamaged."""
    row = connection.execute(f"{_JOB} WHERE id = ?", (job_id,)).fetchone()
    if row is None:
        raise NothingMatched(f"there is no job {job_id}", hint="`xscore batch list` names them.")
    return _job(row)


def read_batch_jobs(connection: sqlite3.Connection, *, under_way: bool = False) -> list[BatchJob]:
    """Return all jobs, or those that have not ended, newest first. Raises StoreDamaged."""
    where = " WHERE ended_at IS NULL" if under_way else ""
    return [_job(row) for row in connection.execute(f"{_JOB}{where} ORDER BY created_at DESC, id").fetchall()]


def read_job_questions(connection: sqlite3.Connection, job_id: str) -> dict[int, JobQuestion]:
    """Return the questions of a job by number. Raises StoreDamaged."""
    found = connection.execute(
        "SELECT number, name, context, turn_key, candidates, cached, checksum FROM job_question WHERE job = ?"
        " ORDER BY number",
        (job_id,),
    )
    return {row[0]: _question(job_id, row) for row in found.fetchall()}


def read_asks(connection: sqlite3.Connection, job_id: str, numbers: Iterable[int]) -> dict[int, PackPrompt]:
    """Return these asks by number; their pieces have no texts, and no hash where they were erased.

    Raises StoreDamaged.
    """
    found = connection.execute(_ASKS, (job_id, json.dumps(list(numbers))))
    return {row[0]: _ask(job_id, row) for row in found.fetchall()}


def planned_requests(connection: sqlite3.Connection, job_id: str) -> list[RequestName]:
    """Return the requests that are to be sent, in the order of their asks, so that each prompt is made once."""
    found = connection.execute(
        "SELECT question, ask FROM job_request WHERE job = ? AND state = 'planned' ORDER BY ask, question", (job_id,)
    )
    return found.fetchall()


def requests_of_batch(connection: sqlite3.Connection, job_id: str, batch: int) -> list[RequestName]:
    """Return the requests that went with a batch and are not settled, in the order of `planned`."""
    found = connection.execute(
        "SELECT question, ask FROM job_request WHERE job = ? AND batch = ? AND state = 'sent' ORDER BY ask, question",
        (job_id, batch),
    )
    return found.fetchall()


def _question_row(job_id: str, one: JobQuestion) -> tuple[object, ...]:
    told = {"task": one.turn.task, "errors": one.turn.errors, "file": one.turn.file, "shown": one.shown}
    context = json.dumps({name: value for name, value in told.items() if value}, ensure_ascii=False)
    sealed = row_checksum(job_id, str(one.number), context, one.turn_key)
    return (job_id, one.number, one.name, context, one.turn_key, one.candidates, one.cached, sealed)


def _ask_row(job_id: str, number: int, ask: PackPrompt) -> tuple[object, ...]:
    """Write pieces as `[content]`, or of a part as `[content, memory, parts]`."""
    pieces = [[one.content_hash, one.memory, one.parts] if one.is_part else [one.content_hash] for one in ask.pieces]
    written = json.dumps(pieces)
    return (
        *(job_id, number, ask.pack, ask.rung.value, int(ask.is_kept), written),
        row_checksum(job_id, str(number), ask.pack, written),
    )


def _pieces(text: str) -> Iterator[MemoryPart]:
    for content, *of in json.loads(text):
        memory, parts = of or (content, 1)
        yield MemoryPart(content, "", "", "", "", memory, parts)


def _verify_checksum(sealed: int, *fields: str) -> None:
    if row_checksum(*fields) != sealed:
        raise ValueError("it does not fit its checksum")


def _job(row: tuple[Any, ...]) -> BatchJob:
    identifier, created_at, command, digest, spec, judge, plan, cap, *counts, ended_at, stopped_at, sealed = row
    with damage_if_invalid("a job"):
        _verify_checksum(sealed, identifier, judge, plan)
        max_usd = None if cap is None else money.dollars_of_picodollars(cap)
    return BatchJob(
        id=identifier,
        created_at=created_at,
        command=command,
        digest=digest,
        judge_spec=spec,
        judge=judge,
        recipe=JobRecipe.of_json(plan),
        max_usd=max_usd,
        candidates=counts[0],
        cached=counts[1],
        ended_at=ended_at,
        stopped_at=stopped_at,
    )


def _question(job_id: str, row: tuple[int, str, str, str, int, int, int]) -> JobQuestion:
    number, name, context, turn_key, candidates, cached, sealed = row
    with damage_if_invalid("a question of a job"):
        _verify_checksum(sealed, job_id, str(number), context, turn_key)
        told = json.loads(context)
        turn = Turn(task=told.get("task", ""), errors=told.get("errors", ""), file=told.get("file", ""))
        shown = told.get("shown", "")
    return JobQuestion(
        number=number, name=name, turn=turn, shown=shown, turn_key=turn_key, candidates=candidates, cached=cached
    )


def _ask(job_id: str, row: tuple[int, str, int, int, str, int]) -> PackPrompt:
    number, pack, rung, is_kept, pieces, sealed = row
    with damage_if_invalid("what a job asks"):
        _verify_checksum(sealed, job_id, str(number), pack, pieces)
        return PackPrompt(pack, tuple(_pieces(pieces)), RepairRung(rung), bool(is_kept))


_UNDER_WAY = """
    SELECT turn_key, coalesce(json_extract(piece.value, '$[1]'), json_extract(piece.value, '$[0]'))
    FROM job CROSS JOIN job_question ON job_question.job = job.id
    CROSS JOIN job_request ON job_request.job = job.id AND question = job_question.number
    CROSS JOIN job_ask ON job_ask.job = job.id AND job_ask.number = ask, json_each(pieces) AS piece
    WHERE job.id = ? AND job_request.state IN ('planned', 'sent')
"""


def contents_under_way(connection: sqlite3.Connection, job_ids: Iterable[str]) -> Mapping[str, frozenset[str]]:
    """Return which contents (of whole memories) these jobs are having judged, by turn key."""
    found: dict[str, set[str]] = {}
    for job_id in job_ids:
        for key, memory in connection.execute(_UNDER_WAY, (job_id,)):
            found.setdefault(key, set()).add(memory)
    return {key: frozenset(memories) for key, memories in found.items()}


LIST_HINT = "`xscore batch list` names them."


def select_jobs(connection: sqlite3.Connection, named: str) -> list[BatchJob]:
    """Return the jobs that are meant, newest first; unnamed: all under way, or the newest where none is.

    Raises NothingMatched where there is none, UsageError where a beginning fits several.
    """
    everything = read_batch_jobs(connection)
    if not everything:
        raise NothingMatched("there is no job yet", hint="`xscore batch submit QUERIES.jsonl` makes one.")
    if not named:
        return [job for job in everything if job.ended_at is None] or everything[:1]
    found = [job for job in everything if job.id == named] or [job for job in everything if job.id.startswith(named)]
    if not found:
        raise NothingMatched(f"there is no job {one_line(named)}", hint=LIST_HINT)
    if len(found) > 1:
        raise UsageError(f"{len(found)} jobs begin with {one_line(named)}", hint=LIST_HINT)
    return found

"""Rows of jobs: what was planned of a list of questions, written and read. No vendor, no money, no decision.

A job is written whole in one transaction, or not at all. An ask stands once, however many questions share it, and its
pieces without their texts: those stand in the store, and nowhere else. Batches are `batch_rows`' business. Every
function works within a transaction of its caller where it writes. Trade-off: an ask is read by parsing its JSON, some
10 µs, so whoever needs one for many questions keeps it.
"""

import json
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from typing import Literal

from xscore import money
from xscore.database import making_sense
from xscore.errors import NothingMatched
from xscore.prompts.judge import turn_block
from xscore.records import JudgeIdentity, Scope, Turn
from xscore.scorer.draft import Drafts, JudgeModel
from xscore.scorer.packs import Profile
from xscore.scorer.repair import Ask, Rung
from xscore.scorer.split import Piece

Command = Literal["submit", "run", "rescore"]
RequestName = tuple[int, int]
"""Question and ask of a request, by their numbers within the job."""

_JOB = (
    "SELECT id, created_at, command, questions, judge_spec, judge, plan, max_usd, candidates, cached, ended_at,"
    " stopped_at FROM job"
)
_ASKS = """
    SELECT number, pack, rung, is_kept, pieces FROM job_ask
    WHERE job = ? AND number IN (SELECT value FROM json_each(?))
"""
_UNDER_WAY = """
    SELECT turn_key, coalesce(json_extract(piece.value, '$[1]'), json_extract(piece.value, '$[0]'))
    FROM job CROSS JOIN job_question ON job_question.job = job.id
    CROSS JOIN job_request ON job_request.job = job.id AND question = job_question.number
    CROSS JOIN job_ask ON job_ask.job = job.id AND job_ask.number = ask, json_each(pieces) AS piece
    WHERE job.id = ? AND job_request.state IN ('planned', 'sent')
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What every request of a job needs beside its question and memories; settings may change meanwhile."""

    provider: str
    host: str
    model: JudgeModel
    packs: Profile
    reasons_from: float
    context: str
    """`judge.context` as it was."""
    tests: Literal["cards", "full"]
    """`judge.tests` as it was."""
    scope: Scope = Scope()  # noqa: RUF009  frozen
    """What the user narrowed the list to."""
    deal: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)
    """Keys the deal of ids, in hex. The job's own and not the store's: that one is another where another user accepts
    the store, or a cache brings it to another machine, and a reply read by it would give scores to the wrong memories."""

    def drafts(self) -> Drafts:
        """Return what shapes the prompts."""
        return Drafts(self.model, self.packs, bytes.fromhex(self.deal), self.reasons_from)

    def identity(self) -> JudgeIdentity:
        """Name the judge."""
        return self.drafts().identity(provider=self.provider, host=self.host)

    def to_json(self) -> str:
        """Write it for the store."""
        return json.dumps(asdict(self))

    @classmethod
    def of_json(cls, text: str) -> "Recipe":
        """Read it from the store. Raises StoreDamaged."""
        with making_sense("the plan of a job"):
            given = json.loads(text)
            model, packs = JudgeModel(**given.pop("model")), Profile(**given.pop("packs"))
            scope = Scope(**{name: tuple(words) for name, words in given.pop("scope", {}).items()})
            return cls(model=model, packs=packs, scope=scope, **given)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
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
    recipe: Recipe
    max_usd: Decimal | None
    """Cap of its own."""
    candidates: int
    """Over all questions, when it was planned."""
    cached: int
    ended_at: float | None = None
    stopped_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobQuestion:
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


def new_id() -> str:
    """Deal a job's id."""
    return "b_" + secrets.token_hex(8)


def add_job(
    connection: sqlite3.Connection,
    job: Job,
    questions: Iterable[JobQuestion],
    asks: Sequence[Ask],
    requests: Iterable[RequestName],
) -> None:
    """Write a job that was planned, within an open transaction. Requests name asks by their place in `asks`."""
    cap = None if job.max_usd is None else money.picodollars(job.max_usd)
    named = (job.id, job.created_at, job.command, job.digest, job.judge_spec, job.judge, job.recipe.to_json())
    connection.execute(
        "INSERT INTO job (id, created_at, command, questions, judge_spec, judge, plan, max_usd, candidates, cached)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*named, cap, job.candidates, job.cached),
    )
    connection.executemany(
        "INSERT INTO job_question (job, number, name, moment, turn_key, candidates, cached)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        ((job.id, one.number, one.name, _moment(one), one.turn_key, one.candidates, one.cached) for one in questions),
    )
    add_asks(connection, job.id, asks)
    add_requests(connection, job.id, requests)


def add_asks(connection: sqlite3.Connection, job_id: str, asks: Sequence[Ask]) -> range:
    """Write asks after those that are there; return their numbers. Within an open transaction."""
    (last,) = connection.execute("SELECT coalesce(max(number), -1) FROM job_ask WHERE job = ?", (job_id,)).fetchone()
    numbers = range(last + 1, last + 1 + len(asks))
    connection.executemany(
        "INSERT INTO job_ask (job, number, pack, rung, is_kept, pieces) VALUES (?, ?, ?, ?, ?, ?)",
        (
            (job_id, number, ask.pack, ask.rung.value, int(ask.is_kept), _written(ask.pieces))
            for number, ask in zip(numbers, asks, strict=True)
        ),
    )
    return numbers


def add_requests(connection: sqlite3.Connection, job_id: str, requests: Iterable[RequestName]) -> None:
    """Plan questions to asks. Within an open transaction."""
    connection.executemany(
        "INSERT INTO job_request (job, question, ask) VALUES (?, ?, ?)",
        ((job_id, question, ask) for question, ask in requests),
    )


def job(connection: sqlite3.Connection, job_id: str) -> Job:
    """Return a job by its id. Raises NothingMatched, StoreDamaged."""
    row = connection.execute(f"{_JOB} WHERE id = ?", (job_id,)).fetchone()
    if row is None:
        raise NothingMatched(f"there is no job {job_id}", hint="`xscore batch list` names them.")
    return _job(row)


def jobs(connection: sqlite3.Connection, *, under_way: bool = False) -> list[Job]:
    """Return all jobs, or those that have not ended, newest first. Raises StoreDamaged."""
    where = " WHERE ended_at IS NULL" if under_way else ""
    return [_job(row) for row in connection.execute(f"{_JOB}{where} ORDER BY created_at DESC, id").fetchall()]


def questions(connection: sqlite3.Connection, job_id: str) -> dict[int, JobQuestion]:
    """Return the questions of a job by number. Raises StoreDamaged."""
    found = connection.execute(
        "SELECT number, name, moment, turn_key, candidates, cached FROM job_question WHERE job = ? ORDER BY number",
        (job_id,),
    )
    return {row[0]: _question(row) for row in found.fetchall()}


def asks(connection: sqlite3.Connection, job_id: str, numbers: Iterable[int]) -> dict[int, Ask]:
    """Return these asks by number; their pieces have no texts, and no hash where they were erased.

    Raises StoreDamaged.
    """
    found = connection.execute(_ASKS, (job_id, json.dumps(list(numbers))))
    return {row[0]: _ask(*row[1:]) for row in found.fetchall()}


def planned(connection: sqlite3.Connection, job_id: str) -> list[RequestName]:
    """Return the requests that are to be sent, in the order of their asks, so that each prompt is made once."""
    found = connection.execute(
        "SELECT question, ask FROM job_request WHERE job = ? AND state = 'planned' ORDER BY ask, question", (job_id,)
    )
    return found.fetchall()


def of_batch(connection: sqlite3.Connection, job_id: str, batch: int) -> list[RequestName]:
    """Return the requests that went with a batch and are not settled, in the order of `planned`."""
    found = connection.execute(
        "SELECT question, ask FROM job_request WHERE job = ? AND batch = ? AND state = 'sent' ORDER BY ask, question",
        (job_id, batch),
    )
    return found.fetchall()


def under_way(connection: sqlite3.Connection, job_ids: Iterable[str]) -> Mapping[str, frozenset[str]]:
    """Return which contents (of whole memories) these jobs are having judged, by turn key."""
    found: dict[str, set[str]] = {}
    for job_id in job_ids:
        for key, memory in connection.execute(_UNDER_WAY, (job_id,)):
            found.setdefault(key, set()).add(memory)
    return {key: frozenset(memories) for key, memories in found.items()}


def _moment(question: JobQuestion) -> str:
    turn = question.turn
    told = {"task": turn.task, "errors": turn.errors, "file": turn.file, "shown": question.shown}
    return json.dumps({name: value for name, value in told.items() if value}, ensure_ascii=False)


def _written(pieces: Iterable[Piece]) -> str:
    """Write pieces: `[content]`, or of a part `[content, memory, parts]`."""
    return json.dumps(
        [[one.content_hash, one.memory, one.parts] if one.is_part else [one.content_hash] for one in pieces]
    )


def _pieces(text: str) -> Iterator[Piece]:
    for content, *of in json.loads(text):
        memory, parts = of or (content, 1)
        yield Piece(content, "", "", "", "", memory, parts)


def _job(row: tuple[str, float, str, str, str, str, str, int | None, int, int, float | None, float | None]) -> Job:
    identifier, created_at, command, digest, spec, judge, plan, cap, candidates, cached, ended_at, stopped_at = row
    with making_sense("the cap of a job"):
        max_usd = None if cap is None else money.dollars(cap)
    return Job(
        id=identifier,
        created_at=created_at,
        command=command,
        digest=digest,
        judge_spec=spec,
        judge=judge,
        recipe=Recipe.of_json(plan),
        max_usd=max_usd,
        candidates=candidates,
        cached=cached,
        ended_at=ended_at,
        stopped_at=stopped_at,
    )


def _question(row: tuple[int, str, str, str, int, int]) -> JobQuestion:
    number, name, moment, turn_key, candidates, cached = row
    with making_sense("a question of a job"):
        told = json.loads(moment)
        turn = Turn(task=told.get("task", ""), errors=told.get("errors", ""), file=told.get("file", ""))
        shown = told.get("shown", "")
    return JobQuestion(
        number=number, name=name, turn=turn, shown=shown, turn_key=turn_key, candidates=candidates, cached=cached
    )


def _ask(pack: str, rung: int, is_kept: int, pieces: str) -> Ask:
    with making_sense("what a job asks"):
        return Ask(pack, tuple(_pieces(pieces)), Rung(rung), bool(is_kept))

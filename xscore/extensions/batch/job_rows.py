"""Rows of jobs: the plan of a list of questions, and which jobs a command names.

A job is written whole in one transaction, or not at all. A prompt (without its question) is
stored once for all questions that share it, and without the texts of its pieces, which the store
has. Rows of batches are in `batch_rows`. An erasure blanks the questions that quote an erased
memory and drops the hashes of its pieces; a piece keeps its place, since replies refer to places.
Trade-off: reading a prompt parses JSON (about 10 µs).
"""

import json
import secrets
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from decimal import Decimal
from typing import Any, Literal

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from xscore.extensions.batch.records import PURPOSES
from xscore.platform import money
from xscore.platform.database import damage_if_invalid
from xscore.platform.errors import NothingMatched, UsageError
from xscore.platform.hashing import row_checksum
from xscore.platform.processes import random_hex
from xscore.platform.text import one_line
from xscore.prompts.judge import JudgeModel
from xscore.prompts.turn_text import turn_block
from xscore.records.calls import Stage
from xscore.records.judgment import JudgeIdentity, UnjudgedCause
from xscore.records.turn import Scope, Turn
from xscore.scorer.packs import PackProfile
from xscore.scorer.prompt_builder import PromptBuilder
from xscore.scorer.repair import MemoryPiece, PackPrompt, RepairRung
from xscore.store.line_search import LineMatcher

JobCommand = Literal["submit", "run", "rescore"]
RequestName = tuple[int, int]
"""A request's question and prompt, by their numbers within the job."""
LIST_HINT = "`xscore batch list` lists them."
_JOB = (
    "SELECT id, created_at, command, questions, judge_spec, judge, plan, max_usd, candidates,"
    " cached, ended_at, stopped_at, checksum FROM job"
)
_IS_FOR_VENDOR = "EXISTS (SELECT 1 FROM job_request WHERE job = job.id)"
"""SQL: whether a vendor gets requests; a list judged live plans none."""
_UNDER_WAY = """
    SELECT job.id, turn_key, coalesce(json_extract(piece.value, '$[1]'),
      json_extract(piece.value, '$[0]'))
    FROM job CROSS JOIN job_question ON job_question.job = job.id
    CROSS JOIN job_request ON job_request.job = job.id AND question = job_question.number
    CROSS JOIN job_ask ON job_ask.job = job.id AND job_ask.number = ask, json_each(pieces) AS piece
    WHERE job.judge = ? AND ended_at IS NULL AND job_request.state IN ('planned', 'sent')
    ORDER BY created_at DESC, job.id
"""


class JobRecipe(Struct, frozen=True, kw_only=True):
    """What every request of a job needs besides question and memories; settings may change
    meanwhile."""

    provider: str
    host: str
    model: JudgeModel
    packs: PackProfile
    reasons_from: float
    sees: str
    tests: Literal["cards", "full"]
    purposes: bool = False
    """Memories are shown with what their files are for."""
    scope: Scope = Scope()
    only: tuple[str, ...] | None = None
    writes: Literal["judgments", "purposes"] = "judgments"
    """What is kept of the replies; purposes are of files, classes and folders."""
    deal: str = field(default_factory=lambda: secrets.token_hex(16))
    """Secret that shuffles the ids in prompts, in hex. It belongs to the job, not to the store:
    another user of the store has another secret, and a reply read with that one would give scores
    to the wrong memories."""

    def __repr__(self) -> str:
        return f"JobRecipe({self.provider}:{self.model.name})"  # never the secret

    def builder(self) -> PromptBuilder:
        """Return the prompts' settings."""
        return PromptBuilder(
            self.model, self.packs, bytes.fromhex(self.deal), self.reasons_from
        )

    def identity(self) -> JudgeIdentity:
        """Name the judge."""
        return self.builder().identity(provider=self.provider, host=self.host)


class BatchJob(Struct, frozen=True):
    """A list of questions that is judged offline."""

    id: str
    created_at: float
    command: str
    digest: str
    judge_spec: str
    judge: str
    """Judge key when the job was planned."""
    recipe: JobRecipe
    max_usd: Decimal | None
    candidates: int
    cached: int
    ended_at: float | None = None
    stopped_at: float | None = None

    @property
    def stage(self) -> Stage:
        """What its calls are for."""
        if self.recipe.writes == PURPOSES:
            return Stage.PURPOSE
        return Stage.JUDGE


class JobQuestion(Struct, frozen=True, kw_only=True):
    """One question of a job as judged."""

    number: int
    name: str
    turn_key: str
    task: str = ""
    """The task, redacted as errors and file are; empty once it was erased."""
    errors: str = ""
    file: str = ""
    shown: str = ""
    """What the judge sees of the turn, if more than task and errors."""

    @property
    def turn(self) -> Turn:
        """Task, errors and file alone."""
        return Turn(task=self.task, errors=self.errors, file=self.file)

    @property
    def turn_text(self) -> str:
        """The judge's view of the turn; empty once it was erased."""
        if self.task:
            return self.shown or turn_block(self.turn)
        return ""


def new_job_id() -> str:
    """Return a random id for a job."""
    return "b_" + random_hex(8)


def add_job(
    connection: sqlite3.Connection,
    job: BatchJob,
    questions: Iterable[JobQuestion],
    prompts: Sequence[PackPrompt],
    requests: Iterable[RequestName],
) -> None:
    """Write a planned job within an open transaction.

    Requests name prompts by their place in `prompts`.
    """
    if job.max_usd is None:
        cap = None
    else:
        cap = money.picodollars(job.max_usd)
    plan = msgspec.json.encode(job.recipe).decode()
    named = (
        job.id,
        job.created_at,
        job.command,
        job.digest,
        job.judge_spec,
        job.judge,
        plan,
        cap,
    )
    connection.execute(
        "INSERT INTO job (id, created_at, command, questions, judge_spec, judge, plan, max_usd,"
        " candidates, cached, ended_at, checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *named,
            job.candidates,
            job.cached,
            job.ended_at,
            row_checksum(job.id, job.judge, plan),
        ),
    )
    connection.executemany(
        "INSERT INTO job_question (job, number, name, context, turn_key, checksum) VALUES (?, ?, ?,"
        " ?, ?, ?)",
        (_question_row(job.id, question) for question in questions),
    )
    add_prompts(connection, job.id, prompts)
    add_requests(connection, job.id, requests)


def add_prompts(
    connection: sqlite3.Connection, job_id: str, prompts: Sequence[PackPrompt]
) -> range:
    """Append prompts and return their numbers. Within an open transaction."""
    (last,) = connection.execute(
        "SELECT coalesce(max(number), -1) FROM job_ask WHERE job = ?", (job_id,)
    ).fetchone()
    numbers = range(last + 1, last + 1 + len(prompts))
    connection.executemany(
        "INSERT INTO job_ask (job, number, pack, rung, is_kept, pieces, checksum) VALUES (?, ?, ?,"
        " ?, ?, ?, ?)",
        (
            _prompt_row(job_id, number, prompt)
            for number, prompt in zip(numbers, prompts, strict=True)
        ),
    )
    return numbers


def add_requests(
    connection: sqlite3.Connection, job_id: str, requests: Iterable[RequestName]
) -> None:
    """Plan requests. Within an open transaction."""
    connection.executemany(
        "INSERT INTO job_request (job, question, ask) VALUES (?, ?, ?)",
        ((job_id, question, number) for question, number in requests),
    )


def replan_without_text(
    connection: sqlite3.Connection, job_id: str, number: int, prompt: PackPrompt, *, cause: str
) -> None:
    """Replace planned requests of a prompt by requests for its pieces that have a text; the others
    are lost.

    prompt: with the texts that the store has. Within an open transaction.
    """
    pieces_by_text: dict[bool, list[MemoryPiece]] = {}
    for piece in prompt.pieces:
        pieces_by_text.setdefault(bool(piece.kind), []).append(piece)
    replanned = []
    for pieces in pieces_by_text.values():
        replanned.append(replace(prompt, pieces=tuple(pieces), is_lasting=False))
    numbers = add_prompts(connection, job_id, replanned)
    for new, has_text in zip(numbers, pieces_by_text, strict=True):
        connection.execute(
            "INSERT INTO job_request (job, question, ask, state, cause) SELECT job, question, ?, ?,"
            " ? FROM job_request WHERE job = ? AND ask = ? AND state = 'planned'",
            (new, "planned" if has_text else "lost", "" if has_text else cause, job_id, number),
        )
    connection.execute(
        "DELETE FROM job_request WHERE job = ? AND ask = ? AND state = 'planned'",
        (job_id, number),
    )


def read_job(connection: sqlite3.Connection, job_id: str) -> BatchJob:
    """Return a job by its id. Raises NothingMatched, StoreDamaged."""
    row = connection.execute(f"{_JOB} WHERE id = ?", (job_id,)).fetchone()
    if row is None:
        raise NothingMatched(f"there is no job {job_id}", hint=LIST_HINT)
    return _job(row)


def read_batch_jobs(connection: sqlite3.Connection) -> list[BatchJob]:
    """Return all jobs for a vendor, newest first. Raises StoreDamaged."""
    rows = connection.execute(
        f"{_JOB} WHERE {_IS_FOR_VENDOR} ORDER BY created_at DESC, id"
    ).fetchall()
    return [_job(row) for row in rows]


def read_job_questions(connection: sqlite3.Connection, job_id: str) -> dict[int, JobQuestion]:
    """Return the questions of a job by number. Raises StoreDamaged."""
    rows = connection.execute(
        "SELECT number, name, context, turn_key, checksum FROM job_question WHERE job = ? ORDER BY"
        " number",
        (job_id,),
    )
    return {row[0]: _question(job_id, row) for row in rows.fetchall()}


def read_prompts(
    connection: sqlite3.Connection, job_id: str, numbers: Iterable[int]
) -> dict[int, PackPrompt]:
    """Return these prompts by number, their pieces without texts (and without hashes where erased).

    Raises StoreDamaged.
    """
    rows = connection.execute(
        "SELECT number, pack, rung, is_kept, pieces, checksum FROM job_ask"
        " WHERE job = ? AND number IN (SELECT value FROM json_each(?))",
        (job_id, json.dumps(list(numbers))),
    )
    return {row[0]: _prompt(job_id, row) for row in rows.fetchall()}


def planned_requests(connection: sqlite3.Connection, job_id: str) -> list[RequestName]:
    """Return the requests to send, ordered by prompt, so that each prompt is rendered once."""
    return connection.execute(
        "SELECT question, ask FROM job_request WHERE job = ? AND state = 'planned' ORDER BY ask,"
        " question",
        (job_id,),
    ).fetchall()


def requests_of_batch(
    connection: sqlite3.Connection, job_id: str, batch: int, *, answered: bool = False
) -> set[RequestName]:
    """Return the requests of a batch without a result. answered: those whose results are in."""
    rows = connection.execute(
        "SELECT question, ask FROM job_request WHERE job = ? AND batch = ? AND (state <>"
        " 'sent') = ?",
        (job_id, batch, answered),
    )
    return set(rows.fetchall())


def memories_in_state(
    connection: sqlite3.Connection, job_id: str, state: str
) -> dict[tuple[int, str], str]:
    """Return the contents of whole memories in requests of this state: question and content ->
    cause.

    Raises StoreDamaged.
    """
    query = "SELECT question, ask, cause FROM job_request WHERE job = ? AND state = ?"
    requests = connection.execute(query, (job_id, state)).fetchall()
    prompts = read_prompts(connection, job_id, {number for _, number, _ in requests})
    causes: dict[tuple[int, str], str] = {}
    for question, number, cause in requests:
        pieces = prompts[number].pieces
        causes.update({(question, piece.memory): cause for piece in pieces})
    return causes


UnderWay = Mapping[str, Mapping[str, Set[str]]]
"""Job -> turn key -> contents of whole memories that it is judging."""


def contents_under_way(connection: sqlite3.Connection, judge: str) -> UnderWay:
    """Return the contents that unfinished jobs of this judge (by key) are judging, newest job
    first.

    A live turn does not wait for them: it pays for the same content, and the first judgment stays.
    """
    under_way: dict[str, dict[str, set[str]]] = {}
    for job, key, memory in connection.execute(_UNDER_WAY, (judge,)):
        under_way.setdefault(job, {}).setdefault(key, set()).add(memory)
    return under_way


def select_jobs(connection: sqlite3.Connection, named: str) -> list[BatchJob]:
    """Return the jobs whose id starts with this, newest first; without a name: all running
    ones, or the newest.

    Raises NothingMatched where there is none, UsageError where several ids start so.
    """
    everything = read_batch_jobs(connection)
    if not everything:
        raise NothingMatched(
            "there is no job yet", hint="`xscore batch submit QUERIES.jsonl` makes one."
        )
    if not named:
        return [job for job in everything if job.ended_at is None] or everything[:1]
    jobs = [job for job in everything if job.id == named]
    if not jobs:
        jobs = [job for job in everything if job.id.startswith(named)]
    if not jobs:
        raise NothingMatched(f"there is no job {one_line(named)}", hint=LIST_HINT)
    if len(jobs) > 1:
        raise UsageError(f"{len(jobs)} jobs begin with {one_line(named)}", hint=LIST_HINT)
    return jobs


def _question_row(job_id: str, question: JobQuestion) -> tuple[object, ...]:
    texts = {
        "task": question.task,
        "errors": question.errors,
        "file": question.file,
        "shown": question.shown,
    }
    context = msgspec.json.encode({name: text for name, text in texts.items() if text}).decode()
    checksum = row_checksum(job_id, str(question.number), context, question.turn_key)
    return (job_id, question.number, question.name, context, question.turn_key, checksum)


def _prompt_row(job_id: str, number: int, prompt: PackPrompt) -> tuple[object, ...]:
    pieces: list[list[str | int]] = []
    for piece in prompt.pieces:
        if piece.is_part:
            pieces.append([piece.content_hash, piece.memory, piece.parts])
        else:
            pieces.append([piece.content_hash])
    written = json.dumps(pieces)
    checksum = row_checksum(job_id, str(number), prompt.pack, written)
    return (
        job_id,
        number,
        prompt.pack,
        prompt.rung.value,
        int(prompt.is_lasting),
        written,
        checksum,
    )


def _verify_checksum(checksum: int, *fields: str) -> None:
    if row_checksum(*fields) != checksum:
        raise ValueError("its checksum is wrong")


def _job(row: tuple[Any, ...]) -> BatchJob:
    identifier, created_at, command, digest, spec, judge, plan, cap, *rest, checksum = row
    with damage_if_invalid("a job"):
        _verify_checksum(checksum, identifier, judge, plan)
        recipe = msgspec.json.decode(plan, type=JobRecipe)
        max_usd = None if cap is None else money.dollars_of_picodollars(cap)
    return BatchJob(
        identifier, created_at, command, digest, spec, judge, recipe, max_usd, *rest
    )


def _question(job_id: str, row: tuple[int, str, str, str, int]) -> JobQuestion:
    number, name, context, turn_key, checksum = row
    with damage_if_invalid("a question of a job"):
        _verify_checksum(checksum, job_id, str(number), context, turn_key)
        texts = msgspec.json.decode(context, type=dict[str, str])
        return JobQuestion(number=number, name=name, turn_key=turn_key, **texts)


def _prompt(job_id: str, row: tuple[int, str, int, int, str, int]) -> PackPrompt:
    number, pack, rung, is_lasting, pieces, checksum = row
    with damage_if_invalid("what a job asks"):
        _verify_checksum(checksum, job_id, str(number), pack, pieces)
        parts = tuple(piece_without_text(*piece) for piece in json.loads(pieces))
        return PackPrompt(pack, parts, RepairRung(rung), bool(is_lasting))


def piece_without_text(content: str, memory: str = "", parts: int = 1) -> MemoryPiece:
    """Return a piece of a prompt. memory: empty where it is not part of another."""
    return MemoryPiece(content, "", "", "", "", memory or content, parts)


_CAUSE = f"{UnjudgedCause.INTERRUPTED}: the question was erased"
_NO_PIECE = [""]
_SHOWN = (
    "SELECT hash FROM content WHERE memories > 0 AND hash IN (SELECT value FROM json_each(?))"
)
_BLANK = """
    UPDATE job_question SET name = '', context = '{}', checksum = ? WHERE job = ? AND number = ?
"""
_UNASKED = """
    UPDATE job_request SET state = 'lost', cause = ? WHERE job = ? AND question = ?
      AND state = 'planned'
"""


def erase_from_jobs(
    connection: sqlite3.Connection, hashes: Collection[str], lines: LineMatcher
) -> Counter[str]:
    """Remove erased text from jobs, after the memories' own rows; count the blanked questions.

    Within an open transaction.
    """
    gone = set(hashes)
    # What another memory still says stays in the prompts that show it.
    for (hash_,) in connection.execute(_SHOWN, (json.dumps(sorted(hashes)),)):
        gone.discard(hash_)
    if gone:
        _drop_pieces(connection, gone)
    rows = connection.execute(
        "SELECT job, number, name, context, turn_key FROM job_question"
    ).fetchall()
    blanked = 0
    for job, number, name, context, key in rows:
        texts = [
            text for text in (name, *json.loads(context).values()) if isinstance(text, str)
        ]
        if any(map(lines.found_in, texts)):
            blanked += 1
            checksum = row_checksum(job, str(number), "{}", key)
            connection.execute(_BLANK, (checksum, job, number))
            connection.execute(_UNASKED, (_CAUSE, job, number))
    return Counter(questions=blanked)


def _drop_pieces(connection: sqlite3.Connection, gone: Set[str]) -> None:
    changed: list[tuple[str, int, str, int]] = []
    rows = connection.execute("SELECT job, number, pack, pieces FROM job_ask")
    for job, number, pack, written in rows:
        pieces = json.loads(written)
        has_changed = False
        for place, piece in enumerate(pieces):
            # The place stays: the ids of a prompt are dealt by the places of its pieces.
            if not gone.isdisjoint(piece[:2]):
                pieces[place] = _NO_PIECE
                has_changed = True
        if has_changed:
            stripped = json.dumps(pieces)
            changed.append(
                (stripped, row_checksum(job, str(number), pack, stripped), job, number)
            )
    connection.executemany(
        "UPDATE job_ask SET pieces = ?, checksum = ? WHERE job = ? AND number = ?", changed
    )

"""What writing purposes would take: which lack one, how many requests, tokens and dollars.

Trade-off: every prompt is rendered for the estimate, about a second for 10,000 memories.
"""

from collections.abc import Sequence
from decimal import Decimal
from math import ceil

from msgspec import Struct

from xscore.extensions.batch import job_rows
from xscore.extensions.batch.job_rows import BatchJob, JobQuestion, JobRecipe
from xscore.extensions.batch.purpose_jobs import (
    PROMPT_KEY,
    name_of,
    part_of,
    subjects_by_code,
)
from xscore.extensions.batch.purpose_prompts import REPLY_TOKENS, packs_of, purpose_request
from xscore.extensions.batch.purpose_subjects import Subject, all_places, read_subjects
from xscore.extensions.batch.records import PURPOSES
from xscore.pipeline.describe_model import describe_model_judge
from xscore.pipeline.judge_description import JudgeDescription
from xscore.pipeline.judge_prompts import estimating_builder
from xscore.pipeline.parts import PipelineParts
from xscore.platform import database
from xscore.platform.errors import UsageError
from xscore.platform.hashing import digest
from xscore.prompts.judge import JudgeModel
from xscore.providers.decision_hosts import CHAT_OF_OPENAI, DECISIONS_OF_OPENAI
from xscore.providers.prices import PriceList
from xscore.providers.spec import LEXICAL, ModelSpec, parse_model_spec
from xscore.records.calls import Request, Stage, Usage
from xscore.scorer.repair import PackPrompt
from xscore.store.purposes import sweep_purposes, written_keys

_QUESTION = JobQuestion(number=0, name="purposes", turn_key="purposes", task="purposes")
_REPLY = """
    SELECT sum(output_tokens), sum(candidates) FROM call
    WHERE stage = ? AND model = ? AND outcome = 'ok' AND candidates > 0
"""
LEAST_SEEN = 50
"""Fewest past lines whose length counts."""


class PurposePlan(Struct, frozen=True, kw_only=True):
    """Purposes that are missing, and what they would cost."""

    writer: str
    """The model that writes, as `provider:model`."""
    host: str
    subjects: int
    """Files, classes and folders that may have one."""
    written: int
    under_way: int
    """Number of subjects in a batch that is not collected yet."""
    to_write: int
    requests: int
    input_tokens: int
    output_tokens: int
    batch_usd: Decimal | None
    """Cost as a batch; None if the model has no Batch price."""
    live_usd: Decimal | None
    prompts: tuple[PackPrompt, ...] = ()


def writer_of(parts: PipelineParts) -> JudgeDescription:
    """Return the chat model that writes: `batch.purpose_model`, or the judge's.

    Raises UsageError for one that writes no text.
    """
    named = parts.settings.batch.purpose_model
    spec = parse_model_spec(named) if named else parts.judge.spec
    # The decision model of OpenAI is a chat model as well.
    if spec.provider in (CHAT_OF_OPENAI, DECISIONS_OF_OPENAI):
        spec = ModelSpec("openai", spec.model)
    if spec.is_decision or spec == parse_model_spec(LEXICAL):
        raise UsageError(
            f"`{spec}` is not a chat model", hint="Name a chat model: --model provider:model."
        )
    return describe_model_judge(spec, parts.settings, store=parts.store)


def plan_purposes(parts: PipelineParts, writer: JudgeDescription) -> PurposePlan:
    """Bring the index up to date, and say what lacks a purpose. Sends nothing."""
    parts.observer.stage("index")
    parts.index(None)
    connection = parts.store.connection
    with database.transaction(connection) as opened:
        sweep_purposes(opened, now=parts.clock())
    places = all_places(parts.store)
    written = written_keys(connection)
    under_way = names_under_way(parts)
    missing = []
    for key, place in places.items():
        if key not in written and name_of(key) not in under_way:
            missing.append(place)
    subjects = read_subjects(parts.store, missing)
    prompts = _prompts_of(subjects)
    requests = [
        purpose_request(subjects_by_code(prompt.pieces), _model(writer)) for prompt in prompts
    ]
    per_line = _reply_tokens(parts, writer)
    output_tokens = [ceil(per_line * len(prompt.pieces)) for prompt in prompts]
    return PurposePlan(
        writer=str(writer.spec),
        host=writer.host,
        subjects=len(places),
        written=sum(key in written for key in places),
        under_way=sum(name_of(key) in under_way for key in places),
        to_write=len(subjects),
        requests=len(requests),
        input_tokens=sum(request.input_tokens for request in requests),
        output_tokens=sum(output_tokens),
        batch_usd=_cost(parts, writer, requests, output_tokens, by_batch=True),
        live_usd=_cost(parts, writer, requests, output_tokens, by_batch=False),
        prompts=tuple(prompts),
    )


def names_under_way(parts: PipelineParts) -> frozenset[str]:
    """Return the names of the subjects in unfinished jobs."""
    names: set[str] = set()
    for job in jobs_under_way(parts):
        for requests_state in ("planned", "sent"):
            in_state = job_rows.memories_in_state(
                parts.store.connection, job.id, requests_state
            )
            names.update(name for _, name in in_state)
    return frozenset(names)


def jobs_under_way(parts: PipelineParts) -> list[BatchJob]:
    """Return the jobs that write purposes and have not ended, newest first."""
    jobs = job_rows.read_batch_jobs(parts.store.connection)
    return [job for job in jobs if job.recipe.writes == PURPOSES and job.ended_at is None]


def save_purpose_job(parts: PipelineParts, writer: JudgeDescription, plan: PurposePlan) -> str:
    """Commit the job of a plan and return its id."""
    builder = estimating_builder(writer)
    recipe = JobRecipe(
        provider=writer.identity.provider,
        host=writer.host,
        model=builder.model,
        packs=builder.profile,
        reasons_from=0.0,
        sees="task",
        tests="cards",
        writes=PURPOSES,
    )
    job = BatchJob(
        id=job_rows.new_job_id(),
        created_at=parts.clock(),
        command="submit",
        digest=digest("purposes", *[prompt.pack for prompt in plan.prompts]),
        judge_spec=plan.writer,
        judge=PROMPT_KEY,
        recipe=recipe,
        max_usd=parts.settings.budget.max_usd,
        candidates=plan.subjects,
        cached=plan.written,
    )
    without_texts = [_without_texts(prompt) for prompt in plan.prompts]
    requests = [(_QUESTION.number, number) for number in range(len(plan.prompts))]
    with database.transaction(parts.store.connection) as connection:
        job_rows.add_job(connection, job, [_QUESTION], without_texts, requests)
    return job.id


def _prompts_of(subjects: Sequence[Subject]) -> list[PackPrompt]:
    prompts: list[PackPrompt] = []
    for pack in packs_of(subjects):
        pieces = tuple([part_of(subject) for subject in pack])
        name = digest("purposes", *[piece.content_hash for piece in pieces])
        prompts.append(PackPrompt(name, pieces))
    return prompts


def _without_texts(prompt: PackPrompt) -> PackPrompt:
    pieces = [job_rows.piece_without_text(piece.content_hash) for piece in prompt.pieces]
    return PackPrompt(prompt.pack, tuple(pieces))


def _model(writer: JudgeDescription) -> JudgeModel:
    return estimating_builder(writer).model


def _reply_tokens(parts: PipelineParts, writer: JudgeDescription) -> float:
    """Return the output tokens a line, as this model has written so far."""
    row = parts.store.connection.execute(_REPLY, (Stage.PURPOSE, writer.asked_model)).fetchone()
    output_tokens, lines = row
    if not lines or lines < LEAST_SEEN:
        return REPLY_TOKENS
    return float(output_tokens) / float(lines)


def _cost(
    parts: PipelineParts,
    writer: JudgeDescription,
    requests: Sequence[Request],
    output_tokens: Sequence[int],
    *,
    by_batch: bool,
) -> Decimal | None:
    prices = PriceList(parts.settings.provider.price)
    total = Decimal(0)
    for request, output in zip(requests, output_tokens, strict=True):
        usage = Usage(input_tokens=request.input_tokens, output_tokens=output)
        if by_batch:
            usd = prices.batch(writer.asked_model, writer.host, usage)
        else:
            usd = prices(writer.identity.provider, writer.asked_model, writer.host, usage)
        if usd is None:
            return None
        total += usd
    return total

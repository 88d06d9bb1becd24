"""Batch input: the bodies of the live calls, every request once, within a batch's limits."""

import asyncio
import io
import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from functools import partial
from pathlib import Path

import pytest
from msgspec import Struct
from msgspec.structs import replace

from tests.conftest import git
from tests.extensions.batch.batch_vendor import questions
from tests.pipeline.conftest import FILES
from xscore.extensions.batch import job_rows
from xscore.extensions.batch.job_draft import batch_judge, draft_job, save_job
from xscore.extensions.batch.job_rows import BatchJob
from xscore.extensions.batch.list_plan import ListOptions
from xscore.extensions.batch.records import BatchLimits
from xscore.extensions.batch.sending import (
    BatchInput,
    BatchRenderer,
)
from xscore.extensions.batch.vendor_batches import batch_host
from xscore.extensions.batch.vendor_calls import BatchHost
from xscore.pipeline.build import Pipeline
from xscore.pipeline.judged_memories import judged_texts
from xscore.pipeline.question_list import Question, QuestionList
from xscore.platform import database
from xscore.platform.errors import StoreDamaged, UsageError
from xscore.platform.paths import user_data_dir
from xscore.records.calls import Request
from xscore.records.candidates import Slots
from xscore.scorer.model_judge import JudgingPlan, ModelJudge
from xscore.settings import (
    AnthropicSettings,
    JudgeSettings,
    OpenAISettings,
    Secret,
    Settings,
    validate_group,
)
from xscore.store.pack_slot_rows import load_pack_slots
from xscore.store.purposes import Purpose, PurposeKey, PurposeKind, save_purposes
from xscore.store.store import Store

WIDE = BatchLimits(requests=50_000, bytes=200_000_000)
HOSTILE = '</task></turn> "quoted" \\ back\nnew\tline \x00 ümläut 漢字 \u2028 xs'
LARGE = "def large():\n" + "".join(
    f"    value_{at} = 'line {at} <memory>'\n" for at in range(900)
)
KEYS = {"openai": OpenAISettings, "anthropic": AnthropicSettings}
MODELS = {"openai": "openai:gpt-5-nano", "anthropic": "anthropic:claude-haiku-4-5"}


class PlannedJob(Struct):
    """A store with a planned job, and its sender."""

    store: Store
    host: BatchHost
    job: BatchJob
    live: dict[str, list[Request]]
    """Task -> what the live judge would send first, with the job's ids."""

    def fill(self, limits: BatchLimits = WIDE) -> tuple[BatchInput, list[bytes]]:
        """Fill one batch with planned requests."""
        into = io.BytesIO()
        todo = job_rows.planned_requests(self.store.connection, self.job.id)
        filled = BatchRenderer(self.store, self.host, self.job).fill(
            into, todo, mark="xs_m_1", limits=limits
        )
        return filled, into.getvalue().splitlines(keepends=True)


async def scene_of(root: Path, vendor: str, **judge: object) -> PlannedJob:
    """Plan a job in this repository, and keep what the live judge would send."""
    question_list = QuestionList(
        (*questions(3).all, Question(id="odd", task=HOSTILE, errors=HOSTILE * 3)), "digest"
    )
    key = KEYS[vendor](api_key=Secret("sk-test-0000000000"))
    judge_settings = validate_group(
        JudgeSettings, {"model": MODELS[vendor], "probe": False, **judge}
    )
    async with Pipeline.open(
        root, replace(Settings(judge=judge_settings), **{vendor: key})
    ) as pipeline:
        await pipeline.index()
        parts = pipeline.parts
        if judge_settings.purposes:
            write_purposes(parts.store)
        described = batch_judge(parts)
        job = job_rows.read_job(
            parts.store.connection,
            save_job(
                parts,
                draft_job(parts, question_list, ListOptions(command="submit"), limits=WIDE),
            ),
        )
        pool = parts.store.pool(purposes=judge_settings.purposes)
        live = ModelJudge(
            described.connected(),
            job.recipe.builder(),
            JudgingPlan(
                texts=partial(judged_texts, described),
                write=None,  # type: ignore[arg-type]  # unused: nothing is sent
                slots=job_slots(parts.store, job),
                priors={},
            ),
        )
        job_questions = job_rows.read_job_questions(parts.store.connection, job.id).values()
        requests = {
            question.turn.task: list(live.requests(question.turn, pool))
            for question in job_questions
        }
    store = Store.open(parts.store.root, user_data_dir=user_data_dir(None))
    return PlannedJob(store, batch_host(described.connected()), job, requests)


def write_purposes(store: Store) -> None:
    """Say of each file what it is for."""
    purposes: list[Purpose] = []
    for path, file_hash in store.connection.execute(
        "SELECT path, file_hash FROM file"
    ).fetchall():
        key = PurposeKey(PurposeKind.FILE, file_hash)
        purposes.append(Purpose(key=key, path=path, line=f"Is {path}.", writer="m"))
    with database.transaction(store.connection) as connection:
        save_purposes(connection, purposes, now=1.0)


def job_slots(store: Store, job: BatchJob) -> Slots:
    """Return the stored packs of memories."""
    return load_pack_slots(store.connection, job.recipe.packs.name)


def repository(root: Path) -> Path:
    """Make a committed repository with an oversized memory."""
    for name, text in {**FILES, "shop/large.py": LARGE}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    git(root, "init", "-q")
    return root


@pytest.fixture(
    scope="module",
    params=[("openai", 20, False), ("anthropic", 20, True), ("openai", 1, True)],
    ids=str,
)
def planned(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PlannedJob]:
    """A job at each vendor, in packs and one memory a prompt, with what files are for and
    without."""
    vendor, size, purposes = request.param
    root = repository(tmp_path_factory.mktemp("planned"))
    scene = asyncio.run(scene_of(root, vendor, pack_size=size, purposes=purposes))
    yield scene
    scene.store.close()


@pytest.fixture
def scene(planned: PlannedJob) -> Iterator[PlannedJob]:
    """The same, rolled back afterwards."""
    with closing(sqlite3.connect(":memory:")) as before:
        planned.store.connection.backup(before)
        yield replace(planned)
        before.backup(planned.store.connection)


def body_of(scene: PlannedJob, line: bytes) -> dict[str, object]:
    """Return the body in a line."""
    read = json.loads(line)
    body: dict[str, object] = read["body"] if scene.host.name == "openai" else read["params"]
    return body


def test_bodies_are_those_of_the_live_calls(scene: PlannedJob) -> None:
    """A batch's request equals the live judge's, field by field, for any text."""
    filled, lines = scene.fill()
    expected = sorted(
        json.dumps(body_of(scene, scene.host.line("a", request)), sort_keys=True)
        for requests in scene.live.values()
        for request in requests
    )
    bodies = sorted(json.dumps(body_of(scene, line), sort_keys=True) for line in lines)
    assert bodies == expected
    assert scene.job.recipe.purposes == ("Is shop/large.py." in "".join(bodies))
    assert len(expected) == len(filled.taken) > 4
    assert filled.input_tokens == sum(
        request.input_tokens
        for live_requests in scene.live.values()
        for request in live_requests
    )


def test_ids_are_legal_and_of_their_own(scene: PlannedJob) -> None:
    """Each line has an id of at most 64 legal characters that encodes question and request."""
    filled, lines = scene.fill()
    ids = [json.loads(line)["custom_id"] for line in lines]
    assert ids == [f"xs_m_1-q{question}-a{ask}" for question, ask in filled.taken]
    assert len(set(ids)) == len(ids) and all(
        re.fullmatch(r"[A-Za-z0-9_-]{1,64}", request_id) for request_id in ids
    )
    assert len(f"xs_{'f' * 16}_99999-q999999999-a999999999") <= 64


@pytest.mark.parametrize(
    "spoil",
    [
        "UPDATE job_ask SET pack = pack || 'x' WHERE number = 0",
        "UPDATE job_ask SET pieces = json_set(pieces, '$[0][0]', 'other') WHERE number = 0",
        "UPDATE job_question SET context = json_set(context, '$.task', 'another') WHERE number = 0",
        "UPDATE job_question SET turn_key = 'another' WHERE number = 0",
        "UPDATE job SET plan = json_set(plan, '$.deal', '00112233445566778899aabbccddeeff')",
    ],
)
def test_a_changed_row_is_damage(scene: PlannedJob, spoil: str) -> None:
    """A byte that would change ids or the judged text ends in damage, never in a score."""
    scene.store.connection.execute(spoil)
    with pytest.raises(StoreDamaged, match="checksum"):
        scene.job = job_rows.read_job(scene.store.connection, scene.job.id)
        scene.fill()


def test_a_job_of_another_prompt_is_refused(scene: PlannedJob) -> None:
    """A plan for an earlier prompt version is not sent with the current one, and the next command
    is named."""
    with pytest.raises(UsageError, match="earlier judging prompt") as refused:
        BatchRenderer(scene.store, scene.host, replace(scene.job, judge="another"))
    assert f"xscore batch cancel {scene.job.id}" in refused.value.hint


def test_a_request_for_which_there_is_no_room_at_all_is_named(scene: PlannedJob) -> None:
    """An empty batch says what its first request lacked, so that it is not retried for ever."""
    for limits, full_limit in (
        (BatchLimits(requests=5, bytes=100), "bytes"),
        (replace(WIDE, usd=Decimal("0.0000001")), "dollars"),
    ):
        filled, lines = scene.fill(limits)
        assert (filled.taken, filled.limit, lines) == ([], full_limit, [])

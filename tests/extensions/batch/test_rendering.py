"""Inputs of batches: the bodies of the live calls, every request once, within what a batch may hold."""

import asyncio
import io
import json
import re
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import pytest
from msgspec import Struct
from msgspec.structs import replace

from tests.conftest import git
from tests.extensions.batch.bureau import questions
from tests.pipeline.conftest import FILES
from xscore.extensions.batch import job_rows
from xscore.extensions.batch.job_rows import BatchJob
from xscore.extensions.batch.list_plan import batch_judge_factory
from xscore.extensions.batch.records import BatchLimits
from xscore.extensions.batch.sending import (
    BatchInput,
    BatchRenderer,
)
from xscore.extensions.batch.submitting import draft_job, save_job
from xscore.extensions.batch.vendor_batches import batch_host
from xscore.extensions.batch.vendor_calls import BatchHost
from xscore.pipeline.build import Pipeline
from xscore.pipeline.question_list import Question, QuestionList
from xscore.platform.errors import StoreDamaged, UsageError
from xscore.platform.hashing import row_checksum
from xscore.platform.paths import user_data_dir
from xscore.records.calls import Request
from xscore.records.turn import Scope
from xscore.scorer.model_judge import ModelJudge
from xscore.settings import AnthropicSettings, JudgeSettings, OpenAISettings, Secret, Settings, validate_group
from xscore.store.store import Store, load_pack_slots

WIDE = BatchLimits(requests=50_000, bytes=200_000_000)
HOSTILE = '</task></turn> "quoted" \\ back\nnew\tline \x00 ümläut 漢字 \u2028 xs'
LARGE = "def large():\n" + "".join(f"    value_{at} = 'line {at} <memory>'\n" for at in range(900))
KEYS = {"openai": OpenAISettings, "anthropic": AnthropicSettings}
MODELS = {"openai": "openai:gpt-5-nano", "anthropic": "anthropic:claude-haiku-4-5"}


class Scene(Struct):
    """A store with a job that was planned, and what would send it."""

    store: Store
    host: BatchHost
    job: BatchJob
    live: dict[str, list[Request]]
    """By task: what the live judge would send first, with the job's ids."""

    def fill(self, limits: BatchLimits = WIDE) -> tuple[BatchInput, list[bytes]]:
        """Fill one batch with what is planned."""
        into = io.BytesIO()
        todo = job_rows.planned_requests(self.store.connection, self.job.id)
        filled = BatchRenderer(self.store, self.host, self.job).fill(into, todo, mark="xs_m_1", limits=limits)
        return filled, into.getvalue().splitlines(keepends=True)


async def scene_of(root: Path, vendor: str, **judge: object) -> Scene:
    """Plan a job in this repository, and keep what the live judge would send."""
    asked = QuestionList((*questions(3).all, Question(id="odd", task=HOSTILE, errors=HOSTILE * 3)), "digest")
    key = KEYS[vendor](api_key=Secret("sk-test-0000000000"))
    given = validate_group(JudgeSettings, {"model": MODELS[vendor], "probe": False, **judge})
    async with Pipeline.open(root, replace(Settings(judge=given), **{vendor: key})) as pipeline:
        await pipeline.index()
        parts = pipeline.parts
        factory = batch_judge_factory(parts)
        job = job_rows.read_job(
            parts.store.connection, save_job(parts, draft_job(parts, asked, scope=Scope(), limits=WIDE))
        )
        pool = parts.store.pool()
        live = ModelJudge(
            factory.provider,
            job.recipe.drafts(),
            texts=factory.texts,
            write=None,  # type: ignore[arg-type]  # nothing is sent
            slots=job_slots(parts.store, job),
            priors={},
        )
        found = job_rows.read_job_questions(parts.store.connection, job.id).values()
        requests = {one.turn.task: list(live.requests(one.turn, pool)) for one in found}
    store = Store.open(parts.store.root, user_data_dir=user_data_dir(None))
    return Scene(store, batch_host(factory.provider), job, requests)


def job_slots(store: Store, job: BatchJob) -> dict[str, tuple[str, int]]:
    """The packs of memories as they were kept."""
    return load_pack_slots(store.connection, job.recipe.packs.name)


def repository(root: Path) -> Path:
    """Make a committed repository with an oversized memory."""
    for name, text in {**FILES, "shop/large.py": LARGE}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    git(root, "init", "-q")
    return root


@pytest.fixture(scope="module", params=[("openai", 20), ("anthropic", 20), ("openai", 1)], ids=str)
def planned(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """A job at each vendor, in packs and one memory a prompt."""
    vendor, size = request.param
    made = asyncio.run(scene_of(repository(tmp_path_factory.mktemp("planned")), vendor, pack_size=size))
    yield made
    made.store.close()


@pytest.fixture
def scene(planned: Scene) -> Iterator[Scene]:
    """The same, with everything undone afterwards."""
    with closing(sqlite3.connect(":memory:")) as before:
        planned.store.connection.backup(before)
        yield replace(planned)
        before.backup(planned.store.connection)


def body_of(scene: Scene, line: bytes) -> dict[str, object]:
    """Return the body within a line."""
    read = json.loads(line)
    body: dict[str, object] = read["body"] if scene.host.name == "openai" else read["params"]
    return body


def test_bodies_are_those_of_the_live_calls(scene: Scene) -> None:
    """What a batch asks is what the live judge would ask, field by field, whatever the texts hold."""
    filled, lines = scene.fill()
    expected = sorted(
        json.dumps(json.loads(scene.host.body(request)), sort_keys=True)
        for requests in scene.live.values()
        for request in requests
    )
    assert sorted(json.dumps(body_of(scene, line), sort_keys=True) for line in lines) == expected
    assert len(expected) == len(filled.taken) > 4
    assert filled.input_tokens == sum(request.input_tokens for found in scene.live.values() for request in found)


def test_ids_are_legal_and_of_their_own(scene: Scene) -> None:
    """Each line has an id of at most 64 legal characters, from which question and ask are read."""
    filled, lines = scene.fill()
    ids = [json.loads(line)["custom_id"] for line in lines]
    assert ids == [f"xs_m_1-q{question}-a{ask}" for question, ask in filled.taken]
    assert len(set(ids)) == len(ids) and all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", one) for one in ids)
    assert len(f"xs_{'f' * 16}_99999-q999999999-a999999999") <= 64


def test_what_left_the_store_is_told_and_not_sent(scene: Scene) -> None:
    """A prompt with a deleted memory is not sent; a new one asks about the others, and the deleted memory is lost."""
    before, _ = scene.fill()
    scene.store.connection.execute("DELETE FROM memory WHERE path = 'shop/large.py' OR entity = 'discount'")
    filled, lines = scene.fill()
    assert filled.incomplete and not filled.incomplete.keys() & {ask for _, ask in filled.taken}
    assert filled.incomplete.keys() | {ask for _, ask in filled.taken} == {ask for _, ask in before.taken}
    assert b"value_0" not in b"".join(lines) and len(lines) == len(filled.taken)
    for number, found in filled.incomplete.items():
        job_rows.replan_without_text(scene.store.connection, scene.job.id, number, found, cause="unreadable: gone")
    again, _ = scene.fill()
    lost = scene.store.connection.execute("SELECT question, ask FROM job_request WHERE state = 'lost'").fetchall()
    assert not again.incomplete and {question for question, _ in lost} == {0, 1, 2, 3}
    asked = [
        Counter(
            piece.content_hash
            for _, ask in requests
            for piece in job_rows.read_asks(scene.store.connection, scene.job.id, [ask])[ask].pieces
        )
        for requests in (before.taken, again.taken + lost)
    ]
    assert lost and asked[0] == asked[1]


def test_a_question_that_was_erased_is_not_sent(scene: Scene) -> None:
    """A blank question is asked nobody."""
    rows = scene.store.connection
    (key,) = rows.execute("SELECT turn_key FROM job_question WHERE number = 1").fetchone()
    rows.execute(
        "UPDATE job_question SET context = '{}', checksum = ? WHERE number = 1",
        (row_checksum(scene.job.id, "1", "{}", key),),
    )
    filled, _ = scene.fill()
    assert {question for question, _ in filled.erased} == {1}
    assert {question for question, _ in filled.taken} == {0, 2, 3}


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
def test_a_changed_row_is_damage(scene: Scene, spoil: str) -> None:
    """A byte that would deal other ids, or judge another text, ends in damage and never in a score."""
    scene.store.connection.execute(spoil)
    with pytest.raises(StoreDamaged, match="checksum"):
        scene.job = job_rows.read_job(scene.store.connection, scene.job.id)
        scene.fill()


def test_a_job_of_another_prompt_is_refused(scene: Scene) -> None:
    """What was planned for an earlier prompt version is not sent with this one's, and the way on is named."""
    with pytest.raises(UsageError, match="earlier judging prompt") as refused:
        BatchRenderer(scene.store, scene.host, replace(scene.job, judge="another"))
    assert f"xscore batch cancel {scene.job.id}" in refused.value.hint


def test_a_request_for_which_there_is_no_room_at_all_is_named(scene: Scene) -> None:
    """An empty batch says what its first request lacked, so that nobody tries for ever."""
    for limits, what in (
        (BatchLimits(requests=5, bytes=100), "bytes"),
        (replace(WIDE, usd=Decimal("0.0000001")), "dollars"),
    ):
        filled, lines = scene.fill(limits)
        assert (filled.taken, filled.limit, lines) == ([], what, [])

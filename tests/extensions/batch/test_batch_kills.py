"""Kills at every step of the batch state machine: after each, the next process ends as if none had
died.

The end is compared with that of an undisturbed run: judgments with their seals, the ledger, the
states of requests, and what ran at the vendor.
"""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from tests.conftest import store_dir
from tests.extensions.batch.batch_vendor import BatchVendor, judgments, questions, run_vendor
from tests.extensions.batch.dying_batch import ForkServer, JobRun
from tests.servers.batching import BatchTable
from tests.servers.faults import Fault
from tests.waiting import rows

AN_HOUR = 3_600.0
PLACES = [(where, when) for where in ("commit", "call") for when in ("before", "after")]
MOST = 400


@pytest.fixture(params=["openai", pytest.param("anthropic", marks=pytest.mark.nightly)])
def batch_vendor(request: pytest.FixtureRequest) -> Iterator[BatchVendor]:
    """A vendor whose replies to whole packs of one question always omit a memory."""
    with run_vendor(request.param, batch={"max_requests": 2}) as running:
        yield running


@pytest.fixture(scope="module")
def fork_server() -> Iterator[ForkServer]:
    """The forking process."""
    with ForkServer() as running:
        yield running


class PlannedJob(Struct, frozen=True):
    """A planned, unsent job that can be restored any number of times."""

    batch_vendor: BatchVendor
    root: Path
    life: JobRun
    kept: Path

    def begin(self) -> None:
        """Restore store and vendor to the planned job."""
        store = store_dir(self.root)
        shutil.rmtree(store)
        shutil.copytree(self.kept, store)
        server = self.batch_vendor.server
        server.batches = BatchTable()
        server.batches.clock = lambda: self.batch_vendor.now + 10 * AN_HOUR
        server.reset()
        getattr(server, "files", {}).clear()
        server.misbehave(Fault.MISSING_ID, times=100_000, when=_is_whole_pack_of_the_first)

    def end(self) -> dict[str, Any]:
        """Return everything at the end of the job."""
        book = self.batch_vendor.book
        return {
            "judgments": judgments(self.root),
            "ledger": sorted(rows(self.root, f"SELECT {LEDGER} FROM call")),
            "requests": sorted(rows(self.root, REQUESTS)),
            "spending": rows(self.root, "SELECT span, spent FROM spending ORDER BY span"),
            "aside": rows(self.root, "SELECT * FROM reservation"),
            "ran": sorted(book.ran.values()),
            "created twice": (
                book.created
                - rows(self.root, "SELECT count(*) FROM batch WHERE vendor_id <> ''")[0][0]
            ),
            "open": rows(self.root, "SELECT * FROM job WHERE ended_at IS NULL OR runner <> ''"),
        }


LEDGER = (
    "stage, model, outcome, candidates, input_tokens, output_tokens, cost, cost_live, estimated,"
    " turn_id"
)
REQUESTS = (
    "SELECT question, pack, rung, pieces, state, cause, tries FROM job_request"
    " JOIN job_ask ON job_ask.job = job_request.job AND number = ask"
)


def _is_whole_pack_of_the_first(body: dict[str, Any]) -> bool:
    text = json.dumps(body)
    return "review 0:" in text and text.count("<memory id=") > 10


async def scene_of(batch_vendor: BatchVendor, root: Path, kept: Path) -> PlannedJob:
    """Plan a job of three questions and save the store."""
    job = await batch_vendor.submit(root, questions(3))
    shutil.copytree(store_dir(root), kept)
    home, url = os.environ["HOME"], batch_vendor.server.url
    life = JobRun(
        root=str(root),
        home=home,
        vendor=batch_vendor.name,
        url=url,
        job=job,
        now=batch_vendor.now,
        batch=batch_vendor.batch,
    )
    return PlannedJob(batch_vendor, root, life, kept)


def deaths(scene: PlannedJob, fork_server: ForkServer, where: str, when: str) -> int:
    """Die at the n-th step, continue in another process, compare; return the number of deaths
    before one survived."""
    scene.begin()
    assert not fork_server.run(scene.life)
    undisturbed = scene.end()
    assert undisturbed["ran"] == [1] * len(undisturbed["ledger"]) and not undisturbed["aside"]
    assert [line[4] for line in undisturbed["requests"]] == [
        "answered"
    ] * 4 and not undisturbed["open"]
    for n in range(1, MOST):
        scene.begin()
        has_died = fork_server.run(replace(scene.life, where=where, when=when, n=n))
        if not has_died:
            return n
        assert not fork_server.run(replace(scene.life, now=scene.life.now + AN_HOUR)), (
            where,
            when,
            n,
        )
        assert scene.end() == undisturbed, (where, when, n)
    return MOST


@pytest.mark.verify
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize(("where", "when"), PLACES)
async def test_no_death_leaves_anything_behind(
    shop: Path,
    batch_vendor: BatchVendor,
    fork_server: ForkServer,
    tmp_path: Path,
    where: str,
    when: str,
) -> None:
    """A process may die before or after any commit and any call: the resumed result is the same."""
    scene = await scene_of(batch_vendor, shop, tmp_path / "kept")
    lives = deaths(scene, fork_server, where, when)
    assert 10 < lives < MOST

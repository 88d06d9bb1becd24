"""What entering the results of 50,000 requests takes, in shuffled order: one memory a request, and packs of 20.

The job is written to a real store, and results come from a host in this process that shuffles them, so that only our
own side is measured: matching, reading replies, judgments with seals, the ledger, the caps, the states.

    python benchmarks/batch_collect.py [1] [20]
"""

import asyncio
import json
import random
import resource
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import IO

from xscore.cache.keys import judge_key
from xscore.extensions.batch import batch_rows, job_rows
from xscore.extensions.batch.batch_rows import Batch
from xscore.extensions.batch.job_rows import BatchJob, JobQuestion, JobRecipe
from xscore.extensions.batch.machine import advance_at_vendor
from xscore.platform import database
from xscore.platform.hashing import digest
from xscore.platform.paths import find_root
from xscore.records import Capability, Completion, Finish, Request, Turn, Usage
from xscore.records.batch import BatchLimits, BatchResult, BatchState, RequestOutcome, VendorBatch
from xscore.scorer.drafts import JudgeModel, shuffled_ids
from xscore.scorer.packs import choose_profile
from xscore.scorer.repair import MemoryPart, PackPrompt
from xscore.settings import Settings
from xscore.store.store import Store

REQUESTS = 50_000
QUESTIONS = 100
NOW = 1_800_000_000.0


class Returning:
    """A host whose one batch has ended."""

    name, host = "openai", "api.openai.com"
    limits = BatchLimits(requests=50_000, bytes=200_000_000)

    def __init__(self, results: Sequence[BatchResult]) -> None:
        self._results = results

    def adopt(self, capability: Capability) -> None:
        """Nothing is rendered."""

    def line(self, custom_id: str, body: bytes) -> bytes:
        """Nothing is rendered."""
        return b""

    def body(self, request: Request) -> bytes:
        """Nothing is rendered."""
        return b""

    async def upload(self, lines: IO[bytes], *, mark: str) -> str:
        """Nothing is sent."""
        return ""

    async def create(self, lines: IO[bytes], *, mark: str, file_id: str, requests: int) -> VendorBatch:
        """Nothing is sent."""
        return await self.look(file_id)

    async def find(self, *, mark: str, since: float, requests: int) -> Sequence[VendorBatch]:
        """Nothing is in doubt."""
        return ()

    async def find_file(self, *, mark: str, since: float) -> str:
        """Nothing is in doubt."""
        return ""

    async def look(self, vendor_id: str) -> VendorBatch:
        """It has ended."""
        return VendorBatch(vendor_id=vendor_id, state=BatchState.ENDED, status="completed", created_at=NOW, requests=0)

    async def cancel(self, vendor_id: str) -> VendorBatch:
        """It has ended."""
        return await self.look(vendor_id)

    async def results(self, seen: VendorBatch, *, model: str) -> AsyncGenerator[BatchResult, None]:
        """Yield what there is."""
        for result in self._results:
            yield result

    async def aclose(self) -> None:
        """Nothing is open."""


def planned(store: Store, pack_size: int) -> tuple[BatchJob, list[PackPrompt]]:
    """Write a job of 50,000 requests: questions times asks that they share."""
    recipe = JobRecipe(
        provider="openai",
        host="api.openai.com",
        model=JudgeModel(name="gpt-4.1"),
        packs=choose_profile(cache_floor=0, context_tokens=128_000, pack_size=pack_size, pack_tokens=None),
        reasons_from=0.3,
        context="task",
        tests="cards",
    )
    pieces = [
        MemoryPart(one := digest("c", str(n)), "", "", "", "", one) for n in range(REQUESTS // QUESTIONS * pack_size)
    ]
    asks = [
        PackPrompt(f"p_{at:016x}", tuple(pieces[at * pack_size : (at + 1) * pack_size]))
        for at in range(REQUESTS // QUESTIONS)
    ]
    questions = [
        JobQuestion(
            number=n,
            name=f"q{n}",
            turn=Turn(task=f"t {n}"),
            turn_key=digest("t", str(n)),
            candidates=len(pieces),
            cached=0,
        )
        for n in range(QUESTIONS)
    ]
    job = BatchJob(
        id=job_rows.new_job_id(),
        created_at=NOW,
        command="submit",
        digest="d",
        judge_spec="openai:gpt-4.1",
        judge=judge_key(recipe.identity()),
        recipe=recipe,
        max_usd=Decimal(100_000),
        candidates=len(pieces) * QUESTIONS,
        cached=0,
    )
    requests = [(question, ask) for ask in range(len(asks)) for question in range(QUESTIONS)]
    batch = Batch(
        job=job.id, number=1, mark=batch_rows.batch_mark(job.id, 1), state="marked", marked_at=NOW,
        requests=len(requests), bytes=1, input_tokens=1,
    )  # fmt: skip
    with database.transaction(store.connection) as connection:
        job_rows.add_job(connection, job, questions, asks, requests)
        batch_rows.insert_batch(connection, batch, requests)
        seen = VendorBatch(vendor_id="b1", state=BatchState.ENDED, status="completed", created_at=NOW, requests=0)
        batch_rows.record_created(connection, batch, seen)
    return job, asks


def shuffled(store: Store, job: BatchJob, asks: Sequence[PackPrompt], pack_size: int) -> list[BatchResult]:
    """Answer every request, in no order; one score in twenty has a reason."""
    dice = random.Random(6)
    usage = Usage(input_tokens=2_500, output_tokens=6 * pack_size + 20)
    codes = [shuffled_ids(len(ask.pieces), secret=store.secret, pack=ask.pack) for ask in asks]
    found = []
    for ask in range(len(asks)):
        for question in range(QUESTIONS):
            scores = {code: dice.randrange(0, 101) if dice.random() < 0.05 else 3 for code in codes[ask]}
            reasons = [{"id": code, "reason": "it adds the prices up"} for code, score in scores.items() if score >= 30]
            text = json.dumps({"scores": scores, "reasons": reasons})
            found.append(
                BatchResult(
                    custom_id=f"{batch_rows.batch_mark(job.id, 1)}-q{question}-a{ask}",
                    fate=RequestOutcome.ANSWERED,
                    completion=Completion(text=text, finish=Finish.STOP, usage=usage, model="gpt-4.1"),
                )
            )
    dice.shuffle(found)
    return found


def anchor_s() -> float:
    """CPU of a loop that does nothing of ours: reading and writing 200,000 small objects as JSON."""
    began = time.process_time()
    for number in range(200_000):
        json.loads(json.dumps({"scores": {"ka": number, "qe": 3}, "reasons": []}))
    return time.process_time() - began


async def measure(pack_size: int) -> None:
    """Collect one job and print what it took."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        with Store.open(find_root(root), user_data_dir=root / "user") as store:
            job, asks = planned(store, pack_size)
            host = Returning(shuffled(store, job, asks, pack_size))
            anchor = anchor_s()
            before, cpu, wall = _peak_mb(), time.process_time(), time.perf_counter()
            standing = await advance_at_vendor(store, Settings(), host, job.id, clock=lambda: NOW)
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            assert standing.judged == REQUESTS * pack_size and not standing.is_pending, standing
            size = store.path.stat().st_size / 1e6
            print(
                f"pack {pack_size:>2}: {REQUESTS:,} results, {standing.judged:,} judgments: {cpu:.1f} s CPU,"
                f" {wall:.1f} s, {cpu / standing.judged * 1e6:.1f} us a judgment; peak {_peak_mb():.0f} MB"
                f" ({before:.0f} before); store {size:.0f} MB; {cpu / anchor:.1f} times the anchor ({anchor:.2f} s)"
            )


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_000


if __name__ == "__main__":
    for size in [int(given) for given in sys.argv[1:]] or [1, 20]:
        asyncio.run(measure(size))

"""A loopback vendor's Batch API, a list of questions about the shop, passes over its job, and a
manual clock."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct, field
from msgspec.structs import replace

from tests.conftest import store_file
from tests.servers.anthropic_batches import AnthropicBatchServer
from tests.servers.batching import BatchTable
from tests.servers.openai_batches import OpenAIBatchServer
from tests.servers.scoring import table
from tests.waiting import rows
from xscore.extensions.batch import batch_rows
from xscore.extensions.batch.job_advance import advance_job
from xscore.extensions.batch.job_draft import draft_job, save_job
from xscore.extensions.batch.list_plan import ListOptions
from xscore.extensions.batch.records import BatchLimits, JobStatus
from xscore.pipeline.build import Pipeline
from xscore.pipeline.question_list import Question, QuestionList
from xscore.platform import database
from xscore.settings import (
    AnthropicSettings,
    BudgetSettings,
    JudgeSettings,
    OpenAISettings,
    PriceRule,
    PrimarySettings,
    ProviderSettings,
    Settings,
    validate_group,
)
from xscore.settings.model import BatchSettings
from xscore.store.opening import connect_store

SCORES = {
    "shop/prices.py::total": 95,
    "shop/prices.py::discount": 80,
    "shop/cart.py::Cart.add": 75,
}
VENDORS = ("openai", "anthropic")
WIDE = BatchLimits(requests=50_000, bytes=200_000_000)
Server = OpenAIBatchServer | AnthropicBatchServer


def questions(count: int, *, addition: str = "") -> QuestionList:
    """Return N different questions."""
    return QuestionList(
        tuple(
            Question(id=f"q{at}", task=f"review {at}: is the discount taken once?{addition}")
            for at in range(count)
        ),
        f"digest of {count}{addition}",
    )


class BatchVendor(Struct):
    """One vendor at loopback, and the jobs at it."""

    name: str
    server: Server
    now: float = 1_800_000_000.0
    judge: dict[str, Any] = field(default_factory=dict)
    batch: dict[str, Any] = field(default_factory=dict)
    budget: dict[str, Any] = field(default_factory=dict)
    price: PriceRule = "auto"

    def __post_init__(self) -> None:
        self.book.clock = self.clock

    @property
    def book(self) -> BatchTable:
        """What the vendor keeps."""
        return self.server.batches

    def clock(self) -> float:
        """Tell the time, which goes on only when it is told to."""
        return self.now

    @property
    def settings(self) -> Settings:
        """Settings that lead to this vendor."""
        settings = settings_at(
            self.name, self.server.url, judge=self.judge, batch=self.batch, budget=self.budget
        )
        return replace(settings, provider=ProviderSettings(self.price))

    async def submit(self, root: Path, question_list: QuestionList) -> str:
        """Plan and commit a job; nothing is sent."""
        async with Pipeline.open(root, self.settings, clock=self.clock) as pipeline:
            await pipeline.index()
            return save_job(
                pipeline.parts,
                draft_job(
                    pipeline.parts, question_list, ListOptions(command="submit"), limits=WIDE
                ),
            )

    async def advance(self, root: Path, job: str, **how: Any) -> JobStatus:
        """Take the job one pass further, with connections and a store of its own."""
        async with Pipeline.open(root, self.settings, clock=self.clock) as pipeline:
            return await advance_job(
                pipeline.store, self.settings, job, clock=self.clock, **how
            )

    def stop(self, root: Path, job: str) -> None:
        """Cancel the job in the store, as another process does."""
        with (
            closing(connect_store(store_file(root))) as connection,
            database.transaction(connection),
        ):
            batch_rows.stop_job(connection, job, at=self.now)

    async def finish(
        self, root: Path, job: str, *, passes: int = 40, step_s: float = 60.0
    ) -> JobStatus:
        """Advance until the job has ended, a minute between two passes."""
        for _ in range(passes):
            standing = await self.advance(root, job)
            if not standing.is_pending:
                return standing
            self.now += step_s
        raise AssertionError(f"the job does not end: {standing}")


def settings_at(vendor: str, url: str, **groups: dict[str, Any]) -> Settings:
    """Settings that lead to this vendor at this address."""
    model = "openai:judge-2" if vendor == "openai" else "anthropic:claude-haiku-5-5"
    return Settings(
        judge=validate_group(
            JudgeSettings, {"model": model, "probe": False, **groups.get("judge", {})}
        ),
        primary=PrimarySettings(model=model),
        openai=OpenAISettings(base_url=url) if vendor == "openai" else OpenAISettings(),
        anthropic=AnthropicSettings(base_url=url)
        if vendor == "anthropic"
        else AnthropicSettings(),
        batch=validate_group(BatchSettings, groups.get("batch", {})),
        budget=validate_group(BudgetSettings, groups.get("budget", {})),
    )


@contextmanager
def run_vendor(vendor: str, **knobs: Any) -> Iterator[BatchVendor]:
    """Run a vendor."""
    server: Server
    make = OpenAIBatchServer if vendor == "openai" else AnthropicBatchServer
    with make(score=table(SCORES)) as server:
        yield BatchVendor(vendor, server, **knobs)


@pytest.fixture
def batch_vendor() -> Iterator[BatchVendor]:
    """A vendor."""
    with run_vendor("openai") as running:
        yield running


def judgments(root: Path) -> set[tuple[Any, ...]]:
    """Every judgment with its turn, content, score, reason and checksum."""
    return set(
        rows(
            root,
            "SELECT turn_key, query.judge, hash, score, pack, position, checksum, text FROM"
            " judgment JOIN query ON query.id = judgment.query_id JOIN content ON content.id ="
            " judgment.content_id LEFT JOIN reason ON reason.query_id = judgment.query_id AND"
            " reason.content_id = judgment.content_id",
        )
    )

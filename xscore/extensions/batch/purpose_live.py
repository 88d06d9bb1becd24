"""Purposes by live calls: for a local model, or a host without a Batch API.

Each reply is kept before the next call is made, so a kill loses none that was paid for. Trade-off:
calls are made a few at a time, whatever the host could take.
"""

import asyncio
from collections.abc import Iterator
from decimal import Decimal

from msgspec import Struct

from xscore.extensions.batch.purpose_jobs import purposes_of, subjects_by_code
from xscore.extensions.batch.purpose_plan import PurposePlan
from xscore.extensions.batch.purpose_prompts import purpose_request, read_lines
from xscore.pipeline.judge_description import JudgeDescription
from xscore.pipeline.judge_prompts import estimating_builder
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.resources import open_resources
from xscore.platform import database
from xscore.platform.errors import BudgetExhausted, ProviderError
from xscore.platform.processes import random_hex
from xscore.providers.provider import Provider
from xscore.providers.spec import import_http_client
from xscore.records.calls import Answerer, Stage
from xscore.scorer.repair import PackPrompt
from xscore.store.purposes import save_purposes

AT_ONCE = 4
NONSENSE_IN_A_ROW = 2
"""Stop calling after this many replies without a readable line."""


class LivePurposes(Struct, frozen=True, kw_only=True):
    """The result of writing purposes by live calls."""

    calls: int
    written: int
    refused: int
    """Number of lines that their sources do not support."""
    cost_usd: Decimal | None
    problem: str
    """Why the run ended early."""
    is_over_budget: bool


async def write_live(
    parts: PipelineParts, writer: JudgeDescription, plan: PurposePlan
) -> LivePurposes:
    """Ask for every missing purpose, and keep what comes. Raises StoreError."""
    spec = writer.spec
    await import_http_client(spec.provider)
    async with open_resources(
        parts.store, parts.settings, turn_id=f"u_{random_hex(16)}", note=parts.observer.note
    ) as resources:
        provider = resources.answering_provider(
            Answerer(spec.provider, spec.model, writer.host)
        )
        writing = _Writing(parts, writer, provider, iter(plan.prompts))
        await asyncio.gather(*[writing.write_some() for _ in range(AT_ONCE)])
        return writing.result(resources.usage.spent(Stage.PURPOSE).cost_usd)


class _Writing:
    """The state of a run, shared by the tasks that make its calls."""

    def __init__(
        self,
        parts: PipelineParts,
        writer: JudgeDescription,
        provider: Provider,
        prompts: Iterator[PackPrompt],
    ) -> None:
        self._parts = parts
        self._writer = writer
        self._provider = provider
        self._prompts = prompts
        self._calls = 0
        self._written = 0
        self._refused = 0
        self._unreadable_in_a_row = 0
        self._problem = ""
        self._is_over_budget = False

    def result(self, cost_usd: Decimal | None) -> LivePurposes:
        """Return the counts so far, as a result."""
        return LivePurposes(
            calls=self._calls,
            written=self._written,
            refused=self._refused,
            cost_usd=cost_usd,
            problem=self._problem,
            is_over_budget=self._is_over_budget,
        )

    async def write_some(self) -> None:
        """Send one prompt after the other, until none is left or a failure stops all tasks."""
        for prompt in self._prompts:
            if self._problem:
                return
            try:
                await self._write_prompt(prompt)
            except BudgetExhausted as error:
                self._problem = error.message
                self._is_over_budget = True
            except ProviderError as error:
                self._problem = error.message

    async def _write_prompt(self, prompt: PackPrompt) -> None:
        subjects = subjects_by_code(prompt.pieces)
        request = purpose_request(subjects, estimating_builder(self._writer).model)
        completion = await self._provider.complete(request)
        self._calls += 1
        lines = read_lines(completion.text, subjects)
        if lines is None:
            self._unreadable_in_a_row += 1
            if self._unreadable_in_a_row >= NONSENSE_IN_A_ROW:
                self._problem = f"{self._writer.spec} returned no lines that can be read"
            return
        self._unreadable_in_a_row = 0
        purposes = purposes_of(lines, subjects, writer=str(self._writer.spec))
        with database.transaction(self._parts.store.connection) as connection:
            save_purposes(connection, purposes, now=self._parts.clock())
        kept = sum(bool(purpose.line) for purpose in purposes)
        self._written += kept
        self._refused += len(purposes) - kept

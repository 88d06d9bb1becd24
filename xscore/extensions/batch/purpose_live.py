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
from xscore.providers.spec import import_for_judging
from xscore.records.calls import Answerer, Stage
from xscore.scorer.repair import PackPrompt
from xscore.store.purposes import save_purposes

AT_ONCE = 4
NONSENSE_IN_A_ROW = 2
"""Stop calling after this many replies without a readable line."""


class LivePurposes(Struct, kw_only=True):
    """What came of it."""

    calls: int = 0
    written: int = 0
    refused: int = 0
    """Lines that their sources do not bear out."""
    cost_usd: Decimal | None = Decimal(0)
    problem: str = ""
    """Why it ended early."""
    is_over_budget: bool = False
    unreadable_in_a_row: int = 0


async def write_live(
    parts: PipelineParts, writer: JudgeDescription, plan: PurposePlan
) -> LivePurposes:
    """Ask for every missing purpose, and keep what comes. Raises StoreError."""
    done = LivePurposes()
    spec = writer.spec
    await import_for_judging(spec.provider)
    async with open_resources(
        parts.store, parts.settings, turn_id=f"u_{random_hex(16)}", note=parts.observer.note
    ) as resources:
        provider = resources.answering_provider(Answerer(spec.provider, spec.model, writer.host))
        prompts = iter(plan.prompts)
        await asyncio.gather(
            *[_write_some(parts, writer, provider, prompts, done) for _ in range(AT_ONCE)]
        )
        done.cost_usd = resources.usage.spent(Stage.PURPOSE).cost_usd
    return done


async def _write_some(
    parts: PipelineParts,
    writer: JudgeDescription,
    provider: Provider,
    prompts: Iterator[PackPrompt],
    done: LivePurposes,
) -> None:
    """Write one prompt after the other, until none is left or something stops all."""
    for prompt in prompts:
        if done.problem:
            return
        try:
            await _write_prompt(parts, writer, provider, prompt, done)
        except BudgetExhausted as error:
            done.problem = error.message
            done.is_over_budget = True
        except ProviderError as error:
            done.problem = error.message


async def _write_prompt(
    parts: PipelineParts,
    writer: JudgeDescription,
    provider: Provider,
    prompt: PackPrompt,
    done: LivePurposes,
) -> None:
    subjects = subjects_by_code(prompt.pieces)
    completion = await provider.complete(
        purpose_request(subjects, estimating_builder(writer).model)
    )
    done.calls += 1
    lines = read_lines(completion.text, subjects)
    if lines is None:
        done.unreadable_in_a_row += 1
        if done.unreadable_in_a_row >= NONSENSE_IN_A_ROW:
            done.problem = f"{writer.spec} returned no lines that can be read"
        return
    done.unreadable_in_a_row = 0
    purposes = purposes_of(lines, subjects, writer=str(writer.spec))
    with database.transaction(parts.store.connection) as connection:
        save_purposes(connection, purposes, now=parts.clock())
    kept = sum(bool(purpose.line) for purpose in purposes)
    done.written += kept
    done.refused += len(purposes) - kept

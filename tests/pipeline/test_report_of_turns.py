"""The report against the receipts of real turns: the ledger adds up to them."""

import time
from decimal import Decimal
from pathlib import Path

from msgspec.structs import replace

from tests.pipeline.conftest import TASK, settings_for
from tests.servers.openai_server import OpenAIServer
from tests.servers.scoring import table
from xscore.cost_reports.records import CostReport, ReportQuery
from xscore.cost_reports.report import RepositoryLedger, build_report
from xscore.pipeline.build import Pipeline
from xscore.records.receipt import Answer
from xscore.records.turn import Turn


async def turns_of(
    shop: Path, server: OpenAIServer, *tasks: Turn
) -> tuple[list[Answer], CostReport]:
    """Ask one task after the other, then report over all."""
    server.score = table({"shop/prices.py::total": 95, "shop/prices.py::discount": 66})
    async with Pipeline.open(shop, settings_for(server)) as pipeline:
        answers = [await pipeline.ask(task) for task in tasks]
        connection = pipeline.store.connection
        report = build_report(
            [RepositoryLedger(str(shop), connection)],
            ReportQuery(by="turn", details=1),
            now=time.time(),
        )
    return answers, report


async def test_the_report_is_the_sum_of_the_receipts(shop: Path, server: OpenAIServer) -> None:
    """Candidates, kept, calls, tokens and dollars of three turns, one of them cached, match their
    receipts."""
    answers, report = await turns_of(
        shop, server, TASK, TASK, replace(TASK, task="Where is the cart filled?")
    )
    usages = [usage for answer in answers for usage in answer.usage.values()]
    assert report.turns_by_state == {"done": 3}
    assert report.coverage.candidates == sum(answer.coverage.candidates for answer in answers)
    assert report.coverage.cached == sum(answer.coverage.cached for answer in answers) > 0
    assert report.turns_cached == 1
    assert report.kept == sum(len(answer.selected) for answer in answers)
    assert report.spent.calls == sum(usage.calls for usage in usages)
    assert report.spent.attempts == sum(usage.attempts for usage in usages)
    assert report.spent.usage.input_tokens == sum(usage.usage.input_tokens for usage in usages)
    assert report.spent.usage.output_tokens == sum(
        usage.usage.output_tokens for usage in usages
    )
    assert report.spent.cost_usd == sum(
        (usage.cost_usd or Decimal(0) for usage in usages), Decimal(0)
    )
    assert sum(report.scores) == report.coverage.candidates
    assert [group.name for group in report.groups] == [
        answer.turn_id for answer in reversed(answers)
    ]

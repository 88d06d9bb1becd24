"""Evaluations that end early or cannot be recorded: by a cap, the store, a host, Ctrl-C."""

import asyncio
from decimal import Decimal
from pathlib import Path

from tests.extensions.evaluation.shop_run import QUESTIONS, evaluated, priced, rows
from tests.observers import StageWaiter
from tests.pipeline.conftest import settings_for
from tests.servers.openai_server import OpenAIServer
from xscore.extensions.evaluation.cases import CaseFile
from xscore.extensions.evaluation.commands import render_evaluation_account
from xscore.extensions.evaluation.run import run_evaluation, spread_out
from xscore.pipeline.build import Pipeline
from xscore.records.estimates import CapLeft, JudgeEstimate


async def test_the_cap_holds_for_the_whole_run(shop: Path, server: OpenAIServer) -> None:
    """The questions together never exceed the cap; one that was cut short is in no figure, and is
    reported."""
    settings = settings_for(server, max_usd="0.20", pack_size=1)
    async with Pipeline.open(shop, settings) as pipeline:
        evaluation = await run_evaluation(priced(pipeline.parts, "0.01"), QUESTIONS)
        (spent,) = rows(pipeline, "SELECT sum(cost) FROM call")[0]
        kept = rows(pipeline, "SELECT count(*) FROM evaluation")
    assert evaluation.ended == "budget"
    assert evaluation.exit_code == 4
    assert evaluation.asked == 1
    assert evaluation.id == ""
    assert evaluation.cost_usd == Decimal("0.20") and spent == 200_000_000_000
    assert evaluation.cap == CapLeft(of="run", cap_usd=Decimal("0.20"), left_usd=Decimal(0))
    words = " ".join(evaluation.warnings) + render_evaluation_account(evaluation)
    assert "$0 of the run's $0.20 is left; raise --max-usd" in words
    assert "xscore continue" not in words and "turn" not in words, (
        "a question is not gone on with by itself"
    )
    assert kept == [(0,)]
    assert [result.id for result in evaluation.results] == ["twice"]
    repeated = await evaluated(shop, settings)
    assert repeated.asked == 2 and repeated.coverage.cached == 20, (
        "what was judged is not paid again"
    )


async def test_figures_are_shown_though_they_cannot_be_recorded(
    shop: Path, server: OpenAIServer
) -> None:
    """A row that cannot be written is a warning; the measurements are still shown."""
    async with Pipeline.open(shop, settings_for(server)) as pipeline:
        pipeline.store.connection.execute(
            "CREATE TEMP TRIGGER full BEFORE INSERT ON evaluation BEGIN SELECT RAISE(ABORT, 'no"
            " room'); END"
        )
        evaluation = await run_evaluation(pipeline.parts, QUESTIONS)
    assert evaluation.found is not None and evaluation.found.chosen.recall == 0.75
    assert (evaluation.id, evaluation.exit_code) == ("", 0)
    assert any(
        "not recorded" in warning and "no room" in warning for warning in evaluation.warnings
    )


async def test_a_store_that_fails_midway_ends_the_run_with_its_figures(
    shop: Path, server: OpenAIServer
) -> None:
    """The second turn cannot be written: the figures of the first are shown, and the run ends with
    6."""
    async with Pipeline.open(shop, settings_for(server)) as pipeline:
        pipeline.store.connection.execute(
            "CREATE TEMP TRIGGER full BEFORE INSERT ON turn WHEN (SELECT count(*) FROM turn) = 1"
            " BEGIN SELECT RAISE(ABORT, 'no room'); END"
        )
        evaluation = await run_evaluation(pipeline.parts, QUESTIONS)
    assert evaluation.ended == "store"
    assert evaluation.exit_code == 6
    assert evaluation.asked == 1
    assert evaluation.id == ""
    assert any("no room" in warning for warning in evaluation.warnings)
    assert "the store failed" in render_evaluation_account(evaluation)


async def test_ctrl_c_reports_what_was_done(shop: Path, server: OpenAIServer) -> None:
    """Interrupted in the second question: the first is in the figures, and judgments are kept
    (130)."""
    watch = StageWaiter("judging question 2 of 2")
    async with Pipeline.open(
        shop, settings_for(server, pack_size=1), observer=watch
    ) as pipeline:
        await run_evaluation(pipeline.parts, CaseFile(QUESTIONS.cases[:1], "one"))
        server.latency_s = 0.2
        work = asyncio.create_task(run_evaluation(pipeline.parts, QUESTIONS))
        await watch.heard.wait()
        work.cancel()
        evaluation = await work
    assert (evaluation.ended, evaluation.exit_code, evaluation.asked) == ("interrupted", 130, 1)
    assert evaluation.unjudged_by_cause.get("interrupted", 0) > 0 and evaluation.id == ""


def test_a_case_that_was_interrupted_stands_for_itself_alone() -> None:
    """Half of its judgments are paid; those of the cases around it are not."""
    half = JudgeEstimate(candidates=10, cached=9, to_judge=1, calls=1)
    fresh = JudgeEstimate(candidates=10, to_judge=10, calls=2)
    assert (
        sum(case.to_judge for case in spread_out([(half, 3), (fresh, 2)]))
        == 1 + 2 * 10 + 2 * 10
    )
    assert sum(case.to_judge for case in spread_out([(half, 3)])) == 3
    assert list(spread_out([])) == []

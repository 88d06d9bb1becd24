"""Whole evaluations at a loopback host: separate turns, one cap, figures of both judges, and a
stored row."""

import json
from decimal import Decimal
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.extensions.evaluation.shop_run import QUESTIONS, TOTAL, Counts, evaluated, rows
from tests.pipeline.conftest import settings_for
from tests.servers.openai_server import OpenAIServer
from xscore.extensions.evaluation.cases import CaseFile, EvalCase
from xscore.extensions.evaluation.metrics import EntityRef
from xscore.extensions.evaluation.run import run_evaluation
from xscore.pipeline.build import Pipeline
from xscore.pipeline.json_form import to_json
from xscore.platform.errors import UsageError
from xscore.records.turn import Scope, Turn
from xscore.settings import JudgeSettings, Settings
from xscore.store import turns

MEASURES = {"recall", "precision", "hit", "reciprocal_rank", "ndcg"}
COVERAGE = {"candidates", "judged", "cached", "carried", "unjudged"}


async def test_the_figures_are_those_of_the_selection(shop: Path, server: OpenAIServer) -> None:
    """One question found completely, one half: means, misses with their rank, and the lexical
    figures."""
    evaluation = await evaluated(shop, settings_for(server))
    assert evaluation.asked == 2
    assert evaluation.of == 2
    assert evaluation.ended == ""
    assert evaluation.exit_code == 0
    assert evaluation.found is not None and evaluation.words is not None
    qualities = [result.judge for result in evaluation.results]
    assert [quality and quality.chosen.recall for quality in qualities] == [1.0, 0.5]
    assert evaluation.found.chosen.recall == 0.75
    assert evaluation.found.chosen.precision == 0.75
    assert evaluation.found.chosen.hit == 1.0
    assert evaluation.found.kept == 2
    (missed,) = evaluation.results[1].missed
    assert (missed.name, missed.is_candidate) == (
        "Cart.checkout",
        True,
    )
    assert missed.rank is not None
    assert evaluation.worst == (evaluation.results[1],)
    assert (
        evaluation.coverage.judged
        == evaluation.coverage.candidates
        == 2 * evaluation.results[0].coverage.candidates
    )
    assert evaluation.calls == server.counts.judging_requests and evaluation.cost_usd == 0
    gold, memories = (
        sum(result.gold for result in evaluation.reliability),
        sum(result.memories for result in evaluation.reliability),
    )
    assert (gold, memories) == (4, evaluation.coverage.judged)


async def test_a_second_evaluation_is_free_and_the_same(
    shop: Path, server: OpenAIServer
) -> None:
    """Judgments are those of any turn: the second run, and a replay, send nothing and measure the
    same."""
    settings = settings_for(server)
    first = await evaluated(shop, settings)
    server.reset()
    replay = replace(settings, judge=replace(settings.judge, replay=True))
    for repeated in (await evaluated(shop, settings), await evaluated(shop, replay)):
        assert repeated.found == first.found and repeated.reliability == first.reliability
        assert repeated.coverage.cached == first.coverage.judged and repeated.calls == 0
    assert server.counts.requests == 0


async def test_each_run_leaves_a_row_with_its_unjudged(
    shop: Path, server: OpenAIServer
) -> None:
    """What the report and the gate read: figures of the selection, digest, judge, candidates and
    unjudged."""
    evaluation = await evaluated(shop, settings_for(server))
    async with Pipeline.open(shop, settings_for(server)) as pipeline:
        (row,) = rows(
            pipeline,
            "SELECT id, questions, judge, cases, k, recall, precision, candidates, unjudged FROM"
            " evaluation",
        )
    assert evaluation.id.startswith("v_")
    assert row == (
        evaluation.id,
        "digest-of-the-file",
        "openai:judge-2",
        2,
        15,
        0.75,
        0.75,
        evaluation.coverage.candidates,
        0,
    )


async def test_the_users_work_is_left_alone(shop: Path, server: OpenAIServer) -> None:
    """No session, use count, event or exchange, and not the latest turn; but receipts, figures and
    calls."""
    async with Pipeline.open(shop, settings_for(server)) as pipeline:
        mine = await pipeline.ask(Turn(task="What I am at"), answer=False)
        before = [
            rows(pipeline, f"SELECT * FROM {table_} ORDER BY 1")
            for table_ in ("session", "event", "memory")
        ]
        evaluation = await run_evaluation(pipeline.parts, QUESTIONS)
        after = [
            rows(pipeline, f"SELECT * FROM {table_} ORDER BY 1")
            for table_ in ("session", "event", "memory")
        ]
        assert after == before
        assert turns.latest_turn_id(pipeline.store.connection) == mine.turn_id
        turn_rows = rows(
            pipeline, "SELECT turn_id FROM turn_figures WHERE command = 'eval' ORDER BY turn_id"
        )
        assert [name for (name,) in turn_rows] == sorted(
            result.turn_id for result in evaluation.results
        )
        answer = await pipeline.ask(Turn(task="What I am at"), answer=False)
    assert answer.session is not None and not answer.session.resumed


async def test_it_asks_once_for_all_questions(shop: Path, server: OpenAIServer) -> None:
    """The estimate is the sum; if declined, nothing is sent or recorded."""
    settings = settings_for(server)
    budget = replace(settings.budget, confirm_usd=Decimal(-1), max_usd_repository=Decimal(9))
    settings = replace(settings, budget=budget)
    no, yes = Counts(agrees=False), Counts(agrees=True)
    async with Pipeline.open(shop, settings, observer=no) as pipeline:
        with pytest.raises(UsageError, match="declined"):
            await run_evaluation(pipeline.parts, QUESTIONS)
        assert rows(pipeline, "SELECT count(*) FROM turn") == [(0,)]
    assert server.counts.requests == 0
    async with Pipeline.open(shop, settings, observer=yes) as pipeline:
        evaluation = await run_evaluation(pipeline.parts, QUESTIONS)
    (estimate,) = yes.estimates
    assert estimate.judge.to_judge == evaluation.coverage.judged
    assert estimate.judge.calls == evaluation.calls
    assert [(cap.of, cap.left_usd) for cap in estimate.caps] == [
        ("run", Decimal(1)),
        ("repository", Decimal(9)),
    ]


async def test_gold_that_is_no_candidate_is_a_miss_and_said(shop: Path) -> None:
    """A file outside the index or the filter cannot be found: it counts as missed, and the warning
    names it."""
    gold = (EntityRef("shop/gone.py", "f"), EntityRef("README.md", ""), TOTAL)
    qrels = CaseFile((EvalCase(id="q", task="discount of total", gold=gold),), "d")
    async with Pipeline.open(shop, Settings(judge=JudgeSettings(model="lexical"))) as pipeline:
        evaluation = await run_evaluation(pipeline.parts, qrels, scope=Scope(paths=("shop/",)))
    (result,) = evaluation.results
    assert [(miss.path, miss.is_candidate) for miss in result.missed] == [
        ("shop/gone.py", False),
        ("README.md", False),
    ]
    assert any(
        "2 gold entities" in warning and "shop/gone.py::f" in warning
        for warning in evaluation.warnings
    )
    assert evaluation.words is None and evaluation.judge == "lexical"


async def test_a_replay_of_nothing_is_not_recorded(shop: Path) -> None:
    """If nothing was judged there is no recall to compare: exit 3, no row."""
    async with Pipeline.open(shop, Settings(judge=JudgeSettings(replay=True))) as pipeline:
        evaluation = await run_evaluation(pipeline.parts, QUESTIONS)
        assert rows(pipeline, "SELECT count(*) FROM evaluation") == [(0,)]
    assert (evaluation.asked, evaluation.exit_code, evaluation.id) == (2, 3, "")
    assert evaluation.unjudged_by_cause == {"replay": evaluation.coverage.candidates}


async def test_its_json_is_that_of_the_contract(shop: Path, server: OpenAIServer) -> None:
    """X25: fields may be added to schema 1, never renamed or removed; dollars are strings."""
    body = json.loads(json.dumps(to_json(await evaluated(shop, settings_for(server)))))
    assert next(iter(body)) == "schema" and body["cost_usd"] == "0"
    fields = (
        "schema id questions asked of ended cap judge is_model k threshold found words reliability"
        " coverage no_gold summary resumed left_out"
    )
    fields += " unjudged_by_cause calls usage cost_usd estimated seconds results warnings"
    assert set(body) == set(fields.split())
    result = body["results"][1]
    fields = "id query turn_id gold kept judge words missed coverage calls cost_usd seconds"
    fields += " repository language kind figures"
    assert set(result) == set(fields.split())
    for quality in (body["found"], body["words"], result["judge"], result["words"]):
        assert set(quality) == {"chosen", "ranked", "kept"}
        assert set(quality["chosen"]) == set(quality["ranked"]) == MEASURES
    assert set(body["reliability"][0]) == {"low", "high", "memories", "gold"}
    assert set(body["coverage"]) == set(result["coverage"]) == COVERAGE
    fields = "path name rank score is_candidate raw_score words"
    assert set(result["missed"][0]) == set(fields.split())


async def test_questions_without_gold_count_what_was_kept(
    shop: Path, server: OpenAIServer
) -> None:
    """Nothing should be kept for them; no recall is computed, and no other figure counts them."""
    nothing = EvalCase(id="none", task="Why does the printer jam?", gold=())
    both = CaseFile((QUESTIONS.cases[0], nothing), "d")
    evaluation = await evaluated(shop, settings_for(server), both)
    assert evaluation.asked == 2 and evaluation.found is not None
    assert evaluation.found.chosen.recall == 1.0
    (_, result) = evaluation.results
    assert result.judge is None and result.words is None and result.missed == ()
    assert evaluation.no_gold.cases == 1 and evaluation.no_gold.kept == result.kept
    alone = await evaluated(shop, settings_for(server), CaseFile((nothing,), "d"))
    assert alone.found is None and alone.asked == 1 and alone.id == ""

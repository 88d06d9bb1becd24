"""Lists judged by live calls in one process: what is sent, stored, counted, ranked and written."""

import asyncio
import json
import resource
from pathlib import Path

import polars as pl
import pytest
from msgspec.structs import replace

from tests.extensions.batch.batch_vendor import SCORES, questions
from tests.extensions.batch.question_lists import QUESTIONS, judged, judging
from tests.pipeline.conftest import settings_for
from tests.pipeline.test_decision_turns import settings_for as decision_settings
from tests.pipeline.test_second_scores import ChangingScores
from tests.servers.decision_server import DecisionServer
from tests.servers.faults import Fault
from tests.servers.openai_server import OpenAIServer
from tests.waiting import rows
from xscore.extensions.batch.results import ResultRow, check_results_path, write_results
from xscore.pipeline.question_list import Question, QuestionList
from xscore.platform.errors import UsageError
from xscore.records.events import Observer, Progress, TurnEvent
from xscore.settings import JudgeSettings, Settings

ROW = ResultRow("q", 1, "a.py", "f", "m", 0.9, 0.9, "")


async def test_a_list_is_judged_once_and_then_comes_from_the_cache(
    shop: Path, server: OpenAIServer
) -> None:
    """Every candidate of every question is judged; the same list again sends nothing and ranks the
    same."""
    settings = settings_for(judging(server))
    first = await judged(shop, settings)
    sent = server.counts.requests
    repeated = await judged(shop, settings)
    assert first.exit_code == repeated.exit_code == 0 and sent == server.counts.requests > 0
    assert first.coverage.judged == first.candidates == repeated.coverage.cached
    assert not first.cached
    assert repeated.spent.attempts == 0
    assert [(line.kept, line.best) for line in first.lines] == [
        (line.kept, line.best) for line in repeated.lines
    ]
    assert all(line.kept == len(SCORES) for line in first.lines)


async def test_a_list_says_that_it_has_no_final_round(shop: Path, server: OpenAIServer) -> None:
    """A model for a final round is named, and the list says that it was not asked."""
    settings = settings_for(judging(server))
    final = replace(settings.selection, final="openai:gpt-5-mini")
    ranked_list = await judged(shop, replace(settings, selection=final))
    (warning,) = ranked_list.warnings
    assert "`openai:gpt-5-mini` (selection.final)" in warning
    assert not (await judged(shop, settings)).warnings


async def test_the_job_and_its_calls_are_in_the_store(shop: Path, server: OpenAIServer) -> None:
    """A row tells the cache hits, and the ledger has every call under the job."""
    ranked_list = await judged(shop, settings_for(judging(server)))
    (row,) = rows(shop, "SELECT id, command, candidates, cached, ended_at IS NOT NULL FROM job")
    assert row == (ranked_list.job, "run", ranked_list.candidates, 0, 1)
    assert rows(shop, "SELECT count(*), count(DISTINCT turn_id) FROM call") == [
        (server.counts.requests, 1)
    ]
    assert ranked_list.spent.calls == server.counts.requests
    assert rows(shop, "SELECT count(*) FROM job_question") == [(len(QUESTIONS.all),)]


async def test_small_questions_are_judged_side_by_side(
    shop: Path, server: OpenAIServer
) -> None:
    """Questions of one pack fill the slots together once the host has answered the first."""
    server.may_reply = lambda counts: counts.requests == 1 or counts.peak_in_flight >= 6
    await judged(shop, settings_for(judging(server), concurrency=6), questions(18))
    assert server.counts.peak_in_flight == 6


async def test_a_decision_model_is_asked_twice_near_the_threshold_in_a_list_too(
    shop: Path,
) -> None:
    """Each question's two near-threshold memories are judged twice and ranked by the mean; again,
    nothing is sent."""
    with DecisionServer(score=ChangingScores()) as host:
        settings = decision_settings(host)
        ranked_list = await judged(shop, settings, questions(1))
        assert (ranked_list.exit_code, host.questions) == (0, ranked_list.candidates + 2)
        assert [line.kept for line in ranked_list.lines] == [2]
        repeated = await judged(shop, settings, questions(1))
        assert (repeated.spent.attempts, [line.kept for line in repeated.lines]) == (0, [2])


async def test_a_second_answer_that_is_missing_is_said_of_a_list_too(shop: Path) -> None:
    """A host that fails between the two answers leaves the first, with a warning."""
    with DecisionServer(score=ChangingScores()) as host:
        host.status = lambda _: (400, "no more") if host.requests > 1 else None
        ranked_list = await judged(shop, decision_settings(host), questions(1))
        assert any(
            "judged once instead of twice" in warning for warning in ranked_list.warnings
        )


async def test_equal_questions_are_paid_for_once(shop: Path, server: OpenAIServer) -> None:
    """The same task under two ids is judged once, even concurrently."""
    twice = QuestionList((*QUESTIONS.all[:1], replace(QUESTIONS.all[0], id="again")), "twice")
    server.latency_s = 0.05
    ranked_list = await judged(shop, settings_for(judging(server), pack_size=1), twice)
    assert server.counts.requests == ranked_list.candidates // 2
    assert [line.kept for line in ranked_list.lines] == [len(SCORES)] * 2


async def test_a_cap_ends_the_list_and_what_was_judged_is_kept(
    shop: Path, server: OpenAIServer
) -> None:
    """Out of budget is exit 4 with the rest unjudged by that cause; the same list continues from
    there."""
    from tests.extensions.evaluation.shop_run import priced
    from xscore.extensions.batch.list_job import run_live_list
    from xscore.extensions.batch.list_plan import ListOptions
    from xscore.pipeline.build import Pipeline

    async with Pipeline.open(
        shop, settings_for(judging(server), max_usd="0.05", pack_size=1)
    ) as pipeline:
        ranked_list = await run_live_list(
            priced(pipeline.parts, "0.01"), QUESTIONS, ListOptions()
        )
    assert (ranked_list.exit_code, ranked_list.ended) == (4, "budget")
    assert ranked_list.coverage.judged == server.counts.requests <= 5
    assert ranked_list.unjudged_by_cause == {
        "budget": ranked_list.candidates - ranked_list.coverage.judged
    }
    rest = await judged(shop, settings_for(server, pack_size=1))
    assert rest.exit_code == 0 and rest.cached == ranked_list.coverage.judged
    assert server.counts.requests == ranked_list.candidates


async def test_a_host_that_takes_nothing_more_ends_the_list_after_one_call_each(
    shop: Path, server: OpenAIServer
) -> None:
    """Quota exhausted halfway: exit 3, judgments stay, no other question is tried."""
    settings = settings_for(judging(server), pack_size=1, concurrency=1)
    server.misbehave(Fault.QUOTA, times=1_000, when=lambda body: server.counts.requests > 20)
    ranked_list = await judged(shop, settings)
    assert (ranked_list.exit_code, ranked_list.ended) == (3, "provider")
    assert server.counts.requests <= 22 and ranked_list.coverage.judged >= 19
    assert ranked_list.unjudged_by_cause == {
        "provider": ranked_list.candidates - ranked_list.coverage.judged
    }


async def test_a_question_that_the_model_declines_does_not_end_the_list(
    shop: Path, server: OpenAIServer
) -> None:
    """Refusals of one question do not affect the others."""
    odd = Question(id="odd", task="something unspeakable")
    server.misbehave(
        Fault.REFUSAL, times=1_000, when=lambda body: "unspeakable" in json.dumps(body)
    )
    ranked_list = await judged(
        shop, settings_for(judging(server)), QuestionList((odd, *QUESTIONS.all), "with-odd")
    )
    assert ranked_list.exit_code == 1 and not ranked_list.ended
    assert ranked_list.lines[0].unjudged_by_cause == {
        "refused": ranked_list.lines[0].coverage.candidates
    }
    assert all(not line.coverage.unjudged for line in ranked_list.lines[1:])


class _CancelsAtFirstJudgment(Observer):
    """Cancels the task at the first judgments, as Ctrl-C does."""

    def __init__(self) -> None:
        self.task = asyncio.current_task()

    def on(self, event: TurnEvent) -> None:
        if isinstance(event, Progress) and event.judged and self.task is not None:
            self.task.cancel()
            self.task = None


async def test_an_interrupt_keeps_what_was_paid_for(shop: Path, server: OpenAIServer) -> None:
    """Ctrl-C halfway is exit 130; every answered call is cached, and the next run judges the
    rest."""
    server.latency_s = 0.05
    settings = settings_for(judging(server), pack_size=1, concurrency=2)
    ranked_list = await judged(shop, settings, observer=_CancelsAtFirstJudgment())
    kept = rows(shop, "SELECT count(*) FROM judgment")[0][0]
    assert ranked_list.exit_code == 130
    assert ranked_list.ended == "interrupted"
    assert ranked_list.lines == ()
    assert 0 < kept == server.counts.requests < ranked_list.candidates
    assert (
        ranked_list.coverage.unjudged
        == ranked_list.candidates - ranked_list.coverage.judged
        == ranked_list.candidates - kept
    )
    await judged(shop, settings)
    assert server.counts.requests == ranked_list.candidates


async def test_a_deadline_leaves_the_rest_unjudged_and_the_results_say_so(
    shop: Path, server: OpenAIServer
) -> None:
    """Exit 1, with every candidate accounted for."""
    server.latency_s = 0.3
    settings = settings_for(judging(server), pack_size=1, concurrency=1)
    budget = replace(settings.budget, deadline_s=1.5)
    ranked_list = await judged(shop, replace(settings, budget=budget))
    assert (ranked_list.exit_code, ranked_list.ended) == (1, "deadline")
    assert ranked_list.unjudged_by_cause == {"deadline": ranked_list.coverage.unjudged}
    assert ranked_list.coverage.unjudged


async def test_without_a_model_the_lexical_judge_ranks_the_list(shop: Path) -> None:
    """No key: nothing is sent, no job is recorded, every question is still ranked."""
    task = Question(
        id="q", task="The discount in shop/prices.py: total and discount take it twice"
    )
    ranked_list = await judged(
        shop, Settings(judge=JudgeSettings(model="lexical")), QuestionList((task,), "one")
    )
    assert (ranked_list.exit_code, ranked_list.job, ranked_list.by_model) == (0, "", False)
    assert ranked_list.coverage.judged == ranked_list.coverage.candidates > 0
    assert any(line.kept for line in ranked_list.lines)


async def test_a_replay_sends_nothing_and_counts_what_it_lacks(
    shop: Path, server: OpenAIServer
) -> None:
    """Cached judgments are ranked; the rest is unjudged by that cause."""
    half = QuestionList(QUESTIONS.all[:3], "half")
    await judged(shop, settings_for(judging(server)), half)
    sent = server.counts.requests
    ranked_list = await judged(shop, settings_for(server, replay=True))
    assert server.counts.requests == sent and ranked_list.exit_code == 1
    assert ranked_list.unjudged_by_cause == {"replay": ranked_list.candidates // 2}


@pytest.mark.parametrize("name", ["r.parquet", "r.jsonl"])
async def test_results_have_a_row_for_each_chosen_memory(
    shop: Path, server: OpenAIServer, tmp_path: Path, name: str
) -> None:
    """Questions in order, ranks from 1, falling scores, a reason each; no other file is left."""
    out = tmp_path / "results" / name
    out.parent.mkdir()
    ranked_list = await judged(shop, settings_for(judging(server)), out=out)
    table = pl.read_parquet(out) if out.suffix == ".parquet" else pl.read_ndjson(out)
    assert table.columns == ["id", "rank", "path", "entity", "memory", "score", "raw", "reason"]
    assert table.height == ranked_list.rows == len(QUESTIONS.all) * len(SCORES)
    assert table["id"].unique(maintain_order=True).to_list() == [
        question.id for question in QUESTIONS.all
    ]
    first = table.filter(pl.col("id") == "q0")
    assert first["rank"].to_list() == [1, 2, 3] and first["score"].is_sorted(descending=True)
    assert first["entity"][0] == "total" and first["raw"][0] == 0.95 and all(first["reason"])
    assert list(out.parent.iterdir()) == [out]


@pytest.mark.parametrize("name", ["r.parquet", "r.jsonl"])
def test_results_that_cannot_be_written_leave_the_earlier_ones(
    tmp_path: Path, name: str
) -> None:
    """The output file is replaced whole or not at all; the error names it."""
    out = tmp_path / name
    write_results(out, [ROW])
    before = out.read_bytes()
    row = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before), row[1]))
    try:
        with pytest.raises(UsageError, match=name):
            write_results(
                out,
                [ResultRow(str(nth), 1, "a.py", "f", "m", nth / 9, 0.9, "") for nth in range(9)]
                * 99,
            )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, row)
    assert out.read_bytes() == before and list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize("name", ["r.jsonl", "r.parquet"])
@pytest.mark.parametrize("rows", [[], [ROW]])
def test_earlier_results_may_be_written_anew(
    name: str, rows: list[ResultRow], tmp_path: Path
) -> None:
    """The output of a list for which nothing was chosen may be, too."""
    write_results(tmp_path / name, rows)
    check_results_path(tmp_path / name, store_dir=tmp_path / "store")


def test_a_file_of_another_kind_stays(tmp_path: Path) -> None:
    """Question lists, foreign lines or tables, and malformed files are never overwritten."""
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "sales.parquet")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and no more")
    (tmp_path / "q.jsonl").write_text('{"id": "q1", "task": "why"}\n')
    (tmp_path / "log.jsonl").write_text('{"at": 1}\n')
    (tmp_path / "text.jsonl").write_text("words\n")
    (tmp_path / "bytes.jsonl").write_bytes(b"\xff\xfe\n")
    for path in list(tmp_path.iterdir()):
        with pytest.raises(UsageError, match="xscore results file"):
            check_results_path(path, store_dir=tmp_path / "store")

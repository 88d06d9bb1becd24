"""The model judge over a scripted provider: no candidate or paid judgment is lost, and the plan is
what is sent."""

import asyncio

import pytest

from tests.scorer.judge_harness import (
    LONG,
    TURN,
    Code,
    Failing,
    JudgeHarness,
    by_length,
    causes,
    have_own_scores,
    oversized,
    settle,
)
from tests.scorer.stdlib_candidates import candidate
from xscore.platform.errors import CallTimedOut
from xscore.providers.scripted import Script, ScriptedProvider, ShownMemory
from xscore.records.judgment import Judgment, Unjudged, UnjudgedCause
from xscore.scorer.packs import PackProfile


async def test_every_memory_gets_the_score_of_its_own_text(code: Code) -> None:
    """X03: ids are random, yet each memory gets its own score, and all are written."""
    bench = JudgeHarness(code, ScriptedProvider(score=by_length))
    results = await bench.run()
    assert have_own_scores(code, results)
    assert {judgment.content_hash for judgment in bench.written} == results.keys()


async def test_a_judgment_is_written_before_its_worker_goes_on(code: Code) -> None:
    """A kill re-pays at most the calls in flight: no new call while a paid reply waits for the
    disk."""
    provider = ScriptedProvider(score=by_length)
    sent_meanwhile: list[int] = []

    async def slow(_: object) -> None:
        before = len(provider.requests)
        await asyncio.sleep(0.002)
        sent_meanwhile.append(len(provider.requests) - before)

    await JudgeHarness(code, provider).run(write=slow, concurrency=1)
    assert len(sent_meanwhile) == len(provider.requests) > 5
    assert set(sent_meanwhile) == {0}


async def test_an_interrupt_sends_nothing_more(code: Code) -> None:
    """X-interrupt: calls in flight settle and are kept; the rest is unjudged as interrupted."""
    provider = ScriptedProvider(Script(latency_s=0.01))
    bench = JudgeHarness(code, provider)
    judge = bench.judge(concurrency=2)
    results: dict[str, Judgment | Unjudged] = {}
    async for result in judge.judge(TURN, bench.candidates):
        judge.stop(UnjudgedCause.INTERRUPTED)
        results[result.content_hash] = result
    assert len(provider.requests) <= 4
    assert set(causes(results)) == {"judged", "interrupted"}
    assert len(results) == len(code)
    assert causes(results)["judged"] == len(bench.written)


def best_part(memory: ShownMemory, _: str) -> float:
    """Make one part of the long memory relevant."""
    return 0.93 if "step_500 " in memory.text else 0.02


async def test_an_oversized_memory_is_judged_in_parts(code: Code) -> None:
    """Its score is that of its best part; its parts are written too, and the whole with the last of
    them."""
    bench = JudgeHarness(oversized(code), ScriptedProvider(score=best_part))
    results = await bench.run()
    large = candidate("asyncio/large.py", "long", LONG)
    result = results[large.content_hash]
    assert isinstance(result, Judgment) and result.score == 0.93
    assert len(bench.written) > len(results)
    parts = [judgment for judgment in bench.written if judgment.content_hash not in results]
    assert bench.written.index(result) > max(bench.written.index(part) for part in parts)


async def test_a_resumed_run_asks_only_for_missing_parts(code: Code) -> None:
    """Judged parts are paid for once, even if the whole memory was not finished."""
    large = candidate("asyncio/large.py", "long", LONG)
    only = {large.id: (large, LONG)}
    first = JudgeHarness(only, Failing(CallTimedOut("60 s"), after=2))
    results = await first.run(concurrency=1)
    assert causes(results) == {"provider": 1}
    assert len(first.written) == 2
    judged_parts = {part.content_hash: part for part in first.written}
    second = JudgeHarness(only, ScriptedProvider(score=best_part))
    total = len(list(second.judge().requests(TURN, second.candidates)))
    resumed = await second.run(
        known_parts=lambda hashes: {
            part: judged_parts[part] for part in hashes if part in judged_parts
        }
    )
    assert isinstance(resumed[large.content_hash], Judgment)
    assert len(second.provider.requests) == total - 2  # type: ignore[attr-defined]  # a `ScriptedProvider`


async def test_packs_go_out_by_their_best_prior(code: Code) -> None:
    """Anytime: the most promising pack is sent first, and the prior is stored with the judgment."""
    bench = JudgeHarness(code, ScriptedProvider(score=by_length))
    last = bench.candidates[-1]
    await bench.run(priors={last.id: 0.8}, concurrency=1)
    sent = bench.provider.requests[0].content[0]  # type: ignore[attr-defined]  # a `ScriptedProvider`
    assert f'name="{last.entity}"' in sent
    assert {
        judgment.prior
        for judgment in bench.written
        if judgment.content_hash == last.content_hash
    } == {0.8}


@pytest.mark.parametrize(
    "limits", [PackProfile(), PackProfile(size=1), PackProfile(tokens=5_000, size=60)]
)
async def test_the_plan_is_what_is_sent(code: Code, limits: PackProfile) -> None:
    """X13: calls and tokens of the estimate equal the run's, request by request."""
    provider = ScriptedProvider(score=by_length)
    bench = JudgeHarness(oversized(code), provider, profile=limits)
    planned = list(bench.judge().requests(TURN, bench.candidates))
    await bench.run()
    key = str
    assert sorted(map(key, planned)) == sorted(map(key, provider.requests))


async def test_one_edit_judges_one_memory(code: Code) -> None:
    """X28: after an edit only the edited memory is sent, and the next task finds all other packs
    unchanged."""
    bench = JudgeHarness(code, ScriptedProvider(score=by_length))
    texts_before = [
        request.content[0] for request in bench.judge().requests(TURN, bench.candidates)
    ]
    original, text = next(iter(code.values()))
    edited = original._replace(content_hash="edited")
    after = JudgeHarness(
        {**code, original.id: (edited, text + "\n    # edited")}, bench.provider
    )
    (only,) = after.judge().requests(TURN, [edited])
    assert only.candidates == 1 and "# edited" in only.content[0]
    texts_after = [
        request.content[0] for request in after.judge().requests(TURN, after.candidates)
    ]
    assert len(set(texts_before) - set(texts_after)) == 1


async def test_a_memory_that_left_the_store_is_accounted_for(code: Code) -> None:
    """If another process re-indexes meanwhile, the memory is unjudged, not lost."""
    ghost = candidate("gone.py", "ghost", "x")
    bench = JudgeHarness(code, ScriptedProvider(score=by_length))
    results = await settle(bench.judge(), [*bench.candidates, ghost])
    assert isinstance(results[ghost.content_hash], Unjudged)
    assert causes(results)["judged"] == len(code)

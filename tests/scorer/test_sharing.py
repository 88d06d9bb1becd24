"""Judges sharing a store: each candidate is paid once, and no judge waits for one that gave up."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.scorer.judge_harness import (
    Code,
    JudgeHarness,
    ProviderWrapper,
    by_length,
    causes,
    oversized,
    settle,
)
from tests.scorer.stdlib_candidates import real_code
from xscore.cache.group_commit import GroupCommit
from xscore.cache.judgment_store import StoredClaims, StoredJudgments
from xscore.platform.errors import BudgetExhausted, CallTimedOut
from xscore.providers.provider import OnText, Provider
from xscore.providers.scripted import Script, ScriptedProvider
from xscore.records.calls import Completion, Request
from xscore.records.judgment import JudgeIdentity, Judgment, UnjudgedCause
from xscore.scorer.model_judge import ModelJudge
from xscore.scorer.packs import PackProfile

pytestmark = pytest.mark.verify

JUDGE = JudgeIdentity("scripted", "-", "m", "", "1", "memory_first", True)
Opened = list[GroupCommit]


@pytest.fixture
def code() -> Code:
    """Two hundred real functions and one judged in parts."""
    pairs = [pair for pair in real_code() if len(pair[1]) < 6_000][:200]
    return oversized({candidate.id: (candidate, text) for candidate, text in pairs})


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[Opened]:
    """Four writer threads on one store, as in four processes."""
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(GroupCommit(tmp_path / "memory.db"))
            for _ in range(4)
        ]


def sharing(bench: JudgeHarness, commits: GroupCommit, **changes: object) -> ModelJudge:
    """A judge that shares the store."""
    writer = StoredJudgments(commits).writer("t", JUDGE)
    return bench.judge(
        claims=StoredClaims(commits, turn_key="t", judge=JUDGE), write=writer, **changes
    )


def paid(*providers: ScriptedProvider) -> int:
    """Return the paid judgments."""
    return sum(request.candidates for provider in providers for request in provider.requests)


async def left(stores: Opened) -> int:
    """Return the claims and runners left after every thread has written its queue."""
    counts = 0
    for commits in stores:
        counts = await commits.submit(
            lambda connection: sum(
                connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
                for table in ("claim", "runner")
            )
        )
    return counts


class AnswersOnceAllAsk(ProviderWrapper):
    """A provider that answers nothing until each of them was asked, so that all have work to
    share."""

    def __init__(
        self, provider: ScriptedProvider, providers: Sequence[ScriptedProvider]
    ) -> None:
        super().__init__(provider)
        self.providers = providers

    async def complete(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Pass on, and wait."""
        completion = await super().complete(request, on_text)
        while not all(provider.requests for provider in self.providers):  # noqa: ASYNC110  a count has no event
            await asyncio.sleep(0.001)
        return completion


@pytest.mark.parametrize("size", [None, 1])
async def test_four_at_once_pay_for_each_candidate_once(
    code: Code, stores: Opened, size: int | None
) -> None:
    """Together they send what one alone would send, all end with every judgment, and the work is
    shared."""
    limits = PackProfile(size=size) if size else PackProfile()
    alone = ScriptedProvider(score=by_length)
    await JudgeHarness(code, alone, profile=limits).run()
    providers = [ScriptedProvider(score=by_length) for _ in stores]
    judges = [
        sharing(
            JudgeHarness(code, AnswersOnceAllAsk(provider, providers), profile=limits),
            commits,
            concurrency=2,
        )
        for provider, commits in zip(providers, stores, strict=True)
    ]
    candidates = JudgeHarness(code, alone).candidates
    results_of_judges = await asyncio.gather(*(settle(judge, candidates) for judge in judges))
    assert all(causes(results) == {"judged": len(code)} for results in results_of_judges)
    scores_of_judges = set[tuple[tuple[str, float], ...]]()
    for results in results_of_judges:
        scores = [(h, r.score) for h, r in results.items() if isinstance(r, Judgment)]
        scores_of_judges.add(tuple(sorted(scores)))
    assert len(scores_of_judges) == 1
    assert paid(*providers) == paid(alone)
    assert sum(len(code) - len(judge.judged_elsewhere) for judge in judges) == len(code)
    assert all(provider.requests for provider in providers)
    assert await left(stores) == 0


async def test_packs_are_not_split_to_share_them(code: Code, stores: Opened) -> None:
    """A pack is always sent unchanged, whichever judge sends it, so that prompt prefixes stay the
    store's."""
    alone = ScriptedProvider(score=by_length)
    await JudgeHarness(code, alone).run()
    providers = [ScriptedProvider(Script(latency_s=0.005), score=by_length) for _ in range(2)]
    judges = [
        sharing(JudgeHarness(code, provider), commits)
        for provider, commits in zip(providers, stores[:2], strict=True)
    ]
    await asyncio.gather(
        *(settle(judge, JudgeHarness(code, alone).candidates) for judge in judges)
    )
    whole_packs = {request.content[0] for request in alone.requests}
    assert {
        request.content[0] for provider in providers for request in provider.requests
    } == whole_packs


class Broken(ProviderWrapper):
    """A provider that fails in the end."""

    def __init__(self, provider: Provider) -> None:
        super().__init__(provider)
        self.fails = asyncio.Event()
        """That it will fail is certain now."""


class OutOfBudget(Broken):
    """A provider whose budget ends after some calls."""

    async def complete(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Pass on, three times."""
        if self.calls >= 3:
            self.fails.set()
            raise BudgetExhausted("the next call may cost too much", hint="Raise it.")
        return await super().complete(request, on_text)


class TimesOutLate(Broken):
    """A provider that times out after the others had time to see its claims."""

    async def complete(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Fail."""
        self.calls += 1
        self.fails.set()
        await asyncio.sleep(0.05)
        raise CallTimedOut("60 s")


@pytest.mark.parametrize(
    ("around", "cause"), [(OutOfBudget, "budget"), (TimesOutLate, "provider")]
)
async def test_what_one_gives_up_another_judges(
    code: Code, stores: Opened, around: type[Broken], cause: str
) -> None:
    """A judge that ends early, or whose calls fail, holds nothing back from the other."""
    slow, sound = (
        Script(latency_s=0.005),
        ScriptedProvider(Script(latency_s=0.01), score=by_length),
    )
    provider = around(ScriptedProvider(slow, score=by_length))
    broken = sharing(JudgeHarness(code, provider), stores[0])
    sound_judge = sharing(JudgeHarness(code, sound), stores[1])
    candidates = JudgeHarness(code, sound).candidates
    breaking = asyncio.ensure_future(settle(broken, candidates))
    # The other may judge everything before.
    await provider.fails.wait()
    second = await settle(sound_judge, candidates)
    assert causes(await breaking)[cause] > 0
    assert causes(second) == {"judged": len(code)}
    assert await left(stores) == 0


async def test_one_who_waits_for_others_can_be_stopped(code: Code, stores: Opened) -> None:
    """A stop ends the wait for others' calls at once, with every candidate accounted for."""
    held = StoredClaims(stores[0], turn_key="t", judge=JUDGE)
    candidates = JudgeHarness(code, ScriptedProvider()).candidates
    await held.claim([[candidate.content_hash for candidate in candidates]], at_most=1)
    judge = sharing(JudgeHarness(code, ScriptedProvider()), stores[1])
    asyncio.get_running_loop().call_later(0.3, judge.stop, UnjudgedCause.DEADLINE)
    async with asyncio.timeout(30):
        results = await settle(judge, candidates)
    assert causes(results) == {"deadline": len(code)}

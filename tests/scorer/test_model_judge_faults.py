"""The model judge with damaged replies and failing calls: none lost, none invented, no spending
after a stop."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable

import pytest

from tests.scorer.judge_harness import (
    TURN,
    Code,
    Failing,
    JudgeHarness,
    ProviderWrapper,
    by_length,
    causes,
    ended,
    have_own_scores,
    oversized,
    settle,
)
from xscore.platform.errors import (
    BudgetExhausted,
    CallTimedOut,
    PromptTooLong,
    RequestRejected,
    StoreError,
)
from xscore.providers.provider import OnText
from xscore.providers.scripted import Script, ScriptedProvider, ScriptRule
from xscore.records.calls import Completion, Finish, Request
from xscore.records.judgment import Judgment, Unjudged
from xscore.scorer.giving_up import GiveUpRule


def alone_of_its_name(code: Code) -> str:
    """The last entity whose name is unique in the pool."""
    names = Counter(candidate.entity for candidate, _ in code.values())
    return [candidate.entity for candidate, _ in code.values() if names[candidate.entity] == 1][
        -1
    ]


TAMPERS: dict[str, Callable[[str], str]] = {
    "prose": lambda text: "I think they are all fine.",
    "empty": lambda text: "",
    "missing id": lambda text: _changed(text, drop=1),
    "null": lambda text: text.replace(": 0", ": null"),
    "string": lambda text: text.replace(": 0", ': "0"'),
    "out of range": lambda text: text.replace(": 0", ": 700"),
    "NaN": lambda text: text.replace(": 0", ": NaN"),
    "foreign": lambda text: text.replace('{"scores": {', '{"scores": {"yy": 99, '),
    "half": lambda text: text[: len(text) // 2],
}


def _changed(text: str, *, drop: int) -> str:
    data = json.loads(text)
    data["scores"] = dict(list(data["scores"].items())[drop:])
    return json.dumps(data)


@pytest.mark.parametrize("name", TAMPERS)
async def test_a_spoilt_first_reply_is_repaired(code: Code, name: str) -> None:
    """Whatever the first reply to each pack, every memory ends with its own score at minimal
    cost."""

    def tamper(request: Request, text: str) -> str:
        return TAMPERS[name](text) if request.candidates > 10 else text

    provider = ScriptedProvider(score=by_length, tamper=tamper)
    bench = JudgeHarness(code, provider)
    judge = bench.judge()
    results = await settle(judge, bench.candidates)
    assert have_own_scores(code, results)
    assert max(Counter(judgment.content_hash for judgment in bench.written).values()) == 1
    if name == "foreign":
        assert judge.faults.foreign > 0
        assert "for unknown ids" in "".join(judge.warnings())


async def test_a_reply_that_never_reads_leaves_all_unjudged(code: Code) -> None:
    """An unreadable reply is never a zero: some take the whole ladder, then it stops; nothing was
    written."""
    provider = ScriptedProvider(tamper=lambda request, text: "sorry")
    bench = JudgeHarness(code, provider)
    results = await bench.run(concurrency=2)
    assert causes(results) == {"unreadable": len(code)}
    assert bench.written == []
    assert (
        GiveUpRule().most_unscored
        <= sum(request.candidates == 1 for request in provider.requests)
        < len(code)
    )
    assert len(provider.requests) < len(code) / 2
    assert any(
        "no usable score at all" in result.detail
        for result in results.values()
        if isinstance(result, Unjudged)
    )


async def test_a_refused_memory_costs_only_itself(code: Code) -> None:
    """If the model declines one memory, it is unjudged as refused; its neighbours are judged."""
    poison = max(
        (candidate for candidate, _ in code.values()),
        key=lambda candidate: len(candidate.entity),
    )
    script = Script(rules=(ScriptRule(entity=f"*{poison.entity}", refuse=True),))
    results = await JudgeHarness(code, ScriptedProvider(script)).run()
    assert causes(results) == {"refused": 1, "judged": len(code) - 1}
    assert isinstance(results[poison.content_hash], Unjudged)


class CutShort(ProviderWrapper):
    """Truncates every reply about more than five memories."""

    async def complete(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Truncate."""
        done = await super().complete(request)
        if request.candidates <= 5:
            return done
        return ended(done.text[: len(done.text) // 3], Finish.LENGTH, request)


async def test_a_truncated_reply_keeps_its_whole_scores(code: Code) -> None:
    """Complete scores before the cut are kept; the rest is asked in half packs."""
    provider = CutShort(ScriptedProvider(score=by_length))
    results = await JudgeHarness(code, provider).run()
    assert have_own_scores(code, results)


async def test_a_prompt_too_long_is_halved(code: Code) -> None:
    """A model with a small context still judges, in smaller packs."""
    results = await JudgeHarness(code, Failing(PromptTooLong("8k"), above=10)).run()
    assert causes(results) == {"judged": len(code)}


async def test_a_memory_too_long_alone_is_unjudged(code: Code) -> None:
    """A memory that does not fit even alone is unjudged with that cause."""
    results = await JudgeHarness(code, Failing(PromptTooLong("8k"))).run()
    assert causes(results) == {"too_long": len(code)}


async def test_an_exhausted_budget_stops_the_run(code: Code) -> None:
    """Paid judgments are kept, nothing more is sent, the rest is unjudged for the budget."""
    provider = Failing(BudgetExhausted("cap"), after=3)
    bench = JudgeHarness(code, provider)
    results = await bench.run(concurrency=1)
    assert provider.calls == 4
    assert set(causes(results)) == {"judged", "budget"}
    assert causes(results)["judged"] == len(bench.written)


async def test_only_prompts_that_were_sent_count_as_asked_again(code: Code) -> None:
    """Half packs planned when the budget ended the run were not sent, and do not count as sent."""
    uncapped, repairing = (
        Failing(BudgetExhausted("cap"), after=1),
        CutShort(ScriptedProvider(score=by_length)),
    )
    for provider, is_counted in ((CutShort(uncapped), False), (repairing, True)):
        bench = JudgeHarness(code, provider)
        judge = bench.judge(concurrency=1)
        await settle(judge, bench.candidates)
        assert bool(judge.faults.asked_again) is is_counted
    packs = len(list(judge.requests(TURN, bench.candidates)))
    assert isinstance(repairing.provider, ScriptedProvider)
    assert judge.faults.asked_again == len(repairing.provider.requests) - packs


async def test_a_failed_call_costs_only_its_pack(code: Code) -> None:
    """A pack whose call failed after all retries is unjudged; the run continues."""
    provider = Failing(CallTimedOut("60 s"), only=f'name="{alone_of_its_name(code)}"')
    results = await JudgeHarness(code, provider).run()
    lost = causes(results)["provider"]
    assert 0 < lost <= 20
    assert causes(results)["judged"] == len(code) - lost


async def test_a_rejected_pack_is_taken_apart_only_when_others_pass(code: Code) -> None:
    """A moderated memory loses only itself; a host that rejects everything is asked only a few
    times."""
    provider = Failing(RequestRejected("400"), only=f'name="{alone_of_its_name(code)}"')
    results = await JudgeHarness(code, provider).run(concurrency=1)
    assert causes(results) == {"provider": 1, "judged": len(code) - 1}
    nothing = Failing(RequestRejected("400"))
    bench = JudgeHarness(code, nothing)
    assert (
        len(list(bench.judge().requests(TURN, bench.candidates))) > GiveUpRule().most_rejected
    )
    assert causes(await bench.run(concurrency=1)) == {"provider": len(code)}
    assert nothing.calls == 1 + GiveUpRule().most_unscored


async def test_a_store_that_cannot_be_written_ends_the_spending(code: Code) -> None:
    """Judgments that cannot be stored are not bought: the error is raised, and few calls follow."""

    async def write(_: object) -> None:
        raise StoreError("disk full")

    provider = ScriptedProvider(score=by_length)
    with pytest.raises(StoreError, match="disk full"):
        await JudgeHarness(code, provider).run(write=write, concurrency=2)
    assert len(provider.requests) <= 2


class Chaos(ProviderWrapper):
    """Does anything that a provider can do."""

    def __init__(self, seed: int) -> None:
        super().__init__(ScriptedProvider(score=by_length))
        self.rng = random.Random(seed)

    async def complete(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Answer, damage or fail."""
        done = await super().complete(request)
        await asyncio.sleep(0)
        errors = (CallTimedOut("t"), PromptTooLong("l"), RequestRejected("r"))
        match self.rng.randrange(10):
            case 0:
                raise self.rng.choice(errors)
            case 1:
                return ended("", Finish.REFUSAL, request)
            case 2:
                return ended(
                    done.text[: self.rng.randrange(len(done.text))], Finish.LENGTH, request
                )
            case 3:
                at = self.rng.randrange(len(done.text))
                return ended(
                    done.text[:at] + self.rng.choice('"}{:,01x') + done.text[at:],
                    Finish.STOP,
                    request,
                )
            case 4:
                return ended(done.text.replace('": ', '": 1', 1), Finish.STOP, request)
            case _:
                return done


@pytest.mark.parametrize("seed", range(20))
async def test_nobody_is_lost_in_chaos(code: Code, seed: int) -> None:
    """n in, n out, each once, whatever the provider does; written equals judged."""
    bench = JudgeHarness(oversized(code), Chaos(seed))
    results = await bench.run(concurrency=8)
    judged = {
        result.content_hash for result in results.values() if isinstance(result, Judgment)
    }
    written = {result.content_hash for result in bench.written}
    assert judged <= written
    assert (
        not {hash_ for hash_, result in results.items() if isinstance(result, Unjudged)}
        & written
    )

"""The model judge over a scripted provider: nobody lost, nothing paid lost, nothing invented."""

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.scorer.bench import TURN, Around, Bench, Code, ended, settle
from tests.scorer.shapes import candidate, real_code
from xscore.errors import BudgetExhausted, CallTimedOut, PromptTooLong, RequestRejected, StoreError
from xscore.providers.pack_reading import Shown
from xscore.providers.provider import OnText
from xscore.providers.script import PlannedError, Rule, Script
from xscore.providers.scripted import ScriptedProvider
from xscore.records import Cause, Completion, Finish, Judgment, Request, Turn, Unjudged
from xscore.scorer.packs import Profile, profile

LONG = "def long():\n" + "".join(f"    step_{number} = call({number})\n\n" for number in range(900))


def by_length(memory: Shown, _: str) -> float:
    """A score that a test can foresee."""
    return (len(memory.entity) % 100) / 100


@pytest.fixture
def code() -> Code:
    """Two hundred real functions."""
    found = [pair for pair in real_code() if len(pair[1]) < 6_000][:200]
    return {made.id: (made, text) for made, text in found}


def causes(found: dict[str, Judgment | Unjudged]) -> Counter[str]:
    """Results by cause, `judged` among them."""
    return Counter(one.cause.value if isinstance(one, Unjudged) else "judged" for one in found.values())


def alone_of_its_name(code: Code) -> str:
    """The last entity whose name no other memory of the pool bears."""
    names = Counter(made.entity for made, _ in code.values())
    return [made.entity for made, _ in code.values() if names[made.entity] == 1][-1]


async def test_every_memory_gets_the_score_of_its_own_text(code: Code) -> None:
    """X03: ids are dealt, yet each memory's score is its own, and all of them are written."""
    bench = Bench(code, ScriptedProvider(score=by_length))
    found = await bench.run()
    for made, _ in code.values():
        result = found[made.content_hash]
        assert isinstance(result, Judgment)
        assert result.score == (len(made.entity) % 100) / 100
    assert {one.content_hash for one in bench.written} == found.keys()


async def test_a_judgment_is_written_before_its_worker_goes_on(code: Code) -> None:
    """A kill re-pays at most what was in flight: no new call while a paid reply waits for the disk."""
    provider = ScriptedProvider(score=by_length)
    sent_meanwhile: list[int] = []

    async def slow(_: object) -> None:
        before = len(provider.requests)
        await asyncio.sleep(0.002)
        sent_meanwhile.append(len(provider.requests) - before)

    await Bench(code, provider).run(write=slow, concurrency=1)
    assert len(sent_meanwhile) == len(provider.requests) > 5
    assert set(sent_meanwhile) == {0}


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
    """Whatever the first reply to each pack is, every memory ends with its own score and is paid for as little."""

    def tamper(request: Request, text: str) -> str:
        return TAMPERS[name](text) if request.candidates > 10 else text

    provider = ScriptedProvider(score=by_length, tamper=tamper)
    bench = Bench(code, provider)
    judge = bench.judge()
    found = await settle(judge, bench.candidates)
    assert causes(found) == {"judged": len(code)}
    for made, _ in code.values():
        result = found[made.content_hash]
        assert isinstance(result, Judgment) and result.score == (len(made.entity) % 100) / 100
    assert max(Counter(one.content_hash for one in bench.written).values()) == 1
    if name == "foreign":
        assert judge.faults.foreign > 0


async def test_a_reply_that_never_reads_leaves_all_unjudged(code: Code) -> None:
    """An unreadable reply is never a zero: after the ladder the cause is named, and nothing was written."""
    provider = ScriptedProvider(tamper=lambda request, text: "sorry")
    bench = Bench(code, provider)
    found = await bench.run()
    assert causes(found) == {"unreadable": len(code)}
    assert bench.written == []
    asked = Counter(shown for request in provider.requests for shown in [request.candidates])
    assert asked[1] >= len(code)


async def test_a_refused_memory_costs_only_itself(code: Code) -> None:
    """One memory that the model declines is unjudged as refused; its neighbours are judged."""
    poison = max((made for made, _ in code.values()), key=lambda made: len(made.entity))
    script = Script(rules=(Rule(entity=f"*{poison.entity}", refuse=True),))
    found = await Bench(code, ScriptedProvider(script)).run()
    assert causes(found) == {"refused": 1, "judged": len(code) - 1}
    assert isinstance(found[poison.content_hash], Unjudged)


class CutShort(Around):
    """Ends every reply about more than five memories in the middle."""

    async def complete(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Cut."""
        done = await super().complete(request)
        if request.candidates <= 5:
            return done
        return ended(done.text[: len(done.text) // 3], Finish.LENGTH, request)


async def test_a_truncated_reply_keeps_its_whole_scores(code: Code) -> None:
    """What stands in full before the cut is kept; the rest is asked in half packs."""
    provider = CutShort(ScriptedProvider(score=by_length))
    found = await Bench(code, provider).run()
    assert causes(found) == {"judged": len(code)}
    for made, _ in code.values():
        result = found[made.content_hash]
        assert isinstance(result, Judgment) and result.score == (len(made.entity) % 100) / 100


class Failing(Around):
    """Raises an error for some requests."""

    def __init__(self, error: Exception, *, above: int = 0, after: int = 0, only: str = "") -> None:
        super().__init__(ScriptedProvider(score=by_length))
        self.error, self.above, self.after, self.only = error, above, after, only

    async def complete(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Fail, or pass on."""
        self.calls += 1
        if self.calls > self.after and request.candidates > self.above and self.only in request.content[0]:
            raise self.error
        return await self.provider.complete(request, on_text)


async def test_a_prompt_too_long_is_halved(code: Code) -> None:
    """A model with a small context judges all the same, in smaller packs."""
    found = await Bench(code, Failing(PromptTooLong("8k"), above=10)).run()
    assert causes(found) == {"judged": len(code)}


async def test_a_memory_too_long_alone_is_unjudged(code: Code) -> None:
    """What does not even fit alone says so."""
    found = await Bench(code, Failing(PromptTooLong("8k"))).run()
    assert causes(found) == {"too_long": len(code)}


async def test_an_exhausted_budget_stops_the_run(code: Code) -> None:
    """What was paid for is kept, nothing more is sent, the rest is unjudged for want of budget."""
    provider = Failing(BudgetExhausted("cap"), after=3)
    bench = Bench(code, provider)
    found = await bench.run(concurrency=1)
    assert provider.calls == 4
    assert set(causes(found)) == {"judged", "budget"}
    assert causes(found)["judged"] == len(bench.written)


async def test_an_exhausted_quota_stops_after_one_call(code: Code) -> None:
    """An empty account is not asked twice; the detail names the error."""
    provider = ScriptedProvider(Script(errors=(PlannedError(at=1, kind="quota"),)))
    found = await Bench(code, provider).run(concurrency=1)
    assert len(provider.requests) == 1
    assert causes(found) == {"provider": len(code)}
    assert all(isinstance(one, Unjudged) and one.detail.startswith("quota") for one in found.values())


async def test_a_failed_call_costs_only_its_pack(code: Code) -> None:
    """A pack whose call failed after all retries is unjudged; the run goes on."""
    provider = Failing(CallTimedOut("60 s"), only=f'name="{alone_of_its_name(code)}"')
    found = await Bench(code, provider).run()
    lost = causes(found)["provider"]
    assert 0 < lost <= 20
    assert causes(found)["judged"] == len(code) - lost


async def test_a_rejected_pack_is_taken_apart_only_when_others_pass(code: Code) -> None:
    """A moderated memory costs only itself; a host that takes nothing is not asked memory by memory."""
    provider = Failing(RequestRejected("400"), only=f'name="{alone_of_its_name(code)}"')
    found = await Bench(code, provider).run(concurrency=1)
    assert causes(found) == {"provider": 1, "judged": len(code) - 1}
    nothing = Failing(RequestRejected("400"))
    bench = Bench(code, nothing)
    packs = bench.judge().plan(TURN, bench.candidates).calls
    assert causes(await bench.run()) == {"provider": len(code)}
    assert nothing.calls == packs


async def test_an_interrupt_sends_nothing_more(code: Code) -> None:
    """X-interrupt: what is in flight settles and is kept; the rest is unjudged as interrupted."""
    provider = ScriptedProvider(Script(latency_s=0.01))
    bench = Bench(code, provider)
    judge = bench.judge(concurrency=2)
    found: dict[str, Judgment | Unjudged] = {}
    async for result in judge.judge(TURN, bench.candidates):
        judge.stop(Cause.INTERRUPTED)
        found[result.content_hash] = result
    assert len(provider.requests) <= 4
    assert set(causes(found)) == {"judged", "interrupted"}
    assert len(found) == len(code)
    assert causes(found)["judged"] == len(bench.written)


async def test_a_store_that_cannot_be_written_ends_the_spending(code: Code) -> None:
    """Judgments that cannot be kept are not paid for: the error is raised, and few calls follow."""

    async def write(_: object) -> None:
        raise StoreError("disk full")

    provider = ScriptedProvider(score=by_length)
    with pytest.raises(StoreError, match="disk full"):
        await Bench(code, provider).run(write=write, concurrency=2)
    assert len(provider.requests) <= 2


def oversized(code: Code) -> Code:
    """The pool with one memory of several packs' size."""
    large = candidate("asyncio/large.py", "long", LONG)
    return {**code, large.id: (large, LONG)}


def best_part(memory: Shown, _: str) -> float:
    """One part of the long memory is relevant."""
    return 0.93 if "step_500 " in memory.text else 0.02


async def test_an_oversized_memory_is_judged_in_parts(code: Code) -> None:
    """Its score is that of its best part, its parts are written too, the whole with the last of them."""
    bench = Bench(oversized(code), ScriptedProvider(score=best_part))
    found = await bench.run()
    large = candidate("asyncio/large.py", "long", LONG)
    result = found[large.content_hash]
    assert isinstance(result, Judgment) and result.score == 0.93
    assert len(bench.written) > len(found)
    parts = [one for one in bench.written if one.content_hash not in found]
    assert bench.written.index(result) > max(bench.written.index(part) for part in parts)


async def test_a_resumed_run_asks_only_for_missing_parts(code: Code) -> None:
    """Judged parts are paid for once, even when the memory as a whole was not finished."""
    large = candidate("asyncio/large.py", "long", LONG)
    only = {large.id: (large, LONG)}
    first = Bench(only, Failing(CallTimedOut("60 s"), after=2))
    found = await first.run(concurrency=1)
    assert causes(found) == {"provider": 1}
    assert len(first.written) == 2
    known = {one.content_hash: one for one in first.written}
    again = Bench(only, ScriptedProvider(score=best_part))
    total = len(list(again.judge().requests(TURN, again.candidates)))
    resumed = await again.run(known_parts=lambda hashes: {one: known[one] for one in hashes if one in known})
    assert isinstance(resumed[large.content_hash], Judgment)
    assert len(again.provider.requests) == total - 2  # type: ignore[attr-defined]


async def test_a_memory_whose_parts_are_all_known_is_written_without_a_call(code: Code) -> None:
    """A kill between the last part and its memory costs nothing."""
    large = candidate("asyncio/large.py", "long", LONG)
    only = {large.id: (large, LONG)}
    first = Bench(only, ScriptedProvider(score=best_part))
    await first.run()
    known = {one.content_hash: one for one in first.written if one.content_hash != large.content_hash}
    again = Bench(only, ScriptedProvider())
    found = await again.run(known_parts=lambda hashes: {one: known[one] for one in hashes if one in known})
    assert isinstance(found[large.content_hash], Judgment)
    assert [one.content_hash for one in again.written] == [large.content_hash]


async def test_packs_go_out_by_their_best_prior(code: Code) -> None:
    """Anytime: the most promising pack is sent first, and the prior is kept with the judgment."""
    bench = Bench(code, ScriptedProvider(score=by_length))
    last = bench.candidates[-1]
    await bench.run(priors={last.id: 0.8}, concurrency=1)
    sent = bench.provider.requests[0].content[0]  # type: ignore[attr-defined]
    assert f'name="{last.entity}"' in sent
    assert {one.prior for one in bench.written if one.content_hash == last.content_hash} == {0.8}


@pytest.mark.parametrize("limits", [Profile(), profile(pack_size=1), profile(cache_floor=4_096)])
async def test_the_plan_is_what_is_sent(code: Code, limits: Profile) -> None:
    """X13: calls and tokens of the estimate are those of the run, request by request."""
    provider = ScriptedProvider(score=by_length)
    bench = Bench(oversized(code), provider, profile=limits)
    planned = list(bench.judge().requests(TURN, bench.candidates))
    total = bench.judge().plan(TURN, bench.candidates)
    await bench.run()
    key = str
    assert sorted(map(key, planned)) == sorted(map(key, provider.requests))
    assert total.calls == len(provider.requests)
    assert total.input_tokens == sum(request.input_tokens for request in provider.requests)
    assert total.output_tokens < total.max_output_tokens


async def test_another_task_finds_its_whole_prefix_again(code: Code) -> None:
    """Of the cacheable prefix (whole 128-token steps of rubric and pack) at least 95 % is byte-identical."""
    provider = ScriptedProvider(score=by_length)
    bench = Bench(code, provider)
    await bench.run()
    first = {request.cache_key: request for request in provider.requests}
    provider.requests.clear()
    await bench.run(turn=Turn(task="Another task altogether", errors="KeyError"))
    cacheable = same = 0
    for request in provider.requests:
        prefix, before = (request.system + request.content[0]).encode(), first[request.cache_key]
        steps = len(prefix) // (4 * 128)
        cacheable += steps
        same += sum(
            prefix[: step * 512] == (before.system + before.content[0]).encode()[: step * 512]
            for step in range(1, steps + 1)
        )
    assert cacheable > 100
    assert same >= 0.95 * cacheable


async def test_one_edit_judges_one_memory(code: Code) -> None:
    """X28: after an edit only the edited memory is sent, and the next task finds all other packs as they were."""
    bench = Bench(code, ScriptedProvider(score=by_length))
    whole = [request.content[0] for request in bench.judge().requests(TURN, bench.candidates)]
    made, text = next(iter(code.values()))
    edited = replace(made, content_hash="edited")
    after = Bench({**code, made.id: (edited, text + "\n    # edited")}, bench.provider)
    (only,) = after.judge().requests(TURN, [edited])
    assert only.candidates == 1 and "# edited" in only.content[0]
    again = [request.content[0] for request in after.judge().requests(TURN, after.candidates)]
    assert len(set(whole) - set(again)) == 1


async def test_plain_mode_sends_one_prompt_a_memory(code: Code) -> None:
    """`--pack-size 1`, same reply object, and its own judge identity."""
    provider = ScriptedProvider(score=by_length)
    bench = Bench(code, provider, profile=profile(pack_size=1))
    assert causes(await bench.run()) == {"judged": len(code)}
    assert {request.candidates for request in provider.requests} == {1}
    assert {one.pack for one in bench.written} == {""}
    assert bench.judge().identity.packed is False
    assert Bench(code, provider).judge().identity.packed is True


async def test_a_memory_that_left_the_store_is_accounted_for(code: Code) -> None:
    """Another process may re-index meanwhile: its memory is unjudged, not lost."""
    ghost = candidate("gone.py", "ghost", "x")
    bench = Bench(code, ScriptedProvider(score=by_length))
    found = await settle(bench.judge(), [*bench.candidates, ghost])
    assert isinstance(found[ghost.content_hash], Unjudged)
    assert causes(found)["judged"] == len(code)


async def test_equal_contents_are_judged_once(code: Code) -> None:
    """One result for each distinct content hash."""
    bench = Bench(code, ScriptedProvider(score=by_length))
    made = bench.candidates[0]
    twin = replace(made, id="m_twin")
    assert len(await settle(bench.judge(), [*bench.candidates, twin])) == len(code)


class Chaos(Around):
    """Does anything that a provider can do."""

    def __init__(self, seed: int) -> None:
        super().__init__(ScriptedProvider(score=by_length))
        self.rng = random.Random(seed)

    async def complete(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Answer, spoil or fail."""
        done = await super().complete(request)
        await asyncio.sleep(0)
        errors = (CallTimedOut("t"), PromptTooLong("l"), RequestRejected("r"))
        match self.rng.randrange(10):
            case 0:
                raise self.rng.choice(errors)
            case 1:
                return ended("", Finish.REFUSAL, request)
            case 2:
                return ended(done.text[: self.rng.randrange(len(done.text))], Finish.LENGTH, request)
            case 3:
                at = self.rng.randrange(len(done.text))
                return ended(done.text[:at] + self.rng.choice('"}{:,01x') + done.text[at:], Finish.STOP, request)
            case 4:
                return ended(done.text.replace('": ', '": 1', 1), Finish.STOP, request)
            case _:
                return done


@pytest.mark.parametrize("seed", range(20))
async def test_nobody_is_lost_in_chaos(code: Code, seed: int) -> None:
    """n in, n out, each once, whatever the provider does; what is written is what is reported as judged."""
    bench = Bench(oversized(code), Chaos(seed))
    found = await bench.run(concurrency=8)
    judged = {one.content_hash for one in found.values() if isinstance(one, Judgment)}
    written = {one.content_hash for one in bench.written}
    assert judged <= written
    assert not {hash_ for hash_, one in found.items() if isinstance(one, Unjudged)} & written


async def test_texts_are_loaded_pack_by_pack() -> None:
    """20,000 memories need neither all their texts at once nor much CPU beyond the calls."""
    text = "def f(a, b):\n    return a if a < b else b\n" * 10
    made = [candidate(f"m{number // 17}.py", f"f{number}", text, line=number) for number in range(20_000)]
    bench = Bench({one.id: (one, text) for one in made}, Quick(ScriptedProvider()))
    judge = bench.judge(concurrency=32)
    started = time.process_time()
    await settle(judge, made)
    spent_ms = (time.process_time() - started) * 1e3
    assert max(bench.loaded) <= 20
    assert spent_ms / len(made) < 0.2  # 0.03 measured; the bound leaves room for a slow machine


class Quick(Around):
    """Costs next to nothing itself."""

    async def complete(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Score all alike."""
        scores = ", ".join(f'"{code}": 7' for code in request.reply_ids)
        return ended('{"scores": {' + scores + '}, "reasons": []}', Finish.STOP, request)

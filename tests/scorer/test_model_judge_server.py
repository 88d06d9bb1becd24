"""The model judge through the real SDK, over loopback, against a server that accounts prefixes and misbehaves."""

from collections.abc import Iterator

import pytest

from tests.scorer.bench import TURN, Bench, Code, settle
from tests.scorer.shapes import real_code
from tests.servers import OpenAIServer
from tests.servers.faults import IN_THE_TEXT, Fault
from xscore.providers.openai import connect
from xscore.providers.provider import Provider
from xscore.records import Judgment, Turn
from xscore.scorer.drafts import JudgeModel
from xscore.settings import OpenAISettings, Secret, Settings

pytestmark = pytest.mark.verify

MODEL = "gpt-4.1-mini"
SPOILT = (*IN_THE_TEXT, Fault.REFUSAL, Fault.TRUNCATION)


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    """A server that behaves, until told otherwise."""
    with OpenAIServer() as running:
        yield running


@pytest.fixture
def code() -> Code:
    """A hundred real functions."""
    found = [pair for pair in real_code() if len(pair[1]) < 6_000][:100]
    return {made.id: (made, text) for made, text in found}


def provider(server: OpenAIServer) -> Provider:
    """The OpenAI dialect, pointed at the server."""
    openai = OpenAISettings(base_url=server.url, api_key=Secret("k"))
    return connect(MODEL, Settings(openai=openai))


async def test_every_memory_is_judged_once(server: OpenAIServer, code: Code) -> None:
    """The server saw each memory exactly once, in packs under a strict schema."""
    bench = Bench(code, provider(server), model=JudgeModel(name=MODEL))
    found = await bench.run()
    await bench.provider.aclose()
    assert all(isinstance(one, Judgment) for one in found.values())
    assert len(server.counts.judged_places) == len(code)
    assert set(server.counts.judged_places.values()) == {1}
    assert all(body["response_format"]["type"] == "json_schema" for body in server.counts.bodies)


async def test_another_task_is_served_from_the_prefix_cache(server: OpenAIServer, code: Code) -> None:
    """Of the cacheable prefix, whole 128-token steps of rubric and pack, at least 95 % is served."""
    bench = Bench(code, provider(server), model=JudgeModel(name=MODEL))
    cacheable = 0
    for request in bench.judge().requests(TURN, bench.candidates):
        size = len(request.system + request.content[0]) // 4
        cacheable += size // 128 * 128 if size >= 1_024 else 0
    await bench.run()
    server.reset()
    await bench.run(turn=Turn(task="Teach the event loop to close its sockets"))
    await bench.provider.aclose()
    assert cacheable > 5_000
    assert server.counts.cached_tokens >= 0.95 * cacheable


@pytest.mark.parametrize("fault", SPOILT)
async def test_a_fault_is_repaired(server: OpenAIServer, code: Code, fault: Fault) -> None:
    """One spoilt reply costs a few more calls, and nobody."""
    server.misbehave(fault)
    bench = Bench(code, provider(server), model=JudgeModel(name=MODEL))
    judge = bench.judge()
    found = await settle(judge, bench.candidates)
    await bench.provider.aclose()
    assert all(isinstance(one, Judgment) for one in found.values())
    assert judge.faults.asked_again + judge.faults.foreign > 0

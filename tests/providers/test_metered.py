"""Every attempt leaves a row, whatever became of it."""

import asyncio
from decimal import Decimal

import pytest

from tests.providers.conftest import Connected, MakeRequest
from tests.servers import Fault, OpenAIServer
from xscore.platform.errors import ProviderError
from xscore.providers.attempts import OUTCOME_CANCELLED, Metered
from xscore.providers.scripted import Script, ScriptedProvider
from xscore.records import CallRecord, Stage, Usage


def cents(provider: str, model: str, host: str, usage: Usage) -> Decimal:
    """Price every token at a cent."""
    return Decimal(usage.input_tokens + usage.output_tokens) / 100


async def test_an_answered_call_is_entered_with_its_usage(
    server: OpenAIServer, judging: MakeRequest, connected: Connected
) -> None:
    """The row holds the host, the usage it reported, and its price, which is $0 on loopback."""
    rows: list[CallRecord] = []
    request = judging()
    async with connected(server.url) as provider:
        completion = await Metered(provider, turn_id="turn-1", record=rows.append).complete(request)
    (row,) = rows
    assert (row.turn_id, row.stage, row.provider, row.host) == ("turn-1", Stage.JUDGE, "openai", server.host)
    assert (row.model, row.candidates, row.outcome) == (request.model, request.candidates, "ok")
    assert row.usage == completion.usage
    assert row.cost_usd == Decimal(0)
    assert not row.estimated
    assert 0 < row.duration_s < 60


@pytest.mark.parametrize(
    ("fault", "outcome", "is_estimated"),
    [
        (Fault.RATE_LIMITED, "rate_limited", False),
        (Fault.QUOTA, "quota", False),
        (Fault.HTML, "unreadable_response", True),
        (Fault.RESET, "connection", True),
        (Fault.SILENCE, "timeout", True),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
async def test_a_failed_call_is_entered_as_well(
    server: OpenAIServer, judging: MakeRequest, connected: Connected, fault: Fault, outcome: str, is_estimated: bool
) -> None:
    """A call turned away costs nothing; one that may have been charged is entered at our upper estimate."""
    rows: list[CallRecord] = []
    server.misbehave(fault)
    request = judging(timeout_s=0.3)
    async with connected(server.url) as provider:
        with pytest.raises(ProviderError):
            await Metered(provider, turn_id="t", record=rows.append, price=cents).complete(request)
    (row,) = rows
    feared = Usage(input_tokens=request.input_tokens, output_tokens=request.max_output_tokens)
    assert row.outcome == outcome
    assert row.estimated is is_estimated
    assert row.usage == (feared if is_estimated else Usage())
    assert row.cost_usd == cents("", "", "", row.usage)


async def test_an_abandoned_call_is_entered(judging: MakeRequest) -> None:
    """A call cancelled in flight leaves an estimated row."""
    rows: list[CallRecord] = []
    metered = Metered(ScriptedProvider(Script(latency_s=30)), turn_id="t", record=rows.append, clock=lambda: 5.0)
    call = asyncio.create_task(metered.complete(judging()))
    await asyncio.sleep(0.01)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    assert [(row.outcome, row.estimated, row.started_at) for row in rows] == [(OUTCOME_CANCELLED, True, 5.0)]


async def test_missing_usage_is_marked_as_estimated(
    server: OpenAIServer, judging: MakeRequest, connected: Connected
) -> None:
    """An answered call without usage counts at our estimate and says so."""
    rows: list[CallRecord] = []
    server.misbehave(Fault.NO_USAGE)
    async with connected(server.url) as provider:
        await Metered(provider, turn_id="t", record=rows.append).complete(judging())
    assert rows[0].estimated and rows[0].usage.input_tokens > 0


@pytest.mark.parametrize("jump_s", [-7_200.0, 7_200.0])
async def test_a_wall_clock_that_jumps_does_not_change_durations(judging: MakeRequest, jump_s: float) -> None:
    """Stamps are of the wall clock, durations of one that only goes forward."""
    rows: list[CallRecord] = []
    wall, stopwatch = iter([1_000.0, 1_000.0 + jump_s]), iter([50.0, 50.25])
    metered = Metered(
        ScriptedProvider(), turn_id="t", record=rows.append, clock=lambda: next(wall), stopwatch=lambda: next(stopwatch)
    )
    await metered.complete(judging())
    assert [(row.started_at, row.duration_s) for row in rows] == [(1_000.0, 0.25)]

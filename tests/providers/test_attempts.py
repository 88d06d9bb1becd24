"""Every attempt leaves a row; retries are outside the limits and depend on the type of error."""

import asyncio
from decimal import Decimal

import pytest

from tests.providers.conftest import Connected, MakeRequest, ManualClock
from tests.servers import Fault, OpenAIServer
from xscore.platform.errors import (
    ConnectionFailed,
    ProviderError,
    RateLimited,
    Unreachable,
    UnreadableResponse,
    error_kinds,
)
from xscore.providers.attempts import (
    MAX_REFUSALS,
    OUTCOME_CANCELLED,
    Metered,
    Retrying,
    may_retry,
)
from xscore.providers.limits import Limited
from xscore.providers.prices import usage_upper_bound
from xscore.providers.scripted import PlannedError, Script, ScriptedProvider
from xscore.records.calls import CallRecord, Stage, Usage


def cents(provider: str, model: str, host: str, usage: Usage) -> Decimal:
    """Price every token at a cent."""
    return Decimal(usage.input_tokens + usage.output_tokens) / 100


async def test_an_answered_call_is_entered_with_its_usage(
    server: OpenAIServer, judging: MakeRequest, connected: Connected
) -> None:
    """The row has the host, its reported usage and the price, which is $0 on loopback."""
    rows: list[CallRecord] = []
    request = judging()
    async with connected(server.url) as provider:
        completion = await Metered(provider, turn_id="turn-1", record=rows.append).complete(
            request
        )
    (row,) = rows
    assert row.turn_id == "turn-1"
    assert row.stage == Stage.JUDGE
    assert row.provider == "openai"
    assert row.host == server.host
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
    server: OpenAIServer,
    judging: MakeRequest,
    connected: Connected,
    fault: Fault,
    outcome: str,
    is_estimated: bool,
) -> None:
    """A rejected call costs nothing; one that may have been charged is recorded at our upper
    estimate."""
    rows: list[CallRecord] = []
    server.misbehave(fault)
    request = judging(timeout_s=0.3 if fault is Fault.SILENCE else 60.0)
    async with connected(server.url) as provider:
        with pytest.raises(ProviderError):
            await Metered(provider, turn_id="t", record=rows.append, price=cents).complete(
                request
            )
    (row,) = rows
    feared = usage_upper_bound("openai", "", request, price_of=cents)
    assert row.outcome == outcome
    assert row.estimated is is_estimated
    assert row.usage == (feared if is_estimated else Usage())
    assert row.cost_usd == cents("", "", "", row.usage)


async def test_an_abandoned_call_is_entered(judging: MakeRequest) -> None:
    """A call cancelled in flight leaves an estimated row."""
    rows: list[CallRecord] = []
    metered = Metered(
        ScriptedProvider(Script(latency_s=30)),
        turn_id="t",
        record=rows.append,
        clock=lambda: 5.0,
    )
    call = asyncio.create_task(metered.complete(judging()))
    await asyncio.sleep(0.01)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    assert [(row.outcome, row.estimated, row.started_at) for row in rows] == [
        (OUTCOME_CANCELLED, True, 5.0)
    ]


@pytest.mark.parametrize("jump_s", [-7_200.0, 7_200.0])
async def test_a_wall_clock_that_jumps_does_not_change_durations(
    judging: MakeRequest, jump_s: float
) -> None:
    """Timestamps use the wall clock, durations a monotonic one."""
    rows: list[CallRecord] = []
    wall = iter([1_000.0, 1_000.0 + jump_s])
    await Metered(
        ScriptedProvider(), turn_id="t", record=rows.append, clock=lambda: next(wall)
    ).complete(judging())
    assert rows[0].started_at == 1_000.0
    assert 0 <= rows[0].duration_s < 60


def _script(*kinds: str, retry_after_s: float | None = None) -> ScriptedProvider:
    errors = [
        PlannedError(at=at, kind=kind, retry_after_s=retry_after_s)
        for at, kind in enumerate(kinds, 1)
    ]
    return ScriptedProvider(Script(errors=tuple(errors)))


async def test_a_passing_trouble_is_tried_again(
    judging: MakeRequest, time_passes: ManualClock
) -> None:
    """X12: retryable failures are retried with growing waits."""
    provider = _script("overloaded", "connection", "unreadable_response")
    retrying = Retrying(provider, attempts=5, sleep=time_passes.sleep, jitter=lambda: 0.0)
    assert (await retrying.complete(judging())).text
    assert len(provider.requests) == 4
    assert time_passes.slept == [0.5, 1.0, 2.0]


async def test_a_host_of_the_wrong_kind_is_asked_twice(
    judging: MakeRequest, time_passes: ManualClock
) -> None:
    """A malformed reply is retried once, however many attempts are allowed."""
    provider = _script(*["unreadable_response"] * 5)
    with pytest.raises(UnreadableResponse):
        await Retrying(provider, attempts=5, sleep=time_passes.sleep).complete(judging())
    assert len(provider.requests) == 2


@pytest.mark.parametrize(("host", "requests"), [("127.0.0.1:8080", 2), ("far.example", 5)])
async def test_a_server_that_is_not_started_is_asked_twice(
    judging: MakeRequest, time_passes: ManualClock, host: str, requests: int
) -> None:
    """A refused port of this machine costs half a second; a server that has answered is waited
    for."""
    provider = _script(*["unreachable"] * 5)
    provider.host = host
    retrying = Retrying(provider, attempts=5, sleep=time_passes.sleep)
    with pytest.raises(Unreachable):
        await retrying.complete(judging())
    assert len(provider.requests) == requests
    up = ScriptedProvider(
        Script(errors=tuple(PlannedError(at=at, kind="unreachable") for at in (2, 3, 4)))
    )
    up.host = host
    restarted = Retrying(up, attempts=5, sleep=time_passes.sleep)
    assert (await restarted.complete(judging())).text
    assert (await restarted.complete(judging())).text


async def test_retry_after_is_a_minimum_with_jitter(
    judging: MakeRequest, time_passes: ManualClock
) -> None:
    """The wait is never shorter than the host asked, and differs between calls."""
    for jitter in (0.0, 0.99):
        provider = _script("overloaded", retry_after_s=8.0)
        retrying = Retrying(
            provider,
            attempts=2,
            sleep=time_passes.sleep,
            jitter=lambda: jitter,  # noqa: B023  awaited within the loop
        )
        await retrying.complete(judging())
    assert time_passes.slept[0] == 8.0
    assert 8.0 < time_passes.slept[1] <= 10.0


async def test_429s_do_not_use_up_the_attempts(
    judging: MakeRequest, time_passes: ManualClock
) -> None:
    """A call admitted late is still judged; between two 429s it waits a moment."""
    provider = _script(*["rate_limited"] * (MAX_REFUSALS - 1), "overloaded")
    retrying = Retrying(provider, attempts=2, sleep=time_passes.sleep, jitter=lambda: 0.0)
    assert (await retrying.complete(judging())).text
    assert len(provider.requests) == MAX_REFUSALS + 1
    assert time_passes.slept == [0.5] * MAX_REFUSALS


async def test_a_call_that_is_never_let_through_fails(
    judging: MakeRequest, time_passes: ManualClock
) -> None:
    """A prompt above the host's per-minute limit always meets 429; it is not retried for ever."""
    provider = _script(*["rate_limited"] * 99)
    with pytest.raises(RateLimited, match=f"call {MAX_REFUSALS} "):
        await Retrying(provider, attempts=2, sleep=time_passes.sleep).complete(judging())


@pytest.mark.parametrize(
    ("host", "timeouts_s"), [("127.0.0.1:8080", [5.0, 10.0, 20.0]), ("far.example", [5.0] * 3)]
)
async def test_a_local_model_is_given_more_time(
    judging: MakeRequest, time_passes: ManualClock, host: str, timeouts_s: list[float]
) -> None:
    """After a timeout the next attempt has twice the time on this machine, and the same
    elsewhere."""
    provider = _script("timeout", "timeout")
    provider.host = host
    await Retrying(provider, attempts=3, sleep=time_passes.sleep).complete(
        judging(timeout_s=5.0)
    )
    assert [request.timeout_s for request in provider.requests] == timeouts_s


async def test_a_host_that_asks_for_too_much_patience_gets_none(
    judging: MakeRequest, time_passes: ManualClock
) -> None:
    """A Retry-After of an hour fails at once."""
    with pytest.raises(RateLimited):
        provider = _script("rate_limited", retry_after_s=3_600)
        await Retrying(provider, attempts=5, sleep=time_passes.sleep).complete(judging())
    assert time_passes.slept == []


@pytest.mark.parametrize("kind", sorted(error_kinds()))
async def test_the_type_decides(
    judging: MakeRequest, time_passes: ManualClock, kind: str
) -> None:
    """Every error is retried or raised according to its flags; one that stops the run is never
    retried."""
    error = error_kinds()[kind]
    provider = _script(kind)
    retrying = Retrying(provider, attempts=2, sleep=time_passes.sleep)
    if error.retryable and not error.stops_run:
        await retrying.complete(judging())
    else:
        with pytest.raises(error):
            await retrying.complete(judging())
    assert len(provider.requests) == (2 if may_retry(error("x")) else 1)


async def test_text_that_was_shown_is_not_shown_twice(
    server: OpenAIServer, judging: MakeRequest, connected: Connected, time_passes: ManualClock
) -> None:
    """A stream that breaks after its first words is not restarted; one that broke before is."""
    shown: list[str] = []
    request = judging(reply_ids=(), content=("Explain.",), input_tokens=3)
    async with connected(server.url) as provider:
        retrying = Retrying(provider, attempts=3, sleep=time_passes.sleep)
        server.misbehave(Fault.CUT)
        with pytest.raises(ConnectionFailed):
            await retrying.complete(request, shown.append)
        assert shown and server.counts.requests == 1
        server.misbehave(Fault.UNAVAILABLE)
        await retrying.complete(request, shown.append)
    assert server.counts.requests == 3


async def test_each_attempt_has_its_own_slot_and_row(
    server: OpenAIServer, judging: MakeRequest, connected: Connected
) -> None:
    """Every attempt is a ledger row; while one waits for its retry, another call has the only
    slot."""
    rows: list[CallRecord] = []
    server.misbehave(Fault.UNAVAILABLE)
    async with connected(server.url) as provider:
        limited = Limited(Metered(provider, turn_id="t", record=rows.append), concurrency=1)

        async def others_may_pass(seconds: float) -> None:
            await limited.complete(judging(task="meanwhile"))

        await Retrying(limited, attempts=3, sleep=others_may_pass).complete(judging())
    assert [row.outcome for row in rows] == ["overloaded", "ok", "ok"]

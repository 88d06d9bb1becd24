"""Every way in which the loopback server can misbehave, and the result of the call, in either
dialect."""

import json

import pytest

from tests.providers.conftest import DialectServer, MakeRequest
from tests.servers import Fault
from tests.servers.faults import IN_THE_TEXT
from xscore.platform.errors import (
    AuthenticationFailed,
    CallTimedOut,
    ConnectionFailed,
    Overloaded,
    PromptCut,
    PromptTooLong,
    ProviderError,
    QuotaExhausted,
    RateLimited,
    RequestRejected,
    UnknownModel,
    Unreachable,
    UnreadableResponse,
)
from xscore.records.calls import Finish

RAISED: dict[Fault, type[ProviderError]] = {
    Fault.RATE_LIMITED: RateLimited,
    Fault.QUOTA: QuotaExhausted,
    Fault.SPEND_LIMIT: QuotaExhausted,
    Fault.PAYMENT: QuotaExhausted,
    Fault.SERVER_ERROR: Overloaded,
    Fault.UNAVAILABLE: Overloaded,
    Fault.OVERLOADED: Overloaded,
    Fault.WRONG_KEY: AuthenticationFailed,
    Fault.UNKNOWN_MODEL: UnknownModel,
    Fault.TOO_LONG: PromptTooLong,
    Fault.ECHO: RequestRejected,
    Fault.RESET: ConnectionFailed,
    Fault.SILENCE: CallTimedOut,
    Fault.DRIP: CallTimedOut,
    Fault.CUT: ConnectionFailed,
    Fault.HTML: UnreadableResponse,
    Fault.EMPTY_OBJECT: UnreadableResponse,
    Fault.ERROR_IN_200: RateLimited,
    Fault.ERROR_IN_STREAM: RateLimited,
    Fault.NOT_JSON: UnreadableResponse,
    Fault.REDIRECT: UnknownModel,
    Fault.CUT_PROMPT: PromptCut,
}
"""Network and account faults -> exactly this error."""

ANTHROPICS = {Fault.ERROR_IN_200: Overloaded, Fault.ERROR_IN_STREAM: Overloaded}
"""Faults named differently by the Anthropic dialect within a success."""

FINISHED = {
    Fault.MODERATED: Finish.REFUSAL,
    Fault.REFUSAL: Finish.REFUSAL,
    Fault.TRUNCATION: Finish.LENGTH,
}
"""Faults that are finish reasons."""

IS_STREAMED = pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
KEY = "sk-proj-abcdefghijklmnop"


def raised(dialect: str, fault: Fault) -> type[ProviderError]:
    """Return the one error of a fault."""
    return ANTHROPICS.get(fault, RAISED[fault]) if dialect == "anthropic" else RAISED[fault]


def patience_s(fault: Fault) -> float:
    """Return a short deadline where it is tested, otherwise one that a busy machine meets."""
    return 0.5 if RAISED[fault] is CallTimedOut else 30.0


def ignore(piece: str) -> None:
    """Discard streamed text."""


def test_every_fault_is_proved_here() -> None:
    """Every fault of the server has a test."""
    assert {*RAISED, *FINISHED, *IN_THE_TEXT, Fault.NO_USAGE, Fault.VAST_USAGE} == set(Fault)


@pytest.mark.parametrize("fault", RAISED, ids=lambda fault: fault.name)
@IS_STREAMED
async def test_a_fault_raises_its_own_error(
    spoken: DialectServer, judging: MakeRequest, fault: Fault, is_streamed: bool
) -> None:
    """Each fault is one request and one error of ours, with a hint and without key
    or prompt."""
    spoken.server.misbehave(
        fault if not (is_streamed and fault is Fault.DRIP) else Fault.SILENCE
    )
    async with spoken.connected(spoken.server.url, key=KEY) as provider:
        with pytest.raises(ProviderError) as caught:
            request = judging(timeout_s=patience_s(fault), chars=900)
            await provider.complete(request, ignore if is_streamed else None)
    assert type(caught.value) is raised(spoken.name, fault)
    assert spoken.server.counts.requests == 1
    assert caught.value.hint
    message = f"{caught.value} {caught.value.hint}"
    assert KEY not in message
    assert "body of k0" not in message
    assert spoken.server.host in str(caught.value)
    assert len(str(caught.value)) < 300
    other_dialect = {"openai": "anthropic.base_url", "anthropic": "openai"}[spoken.name]
    assert other_dialect not in message


@pytest.mark.parametrize("fault", FINISHED, ids=lambda fault: fault.name)
@IS_STREAMED
async def test_refusal_and_truncation_are_ways_to_finish(
    spoken: DialectServer, judging: MakeRequest, fault: Fault, is_streamed: bool
) -> None:
    """A refusal (empty content) or a truncated reply raises nothing and is reported."""
    spoken.server.misbehave(fault)
    async with spoken.connected(spoken.server.url) as provider:
        completion = await provider.complete(judging(), ignore if is_streamed else None)
    assert completion.finish is FINISHED[fault]
    assert bool(completion.text) == (completion.finish is Finish.LENGTH)


@pytest.mark.parametrize("fault", IN_THE_TEXT, ids=lambda fault: fault.name)
async def test_what_the_model_wrote_comes_through_as_written(
    spoken: DialectServer, judging: MakeRequest, fault: Fault
) -> None:
    """Wrong content is the scorer's to repair: the provider neither repairs nor hides it."""
    async with spoken.connected(spoken.server.url) as provider:
        right = await provider.complete(judging())
        spoken.server.misbehave(fault)
        wrong = await provider.complete(judging())
    assert wrong.text != right.text
    assert wrong.finish is Finish.STOP
    json.loads(right.text)


@IS_STREAMED
@pytest.mark.parametrize(
    "fault", [Fault.NO_USAGE, Fault.VAST_USAGE], ids=lambda fault: fault.name
)
async def test_missing_usage_is_our_estimate_and_says_so(
    spoken: DialectServer, judging: MakeRequest, is_streamed: bool, fault: Fault
) -> None:
    """A host without usage, or with one that no call can have, is metered by our estimate, marked
    as one."""
    spoken.server.misbehave(fault)
    request = judging()
    async with spoken.connected(spoken.server.url) as provider:
        completion = await provider.complete(request, ignore if is_streamed else None)
    assert not completion.usage_reported
    assert completion.usage.input_tokens == request.input_tokens
    assert completion.usage.output_tokens > 0


@pytest.mark.parametrize(
    "fault", [Fault.RATE_LIMITED, Fault.OVERLOADED], ids=lambda fault: fault.name
)
async def test_retry_after_reaches_the_caller(
    spoken: DialectServer, judging: MakeRequest, fault: Fault
) -> None:
    """X12: the host's requested wait is on the error; a silent host has none."""
    spoken.server.misbehave(fault, retry_after_s=1.5)
    spoken.server.misbehave(fault)
    async with spoken.connected(spoken.server.url) as provider:
        for expected in (1.5, None):
            with pytest.raises(RAISED[fault]) as caught:
                await provider.complete(judging())
            assert caught.value.retry_after_s == expected


async def test_a_host_that_is_not_there_was_sent_nothing(
    spoken: DialectServer, judging: MakeRequest
) -> None:
    """A refused connection is distinguished from a broken one: it cannot have been charged."""
    async with spoken.connected("http://127.0.0.1:9" + spoken.server.base_path) as provider:
        with pytest.raises(Unreachable, match=r"127\.0\.0\.1:9") as caught:
            await provider.complete(judging())
    assert not caught.value.may_be_charged

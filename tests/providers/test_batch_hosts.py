"""Both vendors' Batch APIs against real servers on loopback, with the same promises."""

import io
import json
import socket
from collections.abc import AsyncIterator, Iterator
from typing import IO

import pytest
from msgspec import Struct

from tests.providers.conftest import MakeRequest
from tests.servers import (
    AnthropicBatchServer,
    AnthropicServer,
    BatchFault,
    Fault,
    OpenAIBatchServer,
    OpenAIServer,
    Step,
)
from xscore.extensions.batch.records import (
    BatchResult,
    RequestOutcome,
    VendorBatch,
    VendorBatchState,
)
from xscore.extensions.batch.vendor_batches import (
    CERTAINLY_NOT_CREATED,
    AnthropicBatches,
    OpenAIBatches,
    batch_host,
)
from xscore.extensions.batch.vendor_calls import BatchHost
from xscore.platform.errors import (
    ConnectionFailed,
    NoBatchApi,
    Overloaded,
    RateLimited,
    Unreachable,
    UsageError,
)
from xscore.providers.scripted import ScriptedProvider
from xscore.providers.spec import ModelSpec, connect_provider
from xscore.providers.wire import WireProvider
from xscore.records.calls import Finish
from xscore.settings import AnthropicSettings, OpenAISettings, Secret, Settings

KEY = "sk-loopback-0123456789"
MARK = "xs_0011223344556677_1"
SPEC = {
    name: ModelSpec(name, model)
    for name, model in (("openai", "judge-2"), ("anthropic", "claude-haiku-5-5"))
}
Server = OpenAIBatchServer | AnthropicBatchServer


def settings(url: str, *, key: str = KEY) -> Settings:
    """Return settings in which both dialects lead to this address."""
    return Settings(
        openai=OpenAISettings(base_url=url, api_key=Secret(key)),
        anthropic=AnthropicSettings(base_url=url, api_key=Secret(key)),
    )


class Vendor(Struct, frozen=True):
    """One vendor's server and a connection to it."""

    server: Server
    host: BatchHost
    model: str

    def lines(self, judging: MakeRequest, n: int) -> IO[bytes]:
        """Return the input of N requests."""
        requests = (
            judging(model=self.model, task=f"Question {number} «ü»") for number in range(n)
        )
        return io.BytesIO(
            b"".join(
                self.host.line(f"{MARK}-q{at}-a0", request)
                for at, request in enumerate(requests)
            )
        )

    async def created(self, judging: MakeRequest, n: int) -> VendorBatch:
        """Create a batch of N requests."""
        file_id = await self.host.upload(lines := self.lines(judging, n), mark=MARK)
        return await self.host.create(lines, mark=MARK, file_id=file_id)

    async def ended(self, seen: VendorBatch) -> VendorBatch:
        """Poll until it is over."""
        for _ in range(20):
            if seen.state in (VendorBatchState.ENDED, VendorBatchState.FAILED):
                return seen
            seen = await self.host.look(seen.vendor_id)
        raise AssertionError("the batch does not end")

    async def results(self, seen: VendorBatch) -> list[BatchResult]:
        """Return all results."""
        return [result async for result in self.host.results(seen, model=self.model)]


async def no_time(seconds: float) -> None:
    """Sleep without time passing."""


def patient(name: str, url: str) -> BatchHost:
    """Return the Batch API at this address, with retries that do not wait."""
    provider = connect_provider(SPEC[name], settings(url))
    assert isinstance(provider, WireProvider)
    return (OpenAIBatches if name == "openai" else AnthropicBatches)(provider, sleep=no_time)


@pytest.fixture(params=["openai", "anthropic"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Each vendor's server in turn."""
    with (
        OpenAIBatchServer(api_key=KEY)
        if request.param == "openai"
        else AnthropicBatchServer(api_key=KEY) as running
    ):
        yield running


@pytest.fixture
async def vendor(server: Server) -> AsyncIterator[Vendor]:
    """Each vendor in turn, connected."""
    name = "openai" if isinstance(server, OpenAIBatchServer) else "anthropic"
    host = patient(name, server.url)
    yield Vendor(server, host, SPEC[name].model)
    await host.aclose()


async def test_a_batch_comes_back_whole(vendor: Vendor, judging: MakeRequest) -> None:
    """Every request runs once and its answer comes back under its id, in any order."""
    seen = await vendor.created(judging, 25)
    states = [seen.status]
    while seen.state is not VendorBatchState.ENDED:
        seen = await vendor.host.look(seen.vendor_id)
        states.append(seen.status)
    results = await vendor.results(seen)
    ids = [result.custom_id for result in results]
    assert sorted(ids) == sorted(
        f"{MARK}-q{number}-a0" for number in range(25)
    ) and ids != sorted(ids)
    assert {result.outcome for result in results} == {RequestOutcome.ANSWERED}
    for result in results:
        assert result.completion is not None and result.completion.usage_reported
        assert set(json.loads(result.completion.text)["scores"]) == {"k0", "k1", "k2"}
    assert (seen.requests, seen.done) == (25, 25)
    assert set(vendor.server.batches.ran.values()) == {1}
    assert states[-1] == ("completed" if vendor.host.name == "openai" else "ended")


async def test_a_batch_says_what_the_live_call_says(
    vendor: Vendor, judging: MakeRequest
) -> None:
    """The server gets the same body by batch as by a live call, and both answers are read alike."""
    request = judging(model=vendor.model, task="Question 0 «ü»")
    name = vendor.host.name
    provider = connect_provider(SPEC[name], settings(vendor.server.url))
    live = await provider.complete(request)
    await provider.aclose()
    sent = vendor.server.counts.bodies[0]
    [result] = await vendor.results(await vendor.ended(await vendor.created(judging, 1)))
    line = json.loads(vendor.host.line("a", request))
    assert line["body" if name == "openai" else "params"] == sent
    assert result.completion is not None and result.completion.text == live.text
    assert (result.completion.model, result.completion.finish) == (live.model, live.finish)


async def test_a_create_whose_answer_is_lost_is_found_again(
    vendor: Vendor, judging: MakeRequest
) -> None:
    """It is sent once; its failure is ambiguous, and looking it up resolves it."""
    vendor.server.batches.trouble(Step.CREATE, BatchFault.LOST)
    since = vendor.server.batches.clock()
    with pytest.raises(ConnectionFailed) as failure:
        await vendor.created(judging, 3)
    assert not isinstance(failure.value, CERTAINLY_NOT_CREATED)
    assert vendor.server.batches.created == vendor.server.batches.asked[Step.CREATE] == 1
    [batch] = await vendor.host.find(mark=MARK, since=since, requests=3)
    assert batch.vendor_id in vendor.server.batches.all
    assert batch.mark == (MARK if vendor.host.name == "openai" else "")


async def test_what_is_not_created_is_told_for_certain(
    vendor: Vendor, judging: MakeRequest
) -> None:
    """A 429 created nothing, a 500 may have; neither is resent automatically."""
    vendor.server.batches.trouble(Step.CREATE, BatchFault.BUSY)
    with pytest.raises(CERTAINLY_NOT_CREATED) as busy:
        await vendor.created(judging, 1)
    assert isinstance(busy.value, RateLimited)
    vendor.server.batches.trouble(Step.CREATE, BatchFault.FAILED)
    with pytest.raises(Overloaded) as failure:
        await vendor.created(judging, 1)
    assert not isinstance(failure.value, CERTAINLY_NOT_CREATED)
    assert vendor.server.batches.asked[Step.CREATE] == 2
    assert vendor.server.batches.created == 0


async def test_a_connection_that_is_never_made_has_created_nothing(
    server: Server, judging: MakeRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A port that accepts and then stays silent in the handshake is no call that took too long."""
    monkeypatch.setattr("xscore.providers.connection.CONNECT_TIMEOUT_S", 0.2)
    name = "openai" if isinstance(server, OpenAIBatchServer) else "anthropic"
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        host = patient(name, f"https://127.0.0.1:{silent.getsockname()[1]}")
        unreachable = Vendor(server, host, SPEC[name].model)
        with pytest.raises(CERTAINLY_NOT_CREATED) as failure:
            await unreachable.created(judging, 1)
        await host.aclose()
    assert isinstance(failure.value, Unreachable)


async def test_results_cut_off_are_an_error_and_are_whole_the_next_time(
    vendor: Vendor, judging: MakeRequest
) -> None:
    """What came before a stream broke is returned, then the error; reading again returns all of
    it."""
    seen = await vendor.ended(await vendor.created(judging, 40))
    vendor.server.batches.trouble(Step.RESULTS, BatchFault.CUT)
    results: list[BatchResult] = []
    with pytest.raises(ConnectionFailed):
        async for result in vendor.host.results(seen, model=vendor.model):
            results.append(result)
    assert 0 < len(results) < 40
    assert len({result.custom_id for result in await vendor.results(seen)}) == 40


async def test_a_batch_that_expires_gives_what_was_run(
    vendor: Vendor, judging: MakeRequest
) -> None:
    """Half ran in time; the rest expired and never ran."""
    vendor.server.batches.looks_until_done, vendor.server.batches.expires_at_look = 2, 2
    seen = await vendor.ended(await vendor.created(judging, 10))
    fates = [result.outcome for result in await vendor.results(seen)]
    assert fates.count(RequestOutcome.ANSWERED) == fates.count(RequestOutcome.EXPIRED) == 5
    assert vendor.server.batches.ran.total() == 5


async def test_a_batch_is_cancelled_once_however_often_it_is_asked(
    vendor: Vendor, judging: MakeRequest
) -> None:
    """What ran is kept; asking again, and asking when it is over, are no errors."""
    seen = await vendor.created(judging, 10)
    await vendor.host.look(seen.vendor_id)
    first, second = (
        await vendor.host.cancel(seen.vendor_id),
        await vendor.host.cancel(seen.vendor_id),
    )
    assert first.state is second.state is VendorBatchState.CANCELLING
    over = await vendor.ended(second)
    fates = [result.outcome for result in await vendor.results(over)]
    assert fates.count(RequestOutcome.ANSWERED) == fates.count(RequestOutcome.CANCELLED) == 5
    assert (await vendor.host.cancel(seen.vendor_id)).state is VendorBatchState.ENDED


@pytest.mark.parametrize(
    ("fault", "fate", "tells"),
    [
        (Fault.TOO_LONG, RequestOutcome.REFUSED, "prompt_too_long"),
        (Fault.SERVER_ERROR, RequestOutcome.ERRED, "overloaded"),
        (Fault.RATE_LIMITED, RequestOutcome.ERRED, "rate_limited"),
        (Fault.QUOTA, RequestOutcome.ERRED, "quota"),
        (Fault.ECHO, RequestOutcome.REFUSED, "rejected"),
        (Fault.EMPTY_OBJECT, RequestOutcome.ERRED, "unreadable_response"),
    ],
)
async def test_a_request_that_failed_says_how(
    vendor: Vendor, judging: MakeRequest, fault: Fault, fate: RequestOutcome, tells: str
) -> None:
    """Errors follow the dialect's own table; no text of the host is passed on."""
    vendor.server.misbehave(fault)
    results = await vendor.results(await vendor.ended(await vendor.created(judging, 4)))
    [failed] = [result for result in results if result.outcome is not RequestOutcome.ANSWERED]
    assert (failed.outcome, failed.error_kind) == (fate, tells)
    assert "cannot take" not in failed.detail
    assert KEY not in failed.detail
    assert "entity" not in failed.detail


async def test_a_request_that_the_model_declines_is_a_refusal(
    vendor: Vendor, judging: MakeRequest
) -> None:
    """Whether the host says so in a reply or by an error, it is what a live call returns."""
    vendor.server.misbehave(Fault.MODERATED)
    [result] = await vendor.results(await vendor.ended(await vendor.created(judging, 1)))
    assert result.completion is not None and result.completion.finish is Finish.REFUSAL


async def test_only_batches_since_then_are_found(vendor: Vendor, judging: MakeRequest) -> None:
    """The list is read page by page, newest first; a mark is found however wrong the vendor's clock
    is."""
    book = vendor.server.batches
    for at in range(230):
        book.clock = lambda at=at: 1_000_000.0 + 100 * at  # type: ignore[misc]  # the default binds this round's value
        await vendor.created(judging, 1 + at % 2)
    listed_before = book.asked[Step.LIST]
    batches = await vendor.host.find(mark=MARK, since=1_022_000.0, requests=2)
    assert book.asked[Step.LIST] == listed_before + 1
    assert all(book.all[seen.vendor_id].created_at >= 1_022_000.0 - 3_600 for seen in batches)
    assert batches
    if vendor.host.name == "openai":
        assert [
            seen.mark for seen in await vendor.host.find(mark=MARK, since=9e9, requests=2)
        ] == [MARK]
        return
    assert len(await vendor.host.find(mark=MARK, since=0.0, requests=2)) == 115
    assert book.asked[Step.LIST] == listed_before + 4
    newest = list(book.all.values())[-2]
    newest.created_at = 0.0
    assert len(await vendor.host.find(mark=MARK, since=0.0, requests=2)) == 115, (
        "a time that is none ends nothing"
    )


async def test_a_host_without_a_batch_api_says_what_to_do(judging: MakeRequest) -> None:
    """A server that only answers live calls has created nothing, and the alternative is named."""
    for name, kind in (("openai", OpenAIServer), ("anthropic", AnthropicServer)):
        with kind() as plain:
            host = batch_host(connect_provider(SPEC[name], settings(plain.url, key="")))
            lines = io.BytesIO(host.line("a", judging(model=SPEC[name].model)))
            with pytest.raises(NoBatchApi, match="no Batch API") as failure:
                file_id = await host.upload(lines, mark=MARK)
                await host.create(lines, mark=MARK, file_id=file_id)
            assert "xscore batch run" in failure.value.hint and isinstance(
                failure.value, CERTAINLY_NOT_CREATED
            )
            await host.aclose()


def test_a_judge_without_a_vendor_has_no_batch_api() -> None:
    """A script has no Batch API; the message names it."""
    with pytest.raises(UsageError, match="scripted"):
        batch_host(ScriptedProvider())


async def test_an_input_that_waits_too_long_is_told(
    vendor: Vendor, judging: MakeRequest
) -> None:
    """With too many queued tokens one vendor fails the batch, the other refuses it; it fits later
    with both."""
    vendor.server.batches.enqueued_tokens = 10
    try:
        seen = await vendor.ended(await vendor.created(judging, 2))
    except RateLimited:
        assert vendor.host.name == "anthropic"
        return
    assert seen.state is VendorBatchState.FAILED and seen.is_queue_full and seen.problem

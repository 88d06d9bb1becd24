"""Specific to OpenAI's batches: files found by name, validation, two result files."""

import io
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.providers.conftest import MakeRequest
from tests.providers.test_batch_hosts import KEY, MARK, Vendor, patient
from tests.servers import BatchFault, Fault, OpenAIBatchServer, Step
from xscore.extensions.batch.records import RequestOutcome, VendorBatchState
from xscore.platform.errors import Overloaded


@pytest.fixture
def server() -> Iterator[OpenAIBatchServer]:
    """The vendor's server."""
    with OpenAIBatchServer(api_key=KEY) as running:
        yield running


@pytest.fixture
async def vendor(server: OpenAIBatchServer) -> AsyncIterator[Vendor]:
    """The vendor, connected."""
    host = patient("openai", server.url)
    yield Vendor(server, host, "judge-2")
    await host.aclose()


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda line: line + line, "two requests have one id"),
        (lambda line: line + b"{\n", r"not JSON \(invalid_json_line\) \(line 2\)"),
        (lambda line: b"", "its input is empty"),
        (
            lambda line: line + line.replace(b"-q0-", b"-q1-").replace(b"judge-2", b"judge-3"),
            "different models",
        ),
    ],
    ids=["duplicate", "not JSON", "empty", "two models"],
)
async def test_an_input_that_is_refused_says_why(
    vendor: Vendor, judging: MakeRequest, spoil: Any, why: str
) -> None:
    """The reason is in our words, by the host's code; nothing ran."""
    lines = io.BytesIO(spoil(vendor.lines(judging, 1).read()))
    file_id = await vendor.host.upload(lines, mark=MARK)
    seen = await vendor.ended(await vendor.host.create(lines, mark=MARK, file_id=file_id))
    assert seen.state is VendorBatchState.FAILED and not seen.is_queue_full
    with pytest.raises(AssertionError, match=why):
        raise AssertionError(seen.problem)
    assert not vendor.server.batches.ran


async def test_all_documented_states_are_seen(vendor: Vendor, judging: MakeRequest) -> None:
    """Each of the vendor's states in turn, and its common name."""
    vendor.server.batches.looks_until_done = 4
    seen = await vendor.created(judging, 6)
    words = [(seen.status, seen.state)]
    for _ in range(4):
        seen = await vendor.host.look(seen.vendor_id)
        words.append((seen.status, seen.state))
    working = [
        (word, VendorBatchState.WORKING)
        for word in ("validating", "in_progress", "in_progress", "finalizing")
    ]
    assert words == [*working, ("completed", VendorBatchState.ENDED)]
    assert seen.done == 6 and len(seen.files) == 1


async def test_errors_stand_in_a_file_of_their_own(
    vendor: Vendor, judging: MakeRequest
) -> None:
    """Both files are read, one after the other; unknown ids and duplicates are passed on."""
    vendor.server.misbehave(Fault.SERVER_ERROR, times=2)
    vendor.server.batches.strays = True
    seen = await vendor.ended(await vendor.created(judging, 5))
    assert len(seen.files) == 2
    results = await vendor.results(seen)
    fates = [result.outcome for result in results]
    assert fates.count(RequestOutcome.EXPIRED) == 1 and len(results) == 7
    assert len({result.custom_id for result in results}) == 6


async def test_requests_that_never_ran_may_be_missing(
    vendor: Vendor, judging: MakeRequest
) -> None:
    """A cancelled batch reports only what ran."""
    vendor.server.batches.is_silent_about_unrun = True
    seen = await vendor.created(judging, 10)
    await vendor.host.look(seen.vendor_id)
    seen = await vendor.ended(await vendor.host.cancel(seen.vendor_id))
    assert (seen.status, len(await vendor.results(seen))) == ("cancelled", 5)


async def test_the_key_is_cut_out_of_answers(vendor: Vendor, judging: MakeRequest) -> None:
    """A key repeated in a batch reply is not stored."""
    vendor.server.score = lambda memory, turn: (90, f"the key is {KEY}")
    [result] = await vendor.results(await vendor.ended(await vendor.created(judging, 1)))
    assert result.completion is not None
    assert KEY not in result.completion.text and "[key]" in result.completion.text


async def test_a_host_that_stays_down_is_given_up(vendor: Vendor, judging: MakeRequest) -> None:
    """A poll is tried four times, then its failure is raised."""
    seen = await vendor.created(judging, 1)
    vendor.server.batches.trouble(Step.LOOK, BatchFault.FAILED, times=9)
    with pytest.raises(Overloaded):
        await vendor.host.look(seen.vendor_id)
    assert vendor.server.batches.asked[Step.LOOK] == 4

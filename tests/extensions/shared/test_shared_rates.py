"""Per-minute limits over several processes: held in every second, with less than one request a
call."""

import asyncio
import time
from collections.abc import Mapping, Sequence

import pytest
from msgspec import Struct

from tests.extensions.shared.conftest import NewLink, Relay
from xscore.extensions.shared.connect import server_factory
from xscore.extensions.shared.limits import SharedRates
from xscore.extensions.shared.link import ServerLink
from xscore.extensions.shared.server import SharedServer
from xscore.platform.errors import SharedUnavailable
from xscore.providers.rate_limits import BURST_S, UNSENT_SHARE, LocalRates, RateShare
from xscore.settings import validate_group
from xscore.settings.model import SharedSettings

CALL = RateShare(1, 100, 80, 20)


class Grant(Struct):
    """What the server granted, and the earliest times of its use by the loop's clock."""

    earliest: float
    latest: float
    """The exact time is the server's; only the round trip's duration is known."""
    requests: float
    waits: bool


class GrantRecorder(Relay):
    """A server that records its grants."""

    def __init__(self, server: SharedServer) -> None:
        super().__init__(server)
        self.grants: list[Grant] = []

    async def take(
        self, bucket: str, amounts: Mapping[str, float], limits: Mapping[str, float]
    ) -> float:
        """Pass it on."""
        now = asyncio.get_running_loop().time
        asked_at = now()
        wait_s = await self.server.take(bucket, amounts, limits)
        self.grants.append(
            Grant(asked_at + wait_s, now() + wait_s, amounts["requests"], wait_s > 0)
        )
        return wait_s


def most_in_a_second(grants: Sequence[Grant]) -> float:
    """Count the requests certain to be in the busiest second, however long answers took."""
    seconds = (
        sum(
            grant.requests
            for grant in grants
            if grant.earliest >= first.earliest and grant.latest < first.earliest + 1.0
        )
        for first in grants
    )
    return max(seconds, default=0.0)  # 0 on a machine too slow for any wait


async def test_a_set_rate_is_held_over_all(shared: SharedSettings) -> None:
    """After the burst no second exceeds 1.05 times the rate over all processes, and each gets its
    share."""
    rpm, processes, calls = 12_000, 4, 250
    watched = [GrantRecorder(server_factory(shared)()) for _ in range(processes)]
    began = asyncio.get_running_loop().time()

    async def process(server: GrantRecorder) -> None:
        link = server.link()
        rates = SharedRates(LocalRates(rpm=rpm), link, bucket="host model")
        for _ in range(calls):
            await rates.take(CALL)
        await link.aclose()

    await asyncio.gather(*map(process, watched))
    took_s = asyncio.get_running_loop().time() - began
    grants = sorted(
        (grant for relay in watched for grant in relay.grants), key=lambda relay: relay.earliest
    )
    assert sum(relay.requests for relay in grants) >= processes * calls
    assert processes * calls <= rpm / 60 * BURST_S + rpm / 60 * took_s + 1
    assert most_in_a_second([relay for relay in grants if relay.waits]) <= 1.05 * rpm / 60


async def test_what_calls_did_not_use_goes_back(link_to: NewLink, server: SharedServer) -> None:
    """Tokens are taken at the upper bound; the next caller, in any process, uses the rest."""
    rates = SharedRates(LocalRates(tpm=60_000), link_to(), bucket="h")
    for _ in range(30):  # the burst is of 3,000 tokens
        await rates.take(CALL)
        rates.settle(CALL, UNSENT_SHARE)
    await rates.aclose()
    assert await server.take("h", {"tokens": 2_900}, {"tokens": 60_000}) == 0


async def test_what_is_used_beyond_the_bound_is_owed(
    link_to: NewLink, server: SharedServer
) -> None:
    """A reply longer than its bound is paid off by later ones."""
    rates = SharedRates(LocalRates(tpm=60_000), link_to(), bucket="h")
    began = time.monotonic()
    await rates.take(CALL)
    rates.settle(CALL, RateShare(1, 4_000, 0, 0))
    await rates.aclose()
    wait_s = await server.take("h", {"tokens": 1_000}, {"tokens": 60_000})
    passed_s = time.monotonic() - began
    assert 1.2 - passed_s <= wait_s <= 2.8


async def test_a_call_that_is_given_up_leaves_its_share(
    link_to: NewLink, server: SharedServer
) -> None:
    """A caller cancelled while waiting for its share gives it to the next."""
    rates = SharedRates(LocalRates(rpm=60), link_to(), bucket="h")
    for _ in range(3):
        await rates.take(CALL)
    waiting = asyncio.create_task(rates.take(CALL))
    await asyncio.sleep(0.1)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await rates.aclose()
    assert await server.take("h", {"requests": 1}, {"requests": 60}) < 1


async def test_no_limit_asks_nobody(shared: SharedSettings) -> None:
    """Without a known limit the server is not contacted for one."""

    def never() -> SharedServer:
        raise AssertionError("opened")

    rates = SharedRates(LocalRates(), ServerLink(never, require=True, timeout_s=1), bucket="h")
    await rates.take(CALL)
    rates.settle(CALL, CALL)
    await rates.aclose()


async def test_without_the_server_this_process_keeps_to_the_limits() -> None:
    """Limits are then local; if the server is required, nothing is sent."""
    unreachable = validate_group(SharedSettings, {"url": "redis://127.0.0.1:1/0"})
    link = ServerLink(server_factory(unreachable), require=False, timeout_s=0.1)
    rates = SharedRates(LocalRates(rpm=1), link, bucket="h")
    await rates.take(CALL)
    waiting = asyncio.create_task(rates.take(CALL))
    await asyncio.sleep(0.2)
    assert not waiting.done()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await link.aclose()
    strict = SharedRates(
        LocalRates(rpm=60),
        ServerLink(server_factory(unreachable), require=True, timeout_s=0.1),
        bucket="h",
    )
    with pytest.raises(SharedUnavailable):
        await strict.take(CALL)

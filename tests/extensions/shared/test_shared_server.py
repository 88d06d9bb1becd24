"""The interface to a shared server, on real ones: judgments, claims, rates, dollars; tenants
apart."""

from collections.abc import Sequence
from decimal import Decimal

import pytest
from msgspec.structs import replace

from xscore.extensions.shared.connect import server_factory
from xscore.extensions.shared.server import SharedServer
from xscore.records.judgment import ClaimResult, ClaimState, Judgment
from xscore.settings.model import SharedSettings

TURN = ("turn", "judge", 0)
OTHER = ("turn", "judge", 1)
DAY = "2026-11-22"
FIRST = Judgment("a" * 32, 0.7, 'because "of" \n it – 見', "p1", 3, 0.25)
SECOND = Judgment("b" * 32, 0.0)


async def claim(
    server: SharedServer,
    runner: str,
    *packs: Sequence[str],
    at_most: int = 9,
    lease_s: float = 30.0,
) -> list[ClaimResult]:
    """Claim some packs of `TURN`."""
    return await server.claim(TURN, packs, at_most=at_most, runner=runner, lease_s=lease_s)


def shares(results: Sequence[ClaimResult]) -> str:
    """Return who owns each pack, by first letter."""
    return "".join(result.state.value[0] for result in results)


async def test_the_first_to_claim_pays(server: SharedServer) -> None:
    """A pack with one content claimed by another belongs to that one; its other contents stay
    unclaimed."""
    assert shares(await claim(server, "one", ["a", "b"], ["c"])) == "oo"
    assert shares(await claim(server, "two", ["b", "d"], ["e"])) == "to"
    assert shares(await claim(server, "three", ["d"])) == "o"
    assert shares(await claim(server, "one", ["a", "b"])) == "o"


async def test_no_more_is_claimed_than_asked(server: SharedServer) -> None:
    """Packs beyond the requested number stay free; judged ones do not count."""
    await server.store_judgments(TURN, [FIRST])
    results = await claim(server, "one", ["x"], [FIRST.content_hash], ["y"], ["z"], at_most=1)
    assert shares(results) == "ooff"
    assert shares(await claim(server, "two", ["y"], ["z"], at_most=9)) == "oo"


async def test_the_first_judgment_wins(server: SharedServer) -> None:
    """If a content has two judgments, the first is kept."""
    await server.store_judgments(TURN, [FIRST])
    await server.store_judgments(TURN, [FIRST._replace(score=0.1), SECOND])
    (result,) = await claim(server, "one", [FIRST.content_hash])
    assert result.known == {FIRST.content_hash: FIRST}


async def test_turns_do_not_meet(server: SharedServer) -> None:
    """Judgments and claims of another turn, judge or sample are not visible."""
    await server.store_judgments(TURN, [FIRST])
    await claim(server, "one", ["c"])
    results = await server.claim(
        OTHER, [[FIRST.content_hash], ["c"]], at_most=9, runner="two", lease_s=30
    )
    assert results == [ClaimResult(ClaimState.OURS, {}), ClaimResult(ClaimState.OURS, {})]


async def test_many_contents_at_once(server: SharedServer) -> None:
    """Thousands of contents are claimed and stored in one request, and read back."""
    judgments = [Judgment(f"{number:032x}", number / 10_000, "r") for number in range(7_000)]
    packs = [
        [judgment.content_hash for judgment in judgments[at : at + 20]]
        for at in range(0, 7_000, 20)
    ]
    assert shares(await claim(server, "one", *packs, at_most=350)) == "o" * 350
    await server.store_judgments(TURN, judgments)
    results = await claim(server, "two", *packs, at_most=0)
    assert [judgment for pack in results for judgment in pack.known.values()] == judgments


async def test_buckets_go_into_debt(server: SharedServer) -> None:
    """A bucket holds three seconds' worth; more can be taken and is usable once earned."""
    limits = {"requests": 600.0, "tokens": 60_000.0}
    assert await server.take("h", {"requests": 30, "tokens": 10}, limits) == 0
    assert await server.take("h", {"requests": 10, "tokens": 10}, limits) == pytest.approx(
        1, abs=0.5
    )
    assert await server.take("h", {"requests": 10, "tokens": 10}, limits) == pytest.approx(
        2, abs=0.5
    )
    await server.take("h", {"requests": -50}, limits)
    assert await server.take("h", {"requests": 1, "tokens": 10}, limits) == 0
    assert await server.take("other", {"requests": 30}, limits) == 0


async def test_a_share_larger_than_its_bucket_waits_until_it_is_full(
    server: SharedServer,
) -> None:
    """It is granted at once if the bucket is full, and the next waits until the debt is paid."""
    assert await server.take("h", {"requests": 600}, {"requests": 600}) == 0
    assert await server.take("h", {"requests": 1}, {"requests": 600}) == pytest.approx(
        57.1, abs=0.5
    )


async def reserve(
    server: SharedServer,
    name: str,
    usd: str,
    *,
    spent: str = "0",
    day: str = DAY,
    lease_s: float = 30.0,
) -> Decimal:
    """Let a reservation hold dollars of a day capped at one dollar."""
    return await server.reserve(
        name, day, Decimal(usd), Decimal(spent), cap_usd=Decimal(1), lease_s=lease_s
    )


async def report(server: SharedServer, usd: str, *, spent: str) -> None:
    """Report the spending of `one`, and limit its reservation from now on."""
    await server.reserve("one", DAY, Decimal(usd), Decimal(spent), cap_usd=None)


async def test_dollars_of_a_day_have_one_cap(server: SharedServer) -> None:
    """Reserved plus spent never exceeds the cap; a refusal changes nothing."""
    assert await reserve(server, "one", "0.7") == Decimal("0.3")
    assert await reserve(server, "two", "0.4") == Decimal("-0.1")
    assert await reserve(server, "two", "0.3") == 0
    await report(server, "0.1", spent="0.2")
    assert await reserve(server, "two", "0.6", spent="0.1") == 0
    assert await reserve(server, "two", "0.6", day="2026-11-23") > 0


async def test_telling_dollars_twice_does_no_harm(server: SharedServer) -> None:
    """A charge or reservation repeated after a lost answer is counted once."""
    for _ in range(3):
        assert await reserve(server, "one", "0.5", spent="0.000000001") == Decimal(
            "0.499999999"
        )
    for _ in range(3):
        await report(server, "0", spent="0.4")
    assert await reserve(server, "two", "0.6") == 0


HOSTILE = [
    "default",
    "default:judged",
    "a}:{b",
    "a%",
    "*",
    "A",
    "a",
    "x'; --",
    "t\\",
    "é",
    "a b",
]


async def test_tenants_see_nothing_of_each_other(shared: SharedSettings, tenant: str) -> None:
    """Judgments, claims, buckets and dollars of one tenant are invisible to another, whatever the
    names."""
    for name in HOSTILE:
        mine = server_factory(replace(shared, tenant=f"{tenant}{name}"))()
        try:
            assert (
                await claim(mine, "one", [FIRST.content_hash], ["c"])
                == [ClaimResult(ClaimState.OURS, {})] * 2
            )
            await mine.store_judgments(TURN, [FIRST])
            assert await mine.take("h", {"requests": 30}, {"requests": 600}) == 0
            assert await reserve(mine, "one", "1") == 0
        finally:
            await mine.aclose()

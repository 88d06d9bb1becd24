"""A shared server that is Redis: each request is one script, which Redis runs whole or not at all.

Keys are `xscore:{tenant}:…`; the braces keep all keys of a tenant in one slot of a cluster. Judgments never expire.
Claims and runners expire a day after their last use, buckets once they are full, the dollars of a day after three days.
All times are the server's. Whether an acknowledged write survives a crash depends on the server's settings
(`appendonly`, `appendfsync`). Trade-off: scripts block the server, so each request is limited in size.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import redis.asyncio as redis
from redis.asyncio.connection import parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoPermissionError, RedisError

from xscore.cache.keys import JudgmentKey
from xscore.extensions.shared.server import (
    BAD_ANSWER,
    DollarHolding,
    bucket_capacity,
    decode_claims,
    displayed_url,
    encode_judgments,
    finite,
    unavailable,
)
from xscore.platform.errors import SharedUnavailable, UsageError
from xscore.platform.hashing import digest
from xscore.platform.text import one_line
from xscore.records.judgment import ClaimResult, Judgment
from xscore.records.reports import ErasureRequest

DAY_S = 86_400
DOLLARS_KEPT_S = 3 * DAY_S
NANO = Decimal(10**9)
"""Of a dollar: exact in the doubles that scripts count in."""
TURNS_AT_ONCE = 200
"""Turns of one step of an erasure."""
MOST_AT_ONCE = 2_000
"""Contents of one script: some milliseconds in which the server does nothing else."""

_OPTIONS = "Leave out what stands after the ? of shared.url, or write it as redis-py takes it in a URL."


T = TypeVar("T")


def _as_is(told: Any) -> Any:
    return told


class RedisServer:
    """What several processes and machines share on Redis. See `shared.server.SharedServer`."""

    def __init__(self, url: str, *, tenant: str) -> None:
        """Connect at the first request. tenant: characters with a meaning in a key are percent-encoded.

        Raises UsageError for a URL with options that the driver does not take.
        """
        self.name = displayed_url(url)
        self._space = f"xscore:{{{quote(tenant, safe='')}}}"
        self._client = _client(url)
        _, *scripts = Path(__file__).with_name("redis.lua").read_text("utf-8").split("-- name: ")
        named = (script.partition("\n") for script in scripts)
        self._scripts = {name: self._client.register_script(text) for name, _, text in named}

    async def check(self) -> str:
        """Return the version, and whether writes survive a restart."""
        await self.heartbeat("check", lease_s=0.001)
        try:
            found: dict[str, Any] = await self._asked(self._client.info("server", "persistence", "memory"), dict)
        except SharedUnavailable as error:
            if isinstance(error.__cause__, NoPermissionError):
                return "Redis"  # this account may do all that a run needs, but not ask for the version
            raise
        keeps = "writes its log" if found.get("aof_enabled") else "may forget at a restart (appendonly is off)"
        policy = str(found.get("maxmemory_policy", "noeviction"))
        evicts = "" if policy == "noeviction" else f", may drop judgments when full ({one_line(policy)})"
        return f"Redis {one_line(str(found.get('redis_version', '?')))}, {keeps}{evicts}"

    async def claim(
        self, names: JudgmentKey, packs: Sequence[Sequence[str]], *, at_most: int, runner: str, lease_s: float
    ) -> list[ClaimResult]:
        """Claim whole packs of content hashes."""
        sizes, contents = map(len, packs), [content for pack in packs for content in pack]
        keys = (*self._keys(names), f"{self._space}:runners")
        terms: list[str | int] = [runner, _ms(lease_s), at_most, DAY_S, len(packs), *sizes, *contents]
        return await self._run(
            "claim", keys, terms, lambda told: decode_claims(names, packs, told[0].decode(), told[1::2], told[2::2])
        )

    async def store_judgments(self, names: JudgmentKey, judgments: Sequence[Judgment]) -> None:
        """Store judgments and remove the claims on them."""
        for start in range(0, len(judgments), MOST_AT_ONCE):
            pairs = encode_judgments(names, judgments[start : start + MOST_AT_ONCE])
            await self._run("store_judgments", self._keys(names), [value for pair in pairs for value in pair])

    async def erase(self, request: ErasureRequest) -> int:
        """Erase judgments with their reasons; by content in every turn of the tenant."""
        removed, cursor = 0, 0
        while request.contents:
            scan = self._client.scan(cursor, match=f"{self._space}:judged:*", count=TURNS_AT_ONCE)
            cursor, turns = await self._asked(scan, lambda told: (int(told[0]), list(told[1])))
            for start in range(0, len(request.contents) if turns else 0, MOST_AT_ONCE):
                pipe = self._client.pipeline(transaction=False)
                for turn in turns:
                    pipe.hdel(turn, *request.contents[start : start + MOST_AT_ONCE])
                removed += await self._asked(pipe.execute(), lambda told: sum(map(int, told)))
            if not cursor:
                break
        for *names, contents in request.turns:
            judged, claims = self._keys(tuple(names))  # type: ignore[arg-type]  # the three parts of a key
            if contents:
                removed += await self._asked(self._client.hdel(judged, *contents), int)
            else:
                removed += await self._asked(self._client.hlen(judged), int)
                await self._asked(self._client.delete(judged, claims))
        return removed

    async def heartbeat(self, runner: str, *, lease_s: float) -> None:
        """Renew the claims of this runner for another lease."""
        await self._run("heartbeat", [f"{self._space}:runners"], [runner, _ms(lease_s), DAY_S])

    async def release_runner(self, runner: str) -> None:
        """Forget the runner; its claims are taken over when someone meets them."""
        await self._asked(self._client.zrem(f"{self._space}:runners", runner))

    async def take(self, bucket: str, amounts: Mapping[str, float], limits: Mapping[str, float]) -> float:
        """Take from the buckets of one host and model; return the seconds to wait."""
        terms: list[str | float] = []
        for kind, amount in amounts.items():
            terms += [kind, amount, limits[kind], bucket_capacity(limits[kind])]
        return await self._run("take", [f"{self._space}:rate:{digest(bucket)}"], terms, finite)

    async def reserve(self, holding: DollarHolding, *, cap_usd: Decimal | None) -> Decimal:
        """Replace what a reservation holds and has spent; return what the cap has room for after that."""
        cap = "" if cap_usd is None else int((cap_usd * NANO).to_integral_value(ROUND_FLOOR))
        lease = "" if holding.lease_s is None else _ms(holding.lease_s)
        keys = [f"{self._space}:usd:{holding.day}", f"{self._space}:usd:{holding.day}:leases"]
        amounts = _nano(holding.held_usd), _nano(holding.spent_usd)
        terms: list[str | int] = [holding.reservation, *amounts, cap, lease, DOLLARS_KEPT_S]
        return await self._run("reserve", keys, terms, lambda told: Decimal(int(finite(told))) / NANO)

    async def aclose(self) -> None:
        """Release connections."""
        await self._asked(self._client.aclose())

    def _keys(self, names: JudgmentKey) -> tuple[str, str]:
        """Name the judgments and the claims of a turn by a judge."""
        turn = digest(*map(str, names))
        return f"{self._space}:judged:{turn}", f"{self._space}:claims:{turn}"

    async def _run(
        self, script: str, keys: Sequence[str], terms: Sequence[str | int | float], read: Callable[[Any], T] = _as_is
    ) -> T:
        return await self._asked(self._scripts[script](keys=list(keys), args=list(terms)), read)

    async def _asked(self, request: Awaitable[Any], read: Callable[[Any], T] = _as_is) -> T:
        """Await an answer and read it. Raises SharedUnavailable for whatever went wrong with it, StoreDamaged."""
        try:
            return read(await request)
        except (RedisError, *BAD_ANSWER) as error:
            raise unavailable(self.name, error) from error


def _client(url: str) -> "redis.Redis":
    """Return a client that is not connected yet. Refused options are not shown, since one may be a password."""
    ours: dict[str, Any] = {"retry": Retry(NoBackoff(), 0), "protocol": 2, "decode_responses": False}
    ours["max_connections"] = 64
    try:
        pool = redis.ConnectionPool(**{**parse_url(url), **ours})
        pool.make_connection()  # type: ignore[no-untyped-call]  # makes the driver check the options
    except (RedisError, ValueError, TypeError, AttributeError):
        raise UsageError(f"shared.url ({displayed_url(url)}) has options that cannot be read", hint=_OPTIONS) from None
    return redis.Redis.from_pool(pool)


def _ms(seconds: float) -> int:
    return max(1, int(seconds * 1000))


def _nano(usd: Decimal) -> int:
    return int((usd * NANO).to_integral_value(ROUND_CEILING))

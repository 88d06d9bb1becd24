"""A shared server that is Redis: each request is a script of `redis.lua`, which Redis runs whole or
not at all.

Keys are `xscore:{tenant}:…`; the braces keep all keys of a tenant in one slot of a cluster.
Judgments never expire. Claims and runners expire a day after their last use, buckets once they are
full, the dollars of a day after three days. All times are the server's. Whether an acknowledged
write survives a crash depends on the server's settings (`appendonly`, `appendfsync`). The key
`…:schema` holds the number of the form that a tenant's keys have.
Trade-off: scripts block the server, so each request is limited in size.
"""

import json
from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import redis.asyncio as redis
from redis.asyncio.connection import parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoPermissionError, RedisError

from xscore.extensions.shared.server import (
    BAD_ANSWER,
    MOST_AT_ONCE,
    displayed_url,
    too_new,
    unavailable,
)
from xscore.platform.errors import SharedUnavailable, UsageError
from xscore.platform.text import one_line

VERSION = 1
"""Version of the form of a tenant's keys. It rises with each change of it, which needs a step.
A tenant without a number has form 1."""
STEPS: Mapping[int, str] = {}
"""Version -> the script that brings a tenant's keys to it. KEYS: the version's key, which it
sets last; it does nothing if that is not the number before."""
TURNS_AT_ONCE = 200
"""Turns of one step of an erasure."""
_KEYS = {
    "claim": ("judged:{0}", "claims:{0}", "runners"),
    "store_judgments": ("judged:{0}", "claims:{0}"),
    "take": ("rate:{0}",),
    "reserve": ("usd:{0}", "usd:{0}:leases"),
    "heartbeat": ("runners",),
    "release_runner": ("runners",),
    "keep_exchanges": ("session:{0}", "session:{0}:times"),
    "exchanges": ("session:{0}",),
    "forget_exchanges": ("session:{0}", "session:{0}:times"),
}
"""The keys of each script; {0} is its first term."""
_OPTIONS = (
    "Leave out what follows the ? in shared.url, or write it as redis-py accepts it in a URL."
)


class RedisDriver:
    """Runs the scripts of one tenant on Redis. See `shared.server.ServerDriver`."""

    def __init__(self, url: str, *, tenant: str) -> None:
        """Connect at the first request. tenant: characters with a meaning in a key are
        percent-encoded.

        Raises UsageError for a URL with options that the driver does not take.
        """
        self.name: str = displayed_url(url)
        self._space = f"xscore:{{{quote(tenant, safe='')}}}"
        self._client = _client(url)
        _, *scripts = (
            Path(__file__).with_name("redis.lua").read_text("utf-8").split("-- name: ")
        )
        named = (script.partition("\n") for script in scripts)
        self._scripts = {name: self._client.register_script(text) for name, _, text in named}
        self._is_current = False

    async def describe(self) -> str:
        """Return the version, and whether writes survive a restart."""
        try:
            facts: dict[str, Any] = await self._asked(
                self._client.info("server", "persistence", "memory")
            )
        except SharedUnavailable as error:
            if isinstance(error.__cause__, NoPermissionError):
                # This account may do all that a run needs, but not ask for the version.
                return "Redis"
            raise
        keeps = "may forget at a restart (appendonly is off)"
        if facts.get("aof_enabled"):
            keeps = "writes its log"
        policy = str(facts.get("maxmemory_policy", "noeviction"))
        if policy == "noeviction":
            evicts = ""
        else:
            evicts = f", may drop judgments when full ({one_line(policy)})"
        return f"Redis {one_line(str(facts.get('redis_version', '?')))}, {keeps}{evicts}"

    async def run(self, script: str, *terms: object) -> Sequence[Any]:
        """Run a script. Its terms travel as one list of JSON."""
        await self._bring_to_version()
        keys = [f"{self._space}:{key.format(*terms)}" for key in _KEYS[script]]
        answer = await self._asked(self._scripts[script](keys=keys, args=[json.dumps(terms)]))
        if isinstance(answer, list):
            return answer
        return [answer]

    async def erase(
        self, contents: Sequence[str], turns: Sequence[tuple[str, Sequence[str]]]
    ) -> int:
        """Erase judgments with their reasons; by content in every turn of the tenant."""
        await self._bring_to_version()
        removed = 0
        cursor = 0
        while contents:
            scan = self._client.scan(
                cursor, match=f"{self._space}:judged:*", count=TURNS_AT_ONCE
            )
            cursor, judged = await self._asked(scan)
            for start in range(0, len(contents) if judged else 0, MOST_AT_ONCE):
                pipe = self._client.pipeline(transaction=False)
                for key in judged:
                    pipe.hdel(key, *contents[start : start + MOST_AT_ONCE])
                removed += sum(map(int, await self._asked(pipe.execute())))
            if not cursor:
                break
        for turn, among in turns:
            key = f"{self._space}:judged:{turn}"
            if among:
                removed += await self._asked(self._client.hdel(key, *among))
            else:
                removed += await self._asked(self._client.hlen(key))
                await self._asked(self._client.delete(key, f"{self._space}:claims:{turn}"))
        return removed

    async def aclose(self) -> None:
        """Release connections."""
        await self._asked(self._client.aclose())

    async def _bring_to_version(self) -> None:
        """Write down or raise the version of this tenant's keys, once.

        Raises SharedUnavailable for a newer one.
        """
        if self._is_current:
            return
        key = f"{self._space}:schema"
        await self._asked(self._client.set(key, 1, nx=True))
        version = int(await self._asked(self._client.get(key)) or 1)
        # Two processes may run a step at once: it looks at the number itself.
        while version < VERSION:
            await self._asked(self._client.register_script(STEPS[version + 1])(keys=[key]))
            version += 1
        if version > VERSION:
            raise too_new(self.name, version, VERSION)
        self._is_current = True

    async def _asked(self, request: Awaitable[Any]) -> Any:
        """Await an answer. Raises SharedUnavailable for whatever went wrong with it."""
        try:
            return await request
        except (RedisError, *BAD_ANSWER) as error:
            raise unavailable(self.name, error) from error


def _client(url: str) -> "redis.Redis":
    """Return a client that is not connected yet.

    Refused options are not shown, since one may be a password.
    """
    ours: dict[str, Any] = {
        "retry": Retry(NoBackoff(), 0),
        "protocol": 2,
        "decode_responses": True,
    }
    ours |= {"encoding": "utf-8", "encoding_errors": "replace", "max_connections": 64}
    # Each caller has a deadline. The driver's own are `asyncio.wait_for`, which before Python 3.12
    # loses a cancellation (Ctrl-C, the turn's deadline) that comes as it returns.
    ours |= {"socket_timeout": None, "socket_connect_timeout": None}
    try:
        pool = redis.ConnectionPool(**{**parse_url(url), **ours})
        pool.make_connection()  # type: ignore[no-untyped-call]  # makes the driver check the options
    except (RedisError, ValueError, TypeError, AttributeError):
        raise UsageError(
            f"shared.url ({displayed_url(url)}) has options that cannot be read", hint=_OPTIONS
        ) from None
    return redis.Redis.from_pool(pool)

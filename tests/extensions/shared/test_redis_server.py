"""Specific to Redis: the number of the form that a tenant's keys have."""

import asyncio

import pytest
import redis

from tests.extensions.shared.server_processes import ServerProcess
from xscore.extensions.shared import redis_server
from xscore.extensions.shared.redis_server import RedisDriver
from xscore.extensions.shared.server import SharedServer
from xscore.platform.errors import SharedUnavailable
from xscore.records.judgment import Judgment

pytestmark = pytest.mark.parametrize("running", ["redis"], indirect=True, scope="session")
TURN = ("turn", "judge", 0)
COUNTED_STEP = """
if redis.call('GET', KEYS[1]) ~= '1' then return 0 end
redis.call('INCR', KEYS[1] .. ':steps')
redis.call('SET', KEYS[1], 2)
return 1
"""


def server(running: ServerProcess, tenant: str) -> SharedServer:
    """Connect as from a machine of its own."""
    return SharedServer(RedisDriver(running.url, tenant=tenant))


async def keep(running: ServerProcess, tenant: str) -> int:
    """Store a judgment and return how many the turn has."""
    shared_server = server(running, tenant)
    try:
        await shared_server.store_judgments(TURN, [Judgment("a", 0.5)])
        (claimed,) = await shared_server.claim(TURN, [["a"]], at_most=1, runner="r", lease_s=30)
        return len(claimed.known)
    finally:
        await shared_server.aclose()


async def test_a_tenant_has_the_number_of_its_form(running: ServerProcess, tenant: str) -> None:
    """The first request writes it down, also where an xscore before the numbers has left keys."""
    assert await keep(running, tenant) == 1
    with redis.Redis.from_url(running.url) as admin:
        assert admin.get(f"xscore:{{{tenant}}}:schema") == b"1"


async def test_keys_of_a_newer_form_are_left_alone(running: ServerProcess, tenant: str) -> None:
    """An older xscore names both numbers; it reads, writes and erases nothing."""
    await keep(running, tenant)
    with redis.Redis.from_url(running.url) as admin:
        admin.set(f"xscore:{{{tenant}}}:schema", 9)
        shared_server = server(running, tenant)
        with pytest.raises(SharedUnavailable, match=r"schema 9; this one reads 1"):
            await shared_server.store_judgments(TURN, [Judgment("b", 0.5)])
        with pytest.raises(SharedUnavailable, match="schema 9"):
            await shared_server.driver.erase(["a"], [])
        await shared_server.aclose()
        (turn,) = admin.keys(f"xscore:{{{tenant}}}:judged:*")
        assert admin.hkeys(turn) == [b"a"]


async def test_an_older_form_is_migrated_once_by_many_at_once(
    running: ServerProcess, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step runs once, however many begin it, and judgments stay."""
    await keep(running, tenant)
    monkeypatch.setattr(redis_server, "VERSION", 2)
    monkeypatch.setattr(redis_server, "STEPS", {2: COUNTED_STEP})
    assert await asyncio.gather(*(keep(running, tenant) for _ in range(8))) == [1] * 8
    with redis.Redis.from_url(running.url) as admin:
        assert admin.get(f"xscore:{{{tenant}}}:schema") == b"2"
        assert admin.get(f"xscore:{{{tenant}}}:schema:steps") == b"1"

"""Judgments, claims and dollars of two teams on one database, walled as their memories are."""

from collections.abc import AsyncIterator
from contextlib import closing

import pytest

from tests.extensions.shared.team.conftest import TeamDatabase
from tests.extensions.shared.test_postgres_server import TURN, claim, refused, reserve
from xscore.extensions.shared.postgres_server import PostgresDriver
from xscore.extensions.shared.server import SharedServer
from xscore.extensions.shared.team.address import team_address
from xscore.extensions.shared.team.setup import apply_setup
from xscore.records.judgment import Judgment


@pytest.fixture(scope="module")
def walled(team: TeamDatabase) -> TeamDatabase:
    """The database with tables for judgments; running the setup again changes nothing."""
    address = team_address(team.admin_url, timeout_s=30, setting="shared.admin_url")
    for organisation, member in (("acme", "ann"), ("umbra", "eve")) * 2:
        apply_setup(address, organisation, [team.login(member)], with_judgments=True)
    return team


@pytest.fixture
async def servers(walled: TeamDatabase) -> AsyncIterator[dict[str, SharedServer]]:
    """Ann and eve with the same content, and eve in ann's name."""
    opened: dict[str, SharedServer] = {}
    for name, login, tenant in (
        ("ann", "ann", "acme"),
        ("eve", "eve", "umbra"),
        ("forger", "eve", "acme"),
    ):
        opened[name] = SharedServer(PostgresDriver(walled.url(login), tenant=tenant))
    yield opened
    for server in opened.values():
        await server.aclose()


async def test_equal_content_is_judged_by_each_team_alone(
    walled: TeamDatabase, servers: dict[str, SharedServer]
) -> None:
    """Neither judgments nor claims nor dollars of one team are seen by the other."""
    ann, eve = servers["ann"], servers["eve"]
    assert await claim(ann, "a", "b", runner="one") == "oo"
    await ann.store_judgments(TURN, [Judgment("a", 0.5, "the walrus")])
    assert await claim(eve, "a", "b", runner="two") == "oo"
    assert await claim(ann, "b", runner="three") == "t"
    await reserve(ann, "all", "0.9")
    assert await reserve(eve, "all", "0.9") is not None
    with closing(walled.connect("eve")) as connection:
        for table in ("judgment", "claim", "runner", "bucket", "reservation"):
            rows = connection.execute(f"SELECT tenant FROM xscore.{table}".encode()).fetchall()
            assert {row[0] for row in rows} <= {"umbra"}


async def test_a_forged_tenant_reads_and_writes_nothing(
    servers: dict[str, SharedServer],
) -> None:
    """A login that names another team's tenant is refused, whatever it asks for."""
    forger = servers["forger"]
    assert "row-level security" in (await refused(claim(forger, "a"))).message
    planted = Judgment("a", 1.0, "planted")
    refusal = await refused(forger.store_judgments(TURN, [planted]))
    assert "row-level security" in refusal.message
    assert "row-level security" in (await refused(reserve(forger, "x", "0.1"))).message
    assert await claim(servers["ann"], "z", runner="ann") == "o"

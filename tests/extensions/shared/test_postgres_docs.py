"""The commands of docs/shared.md that prepare a PostgreSQL, run as printed."""

import re
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from secrets import token_hex

import psycopg
import pytest

from tests.extensions.shared.server_processes import ServerProcess
from tests.extensions.shared.test_postgres_server import TURN, claim, do, refused, reserve
from xscore.extensions.shared.postgres_server import PostgresDriver
from xscore.extensions.shared.server import SharedServer
from xscore.records.judgment import Judgment

pytestmark = pytest.mark.parametrize("running", ["postgres"], indirect=True, scope="session")


@pytest.fixture
def docs(running: ServerProcess) -> Iterator[tuple[str, list[str]]]:
    """The SQL blocks of docs/shared.md, the first of them run; names are replaced for this test.
    URL without user; blocks.
    """
    suffix, text = token_hex(4), (Path(__file__).parents[3] / "docs" / "shared.md").read_text()
    for name in ("our_team", "other_team", "DATABASE judgments"):
        text = text.replace(name, f"{name}_{suffix}")
    first, *grants = re.findall(r"```sql\n(.+?)```", text, re.DOTALL)
    with closing(psycopg.connect(running.url, autocommit=True)) as admin:
        for statement in first.strip().split("\n"):
            admin.execute(statement.encode())
        admin.execute(f"CREATE ROLE other_team_{suffix} LOGIN PASSWORD 'hunter2'".encode())
        yield (
            running.url.replace("tester", "{user}_" + suffix).rpartition("/")[0]
            + f"/judgments_{suffix}",
            grants,
        )
        admin.execute(f"DROP DATABASE judgments_{suffix} WITH (FORCE)".encode())
        admin.execute(f"DROP ROLE our_team_{suffix}, other_team_{suffix}".encode())


async def test_users_have_what_the_docs_give_them(docs: tuple[str, list[str]]) -> None:
    """The owner makes the tables; another user lacks rights until given those in the docs."""
    url, (grants,) = docs
    owner = SharedServer(PostgresDriver(url.format(user="our_team"), tenant="t"))
    other_team = SharedServer(
        PostgresDriver(url.format(user="other_team").replace("@", ":hunter2@"), tenant="t")
    )
    assert await claim(owner, "a") == "o"
    assert "permission denied" in (await refused(other_team.check())).message
    do(url.format(user="our_team"), grants.splitlines()[0])
    error = await refused(other_team.check())
    assert "permission denied for schema xscore" in error.message
    assert "docs/shared.md" in error.hint
    assert "hunter2" not in f"{error.message}{error.hint}{error.__cause__}"
    do(url.format(user="our_team"), grants)
    await other_team.check()
    assert await claim(other_team, "a", "b", runner="other") == "to"
    await other_team.store_judgments(TURN, [Judgment("b", 0.5)])
    assert await other_team.take("h", {"requests": 1}, {"requests": 600}) == 0
    assert await reserve(other_team, "other", "0.5") == Decimal("0.5")
    await other_team.release_runner("other")
    await owner.aclose()
    await other_team.aclose()

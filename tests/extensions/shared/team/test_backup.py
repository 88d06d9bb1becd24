"""A backup of the team's server, restored on another one by the commands of docs/shared.md."""

import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from msgspec.structs import replace

from tests.extensions.shared.server_processes import KINDS, ServerProcess
from tests.extensions.shared.team.conftest import NewMember, TeamDatabase
from tests.statements import decide
from xscore.extensions.shared.team.privileges import excess_privileges
from xscore.extensions.shared.team.setup import VERSION, schema_version
from xscore.settings import Secret

DOCS = Path(__file__).parents[4] / "docs" / "shared.md"


@pytest.fixture
def other_server(tmp_path: Path) -> Iterator[ServerProcess]:
    """An empty PostgreSQL."""
    (tmp_path / "other").mkdir()
    started = KINDS["postgres"](tmp_path / "other")
    yield started
    started.kill()


def run_documented(url: str, database: str, folder: Path, *, restores: bool) -> None:
    """Run the commands of docs/shared.md that save or restore, against this server."""
    (block,) = re.findall(r"```console\n(pg_dumpall.+?)```", DOCS.read_text(), re.DOTALL)
    saving, restoring = block.split("\n\n")
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))[-1]
    parts = urlsplit(url)
    environ = {"PGHOST": parts.hostname, "PGPORT": str(parts.port), "PGUSER": parts.username}
    for line in (restoring if restores else saving).strip().splitlines():
        program, *words = shlex.split(line, comments=True)
        words = [database if word == "team" else word for word in words]
        done = subprocess.run(
            [programs / program, *words],
            cwd=folder,
            env={key: value for key, value in environ.items() if value},
            capture_output=True,
            text=True,
            check=False,
        )
        # The superuser of both servers has one name here, which the second has already.
        problems = [
            problem
            for problem in done.stderr.splitlines()
            if "ERROR" in problem and 'role "tester" already exists' not in problem
        ]
        assert not problems, (line, problems)


def test_a_restored_server_gives_the_same_and_keeps_tenants_apart(
    team: TeamDatabase,
    member: NewMember,
    other_server: ServerProcess,
    tmp_path: Path,
) -> None:
    """The same memories for a new machine, decrypted by the team's key; nothing for the other team;
    row-level security forced, and no right more than before; members go on writing."""
    ann = member("ann")
    texts = {f"Decision {number}" for number in range(20)}
    for text in sorted(texts):
        decide(ann.store, text)
    ann.sync()
    database = urlsplit(team.admin_url).path.removeprefix("/")
    run_documented(team.admin_url, database, tmp_path, restores=False)
    decide(ann.store, "After the backup")
    ann.sync()
    run_documented(other_server.url, database, tmp_path, restores=True)

    restored = TeamDatabase(other_server.url.rpartition("/")[0] + f"/{database}", team.suffix)
    with closing(restored.admin()) as admin:
        assert schema_version(admin) == VERSION
    newcomer = member("bob", memories_url=Secret(restored.url("bob")))
    newcomer.sync()
    assert set(newcomer.texts()) == texts
    with closing(restored.connect("bob")) as bob:
        assert excess_privileges(bob) == []
    with closing(restored.connect("eve")) as eve:
        for table in ("entry", "project", "reader"):
            query = f"SELECT count(*) FROM xscore_team.{table} WHERE organisation = 'acme'"
            assert eve.execute(query.encode()).fetchone() == (0,)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            eve.execute("SELECT * FROM xscore_team.login")
    # A member's next exchanges notice that the server has lost something, and send it again.
    ann.shared = replace(ann.shared, memories_url=Secret(restored.url("ann")))
    ann.sync()
    newcomer.sync()
    assert set(newcomer.texts()) == {*texts, "After the backup"}

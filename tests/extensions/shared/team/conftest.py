"""A database for two teams on the real PostgreSQL, and members with stores of their own."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from secrets import token_hex

import psycopg
import pytest
from msgspec import Struct
from msgspec.structs import replace

from tests.extensions.shared.server_processes import KINDS, ServerProcess
from xscore.extensions.shared.team.address import memories_address, team_address
from xscore.extensions.shared.team.membership import Membership, write_membership
from xscore.extensions.shared.team.setup import apply_setup
from xscore.extensions.shared.team.sync import (
    TeamSync,
    synchronise,
    team_server_name,
)
from xscore.platform import database
from xscore.platform.paths import find_root
from xscore.settings import Secret
from xscore.settings.model import SharedSettings
from xscore.store.removal import note_team_server
from xscore.store.store import Store

KEY, OTHER_KEY = bytes(range(1, 33)).hex(), bytes(range(101, 133)).hex()


class TeamDatabase(Struct, frozen=True):
    """A database with the teams `acme` (ann, bob) and `umbra` (eve)."""

    admin_url: str
    suffix: str
    """Suffix of the logins, which are the whole server's."""

    def login(self, member: str) -> str:
        """Return a member's login."""
        return f"{member}_{self.suffix}"

    def url(self, member: str) -> str:
        """Return the URL of a member."""
        server = self.admin_url.partition("@")[2]
        return f"postgresql://{self.login(member)}@{server}"

    def connect(self, member: str) -> "psycopg.Connection[tuple[object, ...]]":
        """Connect as a member, without xscore."""
        return psycopg.connect(self.url(member), autocommit=True)

    def admin(self) -> "psycopg.Connection[tuple[object, ...]]":
        """Connect as the superuser."""
        return psycopg.connect(self.admin_url, autocommit=True)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """PostgreSQL."""
    started = KINDS["postgres"](tmp_path_factory.mktemp("postgres"))
    yield started
    started.kill()


@pytest.fixture(scope="module")
def team(running: ServerProcess) -> TeamDatabase:
    """The database, prepared as an administrator does."""
    return prepare_team(running)


def prepare_team(
    running: ServerProcess, *, administrator: str = "", with_judgments: bool = False
) -> TeamDatabase:
    """Create and prepare a database.

    administrator: a login that may make roles and owns the database; empty: the superuser.
    """
    suffix = token_hex(4)
    url = running.url.rpartition("/")[0] + f"/team_{suffix}"
    with closing(psycopg.connect(running.url, autocommit=True)) as superuser:
        superuser.execute(f"CREATE DATABASE team_{suffix}".encode())
        if administrator:
            role = f"{administrator}_{suffix}"
            superuser.execute(f"CREATE ROLE {role} LOGIN CREATEROLE".encode())
            superuser.execute(f"ALTER DATABASE team_{suffix} OWNER TO {role}".encode())
            url = url.replace("tester@", f"{role}@")
            # Roles of the whole server: other databases have made them as the superuser.
            for granted in ("xscore_team_owner", "xscore_team_member"):
                superuser.execute(f"GRANT {granted} TO {role} WITH ADMIN OPTION".encode())
    prepared = TeamDatabase(url, suffix)
    address = team_address(url, timeout_s=30, setting="shared.admin_url")
    logins = [prepared.login("ann"), prepared.login("bob")]
    apply_setup(address, "acme", logins, with_judgments=with_judgments)
    apply_setup(address, "umbra", [prepared.login("eve")])
    return prepared


class Member:
    """A member with a clone of the repository and a store."""

    def __init__(self, store: Store, shared: SharedSettings) -> None:
        self.store = store
        self.shared = shared

    def sync(self, *, everything: bool = False) -> TeamSync:
        """Exchange with the server."""
        return synchronise(self.store, self.shared, everything=everything)

    def texts(self) -> dict[str, str]:
        """Return the text of each memory of others, with its author."""
        rows = self.store.connection.execute(
            "SELECT text, json_extract(attrs, '$.author') FROM memory"
            " WHERE json_extract(attrs, '$.origin') = 'team' ORDER BY text"
        )
        return dict(rows.fetchall())


NewMember = Callable[..., Member]


@pytest.fixture
def member(team: TeamDatabase, tmp_path: Path) -> Iterator[NewMember]:
    """Make members: each call is another machine of a login."""
    of_test = f"github.com/acme/{token_hex(4)}"
    with ExitStack() as stack:
        count = 0

        def make(
            login: str = "ann",
            *,
            by: str = "",
            repository: str = of_test,
            files: dict[str, str] | None = None,
            **settings: object,
        ) -> Member:
            nonlocal count
            count += 1
            home = tmp_path / f"machine_{count}"
            root = home / "repo"
            root.mkdir(parents=True)
            for name, text in (files or {}).items():
                (root / name).write_text(text)
            store = Store.open(find_root(root), user_data_dir=home / "data")
            stack.callback(store.close)
            shared = SharedSettings(
                memories="write",
                memories_url=Secret(team.url(login)),
                key=Secret(KEY),
                timeout_s=30,
            )
            shared = replace(shared, **settings)
            joined = Membership(repository=repository, by=by or login.title())
            with database.transaction(store.connection):
                write_membership(store.connection, joined)
                name = team_server_name(memories_address(shared), repository)
                note_team_server(store.connection, name)
            return Member(store, shared)

        yield make

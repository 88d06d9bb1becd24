"""What a team states about repositories that have no clone here, and who may read them."""

from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex

import psycopg
import pytest
from msgspec.structs import replace

from tests.conftest import commit_all, write_files
from tests.extensions.shared.team.conftest import KEY, NewMember, TeamDatabase
from tests.extensions.shared.team.test_team_commands import Machine
from tests.pipeline.conftest import FILES, TASK, ask, settings_for
from tests.pipeline.test_other_repositories import also
from tests.servers.openai_server import OpenAIServer
from tests.servers.scoring import table
from tests.statements import decide
from xscore.extensions.shared.team.access import AccessChange, RepositoryAccess, change_access
from xscore.extensions.shared.team.address import team_address
from xscore.extensions.shared.team.followed import (
    follow,
    followed_names,
    synchronise_followed,
    unfollow,
)
from xscore.extensions.shared.team.membership import read_membership
from xscore.extensions.shared.team.server_sync import project_digest
from xscore.extensions.shared.team.setup import VERSION
from xscore.extensions.shared.team.sync import synchronise
from xscore.extensions.shared.team.team_key import TeamKey
from xscore.pipeline.json_form import SCHEMA
from xscore.platform.errors import NothingMatched, SharedUnavailable
from xscore.platform.paths import user_data_dir
from xscore.store.other_places import followed_root
from xscore.store.store import Store

CENTS = "Discounts are whole cents, whoever takes the discount of a total."


@pytest.fixture
def repository() -> str:
    """The name of a repository that nobody has shared yet."""
    return f"github.com/acme/{token_hex(4)}"


@pytest.fixture
def judge() -> Iterator[OpenAIServer]:
    """The host of the judge."""
    with OpenAIServer() as running:
        yield running


@pytest.fixture
def access(team: TeamDatabase, repository: str) -> Iterator["Access"]:
    """Change who may read it; it is open again afterwards."""
    changer = Access(team, repository)
    yield changer
    changer.change(is_closed=False)


class Access:
    """An administrator of a repository."""

    def __init__(self, team: TeamDatabase, repository: str) -> None:
        self._team, self._repository = team, repository
        self.project = project_digest(TeamKey(bytes.fromhex(KEY)), repository)

    def change(
        self, *, is_closed: bool | None = None, grant: str = "", revoke: str = ""
    ) -> RepositoryAccess:
        """Close or open it, grant and revoke."""
        change = AccessChange(
            organisation="acme",
            project=self.project,
            is_closed=is_closed,
            granted=[self._team.login(grant)] if grant else [],
            revoked=[self._team.login(revoke)] if revoke else [],
        )
        address = team_address(self._team.admin_url, timeout_s=30, setting="shared.admin_url")
        return change_access(address, change)


async def test_a_repository_without_a_clone_is_followed_and_judged(
    member: NewMember, repository: str, tmp_path: Path, judge: OpenAIServer
) -> None:
    """What a colleague states of it is a candidate of my turn under its name; what is new or erased
    comes with the next sync; none of it counts as stale for want of its code."""
    ann, bob = member("ann", repository=repository), member("bob")
    decide(ann.store, CENTS, key="cents")
    ann.sync()
    folder = user_data_dir(None)
    with pytest.raises(NothingMatched):
        follow("github.com/acme/unheard-of", "bob", bob.shared, user_data_dir=folder)
    # What an earlier one left that was killed as soon as it had made a store.
    with Store.open(followed_root(repository, folder), user_data_dir=folder):
        pass
    assert follow(repository, "bob", bob.shared, user_data_dir=folder).added == 1
    assert follow(repository, "bob", bob.shared, user_data_dir=folder).added == 0
    assert followed_names(folder) == [repository]
    write_files(tmp_path / "shop", FILES)
    shop = commit_all(tmp_path / "shop")
    judge.score = table({"whole cents": 95})
    name = repository.removeprefix("github.com/")
    answer = await ask(shop, also(settings_for(judge), name), TASK)
    (kept,) = [memory for memory in answer.selected if not memory.path]
    assert kept.title.startswith(f"{name}: Discounts") and not kept.is_stale
    decide(ann.store, "Discounts are never negative.", key="sign")
    ann.sync()
    (synced,) = synchronise_followed(bob.shared, user_data_dir=folder)
    assert synced.added == 1 and not synced.problem and synced.sent == 0
    (also_judged,) = (await ask(shop, also(settings_for(judge), name), TASK)).also
    assert also_judged.memories == 2
    unfollow(repository, user_data_dir=folder)
    assert followed_names(folder) == []
    assert len((await ask(shop, also(settings_for(judge), name), TASK)).warnings) == 1


def test_a_closed_repository_is_read_by_those_who_were_granted_it(
    team: TeamDatabase, member: NewMember, repository: str, access: Access
) -> None:
    """Closed, it shows another member of the same team no row and takes none from them, whatever is
    asked; a grant opens it to one login, and a revocation closes it again."""
    ann, bob = member("ann", repository=repository), member("bob", repository=repository)
    decide(ann.store, CENTS)
    ann.sync()
    assert access.change(is_closed=True, grant="ann").logins == (team.login("ann"),)
    # Equal bytes in an open repository change nothing.
    decide(bob.store, "Bob's own opinion")
    with pytest.raises(SharedUnavailable):
        bob.sync()
    assert bob.texts() == {}
    for query in (
        "SELECT count(*) FROM xscore_team.entry WHERE project = %s",
        "SELECT count(*) FROM xscore_team.project WHERE project = %s",
        "SELECT count(*) FROM xscore_team.reader WHERE project = %s",
    ):
        with team.connect("bob") as connection:
            assert connection.execute(query.encode(), (access.project,)).fetchone() == (0,)
        with team.connect("ann") as connection:
            assert connection.execute(query.encode(), (access.project,)).fetchone() == (1,)
    with team.connect("bob") as connection:
        for forbidden in (
            "SELECT * FROM xscore_team.access",
            "INSERT INTO xscore_team.access SELECT organisation, project, member FROM"
            " xscore_team.entry",
            "DELETE FROM xscore_team.closed",
            "SELECT xscore_team.put_entries(%(project)s, '{a}', '{memory}', '{x}')",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(forbidden.encode(), {"project": access.project})
    access.change(grant="bob")
    bob.sync()
    assert list(bob.texts()) == [CENTS]
    ann.sync()
    assert list(ann.texts()) == ["Bob's own opinion"]
    access.change(revoke="bob")
    decide(ann.store, "After the revocation")
    ann.sync()
    decide(bob.store, "Another of Bob's")
    with pytest.raises(SharedUnavailable):
        bob.sync()
    # What was pulled before stays.
    assert list(bob.texts()) == [CENTS]


def test_a_member_is_told_that_a_repository_is_closed(
    member: NewMember, repository: str, access: Access
) -> None:
    """A member with nothing to send is told, too. Its rows are hidden, so it looks as if nothing
    were shared, and the store would believe that."""
    ann, bob = member("ann", repository=repository), member("bob", repository=repository)
    decide(ann.store, CENTS)
    ann.sync()
    bob.sync()
    before = read_membership(bob.store.connection)
    access.change(is_closed=True, grant="ann")
    reader = replace(bob.shared, memories="read")
    newcomer = member("bob", repository=repository)
    for store, settings in (
        (bob.store, bob.shared),
        (bob.store, reader),
        (newcomer.store, newcomer.shared),
    ):
        with pytest.raises(SharedUnavailable, match="closed to login") as refused:
            synchronise(store, settings)
        assert "shared access" in refused.value.hint
    assert read_membership(bob.store.connection) == before


def test_who_is_no_member_is_granted_nothing(access: Access) -> None:
    """A login of another team, or of none, cannot be granted a repository."""
    for login in ("eve", "nobody"):
        with pytest.raises(NothingMatched):
            access.change(is_closed=True, grant=login)
    assert not access.change().is_closed


def test_following_and_access_by_the_commands(
    team: TeamDatabase, repository: str, tmp_path: Path
) -> None:
    """Follow, list, sync, end; close and grant as an administrator; prune counts first."""
    ann = Machine(tmp_path / "ann", team, "ann", "Ann")
    bob = Machine(tmp_path / "bob", team, "bob", "Bob")
    ann.run("memory", "add", CENTS, "--kind", "decision")
    ann.run("shared", "join", repository)
    bob.run("shared", "join", f"{repository}-of-bob")
    assert "1 memory" in bob.run("shared", "follow", repository)
    assert bob.json("shared", "follow") == {"schema": 1, "followed": [repository]}
    name = repository.removeprefix("github.com/")
    body = bob.json("ask", "discounts", "--repo", name, "--judge", "lexical", "--no-answer")
    assert [(joined["name"], joined["memories"]) for joined in body["also"]] == [(name, 1)]
    admin = {"XSCORE_SHARED_ADMIN_URL": team.admin_url, "XSCORE_SHARED_TENANT": "acme"}
    ann.environ |= admin
    closed = ann.json("shared", "access", repository, "--close", "--grant", team.login("ann"))
    assert closed["is_closed"] and closed["logins"] == [team.login("ann")]
    ann.run("memory", "add", "Said after it was closed", "--kind", "decision")
    ann.run("shared", "sync")
    bob.run("shared", "sync")
    body = bob.json("ask", "discounts", "--repo", name, "--judge", "lexical", "--no-answer")
    assert body["also"][0]["memories"] == 1
    ann.run("shared", "access", repository, "--open")
    bob.run("shared", "sync")
    body = bob.json("ask", "discounts", "--repo", name, "--judge", "lexical", "--no-answer")
    assert body["also"][0]["memories"] == 2
    bob.run("shared", "follow", repository, "--end")
    assert bob.json("shared", "follow")["followed"] == []
    bob.run("shared", "access", repository, code=2)
    prepared = ann.json("shared", "init", "--apply", "--judgments")
    # `schema` is the contract's, as of every object.
    assert (prepared["version"], prepared["schema"]) == (VERSION, SCHEMA)
    pruned = ann.json("shared", "prune", "--unused-days", "30", "--dry-run")
    assert pruned["judgments"] == 0 and pruned["dry_run"]

"""What has long been unused goes from the server, a count first; what was stated stays."""

from collections.abc import AsyncIterator
from contextlib import closing

import psycopg
import pytest

from tests.extensions.shared.server_processes import ServerProcess
from tests.extensions.shared.team.conftest import (
    Member,
    NewMember,
    TeamDatabase,
    prepare_team,
)
from tests.extensions.shared.team.test_team_faults import membership_of
from tests.extensions.shared.test_postgres_server import TURN, claim
from tests.statements import decide
from xscore.extensions.privacy.erasure import erase_memories
from xscore.extensions.shared.postgres_server import PostgresDriver
from xscore.extensions.shared.server import SharedServer
from xscore.extensions.shared.team import team_server
from xscore.extensions.shared.team.address import team_address
from xscore.extensions.shared.team.retention import LOCK, Removal, remove_unused
from xscore.extensions.shared.team.setup import apply_setup
from xscore.extensions.shared.team.team_server import ServerEntry, TeamServer
from xscore.platform import database
from xscore.platform.errors import SharedUnavailable
from xscore.records.judgment import Judgment
from xscore.settings import Secret
from xscore.store.checkpoints import (
    checkpoints_of_team,
    save_checkpoint,
    share_checkpoint,
    take_back_checkpoint,
)


@pytest.fixture
async def server(team: TeamDatabase) -> AsyncIterator[SharedServer]:
    """Ann, whose client knows nothing of dates."""
    address = team_address(team.admin_url, timeout_s=30, setting="shared.admin_url")
    apply_setup(address, "acme", [team.login("ann")], with_judgments=True)
    opened = SharedServer(PostgresDriver(team.url("ann"), tenant="acme"))
    yield opened
    await opened.aclose()


def prune(team: TeamDatabase, days: int, *, dry_run: bool = False) -> Removal:
    """Run it as an administrator does."""
    address = team_address(team.admin_url, timeout_s=30, setting="shared.admin_url")
    return remove_unused(address, "acme", unused_days=days, dry_run=dry_run)


async def test_judgments_of_unused_turns_are_removed_and_noted(
    team: TeamDatabase, server: SharedServer
) -> None:
    """A dry run changes nothing; what was added lately stays, as does another team's; clients of
    before the date go on; each removal is noted."""
    await server.store_judgments(TURN, [Judgment("a", 0.5, "old"), Judgment("b", 0.5, "old")])
    nothing = prune(team, 30, dry_run=True)
    assert (nothing.turns, nothing.judgments, nothing.dry_run) == (0, 0, True)
    first = prune(team, 30)
    assert (nothing.had_dates, first.had_dates, first.judgments) == (False, False, 0)
    with closing(team.admin()) as admin:
        admin.execute("UPDATE xscore.judgment SET stored_on = current_date - 40")
        admin.execute(
            "INSERT INTO xscore.judgment SELECT 'umbra', turn, content, entry, stored_on"
            " FROM xscore.judgment WHERE tenant = 'acme'"
        )
    later = prune(team, 40)
    assert (later.had_dates, later.judgments) == (True, 0)
    assert prune(team, 30, dry_run=True).judgments == 2
    assert await claim(server, "a", "b", runner="one") == "oo"
    assert prune(team, 30).judgments == 2
    with closing(team.admin()) as admin:
        counts_by_tenant = admin.execute(
            "SELECT tenant, count(*) FROM xscore.judgment GROUP BY 1"
        ).fetchall()
        assert counts_by_tenant == [("umbra", 2)]
        noted = admin.execute(
            "SELECT tenant, unused_days, judgments, removed_by FROM xscore.removal ORDER BY at"
        ).fetchall()
        assert [row[2] for row in noted] == [0, 0, 2] and noted[-1] == ("acme", 30, 2, "tester")
    # A turn that somebody has added to is used, however old the rest of it is.
    await server.store_judgments(TURN, [Judgment("a", 0.5, "old"), Judgment("b", 0.5, "old")])
    with closing(team.admin()) as admin:
        admin.execute(
            "UPDATE xscore.judgment SET stored_on = current_date - 40 WHERE content = 'a'"
        )
    assert prune(team, 30).judgments == 0


def test_what_was_stated_stays_and_marks_go_when_all_have_seen_them(
    team: TeamDatabase, member: NewMember, server: SharedServer
) -> None:
    """A statement is never removed, however old; the mark of an erased one once every member has
    pulled past it."""
    ann, bob = member("ann"), member("bob")
    decide(ann.store, "Stays for good")
    stored = decide(ann.store, "Is taken back")
    ann.sync()
    bob.sync()
    erase_memories(ann.store, [stored.memory.id], now=1.0)
    ann.sync()
    with closing(team.admin()) as admin:
        admin.execute("UPDATE xscore_team.entry SET changed_at = now() - interval '1 year'")
    # Bob has not noticed yet: his copy would stay for ever.
    assert prune(team, 30, dry_run=True).marks == prune(team, 30).marks == 0
    # A member who has left would keep the marks for good; one who comes back compares everything.
    with closing(team.admin()) as admin:
        admin.execute("UPDATE xscore_team.reader SET seen_at = now() - interval '40 days'")
    assert prune(team, 30, dry_run=True).marks == 1
    bob.sync()
    ann.sync(everything=True)
    assert prune(team, 30, dry_run=True).marks == prune(team, 30).marks == 1
    assert list(bob.texts()) == ["Stays for good"]
    newcomer = member("bob")
    newcomer.sync()
    assert list(newcomer.texts()) == ["Stays for good"]


def test_a_machine_that_was_away_still_notices_an_erasure(
    team: TeamDatabase, member: NewMember, server: SharedServer
) -> None:
    """A member's other machine has noticed it, so the mark goes; this one compares what it has with
    the server, and keeps all that is there."""
    ann, desk, laptop = member("ann"), member("bob"), member("bob")
    decide(ann.store, "Stays for good")
    stored = decide(ann.store, "Is taken back")
    _share_checkpoint(ann, "taken back")
    for machine in (ann, desk, laptop):
        machine.sync()
    erase_memories(ann.store, [stored.memory.id], now=1.0)
    with database.transaction(ann.store.connection):
        take_back_checkpoint(ann.store.connection, "taken back")
    ann.sync()
    desk.sync()
    ann.sync(everything=True)
    with closing(team.admin()) as admin:
        admin.execute("UPDATE xscore_team.entry SET changed_at = now() - interval '1 year'")
    assert prune(team, 30).marks == 2
    decide(laptop.store, "Said by the laptop")
    done = laptop.sync()
    assert (done.sent, done.removed) == (1, 2)
    assert list(laptop.texts()) == ["Stays for good"]
    assert not checkpoints_of_team(laptop.store.connection)
    # All is compared once.
    assert (laptop.sync().removed, membership_of(laptop).version) == (0, _version(team, laptop))


def _share_checkpoint(member: Member, name: str) -> None:
    save_checkpoint(member.store.connection, name, thread="", now=1.0)
    share_checkpoint(member.store.connection, name)


def _version(team: TeamDatabase, member: Member) -> int:
    """Return the version of the member's repository on the server."""
    with closing(team.admin()) as admin:
        row = admin.execute(
            "SELECT version FROM xscore_team.project WHERE epoch = %s",
            (membership_of(member).epoch,),
        ).fetchone()
    assert row is not None
    return int(str(row[0]))


def test_after_the_latest_marks_are_removed_nobody_is_behind(
    team: TeamDatabase, member: NewMember, server: SharedServer
) -> None:
    """A pull ends at the newest version, although no entry has it any more."""
    ann, bob = member("ann"), member("bob")
    stored = decide(ann.store, "Is taken back")
    ann.sync()
    bob.sync()
    erase_memories(ann.store, [stored.memory.id], now=1.0)
    for machine in (ann, bob, ann):
        machine.sync()
    with closing(team.admin()) as admin:
        admin.execute("UPDATE xscore_team.entry SET changed_at = now() - interval '1 year'")
    assert prune(team, 30).marks == 1
    bob.sync(everything=True)
    assert membership_of(bob).version == _version(team, bob) == 2


def test_an_entry_that_changes_while_all_is_pulled_is_not_missing(
    team: TeamDatabase,
    member: NewMember,
    server: SharedServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It moves behind the newest version that the pull began with."""
    ann, bob = member("ann"), member("bob")
    texts = {"First", "Second", "Third"}
    for text in sorted(texts):
        decide(ann.store, text)
        ann.sync()
    bob.sync()
    project = "project IN (SELECT project FROM xscore_team.project WHERE epoch = %s)"
    epoch = (membership_of(bob).epoch,)
    with closing(team.admin()) as admin:
        admin.execute(f"UPDATE xscore_team.project SET pruned = 1 WHERE {project}", epoch)

    def pull(self: TeamServer, since: int) -> list[ServerEntry]:
        if since == 1:
            with closing(team.admin()) as admin:
                moved = f"SET version = 4 WHERE version = 2 AND {project}"
                admin.execute(f"UPDATE xscore_team.entry {moved}", epoch)
        return pull_page(self, since)

    pull_page = TeamServer.pull
    monkeypatch.setattr(team_server, "PAGE", 1)
    monkeypatch.setattr(TeamServer, "pull", pull)
    assert bob.sync(everything=True).removed == 0
    assert set(bob.texts()) == texts


def test_marks_removed_before_the_schema_noted_it_are_made_up_for(
    team: TeamDatabase, member: NewMember, server: SharedServer
) -> None:
    """After the migration each store is compared once with the server."""
    ann, bob = member("ann"), member("bob")
    stored = decide(ann.store, "Is taken back")
    ann.sync()
    bob.sync()
    erase_memories(ann.store, [stored.memory.id], now=1.0)
    ann.sync()
    with closing(team.admin()) as admin:
        admin.execute("DELETE FROM xscore_team.entry WHERE content IS NULL")
        # As the migration leaves it.
        admin.execute("UPDATE xscore_team.project SET pruned = version")
    bob.sync()
    assert not bob.texts()


def test_an_administrator_who_is_no_superuser_removes_as_much(
    running: ServerProcess, member: NewMember
) -> None:
    """Row-level security is forced for the owner, too: it would see nothing, and say zero."""
    managed = prepare_team(running, administrator="dba", with_judgments=True)
    ann = member("ann", memories_url=Secret(managed.url("ann")))
    stored = decide(ann.store, "Is taken back")
    ann.sync()
    erase_memories(ann.store, [stored.memory.id], now=1.0)
    ann.sync()
    superuser = managed.admin_url.replace(managed.login("dba"), "tester")
    with closing(psycopg.connect(superuser, autocommit=True)) as admin:
        admin.execute("UPDATE xscore_team.entry SET changed_at = now() - interval '1 year'")
        for tenant in ("acme", "umbra"):
            admin.execute(
                "INSERT INTO xscore.judgment VALUES (%s, 'turn', 'content', 'entry')", (tenant,)
            )
    assert not prune(managed, 30).had_dates
    with closing(psycopg.connect(superuser, autocommit=True)) as admin:
        admin.execute("UPDATE xscore.judgment SET stored_on = current_date - 40")
        admin.execute("UPDATE xscore_team.entry SET changed_at = now() - interval '1 year'")
    erase_memories(ann.store, [decide(ann.store, "Later").memory.id], now=1.0)
    assert prune(managed, 30, dry_run=True).judgments == prune(managed, 30).judgments == 1
    with closing(psycopg.connect(superuser, autocommit=True)) as admin:
        rows = admin.execute("SELECT tenant FROM xscore.judgment").fetchall()
        assert rows == [("umbra",)]
        marks = admin.execute("SELECT sum(marks) FROM xscore.removal").fetchone()
        assert marks == (1,)


def test_marks_go_where_the_judgments_are_elsewhere(
    running: ServerProcess, member: NewMember
) -> None:
    """Memories on PostgreSQL and judgments on Redis is what compose.yml sets up."""
    alone = prepare_team(running)
    ann = member("ann", memories_url=Secret(alone.url("ann")))
    stored = decide(ann.store, "Is taken back")
    ann.sync()
    erase_memories(ann.store, [stored.memory.id], now=1.0)
    ann.sync()
    with closing(alone.admin()) as admin:
        admin.execute("UPDATE xscore_team.entry SET changed_at = now() - interval '1 year'")
    assert prune(alone, 30).marks == 1
    with closing(alone.admin()) as admin:
        noted = admin.execute("SELECT tenant, marks FROM xscore_team.removal").fetchall()
        assert noted == [("acme", 1)]


def test_two_administrators_do_not_remove_at_once(
    team: TeamDatabase, server: SharedServer
) -> None:
    """The second gets an error, and nothing is half done."""
    with closing(team.admin()) as first:
        first.execute(f"SELECT pg_advisory_lock({LOCK})".encode())
        with pytest.raises(SharedUnavailable):
            prune(team, 30)
    assert prune(team, 36_500).judgments == 0

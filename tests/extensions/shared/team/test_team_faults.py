"""Kills, outages, restored servers and other versions: nothing stated is lost or doubled, and a
turn goes on."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from threading import Event, Thread
from time import monotonic, time

import pytest
from msgspec.structs import replace

from tests.extensions.shared.server_processes import ServerProcess
from tests.extensions.shared.server_programs import free_port
from tests.extensions.shared.team.conftest import KEY, Member, NewMember, TeamDatabase
from tests.extensions.shared.team.held_answers import HeldAnswers
from tests.extensions.shared.team.reading import project_of, read_until, send_one_by_one
from tests.statements import decide
from tests.waiting import wait_until
from xscore.extensions.privacy.erasure import erase_memories
from xscore.extensions.shared.team import team_server
from xscore.extensions.shared.team.address import TeamAddress, team_address
from xscore.extensions.shared.team.background_sync import sync_variables
from xscore.extensions.shared.team.membership import (
    LONGEST_PAUSE_S,
    Membership,
    read_membership,
    write_membership,
)
from xscore.extensions.shared.team.setup import apply_setup, schema_steps
from xscore.extensions.shared.team.turn_sync import begin_turn_sync
from xscore.platform import database
from xscore.platform.errors import SharedUnavailable, UsageError
from xscore.settings import Secret, Settings

NEWEST = max(schema_steps())
NEXT_STEP = """
ALTER TABLE xscore_team.entry ADD COLUMN note text;
UPDATE xscore_team.version SET number = {number}, serves_from = {serves_from};
"""


def shared_rows(team: TeamDatabase, member: Member) -> list[tuple[object, ...]]:
    """Return name and version of each entry of a member's project on the server."""
    membership = read_membership(member.store.connection)
    assert membership is not None
    with team.admin() as admin:
        return admin.execute(
            "SELECT name, version FROM xscore_team.entry WHERE project IN (SELECT project FROM"
            " xscore_team.project WHERE epoch = %s) AND content IS NOT NULL ORDER BY version",
            (membership.epoch,),
        ).fetchall()


def begin(member: Member) -> Callable[[], str]:
    """Begin the exchange of a turn; return what ends it, with its line."""
    finish = begin_turn_sync(Settings(shared=member.shared), store=member.store)

    def end() -> str:
        exchange = finish()
        return exchange.warning or exchange.at_end()

    return end


STEPS_OF_EXCHANGE = (
    b"current_organisation",
    b"sha256(content)",
    b"put_entries",
    b"octet_length(content)",
    b"note_reader",
)
"""A word of each statement of an exchange."""


@pytest.mark.parametrize("word", STEPS_OF_EXCHANGE)
def test_a_kill_before_the_answer_loses_and_doubles_nothing(
    team: TeamDatabase, member: NewMember, word: bytes
) -> None:
    """A process that is killed at any step, after the server did it and before it knew, is made
    good by the next."""
    ann, bob = member("ann"), member("bob")
    for number in range(5):
        decide(ann.store, f"Decision number {number}")
    port = int(team.admin_url.rpartition(":")[2].partition("/")[0])
    relay = HeldAnswers(port, word=word)
    url = team.url("ann").replace(f":{port}/", f":{relay.port}/")
    process = subprocess.Popen(
        [sys.executable, "-m", "xscore", "shared", "sync"],
        cwd=ann.store.root.path,
        env={
            **os.environ,
            "XSCORE_SHARED_MEMORIES": "write",
            "XSCORE_SHARED_MEMORIES_URL": url,
            "XSCORE_SHARED_KEY": KEY,
            "XSCORE_STORE_USER_DATA_DIR": str(ann.store.user_data_dir),
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    assert relay.was_answered.wait(60)
    process.send_signal(signal.SIGKILL)
    process.wait()
    relay.close()
    decide(ann.store, "Said after the kill")
    # Where it was killed before it wrote, all six are sent.
    has_written = STEPS_OF_EXCHANGE.index(word) >= STEPS_OF_EXCHANGE.index(b"put_entries")
    assert ann.sync().sent == (1 if has_written else 6)
    assert bob.sync().added == 6
    rows = shared_rows(team, ann)
    assert len(rows) == len(set(rows)) == 6
    assert [version for _, version in rows] == [1, 2, 3, 4, 5, 6]


def test_members_who_write_at_once_miss_nothing(member: NewMember) -> None:
    """Versions are given in the order of commits: a reader who has seen one has seen all before."""
    ann, bob, eva = member("ann"), member("bob"), member("bob")
    for number in range(40):
        decide(ann.store, f"Ann says {number}")
        decide(bob.store, f"Bob says {number}")
    stop = Event()
    seen: list[int] = []

    project = project_of(eva.shared, eva.store)
    reader = Thread(target=lambda: seen.extend(read_until(stop, eva.shared, project)))
    reader.start()
    requests: list[Thread] = []
    for writer in (ann, bob):
        requests.append(Thread(target=send_one_by_one(writer.shared, writer.store)))
    for request in requests:
        request.start()
    for request in requests:
        request.join()
    stop.set()
    reader.join()
    assert seen == sorted(seen) and len(set(seen)) == len(seen)
    assert len(seen) == 80


def test_a_server_that_is_away_costs_one_line(member: NewMember) -> None:
    """Refused or silent: a short wait, one line; then it is left alone for a while."""
    ann = member("ann", memories_url=Secret(f"postgresql://ann@127.0.0.1:{free_port()}/team"))
    decide(ann.store, "Said while it was away")
    began = monotonic()
    line = begin(ann)()
    assert "127.0.0.1" in line and "\n" not in line
    assert monotonic() - began < 10  # it may take half a minute to answer
    assert begin(ann)() == ""
    membership = read_membership(ann.store.connection)
    assert membership is not None and membership.failures == 1


def test_a_silent_server_holds_no_turn(running: ServerProcess, member: NewMember) -> None:
    """A server that accepts and says nothing is left to a background process, and one line says
    so."""
    ann = member("ann", timeout_s=10)
    decide(ann.store, "Said before")
    ann.sync()
    running.hang()
    try:
        decide(ann.store, "Said meanwhile")
        began = monotonic()
        assert begin(ann)() == ""
        assert monotonic() - began < 10
        # While the process asks, a turn asks nothing.
        assert begin(ann)() == ""
        wait_until(lambda: membership_of(ann).problem, otherwise="the process said nothing")
        line = begin(ann)()
        assert "127.0.0.1" in line and "\n" not in line
        assert begin(ann)() == ""
        assert membership_of(ann).failures == 1
    finally:
        running.go_on()
    # The server may have got a request that was no longer awaited.
    ann.sync()
    bob = member("bob")
    bob.sync()
    assert len(bob.texts()) == 2


def membership_of(member: Member) -> Membership:
    """Return how the store takes part."""
    membership = read_membership(member.store.connection)
    assert membership is not None
    return membership


def test_a_turn_brings_what_others_said(member: NewMember) -> None:
    """What is begun before the index is there when the turn looks, or for one soon after."""
    ann, bob = member("ann"), member("bob")
    bob.sync()
    decide(ann.store, "Said by Ann")
    ann.sync()
    bob.store.clock = lambda: 4e9

    def has_come() -> bool:
        assert begin(bob)() == ""
        return bool(bob.texts())

    wait_until(has_come, otherwise="nothing came")
    assert list(bob.texts()) == ["Said by Ann"]


def test_a_turn_imports_no_driver_where_it_exchanged_within_the_hour(member: NewMember) -> None:
    """A background process takes what is new, for the next turn."""
    ann, bob = member("ann"), member("bob", files={"a.py": "def a():\n    return 1\n"})
    bob.sync()
    decide(ann.store, "Said by Ann")
    ann.sync()
    five_minutes_ago = replace(membership_of(bob), synced_at=time() - 300)
    with database.transaction(bob.store.connection):
        write_membership(bob.store.connection, five_minutes_ago)
    turn = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "xscore", "context", "a"],
        cwd=bob.store.root.path,
        env=os.environ
        | sync_variables(bob.shared)
        | {"XSCORE_STORE_USER_DATA_DIR": data_of(bob), "XSCORE_JUDGE_MODEL": "lexical"},
        capture_output=True,
        text=True,
        check=False,
    )
    modules = {line.rpartition("|")[2].strip() for line in turn.stderr.splitlines()}
    assert "xscore.extensions.shared.team.background_sync" in modules
    assert not {"psycopg", "cryptography"} & modules
    wait_until(bob.texts, otherwise="the background process brought nothing")
    assert list(bob.texts()) == ["Said by Ann"]
    assert membership_of(bob).background_sync_at == 0


def data_of(member: Member) -> str:
    """Return the folder of the member's user data."""
    return str(member.store.user_data_dir)


def test_a_clock_that_was_set_back_leaves_no_long_pause(member: NewMember) -> None:
    """A server that was away by a clock a day ahead is asked again now."""
    ann = member("ann")
    ahead = ann.store.clock() + 86_400
    membership = replace(membership_of(ann), failures=3, failed_at=ahead)
    assert membership.is_paused(ahead + 1) and not membership.is_paused(ahead + 1_000)
    assert not membership.is_paused(ann.store.clock())


def test_a_restored_server_is_read_from_the_beginning(
    team: TeamDatabase, member: NewMember
) -> None:
    """A server that counts from another beginning is pulled whole, and sent what it lost."""
    ann, bob = member("ann"), member("bob")
    decide(ann.store, "First")
    ann.sync()
    bob.sync()
    with team.admin() as admin:
        membership = read_membership(ann.store.connection)
        assert membership is not None
        admin.execute(
            "DELETE FROM xscore_team.entry WHERE project IN (SELECT project FROM"
            " xscore_team.project WHERE epoch = %s)",
            (membership.epoch,),
        )
        admin.execute("DELETE FROM xscore_team.project WHERE epoch = %s", (membership.epoch,))
    decide(ann.store, "Second")
    assert ann.sync().sent == 2
    bob.sync()
    assert set(bob.texts()) == {"First", "Second"}
    assert (bob.sync().added, ann.sync().sent) == (0, 0)


def test_what_a_store_sends_first_does_not_hide_that_the_server_was_restored(
    team: TeamDatabase, member: NewMember
) -> None:
    """A backup is one statement short; the next exchange sends another, which brings the server to
    the version that the store has seen."""
    ann, bob = member("ann"), member("bob")
    first = decide(ann.store, "First")
    ann.sync()
    decide(ann.store, "Second")
    ann.sync()
    with closing(team.admin()) as admin:
        project = "project IN (SELECT project FROM xscore_team.project WHERE epoch = %s)"
        epoch = (membership_of(ann).epoch,)
        admin.execute(f"DELETE FROM xscore_team.entry WHERE version = 2 AND {project}", epoch)
        admin.execute(f"UPDATE xscore_team.project SET version = 1 WHERE {project}", epoch)
    erase_memories(ann.store, [first.memory.id], now=1.0)
    ann.sync()
    bob.sync()
    assert list(bob.texts()) == ["Second"]


def test_an_older_client_goes_on_while_the_schema_is_migrated(
    team: TeamDatabase, member: NewMember, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step says which clients it still serves: others are told, and keep what they have."""
    ann, bob = member("ann"), member("bob")
    address = team_address(team.admin_url, timeout_s=30, setting="shared.admin_url")
    logins = [team.login("ann"), team.login("bob")]
    decide(ann.store, "Before the step")
    ann.sync()
    # A newer client before an older schema: told who is to act.
    monkeypatch.setattr(team_server, "CLIENT_SCHEMA", NEWEST + 1)
    with pytest.raises(SharedUnavailable, match=f"schema {NEWEST}") as refused:
        ann.sync()
    assert "init --apply" in refused.value.hint
    monkeypatch.setattr(team_server, "CLIENT_SCHEMA", 1)
    # An older client before a newer schema that serves it.
    next_step = NEXT_STEP.format(number=NEWEST + 1, serves_from=1)
    steps = {**schema_steps(), NEWEST + 1: next_step}
    problems: list[BaseException] = []
    threads = [Thread(target=_apply, args=(address, logins, steps, problems)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(10):
        decide(ann.store, f"During the step {number}")
        ann.sync()
    for thread in threads:
        thread.join()
    assert not problems
    bob.sync()
    assert len(bob.texts()) == 11
    # One that no longer serves it.
    last_step = NEXT_STEP.replace("ALTER TABLE xscore_team.entry ADD COLUMN note text;", "")
    steps[NEWEST + 2] = last_step.format(number=NEWEST + 2, serves_from=3)
    apply_setup(address, "acme", logins, steps=steps)
    try:
        with pytest.raises(SharedUnavailable, match="newer xscore"):
            bob.sync()
        assert len(bob.texts()) == 11
        with pytest.raises(SharedUnavailable, match="newer xscore"):
            apply_setup(address, "acme", logins)
    finally:
        with closing(team.admin()) as admin:
            admin.execute(f"UPDATE xscore_team.version SET number = {NEWEST}, serves_from = 1")


def _apply(
    address: TeamAddress,
    logins: list[str],
    steps: dict[int, str],
    problems: list[BaseException],
) -> None:
    try:
        apply_setup(address, "acme", logins, steps=steps)
    except BaseException as error:  # a thread's error fails the test
        problems.append(error)


def test_a_failed_exchange_is_tried_again_with_what_was_not_sent(
    running: ServerProcess, team: TeamDatabase, member: NewMember
) -> None:
    """What was stated while the server was down is sent when it is back."""
    ann = member("ann")
    decide(ann.store, "Before")
    ann.sync()
    running.kill()
    try:
        decide(ann.store, "While it was down")
        assert begin(ann)()
    finally:
        running.start()
    membership = read_membership(ann.store.connection)
    assert membership is not None
    ann.store.clock = lambda: membership.failed_at + LONGEST_PAUSE_S
    begin(ann)()
    assert ann.sync().sent <= 1
    assert len(shared_rows(team, ann)) == 2


def test_a_store_of_a_stranger_shares_nothing(member: NewMember) -> None:
    """A store that was made elsewhere is not synchronised in the user's name."""
    ann = member("ann")
    decide(ann.store, "Planted")
    ann.store.copies_to = None
    assert begin(ann)() == ""
    with pytest.raises(UsageError):
        ann.sync()

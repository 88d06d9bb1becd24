"""The background sync in a hostile place: planted code and variables, two at once, killed, and
more memory than fits a turn."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.extensions.shared.server_programs import free_port
from tests.extensions.shared.team.conftest import NewMember
from tests.extensions.shared.team.test_team_faults import begin, membership_of
from tests.statements import decide
from tests.waiting import wait_until
from xscore.extensions.shared.team import team_server, turn_sync
from xscore.extensions.shared.team.background_sync import start_background_sync, sync_variables
from xscore.extensions.shared.team.followed import follow
from xscore.extensions.shared.team.membership import write_membership
from xscore.platform import database
from xscore.platform.errors import StoreError
from xscore.store.other_places import followed_root

pytestmark = pytest.mark.verify

PLANTED = "import pathlib; pathlib.Path({marker!r}).touch()\n"


def test_planted_code_and_variables_lead_nowhere(
    member: NewMember, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Modules in the repository, a relative path to them, and libpq's variables: what colleagues
    said comes from the server that was named, and nothing of the repository runs."""
    marker = tmp_path / "was run"
    code = PLANTED.format(marker=str(marker))
    names = (
        "psycopg.py",
        "cryptography.py",
        "sitecustomize.py",
        "usercustomize.py",
        "xscore.py",
    )
    ann, bob = member("ann"), member("bob", files=dict.fromkeys(names, code))
    decide(ann.store, "Said by Ann")
    ann.sync()
    elsewhere = str(free_port())
    hostile = {"PGHOSTADDR": "127.0.0.9", "PGPORT": elsewhere}
    hostile |= {"PGDATABASE": "planted", "PGUSER": "planted", "PGSSLMODE": "disable"}
    python_path = os.pathsep.join(filter(None, [".", os.environ.get("PYTHONPATH", "")]))
    for name, value in {**hostile, "PYTHONPATH": python_path}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(bob.store.root.path)
    start_background_sync(bob.store, bob.shared, is_slow=False)
    wait_until(bob.texts, otherwise="the process brought nothing")
    wait_until(lambda: not membership_of(bob).background_sync_at, otherwise="it is not over")
    assert list(bob.texts()) == ["Said by Ann"]
    assert membership_of(bob).problem == "" and not marker.exists()


def test_two_at_once_bring_it_once(member: NewMember) -> None:
    """Both end, and nothing is there twice."""
    ann, bob = member("ann"), member("bob")
    for number in range(20):
        decide(ann.store, f"Ann says {number}")
    decide(bob.store, "Bob's own")
    ann.sync()
    processes: list[subprocess.Popen[bytes]] = []
    variables = {"XSCORE_STORE_USER_DATA_DIR": str(bob.store.user_data_dir)}
    for _ in range(3):
        processes.append(
            subprocess.Popen(
                [sys.executable, "-P", "-m", "xscore", "shared", "sync"],
                cwd=bob.store.root.path,
                env=os.environ | sync_variables(bob.shared) | variables,
                stdout=subprocess.DEVNULL,
            )
        )
    assert [process.wait(120) for process in processes] == [0, 0, 0]
    assert len(bob.texts()) == 20
    assert ann.sync().added == 1


def test_one_that_is_killed_is_followed_by_another(member: NewMember) -> None:
    """A turn asks no second one while it may be at work, and then starts another."""
    ann, bob = member("ann"), member("bob")
    bob.sync()
    decide(ann.store, "Said by Ann")
    ann.sync()
    start_background_sync(bob.store, replace(bob.shared, timeout_s=1), is_slow=True)
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        _kill_sync_in(line, bob.store.root.path)
    assert begin(bob)() == ""
    ended = replace(
        membership_of(bob), background_sync_at=bob.store.clock() - 3_600, synced_at=1.0
    )
    with database.transaction(bob.store.connection):
        write_membership(bob.store.connection, ended)

    def has_come() -> bool:
        begin(bob)()
        return bool(bob.texts())

    wait_until(has_come, otherwise="nothing came")


def _kill_sync_in(line: Path, folder: Path) -> None:
    """Kill the process of this command line if it exchanges in this folder."""
    try:
        is_sync = b"shared\0sync" in line.read_bytes()
        is_here = is_sync and (line.parent / "cwd").readlink() == folder
    except OSError:
        return
    if is_here:
        os.kill(int(line.parent.name), signal.SIGKILL)


def test_a_flood_of_memories_is_left_to_the_process(
    member: NewMember, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The turn writes none of them, and pages are bounded by bytes as well."""
    ann, bob = member("ann"), member("bob")
    for number in range(12):
        decide(ann.store, f"Ann says {number}")
    ann.sync()
    monkeypatch.setattr(team_server, "PAGE_BYTES", 1_500)
    monkeypatch.setattr(turn_sync, "MOST_IN_TURN", 10)
    monkeypatch.setattr(turn_sync, "WAIT_S", 30.0)
    assert begin(bob)() == ""
    assert membership_of(bob).background_sync_at > 0
    wait_until(lambda: len(bob.texts()) == 12, otherwise="the process brought nothing")
    decide(ann.store, "One more")
    ann.sync()
    assert bob.sync(everything=True).added == 1
    assert len(bob.texts()) == 13


@pytest.mark.parametrize("kind", ["file", "link", "socket"])
def test_something_else_in_the_place_of_a_followed_repository(
    member: NewMember, tmp_path: Path, kind: str
) -> None:
    """An error that says where."""
    bob = member("bob")
    root = followed_root("github.com/acme/lib", tmp_path)
    root.path.parent.mkdir(parents=True)
    if kind == "file":
        root.path.touch()
    elif kind == "link":
        root.path.symlink_to(tmp_path / "nowhere")
    else:
        os.mknod(root.path, 0o140600)
    with pytest.raises(StoreError) as caught:
        follow("github.com/acme/lib", "bob", bob.shared, user_data_dir=tmp_path)
    assert str(root.path) in caught.value.message

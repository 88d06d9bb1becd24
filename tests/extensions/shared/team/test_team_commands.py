"""`xscore shared …` as users run it: join, sync, status, checkpoints, export, erase, leave."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import programs
from tests.conftest import git
from tests.extensions.shared.team.conftest import KEY, OTHER_KEY, TeamDatabase

Run = Callable[..., subprocess.CompletedProcess[str]]
ORIGIN = "git@github.com:acme/shop.git"


class Machine:
    """A clone on a machine of its own."""

    def __init__(self, home: Path, team: TeamDatabase, login: str, name: str) -> None:
        self.root = home / "repo"
        self.root.mkdir(parents=True)
        (self.root / "shop.py").write_text("def total():\n    return 1\n")
        git(self.root, "init", "-q")
        git(self.root, "config", "user.name", name)
        git(self.root, "remote", "add", "origin", ORIGIN)
        self.environ = {
            "HOME": str(home),
            "XSCORE_SHARED_MEMORIES": "write",
            "XSCORE_SHARED_MEMORIES_URL": team.url(login),
            "XSCORE_SHARED_KEY": KEY,
            "XSCORE_SHARED_TIMEOUT_S": "30",
        }

    def run(self, *arguments: str, code: int = 0, stdin: str = "") -> str:
        """Run a command; return what it printed."""
        done = programs.run(*arguments, cwd=self.root, environ=self.environ, stdin=stdin)
        assert done.returncode == code, done.stderr
        return done.stdout

    def json(self, *arguments: str) -> dict[str, Any]:
        """Run a command; return its JSON."""
        body: dict[str, Any] = json.loads(self.run(*arguments, "--json"))
        return body


def test_two_members_through_the_commands(team: TeamDatabase, tmp_path: Path) -> None:
    """Join, state, take, list, continue from a checkpoint, export, erase, leave."""
    ann = Machine(tmp_path / "ann", team, "ann", "Ann")
    bob = Machine(tmp_path / "bob", team, "bob", "Bob")
    ann.run("memory", "add", "Use Prisma for the ORM", "--kind", "decision", "--key", "orm")
    assert ann.json("shared", "join")["repository"] == "github.com/acme/shop"
    bob.run("shared", "join")
    (arrived,) = bob.json("memory", "list")["memories"]
    assert arrived["key"].startswith("orm@")
    shown = bob.run("memory", "show", arrived["id"])
    assert "Ann" in shown and "github.com/acme/shop" in shown
    assert "by Ann of the team" in bob.run("memory", "list")
    _check_status(ann)
    _check_checkpoints(ann, bob)
    _check_export(bob, tmp_path)
    _check_erasure(team, ann, bob)
    bob.run("shared", "leave")
    assert not bob.json("memory", "list")["memories"]
    assert "join" in programs.run("shared", "sync", cwd=bob.root, environ=bob.environ).stderr


def _check_status(ann: Machine) -> None:
    status = ann.json("shared")
    assert status["organisation"] == "acme"
    assert status["counts"]["memories"] == 1 and status["counts"]["bytes"] > 0
    names = {member["by"]: member["shares"] for member in status["members"]}
    assert names == {"Ann": 1, "Bob": 0}
    assert "Ann" in ann.run("shared", "status")


def _check_checkpoints(ann: Machine, bob: Machine) -> None:
    ask = ("ask", "total in shop.py", "--judge", "lexical", "--no-answer")
    ann.run(*ask)
    ann.run("session", "save", "rounding", "--note", "half is done")
    ann.run("shared", "checkpoint", "rounding")
    bob.run("shared", "sync")
    loaded = bob.json("session", "load", "rounding")
    assert loaded["notes"] == ["half is done"] and loaded["by"] == "Ann"
    bob.run(*ask, "--checkpoint", "rounding")
    ann.run("session", "delete", "rounding")
    ann.run("shared", "sync")
    bob.run("shared", "sync")
    assert bob.json("session", "checkpoints")["checkpoints"] == []


def _check_export(bob: Machine, tmp_path: Path) -> None:
    exported = bob.run("shared", "export")
    assert len(exported.splitlines()) == 2
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "a.txt").write_text("a\n")
    (elsewhere / "team.jsonl").write_text(exported)
    done = programs.run(
        "memory",
        "import",
        "team.jsonl",
        "--json",
        cwd=elsewhere,
        environ={"HOME": str(tmp_path)},
    )
    assert len(json.loads(done.stdout)["added"]) == 1, done.stderr


def _check_erasure(team: TeamDatabase, ann: Machine, bob: Machine) -> None:
    (memory,) = ann.json("memory", "list")["memories"]
    with team.admin() as admin:
        query = "SELECT encode(content, 'hex') FROM xscore_team.entry WHERE content IS NOT NULL"
        (content,) = admin.execute(query).fetchone() or ("",)
    erased = ann.json("memory", "delete", memory["id"], "--yes", "--verify")
    (server,) = erased["servers"]
    assert (server["removed"], server["left"]) == (1, 0)
    with team.admin() as admin:
        assert admin.execute(query).fetchone() is None
        assert str(content)[:64] not in _table_files(team, admin)
    bob.run("shared", "sync")
    assert not bob.json("memory", "list")["memories"]


def _table_files(team: TeamDatabase, admin: Any) -> str:
    """Return the bytes of the table's files, in hex, after the administrator has rewritten it."""
    admin.execute("VACUUM FULL xscore_team.entry")
    admin.execute("CHECKPOINT")
    folder = admin.execute("SHOW data_directory").fetchone()[0]
    stored = ""
    for relation in ("xscore_team.entry", "(SELECT reltoastrelid FROM pg_class WHERE oid ="):
        query = f"SELECT pg_relation_filepath('{relation}')"
        if relation.startswith("("):
            query = f"SELECT pg_relation_filepath({relation} 'xscore_team.entry'::regclass))"
        file = Path(folder) / admin.execute(query).fetchone()[0]
        stored += file.read_bytes().hex()
    return stored


def test_all_of_a_member_can_be_erased(team: TeamDatabase, tmp_path: Path) -> None:
    """Everything that a member shares goes at once, whichever machine sent it."""
    desk = Machine(tmp_path / "desk", team, "ann", "Ann")
    laptop = Machine(tmp_path / "laptop", team, "ann", "Ann")
    for machine in (desk, laptop):
        name = machine.root.parent.name
        machine.run("memory", "add", f"Said at the {name}", "--kind", "decision")
        machine.run("shared", "join", "acme/erased")
    assert desk.json("shared", "erase", "--dry-run")["left"] == 2
    assert desk.json("shared", "erase") == {
        "schema": 1,
        "erased": 2,
        "left": 0,
        "dry_run": False,
    }


def test_who_erases_all_keeps_nothing_of_others(team: TeamDatabase, tmp_path: Path) -> None:
    """The repository has left the team: what others erase from now on would stay here."""
    ann = Machine(tmp_path / "ann", team, "ann", "Ann")
    bob = Machine(tmp_path / "bob", team, "bob", "Bob")
    ann.run("memory", "add", "Said by Ann", "--kind", "decision")
    bob.run("memory", "add", "Said by Bob", "--kind", "decision")
    ann.run("shared", "join", "acme/parting")
    bob.run("shared", "join", "acme/parting")
    bob.run("shared", "erase")
    assert [memory["text"] for memory in bob.json("memory", "list")["memories"]] == [
        "Said by Bob"
    ]


def test_a_renamed_repository_is_not_shared_under_two_names(
    team: TeamDatabase, tmp_path: Path
) -> None:
    """Joining under the new name is refused: what was shared under the old one could no longer be
    taken back."""
    ann = Machine(tmp_path / "ann", team, "ann", "Ann")
    bob = Machine(tmp_path / "bob", team, "bob", "Bob")
    ann.run("memory", "add", "Said by Ann", "--kind", "decision")
    ann.run("shared", "join", "acme/before")
    bob.run("shared", "join", "acme/before")
    ann.run("shared", "join", "acme/before", "--by", "Ann B.")
    ann.run("shared", "join", "acme/after", code=2)
    ann.run("shared", "erase")
    ann.run("shared", "join", "acme/after")
    bob.run("shared", "sync")
    assert not bob.json("memory", "list")["memories"]


def test_an_erasure_reaches_the_server_that_has_moved(
    team: TeamDatabase, tmp_path: Path
) -> None:
    """After an exchange under another address an erasure is asked for there."""
    ann = Machine(tmp_path / "ann", team, "ann", "Ann")
    ann.run("memory", "add", "Said by Ann before the move", "--kind", "decision")
    ann.run("shared", "join", "acme/moved")
    url = ann.environ["XSCORE_SHARED_MEMORIES_URL"]
    assert "127.0.0.1" in url
    ann.environ["XSCORE_SHARED_MEMORIES_URL"] = url.replace("127.0.0.1", "localhost")
    ann.run("shared", "sync")
    (memory,) = ann.json("memory", "list")["memories"]
    erased = ann.json("memory", "delete", memory["id"], "--yes", "--verify")
    (server,) = erased["servers"]
    assert (server["removed"], server["left"], server["problem"]) == (1, 0, "")


def test_a_checkpoint_that_was_refused_is_not_sent_later(
    team: TeamDatabase, tmp_path: Path
) -> None:
    """Who only reads sends none, nor when it writes again; one for a server that is away waits."""
    ann = Machine(tmp_path / "ann", team, "ann", "Ann")
    ann.run("shared", "join", "acme/checkpoints")
    ann.run("ask", "total in shop.py", "--judge", "lexical", "--no-answer")
    ann.run("session", "save", "here")
    ann.environ["XSCORE_SHARED_MEMORIES"] = "read"
    ann.run("shared", "checkpoint", "here", code=2)
    ann.environ["XSCORE_SHARED_MEMORIES"] = "write"
    ann.run("shared", "sync")
    assert ann.json("shared")["counts"]["checkpoints"] == 0
    url = ann.environ["XSCORE_SHARED_MEMORIES_URL"]
    ann.environ["XSCORE_SHARED_MEMORIES_URL"] = "postgresql://ann@127.0.0.1:1/team"
    ann.run("shared", "checkpoint", "here", code=6)
    ann.environ["XSCORE_SHARED_MEMORIES_URL"] = url
    ann.run("shared", "sync")
    assert ann.json("shared")["counts"]["checkpoints"] == 1


def test_an_administrator_prepares_a_server(team: TeamDatabase, tmp_path: Path) -> None:
    """`init --apply` adds a login; `doctor` then finds that it may no more than it needs."""
    ann = Machine(tmp_path / "ann", team, "ann", "Ann")
    ann.run("memory", "add", "Said by Ann", "--kind", "decision")
    ann.run("shared", "join", "acme/prepared")
    cleo = Machine(tmp_path / "cleo", team, "cleo", "Cleo")
    cleo.environ |= {
        "XSCORE_SHARED_ADMIN_URL": team.admin_url,
        "XSCORE_SHARED_TENANT": "acme",
    }
    cleo.run("shared", "init", "--apply", "--login", team.login("cleo"))
    del cleo.environ["XSCORE_SHARED_ADMIN_URL"]
    done = programs.run("doctor", "--json", cwd=cleo.root, environ=cleo.environ)
    findings = {finding["name"]: finding for finding in json.loads(done.stdout)["findings"]}
    assert findings["team"]["ok"], findings["team"]
    mistyped = cleo.environ | {"XSCORE_SHARED_KEY": OTHER_KEY}
    done = programs.run("doctor", "--json", cwd=cleo.root, environ=mistyped)
    findings = {finding["name"]: finding for finding in json.loads(done.stdout)["findings"]}
    assert "another key" in findings["team"]["detail"] and not findings["team"]["ok"]
    with team.admin() as admin:
        admin.execute(f"ALTER ROLE {team.login('cleo')} BYPASSRLS".encode())
    done = programs.run("doctor", "--json", cwd=cleo.root, environ=cleo.environ)
    findings = {finding["name"]: finding for finding in json.loads(done.stdout)["findings"]}
    assert not findings["team"]["ok"] and "have BYPASSRLS" in findings["team"]["detail"]
    # A login that belongs to one team cannot be added to another.
    cleo.environ |= {"XSCORE_SHARED_ADMIN_URL": team.admin_url, "XSCORE_SHARED_TENANT": "umbra"}
    cleo.run("shared", "init", "--apply", "--login", team.login("cleo"), code=6)


@pytest.mark.parametrize("require", ["require", "disable"])
def test_a_turn_tells_what_is_wrong_and_goes_on(
    team: TeamDatabase, tmp_path: Path, require: str
) -> None:
    """An unusable setting costs a turn one warning."""
    ann = Machine(tmp_path / "ann", team, "ann", "Ann")
    ann.run("shared", "join", "acme/warned")
    ann.run("memory", "add", "Something new", "--kind", "decision")
    ann.environ["XSCORE_SHARED_MEMORIES_URL"] = f"postgresql://db.example/x?sslmode={require}"
    body = ann.json("ask", "total?", "--judge", "lexical", "--no-answer")
    (warning,) = [line for line in body["warnings"] if "team" in line]
    assert "db.example" in warning and "certificate" in warning

"""What was stated survives the loss of the store: commands, real git, real files."""

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run, own_store
from tests.cli.terminals import shown_on_terminal
from tests.conftest import MakeRepo
from tests.statements import decide
from xscore.platform.paths import find_root, user_data_dir
from xscore.store import opening

FILES = {
    "till.py": (
        "def total(prices):\n"
        "    return sum(prices)\n\n\n"
        "def change(paid, due):\n"
        "    return paid - due\n"
    )
}
COLUMNS = (
    "id, layer, kind, scope, status, content_hash, text_hash, tokens, text_tokens, updated_at,"
    " importance, confidence, thread, key, evidence_count, source, superseded_by, created_at,"
    " accessed_at, access_count, title, attrs, card, text, terms"
)


OWN_STORE = """
import sys
from pathlib import Path
from tests.statements import decide
from xscore.platform.paths import find_root, user_data_dir
from xscore.store.store import Store

def own_store():
    return Store.open(find_root(Path(sys.argv[1])), user_data_dir=user_data_dir(None))

"""
"""What a process imports to state something; `own_store` of the fixtures would bring all of
them."""


@pytest.fixture
def folder(make_repo: MakeRepo, xscore: Run) -> Path:
    """A repository in which decisions, a failure and a preference were stated."""
    folder = make_repo(FILES)

    def add(*arguments: str) -> None:
        assert xscore("memory", "add", *arguments, cwd=folder).returncode == 0

    add(
        "Prices are summed in cents",
        "--kind",
        "decision",
        "--key",
        "sums",
        "--because",
        "floats lie",
        "--by",
        "Ada",
    )
    add(
        "Prices are summed as decimals",
        "--kind",
        "decision",
        "--key",
        "sums",
        "--cite",
        "till.py:1-2",
    )
    add("OperationalError: the till is locked", "--kind", "failure")
    add("Change is given by `change`", "--kind", "convention", "--cite", "till.py:5-6")
    add("tabs", "--kind", "preference", "--key", "indent")
    return folder


def stated_rows(folder: Path) -> dict[str, Any]:
    """Return every stated memory of the store, its citations and its links to code."""
    with own_store(folder) as store:
        read = store.connection.execute
        memories = read(
            f"SELECT {COLUMNS} FROM memory WHERE source <> 'index' ORDER BY id"
        ).fetchall()
        cited = read(
            "SELECT memory_id, path, span_hash, start_line, end_line, changed FROM evidence ORDER"
            " BY 1, 2"
        ).fetchall()
        links = read(
            "SELECT source, target FROM edge WHERE relation = 'references' ORDER BY 1, 2"
        ).fetchall()
        occurrences = read("SELECT * FROM occurrence ORDER BY 1").fetchall()
    return {"memories": memories, "cited": cited, "links": links, "occurrences": occurrences}


def lose_store(folder: Path) -> None:
    """Delete the store of a repository."""
    shutil.rmtree(find_root(folder).store_dir)


def copies() -> list[Path]:
    """Return the copies in the user's folder."""
    return sorted((user_data_dir(None) / "stated").glob("*.db"))


def holding(words: str) -> list[Path]:
    """Return the files of the user's folder that hold these words."""
    files = [file for file in user_data_dir(None).rglob("*") if file.is_file()]
    return [file for file in files if words.encode() in file.read_bytes()]


def test_a_lost_store_comes_back_row_for_row(folder: Path, xscore: Run) -> None:
    """After its folder is deleted, a rebuild restores every stated memory as it was, with citations
    and links."""
    assert xscore("index", cwd=folder).returncode == 0
    with own_store(folder) as store:
        failure = "SELECT 'o_1', id, '' FROM memory WHERE kind = 'failure'"
        store.connection.execute(
            f"INSERT INTO occurrence (id, memory_id, source_exchange) {failure}"
        )
        decide(store, "Tills close at six")
    before = stated_rows(folder)
    assert len(before["memories"]) == 5
    assert len(before["cited"]) == 2
    assert before["links"]
    assert before["occurrences"]
    lose_store(folder)
    rebuilt = xscore("store", "rebuild", "--yes", "--json", cwd=folder)
    assert rebuilt.returncode == 0, rebuilt.stderr
    assert json.loads(rebuilt.stdout)["restored"] == 5
    assert stated_rows(folder) == before
    assert len([copy for copy in copies() if b"decimals" in copy.read_bytes()]) == 1


def test_a_new_store_says_once_what_an_earlier_one_held(folder: Path, xscore: Run) -> None:
    """The command that makes a store where one was lost names the way back; the copy waits for the
    decision."""
    before = stated_rows(folder)["memories"]
    lose_store(folder)
    line = "you stated 4 memories here before: restore with `xscore store rebuild --stated`"
    listed = xscore("memory", "list", "--kind", "todo", cwd=folder)
    assert line in listed.stderr + xscore("index", cwd=folder).stderr
    added = xscore("memory", "add", "Something new", "--kind", "todo", cwd=folder)
    assert added.returncode == 0 and line not in added.stderr
    back = xscore("store", "rebuild", "--stated", "--yes", "--json", cwd=folder)
    assert back.returncode == 0, back.stderr
    body = json.loads(back.stdout)
    assert body["restored"] == 4 and body["aside"] is None
    rows = stated_rows(folder)["memories"]
    assert [row for row in rows if "Something new" not in row] == before and len(rows) == 5
    repeated = xscore("store", "rebuild", "--stated", "--yes", "--json", cwd=folder)
    assert json.loads(repeated.stdout)["restored"] == 0


def test_without_a_terminal_a_rebuild_says_how(folder: Path, xscore: Run) -> None:
    """Without --yes and a terminal nothing is put back, the exit code is 0, and the copy stays."""
    lose_store(folder)
    rebuilt = xscore("store", "rebuild", cwd=folder)
    assert rebuilt.returncode == 0
    assert "still holds 4 memories that you stated" in rebuilt.stderr
    assert stated_rows(folder)["memories"] == []
    assert len(holding("Prices are summed as decimals")) == 1


@pytest.mark.parametrize("answer, count", [("\n", 4), ("n\n", 0)])
def test_on_a_terminal_a_rebuild_asks(folder: Path, answer: str, count: int) -> None:
    """Enter means yes; a no leaves the copy for later."""
    lose_store(folder)
    shown, code = shown_on_terminal(
        ["-m", "xscore", "store", "rebuild"], cwd=folder, typed=answer
    )
    assert code == 0 and "[Y/n]" in " ".join(shown.split()), shown
    assert len(stated_rows(folder)["memories"]) == count
    assert holding("Prices are summed as decimals")


def test_what_was_stated_since_is_not_replaced(folder: Path, xscore: Run) -> None:
    """An older decision with the key of a newer one comes back as superseded by it."""
    lose_store(folder)
    assert xscore(
        "memory",
        "add",
        "Prices are summed in halves",
        "--kind",
        "decision",
        "--key",
        "sums",
        cwd=folder,
    )
    assert xscore("store", "rebuild", "--stated", "--yes", cwd=folder).returncode == 0
    with own_store(folder) as store:
        decisions = store.connection.execute(
            "SELECT title, status FROM memory WHERE key = 'sums' ORDER BY created_at"
        ).fetchall()
    assert [status for _, status in decisions] == ["superseded", "superseded", "active"]
    assert decisions[-1][0] == "Prices are summed in halves"


def test_an_erasure_reaches_every_copy(folder: Path, xscore: Run) -> None:
    """An erased memory is in no file of the user's folder, not even in the copy of an earlier
    store, and stays away."""
    lose_store(folder)
    assert xscore("store", "rebuild", cwd=folder).returncode == 0
    assert xscore(
        "memory",
        "add",
        "Prices are summed as decimals",
        "--kind",
        "decision",
        "--key",
        "sums",
        cwd=folder,
    )
    with own_store(folder) as store:
        (identifier,) = store.connection.execute(
            "SELECT id FROM memory WHERE title GLOB 'Prices*'"
        ).fetchone()
    assert len(holding("Prices are summed as decimals")) == 2
    erased = xscore("memory", "delete", identifier, "--verify", "--yes", cwd=folder)
    assert erased.returncode == 0, erased.stderr
    assert holding("Prices are summed as decimals") == []
    assert holding("Prices are summed in cents")
    assert xscore("store", "rebuild", "--stated", "--yes", cwd=folder).returncode == 0
    assert "Prices are summed as decimals" not in str(stated_rows(folder)["memories"])


def test_preferences_survive_the_loss_of_the_users_store(folder: Path, xscore: Run) -> None:
    """The user's own store has a copy too, offered by its own rebuild."""
    path = opening.user_store_path(user_data_dir(None))
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    back = xscore("store", "rebuild", "--user", "--stated", "--yes", "--json", cwd=folder)
    assert json.loads(back.stdout)["restored"] == 1
    assert (
        '"tabs"'
        in xscore("memory", "list", "--json", "--kind", "preference", cwd=folder).stdout
    )


def test_trust_needs_no_copy(folder: Path) -> None:
    """The marks of trusted stores are in the user's folder: losing a store changes none of them."""
    marks = (user_data_dir(None) / "trust.json").read_bytes()
    lose_store(folder)
    assert (user_data_dir(None) / "trust.json").read_bytes() == marks


def test_a_killed_statement_is_copied_by_the_next_command(folder: Path, xscore: Run) -> None:
    """A process that is killed between the commit and the copy leaves a copy that is behind, and
    the next mends it."""
    stating = (
        f"import os, signal\n{OWN_STORE}"
        "decide(own_store(), 'The heron counts the change')\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run(
        [sys.executable, "-c", stating, folder], env=dict(os.environ), check=False
    )
    assert killed.returncode == -signal.SIGKILL
    assert holding("The heron counts") == []
    assert xscore("memory", "list", cwd=folder).returncode == 0
    assert len(holding("The heron counts")) == 1


def test_two_processes_that_state_at_once_are_both_copied(folder: Path) -> None:
    """If four processes state at once, the copy holds every statement."""
    stating = (
        f"{OWN_STORE}for number in range(3):\n"
        "    with own_store() as store: decide(store, f'Decision {number} of {sys.argv[2]}')\n"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", stating, folder, str(name)])
        for name in range(4)
    ]
    assert [process.wait(timeout=60) for process in running] == [0] * 4
    before = stated_rows(folder)
    assert len(before["memories"]) == 16
    from xscore.store.stated_copy import read_copy

    (copy,) = [copy for copy in copies() if b"Decision 0" in copy.read_bytes()]
    contents = read_copy(copy, opening.key_source(user_data_dir(None)))
    assert {stated.memory.id for stated in contents.memories} == {
        row[0] for row in before["memories"]
    }


def test_a_moved_repository_takes_its_copy_along(folder: Path, xscore: Run) -> None:
    """After a move the copy is under the new path's name, and none is left under the old one's."""
    count = len(copies())
    moved = folder.rename(folder.with_name("moved"))
    assert xscore("store", "trust", cwd=moved).returncode == 0
    assert (
        xscore("memory", "add", "Moved with care", "--kind", "todo", cwd=moved).returncode == 0
    )
    assert len(copies()) == count
    assert holding("Moved with care") == holding("Prices are summed as decimals")
    lose_store(moved)
    assert (
        json.loads(xscore("store", "rebuild", "--yes", "--json", cwd=moved).stdout)["restored"]
        == 5
    )


def test_a_store_that_is_not_the_users_is_not_copied(
    folder: Path, xscore: Run, tmp_path: Path
) -> None:
    """A store that is used without trust for one run leaves nothing in the user's folder."""
    cloned = tmp_path / "cloned"
    shutil.copytree(folder, cloned, symlinks=True)
    before = copies()
    added = xscore(
        "memory",
        "add",
        "A stranger's word",
        "--kind",
        "todo",
        cwd=cloned,
        environ={"XSCORE_TRUST_STORE": "1"},
    )
    assert added.returncode == 0, added.stderr
    assert copies() == before and holding("A stranger's word") == []


def test_a_damaged_copy_is_named_and_made_again(folder: Path, xscore: Run) -> None:
    """A copy that cannot be read stops no command: it is made again from the store, and the command
    says so."""
    (copy,) = holding("Prices are summed as decimals")
    copy.write_bytes(b"no database at all " * 500)
    added = xscore("memory", "add", "After the damage", "--kind", "todo", cwd=folder)
    assert added.returncode == 0 and "was damaged, and was rebuilt" in added.stderr
    assert holding("Prices are summed as decimals") == [copy] == holding("After the damage")


def test_a_damaged_copy_of_a_lost_store_is_named(folder: Path, xscore: Run) -> None:
    """A rebuild whose copy cannot be read says so and makes the store all the same."""
    (copy,) = holding("Prices are summed as decimals")
    copy.write_bytes(b"no database at all " * 500)
    lose_store(folder)
    rebuilt = xscore("store", "rebuild", "--yes", "--json", cwd=folder)
    assert rebuilt.returncode == 0 and json.loads(rebuilt.stdout)["restored"] == 0
    assert "a copy of what you stated cannot be used" in rebuilt.stderr


def test_a_deleted_copy_is_made_again(folder: Path, xscore: Run) -> None:
    """While the store has statements its copy comes back."""
    shutil.rmtree(user_data_dir(None) / "stated")
    assert xscore("memory", "list", cwd=folder).returncode == 0
    assert len(holding("Prices are summed as decimals")) == 1


def test_damage_takes_nothing_from_the_copy(folder: Path, xscore: Run) -> None:
    """Rows that are gone without a word in the log stay in the copy, and come back."""
    with own_store(folder) as store:
        path = store.path
    with closing(opening.connect_store(path)) as connection:
        connection.execute(
            "DELETE FROM memory_row WHERE title = 'Prices are summed as decimals'"
        )
    assert xscore("memory", "add", "Afterwards", "--kind", "todo", cwd=folder).returncode == 0
    assert holding("Prices are summed as decimals")
    back = xscore("store", "rebuild", "--stated", "--yes", "--json", cwd=folder)
    assert json.loads(back.stdout)["restored"] == 1


def test_copies_are_private(folder: Path) -> None:
    """Files of the copies are 0600, their folder 0700."""
    stated = user_data_dir(None) / "stated"
    assert stated.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in [*copies(), stated / "lock"]} == {0o600}


def test_the_copy_of_an_encrypted_store_is_cipher_text(folder: Path, xscore: Run) -> None:
    """Encrypting a store encrypts its copy, decrypting decrypts it; a lost encrypted store comes
    back encrypted."""
    assert xscore("store", "encrypt", "--all", cwd=folder).returncode == 0
    words = ("Prices are summed", "the till is locked", "tabs")
    assert [holding(text) for text in words] == [[], [], []]
    done = xscore("memory", "add", "The heron is secret", "--kind", "decision", cwd=folder)
    assert done.returncode == 0
    assert holding("heron") == [] and len(copies()) == 2
    before = stated_rows(folder)["memories"]
    lose_store(folder)
    rebuilt = xscore("store", "rebuild", "--yes", "--json", cwd=folder)
    assert json.loads(rebuilt.stdout).get("restored") == 5, rebuilt
    assert stated_rows(folder)["memories"] == before
    database = find_root(folder).store_file
    assert b"heron" not in database.read_bytes() and holding("heron") == []
    with own_store(folder) as store:
        query = "SELECT id FROM memory WHERE title = 'The heron is secret'"
        (identifier,) = store.connection.execute(query).fetchone()
    assert (
        xscore("memory", "delete", identifier, "--verify", "--yes", cwd=folder).returncode == 0
    )
    assert xscore("store", "decrypt", "--all", cwd=folder).returncode == 0
    assert holding("Prices are summed") and holding("heron") == []


def test_an_encrypted_copy_is_not_put_back_in_plain(folder: Path, xscore: Run) -> None:
    """Where a plain store was made in place of a lost encrypted one, it is to be encrypted
    first."""
    assert xscore("store", "encrypt", "--all", cwd=folder).returncode == 0
    lose_store(folder)
    assert (
        xscore("memory", "add", "Something new", "--kind", "todo", cwd=folder).returncode == 0
    )
    refused = xscore("store", "rebuild", "--stated", "--yes", "--json", cwd=folder)
    assert json.loads(refused.stdout)["restored"] == 0
    assert "run `xscore store encrypt`" in refused.stderr
    assert xscore("store", "encrypt", cwd=folder).returncode == 0
    back = xscore("store", "rebuild", "--stated", "--yes", "--json", cwd=folder)
    assert json.loads(back.stdout)["restored"] == 4

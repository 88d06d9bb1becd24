"""`xscore memory delete` and `wipe`, as a user runs them."""

import json
from pathlib import Path

import pytest

from tests.cli.basket import script_flags
from tests.cli.conftest import Run, own_store
from tests.cli.terminals import shown_on_terminal
from tests.conftest import store_file
from tests.extensions.privacy.test_erasure import raw
from tests.extensions.privacy.test_erasure_proof import reading
from tests.extensions.shared.server_programs import free_port
from tests.store.conftest import function, put, said
from tests.store.recorded_turns import begin
from xscore.extensions.privacy.owed_erasures import owed_erasures
from xscore.extensions.shared.connect import shared_server_name
from xscore.platform.paths import user_data_dir
from xscore.platform.processes import process_identity
from xscore.records.memory import Kind, Layer, Memory
from xscore.records.statement import Observation
from xscore.records.turn import Turn
from xscore.settings import Secret
from xscore.settings.model import SharedSettings
from xscore.store.lookup import count_observations, record_observations, record_project
from xscore.store.opening import user_store_path
from xscore.store.removal import note_shared_server
from xscore.store.scrubbing import mark_for_scrubbing
from xscore.store.turns import abandon_turn

TEXT = "The heron keeps the ochre ledger of everyone"


@pytest.fixture
def kept(tmp_path: Path, own_home: Path) -> list[Memory]:
    """Make a store in this folder with two project memories, one of the user and one of a file."""
    project_memories = [
        said(TEXT, ordinal=1),
        said("Another one, to stay", ordinal=2, kind=Kind.TODO),
        function(),
    ]
    preference = said("user: likes long lines of ochre", layer=Layer.USER, key="k")
    with own_store(tmp_path) as store:
        put(store.connection, *project_memories)
        user = store.user_connection(create=True)
        assert user is not None
        put(user, preference)
    return [*project_memories[:2], preference]


def test_delete_erases_and_proves(
    xscore: Run, tmp_path: Path, own_home: Path, kept: list[Memory]
) -> None:
    """P06: exact ids are erased, the proof is printed, the bytes are gone; a second time nothing
    matches (exit 1)."""
    done = xscore("memory", "delete", kept[0].id, "--verify", "--yes", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == f"erased 1 memory: {kept[0].id}"
    assert "found none" in done.stdout.splitlines()[-1]
    assert b"ochre ledger" not in raw(tmp_path, own_home)
    repeated = xscore("memory", "delete", kept[0].id, "--yes", cwd=tmp_path)
    assert repeated.returncode == 1 and "there is no memory" in repeated.stderr


def test_a_dry_run_changes_no_byte(xscore: Run, tmp_path: Path, kept: list[Memory]) -> None:
    """Issue: --dry-run says what would be erased, also as JSON, and the database is unchanged."""
    before = (store_file(tmp_path)).read_bytes()
    done = xscore("memory", "delete", kept[0].id, "m_nope", "--dry-run", "--json", cwd=tmp_path)
    body = json.loads(done.stdout)
    assert done.returncode == 0
    assert body["schema"] == 1
    assert body["ids"] == [kept[0].id]
    assert body["missing"] == ["m_nope"]
    assert (body["memories"], body["dry_run"], body["proof"]) == (1, True, None)
    assert xscore("memory", "wipe", "--kind", "todo", "--dry-run", cwd=tmp_path).returncode == 0
    assert (store_file(tmp_path)).read_bytes() == before


def test_a_reader_of_the_journal_is_an_exit_code_of_its_own(
    xscore: Run, tmp_path: Path, kept: list[Memory]
) -> None:
    """Issue: while another process reads the journal, erasure cannot be verified: exit 6 and a
    remedy."""
    database = store_file(tmp_path)
    with reading(database):
        done = xscore(
            "memory", "delete", kept[0].id, "--verify", "--json", "--yes", cwd=tmp_path
        )
        body = json.loads(done.stdout)
        assert (done.returncode, body["is_clean"], body["proof"]["holds"]) == (6, False, False)
        assert not body["proof"]["journal_is_empty"]
        assert any("memory.db" in file for file in body["proof"]["found_in"])
        assert "end that process" in done.stderr
    done = xscore("memory", "delete", kept[0].id, "--verify", "--yes", cwd=tmp_path)
    assert done.returncode == 0 and "completed an erasure" in done.stdout
    assert b"ochre ledger" not in raw(tmp_path)


@pytest.mark.parametrize(
    ("chosen", "code", "erased"),
    [
        (("--layer", "project", "--scope", "user"), 2, []),
        (("--layer", "project", "--layer", "user", "--scope", "user"), 0, [2]),
        (("--layer", "project", "--scope", "repository", "--kind", "todo"), 0, [1]),
        (("--layer", "user", "--kind", "todo"), 1, []),
        (("--layer", "user", "--scope", "global"), 0, [2]),
        (("--layer", "user", "--scope", "repository"), 1, []),
    ],
)
def test_several_options_never_widen_a_wipe(
    xscore: Run,
    tmp_path: Path,
    kept: list[Memory],
    chosen: tuple[str, ...],
    code: int,
    erased: list[int],
) -> None:
    """P06: filters intersect: erased is exactly what `memory list` shows with them."""
    listed = xscore("memory", "list", *chosen, "--json", cwd=tmp_path)
    done = xscore("memory", "wipe", *chosen, "--yes", "--json", cwd=tmp_path)
    assert done.returncode == code, done.stdout
    ids = json.loads(done.stdout).get("ids", [])
    assert ids == [kept[at].id for at in erased]
    assert [memory["id"] for memory in json.loads(listed.stdout).get("memories", [])] == ids


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "no memory was named"),
        (("--layer", "graph", "--yes"), "comes from files"),
        (("--kind", "todo"), "no terminal to ask for confirmation"),
    ],
)
def test_wipe_refuses(
    xscore: Run, tmp_path: Path, kept: list[Memory], arguments: tuple[str, ...], why: str
) -> None:
    """Without a choice, for a layer made from files, or without a terminal to ask on, nothing is
    wiped (exit 2)."""
    done = xscore("memory", "wipe", *arguments, cwd=tmp_path)
    assert done.returncode == 2 and why in done.stderr
    assert b"Another one, to stay" in raw(tmp_path)


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 1)])
def test_delete_asks_on_a_terminal(
    tmp_path: Path, own_home: Path, kept: list[Memory], answer: str, code: int
) -> None:
    """It is for good, as a wipe is: answering no changes nothing."""
    delete = ["-m", "xscore", "memory", "delete", kept[0].id]
    shown, ended = shown_on_terminal(
        delete, cwd=tmp_path, environ={"HOME": str(own_home)}, typed=f"{answer}\n"
    )
    assert (ended, "Erase 1 memory" in shown) == (code, True)
    assert (b"ochre ledger" in raw(tmp_path)) == (answer == "n")


def test_delete_without_a_terminal_needs_a_yes(
    xscore: Run, tmp_path: Path, kept: list[Memory]
) -> None:
    """Exit 2 with the option to say, and nothing is erased."""
    done = xscore("memory", "delete", kept[0].id, cwd=tmp_path)
    assert done.returncode == 2 and "--yes" in done.stderr
    assert b"ochre ledger" in raw(tmp_path)


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 1)])
def test_wipe_asks_on_a_terminal(
    tmp_path: Path, own_home: Path, kept: list[Memory], answer: str, code: int
) -> None:
    """Issue: on a terminal wipe asks, and answering no changes nothing."""
    wipe = ["-m", "xscore", "memory", "wipe", "--kind", "todo"]
    _, ended = shown_on_terminal(
        wipe, cwd=tmp_path, environ={"HOME": str(own_home)}, typed=f"{answer}\n"
    )
    assert ended == code
    assert (b"Another one, to stay" in raw(tmp_path)) == (answer == "n")


def test_wiping_ones_own_layer_takes_what_projects_noted(
    xscore: Run, tmp_path: Path, own_home: Path
) -> None:
    """P06, L02: `--scope user` finds, counts and erases only observations, also of deleted
    projects."""
    value = "the crimson otter prefers tabs everywhere"
    with own_store(tmp_path) as store:
        user = store.user_connection(create=True)
        assert user is not None
        for project in ("gone", "here"):
            record_project(user, project, now=1.0)
            record_observations(
                user, [Observation(project, "indent", "preference", value, 1.0)]
            )
    user_file = user_store_path(user_data_dir(None))
    looked = xscore("memory", "wipe", "--scope", "user", "--dry-run", "--json", cwd=tmp_path)
    assert (looked.returncode, json.loads(looked.stdout)["observations"]) == (0, 2)
    assert b"crimson otter" in raw(user_file.parent)
    done = xscore("memory", "wipe", "--scope", "user", "--yes", "--verify", cwd=tmp_path)
    assert (
        done.returncode == 0 and "2 observations" in done.stdout and "found none" in done.stdout
    )
    assert b"crimson otter" not in raw(user_file.parent)
    with own_store(tmp_path) as store:
        user = store.user_connection()
        assert user is not None and count_observations(user) == 0
    assert xscore("memory", "wipe", "--scope", "user", "--yes", cwd=tmp_path).returncode == 1


def test_a_past_turn_is_erased_and_proven(xscore: Run, tmp_path: Path, own_home: Path) -> None:
    """One turn is erased by id or time, only with a yes and never while it runs; recorded spending
    stays."""
    (tmp_path / "shop.py").write_text("def total(lines):\n    return sum(lines)\n")
    models = script_flags(tmp_path / "script.json", {"default": 0.9, "answer": "It is there."})
    for question in (
        "Where does the vermilion heron keep its ledger?",
        "Which brass lantern is the oldest one?",
    ):
        assert xscore("ask", question, *models, cwd=tmp_path).returncode == 0
    newer, older = json.loads(xscore("history", "list", "--json", cwd=tmp_path).stdout)["turns"]

    assert xscore("history", "delete", "--yes", cwd=tmp_path).returncode == 2, (
        "no turn was named"
    )
    assert xscore("history", "delete", "--before", "1d", "--yes", cwd=tmp_path).returncode == 1
    assert xscore("history", "delete", older["id"], cwd=tmp_path).returncode == 2, (
        "no confirmation was given"
    )
    assert b"vermilion heron" in raw(tmp_path, own_home)
    done = xscore("history", "delete", older["id"], "--yes", "--verify", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert (
        done.stdout.startswith(f"erased 1 turn: {older['id']}") and "found none" in done.stdout
    )
    remaining = raw(tmp_path, own_home)
    assert b"vermilion heron" not in remaining and b"brass lantern" in remaining
    assert xscore("history", "show", older["id"], cwd=tmp_path).returncode == 1, (
        "its receipt is gone"
    )
    _, erased = json.loads(xscore("history", "list", "--json", cwd=tmp_path).stdout)["turns"]
    assert erased["task_is_erased"] and erased["spent"] == older["spent"]

    every = ("history", "delete", "--before", "2100-01-01", "--yes")
    with own_store(tmp_path) as store:
        running = begin(store, Turn(task="later"), "k", now=1e9, process=process_identity())
        refused = xscore(*every, cwd=tmp_path)
        assert refused.returncode == 2 and f"turn {running} is running" in refused.stderr
        abandon_turn(store.connection, running)
    done = xscore(*every, "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["turns"] == [running, newer["id"]], (
        "the erased one says nothing any more"
    )
    assert xscore(*every, cwd=tmp_path).returncode == 1


def test_a_turn_that_a_killed_call_erased_is_no_failure(
    xscore: Run, tmp_path: Path, own_home: Path
) -> None:
    """Killed between the rows and the files, it is completed by the same command, or by one that
    finds no turn any more; a third has nothing left to do or to prove."""
    (tmp_path / "shop.py").write_text("def total(lines):\n    return sum(lines)\n")
    models = script_flags(tmp_path / "script.json", {"default": 0.9, "answer": "It is there."})
    question = "Where does the vermilion heron keep its ledger?"
    assert xscore("ask", question, *models, cwd=tmp_path).returncode == 0
    (turn,) = json.loads(xscore("history", "list", "--json", cwd=tmp_path).stdout)["turns"]
    delete = ("history", "delete", turn["id"], "--yes", "--verify")
    assert xscore(*delete, cwd=tmp_path).returncode == 0
    for repeated in (
        delete,
        ("history", "delete", "--before", "2100-01-01", "--yes", "--verify"),
    ):
        with own_store(tmp_path) as store:
            mark_for_scrubbing(store.connection)
        if "--before" in repeated:
            unasked = xscore(*(word for word in repeated if word != "--yes"), cwd=tmp_path)
            assert unasked.returncode == 2 and "Finish an earlier" in unasked.stderr
        done = xscore(*repeated, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "cut short" in done.stdout and "0 memories" not in done.stdout
        assert "earlier call erased" in done.stderr, "that nothing was verified"
    done = xscore(*delete, cwd=tmp_path)
    assert done.returncode == 0 and "cut short" not in done.stdout


def test_what_cannot_be_searched_for_is_not_called_verified(
    xscore: Run, tmp_path: Path, own_home: Path
) -> None:
    """A memory of a few letters is erased, but `--verify` cannot prove it: exit 6."""
    short = said("so be it", ordinal=5)
    with own_store(tmp_path) as store:
        put(store.connection, short)
    done = xscore("memory", "delete", short.id, "--verify", "--yes", cwd=tmp_path)
    assert done.returncode == 6
    assert "not verified" in done.stdout
    assert "12 characters" in done.stderr
    assert b"so be it" not in raw(tmp_path)


def test_an_unreachable_server_is_named_and_asked_again(
    xscore: Run, tmp_path: Path, own_home: Path
) -> None:
    """Erased here, but exit 6 says it may remain on the server; a later erasure retries,
    --here-only gives up."""
    url = f"redis://:hunter2@127.0.0.1:{free_port()}/0"
    environ = {
        "XSCORE_SHARED_URL": url,
        "XSCORE_SHARED_TENANT": "t",
        "XSCORE_SHARED_TIMEOUT_S": "0.2",
    }
    name = shared_server_name(SharedSettings(url=Secret(url), tenant="t"))
    memories = [
        said(TEXT, ordinal=1),
        said("Another that goes as well", ordinal=2),
        said("And a third one", ordinal=3),
    ]
    with own_store(tmp_path) as store:
        put(store.connection, *memories)
        note_shared_server(store.connection, name)
    done = xscore(
        "memory",
        "delete",
        memories[0].id,
        "--verify",
        "--json",
        "--yes",
        cwd=tmp_path,
        environ=environ,
    )
    body = json.loads(done.stdout)
    assert (done.returncode, body["proof"]["holds"], body["ids"]) == (6, True, [memories[0].id])
    assert body["servers"][0]["problem"] and "not erased at redis://127.0.0.1" in done.stderr
    assert "hunter2" not in done.stdout + done.stderr
    done = xscore("memory", "delete", memories[1].id, "--verify", "--yes", cwd=tmp_path)
    assert done.returncode == 6 and "do not name it now" in done.stderr
    assert done.stdout.splitlines()[-1].startswith("  not looked at: redis://127.0.0.1")
    done = xscore("memory", "delete", memories[2].id, "--here-only", "--yes", cwd=tmp_path)
    assert done.returncode == 0 and "stay there" in done.stderr
    with own_store(tmp_path) as store:
        assert owed_erasures(store.connection) == {}

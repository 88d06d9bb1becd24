"""Checkpoints: a session saved under a name, restored completely, erased permanently."""

import json

import pytest

from tests.store.conftest import function, put
from tests.store.generated_secrets import SECRET
from tests.store.recorded_turns import begin, finish, record_turn
from xscore.extensions.privacy.erasure import erase_memories
from xscore.platform.errors import NothingMatched
from xscore.prompts.answer import render_checkpoint
from xscore.records.turn import Turn
from xscore.store import checkpoints, turn_history
from xscore.store.session_summary import exchange_memory_id
from xscore.store.store import Store
from xscore.store.turns import SelectionOutcome
from xscore.store.working_session import load_session, resume_session

NEEDLE = "zirconium-lighthouse-forty-two"


@pytest.fixture
def thread(store: Store) -> str:
    """A session of two tasks that name a function."""
    memory = function("mend_pump", path="src/pump.py")
    put(store.connection, memory)
    begun = resume_session(store.connection, branch="feat/ABC-1", now=0.0).thread
    task = Turn(
        task="Goal: dry feet\nWhere is mend_pump?", thread=begun, file="src/pump.py", line=2
    )
    turn = begin(store, task, "k1", now=1.0)
    finish(
        store,
        turn,
        f"In src/pump.py [{memory.id}].\nTODO: {NEEDLE} oil",
        selection_outcome=SelectionOutcome((memory.id,), {}),
        now=2.0,
    )
    record_turn(store, "paint it", answer="Painted.", thread=begun, now=3.0)
    return begun


def holders(store: Store, text: str) -> list[str]:
    """Return the files of the store whose bytes contain the text."""
    return [
        file.name
        for file in store.path.parent.iterdir()
        if file.is_file() and text.encode() in file.read_bytes()
    ]


def test_a_checkpoint_comes_back_as_it_was_saved(store: Store, thread: str) -> None:
    """B06: summary, goals, names, files, open tasks, notes, tone and memories round-trip
    unchanged."""
    saved = checkpoints.save_checkpoint(
        store.connection,
        "one",
        thread=thread,
        notes=["mind the gap"],
        persona="formal",
        now=10.0,
    )
    assert checkpoints.load_checkpoint(store.connection, "one") == saved
    assert saved.branch == "feat/ABC-1"
    assert saved.goals == ("dry feet",)
    assert saved.entities == ("src/pump.py::mend_pump",)
    assert (saved.pending, saved.files) == ((f"{NEEDLE} oil",), ("src/pump.py",))
    assert (saved.notes, saved.persona, saved.created_at) == (("mind the gap",), "formal", 10.0)
    assert saved.memory_ids == (
        exchange_memory_id("key of paint it"),
        exchange_memory_id("k1"),
        function("mend_pump", path="src/pump.py").id,
    )
    shown = render_checkpoint(saved)
    for words in (
        "one",
        "feat/ABC-1",
        "mind the gap",
        "dry feet",
        NEEDLE,
        "ABC-1",
        *saved.memory_ids,
    ):
        assert words in shown


def test_a_payload_names_memories_and_copies_no_text(store: Store) -> None:
    """B07: exchanges of 100,000 characters make a checkpoint of a few thousand, with their ids."""
    thread = resume_session(store.connection, branch="main", now=0.0).thread
    for number in range(4):
        record_turn(
            store,
            f"task {number} " + "x" * 5_000,
            answer="word " * 20_000,
            thread=thread,
            now=1.0 + number,
        )
    checkpoints.save_checkpoint(store.connection, "big", thread=thread, now=50.0)
    (payload,) = store.connection.execute("SELECT payload FROM checkpoint").fetchone()
    assert len(payload) < 5_000
    assert {entry["exchange"] for entry in json.loads(payload)["entries"]} == {
        exchange_memory_id(f"key of task {number} " + "x" * 5_000) for number in range(4)
    }


def test_an_unknown_name_tells_what_comes_near(store: Store, thread: str) -> None:
    """B06: a misspelt name is answered with similar ones."""
    checkpoints.save_checkpoint(store.connection, "discounts", thread=thread, now=1.0)
    with pytest.raises(NothingMatched) as raised:
        checkpoints.load_checkpoint(store.connection, "discuonts")
    assert "discounts" in raised.value.hint
    with pytest.raises(NothingMatched):
        checkpoints.erase_checkpoint(store, "nothing like it")


def test_no_secret_is_kept_in_a_checkpoint(store: Store, thread: str) -> None:
    """P01: name, notes and goals are redacted, and the name still finds its checkpoint."""
    name = f"key {SECRET}"
    saved = checkpoints.save_checkpoint(
        store.connection, name, thread=thread, notes=[SECRET], goals=[SECRET], now=1.0
    )
    assert SECRET not in repr(saved)
    assert checkpoints.load_checkpoint(store.connection, name) == saved
    assert not [row for row in store.connection.iterdump() if SECRET in row]


def test_a_deleted_checkpoint_is_nowhere_in_the_files(store: Store, thread: str) -> None:
    """B06, P04: note, name and goal are gone from database and journal; turns that used it no
    longer name it."""
    name = f"{NEEDLE} itself"
    checkpoints.save_checkpoint(
        store.connection,
        name,
        thread=thread,
        notes=[f"a note on {NEEDLE} reeds"],
        goals=[f"{NEEDLE} goal"],
        now=1.0,
    )
    task = Turn(task="go on", thread=thread, checkpoint=name)
    turn = begin(store, task, "k3", now=4.0)
    body = json.dumps({"checkpoint": name, "n": 1})
    finish(store, turn, receipt=body, now=5.0)
    assert holders(store, f"{NEEDLE} reeds") and holders(store, name)
    assert checkpoints.erase_checkpoint(store, name)
    for gone in (f"{NEEDLE} reeds", f"{NEEDLE} goal", name):
        assert holders(store, gone) == []
    past = turn_history.past_turn(store.connection, turn)
    assert past is not None
    assert past.turn.checkpoint == ""
    assert json.loads(past.receipt) == {"checkpoint": "", "n": 1}
    assert holders(store, f"{NEEDLE} oil"), "the exchange itself stays"


def test_an_erased_exchange_leaves_its_checkpoint(store: Store, thread: str) -> None:
    """P04, B07: erasing an exchange removes its task, outcome and to-dos from every checkpoint, and
    nothing else."""
    checkpoints.save_checkpoint(
        store.connection, "one", thread=thread, notes=["mind the gap"], now=5.0
    )
    erase_memories(store, [exchange_memory_id("k1")], now=6.0)
    checkpoint = checkpoints.load_checkpoint(store.connection, "one")
    assert [entry.task for entry in checkpoint.entries] == ["paint it"]
    assert checkpoint.notes == ("mind the gap",) and checkpoint.memory_ids == (
        exchange_memory_id("key of paint it"),
    )
    assert holders(store, NEEDLE) == []
    session = load_session(store.connection, thread)
    assert session is not None and "paint it → Painted." in session.summary, (
        "what is left is told again"
    )

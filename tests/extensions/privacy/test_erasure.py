"""Erased text is in no file; everything else stays."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.statements import list_events
from tests.store.conftest import WORDS, function, put, said
from tests.store.recorded_turns import begin, finish
from xscore.extensions.privacy import erasure
from xscore.extensions.privacy.erasure_proof import verify_erasure
from xscore.platform import database
from xscore.platform.errors import UsageError
from xscore.platform.hashing import digest, judgment_checksums, turn_checksum
from xscore.records.memory import Layer, Memory, MemoryDetails
from xscore.records.turn import Turn
from xscore.store import turn_history
from xscore.store.events import EventName
from xscore.store.store import Store
from xscore.store.turns import SelectionOutcome
from xscore.store.working_session import resume_session


def judge(connection: sqlite3.Connection, memory: Memory, reason: str) -> None:
    """Store a judgment with its reason."""
    with database.transaction(connection):
        connection.execute(
            "INSERT INTO query (turn_key, judge) VALUES ('tk', 'j') ON CONFLICT DO NOTHING"
        )
        connection.execute(
            "INSERT INTO content (hash) VALUES (?) ON CONFLICT DO NOTHING",
            (memory.content_hash,),
        )
        query = connection.execute("SELECT id FROM query").fetchone()[0]
        content = connection.execute(
            "SELECT id FROM content WHERE hash = ?", (memory.content_hash,)
        ).fetchone()[0]
        checksum = judgment_checksums(
            turn_checksum("tk", "j", 0), [(memory.content_hash, 0.9, 0.0, "", 0)]
        )[0]
        connection.execute(
            "INSERT INTO judgment (query_id, content_id, score, checksum) VALUES (?, ?, 0.9, ?)",
            (query, content, checksum),
        )
        connection.execute("INSERT INTO reason VALUES (?, ?, ?)", (query, content, reason))


def play(
    store: Store, task: str, answer: str, *kept: Memory, near: tuple[Memory, ...] = ()
) -> str:
    """Record a turn that kept these memories."""
    thread = resume_session(store.connection, branch="main", now=1.0).thread
    turn = begin(store, Turn(task=task, thread=thread), digest(task), now=5.0)
    receipt = {
        "task": task,
        "selected": [_entry(memory) for memory in kept],
        "near_misses": [_entry(memory) for memory in near],
        "answer": answer,
        "coverage": {"candidates": 7},
    }
    finish(
        store,
        turn,
        answer,
        receipt=json.dumps(receipt),
        selection_outcome=SelectionOutcome(tuple(memory.id for memory in kept), {}),
        now=6.0,
    )
    return turn


def _entry(memory: Memory) -> dict[str, str]:
    return {"id": memory.id, "kind": memory.kind, "entity": memory.title, "reason": memory.text}


def raw(*folders: Path) -> bytes:
    """Return every byte of every file in these folders."""
    return b"".join(
        file.read_bytes()
        for folder in folders
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    )


def check_gone(remaining: bytes, *words: bytes) -> None:
    """Fail if one of these words is still there."""
    assert [word for word in words if word in remaining] == []


@pytest.fixture
def files(store: Store, user_dir: Path) -> Callable[[], bytes]:
    """Return every byte in the store and the user's folder."""
    return lambda: raw(store.path.parent, user_dir)


def test_everything_made_with_a_memory_goes_with_it(
    store: Store, files: Callable[[], bytes]
) -> None:
    """Issue, P06: row, vector, judgment, reason, receipt entry, answer and the answer's exchange
    are all erased."""
    memory = said(details=MemoryDetails(rationale="since the flamingo audit of spring"))
    kept = said("Other words", ordinal=9)
    put(store.connection, memory, kept)
    judge(store.connection, memory, "speaks of quokka invoices by itself")
    judge(store.connection, kept, "nothing to do with it")
    answer = "Look below the bluish stairs, says the memory"
    turn = play(store, "where are they?", answer, memory, near=(kept,))
    exchange = store.memories(_exchanges(store))[_exchanges(store)[0]]
    later = play(store, "and then?", "As was answered before, below", exchange)
    assert b"quokka invoices" in files()
    expected = erasure.preview_erasure(store, [memory.id])
    assert b"quokka invoices" in files()
    done = erasure.erase_memories(store, [memory.id], now=50.0)
    assert done == expected
    assert (done.memories, done.exchanges, done.answers) == (3, 2, 2)
    assert (done.judgments, done.reasons) == (1, 1)
    assert (done.receipts, done.vectors, done.is_clean) == (2, 3, True)
    check_gone(files(), b"quokka", b"cobalt", b"flamingo", b"bluish stairs", b"answered before")
    assert store.memories([kept.id]) == {kept.id: kept}
    body = json.loads(turn_history.past_turn(store.connection, turn).receipt)  # type: ignore[union-attr]  # the turn was just stored
    assert body["selected"] == [
        {"id": memory.id, "kind": "convention", "entity": "", "reason": ""}
    ]
    assert body["near_misses"][0]["reason"] == "Other words"
    assert (body["answer"], body["coverage"]) == ("", {"candidates": 7})
    assert turn_history.past_turn(store.connection, later).answer == ""  # type: ignore[union-attr]  # the turn was just stored
    events = list_events(store.connection)
    removed = [event.subject for event in events if event.name is EventName.REMOVED]
    assert removed == list(done.ids)


def _exchanges(store: Store) -> list[str]:
    return [
        i
        for (i,) in store.connection.execute(
            "SELECT id FROM memory WHERE kind = 'exchange'"
        ).fetchall()
    ]


def test_a_shared_content_goes_with_the_last_that_shows_it(
    store: Store, files: Callable[[], bytes]
) -> None:
    """Issue: judgments of a content shared by several memories stay until the last is erased."""
    shown_first, shown_second = said(ordinal=1), said(ordinal=2)
    assert shown_first.content_hash == shown_second.content_hash
    put(store.connection, shown_first, shown_second)
    judge(store.connection, shown_first, "a reason of some length about both")
    first_erasure = erasure.erase_memories(store, [shown_first.id], now=1.0)
    assert (first_erasure.shared, first_erasure.judgments, first_erasure.reasons) == (1, 0, 0)
    assert b"a reason of some length" in files()
    second = erasure.erase_memories(store, [shown_second.id], now=2.0)
    assert (second.shared, second.judgments, second.reasons) == (0, 1, 1)
    assert b"a reason of some length" not in files() and b"quokka" not in files()


def test_what_repeats_the_text_is_emptied_wherever_it_stands(
    store: Store, files: Callable[[], bytes]
) -> None:
    """Issue: session text, checkpoints and event payloads are erased too, even without a link by
    id."""
    memory = said("A line about the velvet harbour\nAnother on the marble lighthouse")
    put(store.connection, memory)
    thread = resume_session(store.connection, branch="main", now=1.0).thread
    with database.transaction(store.connection) as connection:
        summary = "They said: A line about the velvet harbour."
        connection.execute(
            "UPDATE session SET conversation_summary = ? WHERE thread = ?", (summary, thread)
        )
        payload = {
            "memories": [memory.id, "m_0"],
            "summary": f"x {memory.text} y",
            "goals": ["ship it"],
        }
        connection.execute(
            "INSERT INTO checkpoint VALUES ('c', 1.0, ?)", (json.dumps(payload),)
        )
        for subject, event_payload in (
            ("", {"of": [memory.id]}),
            (memory.id, {"t": 1}),
            ("t_1", {"s": memory.text}),
            ("", {"a": 1}),
        ):
            connection.execute(
                "INSERT INTO event (at, name, subject, payload) VALUES (1, 'memory.updated', ?, ?)",
                (subject, json.dumps(event_payload)),
            )
    done = erasure.erase_memories(store, [memory.id], now=9.0)
    assert (done.sessions, done.checkpoints, done.payloads) == (1, 1, 3)
    assert b"velvet" not in files() and b"marble" not in files()
    kept = json.loads(store.connection.execute("SELECT payload FROM checkpoint").fetchone()[0])
    assert kept == {"memories": ["m_0"], "summary": "", "goals": ["ship it"]}
    assert [event.payload for event in list_events(store.connection)][:4] == [
        {},
        {},
        {},
        {"a": 1},
    ]


def test_an_exchange_that_is_named_takes_its_task_along(
    store: Store, files: Callable[[], bytes]
) -> None:
    """Erasing an exchange erases its question; the turn itself stays, with its figures."""
    turn = play(store, "why is the turquoise walrus unhappy?", "because of the amber fog")
    (exchange,) = _exchanges(store)
    done = erasure.erase_memories(store, [exchange], now=9.0)
    assert (done.memories, done.exchanges, done.answers) == (1, 0, 1)
    assert b"turquoise" not in files() and b"amber fog" not in files()
    past = turn_history.past_turn(store.connection, turn)
    assert past is not None and (past.turn.task, past.answer) == ("", "")


def test_a_memory_and_its_turns_leave_no_byte(store: Store, files: Callable[[], bytes]) -> None:
    """Question, errors, answer, receipt, reasons, checkpoint and memory: every file of both folders
    is searched."""
    put(store.connection, memory := said())
    task = "why does the turquoise walrus hum?\nand nobody hears"
    answered = play(store, task, "because of the amber fog", memory)
    silent = play(store, "what is below the magenta jetty of the harbour?", "")
    errors = Turn(
        task="who broke it, at long last?", errors="MarmotError: burrow 7 is flooded again"
    )
    broken = begin(store, errors, "k", now=7.0)
    user = store.user_connection(create=True)
    assert user is not None
    put(user, preference := said("user: likes tea", layer=Layer.USER, key="tea"))
    for connection, judged in ((store.connection, memory), (user, preference)):
        judge(connection, judged, "the walrus is meant")
        connection.execute("UPDATE query SET turn_key = ?", (digest(task),))
    with database.transaction(store.connection) as connection:
        entries = [
            {"id": answered, "turn_id": answered, "task": task},
            {"id": silent, "task": "magenta"},
        ]
        payload = json.dumps({"entries": entries})
        connection.execute("INSERT INTO checkpoint VALUES ('c', 1.0, ?)", (payload,))
    ids, gone = [memory.id], [answered, silent, broken]
    wording = erasure.erased_lines(store, ids, turns=gone)
    done = erasure.erase_memories(store, ids, turns=gone, now=9.0)
    assert (done.is_clean, done.answers, done.checkpoints, done.reasons) == (True, 1, 1, 2)
    proof = verify_erasure(store, wording)
    assert proof.holds and proof.lines > 5
    check_gone(files(), b"quokka", b"turquoise", b"nobody hears", b"amber")
    check_gone(files(), b"magenta", b"Marmot", b"long last", b"walrus")
    count = "SELECT count(*) FROM judgment"
    assert store.connection.execute(count).fetchone() == (0,), "of the memory's content"
    # A score says nothing about the question.
    assert user.execute(count).fetchone() == (1,)


def test_a_question_that_was_asked_twice_stays_with_the_other_turn(
    store: Store, files: Callable[[], bytes]
) -> None:
    """Of two turns with the same question one is erased; question, exchange and reasons stay for
    the other."""
    task = "why does the turquoise walrus hum?"
    put(store.connection, memory := said())
    erased_turn = play(store, task, "because of the amber fog", memory)
    judge(store.connection, memory, "the humming is meant")
    store.connection.execute("UPDATE query SET turn_key = ?", (digest(task),))
    two = play(store, task, "since it is a Tuesday", memory)
    done = erasure.erase_memories(store, [], turns=[erased_turn], now=9.0)
    assert (done.memories, done.answers, done.receipts, done.reasons) == (0, 1, 1, 0)
    assert b"amber fog" not in files()
    past = turn_history.past_turn(store.connection, two)
    assert past is not None and (past.turn.task, past.answer) == (task, "since it is a Tuesday")
    assert json.loads(past.receipt)["task"] == task
    assert next(memory.text for memory in store.memories(_exchanges(store)).values()).endswith(
        "Tuesday"
    )
    erasure.erase_memories(store, [], turns=[two], now=9.0)
    for words in (b"turquoise", b"Tuesday", b"humming"):
        assert words not in files()


def test_the_users_memories_go_from_the_users_store(
    store: Store, files: Callable[[], bytes]
) -> None:
    """P06: a user memory and its judgments are erased in user.db, and its text in the project's
    turns."""
    user = store.user_connection(create=True)
    assert user is not None
    memory = said("user: likes the crimson semicolon", layer=Layer.USER, key="style.semicolon")
    put(user, memory)
    judge(user, memory, "the crimson taste is theirs")
    with database.transaction(user):
        user.execute("INSERT INTO project VALUES ('p', 1)")
        user.execute(
            "INSERT INTO observation VALUES ('p', 'style.semicolon', 'preference',"
            " 'crimson-ish', 1)"
        )
        user.execute(
            "INSERT INTO observation VALUES ('p', 'style.comma', 'preference', 'other', 1)"
        )
    play(store, "what?", "an answer with crimson in it", memory)
    expected = erasure.preview_erasure(store, [memory.id])
    done = erasure.erase_memories(store, [memory.id], now=9.0)
    assert done == expected
    assert (done.memories, done.judgments, done.observations, done.answers) == (2, 1, 1, 1)
    assert b"crimson" not in files()


def test_memories_of_files_are_refused(store: Store) -> None:
    """A memory of a file would return with the next index; the way is to exclude the file."""
    put(store.connection, indexed := function())
    with pytest.raises(UsageError, match=r"a\.py"):
        erasure.erase_memories(store, [indexed.id], now=1.0)
    assert store.memories([indexed.id])


def test_copies_set_aside_go_when_they_hold_the_text(
    store: Store, files: Callable[[], bytes]
) -> None:
    """Issue: a damaged store set aside is deleted if it holds the text; others stay."""
    put(store.connection, memory := said())
    for number, text in ((1, b"\0\xff" + WORDS.encode() + b"\xfe"), (2, b"nothing")):
        aside = store.path.parent / f"aside-{number}"
        aside.mkdir()
        (aside / "memory.db").write_bytes(text)
    (store.path.parent / "memory.db.new").write_bytes(WORDS.encode())
    done = erasure.erase_memories(store, [memory.id], now=1.0)
    assert done.asides == ("aside-1", "memory.db.new")
    assert b"quokka" not in files()
    assert [place.name for place in store.path.parent.glob("aside-*")] == ["aside-2"]


def test_a_turns_moment_keeps_no_path_that_only_the_erased_memory_named(store: Store) -> None:
    """Of a turn's paths, those named by its answer are erased with it; the given ones stay."""
    memory = said(WORDS + " in vault/hidden.py")
    hidden, asked_about = (function(path=path) for path in ("vault/hidden.py", "src/asked.py"))
    put(store.connection, memory, hidden, asked_about)
    turn = play(
        store,
        "mend src/asked.py",
        "See vault/hidden.py, as in " + memory.id,
        memory,
        hidden,
        asked_about,
    )
    (before,) = store.connection.execute(
        "SELECT context FROM turn WHERE id = ?", (turn,)
    ).fetchone()
    assert set(json.loads(before)["paths"]) == {"vault/hidden.py", "src/asked.py"}
    assert memory.id in json.loads(before)["links"]
    erasure.erase_memories(store, [memory.id], now=20.0)
    (after,) = store.connection.execute(
        "SELECT context FROM turn WHERE id = ?", (turn,)
    ).fetchone()
    assert json.loads(after)["paths"] == ["src/asked.py"]
    assert WORDS not in after and "quokka" not in after

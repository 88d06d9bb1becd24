"""Erasure is verified on the raw bytes, against readers of the journal, kills and random cases."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.extensions.privacy.test_erasure import judge, play, raw
from tests.store.conftest import function, put, said
from xscore.cache.judgments import read_judgments
from xscore.extensions.privacy import erasure
from xscore.extensions.privacy.erasure_proof import verify_erasure
from xscore.platform import database
from xscore.platform.paths import find_root
from xscore.records.indexing import FileStamp
from xscore.records.memory import Memory, MemoryOrigin, MemorySource
from xscore.store import scrubbing
from xscore.store.index_rows import write_stamps
from xscore.store.line_search import LineMatcher, searchable_lines, with_halves
from xscore.store.scrubbing import database_files
from xscore.store.store import Store

WORDS = (
    "The saffron ledger is kept behind the northern boiler\nand nobody else may know of the"
    " pewter key"
)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Hold a read transaction on the database in another process."""
    program = f"""
        import sqlite3, sys
        connection = sqlite3.connect({str(path)!r}, isolation_level=None)
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM memory").fetchone()
        print("reading", flush=True)
        sys.stdin.read()
    """
    reader = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert reader.stdout is not None and reader.stdin is not None
    with reader:
        assert reader.stdout.readline() == "reading\n"
        try:
            yield
        finally:
            reader.stdin.close()
            reader.wait(10)


def test_a_proof_finds_what_is_there(store: Store) -> None:
    """The proof can fail: text that was not erased is found, raw or as JSON, also in a stray
    file."""
    memory = said('She said "the umbrella is ülive green" then\nand left by the other door')
    put(store.connection, memory)
    wording = erasure.erased_lines(store, [memory.id])
    assert len(wording) == 2 or len(wording) == 3
    assert verify_erasure(store, wording).still_said == len(wording), (
        "it stands in a living memory by right"
    )
    erasure.erase_memories(store, [memory.id], now=1.0)
    assert verify_erasure(store, wording).holds
    with database.transaction(store.connection) as connection:
        escaped = '{"x": "She said \\"the umbrella is \\u00fclive green\\" then"}'
        connection.execute("INSERT INTO capability VALUES ('p', 'h', 'm', ?, 1)", (escaped,))
    proof = verify_erasure(store, wording)
    assert not proof.holds and proof.found_in == tuple(
        str(file) for file in database_files(store.path)[1:2]
    )
    (store.path.parent / "notes.txt").write_text("and left by the other door")
    assert str(store.path.parent / "notes.txt") in verify_erasure(store, wording).found_in


def test_lines_that_others_say_are_left_out_and_counted(store: Store) -> None:
    """Issue: a line shared with another memory or a task may be found and proves nothing; it is
    counted."""
    first = said("A line that only this one says\nA line that both of them say", ordinal=1)
    second = said("A line that both of them say\nand more of the other", ordinal=2)
    put(store.connection, first, second)
    play(store, "A line of a task in full length", "an answer")
    put(store.connection, third := said("A line of a task in full length", ordinal=3))
    wording = erasure.erased_lines(store, [first.id, third.id])
    done = erasure.erase_memories(store, [first.id, third.id], now=1.0)
    proof = verify_erasure(store, wording)
    assert done.answers == 0, "what another says as well is no sign of it"
    assert (proof.holds, proof.still_said) == (True, 2)
    assert store.memories([second.id])


SHARED_PLACE = "pkg/payroll_of_the_north.py"


def imported(place: str, ordinal: int) -> Memory:
    """A memory of a document that lies elsewhere."""
    return said(
        f"Page {ordinal}",
        ordinal=ordinal,
        origin=MemoryOrigin.DOCUMENT,
        place=place,
        source=MemorySource.IMPORT,
    )


def test_the_place_of_a_memory_is_searched_for_and_goes(store: Store) -> None:
    """An erased memory's place is in no byte, and an answer that repeats it goes too."""
    place = "https://wiki.example/payroll/redundancies"
    memory = imported(place, 1)
    put(store.connection, memory)
    play(store, "Where is it written?", f"It is at {place}.", memory)
    wording = erasure.erased_lines(store, [memory.id])
    assert place in wording and place.encode() in raw(store.path.parent)
    erasure.erase_memories(store, [memory.id], now=1.0)
    assert verify_erasure(store, wording).holds
    assert place.encode() not in raw(store.path.parent)


def test_a_place_of_two_memories_goes_with_the_second(store: Store) -> None:
    """Another memory of the same place keeps it by right; when that goes as well, it is gone."""
    first, second = imported(SHARED_PLACE, 1), imported(SHARED_PLACE, 2)
    put(store.connection, first, second)
    wording = erasure.erased_lines(store, [first.id])
    for memory, still_said in ((first, len(wording)), (second, 0)):
        erasure.erase_memories(store, [memory.id], now=1.0)
        proof = verify_erasure(store, wording)
        assert (proof.holds, proof.still_said) == (True, still_said)
    assert SHARED_PLACE.encode() not in raw(store.path.parent)


@pytest.mark.parametrize("named_by", ["code", "excluded file", "citation"])
def test_a_place_that_is_a_path_here_is_left_out(store: Store, named_by: str) -> None:
    """The place of an erased memory may be named like a file here, which stays."""
    memory = imported(SHARED_PLACE, 1)
    put(store.connection, memory)
    match named_by:
        case "code":
            put(store.connection, function("pay", path=SHARED_PLACE))
        case "excluded file":
            stamp = FileStamp(SHARED_PLACE, 9_000_000, 1, "hash", excluded="too_large")
            with database.transaction(store.connection):
                write_stamps(store.connection, [stamp])
        case _:
            put(store.connection, citing := said("It is paid monthly"))
            with database.transaction(store.connection) as connection:
                connection.execute(
                    "INSERT INTO evidence VALUES (?, ?, 'hash', 1, 2, 0)",
                    (citing.id, SHARED_PLACE),
                )
    wording = erasure.erased_lines(store, [memory.id])
    erasure.erase_memories(store, [memory.id], now=1.0)
    proof = verify_erasure(store, wording)
    assert (proof.holds, proof.still_said) == (True, len(wording))


def test_a_line_is_found_by_a_word_of_its_own_or_as_a_whole() -> None:
    """Searching by a rare word finds what searching each line would, whatever surrounds it."""
    lines = [
        *(f"filler line number {number:04}" for number in range(40)),
        "alpha betabeta gamma",
        "日本語の長い一行がここにあるのです",
        "....----....----",
        "edgeword",
    ]
    matcher, few = LineMatcher(lines), LineMatcher(lines[-4:])
    for line in lines:
        for around in ("{}", "xx{}yy", "\n{}\n", "\\n{}\\n", "\x00\x17{}\x05"):
            assert matcher.found_in(around.format(line)) == {line}
            assert few.found_in(around.format(line)) == {line} & few.all
    assert matcher.found_in("alpha betabet gamma") == set()
    assert with_halves(["x" * 30 + " " + "y" * 30]) == {
        "x" * 30 + " " + "y" * 30,
        "x" * 30,
        "y" * 30,
    }
    assert searchable_lines(["short\n  long enough to tell  \n"]) == {"long enough to tell"}


KILLED = """
    import os, signal, sys
    from pathlib import Path
    from xscore.extensions.privacy import erasure
    from xscore.store import scrubbing
    from xscore.store.store import Store
    from xscore.platform.paths import find_root

    module, name, after = {{
        "rows": (erasure, "erase_rows", True), "mark": (erasure, "mark_for_scrubbing", True),
        "strays": (erasure, "remove_paths", True), "clean": (erasure, "scrub_database", False),
        "journal": (scrubbing, "truncate_journal", True),
    }}[{place!r}]
    original = getattr(module, name)

    def dies(*arguments, **named):
        if after:
            original(*arguments, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(module, name, dies)
    with Store.open(find_root(Path({root!r})), user_data_dir=Path({user!r})) as store:
        erasure.erase_memories(store, [{identifier!r}], now=1.0)
"""


@pytest.mark.verify
@pytest.mark.parametrize("place", ["strays", "rows", "mark", "clean", "journal"])
def test_a_kill_leaves_it_not_begun_or_completed_by_the_next_call(
    tmp_path: Path, place: str
) -> None:
    """Issue: killed anywhere, an erasure has changed nothing, or repeating it ends with clean
    files."""
    root, user = tmp_path / "project", tmp_path / "user"
    root.mkdir()
    memory = said(WORDS)
    with Store.open(find_root(root), user_data_dir=user) as store:
        put(store.connection, memory)
        wording = erasure.erased_lines(store, [memory.id])
    program = KILLED.format(place=place, root=str(root), user=str(user), identifier=memory.id)
    killed = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], check=False, env=os.environ
    )
    assert killed.returncode == -signal.SIGKILL
    with Store.open(find_root(root), user_data_dir=user) as store:
        is_there = memory.id in store.memories([memory.id])
        assert is_there == (place in ("strays", "rows", "mark")), "one transaction takes it all"
        done = erasure.erase_memories(store, [memory.id], now=2.0)
        assert done.is_clean and done.is_finished != is_there
        assert verify_erasure(store, wording).holds
    assert b"saffron" not in raw(tmp_path)


ALPHABET = "abcdefghijklmnopqrstuvwxyz"


def _sentence(rng: random.Random, words: int) -> str:
    return " ".join(
        "".join(rng.choice(ALPHABET) for _ in range(rng.randint(3, 9))) for _ in range(words)
    )


@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 2**32), count=st.integers(2, 40), data=st.data())
def test_the_erased_is_nowhere_and_the_others_are_whole(
    tmp_path_factory: pytest.TempPathFactory, seed: int, count: int, data: st.DataObject
) -> None:
    """Issue: of random memories with shared contents, no byte of the erased remains; the others
    stay judged."""
    rng = random.Random(seed)
    texts = [
        "\n".join(_sentence(rng, rng.randint(4, 60)) for _ in range(rng.randint(1, 12)))
        for _ in range(count)
    ]
    folder = tmp_path_factory.mktemp("erasure")
    (folder / "project").mkdir()
    memories = [said(texts[rng.randrange(count)], ordinal=ordinal) for ordinal in range(count)]
    gone = data.draw(st.sets(st.sampled_from(range(count)), min_size=1, max_size=count))
    with Store.open(find_root(folder / "project"), user_data_dir=folder / "user") as store:
        put(store.connection, *memories)
        for memory in {memory.content_hash: memory for memory in memories}.values():
            judge(store.connection, memory, f"reason {memory.content_hash} of it")
        before = store.memories(memory.id for memory in memories)
        going = [memories[index] for index in gone]
        staying = [memory for index, memory in enumerate(memories) if index not in gone]
        wording = erasure.erased_lines(store, [memory.id for memory in going])
        done = erasure.erase_memories(store, [memory.id for memory in going], now=1.0)
        assert done.is_clean and verify_erasure(store, wording).holds
        assert store.memories(memory.id for memory in memories) == {
            memory.id: before[memory.id] for memory in staying
        }
        _check_bytes(raw(folder), going, staying)
        kept = read_judgments(store.connection, ("tk", "j", 0))
        assert set(kept) == {memory.content_hash for memory in staying}


def _check_bytes(store_bytes: bytes, going: list[Memory], staying: list[Memory]) -> None:
    still = "\n".join(memory.text for memory in staying)
    for memory in going:
        for line in memory.text.splitlines():
            for piece in (line[:40], line[-40:]):
                assert piece in still or piece.encode() not in store_bytes, piece
        if memory.text not in {remaining.text for remaining in staying}:
            assert f"reason {memory.content_hash}".encode() not in store_bytes


def test_a_store_that_is_held_after_the_rows_are_gone_is_not_clean_and_no_error(
    store: Store,
) -> None:
    """Issue: erasure succeeds, but a rewrite that another process prevents is reported as not clean
    (exit 6)."""
    put(store.connection, memory := said(WORDS))
    original = scrubbing.truncate_journal
    holders: list[sqlite3.Connection] = []

    def then_held(connection: sqlite3.Connection, timeout_s: float) -> bool:
        emptied = original(connection, timeout_s)
        holder = sqlite3.connect(store.path, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        holders.append(holder)
        return emptied

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scrubbing, "truncate_journal", then_held)
        done = erasure.erase_memories(store, [memory.id], now=1.0, timeout_s=0.05)
    for holder in holders:
        holder.close()
    assert (done.memories, done.is_clean) == (1, False)
    second = erasure.erase_memories(store, [memory.id], now=2.0)
    assert second.is_clean and second.is_finished

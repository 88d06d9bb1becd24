"""The store's single writer."""

from tests.store.conftest import function, put
from tests.store.generated_secrets import SECRET
from xscore.platform import database
from xscore.platform.hashing import content_hash
from xscore.records.memory import (
    CodeFacts,
    Kind,
    Layer,
    MemoryScope,
    MemorySource,
    MemoryStatus,
)
from xscore.store import memory_writer
from xscore.store.lookup import find_memories
from xscore.store.store import Store
from xscore.store.vector_rows import all_vectors, put_vectors


def test_no_part_of_a_memory_carries_a_secret_in() -> None:
    """P01: text, title, card, entity and every fact are redacted, and each finding is counted."""
    memory, redacted = memory_writer.make_memory(
        layer=Layer.GRAPH,
        kind=Kind.TEST,
        title=f"title {SECRET}",
        text=f"key = '{SECRET}'",
        card=f"card {SECRET}",
        entity=f"entity {SECRET}",
        facts=CodeFacts(
            signature=f"def f(k='{SECRET}')",
            docstring=SECRET,
            imports=(SECRET,),
            dependencies=(SECRET,),
        ),
        updated_at=1.0,
    )
    assert SECRET not in repr(memory)
    assert redacted == 8


def test_a_heading_deep_in_a_document_is_redacted_like_a_line() -> None:
    """`## password: x` is treated as a line, also behind the headings above it."""
    assert (
        function("Setup > password: hunter2hunter2 > Next").entity
        == "Setup > password: <SECRET:password> > Next"
    )


def test_ids_and_hashes_remember_no_secret() -> None:
    """Two texts that differ only in the secret are one content: nothing stored depends on the
    secret."""
    first, second = (function(text=f"key = '{SECRET[:-1]}{last}'") for last in "Aw")
    assert first.content_hash == second.content_hash


def test_headings_that_differ_in_their_secrets_stay_two_memories() -> None:
    """Redaction never merges two entities of a file into one."""
    first, second = (
        function(f"{SECRET[:-1]}{last}", start_line=line) for last, line in (("A", 3), ("w", 9))
    )
    assert first.entity == second.entity
    assert first.id != second.id


def test_the_id_is_stable_over_edits() -> None:
    """Text, lines, title and times do not affect the id; layer, path, kind, entity and ordinal
    do."""
    first = function()
    assert (
        function(text="def f(): return 2", title="x", start_line=90, updated_at=99.0).id
        == first.id
    )
    different = [
        function("g"),
        function(path="b.py"),
        function(kind=Kind.METHOD),
        function(ordinal=1),
    ]
    assert len({first.id, *(memory.id for memory in different)}) == 5


def test_the_content_hash_is_of_what_the_judge_is_shown() -> None:
    """The card is hashed if there is one; the whole text has its own hash; neither includes line
    numbers."""
    plain, carded = function(start_line=1), function(card="test f: does it", start_line=50)
    assert plain.content_hash == plain.text_hash == content_hash("a.py", "f", plain.text)
    assert carded.content_hash == content_hash("a.py", "f", "test f: does it")
    assert carded.text_hash == plain.text_hash


def test_putting_again_keeps_what_use_has_taught(store: Store) -> None:
    """K12: an edited memory keeps its creation time, importance and use counts, and takes the new
    text."""
    put(store.connection, function(created_at=1.0, importance=0.9))
    store.connection.execute("UPDATE memory_row SET access_count = 3, accessed_at = 7.0")
    put(store.connection, function(text="def f(): return 2", created_at=5.0, updated_at=20.0))
    (stored,) = find_memories(store, "a.py::f")
    assert stored.created_at == 1.0
    assert stored.importance == 0.9
    assert stored.access_count == 3
    assert stored.accessed_at == 7.0
    assert (stored.text, stored.updated_at) == ("def f(): return 2", 20.0)


def test_every_memory_has_a_vector(store: Store) -> None:
    """The vector layer's embedder sees each memory as it is written, and again when it changes."""
    put(store.connection, function("alpha"), function("beta"))
    before = dict(store.term_vectors())
    put(store.connection, function("alpha", text="def alpha(): return gamma"))
    after = dict(store.term_vectors())
    assert len(before) == len(after) == 2
    assert sum(before[key] != after[key] for key in before) == 1


def test_a_bought_vector_lives_as_long_as_its_text(store: Store) -> None:
    """A vector of another embedder stays as long as the text, wherever it moves; a new text deletes
    it."""
    original, moved = function("alpha"), function("alpha", start_line=7)
    put(store.connection, original)
    with database.transaction(store.connection):
        put_vectors(store.connection, "bought", [(original, b"\0\1")])
    put(store.connection, moved)
    assert all_vectors(store.connection, "bought") == [(original.text_hash, b"\0\1")]
    put(store.connection, function("alpha", text="def alpha(): return gamma"))
    assert all_vectors(store.connection, "bought") == []


def test_what_is_written_comes_back_whole(store: Store) -> None:
    """X01: every field of a memory round-trips."""
    memory = function(
        card="card",
        start_line=3,
        end_line=9,
        facts=CodeFacts(
            signature="def f()",
            docstring="Do.",
            imports=("os",),
            dependencies=("g", "h"),
            complexity=4,
        ),
        scope=MemoryScope.WORKSPACE,
        importance=0.25,
        confidence=0.75,
        source=MemorySource.IMPORT,
        status=MemoryStatus.ARCHIVED,
        key="k",
        created_at=2.0,
    )
    put(store.connection, memory)
    assert find_memories(store, memory.id) == [memory]

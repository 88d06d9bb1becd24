"""Memories as JSON lines: sorted out, validated in, quoted and never half imported."""

import json

import pytest

from tests.extensions.transfer.filled_store import export_lines, fill
from tests.statements import prefer, preferences, say
from xscore.extensions.learning.consolidate import consolidate
from xscore.extensions.privacy import erasure
from xscore.extensions.transfer.memory_lines import exported_memories, import_lines
from xscore.extensions.transfer.saved_files import Contents, encode_file
from xscore.extensions.transfer.snapshots import snapshot_file, take_snapshot
from xscore.platform.clock import DAY_S
from xscore.platform.errors import UsageError
from xscore.platform.json_lines import MAX_LINE_BYTES
from xscore.records.memory import STATED_ELSEWHERE, Kind, Layer, MemorySource, MemoryStatus
from xscore.settings import MemorySettings
from xscore.store.lookup import MemoryFilter, filter_memories, memory_by_id
from xscore.store.store import Store

NOW = 1_000.0


def lines_of(store: Store, *layers: Layer) -> list[str]:
    """Export."""
    return list(export_lines(store, MemoryFilter(layers=layers, statuses=tuple(MemoryStatus))))


def data(lines: list[str]) -> bytes:
    """Make a file of lines."""
    return "".join(f"{line}\n" for line in lines).encode()


def test_lines_come_back_as_quoted_data(store: Store, second_store: Store) -> None:
    """P06: every memory comes back with its id, as an import; exporting that differs only in where
    it is from."""
    fill(store)
    prefer(store, "k", "v", now=1.0)
    lines = lines_of(store)
    assert lines == lines_of(store) and len(lines) == 6
    assert not any("function" in line or "access" in line for line in lines)
    imported = import_lines(
        second_store, data([line for line in lines if '"user"' not in line])
    )
    assert len(imported.added) == 5
    assert all(
        memory.source is MemorySource.IMPORT
        for memory in filter_memories(second_store, MemoryFilter(layers=(Layer.GOVERNANCE,)))
    )
    ours, theirs = (
        [json.loads(line) for line in lines_of(compared, Layer.GOVERNANCE)]
        for compared in (store, second_store)
    )
    origin = {"origin": STATED_ELSEWHERE}
    assert theirs == [
        {
            **compared,
            "source": "import",
            "particulars": compared.get("particulars", {}) | origin,
        }
        for compared in ours
    ]
    repeated = import_lines(
        second_store, data(lines_of(second_store, Layer.GOVERNANCE, Layer.PROJECT))
    )
    assert (repeated.added, repeated.kept) == ([], [])
    assert repeated.known > 0


def test_what_is_here_stays_as_it_is(store: Store, second_store: Store) -> None:
    """An imported memory takes neither the id nor the key of a local one."""
    theirs = say(store, "their port", key="port", now=1.0).memory
    mine = say(second_store, "my port", key="port", now=1.0).memory
    imported = import_lines(second_store, data(lines_of(store)))
    assert (imported.added, imported.kept) == ([], [mine.id])
    assert memory_by_id(second_store, mine.id) == mine
    changed = json.dumps(
        {**json.loads(lines_of(store)[0]), "id": mine.id, "key": "", "text": "planted"}
    )
    assert import_lines(second_store, data([changed])).kept == [mine.id]
    assert theirs.id not in {
        memory.id for memory in filter_memories(second_store, MemoryFilter())
    }


def test_what_was_forgotten_does_not_come_back(store: Store, second_store: Store) -> None:
    """An id that was erased with --forget is left out of an import, and counted."""
    memory = say(store, "x", now=1.0).memory
    second_store.connection.execute(
        "INSERT INTO erased_memory (memory_id, at) VALUES (?, 1)", (memory.id,)
    )
    imported = import_lines(second_store, data(lines_of(store)))
    assert (imported.added, imported.forgotten) == ([], 1)


BAD: list[tuple[bytes, str]] = [
    (b"{", "lines:2: "),
    (b"[]", "lines:2: "),
    (b"\xff\xfe", "is not UTF-8"),
    (b"[" * 100_000, "lines:2: "),
    (b'{"a":' * 100_000, "lines:2: "),
    (b"x" * (MAX_LINE_BYTES + 1), "lines:2: .*too many"),
    (b'{"schema": 9}', r"lines:2 was made by a newer xscore \(schema 9; this one reads 1\)"),
    (
        b'{"schema": 1, "id": "m_1", "layer": "project", "kind": "todo", "title": "", "text": ""}',
        "lines:2: .*id`",
    ),
    (b'{"kind": "hunter2"}', "lines:2: Invalid enum value - at"),
]


@pytest.mark.parametrize(("line", "message"), BAD, ids=range(len(BAD)))
def test_a_bad_line_is_named_and_nothing_is_half_imported(
    store: Store, second_store: Store, line: bytes, message: str
) -> None:
    """Strangers' lines: no JSON, no memory, too deep, too large, another schema; even earlier good
    lines stay out."""
    say(store, "x", now=1.0)
    with pytest.raises(UsageError, match=message) as refused:
        import_lines(second_store, data(lines_of(store)) + line + b"\n")
    assert len(refused.value.message) < 500
    assert filter_memories(second_store, MemoryFilter()) == []


def test_damaged_lines_are_left_out_where_that_is_asked(
    store: Store, second_store: Store
) -> None:
    """What a full disk has cut is named by its line; a line that is no memory is still refused."""
    for number, words in enumerate(("first", "second", "third")):
        say(store, words, now=float(number + 1))
    first, second, third = lines_of(store)
    half = second[: len(second) // 2]
    imported = import_lines(
        second_store, data([first, half, "\x00", third]), skips_damaged=True
    )
    assert (len(imported.added), imported.damaged) == (2, (2, 3))
    with pytest.raises(UsageError, match="lines:2"):
        import_lines(second_store, data([first, '{"kind": "x"}']), skips_damaged=True)
    with pytest.raises(UsageError, match="no line to import"):
        import_lines(second_store, data([half]), skips_damaged=True)


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "function"},
        {"layer": "vector"},
        {"source": "index"},
        {"updated_at": NOW + 1e6},
        {"confidence": 2},
        {"text": 3},
        {"particulars": {"polarity": "evil"}},
        {
            "citations": [
                {"path": "../x", "start_line": 1, "end_line": 2, "span_hash": "0" * 32}
            ]
        },
        {"citations": [{"path": "", "start_line": 1, "end_line": 2, "span_hash": "0" * 32}]},
        {
            "citations": [
                {"path": "x", "start_line": 1, "end_line": 1 << 64, "span_hash": "0" * 32}
            ]
        },
        {"judgment": 1.0},
        {"superseded_by": "x"},
        {"id": "m_" + "1" * 20 + "\n"},
        {"superseded_by": "m_" + "1" * 20 + "\n"},
        {"particulars": {"polarity": "pattern\n"}},
        {"facts": {"signature": "def total() -> int"}},
        {"facts": {"complexity": 1 << 70}},
        {"start_line": 1 << 64},
        {"end_line": -1},
        {"access_count": 1 << 64},
        {"evidence_count": 1 << 64},
        {"created_at": 1e12},
        {"accessed_at": 1e12},
    ],
)
def test_the_gate_of_lines(
    store: Store, second_store: Store, changes: dict[str, object]
) -> None:
    """Planted code, layers, times, weights, paths and unknown words are refused."""
    say(store, "x", now=1.0)
    line = json.dumps({**json.loads(lines_of(store)[0]), **changes})
    with pytest.raises(UsageError, match=r"^lines:1: |m_.*future"):
        import_lines(second_store, data([line]))


def test_files_put_together_are_one(store: Store, second_store: Store) -> None:
    """`cat a b` gives a first line in the midst, an editor a byte-order mark or a blank line before
    it; one of a file of another kind or of a newer xscore is named by its line."""
    say(store, "x", now=1.0)
    say(store, "y", now=1.0)
    first, second = exported_memories(store, MemoryFilter())
    files = [encode_file(Contents.MEMORIES, [memory]) for memory in (first, second)]
    imported = import_lines(second_store, b"\xef\xbb\xbf" + b"\n".join(files))
    assert imported.added == [first.id, second.id]
    assert import_lines(second_store, b"\n" + files[0]).known == 1
    for begun, message in (
        (snapshot_file(take_snapshot(store), secret=store.secret), "lines:3 is a snapshot"),
        (files[1].replace(b'"schema":4', b'"schema":9'), r"lines:3 .*\(schema 9; .* reads 4\)"),
    ):
        with pytest.raises(UsageError, match=message):
            import_lines(second_store, files[0] + begun)


def test_one_file_has_an_id_and_a_key_once(store: Store, second_store: Store) -> None:
    """Two lines with one id, or with one active key, are named."""
    say(store, "x", key="k", now=1.0)
    (line,) = lines_of(store)
    with pytest.raises(UsageError, match=r"lines:3: id `m_.*line 1"):
        import_lines(second_store, data([line, "", line]))
    twin = json.dumps({**json.loads(line), "id": "m_" + "1" * 20})
    with pytest.raises(UsageError, match=r"m_1{20}: .*key of m_"):
        import_lines(second_store, data([line, twin]))


def test_the_users_layer_is_imported_when_it_is_named(
    store: Store, second_store: Store
) -> None:
    """P06: a user-layer line would apply everywhere: unless requested it is refused, counted and
    not stored."""
    kept = prefer(store, "k", "v", now=1.0).memory
    say(store, "x", now=1.0)
    lines = lines_of(store)
    erasure.erase_memories(store, [kept.id], now=2.0)
    imported = import_lines(second_store, data(lines))
    assert (len(imported.added), imported.refused) == (1, 1)
    assert preferences(second_store) == []
    named = import_lines(second_store, data(lines), users=True)
    assert (named.added, named.refused, named.known) == ([kept.id], 0, 1)


def test_what_only_code_has_does_not_come_from_lines(store: Store, second_store: Store) -> None:
    """An import drops a memory's language and line numbers, and its use counts start at zero."""
    say(store, "x", now=1.0)
    foreign = {
        "language": "python",
        "start_line": 3,
        "end_line": 9,
        "access_count": 7,
        "accessed_at": 5.0,
    }
    (added,) = import_lines(
        second_store, data([json.dumps({**json.loads(lines_of(store)[0]), **foreign})])
    ).added
    memory = memory_by_id(second_store, added)
    assert memory.language == ""
    assert memory.start_line == 0
    assert memory.end_line == 0
    assert memory.access_count == 0


def test_what_was_said_long_ago_survives_the_way_to_another_store(
    store: Store, second_store: Store
) -> None:
    """L03: imported today counts as seen today: consolidation erases nothing of it until it is
    unseen for long."""
    convention = say(store, "we sort imports by hand", kind=Kind.CONVENTION, now=NOW).memory
    moved = NOW + 400 * DAY_S
    second_store.clock = lambda: moved
    import_lines(second_store, data(lines_of(store)))
    consolidate(second_store, MemorySettings(), now=moved + DAY_S)
    kept = memory_by_id(second_store, convention.id)
    assert kept.source == MemorySource.IMPORT
    assert kept.text == convention.text
    assert kept.updated_at == NOW
    consolidate(second_store, MemorySettings(), now=moved + 800 * DAY_S)
    assert convention.id not in {
        memory.id for memory in filter_memories(second_store, MemoryFilter())
    }

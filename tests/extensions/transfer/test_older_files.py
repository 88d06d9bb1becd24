"""Files that an earlier xscore wrote are read as they were, and believed as little."""

from pathlib import Path
from sqlite3 import Connection

import pytest
from msgspec.structs import replace

from tests.extensions.transfer.filled_store import fill
from xscore.cache.judgment_store import count_untrusted
from xscore.extensions.transfer import judgment_files
from xscore.extensions.transfer.judgment_files import import_judgments, may_replace_export
from xscore.extensions.transfer.memory_lines import import_lines
from xscore.extensions.transfer.snapshots import import_snapshot, take_snapshot
from xscore.extensions.transfer.transfer_keys import TransferKey
from xscore.platform.errors import StoreUntrusted, UsageError
from xscore.records.memory import MemorySource
from xscore.store.store import Store

OLDER = Path(__file__).with_name("older")
KEY = TransferKey(bytes(range(32)))
"""Signed the judgments; its bytes are also the secret of the store that signed the snapshot."""
OTHER = TransferKey(bytes(range(1, 33)))


def older(name: str, folder: Path, *, without: bytes = b"", instead: bytes = b"") -> Path:
    """Copy an old file, with some bytes replaced."""
    copy = folder / name
    copy.write_bytes((OLDER / name).read_bytes().replace(without, instead, 1))
    return copy


def test_old_lines_of_memories_are_imported(second_store: Store) -> None:
    """Form 1 of memories had no first line, and named no record."""
    imported = import_lines(second_store, (OLDER / "memories.1.jsonl").read_bytes())
    assert len(imported.added) == 5
    for memory in take_snapshot(second_store).memories:
        assert memory.source is MemorySource.IMPORT


def test_an_old_snapshot_of_this_store_is_restored_exactly(
    store: Store, second_store: Store
) -> None:
    """Form 1 of a snapshot held everything but the memories in its first line."""
    fill(store)
    second_store.secret = KEY.secret
    restored = import_snapshot(second_store, (OLDER / "snapshot.1.jsonl").read_bytes())
    assert (restored.added, restored.retrievals, restored.repository_maps) == (5, 1, 1)
    copied, original = take_snapshot(second_store), take_snapshot(store)
    (retrieval,) = copied.retrievals
    assert retrieval.memories == original.retrievals[0].memories
    # The turn that the file names is one of another run.
    assert replace(copied, retrievals=original.retrievals) == original


@pytest.mark.parametrize(
    ("without", "instead"),
    [(b'"text":"boom 0"', b'"text":"bomb 0"'), (b'"weight":1.0', b'"weight":2.0'), (b"", b" ")],
)
def test_an_old_snapshot_that_was_altered_gives_its_memories_alone(
    second_store: Store, tmp_path: Path, without: bytes, instead: bytes
) -> None:
    """One letter of a memory, of an edge or outside both: the file is a stranger's."""
    second_store.secret = KEY.secret
    altered = older("snapshot.1.jsonl", tmp_path, without=without, instead=instead)
    restored = import_snapshot(second_store, altered.read_bytes())
    assert (restored.added, restored.retrievals, restored.repository_maps) == (5, 0, 0)
    for memory in take_snapshot(second_store).memories:
        assert memory.source is MemorySource.IMPORT


@pytest.mark.parametrize(
    ("without", "instead", "line"),
    [
        (b'"edges":', b'"judgments":[],"edges":', 1),
        (b'"source":"explicit"', b'"source":"index"', 2),
        (b'{"id":"m_0', b'{"record":"memory","id":"m_0', 2),
    ],
)
def test_an_old_snapshot_keeps_the_gate_and_the_numbers_of_its_lines(
    second_store: Store, tmp_path: Path, without: bytes, instead: bytes, line: int
) -> None:
    """What was never in a snapshot is refused by the number that its line has in the file."""
    altered = older("snapshot.1.jsonl", tmp_path, without=without, instead=instead)
    with pytest.raises(UsageError, match=f"(snapshot:|line ){line}: "):
        import_snapshot(second_store, altered.read_bytes())
    assert take_snapshot(second_store).memories == ()


def test_old_judgments_are_imported_once(connection: Connection, tmp_path: Path) -> None:
    """Form 3 of judgments: signed with the machines' key they count, and an export may replace
    them."""
    file = older("judgments.3.xscore", tmp_path)
    assert import_judgments(connection, file, KEY).added == 3
    assert import_judgments(connection, file, KEY).added == 0
    rows = connection.execute("SELECT score, text FROM judgment JOIN reason USING (content_id)")
    assert sorted(rows) == [(0.0, "says 0"), (0.25, "says 1"), (0.5, "says 2")]
    assert may_replace_export(file)


def test_old_judgments_of_a_stranger_never_count(
    connection: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another key, an altered byte: refused before anything is unpacked. Without a key: into
    quarantine, within its bound."""
    file = older("judgments.3.xscore", tmp_path)
    with pytest.raises(StoreUntrusted, match=KEY.id):
        import_judgments(connection, file, OTHER)
    altered = file.with_name("altered")
    altered.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.raises(StoreUntrusted, match="altered"):
        import_judgments(connection, altered, KEY)
    with pytest.raises(UsageError):
        import_judgments(connection, altered, None)
    assert count_untrusted(connection) == 0
    assert import_judgments(connection, file, None).added == count_untrusted(connection) == 3
    assert connection.execute("SELECT count(*) FROM judgment").fetchone() == (0,)
    monkeypatch.setattr(judgment_files, "MAX_UNTRUSTED_ROWS", 2)
    with pytest.raises(UsageError, match="more than 2 judgments"):
        import_judgments(connection, file, None)


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("snapshot.1.jsonl", "xscore memory import --snapshot"),
        ("judgments.3.xscore", "xscore store import"),
    ],
)
def test_an_old_file_of_another_kind_is_named_as_what_it_is(
    second_store: Store, name: str, command: str
) -> None:
    """It is named like files of today: with the command that reads it, and nothing is
    stored."""
    with pytest.raises(UsageError, match="not a file of memories") as raised:
        import_lines(second_store, (OLDER / name).read_bytes(), name=name)
    assert command in raised.value.hint
    assert take_snapshot(second_store).memories == ()


def test_old_judgments_are_no_snapshot(second_store: Store) -> None:
    """The hint names the command that reads them."""
    with pytest.raises(UsageError) as raised:
        import_snapshot(second_store, (OLDER / "judgments.3.xscore").read_bytes())
    assert "xscore store import" in raised.value.hint

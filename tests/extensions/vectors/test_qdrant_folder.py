"""Qdrant in a folder that is damaged, old, in use, or not the user's alone."""

import asyncio
import signal
import subprocess
import sys
from contextlib import aclosing
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from tests.extensions.shared.server_programs import not_here
from tests.extensions.vectors.conftest import EMBEDDER, clustered, fill, searching
from xscore.extensions.vectors.pool_search import nearest_memories, send_copies
from xscore.extensions.vectors.search_backends import open_search, search_server_name
from xscore.extensions.vectors.vector_search import partition_of
from xscore.platform.errors import UsageError
from xscore.platform.file_lock import hold_lock
from xscore.records.memory import Memory
from xscore.store.store import Store
from xscore.store.vector_copies import uncopied_texts

pytestmark = pytest.mark.verify

QUERY = clustered(1)[0].astype(np.float32)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the vectors are; skipped without the package."""
    if find_spec("qdrant_edge") is None:
        not_here("qdrant-edge-py", "pip install '.[qdrant-edge]'")
    return tmp_path / "parent" / "qdrant"


async def _sent(store: Store, folder: Path) -> list[Memory]:
    """Fill the store and send its vectors."""
    memories = fill(store, clustered(30))
    settings = searching(f"qdrant:{folder}")
    assert await send_copies(store, settings, EMBEDDER, in_turn=False) == ""
    return memories


async def _is_whole_again(store: Store, folder: Path) -> None:
    """One search in the store, with a line; then the folder has all again."""
    settings = searching(f"qdrant:{folder}")
    exact = await nearest_memories(store, searching(""), EMBEDDER, QUERY, 10)
    in_store = await nearest_memories(store, settings, EMBEDDER, QUERY, 10)
    assert in_store.cosines == exact.cosines
    assert len(in_store.warnings) == 1
    assert await send_copies(store, settings, EMBEDDER, in_turn=True) == ""
    in_folder = await nearest_memories(store, settings, EMBEDDER, QUERY, 10)
    assert in_folder.cosines.keys() == exact.cosines.keys()
    assert in_folder.warnings == ()


@pytest.mark.parametrize("open_part", ["qdrant", "parent"])
async def test_a_folder_that_others_can_change_is_refused(
    store: Store, folder: Path, open_part: str
) -> None:
    """Qdrant trusts its files, so other users must not be able to add any."""
    await _sent(store, folder)
    opened = folder if open_part == "qdrant" else folder.parent
    assert opened.stat().st_mode & 0o777 == 0o700
    opened.chmod(0o770)
    with pytest.raises(UsageError) as refused:
        await nearest_memories(store, searching(f"qdrant:{folder}"), EMBEDDER, QUERY, 3)
    assert str(opened) in refused.value.message
    assert refused.value.hint


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("segment.json", b"nonsense"),
        ("segment.json", b""),
        # This one makes the engine panic, which is no Exception.
        ("status.dat", b""),
        ("config.json", b"nonsense"),
    ],
)
async def test_damaged_files_cost_one_line(
    store: Store, folder: Path, name: str, content: bytes
) -> None:
    """What cannot be opened is removed and sent again."""
    await _sent(store, folder)
    files = list(folder.rglob(name))
    assert files
    for file in files:
        file.write_bytes(content)
    await _is_whole_again(store, folder)


async def test_a_folder_over_which_processes_died_is_made_again(
    store: Store, folder: Path
) -> None:
    """Some damage ends the process that opens it; the third does not try."""
    await _sent(store, folder)
    (shard,) = folder.glob("xscore_*")
    (folder / f"opening-{shard.name}").write_bytes(b"..")
    await _is_whole_again(store, folder)


async def test_a_process_that_ended_while_it_opened_a_folder_costs_nothing(
    store: Store, folder: Path
) -> None:
    """It may only have been stopped: the next opens what is there."""
    await _sent(store, folder)
    (shard,) = folder.glob("xscore_*")
    (folder / f"opening-{shard.name}").write_bytes(b".")
    settings = searching(f"qdrant:{folder}")
    assert (await nearest_memories(store, settings, EMBEDDER, QUERY, 10)).warnings == ()
    assert not list(folder.glob("opening-*"))


async def test_the_loss_of_one_vector_is_noticed(store: Store, folder: Path) -> None:
    """A damaged folder may open with fewer vectors, more than are asked for."""
    await _sent(store, folder)
    settings = searching(f"qdrant:{folder}")
    search = open_search(settings, partition_of(store, EMBEDDER), timeout_s=5.0)
    assert search is not None
    (nearest, _) = (await search.search(QUERY.astype("<f2").tobytes(), 2))[0]
    assert await search.erase([nearest]) == 1
    await search.aclose()
    await _is_whole_again(store, folder)


async def test_packed_vectors_are_found_erased_and_added_to(
    store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once there are many, files are packed: the same search, no byte of what is erased, and what
    comes later is found beside them."""
    from xscore.extensions.vectors import qdrant_folder  # an extra

    monkeypatch.setattr(qdrant_folder, "PACKED_FROM_KB", 1)
    memories = await _sent(store, folder)
    assert list(folder.rglob("matrix.dat"))
    settings = searching(f"qdrant:{folder}")
    exact = await nearest_memories(store, searching(""), EMBEDDER, QUERY, 10)
    packed = await nearest_memories(store, settings, EMBEDDER, QUERY, 10)
    assert packed.warnings == ()
    assert packed.cosines.keys() == exact.cosines.keys()
    (nearest_id, *_) = exact.cosines
    text_hash = next(memory.text_hash for memory in memories if memory.id == nearest_id)
    store.connection.execute("DELETE FROM memory_row WHERE id = ?", (nearest_id,))
    fill(store, clustered(45)[30:], first=30)
    assert await send_copies(store, settings, EMBEDDER, in_turn=True) == ""
    contents = b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())
    assert bytes.fromhex(text_hash) not in contents
    exact = await nearest_memories(store, searching(""), EMBEDDER, QUERY, 44)
    packed = await nearest_memories(store, settings, EMBEDDER, QUERY, 44)
    assert packed.warnings == ()
    assert packed.cosines.keys() == exact.cosines.keys()
    assert len(exact.cosines) == 44


async def test_what_an_earlier_version_left_is_removed_unread(
    store: Store, folder: Path
) -> None:
    """The embedded mode of qdrant-client kept pickles; what is another program's stays."""
    await _sent(store, folder)
    (shard,) = folder.glob("xscore_*")
    old = folder / "collection" / shard.name
    old.mkdir(parents=True)
    (old / "storage.sqlite").write_bytes(b"SQLite format 3")
    foreign = folder / "collection" / "of_another"
    foreign.mkdir()
    exact = await nearest_memories(store, searching(""), EMBEDDER, QUERY, 10)
    in_folder = await nearest_memories(
        store, searching(f"qdrant:{folder}"), EMBEDDER, QUERY, 10
    )
    assert in_folder.cosines.keys() == exact.cosines.keys()
    assert not old.exists()
    assert foreign.exists()


async def test_a_folder_in_use_costs_one_line_and_no_outage(store: Store, folder: Path) -> None:
    """While another process has it, the store is searched; the next turn uses the folder."""
    await _sent(store, folder)
    settings = searching(f"qdrant:{folder}")
    with hold_lock(folder / "xscore.lock", hint=""):
        in_store = await nearest_memories(store, settings, EMBEDDER, QUERY, 10)
    assert len(in_store.warnings) == 1
    assert (await nearest_memories(store, settings, EMBEDDER, QUERY, 10)).warnings == ()


_KILLED_AT = """
import asyncio, os, signal, sys
from pathlib import Path
from tests.extensions.vectors.conftest import EMBEDDER, searching
from xscore.extensions.vectors import pool_search
from xscore.extensions.vectors.qdrant_folder import QdrantFolder
from xscore.platform.paths import find_root
from xscore.store.store import Store

def kill(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

root, user_dir, folder, point = sys.argv[1:]
if point == "before":
    QdrantFolder.upsert = kill
else:
    pool_search.confirm_copies = kill
with Store.open(find_root(Path(root)), user_data_dir=Path(user_dir), trust=True) as store:
    settings = searching(f"qdrant:{folder}")
    asyncio.run(pool_search.send_copies(store, settings, EMBEDDER, in_turn=False))
"""


@pytest.mark.parametrize("point", ["before", "after"])
def test_a_kill_around_the_sending_loses_and_doubles_nothing(
    store: Store, folder: Path, user_dir: Path, point: str
) -> None:
    """Killed once the vectors are in the store, before they are sent or before that is noted: the
    next turn sends them, and each is there once."""
    memories = fill(store, clustered(30))
    command = [
        sys.executable,
        "-c",
        _KILLED_AT,
        str(store.root.path),
        str(user_dir),
        str(folder),
    ]
    killed = subprocess.run([*command, point], check=False)
    assert killed.returncode == -signal.SIGKILL
    settings = searching(f"qdrant:{folder}")
    assert len(uncopied_texts(store.connection, EMBEDDER, search_server_name(settings))) == 30
    assert asyncio.run(send_copies(store, settings, EMBEDDER, in_turn=True)) == ""
    likeness = asyncio.run(nearest_memories(store, settings, EMBEDDER, QUERY, 30))
    assert likeness.warnings == ()
    assert likeness.cosines.keys() == {memory.id for memory in memories}


_KILLED = """
import sys
from pathlib import Path
import asyncio
from tests.extensions.vectors.conftest import clustered
from xscore.extensions.vectors.qdrant_folder import QdrantFolder
from xscore.extensions.vectors.vector_search import VectorPartition
from xscore.store.vector_copies import CopiedVector

partition = VectorPartition(member="", repository="", embedder="")

async def send():
    folder = QdrantFolder(sys.argv[1], partition, name="it")
    rows = clustered(20_000)
    for start in range(0, len(rows), 100):
        part = [CopiedVector(f"{at:032x}", rows[at].tobytes()) for at in range(start, start + 100)]
        await folder.upsert(part, is_last=False)
        print(start + 100, flush=True)

asyncio.run(send())
"""


def test_what_was_confirmed_before_a_kill_is_there(folder: Path) -> None:
    """A process that is killed while it stores loses nothing that was confirmed as stored."""
    from xscore.extensions.vectors.qdrant_folder import QdrantFolder  # an extra
    from xscore.extensions.vectors.vector_search import VectorPartition

    command = [sys.executable, "-c", _KILLED, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        stored = [int(writer.stdout.readline()) for _ in range(5)]
        writer.send_signal(signal.SIGKILL)
        stored += [int(line) for line in writer.stdout.read().splitlines()]
    last = stored[-1]
    query = clustered(20_000)[last - 1].tobytes()

    async def looked_up() -> tuple[int, list[tuple[str, float]]]:
        partition = VectorPartition(member="", repository="", embedder="")
        async with aclosing(QdrantFolder(str(folder), partition, name="it")) as search:
            return await search.count(), await search.search(query, 1)

    count, nearest = asyncio.run(looked_up())
    assert count >= last
    assert nearest[0][0] == f"{last - 1:032x}"

"""One store for all worktrees of a repository: what each sees, what they share, and what goes with
one."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.conftest import git
from tests.proof.linked_worktrees import MAIN, TEXTS, Worktrees, held, index, unsound
from tests.store.cited_decisions import CODE, decide, refresh, write
from xscore.platform.git_folder import working_branch
from xscore.platform.sqlite_drivers import open_plain
from xscore.records.candidates import Slot
from xscore.records.memory import MemoryStatus
from xscore.records.turn import Turn
from xscore.store import file_versions, index_rows, memory_views, memory_writer
from xscore.store.graph import follow_links
from xscore.store.lookup import find_memories
from xscore.store.mention_links import link_mentions
from xscore.store.opening import connect_store
from xscore.store.pack_slot_rows import load_pack_slots, save_pack_slots
from xscore.store.store import Store
from xscore.store.turns import TurnStart, begin_turn, count_use, latest_turn_id
from xscore.store.worktrees import NOWHERE, enter_worktree, worktree_number

COUNT = "SELECT count(*) FROM memory_row"
"""SQL that counts the memories of all worktrees."""


@pytest.fixture
def world(tmp_path: Path) -> Worktrees:
    """A repository with one linked worktree."""
    worktrees = Worktrees(tmp_path)
    worktrees.add("second")
    return worktrees


@pytest.fixture
def stores(world: Worktrees) -> Iterator[tuple[Store, Store]]:
    """The store, opened from the main worktree and from the linked one, and indexed in both."""
    with ExitStack() as stack:
        first, second = (stack.enter_context(world.open(name)) for name in (MAIN, "second"))
        index(first)
        index(second)
        yield first, second


def test_the_same_bytes_are_stored_once(stores: tuple[Store, Store]) -> None:
    """A second worktree with the same files adds no memory, and its index holds the same."""
    first, second = stores
    memories = first.connection.execute("SELECT count(*) FROM memory").fetchone()
    assert first.connection.execute(COUNT).fetchone() == memories
    assert held(first.connection) == held(second.connection)
    assert worktree_number(first.connection) != worktree_number(second.connection)


def test_an_edit_is_seen_where_it_was_made(
    world: Worktrees, stores: tuple[Store, Store]
) -> None:
    """A changed file has new memories in its worktree and the old ones elsewhere; a merge takes
    what is known."""
    first, second = stores
    before = held(first.connection)
    world.write("second", "pkg/b.py", TEXTS["pkg/b.py"][1])
    index(second)
    assert held(first.connection) == before
    assert {memory.entity for memory in find_memories(second, "pkg/b.py")} > {
        memory.entity for memory in find_memories(first, "pkg/b.py")
    }
    count = first.connection.execute(COUNT).fetchone()
    world.write(MAIN, "pkg/b.py", TEXTS["pkg/b.py"][1])
    index(first)
    assert held(first.connection) == held(second.connection)
    assert first.connection.execute(COUNT).fetchone() < count
    assert unsound(first.connection) == {}


def test_uses_belong_to_a_memory_in_all_its_versions(
    world: Worktrees, stores: tuple[Store, Store]
) -> None:
    """A version made by an edit begins with the counts of the others, and a use anywhere counts in
    each."""
    first, second = stores
    (run,) = find_memories(first, "pkg/b.py::run")
    count_use(first.connection, [run.id], now=5.0)
    world.write("second", "pkg/b.py", TEXTS["pkg/b.py"][1])
    index(second)
    (seen_in_second,) = find_memories(second, "pkg/b.py::run")
    assert seen_in_second.id == run.id
    assert seen_in_second.access_count == 1
    assert seen_in_second.accessed_at == 5.0
    world.write(MAIN, "pkg/b.py", TEXTS["pkg/b.py"][2])
    index(first)
    (walk,) = find_memories(first, "pkg/b.py::walk")
    assert walk.created_at == second.memories([walk.id])[walk.id].created_at
    world.write(MAIN, "pkg/b.py", TEXTS["pkg/b.py"][0])
    index(first)
    count_use(second.connection, [run.id], now=6.0)
    assert [store.memories([run.id])[run.id].access_count for store in stores] == [2, 2]


def test_what_is_stated_is_in_every_worktree(
    world: Worktrees, stores: tuple[Store, Store]
) -> None:
    """A decision is linked to the code that it names in each worktree, as that has it."""
    first, second = stores
    world.write("second", "pkg/b.py", TEXTS["pkg/b.py"][1])
    index(second)
    decision = decide(first, title="`walk` stays pure")
    with first.transaction():
        link_mentions(first.connection, [decision.id])
    index(second)
    assert first.memories([decision.id]) == second.memories([decision.id])
    assert follow_links(first.connection, "related", decision.id) == ()
    assert [
        node.entity for node in follow_links(second.connection, "related", decision.id)
    ] == ["walk"]


def test_a_memory_is_stale_where_its_code_has_changed(
    world: Worktrees, stores: tuple[Store, Store]
) -> None:
    """Two worktrees at work at the same time: stale in one, active in the other, each with what a
    judge is shown."""
    first, second = stores
    for store in stores:
        write(store)
    decision = decide(first, "a.py:4-5")
    write(second, CODE.replace("n + 1", "n + 2"))
    for _ in range(2):
        refresh(first)
        refresh(second)
        active, stale = (store.memories([decision.id])[decision.id] for store in stores)
        assert (active.status, stale.status) == (MemoryStatus.ACTIVE, MemoryStatus.STALE)
        pools = [{candidate.id: candidate for candidate in store.pool()} for store in stores]
        assert [pool[decision.id].content_hash for pool in pools] == [
            active.content_hash,
            stale.content_hash,
        ]
        shown = [
            store.texts([pool[decision.id]])[decision.id]
            for store, pool in zip(stores, pools, strict=True)
        ]
        assert [text.startswith(memory_views.STALE_MARK) for text in shown] == [False, True]
    assert refresh(second) == refresh(first)
    write(second)
    assert refresh(second).active == (decision.id,)
    assert unsound(first.connection) == {}


def test_a_changed_statement_is_checked_in_each_worktree(
    world: Worktrees, stores: tuple[Store, Store]
) -> None:
    """A stale memory that is written again stays stale here; its hashes are those of its new
    text."""
    first, second = stores
    for store in stores:
        write(store)
    decision = decide(first, "a.py:4-5")
    write(second, "gone\n")
    refresh(second)
    before = second.memories([decision.id])[decision.id]
    changed, _ = memory_writer.remake_memory(before, allow_pii=False, text="Retry thrice.")
    with second.transaction():
        memory_writer.put_memories(second.connection, [changed])
    versions = [store.memories([decision.id])[decision.id] for store in stores]
    assert [version.status for version in versions] == [MemoryStatus.ACTIVE, MemoryStatus.STALE]
    assert [
        memory_writer.with_status(version, version.status) for version in versions
    ] == versions
    assert [version.text for version in versions] == ["Retry thrice."] * 2
    assert unsound(first.connection) == {}


def test_a_removed_worktree_leaves_nothing(
    world: Worktrees, stores: tuple[Store, Store]
) -> None:
    """The next index run after `git worktree remove` deletes what only that worktree had."""
    first, second = stores
    world.write("second", "pkg/b.py", TEXTS["pkg/b.py"][1])
    index(second)
    save_pack_slots(second.connection, "p", {"m_a": Slot("pack", 1)})
    second.close()
    before = held(first.connection)
    world.remove("second")
    index(first)
    assert first.connection.execute("SELECT name FROM worktree").fetchall() == [("",)]
    assert first.connection.execute("SELECT count(*) FROM pack_slot").fetchone() == (0,)
    assert (held(first.connection), unsound(first.connection)) == (before, {})
    assert first.connection.execute(COUNT).fetchone() == (len(before[0]),)


def test_damage_does_not_spread(world: Worktrees) -> None:
    """A version whose memories do not match their hashes is parsed again, which mends it for
    all."""
    with world.open(MAIN) as first, world.open("second") as second:
        index(first)
        sound = held(first.connection)
        first.connection.execute(
            "UPDATE memory_view SET hash = 'x' WHERE memory IN (SELECT number FROM memory_row WHERE"
            " path = 'pkg/b.py')"
        )
        index(second)
        assert held(second.connection) == held(first.connection) == sound


def test_a_worktree_has_its_own_latest_turn_and_packs(stores: tuple[Store, Store]) -> None:
    """What was asked in another worktree is not the latest here, and its packs are not ours."""
    turns = []
    for store in stores:
        turn = begin_turn(
            store.connection, Turn(task="why?"), TurnStart(turn_key="k", judge="j"), now=1.0
        )
        turns.append(turn)
        save_pack_slots(store.connection, "p", {f"m_{turn}": Slot("pack", 1)})
    assert [latest_turn_id(store.connection) for store in stores] == turns
    for store in stores:
        store.connection.execute("DELETE FROM worktree_meta WHERE key = 'latest_turn'")
    assert [latest_turn_id(store.connection) for store in stores] == turns
    slots = [load_pack_slots(store.connection, "p") for store in stores]
    assert slots == [{f"m_{turn}": Slot("pack", 1)} for turn in turns]


def test_detached_heads_share_no_session(world: Worktrees, stores: tuple[Store, Store]) -> None:
    """The name under which a detached head's session goes on is that of its worktree alone."""
    git(world.folder / MAIN, "checkout", "-q", "--detach")
    assert len({working_branch(store.root.git_dir) for store in stores}) == 2


def test_opening_waits_for_no_writer(tmp_path: Path) -> None:
    """A worktree that the store does not know yet is shown without files while another process
    writes."""
    path = tmp_path / "memory.db"
    with closing(connect_store(path)) as first, closing(connect_store(path)) as second:
        enter_worktree(first)
        first.execute("BEGIN IMMEDIATE")
        assert enter_worktree(second, "second") == NOWHERE
        assert index_rows.file_stamps(second) == {}
        first.execute("ROLLBACK")
        assert enter_worktree(second, "second") == worktree_number(second) == 2


def test_a_store_that_cannot_be_written_is_shown(tmp_path: Path) -> None:
    """Entering an unknown worktree of a read-only store raises nothing."""
    path = tmp_path / "memory.db"
    connect_store(path).close()
    with closing(open_plain(path, read_only=True)) as connection:
        assert enter_worktree(connection, "second") == NOWHERE


def test_vacuum_and_analysis_work_despite_the_views(stores: tuple[Store, Store]) -> None:
    """No temporary view hides a table from SQLite's own statements."""
    for statement in ("VACUUM", "PRAGMA integrity_check", "REINDEX"):
        stores[0].connection.execute(statement).fetchall()
    assert file_versions.is_sound(
        stores[0].connection,
        "pkg/b.py",
        file_versions.listed_version(stores[0].connection, "pkg/b.py"),
    )

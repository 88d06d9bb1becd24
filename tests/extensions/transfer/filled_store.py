"""A store with memories, a decision, a failure, a citation, an index and a turn."""

from collections.abc import Iterator

import msgspec

from tests.statements import decide
from tests.store.conftest import function
from tests.store.recorded_turns import begin, finish
from xscore.extensions.transfer.memory_lines import exported_memories
from xscore.platform import database
from xscore.records.turn import Turn
from xscore.store import failures, memory_writer
from xscore.store.citing import parse_citation
from xscore.store.lookup import MemoryFilter
from xscore.store.store import Store
from xscore.store.turns import SelectionOutcome

NOW = 1_000.0


def fill(store: Store) -> None:
    """Remember, decide, fail, cite, index and take a turn."""
    (store.root.path / "a.py").write_text("x = 1\ny = 2\n")
    with database.transaction(store.connection):
        memory_writer.put_memories(store.connection, [function("f")])
        store.connection.execute(
            "INSERT INTO file_row (worktree, path, size, mtime_ns, file_hash) VALUES (1, 'a.py', 1,"
            " 1, 'aa')"
        )
    decide(
        store,
        "see `a.py`",
        key="k",
        citations=[parse_citation(store.root, "a.py:1-2")],
        now=1.0,
    )
    memory = decide(store, "look at `a.py`", key="k", because="so", now=2.0).memory
    for number in range(3):
        failures.record_failure(store, text=f"boom {number}", seen_at=float(number))
    turn = Turn(task="do it", thread="s_1")
    identifier = begin(store, turn, "tk", now=4.0)
    selection_outcome = SelectionOutcome((memory.id, function("f").id), {})
    finish(store, identifier, "done", selection_outcome=selection_outcome, now=5.0)


def export_lines(store: Store, choice: MemoryFilter) -> Iterator[str]:
    """Yield the lines of the chosen memories as `memory export` writes them, without the first."""
    return (msgspec.json.encode(memory).decode() for memory in exported_memories(store, choice))

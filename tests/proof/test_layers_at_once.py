"""Two processes write to one store and one user store, a third reads: no lock errors, no lost
memory.

Each writer says, updates, erases, consolidates, asks and imports past sessions, in a loop; they
share keys and the words of one memory, and everything else is their own. The clock is fixed, so
that nothing wears out meanwhile.
"""

import asyncio
import json
import multiprocessing
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

import pytest

from tests.conftest import store_file
from tests.proof.layers_writes import (
    RULES,
    AddMemory,
    Consolidate,
    Edit,
    Erase,
    Fail,
    opened,
    perform,
)
from tests.statements import list_decisions
from tests.waiting import rows_of_file, wait_until
from xscore.extensions.sessions.importing import import_sessions
from xscore.extensions.sessions.session_reader import AgentFolders
from xscore.pipeline.build import Pipeline
from xscore.records.memory import Kind, Layer
from xscore.records.receipt import Answer
from xscore.records.turn import Turn
from xscore.settings import (
    IndexSettings,
    JudgeSettings,
    PrimarySettings,
    Settings,
    StoreSettings,
)
from xscore.store.session_summary import exchange_memory_id
from xscore.store.store import Store

pytestmark = pytest.mark.verify

NOW = 1_700_000_000.0
ROUNDS = 6
SHARED = "Both of them say this one"
FAILURE = "OSError: both of them met this"
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["tests.proof.layers_writes", "numpy"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with code, a past Aider session, a judge's script; and both stores, created."""
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "code.py").write_text("def load():\n    return 1\n")
    exchange = (
        "\n"
        "# aider chat started at 2023-11-01 10:00:00\n\n"
        "#### why is {0} slow?\n\n"
        "Because {0} waits.\n"
    )
    history = "".join(exchange.format(f"part{number}") for number in range(8))
    (tmp_path / "project" / ".aider.chat.history.md").write_text(history)
    (tmp_path / "script.json").write_text(json.dumps({"default": 0.9, "answer": "It is so."}))
    with opened(tmp_path, now=NOW) as store:
        perform(store, AddMemory(Kind.PREFERENCE, "short", "tone", layer=Layer.USER), now=NOW)
    return tmp_path


def write(folder: Path, name: str) -> None:
    """Write to both stores in a loop; at the end report which memories must be there and which must
    not."""
    kept: dict[str, str] = {}
    gone: list[str] = []
    used: dict[str, list[str]] = {}
    for number in range(ROUNDS):
        with opened(folder, now=NOW) as store:
            mine = [
                perform(
                    store,
                    AddMemory(Kind.DECISION, f"{name} decides {number} {purpose}"),
                    now=NOW,
                ).memory.id
                for purpose in ("to stay", "to change", "to go")
            ]
            perform(
                store,
                AddMemory(Kind.DECISION, f"{name} wants the key in {number}", key="shared"),
                now=NOW,
            )
            perform(store, AddMemory(Kind.CONTEXT, SHARED), now=NOW)
            perform(
                store,
                AddMemory(
                    Kind.CONVENTION, f"{name} likes {number}", key="habit", layer=Layer.USER
                ),
                now=NOW,
            )
            perform(store, Fail(FAILURE), now=NOW)
            perform(store, Edit(mine[1], f"{name} has changed {number}"), now=NOW)
            perform(store, Erase((mine[2],)), now=NOW)
            import_sessions(store, AgentFolders(folder / "home", {}, store.root.path), now=NOW)
            perform(store, Consolidate(("session", "project", "user")), now=NOW)
        kept |= {
            mine[0]: f"{name} decides {number} to stay",
            mine[1]: f"{name} has changed {number}",
        }
        gone.append(mine[2])
        answer = asyncio.run(_ask(folder, f"{name} asks {number}"))
        used[answer.turn_id] = [memory.id for memory in answer.selected]
    report = {"kept": kept, "gone": gone, "used": used}
    (folder / f"{name}.json").write_text(json.dumps(report))


async def _ask(folder: Path, task: str) -> Answer:
    script = f"scripted:{folder / 'script.json'}"
    settings = Settings(
        judge=JudgeSettings(model=script),
        primary=PrimarySettings(model=script),
        index=IndexSettings(git=False),
        memory=RULES,
        store=StoreSettings(user_data_dir=folder / "user"),
    )
    async with Pipeline.open(folder / "project", settings, clock=lambda: NOW) as pipeline:
        answer = await pipeline.ask(Turn(task=task, thread=f"s_{task.split(maxsplit=1)[0]}"))
    got = answer.coverage
    # the other writer may erase a memory between the look at the pool and the judging: it is
    # unjudged, and says so
    erased = [
        absent
        for absent in answer.unjudged.sample
        if absent.detail == "it left the store before it was judged"
    ]
    assert answer.exit_code == min(len(erased), 1) and got.unjudged == len(erased), (
        got,
        answer.unjudged,
    )
    assert got.candidates == got.judged + got.cached + got.carried + got.unjudged
    return answer


def read(folder: Path) -> None:
    """Read the pool, whole memories and texts, until both are done: always a consistent state,
    never an error."""
    while not (folder / "done").exists():
        with opened(folder, now=NOW) as store:
            for _ in range(5):
                _look(store)
                (folder / "looked").touch()


def _look(store: Store) -> None:
    pool = store.pool()
    store.texts(pool)
    contents = [memory.content_hash for memory in pool]
    assert len(contents) == len(set(contents)), "one content twice in a pool"
    shared = [memory for memory in list_decisions(store) if memory.key == "shared"]
    assert len(shared) <= 1, "two are in force for one key"


def check_integrity(*stores: Path) -> None:
    """Fail if a store is damaged, or a key has two active memories."""
    active = "SELECT layer, scope, key FROM memory WHERE status = 'active' AND key <> ''"
    for path in stores:
        assert rows_of_file(path, "PRAGMA integrity_check") == [("ok",)]
        assert rows_of_file(path, "PRAGMA foreign_key_check") == []
        assert len(rows_of_file(path, active)) == len(set(rows_of_file(path, active)))


@pytest.mark.timeout(180)
def test_two_write_and_one_reads(folder: Path) -> None:
    """No lock error occurs, what each wrote is there, what each erased is not, and each key has one
    active memory."""
    writers = [_processes.Process(target=write, args=(folder, name)) for name in ("ann", "bob")]
    reading = _processes.Process(target=read, args=(folder,))
    reading.start()
    wait_until((folder / "looked").exists, otherwise="nothing was read")
    for process in writers:
        process.start()
    for process in writers:
        process.join(150)
    (folder / "done").touch()
    reading.join(60)
    assert [process.exitcode for process in (reading, *writers)] == [0, 0, 0]
    project_file, user = store_file(folder / "project"), folder / "user" / "user.db"
    check_integrity(project_file, user)
    texts = dict(rows_of_file(project_file, "SELECT id, text FROM memory"))
    gone = set[str]()
    used = dict[str, list[str]]()
    for name in ("ann", "bob"):
        reported = json.loads((folder / f"{name}.json").read_text())
        assert reported["kept"].items() <= texts.items()
        assert texts.keys().isdisjoint(reported["gone"])
        gone.update(reported["gone"])
        used |= reported["used"]
    counted = "SELECT evidence_count FROM memory WHERE text = '{}'"
    assert rows_of_file(project_file, counted.format(SHARED)) == [(2 * ROUNDS,)]
    assert rows_of_file(project_file, counted.format(FAILURE)) == [(2 * ROUNDS,)]
    imported = rows_of_file(
        project_file, "SELECT text FROM memory WHERE source = 'import' AND kind = 'exchange'"
    )
    assert len(imported) == len(set(imported)) == 8
    assert len(used) == 2 * ROUNDS
    check_exchanges(project_file, used, texts.keys(), gone)
    habits = "SELECT id FROM memory WHERE key = 'habit' AND status = 'active'"
    assert len(rows_of_file(user, habits)) == 1
    assert rows_of_file(project_file, "SELECT * FROM claim") == []
    assert rows_of_file(project_file, "SELECT * FROM reservation") == []


def check_exchanges(
    store: Path, used: Mapping[str, Sequence[str]], present: AbstractSet[str], gone: set[str]
) -> None:
    """Fail if the exchange of a turn is gone without a reason.

    used: ids of the memories that a turn's answer was made with, by turn.
    gone: ids of the memories that a writer erased.
    """
    turn_keys = dict(rows_of_file(store, "SELECT id, turn_key FROM turn"))
    exchange_ids = {exchange_memory_id(turn_keys[turn_id]): turn_id for turn_id in used}
    # The other writer may erase a memory that an answer was made with: that answer goes with it,
    # and so does every answer that was made with its exchange.
    for exchange, turn_id in exchange_ids.items():
        sources = set(used[turn_id])
        assert exchange in present or sources & (gone | (exchange_ids.keys() - present))

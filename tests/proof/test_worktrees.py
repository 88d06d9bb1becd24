"""Worktrees of one repository share a store, and each has the index that a store of its own would
give it.

Hypothesis edits files in any worktree, indexes, states decisions, adds and removes worktrees, in
any order; after each index run the rows are compared with those of a fresh store. Processes index
at the same time and are killed.
"""

import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.proof.linked_worktrees import LINKED, MAIN, TEXTS, Worktrees, index
from xscore.platform import database
from xscore.records.memory import Kind, Layer
from xscore.records.statement import Statement
from xscore.store.mention_links import relink_mentions
from xscore.store.remembering import remember

NTH = st.integers(0, 5)
REFERENCES = (
    "SELECT source, target FROM edge WHERE path = '' AND relation = 'references' ORDER BY 1, 2"
)
SAID = (
    "`first` is called once",
    "never change pkg/b.py::run",
    "`walk` and `other` belong to pkg/a.py",
)


class Machine(RuleBasedStateMachine):
    """A main worktree and up to two linked ones."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="xscore-worktrees-"))
        self.world = Worktrees(self.folder)
        self.said = set[str]()

    @initialize()
    def begin(self) -> None:
        """Index the main worktree, and add one."""
        self.index(nth=0)
        self.add()

    @rule(nth=NTH, path=st.sampled_from(sorted(TEXTS)), text=st.integers(-1, 2))
    def edit(self, *, nth: int, path: str, text: int) -> None:
        """Write or remove a file in some worktree."""
        names, texts = self.world.names, TEXTS[path]
        self.world.write(
            names[nth % len(names)], path, texts[text % len(texts)] if text >= 0 else None
        )

    @rule(nth=NTH)
    def index(self, *, nth: int) -> None:
        """Index a worktree: it holds what a store of it alone would, and what is stated names what
        it has."""
        name = self.world.names[nth % len(self.world.names)]
        with self.world.open(name) as store:
            index(store)
            self.world.check(name, store)
            linked = store.connection.execute(REFERENCES).fetchall()
            with database.transaction(store.connection):
                relink_mentions(store.connection, None)
            assert linked == store.connection.execute(REFERENCES).fetchall()

    @rule(nth=NTH, words=st.sampled_from(SAID))
    def say(self, *, nth: int, words: str) -> None:
        """State a decision in one worktree: every worktree has it."""
        with self.world.open(self.world.names[nth % len(self.world.names)]) as store:
            remember(
                store,
                Statement(text=words, layer=Layer.GOVERNANCE, kind=Kind.DECISION),
                now=time.time(),
            )
        self.said.add(words)
        for name in self.world.names:
            with self.world.open(name) as store:
                rows = store.connection.execute(
                    "SELECT text FROM memory WHERE kind = 'decision'"
                ).fetchall()
                assert {text for (text,) in rows} == self.said

    @precondition(lambda self: len(self.world.names) <= len(LINKED))
    @rule()
    def add(self) -> None:
        """Add a worktree."""
        self.world.add(next(name for name in LINKED if name not in self.world.names))

    @precondition(lambda self: len(self.world.names) > 1)
    @rule(nth=NTH)
    def remove(self, *, nth: int) -> None:
        """Remove a linked worktree; the next index run of any forgets it."""
        linked = self.world.names[1:]
        self.world.remove(linked[nth % len(linked)])

    def teardown(self) -> None:
        """Index what is left."""
        for nth in range(len(self.world.names)):
            self.index(nth=nth)
        shutil.rmtree(self.folder)


def run(examples: int, steps: int) -> None:
    """Run the machine; its choices are random only under `make nightly`."""
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_each_worktree_has_its_own_index() -> None:
    """After any few edits, statements and changes of worktrees, each holds what a store of it alone
    would."""
    run(4, 12)


@pytest.mark.verify
def test_each_worktree_has_its_own_index_after_many_changes() -> None:
    """The same for long sequences."""
    run(12, 30)


INDEX = """
import sys, time
from pathlib import Path
from xscore.indexer.index import index_repository
from xscore.platform.paths import find_root
from xscore.settings import IndexSettings
from xscore.store.store import Store
root = find_root(Path(sys.argv[1]))
with Store.open(root, user_data_dir=Path(sys.argv[2])) as store:
    print("open", flush=True)
    for _ in range(int(sys.argv[3])):
        index_repository(store.connection, root, IndexSettings(), now=time.time() + 3600)
"""


def indexing(world: Worktrees, name: str, times: int = 1) -> subprocess.Popen[bytes]:
    """Start a process that indexes a worktree."""
    command = [
        sys.executable,
        "-c",
        INDEX,
        str(world.folder / name),
        str(world.user_dir),
        str(times),
    ]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_worktrees_are_indexed_at_the_same_time(tmp_path: Path) -> None:
    """Processes that index three new worktrees at once wait for each other and leave each with its
    own index."""
    world = Worktrees(tmp_path)
    for name in LINKED:
        world.add(name)
        world.write(name, "pkg/b.py", TEXTS["pkg/b.py"][1])
    world.write("third", "pkg/a.py", TEXTS["pkg/a.py"][2])
    with world.open(MAIN) as store:
        index(store)
    processes = [indexing(world, name, 2) for name in world.names]
    for process in processes:
        _, problem = process.communicate(timeout=60)
        assert process.returncode == 0, problem.decode()
    for name in world.names:
        with world.open(name) as store:
            world.check(name, store)


@pytest.mark.verify
def test_a_killed_index_run_harms_no_worktree(tmp_path: Path) -> None:
    """Whenever runs in two worktrees are killed, the store is sound, and the next runs finish
    both."""
    world, chance = Worktrees(tmp_path), random.Random(7)
    world.add("second")
    for _ in range(25):
        for name in world.names:
            for path, texts in TEXTS.items():
                world.write(name, path, chance.choice([None, *texts]))
        processes = [indexing(world, name) for name in world.names]
        for process in processes:
            assert process.stdout is not None and process.stdout.readline() == b"open\n"
        time.sleep(chance.uniform(0, 0.06))
        for process in processes:
            process.send_signal(signal.SIGKILL)
            process.communicate()
        for name in world.names:
            with world.open(name) as store:
                index(store)
                world.check(name, store)

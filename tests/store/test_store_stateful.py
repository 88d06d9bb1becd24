"""The store under random use: put, edit, remove, reopen, judge, prune."""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.cache.conftest import write_judgments
from tests.store.conftest import function
from xscore.cache.judgments import read_judgments
from xscore.cache.keys import judge_key
from xscore.cache.prune import prune_judgments
from xscore.platform import database
from xscore.platform.paths import find_root
from xscore.records.judgment import JudgeIdentity, Judgment
from xscore.records.memory import Memory, MemoryStatus
from xscore.store import memory_writer
from xscore.store.store import Store

JUDGE = JudgeIdentity("scripted", "-", "m", "", "judge-2", "memory_first", True)
NAMES = st.sampled_from(["a", "b", "c", "d"])
TEXTS = st.sampled_from(["one", "two", "three"])
TURNS = st.sampled_from(["t1", "t2"])


class StoreMachine(RuleBasedStateMachine):
    """Compares the store with a dict of memories and a dict of judgments."""

    def __init__(self) -> None:
        super().__init__()
        self.place = Path(tempfile.mkdtemp())
        self.memories: dict[str, Memory] = {}
        self.judged: dict[tuple[str, str], float] = {}
        self.store = self._open()
        self.store.connection.execute("INSERT INTO meta VALUES ('index_profile', '')")

    def _open(self) -> Store:
        (self.place / "project").mkdir(exist_ok=True)
        return Store.open(find_root(self.place / "project"), user_data_dir=self.place / "user")

    def teardown(self) -> None:
        """Close and clear away."""
        self.store.close()
        shutil.rmtree(self.place)

    @rule(name=NAMES, text=TEXTS, card=st.sampled_from(["", "card"]), ordinal=st.integers(0, 1))
    def put(self, name: str, text: str, card: str, ordinal: int) -> None:
        """Write or edit a memory."""
        memory = function(name, text=text, card=card, ordinal=ordinal)
        with database.transaction(self.store.connection):
            memory_writer.put_memories(self.store.connection, [memory])
        self.memories[memory.id] = memory

    @rule(name=NAMES)
    def go_stale(self, name: str) -> None:
        """Mark a memory as stale."""
        known = self.memories.get(function(name).id)
        if known is not None:
            stale = memory_writer.with_status(known, MemoryStatus.STALE)
            with database.transaction(self.store.connection):
                memory_writer.put_memories(self.store.connection, [stale])
            self.memories[stale.id] = stale

    @rule(name=NAMES)
    def remove(self, name: str) -> None:
        """Remove a memory."""
        identifier = function(name).id
        self.store.connection.execute("DELETE FROM memory WHERE id = ?", (identifier,))
        self.memories.pop(identifier, None)

    @rule(turn=TURNS, score=st.integers(0, 100))
    def judge(self, turn: str, score: int) -> None:
        """Judge the whole pool; what is known already stays as it was judged first."""
        pool = self.store.pool()
        write_judgments(
            self.store.connection,
            [Judgment(one.content_hash, score / 100) for one in pool],
            (turn, judge_key(JUDGE), 0),
        )
        for one in pool:
            self.judged.setdefault((turn, one.content_hash), score / 100)

    @rule()
    def sweep(self) -> None:
        """Prune what no memory shows any more."""
        shown = {digest for memory in self.memories.values() for digest in (memory.content_hash, memory.text_hash)}
        prune_judgments(self.store.connection)
        self.judged = {key: score for key, score in self.judged.items() if key[1] in shown}

    @rule()
    def reopen(self) -> None:
        """Close and open again."""
        self.store.close()
        self.store = self._open()

    @invariant()
    def the_pool_is_the_live_memories(self) -> None:
        """Every live memory is a candidate or a named twin of one, with its hash."""
        pool = self.store.pool()
        ids = [identifier for one in pool for identifier in (one.id, *one.duplicates)]
        assert sorted(ids) == sorted(self.memories)
        assert {one.content_hash for one in pool} == {memory.content_hash for memory in self.memories.values()}
        assert len({one.content_hash for one in pool}) == len(pool)

    @invariant()
    def no_judgment_is_lost_or_changed(self) -> None:
        """What was judged is known, with the score of its first judgment."""
        for turn in ("t1", "t2"):
            known = read_judgments(self.store.connection, (turn, judge_key(JUDGE), 0))
            wanted = {digest: score for (name, digest), score in self.judged.items() if name == turn}
            assert {digest: judgment.score for digest, judgment in known.items()} == wanted

    @invariant()
    def counts_are_right(self) -> None:
        """The count of each content is the number of live memories that show it."""
        counts = dict(self.store.connection.execute("SELECT hash, memories FROM content").fetchall())
        expected: dict[str, int] = dict.fromkeys(counts, 0)
        for memory in self.memories.values():
            for digest in {memory.content_hash, memory.text_hash}:
                expected[digest] += 1
        assert counts == expected


TestStoreMachine = pytest.mark.verify(StoreMachine.TestCase)
TestStoreMachine.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)

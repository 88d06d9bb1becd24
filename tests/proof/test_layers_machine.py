"""Any statements, changes, erasures, learning, turns and interruptions, in any order: none lost,
none left over.

Hypothesis works on a real project and a real user's store, under a clock that it sets, and on a
model in a plain dict (`layers_model`); after each step both stores are held against it
(`layers_checks`). A write may be killed at any moment: then each store is as before or after
one of its transactions, and done again it is finished.
"""

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from tests.proof import layers_checks as checks
from tests.proof.layers_asks import Ask, AskedTurns, take
from tests.proof.layers_model import (
    ERRORS,
    KEYS,
    SENTENCES,
    WORDS,
    ExpectedMemory,
    Model,
    word_in,
)
from tests.proof.layers_world import DAY, FUNCTIONS, World, rows_of
from tests.proof.layers_writes import (
    AddMemory,
    CheckEvidence,
    Consolidate,
    Edit,
    Erase,
    Fail,
    Write,
)
from xscore.extensions.learning.draft import SCOPES
from xscore.records.memory import Kind, Layer

TASKS = ("Mend the loader", "Why is it dark?", "Plan the release")
WIPED = (Layer.PROJECT, Layer.GOVERNANCE, Layer.USER, Layer.SESSION)
SAID = (Kind.DECISION, Kind.CONVENTION, Kind.TECH_STACK)
USERS = (Kind.PREFERENCE, Kind.CONVENTION)
CUTS = st.sampled_from([0, 0, 0, 0, 3, 9, 25, 60, 150])
"""Step at which a write's process is killed; 0: never."""
NTH = st.integers(0, 30)
"""Which of the possible memories."""


class Machine(RuleBasedStateMachine):
    """Two stores, cited code, a clock; the model, the possible steps, and the invariants."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(Path(tempfile.mkdtemp(prefix="xscore-layers-")))
        self.world.begin()
        self.model, self.past, self.asked = (
            Model(),
            checks.PreviousState(),
            AskedTurns({}, set()),
        )
        self.steps = 0
        self.may_blank = self.is_free = self.was_erased = False

    @rule(
        kind=st.sampled_from(SAID),
        words=st.sampled_from(SENTENCES),
        key=st.sampled_from(KEYS),
        function=st.sampled_from(["", *FUNCTIONS]),
        importance=st.sampled_from([0.1, 0.5, 0.9]),
        inferred=st.booleans(),
        cut=CUTS,
    )
    def say(
        self,
        *,
        kind: Kind,
        words: str,
        key: str,
        function: str,
        importance: float,
        inferred: bool,
        cut: int,
    ) -> None:
        """Remember something about the project, with or without a citation."""
        cites = self.world.span(function) if function else ""
        write = AddMemory(
            kind, words, key, cites=cites, importance=importance, is_inferred=inferred
        )
        cited = frozenset({(function, self.world.versions[function])} if function else ())
        self.model.said(write, self._do(write, cut), cited)

    @rule(
        kind=st.sampled_from(USERS),
        words=st.sampled_from(SENTENCES),
        key=st.sampled_from(KEYS[1:]),
        cut=CUTS,
    )
    def say_of_the_user(self, kind: Kind, words: str, key: str, cut: int) -> None:
        """Remember something about the user."""
        write = AddMemory(kind, words, key or "tone", layer=Layer.USER)
        self.model.said(write, self._do(write, cut))

    @rule(
        nth=NTH,
        words=st.none() | st.sampled_from(SENTENCES),
        key=st.none() | st.sampled_from(KEYS),
        importance=st.sampled_from([None, 0.1, 0.9]),
        cut=CUTS,
    )
    def edit(
        self, nth: int, words: str | None, key: str | None, importance: float | None, cut: int
    ) -> None:
        """Update a memory's words, key or weight."""
        among = [
            memory
            for memory in self._held()
            if memory.kind in (*SAID, *USERS) and memory.layer is not Layer.SESSION
        ]
        among = [memory for memory in among if not memory.key.startswith("failure")]
        if among:
            before = among[nth % len(among)]
            key = "tone" if key == "" and before.kind is Kind.PREFERENCE else key
            write = Edit(before.id, words, key, importance)
            self.model.edited(write, self._do(write, cut))

    @rule(words=st.sampled_from(ERRORS), occurrence=st.sampled_from(["", "", "o1"]), cut=CUTS)
    def fail(self, words: str, occurrence: str, cut: int) -> None:
        """Record a failure."""
        write = Fail(words, occurrence)
        self.model.failed(write, self._do(write, cut))

    def teardown(self) -> None:
        """Check everything once more at the end, unless something has already failed."""
        try:
            if sys.exc_info()[0] is None:
                self.ask(Ask(TASKS[0], WORDS[0]))
                self.all_is_right()
                self.wipe(list(WIPED), cut=0)
                self.all_is_right()
                assert not [
                    memory for memory in self.model.held.values() if memory.layer in WIPED
                ]
        finally:
            self.world.store.close()
            shutil.rmtree(self.world.folder)

    @rule(nths=st.lists(NTH, min_size=1, max_size=3), forget=st.booleans(), cut=CUTS)
    def delete(self, nths: list[int], cut: int, *, forget: bool) -> None:
        """Erase memories."""
        if held := self._held():
            self._erase(
                tuple(dict.fromkeys(held[nth % len(held)].id for nth in nths)),
                cut,
                forget=forget,
            )

    @rule(layers=st.lists(st.sampled_from(WIPED), min_size=1, max_size=1), cut=CUTS)
    def wipe(self, layers: list[Layer], cut: int) -> None:
        """Erase a whole layer."""
        if ids := tuple(memory.id for memory in self._held() if memory.layer in layers):
            self._erase(ids, cut, forget=False)

    @rule(
        function=st.sampled_from(FUNCTIONS),
        version=st.integers(0, 1),
        shift=st.integers(0, 1),
        looks=st.booleans(),
    )
    def edit_code(self, function: str, version: int, shift: int, *, looks: bool) -> None:
        """Change code that may be cited, restore it, or move it."""
        self.world.edit(function, version, shift)
        if looks:
            self.world.perform(CheckEvidence())
            self.model.looked(self.world.versions)

    @rule(
        scopes=st.sampled_from([SCOPES, SCOPES, ("project",), ("user",), ("session",)]),
        days=st.sampled_from([0, 1, 31, 200, 400]),
        cut=CUTS,
    )
    def consolidate(self, scopes: tuple[str, ...], days: int, cut: int) -> None:
        """Let days pass, then consolidate; a second run does nothing more."""
        self._go_on(days)
        gone = {id_: str(row["content_hash"]) for id_, row in rows_of(self.world.store).items()}
        write = Consolidate(scopes)  # type: ignore[arg-type]  # a strategy's draws, all scopes
        done = self._do(write, cut)
        rows = rows_of(self.world.store)
        note(f"  {done.counts}")
        self.model.consolidated(done, rows)
        self.asked.erase([hash_ for id_, hash_ in gone.items() if id_ not in rows])
        assert self.world.perform(write).actions == (), (
            "a second run at the same clock finds something to do"
        )

    @rule(
        task=st.sampled_from(TASKS),
        nth=NTH,
        lexical=st.sampled_from([False, False, True]),
        answers=st.booleans(),
    )
    def ask_about(self, task: str, nth: int, *, lexical: bool, answers: bool) -> None:
        """Take a turn, usually about an existing memory."""
        live = self.model.live()
        about = word_in(live[nth % len(live)].words) if live else ""
        self.ask(Ask(task, about, lexical, answers or not lexical))

    def ask(self, ask: Ask) -> None:
        """Take a turn."""
        answer = take(self.world, self.model, self.asked, ask)
        note(f"  {answer.coverage}, kept {len(answer.selected)}")
        self.is_free = True

    @rule(days=st.sampled_from([0, 1, 40]))
    def reopen(self, days: int) -> None:
        """Close the store, and open it days later."""
        self._go_on(days)

    @invariant()
    def all_is_right(self) -> None:
        """Both stores match the model, and nothing erased is left."""
        self.steps += 1
        checks.check(
            self.world, self.model, self.past, may_blank=self.may_blank, is_free=self.is_free
        )
        checks.check_pool(self.world, self.model)
        if self.was_erased:
            checks.check_bytes(self.world, self.model)
        self.may_blank = self.is_free = self.was_erased = False

    def _do(self, write: Write, cut: int) -> Any:
        """Do it; or start it, be killed, and repeat it."""
        if not cut:
            return self.world.perform(write)
        result, was_cut = self.world.cut_short(write, cut)
        note(f"  {'cut' if was_cut else 'done before it could be cut'}")
        return result

    def _go_on(self, days: int) -> None:
        self.world.now += days * DAY + 60
        self.world.reopen()

    def _held(self) -> list[ExpectedMemory]:
        return sorted(self.model.held.values(), key=lambda memory: memory.id)

    def _erase(self, ids: tuple[str, ...], cut: int, *, forget: bool) -> None:
        rows = rows_of(self.world.store)
        write = Erase(ids, forget)
        done = self._do(write, cut)
        self.model.removed(write, done)
        self.asked.erase([str(rows[id_]["content_hash"]) for id_ in done.ids])
        self.may_blank = self.was_erased = True


@pytest.mark.parametrize(
    ("examples", "steps"),
    [
        pytest.param(5, 20, marks=pytest.mark.verify),
        pytest.param(60, 25, marks=[pytest.mark.nightly, pytest.mark.timeout(900)]),
    ],
)
def test_the_life_of_the_layers(examples: int, steps: int) -> None:
    """Statements, erasures, turns and interruptions, a hundred or thousands: none lost unless
    erased, none left if so.

    The examples are the same each time.
    """
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            derandomize=True,
            phases=[Phase.generate],
            deadline=None,
            database=None,
            # Steps are turns, copies of stores and processes.
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )

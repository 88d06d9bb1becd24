"""Whatever is said, changed, erased, learned, put back or cut short, in any order: nobody is lost, nobody is left.

Hypothesis works on a real project and a real user's store, under a clock that it sets, beside a model in a plain dict
(`layers_model`); after each step both stores are held against it (`layers_checks`). A write may be interrupted or
killed at any moment: then each store is as before or after one of its transactions, and done again it is finished.
"""

import shutil
import sys
from copy import deepcopy

import pytest
from hypothesis import HealthCheck, Phase, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule, run_state_machine_as_test

from tests.proof import layers_checks as checks
from tests.proof.layers_asks import Ask, take
from tests.proof.layers_rules import CUTS, NOTED, NTH, Saying
from tests.proof.layers_words import WORDS, word_in
from tests.proof.layers_world import FUNCTIONS, rows_of
from tests.proof.layers_writes import (
    Close,
    Consolidate,
    Erase,
    Look,
    Restore,
    Save,
)
from xscore.extensions.exchange.snapshots import take_snapshot
from xscore.extensions.learning.draft import SCOPES
from xscore.records.memory import Layer
from xscore.records.turn import Checkpoint

TASKS = ("Mend the loader", "Why is it dark?", "Plan the release")
WIPED = (Layer.PROJECT, Layer.GOVERNANCE, Layer.USER, Layer.SESSION)


class Machine(Saying):
    """And the rules by which something is erased, learned, asked, put back; and what must hold."""

    def teardown(self) -> None:
        """End with everything looked at once more, unless something has failed already."""
        try:
            if sys.exc_info()[0] is None:
                self.ask(Ask(TASKS[0], WORDS[0]))
                self.all_is_right()
                self.wipe(list(WIPED), cut=0, kills=False)
                self.all_is_right()
                assert not [one for one in self.model.held.values() if one.layer in WIPED]
        finally:
            self.world.store.close()
            shutil.rmtree(self.world.folder)

    @rule(nths=st.lists(NTH, min_size=1, max_size=3), forget=st.booleans(), cut=CUTS, kills=st.booleans())
    def delete(self, nths: list[int], cut: int, *, forget: bool, kills: bool) -> None:
        """Erase memories for good."""
        if held := self._held():
            self._erase(tuple(dict.fromkeys(held[nth % len(held)].id for nth in nths)), cut, forget=forget, kills=kills)

    @rule(layers=st.lists(st.sampled_from(WIPED), min_size=1, max_size=1), cut=CUTS, kills=st.booleans())
    def wipe(self, layers: list[Layer], cut: int, *, kills: bool) -> None:
        """Erase a whole layer."""
        if ids := tuple(one.id for one in self._held() if one.layer in layers):
            self._erase(ids, cut, forget=False, kills=kills)

    @rule(function=st.sampled_from(FUNCTIONS), version=st.integers(0, 1), shift=st.integers(0, 1), looks=st.booleans())
    def edit_code(self, function: str, version: int, shift: int, *, looks: bool) -> None:
        """Change code that may be cited, or put it back, or move it."""
        self.world.edit(function, version, shift)
        if looks:
            self.world.perform(Look())
            self.model.looked(self.world.versions)

    @rule(
        scopes=st.sampled_from([SCOPES, SCOPES, ("project",), ("user",), ("session",)]),
        days=st.sampled_from([0, 1, 31, 200, 400]),
        cut=CUTS,
        kills=st.booleans(),
    )
    def consolidate(self, scopes: tuple[str, ...], days: int, cut: int, *, kills: bool) -> None:
        """Let days go by, then bring the layers into order; a second run does nothing more."""
        self._go_on(days)
        gone = {id_: str(row["content_hash"]) for id_, row in rows_of(self.world.store).items()}
        write = Consolidate(scopes)  # type: ignore[arg-type]  # they are scopes
        done = self._do(write, cut, kills)
        rows = rows_of(self.world.store)
        note(f"  {done.counts}")
        self.model.consolidated(done, rows)
        self.asked.erase([hash_ for id_, hash_ in gone.items() if id_ not in rows])
        assert self.world.perform(write).actions == (), "a second run at the same clock finds something to do"

    @rule(nth=NTH, cut=CUTS, kills=st.booleans())
    def close(self, nth: int, cut: int, *, kills: bool) -> None:
        """Close a working session."""
        if threads := self._threads():
            thread = threads[nth % len(threads)]
            noted = [one for one in self.model.live() if one.thread == thread and one.kind in NOTED]
            done = self._do(Close(thread), cut, kills)
            self.model.closed(noted, done, rows_of(self.world.store))

    @rule(task=st.sampled_from(TASKS), nth=NTH, lexical=st.sampled_from([False, False, True]), answers=st.booleans())
    def ask_about(self, task: str, nth: int, *, lexical: bool, answers: bool) -> None:
        """Take a turn about something that is there, as a rule."""
        live = self.model.live()
        about = word_in(live[nth % len(live)].words) if live else ""
        self.ask(Ask(task, about, lexical, answers or not lexical))

    def ask(self, ask: Ask) -> None:
        """Take a turn."""
        answer = take(self.world, self.model, self.asked, ask)
        note(f"  {answer.coverage}, kept {len(answer.selected)}")
        self.is_free = True

    @rule(name=st.sampled_from(["a", "b"]), cut=CUTS, kills=st.booleans())
    def save(self, name: str, cut: int, *, kills: bool) -> None:
        """Save the session under a name, and load it."""
        if threads := self._threads():
            saved: Checkpoint = self._do(Save(name, threads[-1]), cut, kills)
            named = (*saved.memory_ids, *(entry.exchange for entry in saved.entries if entry.exchange))
            checks.check_checkpoint(self.world, self.model, named)

    @rule()
    def take_snapshot(self) -> None:
        """Take everything as one value."""
        self.taken = (take_snapshot(self.world.store), deepcopy(self.model))

    @precondition(lambda self: self.taken is not None)
    @rule(cut=CUTS, kills=st.booleans())
    def restore(self, cut: int, *, kills: bool) -> None:
        """Put the snapshot back."""
        assert self.taken is not None
        snapshot, then = self.taken
        rows = rows_of(self.world.store)
        self._do(Restore(snapshot), cut, kills)
        self.model.restored(then, snapshot, rows)

    @rule(days=st.sampled_from([0, 1, 40]))
    def reopen(self, days: int) -> None:
        """Close the store, and open it days later."""
        self._go_on(days)

    @invariant()
    def all_is_right(self) -> None:
        """Both stores are what the model says, and nothing of what was erased is left."""
        self.steps += 1
        checks.check(self.world, self.model, self.past, may_blank=self.may_blank, is_free=self.is_free)
        checks.check_pool(self.world, self.model)
        if self.was_erased:
            checks.check_bytes(self.world, self.model)
        self.may_blank = self.is_free = self.was_erased = False

    def _erase(self, ids: tuple[str, ...], cut: int, *, forget: bool, kills: bool) -> None:
        rows = rows_of(self.world.store)
        write = Erase(ids, forget)
        done = self._do(write, cut, kills)
        self.model.removed(write, done)
        self.asked.erase([str(rows[id_]["content_hash"]) for id_ in done.ids])
        self.may_blank = self.was_erased = True


def run(*, examples: int, steps: int) -> None:
    """Run the machine, the same examples each time."""
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            derandomize=True,
            phases=[Phase.generate],
            deadline=None,
            database=None,
            suppress_health_check=[HealthCheck.too_slow],  # steps are turns, copies of stores and processes
        ),
    )


@pytest.mark.verify
def test_a_short_life_of_the_layers() -> None:
    """Some hundred sayings, erasures, turns and cuts: nobody lost who was not erased, nobody left who was."""
    run(examples=8, steps=20)


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("examples", [60])
def test_a_long_life_of_the_layers(examples: int) -> None:
    """So do thousands."""
    run(examples=examples, steps=25)

"""The machine of the layers, first half: its state, and the rules by which something is said, changed or weighed."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from tests.proof import layers_checks as checks
from tests.proof.layers_asks import Asked
from tests.proof.layers_model import Model
from tests.proof.layers_sayings import Held
from tests.proof.layers_words import ERRORS, KEYS, SENTENCES
from tests.proof.layers_world import DAY, FUNCTIONS, World
from tests.proof.layers_writes import (
    Edit,
    Fail,
    Feedback,
    Note,
    Prefer,
    Resolve,
    Say,
    Write,
)
from xscore.extensions.exchange.snapshots import Snapshot
from xscore.extensions.learning.feedback import Signal
from xscore.platform.errors import UsageError
from xscore.records.memory import Kind, Layer

SAID = (Kind.DECISION, Kind.CONVENTION, Kind.TECH_STACK)
USERS = (Kind.PREFERENCE, Kind.CONVENTION)
NOTED = (Kind.DECISION, Kind.CONVENTION, Kind.TECH_STACK)
CUTS = st.sampled_from([0, 0, 0, 3, 9, 25, 60, 150, 400])
"""At which moment a write is cut short; 0: it is not."""
NTH = st.integers(0, 30)
"""Which of the memories that come into question."""


class Saying(RuleBasedStateMachine):
    """Two stores, code that is cited, a clock; and what is known of them."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(Path(tempfile.mkdtemp(prefix="xscore-layers-")))
        self.world.begin()
        self.model, self.past, self.asked = Model(), checks.Past(), Asked({}, set())
        self.taken: tuple[Snapshot, Model] | None = None
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
        kills=st.booleans(),
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
        kills: bool,
    ) -> None:
        """Remember something of the project, citing code or not."""
        cites = self.world.span(function) if function else ""
        write = Say(kind, words, key, cites=cites, importance=importance, is_inferred=inferred)
        cited = frozenset({(function, self.world.versions[function])} if function else ())
        self.model.said(write, self._do(write, cut, kills), cited)

    @rule(kind=st.sampled_from(USERS), words=st.sampled_from(SENTENCES), key=st.sampled_from(KEYS[1:]), cut=CUTS)
    def say_of_the_user(self, kind: Kind, words: str, key: str, cut: int) -> None:
        """Remember something of the user."""
        write = Say(kind, words, key or "tone", layer=Layer.USER)
        self.model.said(write, self._do(write, cut, kills=False))

    @rule(
        nth=NTH,
        words=st.none() | st.sampled_from(SENTENCES),
        key=st.none() | st.sampled_from(KEYS),
        importance=st.sampled_from([None, 0.1, 0.9]),
        cut=CUTS,
        kills=st.booleans(),
    )
    def edit(
        self, nth: int, words: str | None, key: str | None, importance: float | None, cut: int, *, kills: bool
    ) -> None:
        """Update a memory: its words, its key, its weight."""
        among = [one for one in self._held() if one.kind in (*SAID, *USERS) and one.layer is not Layer.SESSION]
        among = [one for one in among if not one.key.startswith("failure")]
        if among:
            before = among[nth % len(among)]
            key = "tone" if key == "" and before.kind is Kind.PREFERENCE else key
            write = Edit(before.id, words, key, importance)
            self.model.edited(write, self._do(write, cut, kills))

    @rule(words=st.sampled_from(ERRORS), occurrence=st.sampled_from(["", "", "o1"]), cut=CUTS, kills=st.booleans())
    def fail(self, words: str, occurrence: str, cut: int, *, kills: bool) -> None:
        """Meet a failure."""
        write = Fail(words, occurrence)
        self.model.failed(write, self._do(write, cut, kills))

    @rule(nth=NTH, cut=CUTS, kills=st.booleans())
    def resolve(self, nth: int, cut: int, *, kills: bool) -> None:
        """Mend a failure."""
        among = [one for one in self._held() if one.kind is Kind.FAILURE and one.key.startswith("failure:")]
        if among:
            write = Resolve(among[nth % len(among)].id, f"mended in step {self.steps}")
            self.model.resolved(write, self._do(write, cut, kills))

    @rule(
        key=st.sampled_from(["orm", "lights"]),
        words=st.sampled_from(SENTENCES[:6]),
        delta=st.sampled_from([1, 1, 3, -1, -4]),
        said=st.booleans(),
        cut=CUTS,
        kills=st.booleans(),
    )
    def prefer(self, key: str, words: str, delta: int, cut: int, *, said: bool, kills: bool) -> None:
        """Weigh a preference of the user's."""
        write = Prefer(key, words, delta, said)
        among = [one for one in self.model.live() if one.kind is Kind.PREFERENCE and one.key == key]
        if delta < 0 and words not in [one.words for one in among]:
            with pytest.raises(UsageError):
                self.world.perform(write)
        else:
            self.model.preferred(write, self._do(write, cut, kills))

    @rule(nth=NTH, signal=st.sampled_from(Signal), cut=CUTS)
    def give_feedback(self, nth: int, signal: Signal, cut: int) -> None:
        """Accept or reject a memory."""
        if self.model.held:
            write = Feedback(self._held()[nth % len(self.model.held)].id, signal)
            self._do(write, cut, kills=False)
            self.model.touched.add(write.id)

    @rule(
        words=st.sampled_from(SENTENCES),
        kind=st.sampled_from(NOTED),
        key=st.sampled_from(KEYS),
        said=st.booleans(),
    )
    def learn(self, words: str, kind: Kind, key: str, *, said: bool) -> None:
        """Let the working session note something."""
        if threads := self._threads():
            write = Note(words, kind, key, threads[-1], said)
            self.model.noted(write, str(self.world.perform(write)))

    def _do(self, write: Write, cut: int, kills: bool) -> Any:
        """Do it, or begin it, be cut short, and do it again."""
        if not cut:
            return self.world.perform(write)
        result, was_cut = self.world.cut_short(write, cut, kills=kills)
        note(f"  {'cut' if was_cut else 'done before it could be cut'}")
        return result

    def _go_on(self, days: int) -> None:
        self.world.now += days * DAY + 60
        self.world.reopen()

    def _held(self) -> list[Held]:
        return sorted(self.model.held.values(), key=lambda one: one.id)

    def _threads(self) -> list[str]:
        found = self.world.store.connection.execute("SELECT thread FROM session ORDER BY last_updated, thread")
        return [thread for (thread,) in found.fetchall()]

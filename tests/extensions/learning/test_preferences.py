"""Preferences and the evidence for them."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.statements import preferences
from xscore.extensions.learning.feedback import update_preference
from xscore.platform.errors import UsageError
from xscore.platform.paths import find_root
from xscore.records.memory import Layer, MemorySource, MemoryStatus
from xscore.records.statement import StatementEffect
from xscore.store.lookup import MemoryFilter, filter_memories
from xscore.store.store import Store


def test_evidence_moves_an_inferred_preference(store: Store) -> None:
    """H24, L08: it starts at 0.6; each observation for it adds 0.05, each against it takes 0.20; the id stays."""
    first = update_preference(store, "runner", "pytest", now=1.0)
    assert (first.became, first.memory.confidence, first.memory.evidence_count) == (StatementEffect.STORED, 0.6, 1)
    more = update_preference(store, "runner", "pytest", delta_evidence=3, now=2.0).memory
    assert (more.id, round(more.confidence, 9), more.evidence_count) == (first.memory.id, 0.75, 4)
    less = update_preference(store, "runner", "pytest", delta_evidence=-1, now=3.0).memory
    assert (round(less.confidence, 9), less.evidence_count) == (0.55, 3)
    assert [(one.key, one.text) for one in preferences(store)] == [("runner", "pytest")]
    rows = store.user_connection().execute("SELECT key, value, source FROM user_preferences").fetchall()  # type: ignore[union-attr]  # it is open
    assert rows == [("runner", "pytest", "inferred")]


def test_another_inferred_value_wins_only_over_a_weak_one(store: Store) -> None:
    """A contradiction lowers what is held; below where it began, the new value takes its place."""
    update_preference(store, "runner", "pytest", delta_evidence=8, now=1.0)
    held = update_preference(store, "runner", "unittest", now=2.0).memory
    assert (held.text, round(held.confidence, 9)) == ("pytest", 0.75)
    new = update_preference(store, "runner", "unittest", now=3.0)
    assert (new.memory.text, new.memory.confidence, len(new.superseded)) == ("unittest", 0.6, 1)
    assert [one.text for one in preferences(store)] == ["unittest"]


def test_what_was_said_is_not_overruled_by_what_is_inferred(store: Store) -> None:
    """An explicit preference stays, however much is inferred against it; a newly said one supersedes it."""
    update_preference(store, "runner", "pytest", source=MemorySource.EXPLICIT, now=1.0)
    for now in range(2, 9):
        update_preference(store, "runner", "unittest", now=float(now))
    (held,) = preferences(store)
    assert (held.text, held.confidence) == ("pytest", 0.0)
    said = update_preference(store, "runner", "unittest", source=MemorySource.EXPLICIT, now=9.0).memory
    assert (said.text, said.confidence) == ("unittest", 1.0)
    statuses = filter_memories(store, MemoryFilter(layers=(Layer.USER,), statuses=(MemoryStatus.SUPERSEDED,)))
    assert [one.text for one in statuses] == ["pytest"]


def test_saying_an_inferred_preference_makes_it_certain(store: Store) -> None:
    """L10: what is said outright counts in full from then on."""
    update_preference(store, "runner", "pytest", now=1.0)
    memory = update_preference(store, "runner", "pytest", source=MemorySource.EXPLICIT, now=2.0).memory
    assert (memory.source, memory.confidence, memory.evidence_count) == (MemorySource.EXPLICIT, 1.0, 2)


@settings(max_examples=10, deadline=None)
@given(steps=st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(-9, 9).filter(bool)), max_size=12))
def test_confidence_stays_in_its_bounds(steps: list[tuple[str, int]]) -> None:
    """Whatever is observed in whatever order, there is one value, with a confidence in 0..1."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "p").mkdir()
        with Store.open(find_root(Path(folder) / "p"), user_data_dir=Path(folder) / "u") as store:
            held = update_preference(store, "k", "a", now=0.0).memory
            for now, (value, delta) in enumerate(steps, 1):
                if delta < 0 and value != held.text:
                    with pytest.raises(UsageError):
                        update_preference(store, "k", value, delta_evidence=delta, now=float(now))
                    continue
                held = update_preference(store, "k", value, delta_evidence=delta, now=float(now)).memory
                assert 0 <= held.confidence <= 1 and held.evidence_count >= 0
                assert preferences(store) == [held]

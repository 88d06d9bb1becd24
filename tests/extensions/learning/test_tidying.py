"""Consolidation by itself: once a day, under a mark that a clock set back or a second process
cannot turn into a loop."""

import os

import pytest
from msgspec.structs import replace

from tests.extensions.learning.conftest import NOW, held, made, put
from xscore.extensions.learning.tidying import tidy
from xscore.platform.clock import DAY_S
from xscore.records.memory import MemoryStatus
from xscore.store.events import consolidation_history
from xscore.store.store import Store


@pytest.fixture(autouse=True)
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine has nothing else to do."""
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))


def put_duplicates(store: Store, number: int) -> None:
    """Put two memories that say the same."""
    put(store, made(f"Job {number} runs at night"), made(f"Job {number} runs at night."))


def active(store: Store) -> int:
    """Count what is active."""
    return sum(memory.status is MemoryStatus.ACTIVE for memory in held(store).values())


def test_it_runs_once_a_day_and_says_what_it_brought(store: Store) -> None:
    """Two runs within a day are one; the day after, the next."""
    put_duplicates(store, 1)
    assert tidy(store, store.settings, now=NOW) is not None
    assert active(store) == 1
    put_duplicates(store, 2)
    assert tidy(store, store.settings, now=NOW + DAY_S - 1) is None
    assert active(store) == 3
    assert tidy(store, store.settings, now=NOW + DAY_S) is not None
    assert active(store) == 2
    history = consolidation_history(store.connection, now=NOW + DAY_S)
    assert (history.tidied_at, history.counts["merge"]) == (NOW + DAY_S, 2)
    assert consolidation_history(store.connection, now=NOW + 40 * DAY_S).counts == {}


def test_a_clock_set_back_stops_it_for_no_longer_than_a_day(store: Store) -> None:
    """A mark in the future counts as none, once."""
    assert tidy(store, store.settings, now=NOW + 1_000 * DAY_S) is not None
    assert tidy(store, store.settings, now=NOW) is not None
    assert tidy(store, store.settings, now=NOW + 1) is None


def test_a_busy_machine_and_a_setting_leave_everything(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither marks the day."""
    put_duplicates(store, 1)
    off = replace(store.settings, daily_consolidation=False)
    assert tidy(store, off, now=NOW) is None
    monkeypatch.setattr(os, "getloadavg", lambda: (500.0, 0.0, 0.0))
    assert tidy(store, store.settings, now=NOW) is None
    assert active(store) == 2
    monkeypatch.undo()


def test_a_run_that_is_killed_is_not_repeated_that_day(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The day is marked first, so that a run that fails does not cost every prompt."""
    put_duplicates(store, 1)
    monkeypatch.setattr("xscore.extensions.learning.tidying.consolidate", _die)
    with pytest.raises(KeyboardInterrupt):
        tidy(store, store.settings, now=NOW)
    monkeypatch.undo()
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    assert tidy(store, store.settings, now=NOW + 10) is None
    assert active(store) == 2
    assert tidy(store, store.settings, now=NOW + DAY_S) is not None
    assert active(store) == 1


def _die(*_: object, **__: object) -> None:
    raise KeyboardInterrupt

"""Promises of making many records at once."""

import gc
from collections.abc import Iterator

import pytest

from xscore.platform.processes import gc_paused


@pytest.fixture(autouse=True)
def _collector_as_it_was() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)
    gc.enable()


def _collections() -> int:
    return sum(generation["collections"] for generation in gc.get_stats())


def test_no_collection_walks_what_is_made_in_bulk_nor_runs_at_its_end() -> None:
    """A hundred thousand records cost no collection, neither while they are made nor right after."""
    gc.set_threshold(700, 10, 10)
    before = _collections()
    with gc_paused():
        made = [[number] for number in range(100_000)]
    [[number] for number in range(100)]
    assert (_collections() - before, len(made)) == (0, 100_000)


def test_the_collector_goes_on_after_a_failure() -> None:
    """An error inside leaves the collector at work, and nothing frozen."""
    with pytest.raises(KeyError), gc_paused():
        raise KeyError
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


def test_a_collector_that_was_off_stays_off() -> None:
    """Whoever has switched the collector off finds it off."""
    gc.disable()
    with gc_paused():
        pass
    assert not gc.isenabled()


def test_what_the_host_froze_stays_frozen() -> None:
    """Objects that the surrounding program froze are not thawed."""
    gc.freeze()
    frozen = gc.get_freeze_count()
    try:
        with gc_paused():
            pass
        assert gc.get_freeze_count() >= frozen - 100  # some may have gone by themselves
        assert gc.isenabled()
    finally:
        gc.unfreeze()

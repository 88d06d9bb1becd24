"""Failures: counted by signature, resolved, and a pattern from the third on."""

from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from tests.statements import facts, list_events
from tests.store.generated_secrets import SECRET
from xscore.extensions.recovery.salvage import salvage_store
from xscore.platform import database
from xscore.platform.errors import NothingMatched, UsageError
from xscore.records.memory import Kind, Layer, MemoryDetails, MemorySource, MemoryStatus
from xscore.store.failures import (
    HEAD_CHARS,
    TAIL_CHARS,
    Occurrence,
    failure_signature,
    record_failure,
    record_failure_within,
    resolve_failure,
)
from xscore.store.lookup import memory_by_id
from xscore.store.opening import connect_store
from xscore.store.store import Store

ERROR = (
    "Traceback (most recent call last):\n"
    '  File "/home/{}/app/net.py", line {}, in get\n'
    "TimeoutError: {} ms"
)


def error(number: int) -> str:
    """Make the error as seen on another machine on another day."""
    return ERROR.format("abcdefg"[number], number + 10, number * 100)


def test_at_two_there_is_no_pattern_and_at_three_there_is(store: Store) -> None:
    """A08: the third occurrence makes an antipattern, once; the failure stays one memory."""
    first, second = (
        record_failure(store, text=error(number), seen_at=float(number)) for number in (1, 2)
    )
    assert first.memory.id == second.memory.id
    assert (second.memory.details.occurrences, second.pattern) == (2, None)
    assert facts(store, Kind.PATTERN) == []
    third = record_failure(store, text=error(3), seen_at=3.0)
    assert third.is_new_pattern
    (pattern,) = facts(store, Kind.PATTERN)
    assert pattern.kind == Kind.PATTERN
    assert pattern.layer == Layer.PROJECT
    assert pattern.details.polarity == "antipattern"
    assert pattern.details.links == (third.memory.id,)
    fourth = record_failure(store, text=error(4), seen_at=4.0)
    assert (fourth.is_new_pattern, len(facts(store, Kind.PATTERN))) == (False, 1)
    assert facts(store, Kind.PATTERN)[0].details.occurrences == 4


def test_the_events_of_failures(store: Store) -> None:
    """A13: one failure.recorded for each occurrence, one failure.pattern.detected in all; payloads
    contain no text."""
    for number in range(4):
        record_failure(
            store, text=error(number), seen_at=float(number), occurrence=f"run {number}"
        )
        record_failure(
            store, text=error(number), seen_at=float(number), occurrence=f"run {number}"
        )
    event_counts = Counter(event.name.value for event in list_events(store.connection))
    assert event_counts["failure.recorded"] == 4
    assert event_counts["failure.pattern.detected"] == 1
    assert event_counts["memory.stored"] == 2
    assert "Timeout" not in repr(list_events(store.connection))


def test_an_occurrence_counts_once(store: Store) -> None:
    """Importing the same occurrence again changes nothing; its fix is added if it becomes known
    later."""
    first = record_failure(
        store,
        text=error(1),
        occurrence="e1",
        details=MemoryDetails(imported_from="codex", session="s"),
        seen_at=1.0,
    )
    repeated = record_failure(
        store,
        text=error(1),
        occurrence="e1",
        details=MemoryDetails(imported_from="codex", session="s"),
        seen_at=9.0,
    )
    assert (first.is_counted, repeated.is_counted) == (True, False)
    assert repeated.memory == memory_by_id(store, first.memory.id)
    assert first.memory.source is MemorySource.IMPORT
    mended = record_failure(
        store,
        text=error(1),
        occurrence="e1",
        details=MemoryDetails(resolution="raise the timeout"),
        seen_at=9.0,
    )
    assert (mended.is_counted, mended.memory.details.occurrences) == (False, 1)
    assert mended.memory.details.resolution == "raise the timeout"


def test_counting_does_not_judge_anew_but_mending_does(store: Store) -> None:
    """The count is not in the text, so the content stays the same; a fix is, and makes another
    content."""
    first = record_failure(store, text=error(1), seen_at=1.0).memory
    second = record_failure(store, text=error(2), seen_at=2.0).memory
    assert second.content_hash == first.content_hash
    mended = resolve_failure(store, first.id, "raise the timeout", now=3.0).memory
    assert mended.text == error(1) + "\n\nFixed by: raise the timeout"
    assert mended.content_hash != first.content_hash
    assert mended.details.occurrences == 2


def test_a_resolution_reaches_the_pattern(store: Store) -> None:
    """X20: a failure's fix is shown by its pattern too, whichever came first."""
    for number in range(3):
        recorded = record_failure(store, text=error(number), seen_at=float(number))
    resolve_failure(store, recorded.memory.id, "raise the timeout", now=9.0)
    (pattern,) = facts(store, Kind.PATTERN)
    assert pattern.text.endswith("Fixed by: raise the timeout")
    with pytest.raises(NothingMatched):
        resolve_failure(store, pattern.id, "x")
    with pytest.raises(UsageError):
        resolve_failure(store, recorded.memory.id, "  ")


def test_a_failure_that_comes_back_is_a_candidate_again(store: Store) -> None:
    """An archived failure that occurs again is active, with its count."""
    memory = record_failure(store, text=error(1), seen_at=1.0).memory
    store.connection.execute(
        "UPDATE memory_row SET status = 'archived' WHERE id = ?", (memory.id,)
    )
    reactivated = record_failure(store, text=error(2), seen_at=2.0).memory
    assert (reactivated.status, reactivated.details.occurrences) == (MemoryStatus.ACTIVE, 2)


def test_a_salvaged_store_still_knows_what_it_counted(store: Store, tmp_path: Path) -> None:
    """Occurrences counted in a replaced store are not counted again in the new one."""
    record_failure(store, text=error(1), occurrence="e1", seen_at=1.0)
    with closing(connect_store(tmp_path / "anew" / "memory.db")) as target:
        salvaged = salvage_store(store.path, target)
        assert salvaged.kept["occurrences"] == 1
        with database.transaction(target):
            repeated = record_failure_within(
                target, Occurrence(text=error(1), name="e1", seen_at=9.0)
            )
    assert not repeated.is_counted


def test_long_output_is_shortened_and_secrets_go(store: Store) -> None:
    """P01: of a long output start and end are kept; a secret in it, its cause or its fix is not."""
    long = f"make: error\n{'x' * 50_000}\napi_key = '{SECRET}'\nend"
    memory = record_failure(
        store,
        text=long,
        details=MemoryDetails(rationale=SECRET, resolution=SECRET, paths=(SECRET,)),
    ).memory
    assert len(memory.text) < HEAD_CHARS + TAIL_CHARS + 200
    assert memory.text.startswith("make: error") and "characters left out" in memory.text
    assert SECRET not in "".join(store.connection.iterdump())
    with pytest.raises(UsageError):
        record_failure(store, text=" ")


SAME = [
    ("at 0x7ffe12", "at 0xdeadbeef"),
    ("/tmp/a1/b/x.py:3: bad", "/home/me/b/x.py:77: bad"),
    ("C:\\a\\x.py: bad", "D:\\b\\c\\x.py: bad"),
    ("took 1.5 s", "took 22 s"),
    ("2026-01-02T03:04:05Z down", "2025-11-12 13:14:15,123 down"),
    ("\x1b[31mE\x1b[0m  x", "E x"),
    ("id 123e4567-e89b-12d3-a456-426614174000", "id 00000000-0000-0000-0000-000000000000"),
    ("commit 3f2a91bc", "commit 77aa01cd"),
]


@pytest.mark.parametrize(("first_error", "second_error"), SAME)
def test_what_differs_from_run_to_run_is_not_in_the_signature(
    first_error: str, second_error: str
) -> None:
    """A08: addresses, folders, times, ids and numbers do not make another failure."""
    assert failure_signature(first_error) == failure_signature(second_error)


@pytest.mark.parametrize(
    ("first_error", "second_error"),
    [("KeyError: a", "KeyError: b"), ("x.py: bad", "y.py: bad"), ("a", "b")],
)
def test_other_errors_have_other_signatures(first_error: str, second_error: str) -> None:
    """A08: another name, file or message is another failure."""
    assert failure_signature(first_error) != failure_signature(second_error)

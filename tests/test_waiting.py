"""Attempts of a test with a deadline: only a slow machine brings about another one."""

import pytest

from tests.waiting import SLOWNESS, TooSlowError, slower_attempts


def test_attempts_end_with_the_first_that_is_not_too_slow() -> None:
    """Each later one is slower, and none follows a good one."""
    slowness: list[int] = []
    for attempt in slower_attempts():
        with attempt:
            slowness.append(attempt.slowness)
            attempt.needs(attempt.number == 1, "nothing was judged")
    assert slowness == [*SLOWNESS[:2]]


def test_a_machine_that_is_always_too_slow_fails_the_test() -> None:
    """The error names what each attempt lacked."""
    with pytest.raises(TooSlowError) as failed:
        for attempt in slower_attempts(1, 2):
            with attempt:
                attempt.needs(False, f"lacking {attempt.number}")
    assert "lacking 0" in str(failed.value) and "lacking 1" in str(failed.value)


def test_an_assertion_within_an_attempt_fails_the_test_at_once() -> None:
    """No slower attempt hides it."""
    numbers: list[int] = []
    with pytest.raises(AssertionError):
        for attempt in slower_attempts():
            with attempt:
                numbers.append(attempt.number)
                assert attempt.number == 1
    assert numbers == [0]

"""Patterns that are compiled when they are first used."""

import re

import pytest

from xscore.platform.patterns import compiled_late


def test_a_late_pattern_is_a_pattern() -> None:
    """It finds what the pattern finds, with its flags, in text and in bytes."""
    late = compiled_late(r"(?P<word>b+)", re.IGNORECASE)
    for _ in range(2):
        match = late.search("aBBc")
        assert match is not None and match["word"] == "BB"
    assert late.sub("-", "abbBa") == "a-a" and late.flags & re.IGNORECASE
    assert compiled_late(rb"\d").findall(b"a1b2") == [b"1", b"2"]


def test_a_wrong_pattern_fails_when_it_is_used() -> None:
    """Not when it is defined: that is what late means."""
    late = compiled_late("(")
    with pytest.raises(re.error):
        late.search("x")


def test_a_pattern_that_is_not_made_yet_has_nothing() -> None:
    """A tracer that looks at it within its own making gets no endless search."""
    late = compiled_late("x")
    unmade = object.__new__(type(late))
    assert not hasattr(unmade, "_source")

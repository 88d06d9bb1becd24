"""Fixtures of the judges' tests."""

import pytest

from tests.scorer.judge_harness import Code
from tests.scorer.stdlib_candidates import real_code


@pytest.fixture
def code() -> Code:
    """Two hundred real functions."""
    found = [pair for pair in real_code() if len(pair[1]) < 6_000][:200]
    return {made.id: (made, text) for made, text in found}

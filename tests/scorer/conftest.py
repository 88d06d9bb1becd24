"""Fixtures of the judges' tests."""

import pytest

from tests.scorer.judge_harness import Code
from tests.scorer.stdlib_candidates import real_code


@pytest.fixture
def code() -> Code:
    """Two hundred real functions."""
    pairs = [pair for pair in real_code() if len(pair[1]) < 6_000][:200]
    return {memory.id: (memory, text) for memory, text in pairs}

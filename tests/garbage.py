"""Keeps the garbage collector from walking what lives as long as the process.

Six thousand tests with all modules that they import make a heap whose every walk takes a third of
a second; pytest walks it at its end, and the package itself after some calls.
"""

import gc
from collections.abc import Generator

import pytest


class Garbage:
    """The hook of pytest."""

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Generator[None, object, object]:
        """Collect tests without collecting garbage; then leave out what there is for good."""
        gc.disable()
        try:
            return (yield)
        finally:
            gc.freeze()
            gc.enable()

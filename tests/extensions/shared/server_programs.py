"""What tests need to start a server of their own: a port, patience, and a way out where its program is missing."""

import os
import socket
import time
from collections.abc import Callable

import pytest

PATIENCE_S = 60.0


def not_here(program: str, how: str) -> None:
    """Skip a test for want of a program; in continuous integration, fail it."""
    if os.environ.get("CI", "").lower() in {"1", "true"}:
        pytest.fail(f"no {program} is here; what is shared must be tested on a real one: {how}")
    pytest.skip(f"no {program} is here: {how}")


def until(is_so: Callable[[], bool], otherwise: str) -> None:
    """Wait until something is so; fail with `otherwise` where it never is."""
    ends = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > ends:
            raise AssertionError(otherwise)
        time.sleep(0.02)


def free_port() -> int:
    """Return a port of loopback that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])

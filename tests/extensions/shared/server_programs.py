"""What tests need to start a server: a free port, patience, and a skip if its program is
missing."""

import os
import socket

import pytest

PATIENCE_S = 60.0


def not_here(program: str, how: str) -> None:
    """Skip a test for a missing program; fail it in continuous integration."""
    if os.environ.get("CI", "").lower() in {"1", "true"}:
        pytest.fail(f"no {program} is here; what is shared must be tested on a real one: {how}")
    pytest.skip(f"no {program} is here: {how}")


def free_port() -> int:
    """Return a free port on loopback."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])

"""A shared server shows a sign of life before its driver is loaded."""

import socket
from collections.abc import Iterator
from contextlib import closing
from threading import Thread

import pytest

from tests.extensions.shared.server_processes import ServerProcess
from tests.extensions.shared.server_programs import free_port
from xscore.extensions.shared.knock import ServerKnock, knock
from xscore.platform.errors import SharedUnavailable


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of a server that takes connections, and says nothing."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        yield listener.getsockname()[1]


@pytest.fixture
def closing_at_once() -> Iterator[int]:
    """The port of a server that hangs up on everybody."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            connection.recv(100)
            connection.close()

        Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]


@pytest.mark.parametrize("scheme", ["redis", "rediss", "postgresql"])
def test_a_silent_server_is_given_up_in_time(silent: int, scheme: str) -> None:
    """It is given up even where it never answers the beginning of TLS."""
    with pytest.raises(SharedUnavailable, match=r"no answer within 0\.05 s"):
        knock(f"{scheme}://user:password@127.0.0.1:{silent}/0", timeout_s=0.05)


def test_a_server_that_hangs_up_is_away(closing_at_once: int) -> None:
    """The message has no password."""
    with pytest.raises(SharedUnavailable) as caught:
        knock(f"redis://:password@127.0.0.1:{closing_at_once}/0", timeout_s=10)
    assert "password" not in caught.value.message


def test_each_kind_of_server_answers(running: ServerProcess) -> None:
    """Redis its PING, and PostgreSQL whether it speaks TLS."""
    knock(running.url, timeout_s=30)


async def test_a_knock_that_fails_is_noted_and_tried_again(silent: int) -> None:
    """Whoever waits for less time than it takes goes on, and it is still one attempt."""
    patient = ServerKnock(f"redis://127.0.0.1:{silent}/0", timeout_s=0.2)
    with pytest.raises(SharedUnavailable):
        await patient.wait(0.0)
    assert patient.is_under_way and patient.calls == []
    with pytest.raises(SharedUnavailable):
        await patient.wait()
    refused = ServerKnock(f"redis://127.0.0.1:{free_port()}/0", timeout_s=30)
    for _ in range(2):
        with pytest.raises(SharedUnavailable):
            await refused.wait()
    failed = [
        (call.operation, call.error) for knock in (patient, refused) for call in knock.calls
    ]
    assert failed == [("connect", SharedUnavailable.kind)] * 3

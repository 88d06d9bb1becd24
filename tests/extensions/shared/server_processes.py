"""Real shared servers started by the tests, each with its own folder and port.

Where the program is not installed, its tests are skipped with what to install; in continuous
integration they fail.
A kind of server is one entry of `KINDS`; every test in this folder that asks for `server` runs with
each.
"""

import shutil
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from tests.extensions.shared.postgres_process import run_postgres
from tests.extensions.shared.server_programs import free_port, not_here
from tests.waiting import wait_until


class ServerProcess(Protocol):
    """A server that can be killed and restarted on its data."""

    url: str
    """URL as in `shared.url`, without a password."""

    def start(self) -> None:
        """Return once it answers."""
        ...

    def kill(self) -> None:
        """Kill it by SIGKILL."""
        ...

    def hang(self) -> None:
        """Stop it from answering (SIGSTOP) until `go_on`."""
        ...

    def go_on(self) -> None:
        """Let it answer again."""
        ...


class RedisProcess:
    """Redis that acknowledges only what is on disk."""

    def __init__(self, home: Path) -> None:
        self._home, self._port = home, free_port()
        self.url = f"redis://127.0.0.1:{self._port}/0"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Return once it answers. Retried while another program has its port for a moment."""
        wait_until(
            self._runs, otherwise=f"redis-server did not start: see {self._home / 'log'}"
        )

    def _runs(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            self._begin()
        return self._ping() == b"+PONG\r\n"

    def _begin(self) -> None:
        options = {
            "port": self._port,
            "bind": "127.0.0.1",
            "dir": self._home,
            "save": "",
            "daemonize": "no",
        }
        durable = {"appendonly": "yes", "appendfsync": "always"}
        words = [
            word
            for name, value in {**options, **durable}.items()
            for word in (f"--{name}", str(value))
        ]
        with (self._home / "log").open("ab") as log:
            self._process = subprocess.Popen(
                ["redis-server", *words], stdout=log, stderr=subprocess.STDOUT
            )

    def kill(self) -> None:
        """Kill it by SIGKILL."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def hang(self) -> None:
        """Stop it from answering."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it answer again."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def _ping(self) -> bytes:
        try:
            with socket.create_connection(("127.0.0.1", self._port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(100)
        except OSError:
            return b""


def run_redis(home: Path) -> ServerProcess:
    """Start Redis in this folder; skip the test where it is not installed."""
    if shutil.which("redis-server") is None:
        not_here("redis-server", "apt-get install redis-server")
    server = RedisProcess(home)
    server.start()
    return server


KINDS: dict[str, Callable[[Path], ServerProcess]] = {
    "postgres": run_postgres,
    "redis": run_redis,
}
"""Kind -> a function that starts one in an empty folder."""

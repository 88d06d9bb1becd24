"""A real PostgreSQL with its own folder and port.

Root starts it as another user, since it refuses root.
"""

import atexit
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

from tests.extensions.shared.server_programs import free_port, not_here
from tests.waiting import wait_until

USERS = ("postgres", "nobody")


class PostgresProcess:
    """PostgreSQL that acknowledges only what is on disk."""

    def __init__(self, home: Path, programs: Path) -> None:
        self._home, self._programs, self._port = home, programs, free_port()
        # Not in `home`: another user must reach it.
        self._data = Path(tempfile.mkdtemp(prefix="xscore-postgres-"))
        atexit.register(shutil.rmtree, self._data, ignore_errors=True)
        self.url = f"postgresql://tester@127.0.0.1:{self._port}/postgres"
        self._process: subprocess.Popen[bytes] | None = None
        self._user = _user_other_than_root()
        if self._user is not None:
            os.chown(self._data, self._user, -1)
        self._run(
            "initdb",
            "-D",
            str(self._data),
            "-U",
            "tester",
            "-A",
            "trust",
            "-N",
            "-E",
            "UTF8",
            "--locale=C",
        )

    def start(self) -> None:
        """Return once it answers. Retried while remains of a killed one prevent the start."""
        wait_until(self._runs, otherwise=f"postgres did not start: see {self._home / 'log'}")

    def kill(self) -> None:
        """Kill it and all its processes by SIGKILL."""
        for process in self._processes():
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        assert self._process is not None
        self._process.wait()

    def hang(self) -> None:
        """Stop it from answering."""
        for process in self._processes():
            with suppress(ProcessLookupError):  # a worker of its own that has just ended
                os.kill(process, signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it answer again."""
        for process in self._processes():
            with suppress(ProcessLookupError):  # a worker of its own that has just ended
                os.kill(process, signal.SIGCONT)

    @property
    def pid(self) -> int:
        """The listening process; those that answer are its children."""
        assert self._process is not None
        return self._process.pid

    def _processes(self) -> list[int]:
        """Return the listening process, then the answering ones; each has its own process group."""
        listed = subprocess.run(
            ["pgrep", "-P", str(self.pid)], capture_output=True, text=True, check=False
        )
        return [self.pid, *map(int, listed.stdout.split())]

    def _runs(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            self._begin()
        return self._answers()

    def _begin(self) -> None:
        options = {
            "port": self._port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
        }
        words = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        with (self._home / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self._data, *words],
                user=self._user,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _answers(self) -> bool:
        command = [
            str(self._programs / "pg_isready"),
            "-q",
            "-h",
            "127.0.0.1",
            "-p",
            str(self._port),
        ]
        return subprocess.run(command, check=False).returncode == 0

    def _run(self, program: str, *words: str) -> None:
        ran = subprocess.run(
            [self._programs / program, *words],
            user=self._user,
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr


def run_postgres(home: Path) -> PostgresProcess:
    """Start PostgreSQL in this folder; skip the test where it is not installed."""
    executable = shutil.which("postgres")
    places = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda place: int(place.parent.name)
    )
    programs = Path(executable).resolve().parent if executable else None
    if places:
        programs = places[-1]
    if programs is None:
        not_here("postgres", "apt-get install postgresql")
    assert programs is not None
    server = PostgresProcess(home, programs)
    server.start()
    return server


def _user_other_than_root() -> int | None:
    """Return the id of the user that runs it; None: not root, so this user.

    Skips the tests where root is the only user there is: PostgreSQL cannot run there.
    """
    if os.getuid() != 0:
        return None
    for name in USERS:
        with suppress(KeyError):
            return pwd.getpwnam(name).pw_uid
    pytest.skip(f"PostgreSQL refuses root, and there is no user named {' or '.join(USERS)}")

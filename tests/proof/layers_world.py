"""The world of the layers' state machine: a project, its user, a clock, cited code, and
interruptions.

A write that is to be cut is rehearsed first on a copy, whose every state between two transactions
is noted: in one of these the cut store must be, and done again it must come to the same end. The
clock is fixed, so both runs are alike.
"""

import multiprocessing
import os
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from tests.conftest import store_file
from tests.proof.layers_writes import ATOMIC, Write, opened, perform
from xscore.store.scrubbing import needs_scrubbing
from xscore.store.store import Store

NOW = 1_700_000_000.0
DAY = 86_400.0
STEPS = 20
"""SQLite virtual-machine steps between two possible interruptions of a write."""
CODE = "code.py"
FUNCTIONS = ("load", "save")
LINES_EACH = 4

State = tuple[tuple[object, ...], ...]
_COMPARED = (
    "SELECT * FROM memory ORDER BY id",
    "SELECT * FROM evidence ORDER BY 1, 2, 3",
    "SELECT source, target, relation FROM edge ORDER BY 1, 2, 3",
    "SELECT * FROM occurrence ORDER BY 1",
    "SELECT * FROM erased_memory ORDER BY 1",
    "SELECT * FROM observation ORDER BY 1, 2",
    "SELECT * FROM session ORDER BY 1",
    "SELECT turn_id, body FROM receipt ORDER BY 1",
    "SELECT id, answer FROM turn ORDER BY 1",
    "SELECT turn_key, judge, hash, score FROM judgment JOIN query ON query.id = query_id"
    " JOIN content ON content.id = content_id ORDER BY 1, 2, 3",
    "SELECT text FROM reason ORDER BY 1",
    "SELECT key, value FROM meta WHERE key LIKE 'faded_at%' ORDER BY 1",
)
_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(["tests.proof.layers_writes", "numpy"])


class World(Struct, dict=True):
    """The folder with both stores, and the contents of the cited file."""

    folder: Path
    now: float = NOW
    versions: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FUNCTIONS, 0))
    shift: int = 0
    edits: int = 0

    def begin(self) -> None:
        """Write the code and open the store."""
        self.project.mkdir(parents=True)
        self._write_code()
        self.store = opened(self.folder, now=self.now)

    @property
    def project(self) -> Path:
        """The repository."""
        return self.folder / "project"

    @property
    def user_dir(self) -> Path:
        """The user's data folder."""
        return self.folder / "user"

    @property
    def databases(self) -> tuple[Path, Path]:
        """Both database paths, existing or not."""
        return store_file(self.project), self.user_dir / "user.db"

    def edit(self, function: str, version: int, shift: int) -> None:
        """Change a function and its line."""
        self.versions[function], self.shift = version, shift
        self._write_code()

    def span(self, function: str) -> str:
        """Return a function's citation."""
        first = 1 + self.shift + LINES_EACH * FUNCTIONS.index(function)
        return f"{CODE}:{first}-{first + 1}"

    def reopen(self) -> None:
        """Close the store and reopen it at the current time."""
        self.store.close()
        self.store = opened(self.folder, now=self.now)

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Keep the store closed in this process for a while."""
        self.store.close()
        try:
            yield
        finally:
            self.store = opened(self.folder, now=self.now)

    def perform(self, write: Write) -> Any:
        """Do it, uninterrupted."""
        return perform(self.store, write, now=self.now)

    def cut_short(self, write: Write, moment: int) -> tuple[Any, bool]:
        """Start a write, be killed, compare the remains with the rehearsal, and repeat the write if
        it was not done.

        Return what the rehearsal returned, and whether the write was cut at all.
        """
        result, allowed_states = self._rehearse(write)
        was_cut = self._killed(write, moment)
        states_after = [state(path) for path in self.databases]
        for held, state_after in zip(allowed_states, states_after, strict=True):
            assert state_after in held, f"{write} left a store in between, cut at {moment}"
            assert not isinstance(write, ATOMIC) or state_after in (held[0], held[-1])
        is_done = states_after == [held[-1] for held in allowed_states]
        if not is_done or any(map(needs_scrubbing, self.store.connections())):
            assert was_cut, f"{write} comes to something else when it is done again"
            self.perform(write)
        assert [state(path) for path in self.databases] == [
            held[-1] for held in allowed_states
        ], f"{write} is not finished"
        return result, was_cut

    def _rehearse(self, write: Write) -> tuple[Any, tuple[list[State], list[State]]]:
        copy = self.folder / "rehearsal"
        shutil.rmtree(copy, ignore_errors=True)
        with self.closed():
            for name in ("project", "user"):
                if (self.folder / name).exists():
                    shutil.copytree(self.folder / name, copy / name)
        world = World(copy, now=self.now)
        allowed_states: tuple[list[State], list[State]] = ([], [])

        def look(statement: str) -> None:
            if statement.startswith("BEGIN"):
                for held, path in zip(allowed_states, world.databases, strict=True):
                    held.append(state(path))

        look("BEGIN")
        with opened(copy, now=self.now) as store:
            for connection in store.connections():
                connection.set_trace_callback(look)
            try:
                result = perform(store, write, now=self.now)
            finally:
                for connection in store.connections():
                    connection.set_trace_callback(None)
        look("BEGIN")
        shutil.rmtree(copy)
        return result, allowed_states

    def _killed(self, write: Write, moment: int) -> bool:
        with self.closed():
            process = _forks.Process(target=die_at, args=(self.folder, write, self.now, moment))
            process.start()
            process.join(60)
            assert process.exitcode in (0, -signal.SIGKILL), (
                f"{write} ended with {process.exitcode}"
            )
        return process.exitcode != 0

    def _write_code(self) -> None:
        lines = ["# moved down"] * self.shift
        for name in FUNCTIONS:
            lines += [f"def {name}():", f"    return {self.versions[name]}", "", ""]
        place = self.project / CODE
        place.write_text("\n".join(lines))
        self.edits += 1
        os.utime(place, (NOW - 1_000_000 + self.edits * 60, NOW - 1_000_000 + self.edits * 60))

    def holding(self, words: Iterable[str]) -> list[str]:
        """Return the words found in the bytes of any file of either store.

        A separate process reads: closing a file that SQLite has open in the same process drops its
        locks.
        """
        files = [
            str(file)
            for folder in ("project/.xscore", "user")
            for file in (self.folder / folder).rglob("*")
        ]
        words_found = []
        for word in sorted(words):
            done = subprocess.run(["grep", "-aiqsF", word, *files], check=False)
            words_found += [word] if done.returncode == 0 else []
        return words_found


def die_at(folder: Path, write: Write, now: float, moment: int) -> None:
    """Do it, and be killed at this step."""
    steps_left = [moment]

    def count() -> int:
        steps_left[0] -= 1
        if steps_left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return 0

    with opened(folder, now=now) as store:
        for connection in store.connections():
            connection.set_progress_handler(count, STEPS)
        perform(store, write, now=now)


def state(path: Path) -> State:
    """Read a store over a new connection; a missing user store is empty."""
    if not path.exists():
        return ()
    with closing(reader(path)) as connection:
        if not connection.execute(
            "SELECT 1 FROM sqlite_master WHERE name = 'observation'"
        ).fetchone():
            return ()
        return tuple(row for query in _COMPARED for row in connection.execute(query).fetchall())


def reader(path: Path) -> sqlite3.Connection:
    """Open a store for plain SQL."""
    connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
    connection.execute("PRAGMA query_only = ON")
    return connection


def rows_of(store: Store) -> dict[str, dict[str, object]]:
    """Return every memory of both stores that is not indexed, as plain rows."""
    rows_by_id: dict[str, dict[str, object]] = {}
    for connection in store.connections():
        cursor = connection.execute("SELECT * FROM memory WHERE source <> 'index'")
        names = [column[0] for column in cursor.description]
        for row in cursor.fetchall():
            row_fields = dict(zip(names, row, strict=True))
            assert row_fields["id"] not in rows_by_id, "one memory is in both stores"
            rows_by_id[str(row_fields["id"])] = row_fields
    return rows_by_id

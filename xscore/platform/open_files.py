"""Which database files this process has open, so that nothing else in it opens and closes one.

SQLite locks files with POSIX locks, which the system drops as soon as the process closes *any*
descriptor of the file: then another process takes itself for the last one, and removes a journal
that is in use. Trade-off: a connection that is dropped without being closed counts as open.
"""

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

_lock = Lock()
_connections: Counter[str] = Counter()


def note_opened(path: Path) -> None:
    """Count a connection; call it before SQLite opens the file."""
    with _lock:
        _connections[os.path.realpath(path)] += 1


def note_closed(path: Path) -> None:
    """Count a connection less."""
    with _lock:
        _connections[os.path.realpath(path)] -= 1


@contextmanager
def kept_from_sqlite(path: Path) -> Iterator[bool]:
    """Keep this process from opening the database while its file is read; False: it has it open, so
    do not read it."""
    with _lock:
        yield _connections[os.path.realpath(path)] <= 0

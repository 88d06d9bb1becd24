"""P04: encrypting and decrypting a store's file, whatever interrupts it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.statements import facts, say
from tests.store.encrypted_stores import (
    HEADER,
    PLANTED,
    contents,
    contents_of,
    files_containing,
    make_encrypted_store,
    make_plain_store,
    open_store,
)
from xscore.extensions.privacy import encryption
from xscore.platform import encrypted_sqlite, sqlite_drivers
from xscore.platform.errors import StoreDamaged, StoreError
from xscore.store import encryption_key, opening
from xscore.store.opening import connect_store

FILES = {encryption.__file__, sqlite_drivers.__file__}
CHANGING = {
    "encrypt_store",
    "decrypt_store",
    "write_note",
    "_exported",
    "_keep_others_out",
    "_take_its_place",
    "_wipe",
    "_sync",
}
"""The calls that change files; the rest of the conversion only reads."""
MAKE_AND_HOLD = """
import pathlib, sys
from xscore.store import opening
from xscore.store.opening import connect_store
connection = connect_store(pathlib.Path(sys.argv[1]), opening.key_source(pathlib.Path(sys.argv[2])))
connection.execute("SELECT count(*) FROM memory").fetchall()
print("open", flush=True)
sys.stdin.read()
"""


@contextmanager
def opening_elsewhere(path: Path, user_dir: Path) -> Iterator["subprocess.Popen[str]"]:
    """Open the store in another process, which says so and holds it until its input ends."""
    command = [sys.executable, "-c", MAKE_AND_HOLD, str(path), str(user_dir)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        yield process


def test_the_bytes_of_an_encrypted_store_tell_nothing(tmp_path: Path, user_dir: Path) -> None:
    """P04: no SQLite header, and planted words in no file of the store, journal included, also
    while in use."""
    path = make_plain_store(tmp_path / "r", user_dir)
    assert files_containing(path.parent) == ["memory.db"], "the words were there"
    encryption.encrypt_store(path, user_data_dir=user_dir)
    assert not path.read_bytes().startswith(HEADER)
    with open_store(tmp_path / "r", user_dir) as store:
        for number in range(50):
            say(store, f"{PLANTED}, again {number}", now=20.0)
        assert path.with_name("memory.db-wal").stat().st_size > 0
        assert files_containing(path.parent) == []
        assert len(facts(store)) == 55
    assert path.stat().st_mode & 0o777 == 0o600


def test_decrypting_gives_the_same_store(tmp_path: Path, user_dir: Path) -> None:
    """Every row of every table, the schema and the header's numbers are restored; so is the store's
    trust."""
    path = make_plain_store(tmp_path / "r", user_dir)
    with closing(connect_store(path)) as connection:
        before = contents(connection)
    assert encryption.encrypt_store(path, user_data_dir=user_dir).changed
    assert not encryption.encrypt_store(path, user_data_dir=user_dir).changed
    assert encryption.decrypt_store(path, user_data_dir=user_dir).changed
    assert not encryption.decrypt_store(path, user_data_dir=user_dir).changed
    assert path.read_bytes().startswith(HEADER)
    with closing(connect_store(path)) as connection:
        assert contents(connection) == before
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert sorted(file.name for file in path.parent.iterdir()) == [".gitignore", "memory.db"]
    open_store(tmp_path / "r", user_dir).close()


def _stopping_at(step: int, stop: Callable[[], None]) -> tuple[Callable[..., Any], list[int]]:
    """Make a tracer that stops at the n-th distinct line of the conversion, and counts lines."""
    ran = [0]
    seen: set[tuple[str, int]] = set()

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename not in FILES or frame.f_code.co_name not in CHANGING:
            return None
        line = (frame.f_code.co_filename, frame.f_lineno)
        if event == "line" and line not in seen:
            seen.add(line)
            ran[0] += 1
            if ran[0] == step:
                stop()
        return trace

    return trace, ran


def _traced(
    step: int,
    stop: Callable[[], None],
    convert: Callable[..., object],
    path: Path,
    user_dir: Path,
) -> int:
    """Convert, stopping at this step; return how many there are."""
    trace, ran = _stopping_at(step, stop)
    sys.settrace(trace)
    try:
        convert(path, user_data_dir=user_dir)
    finally:
        sys.settrace(None)
    return ran[0]


def _killed_at(step: int, convert: Callable[..., object], path: Path, user_dir: Path) -> None:
    child = os.fork()
    if child == 0:
        _traced(step, lambda: os.kill(os.getpid(), signal.SIGKILL), convert, path, user_dir)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL


def _failed_at(step: int, convert: Callable[..., object], path: Path, user_dir: Path) -> None:
    def fail() -> None:
        raise OSError(28, "No space left on device")

    with suppress(OSError, StoreError):
        _traced(step, fail, convert, path, user_dir)


@pytest.mark.verify
@pytest.mark.parametrize("stopped", [_killed_at, _failed_at])
@pytest.mark.parametrize("way", ["encrypt", "decrypt"])
def test_a_conversion_that_ends_anywhere_leaves_the_old_store_or_the_new(
    tmp_path: Path, user_dir: Path, stopped: Callable[..., None], way: str
) -> None:
    """Killed, or out of space, at each line in turn: everything is still there, and the next call
    finishes."""
    path = make_plain_store(tmp_path / "r", user_dir, memories=2)
    encryption.encrypt_store(path, user_data_dir=user_dir)
    # The key is made, the schema settled.
    encryption.decrypt_store(path, user_data_dir=user_dir)
    key = encryption_key.load_encryption_key(user_dir)
    before = contents_of(path, key)
    convert, convert_back = (
        getattr(encryption, f"{way}_store"),
        encryption.decrypt_store if way == "encrypt" else encryption.encrypt_store,
    )
    if way == "decrypt":
        encryption.encrypt_store(path, user_data_dir=user_dir)
    steps = _traced(-1, lambda: None, convert, path, user_dir)
    assert steps > 45
    for step in range(1, steps + 1):
        convert_back(path, user_data_dir=user_dir)
        stopped(step, convert, path, user_dir)
        with closing(connect_store(path, opening.key_source(user_dir))) as connection:
            assert contents(connection) == before, step
        convert(path, user_data_dir=user_dir)
        names = [".gitignore", "memory.db", *(["memory.db-key"] if way == "encrypt" else [])]
        assert sorted(file.name for file in path.parent.iterdir()) == names, step
        assert path.read_bytes().startswith(HEADER) == (way == "decrypt"), step


def test_what_a_killed_call_left_readable_is_overwritten(
    tmp_path: Path, user_dir: Path
) -> None:
    """The next call wipes the replaced plain file, but not a second link of the live store."""
    path = make_encrypted_store(tmp_path / "r", user_dir)
    leftover = path.with_name("memory.db.plain")
    leftover.write_bytes(PLANTED.encode() * 1000)
    held = leftover.open("rb")
    assert encryption.encrypt_store(path, user_data_dir=user_dir).removed == (str(leftover),)
    assert not leftover.exists()
    assert not held.read().strip(b"\0")
    held.close()
    os.link(path, leftover)
    encryption.encrypt_store(path, user_data_dir=user_dir)
    assert not leftover.exists()
    open_store(tmp_path / "r", user_dir).close()


@pytest.mark.parametrize("way", ["encrypt", "decrypt"])
def test_a_store_that_is_open_elsewhere_is_not_converted(
    tmp_path: Path, user_dir: Path, way: str
) -> None:
    """Another process has it open: exit 6, told to wait, nothing changed; later it works."""
    path = make_plain_store(tmp_path / "r", user_dir)
    if way == "decrypt":
        encryption.encrypt_store(path, user_data_dir=user_dir)
    convert = getattr(encryption, f"{way}_store")
    before = contents_of(path, encryption_key.load_or_create_encryption_key(user_dir))
    with opening_elsewhere(path, user_dir) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        with pytest.raises(StoreError, match="another process") as raised:
            convert(path, user_data_dir=user_dir)
        assert not isinstance(raised.value, StoreDamaged)
        process.communicate("")
    assert contents_of(path, encryption_key.load_encryption_key(user_dir)) == before
    assert path.read_bytes().startswith(HEADER) == (way == "encrypt")
    assert convert(path, user_data_dir=user_dir).changed


def test_a_store_at_work_is_not_encrypted(tmp_path: Path, user_dir: Path) -> None:
    """While a live process judges with it, that process is named."""
    path = make_plain_store(tmp_path / "r", user_dir)
    with closing(connect_store(path)) as connection:
        connection.execute(
            "INSERT INTO runner (id, pid, place, seen_at) VALUES ('r', 1, 'far', ?)",
            (time.time(),),
        )
    with pytest.raises(StoreError, match="process 1 on far"):
        encryption.encrypt_store(path, user_data_dir=user_dir)


def test_who_waits_for_a_conversion_goes_on_in_the_new_file(
    tmp_path: Path, user_dir: Path
) -> None:
    """A process that opens the store meanwhile waits, and never writes into the replaced file."""
    path = make_plain_store(tmp_path / "r", user_dir)
    key = encryption_key.load_or_create_encryption_key(user_dir)
    exported = encryption._exported(path, None, path.with_name("memory.db.sealed"), key)
    with opening_elsewhere(path, user_dir) as process:
        time.sleep(1.0)
        assert process.poll() is None
        encrypted_sqlite.write_note(path, key)
        encryption._take_its_place(exported, path, path.with_name("memory.db.plain"))
        output, complaints = process.communicate("", timeout=30)
    assert (output, complaints) == ("open\n", "")
    assert not path.read_bytes().startswith(HEADER)
    assert contents_of(path, key)["memory_row"]


def test_set_aside_stores_are_not_left_readable(tmp_path: Path, user_dir: Path) -> None:
    """Plain copies are named, and removed only on request."""
    path = make_plain_store(tmp_path / "r", user_dir)
    aside = path.parent / "aside-1"
    aside.mkdir()
    (aside / "memory.db").write_text(PLANTED)
    with pytest.raises(StoreError, match="would stay readable") as raised:
        encryption.encrypt_store(path, user_data_dir=user_dir)
    assert "--drop-asides" in raised.value.hint
    assert path.read_bytes().startswith(HEADER)
    done = encryption.encrypt_store(path, user_data_dir=user_dir, drop_asides=True)
    assert done.removed == (str(aside),)
    assert files_containing(path.parent) == []

"""Bring an older database to today's schema: a copy of what cannot be rebuilt, then every step
in one transaction.

The write lock is held from before the copy until the last step is committed. So a process that
is killed, and a disk that fills up, leave the old database as it was, perhaps with a copy next
to it; the next opening starts again. A second process waits at the lock, then finds the work
done. What a step does is the caller's business. Trade-off: the journal of the database grows by
what the steps write, and the copy needs room of its own.
"""

import os
import re
import shutil
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

from msgspec import Struct

from xscore.platform import database, sqlite_drivers
from xscore.platform.database import Migration, Schema
from xscore.platform.database_files import read_header
from xscore.platform.errors import StoreDamaged, StoreError
from xscore.platform.files import sync_to_disk
from xscore.platform.set_aside import make_set_aside_folder, set_aside_folders
from xscore.platform.sqlite_drivers import KeySource

NO_ROWS = "false"
"""SQL condition: every row of the table can be rebuilt."""
_UNFINISHED = ".new"
_COPY_ROWS = 'INSERT INTO main."{0}" SELECT * FROM source."{0}" WHERE {1}'
_MARK = re.compile(r"schema-\d+\.txt")
_MARK_TEXT = """\
This is a copy of the parts of {name} that cannot be rebuilt, made before it was migrated
from schema {before} to {after}. The xscore that wrote schema {before} opens it. The index
is left out, since it is rebuilt from the files.
The next migration removes this folder, and you may remove it at any time.
"""


StepFunction = Callable[[sqlite3.Connection], None]
"""Changes tables and rows from the schema before to its own; called in an open transaction."""


class Step(Struct, frozen=True):
    """The way from one schema number to the next."""

    run: StepFunction
    kept_rows: Mapping[str, str]
    """For the schema before: each table with rows that can be rebuilt -> SQL condition of those
    that cannot."""


def migrate(
    connection: sqlite3.Connection,
    path: Path,
    schema: Schema,
    steps: Mapping[int, Step],
    keys: KeySource | None,
) -> Migration | None:
    """Run the steps that lead to the schema's version; return None if another process has done so
    meanwhile.

    steps: by the number that each leads to.
    Raises StoreError, and then the database is as it was.
    """
    connection.execute("PRAGMA foreign_keys = OFF")  # no effect within a transaction
    try:
        with database.transaction(connection):
            before = database.schema_version(connection)
            if before >= schema.version:
                return None
            pending = [steps[number] for number in range(before + 1, schema.version + 1)]
            copy = _write_copy(path, (before, schema.version), pending[0].kept_rows, keys)
            try:
                _run_steps(connection, path, pending, before)
                _refuse_dangling(connection, path)
                connection.execute(f"PRAGMA user_version = {schema.version}")
            except BaseException:
                shutil.rmtree(copy, ignore_errors=True)  # its room may be what was missing
                raise
    finally:
        connection.execute("PRAGMA foreign_keys = ON")
    _remove_older_copies(path, copy)
    return Migration(before, schema.version, copy)


def _run_steps(
    connection: sqlite3.Connection, path: Path, pending: list[Step], before: int
) -> None:
    """Run the steps. Raises StoreDamaged where the tables are not those of the number before."""
    for step in pending:
        try:
            step.run(connection)
        # What no damage explains: our statements fit the tables that the number promises.
        except sqlite3.Error as error:
            raise StoreDamaged(
                f"the store {path} is damaged: its schema number is {before}, but its tables are"
                f" not those of schema {before} ({error})",
                hint=sqlite_drivers.recovery_hint(path),
            ) from error


def _refuse_dangling(connection: sqlite3.Connection, path: Path) -> None:
    """Raise StoreDamaged if a row refers to a missing row."""
    row = connection.execute("PRAGMA foreign_key_check").fetchone()
    if row is not None:
        raise StoreDamaged(
            f"the store {path} is damaged: a row of {row[0]} refers to one of {row[2]} that is"
            " missing",
            hint=sqlite_drivers.recovery_hint(path),
        )


def _write_copy(
    path: Path, versions: tuple[int, int], kept_rows: Mapping[str, str], keys: KeySource | None
) -> Path:
    """Copy what cannot be rebuilt into a folder of its own; return it once it is on disk."""
    before, after = versions
    _remove_unfinished(path)
    try:
        folder = make_set_aside_folder(path.parent)
    except OSError as error:
        raise _not_copied_error(path.parent, error) from error
    target = folder / path.name
    scratch = folder / (path.name + _UNFINISHED)
    try:
        noted = sqlite_drivers.read_note(path)
        if noted is not None:
            # An encrypted copy opens only with its key note: under its name now and its last.
            note = sqlite_drivers.note_path(path).read_bytes()
            for place in (sqlite_drivers.note_path(scratch), sqlite_drivers.note_path(target)):
                place.write_bytes(note)
        # Made by us and private before SQLite opens it, which would follow a planted link.
        os.close(os.open(scratch, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW, 0o600))
        with closing(database.open_unchecked(scratch, keys)) as copy:
            copy.place = path  # type: ignore[attr-defined]  # what is damaged is the original
            _copy_rows(copy, path, kept_rows)
        mark = _MARK_TEXT.format(name=path.name, before=before, after=after)
        (folder / f"schema-{before}.txt").write_text(mark, "utf-8")
        # Only a complete copy has the store's name, so it is on disk before it is renamed.
        sync_to_disk(scratch)
        scratch.rename(target)
        sqlite_drivers.note_path(scratch).unlink(missing_ok=True)
        sync_to_disk(folder)
        sync_to_disk(folder.parent)
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, OSError):
            raise _not_copied_error(folder, error) from error
        raise
    return folder


def _not_copied_error(folder: Path, error: OSError) -> StoreError:
    return StoreError(
        f"{folder} cannot be written: {error.strerror}",
        hint="Free some space: the store is copied before it is migrated. Nothing was changed.",
    )


def _copy_rows(copy: sqlite3.Connection, path: Path, kept_rows: Mapping[str, str]) -> None:
    """Write all tables, and their rows that cannot be rebuilt, into an empty database.

    They are read by a connection of their own, which sees what is committed; the write lock keeps
    that as it is.
    """
    copy.execute("PRAGMA journal_mode = OFF").fetchall()  # an unfinished copy is thrown away
    copy.execute("PRAGMA synchronous = OFF")
    copy.execute("PRAGMA foreign_keys = OFF")
    place = f"{path.absolute().as_uri()}?mode=ro"
    # A killed conversion leaves a plain database with a note; otherwise both have the same key.
    is_noted_but_plain = (
        sqlite_drivers.read_note(path) is not None and read_header(path) is not None
    )
    with_key = " KEY ''" if is_noted_but_plain else ""
    copy.execute(f"ATTACH ? AS source{with_key}", (place,))
    objects = copy.execute(
        "SELECT type, name, sql FROM source.sqlite_master"
        " WHERE sql IS NOT NULL AND name NOT GLOB 'sqlite_*' ORDER BY rowid"
    ).fetchall()
    with database.transaction(copy):
        for kind, name, sql in objects:
            if kind == "table":
                copy.execute(sql)
                copy.execute(_COPY_ROWS.format(name, kept_rows.get(name, "true")))
        if copy.execute(
            "SELECT 1 FROM source.sqlite_master WHERE name = 'sqlite_sequence'"
        ).fetchone():
            copy.execute("DELETE FROM main.sqlite_sequence")
            copy.execute(_COPY_ROWS.format("sqlite_sequence", "true"))
        for kind, _, sql in objects:
            if kind != "table":
                copy.execute(sql)
        for fact in ("user_version", "application_id"):
            (value,) = copy.execute(f"PRAGMA source.{fact}").fetchone()
            copy.execute(f"PRAGMA main.{fact} = {int(value)}")


def _remove_unfinished(path: Path) -> None:
    """Remove what killed migrations began to copy."""
    for folder in set_aside_folders(path.parent):
        if (folder / f"{path.name}{_UNFINISHED}").exists():
            shutil.rmtree(folder, ignore_errors=True)


def _remove_older_copies(path: Path, newest: Path) -> None:
    """Remove the copies of earlier migrations; stores that a rebuild set aside stay."""
    for folder in set_aside_folders(path.parent):
        if folder == newest or not (folder / path.name).is_file():
            continue
        if any(_MARK.fullmatch(file.name) for file in folder.iterdir()):
            shutil.rmtree(folder, ignore_errors=True)

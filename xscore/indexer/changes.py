"""Bring changed files into the store: read, parse and write them; `relinking` then links what a
change may affect.

Files that another worktree has parsed are adopted, the others are parsed in processes of their own.
Trade-off: what is read of a file waits for its batch to be written, so a deadline can lose one
batch.
"""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from xscore.indexer.first_lines import MOST_FIRST_CHARS, language_of_file
from xscore.indexer.parse_jobs import ParseJob
from xscore.indexer.workers import parse_in_processes
from xscore.platform.database import lock_wait_until, transaction
from xscore.platform.files import FileRefused, opened_folder, read_file_under, settled_ns
from xscore.platform.hashing import file_digest
from xscore.records.indexing import Excluded, FileStamp
from xscore.store import index_rows
from xscore.store.encoded_files import EncodedFile, in_batches
from xscore.store.file_rows import replace_files
from xscore.store.file_versions import find_version, is_sound
from xscore.store.worktrees import worktree_names

if TYPE_CHECKING:
    from xscore.indexer.index_run import ChangedFile, IndexRun

MANY_FILES = 400
"""Number of files from which on further parsing processes are worth their start."""
BATCH = 64
"""Files per transaction in a usual run."""
LARGE_BATCH = 256
"""Files per transaction in a large run: each transaction writes most pages of the indexes
again."""
HURRIED_BATCH = 16
"""Files per transaction in a run with a deadline, which waits for the last one."""
CACHE_KIB = 48_000
"""SQLite's cache in a large run: with its usual 2 MB the indexes are read from the file again and
again."""
CHECKPOINT_PAGES = 16_000
"""Pages of the journal in a large run before they are copied to the database."""
MAX_PROCESSES = 8
PROGRESS_SECONDS = 0.25
_SLOW = "index_slow"


def parse_changed(run: "IndexRun") -> None:
    """Parse the changed files in other processes, and write what they return."""
    if len(worktree_names(run.connection)) > 1:
        adopt_known(run)
    slow = set(index_rows.read_index_meta(run.connection, _SLOW).splitlines())
    # A deadline must not stop at the same file again and again.
    run.changed.sort(key=lambda changed: changed[0] in slow)
    if _is_large(run):
        run.connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        run.connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
    _write(run, _parse_apart(run))
    index_rows.write_index_meta(run.connection, _SLOW, "\n".join(run.slow))
    missing = set(
        index_rows.read_index_meta(run.connection, index_rows.GRAMMARS_MISSING).split()
    )
    missing -= run.languages_read
    missing |= run.languages_missing
    index_rows.write_index_meta(
        run.connection, index_rows.GRAMMARS_MISSING, " ".join(sorted(missing))
    )
    _write_unparsed(run)


def adopt_known(run: "IndexRun") -> None:
    """Take the changed files whose bytes another worktree has parsed by the same rules out of those
    to parse."""
    size = HURRIED_BATCH if run.until is not None else BATCH
    to_parse: list[ChangedFile] = []
    batch: list[tuple[ChangedFile, FileStamp]] = []
    for changed, stamp in _known_elsewhere(run):
        if stamp is None:
            to_parse.append(changed)
            continue
        batch.append((changed, stamp))
        if len(batch) == size:
            to_parse += _adopt(run, batch)
            batch = []
    run.changed = to_parse + _adopt(run, batch)


def _known_elsewhere(run: "IndexRun") -> "Iterator[tuple[ChangedFile, FileStamp | None]]":
    """Yield the changed files, each with the stamp of a version of it that is stored; None if it
    must be read."""
    with opened_folder(run.root.path) as top:
        for changed in run.changed:
            stamp = None
            # What cannot be read is left to the ordinary way, which says why.
            with suppress(FileRefused, OSError):
                stamp = None if run.is_late else _stored_elsewhere(run, top, changed)
            yield changed, stamp


def _stored_elsewhere(run: "IndexRun", top: int, changed: "ChangedFile") -> FileStamp | None:
    """Return the stamp of a changed file whose bytes are stored under the rules of this run."""
    path, name, info = changed
    data = read_file_under(top, name, max_bytes=run.settings.max_file_bytes)
    language = _language_name(path, data)
    file_hash = file_digest(data)
    listed = run.stamps.get(path)
    if listed is not None and listed.file_hash == file_hash and not listed.excluded:
        return None  # the same bytes at another time: only its stamp is written
    if not find_version(run.connection, path, file_hash, run.rules_of(language)):
        return None
    return FileStamp(path, info.st_size, settled_ns(info, now=run.now), file_hash, language)


def _language_name(path: str, data: bytes) -> str:
    return language_of_file(path, data[:MOST_FIRST_CHARS].decode("latin-1")).name


def _adopt(
    run: "IndexRun", batch: "list[tuple[ChangedFile, FileStamp]]"
) -> "list[ChangedFile]":
    """List the stored versions of these files; return those whose version is gone by now, or
    damaged."""
    unusable: list[ChangedFile] = []
    adopted: dict[FileStamp, int] = {}
    with lock_wait_until(run.connection, run.until), transaction(run.connection):
        for changed, stamp in batch:
            # Asked again under the lock: another process may have removed it since.
            rules = run.rules_of(stamp.language)
            version = find_version(run.connection, stamp.path, stamp.file_hash, rules)
            if version and is_sound(run.connection, stamp.path, version):
                adopted[stamp] = version
            else:
                unusable.append(changed)
        run.changes += replace_files(run.connection, (), (), adopted=adopted)
    run.adopted += len(adopted)
    run.languages_read.update(stamp.language for stamp in adopted)
    return unusable


def files_to_parse(run: "IndexRun", changed: Sequence["ChangedFile"]) -> Iterator[ParseJob]:
    """Yield the files to parse, opened one at a time."""
    with opened_folder(run.root.path) as top:
        for path, name, info in changed:
            if run.is_late:
                return
            read = _read(run, top, path, name, info=info)
            if read is not None:
                stamp, text = read
                rules = (run.settings.window_lines, run.now, run.allow_pii, run.languages)
                yield ParseJob(stamp, text, info.st_mtime_ns, *rules)


def _read(
    run: "IndexRun", top: int, path: str, name: str, *, info: os.stat_result
) -> tuple[FileStamp, str] | None:
    """Return the stamp and the text of a file; None if it is only touched, or refused (noted in
    the run)."""
    listed = run.stamps.get(path)
    file_hash, reason = "", "unreadable"
    size = info.st_size
    mtime_ns = settled_ns(info, now=run.now)
    try:
        data = read_file_under(top, name, max_bytes=run.settings.max_file_bytes)
        file_hash = file_digest(data)
        if listed is not None and listed.file_hash == file_hash and not listed.excluded:
            stamp = FileStamp(path, size, mtime_ns, file_hash, listed.language)
            run.touched[stamp] = info.st_mtime_ns / 1e9
            return None
        return FileStamp(path, size, mtime_ns, file_hash, ""), run.rules.text_of(data, path)
    except FileRefused as refusal:
        reason = str(refusal)
    except OSError:
        pass
    run.refused.append(FileStamp(path, size, mtime_ns, file_hash, "", reason))
    return None


def _parse_apart(run: "IndexRun") -> Iterator[EncodedFile]:
    process_limit = run.settings.workers or min(os.cpu_count() or 1, MAX_PROCESSES)
    return parse_in_processes(
        files_to_parse(run, run.changed),
        count=process_limit if _is_large(run) else 1,
        until=run.until,
        stopped=run.slow.append,
    )


def _write(run: "IndexRun", results: Iterator[EncodedFile]) -> None:
    for batch in in_batches(_reported(run, results), _batch_size(run)):
        files_left = run.files_left - len(batch)
        # One transaction a batch: a run that is killed leaves whole files and their pending links.
        with lock_wait_until(run.connection, run.until), transaction(run.connection):
            run.changes += replace_files(run.connection, batch, (), rules=run.rules_behind)
            index_rows.write_index_meta(
                run.connection, index_rows.FILES_LEFT, str(files_left or "")
            )
        run.indexed += len(batch)
        for parsed in batch:
            language = parsed.stamp.language
            run.languages_read.add(language)
            if parsed.lacks_grammar:
                run.languages_missing.add(language)
            run.secrets += parsed.secrets_redacted
            if parsed.note:
                run.notes_of_files.setdefault(parsed.note, []).append(parsed.stamp.path)
        run.progress(len(run.changed) - run.files_left, len(run.changed))


def _batch_size(run: "IndexRun") -> int:
    if run.until is not None:
        return HURRIED_BATCH
    return LARGE_BATCH if _is_large(run) else BATCH


def _reported(run: "IndexRun", results: Iterator[EncodedFile]) -> Iterator[EncodedFile]:
    """Yield them, and report the progress from time to time, not only when a batch is written."""
    written = run.indexed
    reported_at = time.monotonic()
    for count, parsed in enumerate(results, 1):
        if time.monotonic() - reported_at >= PROGRESS_SECONDS:
            reported_at = time.monotonic()
            unwritten = count - (run.indexed - written)
            run.progress(len(run.changed) - run.files_left + unwritten, len(run.changed))
        yield parsed


def _write_unparsed(run: "IndexRun") -> None:
    """Store the stamps of touched and refused files, and remove the memories of refused ones."""
    if run.touched or run.refused:
        listed: list[FileStamp] = []
        for stamp in run.refused:
            if stamp.path in run.stamps:
                listed.append(run.stamps[stamp.path])
        with transaction(run.connection):
            index_rows.touch_files(run.connection, run.touched)
            # Removed before the stamps are written: a stamp replaces the row that has the memories.
            run.changes += replace_files(run.connection, (), [stamp.path for stamp in listed])
            index_rows.write_stamps(run.connection, run.refused)
        run.unchanged += len(run.touched)
        run.removed += sum(not stamp.excluded for stamp in listed)
        run.excluded += [Excluded(stamp.path, stamp.excluded) for stamp in run.refused]
    index_rows.write_index_meta(
        run.connection, index_rows.FILES_LEFT, str(run.files_left or "")
    )


def _is_large(run: "IndexRun") -> bool:
    return len(run.changed) > MANY_FILES

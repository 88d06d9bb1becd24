"""Bring the store up to date with the files: by stat, then by hash, then by parsing; then link what
changed.

An unchanged file costs one stat: equal size and time of change skip the read, unless that time was
within the resolution of timestamps at the last run (`settled_ns`). Parsed files are written in
batches, one transaction each, with their pending links, so a run that is killed or meets its
deadline leaves a consistent store and the next one continues. Trade-off: such a first run leaves
memories without edges.
"""

import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from xscore.indexer.commits import update_commits
from xscore.indexer.index_run import IndexRun
from xscore.platform.database import is_busy, lock_wait_until, transaction
from xscore.platform.errors import StoreError
from xscore.platform.paths import RepositoryRoot
from xscore.records.indexing import Excluded, IndexReport
from xscore.store import index_rows
from xscore.store.opening import open_empty_store
from xscore.store.packed_pool import are_packs_due, pack_versions
from xscore.store.worktrees import enter_worktree, has_other_worktrees

if TYPE_CHECKING:
    from xscore.indexer.languages import Language
    from xscore.settings import IndexSettings

_FIRST_LOOK = 200
"""How many files are admitted at a time to find a readable one."""


def index_repository(
    connection: sqlite3.Connection,
    root: RepositoryRoot,
    settings: "IndexSettings",
    *,
    now: float,
    allow_pii: bool = False,
    until: float | None = None,
    siblings: Callable[[], Sequence[Path]] = list,
    languages: tuple["Language", ...] = (),
    progress: Callable[[int, int], None] = lambda _files, _of: None,
) -> IndexReport:
    """Index what changed under `root` since the last run, and report on every file.

    allow_pii: keep personal data of configuration.
    until: when to stop, in seconds of `time.monotonic`; what is left is counted (`files_left`) and
        the next run goes on from there.
    siblings: finds stores that a new one may begin from.
    languages: those of other packages.
    progress: called with the number of files read and of all.
    Raises StoreError, StoreDamaged. A file that cannot be read or parsed never fails the run: it is
    excluded with its reason, or cut into windows with a note.
    """
    started = time.perf_counter()
    # First without waiting, so that reads work while another process writes.
    enter_worktree(connection, root.worktree)
    if languages:
        from xscore.indexer.languages import add_languages  # only with plugins

        add_languages(languages)
    run = IndexRun(connection, root, settings, now, allow_pii, until, languages, progress)
    with lock_wait_until(connection, until):
        try:
            # Again under the lock's wait: only now may a missing worktree row be awaited.
            enter_worktree(connection, root.worktree, must_know=True)
            run.forget_removed_worktrees()
            run.notes += _begin_from_another(run, siblings)
            _update(run)
            _pack(run)
            # After the files: a deadline may leave commits to a later run.
            run.commits = update_commits(run)
        except StoreError as error:
            if until is None or not is_busy(error):
                raise
            run.notes.append(
                "another process is writing to the store, so the index was left as it is"
            )
        return run.report(duration_s=time.perf_counter() - started)


def nothing_to_read(
    root: RepositoryRoot, settings: "IndexSettings", *, now: float
) -> IndexReport | None:
    """Return the report of a folder in which no file would be indexed; None if there is one. Stores
    nothing.

    It reads until the first file that is text, so it costs little more than the listing.
    """
    started = time.perf_counter()
    with closing(open_empty_store()) as connection:
        enter_worktree(connection)
        run = IndexRun(connection, root, settings, now)
        _, new_files = run.compare_with_stamps()
        from xscore.indexer.changes import files_to_parse  # only for a folder without a store

        for start in range(0, len(new_files), _FIRST_LOOK):
            admitted_before = len(run.changed)
            run.admit(new_files[start : start + _FIRST_LOOK])
            if next(files_to_parse(run, run.changed[admitted_before:]), None) is not None:
                return None
        run.excluded += [Excluded(stamp.path, stamp.excluded) for stamp in run.refused]
        return run.report(duration_s=time.perf_counter() - started)


def _begin_from_another(run: IndexRun, siblings: Callable[[], Sequence[Path]]) -> list[str]:
    """Begin with the index of another worktree, or of a clone; return a note of it."""
    indexed_by = index_rows.read_index_meta(run.connection, index_rows.PROFILE)
    # There is an index of other rules: its files are parsed again.
    if indexed_by and indexed_by != run.profile:
        return []
    # The first run was finished: there is nothing left to begin.
    if indexed_by and not index_rows.files_left(run.connection):
        return []
    clones = cache(siblings)
    if not (has_other_worktrees(run.connection) or clones()):
        return []
    # Only for the first index of a second worktree or clone.
    from xscore.indexer.takeover import begin_from_clone, begin_from_worktree

    return begin_from_worktree(run) or begin_from_clone(run, clones)


def _update(run: IndexRun) -> None:
    """Bring the store up to date, as far as the deadline allows."""
    connection = run.connection
    indexed_by = index_rows.read_index_meta(connection, index_rows.PROFILE)
    if indexed_by != run.profile or _has_new_grammar(connection):
        with transaction(connection):
            index_rows.invalidate_stamps(connection)
            index_rows.write_index_meta(connection, index_rows.PROFILE, run.profile)
    run.stamps = index_rows.file_stamps(connection)
    present, new_files = run.compare_with_stamps()
    # What was not listed may still be there: nothing is removed.
    if not run.is_listed:
        return
    replaced = run.admit(new_files)
    run.is_unchanged = run.finds_all_as_before(present, new_files)
    run.remove_absent(present | replaced)
    if run.unread:
        with transaction(connection):
            index_rows.write_stamps(connection, run.unread)
    if run.changed:
        from xscore.indexer.changes import parse_changed  # in most turns no file changed

        parse_changed(run)
    elif index_rows.read_index_meta(connection, index_rows.FILES_LEFT):
        index_rows.write_index_meta(connection, index_rows.FILES_LEFT, "")
    index_rows.note_kept_out(connection, Counter(excluded.reason for excluded in run.excluded))
    # Links are resolved once all files are read: a name of those left would seem to be gone.
    if not (run.files_left or run.is_late) and index_rows.links_due(connection):
        from xscore.indexer.relinking import link_changes  # in most turns no name changed

        link_changes(connection)


def _pack(run: IndexRun) -> None:
    """Pack what turns read of changed files, unless it is late or another process is writing."""
    if not are_packs_due(run.connection):
        return
    try:
        pack_versions(run.connection, is_late=lambda: run.is_late)
    except StoreError as error:
        if not is_busy(error):
            raise


def _has_new_grammar(connection: sqlite3.Connection) -> bool:
    """Whether a grammar that was missing when its files were read is installed now."""
    names = index_rows.read_index_meta(connection, index_rows.GRAMMARS_MISSING).split()
    return bool(names) and without_grammar(names) != names


def without_grammar(names: Sequence[str]) -> list[str]:
    """Return the languages of these whose grammar is not installed."""
    from xscore.indexer import grammars  # only a store that lacked a grammar asks

    return grammars.without_grammar(names)

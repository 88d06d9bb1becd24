"""What a store holds, what was spent and what its background process does: for `xscore status`,
which loads no turn.

Trade-off: rows are counted each time; a million judgments take tens of milliseconds.
"""

from pathlib import Path
from sqlite3 import Connection

from xscore.cache.background_lease import read_background
from xscore.cache.calibrations import read_calibrations
from xscore.costs.ledger import is_estimated, total_spent
from xscore.platform.git_folder import head_branch, head_commit
from xscore.platform.paths import user_data_dir
from xscore.records.reports import CalibrationLine, SliceLine, StoreStatus, SuggestedRepository
from xscore.settings import Settings
from xscore.store import commit_rows, opening, user_secret
from xscore.store.extracted_facts import count_waiting
from xscore.store.hook_state import hook_state_file, read_hook_state
from xscore.store.index_rows import (
    GRAMMARS_MISSING,
    files_kept_out,
    files_left,
    read_index_meta,
)
from xscore.store.redaction import redact
from xscore.store.store import Store
from xscore.store.turns import latest_turn_id

LEAST_FILES, MOST_FILES = 60, 5_000
"""Fewest and most files of a repository whose slices are shown: fewer are seen at a glance,
more take seconds to group."""
SLICES_SHOWN = 5
INDEXED_FILES = "file WHERE excluded = ''"


def read_store_status(store: Store, settings: Settings) -> StoreStatus:
    """Count what the store holds, and say what its background process does and how the last hook
    failed."""
    connection = store.connection
    data_dir = user_data_dir(settings.store.user_data_dir)
    branch = commit = ""
    if store.root.git_dir:
        branch = redact(head_branch(store.root.git_dir)).text
        commit = head_commit(store.root.git_dir)
    by_language = _count_by(connection, "memory", "language")
    without_grammar = read_index_meta(connection, GRAMMARS_MISSING).split()
    database_files = store.path.parent.glob(f"{store.path.name}*")
    store_dir = store.original_path.parent
    return StoreStatus(
        root=str(store.root.path),
        branch=branch,
        commit=commit,
        store=str(store.original_path),
        store_id=store.store_id,
        trusted=opening.is_trusted(store_dir, user_data_dir=data_dir, copy=store.path),
        bytes=sum(file.stat().st_size for file in database_files),
        files=_count(connection, INDEXED_FILES),
        files_left=files_left(connection),
        kept_out=files_kept_out(connection),
        memories=_count(connection, "memory"),
        by_layer=_count_by(connection, "memory", "layer"),
        by_kind=_count_by(connection, "memory", "kind"),
        by_language=by_language,
        without_grammar=tuple(filter(by_language.__contains__, without_grammar)),
        commits=commit_rows.commit_counts(connection),
        edges=_count_by(connection, "edge", "relation"),
        judgments=_count(connection, "judgment"),
        turns=_count(connection, "turn"),
        last_turn=latest_turn_id(connection),
        spent_usd=total_spent(connection),
        spent_estimated=is_estimated(connection),
        background=read_background(connection, now=store.clock()),
        calibrations=_calibrations(store),
        purposes=_count(connection, "purpose WHERE line <> ''"),
        slices=_slices(store, settings),
        facts_waiting=sum(map(count_waiting, store.connections_of_a_turn())),
        hook_failure=read_hook_state(hook_state_file(store.root, data_dir)).failure,
        suggested=_suggested(store, settings, data_dir),
    )


def _suggested(
    store: Store, settings: Settings, data_dir: Path
) -> tuple[SuggestedRepository, ...]:
    """Return what `--repo` could add; nothing where the user has no other store."""
    if len(user_secret.known_user_secret(data_dir).trusted_stores) < 2:
        return ()
    from xscore.pipeline.suggested_repositories import (
        suggested_repositories,  # for users of several stores
    )

    also = settings.index.also
    return suggested_repositories(store.root, user_data_dir=data_dir, already=also)


def _count(connection: Connection, table: str) -> int:
    """Count the rows of a table, or of `TABLE WHERE …`."""
    (rows,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    return int(rows)


def _count_by(connection: Connection, table: str, column: str) -> dict[str, int]:
    """Count the rows of a table by a column, without those where it is empty."""
    sql = f"SELECT {column}, count(*) FROM {table} WHERE {column} <> '' GROUP BY 1 ORDER BY 1"
    return dict(connection.execute(sql).fetchall())


def _slices(store: Store, settings: Settings) -> tuple[SliceLine, ...]:
    """Return the largest slices of a repository that is too large to be seen at a glance."""
    files = _count(store.connection, INDEXED_FILES)
    if not LEAST_FILES <= files <= MOST_FILES:
        return ()
    from xscore.store.slices import slices_of_repository  # only where the repository is large

    slices = slices_of_repository(
        store.connection, store.root.path, uses_git=settings.index.git and store.root.is_git
    )
    lines: list[SliceLine] = []
    for slice_ in slices[:SLICES_SHOWN]:
        lines.append(SliceLine(slice_.folder, slice_.hub, len(slice_.files), slice_.purpose))
    return tuple(lines)


def _calibrations(store: Store) -> tuple[CalibrationLine, ...]:
    lines: list[CalibrationLine] = []
    for calibration in read_calibrations(store.connection):
        lines.append(
            CalibrationLine(calibration.asked, calibration.made_at, calibration.in_words())
        )
    return tuple(lines)

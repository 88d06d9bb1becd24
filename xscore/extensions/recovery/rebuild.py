"""`xscore store rebuild`: valid rows of the damaged one are copied into a new one, and the damaged one is set aside.

Rows of a repository's store are taken over only if that store was trusted here. The user's own store needs no trust,
because it stands in the user's own folder. The store is not opened first, since that is what failed. Trade-off: killed
between setting aside and moving into place, a rebuild leaves no store there; both lie beside it, and the next command
creates an empty one.
"""

import os
from contextlib import closing, suppress
from itertools import count
from pathlib import Path

import click
from msgspec import Struct

from xscore.cache.lease import refuse_busy_store
from xscore.cli.opening import read_settings, run_turn
from xscore.cli.options import Flags, command
from xscore.cli.terminal import Terminal
from xscore.extensions.recovery.salvage import SalvageReport, salvage_store
from xscore.platform import database, sqlite_drivers
from xscore.platform.errors import StoreDamaged, StoreUntrusted, UsageError
from xscore.platform.paths import STORE_FILE, find_root, user_data_dir
from xscore.platform.processes import random_hex
from xscore.platform.text import one_line
from xscore.store import opening, user_secret
from xscore.store.journals import JOURNALS
from xscore.store.opening import user_store_path


class RebuiltStore(Struct, frozen=True):
    """The result of a rebuild."""

    set_aside_at: Path | None
    """Where the old one is now; None: there was none."""
    salvaged: SalvageReport | None
    """What was copied; None: nothing, because the old store was not known to be this user's."""


def rebuild_store(store_dir: Path, *, user_data_dir: Path) -> RebuiltStore:
    """Rebuild the store of this folder.

    Raises StoreUntrusted if the folder is a link, StoreTooNew if only a newer xscore can read it, StoreError if the new
    store cannot be written or another process is judging with the old one: what that pays for would be lost.
    """
    opening.refuse_link(store_dir)
    database.refuse_newer(store_dir / STORE_FILE, opening.SCHEMA)
    return _rebuild(store_dir / STORE_FILE, user_data_dir, _trusted_id(store_dir, user_data_dir))


def rebuild_user_store(user_data_dir: Path) -> RebuiltStore:
    """Rebuild the user's own store. Raises UsageError if there is none, StoreTooNew, StoreError."""
    path = opening.user_store_path(user_data_dir)
    opening.refuse_link(path)
    database.refuse_newer(path, opening.SCHEMA)
    if not path.exists():
        raise UsageError(f"there is no store of your own at {path}", hint="One is made when you first say something.")
    return _rebuild(path, user_data_dir, random_hex(16))


def _rebuild(path: Path, user_data_dir: Path, trusted_id: str | None) -> RebuiltStore:
    """Build a new store beside `path`, with the valid rows of a trusted old one, and move it into place."""
    keys = opening.key_source(user_data_dir)
    store_id, salvaged = trusted_id or random_hex(16), None
    with user_secret.user_lock(user_data_dir):
        keep_note = trusted_id is not None and sqlite_drivers.read_note(path) is not None
        if trusted_id:
            refuse_busy_store(path, keys)
        scratch = opening.create_scratch(path, store_id, keys if keep_note else None)
        if trusted_id:
            with closing(opening.connect_store(scratch, keys)) as connection:
                salvaged = salvage_store(path, connection, keys)
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            refuse_busy_store(path, keys)  # a process may have started meanwhile
        aside = set_store_aside(path, keep_note=keep_note)
        if path.name == STORE_FILE:
            user_secret.add_trust_mark(user_data_dir, store_id, os.path.realpath(path))
        opening.put_in_place(scratch, path)
    return RebuiltStore(aside, salvaged)


def set_store_aside(path: Path, *, keep_note: bool = False) -> Path | None:
    """Move a database into a numbered folder beside it; None: there was none.

    keep_note: leave the note that it is encrypted, so that the next store is encrypted too.
    """
    files = [place for side in ("", *JOURNALS) if os.path.lexists(place := Path(f"{path}{side}"))]
    note = sqlite_drivers.note_path(path)
    if not (files or os.path.lexists(note)):
        return None
    places = (path.with_name(f"aside-{number}") for number in count(1))
    aside = next(place for place in places if not os.path.lexists(place))
    aside.mkdir(mode=0o700)
    for file in files:
        with suppress(FileNotFoundError):  # SQLite removes the journals of a database that is being closed
            file.rename(aside / file.name)
    if os.path.lexists(note):
        if keep_note:
            (aside / note.name).write_bytes(note.read_bytes())
        else:
            note.rename(aside / note.name)
    return aside


def _trusted_id(store_dir: Path, user_data_dir: Path) -> str | None:
    """Return the id of a store that is there and trusted; None if that cannot be shown."""
    with suppress(StoreUntrusted, StoreDamaged):
        opening.refuse_links(store_dir)
        if opening.is_trusted(store_dir, user_data_dir=user_data_dir):
            return opening.read_store_id(store_dir / STORE_FILE, user_data_dir)
    return None


@command()
@click.option("--user", is_flag=True, help="Your own store, and no project's.")
def rebuild(user: bool, flags: Flags) -> None:
    """Set the store of this repository aside and build a new one; what is shown to be yours is taken over.

    Memories, turns, the ledger and judgments come along where the old file can be read and was made here by you.
    """
    settings = read_settings(flags)
    user_data = user_data_dir(settings.settings.store.user_data_dir)
    if user:
        _print_rebuilt(user_store_path(user_data), rebuild_user_store(user_data), flags.terminal)
        return
    store_dir = find_root(Path.cwd()).store_dir
    rebuilt = rebuild_store(store_dir, user_data_dir=user_data)
    run_turn(flags, lambda open_: open_.index(), settings=settings)
    _print_rebuilt(store_dir, rebuilt, flags.terminal)


def _print_rebuilt(place: Path, rebuilt: RebuiltStore, terminal: Terminal) -> None:
    salvaged, aside = rebuilt.salvaged, rebuilt.set_aside_at
    counts = salvaged and {
        **salvaged.kept,
        "rows_not_believed": salvaged.rejected_rows,
        "places_not_read": salvaged.damaged_places,
        "batches_at_vendors": salvaged.at_vendors,
    }
    lines = [f"rebuilt: {one_line(str(place))}"]
    if aside:
        lines.append(f"set aside: {one_line(str(aside))}")
        lines.append(salvaged.summary if salvaged else "salvaged nothing: nothing shows that you made it here")
    body = {"store": str(place), "action": "rebuilt", "aside": str(aside) if aside else None, "salvaged": counts}
    terminal.print_result(body, "\n".join(lines))

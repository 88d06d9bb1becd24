"""`xscore store rebuild`: valid rows of the damaged one are copied into a new one, and the damaged
one is set aside.

Rows of a repository's store are taken over only if that store was trusted here, or on the
user's word (`store.trust`): damage may have taken the id that its mark is for, and a place
alone shows nothing, because a foreign store could have been unpacked there. A journal that no
process of the user noted is set aside before anything is read: the store is then as it was
without it. The user's own store needs no trust, because it is in the user's own folder. The
store is not opened first, since that is what failed. Trade-off: killed between setting aside
and moving into place, a rebuild leaves no store there; both are next to it, and the next
command creates an empty one.
"""

import os
import time
from contextlib import closing, suppress
from pathlib import Path

import click
from msgspec import Struct

from xscore.cache.lease import refuse_busy_store
from xscore.cli.flags import Flags, command
from xscore.cli.options import YES
from xscore.cli.pipeline_run import run_with_pipeline
from xscore.cli.settings_and_store import read_settings
from xscore.cli.terminal import Terminal
from xscore.extensions.recovery.copied_tables import SalvageReport
from xscore.extensions.recovery.restoring import find_restorable, restore
from xscore.extensions.recovery.salvage import salvage_store
from xscore.platform import database, sqlite_drivers
from xscore.platform.errors import StoreDamaged, StoreUntrusted, UsageError
from xscore.platform.paths import STORE_FILE, find_root, refuse_wide_folder, user_data_dir
from xscore.platform.processes import random_hex
from xscore.platform.set_aside import make_set_aside_folder
from xscore.platform.text import counted, one_line
from xscore.store import copied_stores, opening, user_secret
from xscore.store.copied_stores import CopiedStore
from xscore.store.journals import (
    JOURNALS,
    has_unusable_journal,
    refuse_foreign_journal,
)
from xscore.store.opening import user_store_path
from xscore.store.store import Store


class RebuiltStore(Struct, frozen=True):
    """The result of a rebuild."""

    set_aside_at: Path | None
    """Where the old store is now; None if there was none."""
    salvaged: SalvageReport | None
    """What was copied; None: nothing, because the old store was not known to be this user's."""
    left_out_journal: bool = False
    """Whether a journal that no process of this user noted was set aside unread."""


def rebuild_store(store_dir: Path, *, user_data_dir: Path, trust: bool = False) -> RebuiltStore:
    """Rebuild the store of this folder.

    trust: the user says that it is theirs, whatever can be read of it.
    Raises StoreUntrusted if the folder is a link, StoreTooNew if only a newer xscore can read it,
    StoreError if the new store cannot be written or another process is judging with the old one:
    what that pays for would be lost.
    """
    opening.refuse_link(store_dir)
    path = store_dir / STORE_FILE
    database.refuse_newer(path, opening.SCHEMA)
    journal_aside = _set_unusable_journal_aside(path, user_data_dir)
    trusted_id = _trusted_id(store_dir, user_data_dir)
    if trusted_id is None and trust and _is_own_file(store_dir, user_data_dir):
        trusted_id = random_hex(16)
    return _rebuild(path, user_data_dir, trusted_id, journal_aside)


def rebuild_user_store(user_data_dir: Path) -> RebuiltStore:
    """Rebuild the user's own store. Raises UsageError if there is none, StoreTooNew, StoreError."""
    path = opening.user_store_path(user_data_dir)
    opening.refuse_link(path)
    database.refuse_newer(path, opening.SCHEMA)
    if not path.exists():
        raise UsageError(
            f"you have no user store at {path}",
            hint="It is created with your first user memory.",
        )
    return _rebuild(path, user_data_dir, random_hex(16))


def _rebuild(
    path: Path, user_data_dir: Path, trusted_id: str | None, journal_aside: Path | None = None
) -> RebuiltStore:
    """Build a new store next to `path`, with the valid rows of a trusted old one, and move it
    into place; the old one goes to its journal, if that was set aside."""
    keys = opening.key_source(user_data_dir)
    store_id = trusted_id or random_hex(16)
    salvaged = None
    with user_secret.user_lock(user_data_dir):
        keep_note = trusted_id is not None and sqlite_drivers.read_note(path) is not None
        if not os.path.lexists(path):  # it is lost: what was encrypted is not put back in plain
            keep_note = any(
                map(sqlite_drivers.read_note, copied_stores.copies_at(path, user_data_dir))
            )
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if trusted_id:
            refuse_busy_store(path, keys)
        scratch = opening.create_scratch(path, store_id, keys if keep_note else None)
        if trusted_id:
            with closing(opening.connect_store(scratch, keys)) as connection:
                salvaged = salvage_store(path, connection, keys)
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            refuse_busy_store(path, keys)  # a process may have started meanwhile
        aside = set_store_aside(path, keep_note=keep_note, folder=journal_aside)
        if path.name == STORE_FILE:
            user_secret.add_trust_mark(user_data_dir, store_id, os.path.realpath(path))
        opening.put_in_place(scratch, path)
    return RebuiltStore(aside, salvaged, left_out_journal=journal_aside is not None)


def set_store_aside(
    path: Path, *, keep_note: bool = False, folder: Path | None = None
) -> Path | None:
    """Move a database into a numbered folder next to it, or into `folder`; None if there was
    nothing to move.

    keep_note: leave the note that it is encrypted, so that the next store is encrypted too.
    """
    places = [Path(f"{path}{side}") for side in ("", *JOURNALS)]
    files = [place for place in places if os.path.lexists(place)]
    note = sqlite_drivers.note_path(path)
    if not (files or os.path.lexists(note)):
        return folder
    aside = folder or make_set_aside_folder(path.parent)
    for file in files:
        # SQLite removes the journals of a database that is being closed.
        with suppress(FileNotFoundError):
            file.rename(aside / file.name)
    if os.path.lexists(note):
        if keep_note:
            (aside / note.name).write_bytes(note.read_bytes())
        else:
            note.rename(aside / note.name)
    return aside


def _set_unusable_journal_aside(path: Path, user_data_dir: Path) -> Path | None:
    """Move a journal that may not be replayed away from its database, which can be read then;
    return where it is, or None if there was none."""
    with user_secret.user_lock(user_data_dir):
        if not has_unusable_journal(path, user_data_dir):
            return None
        aside = make_set_aside_folder(path.parent)
        for suffix in JOURNALS:
            journal = Path(f"{path}{suffix}")
            # A process that closes the store meanwhile removes its own.
            with suppress(FileNotFoundError):
                journal.rename(aside / journal.name)
    return aside


def _trusted_id(store_dir: Path, user_data_dir: Path) -> str | None:
    """Return the id of a store that is there and trusted; None if that cannot be shown."""
    with suppress(StoreUntrusted, StoreDamaged):
        opening.refuse_links(store_dir)
        if opening.is_trusted(store_dir, user_data_dir=user_data_dir):
            return opening.read_store_id(store_dir / STORE_FILE, user_data_dir)
    return None


def _is_own_file(store_dir: Path, user_data_dir: Path) -> bool:
    """Whether a store is there that is not a link, and without a journal of others."""
    path = store_dir / STORE_FILE
    if not path.exists():
        return False
    with suppress(StoreUntrusted):
        opening.refuse_links(store_dir)
        refuse_foreign_journal(path, user_data_dir)
        return True
    return False


@command(YES)
@click.option("--user", is_flag=True, help="Rebuild your user store instead.")
@click.option(
    "--stated", is_flag=True, help="Only put back what you stated; the store stays as it is."
)
def rebuild(*, user: bool, stated: bool, flags: Flags) -> None:
    """Set the store of this repository aside and build a new one; what is provably yours is carried
    over.

    Memories, turns, the ledger and judgments come along where the old file can be read and was made
    here by you. Where damage hides whose it is, XSCORE_TRUST_STORE=1 says that it is yours.
    What the new store lacks of what you stated is put back from the copy in your data folder. Asks
    first.
    """
    settings = read_settings(flags)
    user_data = user_data_dir(settings.settings.store.user_data_dir)
    if user:
        rebuilt = None if stated else rebuild_user_store(user_data)
        path = user_store_path(user_data)
        with closing(opening.open_user_store(user_data)) as connection:
            users = CopiedStore(connection, path, user_data, opening.key_source(user_data))
            restored = _offer(users, flags, allow_pii=settings.settings.memory.allow_pii)
        _print_rebuilt(path, rebuilt, restored, flags.terminal)
        return
    root = find_root(Path.cwd())
    refuse_wide_folder(root)
    store_dir = root.store_dir
    rebuilt = None
    if not stated:
        trust = settings.settings.store.trust
        rebuilt = rebuild_store(store_dir, user_data_dir=user_data, trust=trust)
    with Store.open_with(root, settings.settings, create=True) as store:
        # The first is the repository's; a store that is not shown to be the user's has no copy.
        source = next(iter(store.copied_stores()), None)
        restored = 0
        if source:
            restored = _offer(source, flags, allow_pii=store.settings.allow_pii)
    if not stated:
        run_with_pipeline(flags, lambda pipeline: pipeline.index(), settings=settings)
    _print_rebuilt(store_dir, rebuilt, restored, flags.terminal)


def _offer(source: CopiedStore, flags: Flags, *, allow_pii: bool) -> int:
    """Put back what was stated, after asking; return how many memories were."""
    restorable = find_restorable(source)
    terminal = flags.terminal
    terminal.notes(
        f"a copy of what you stated cannot be used: {problem}"
        for problem in restorable.problems
    )
    if not restorable.memories:
        return 0
    memories = counted(len(restorable.memories), "memory", "memories")
    if restorable.is_encrypted and sqlite_drivers.read_note(source.path) is None:
        terminal.note(
            f"an encrypted copy holds {memories} that you stated, and this store is plain:"
            " run `xscore store encrypt`, then `xscore store rebuild --stated`"
        )
        return 0
    copy = one_line(str(restorable.copies[0]))
    how = (
        f"{copy} still holds {memories} that you stated: restore with `xscore store rebuild"
        " --stated --yes`"
    )
    if not (flags.assume_yes or terminal.can_ask):
        terminal.note(how)
        return 0
    question = f"your copy of this store holds {memories} that you stated: restore?"
    if not terminal.confirm(question, yes=flags.assume_yes, otherwise=how, default=True):
        return 0
    return restore(source, restorable, allow_pii=allow_pii, now=time.time())


def _print_rebuilt(
    place: Path, rebuilt: RebuiltStore | None, restored: int, terminal: Terminal
) -> None:
    lines = []
    if rebuilt:
        lines += _rebuilt_lines(place, rebuilt)
    if restored:
        lines.append(f"put back {counted(restored, 'memory', 'memories')} that you stated")
    elif not rebuilt:
        lines.append("nothing was put back")
    body: dict[str, object] = {
        "store": str(place),
        "action": "rebuilt" if rebuilt else "restored",
        "aside": None,
        "salvaged": None,
        "restored": restored,
    }
    if rebuilt and rebuilt.set_aside_at:
        body["aside"] = str(rebuilt.set_aside_at)
    if rebuilt and rebuilt.salvaged:
        body["salvaged"] = {
            **rebuilt.salvaged.kept,
            "rows_not_believed": rebuilt.salvaged.rejected_rows,
            "places_not_read": rebuilt.salvaged.damaged_places,
            "batches_at_vendors": rebuilt.salvaged.at_vendors,
        }
    terminal.print_result(body, "\n".join(lines))


def _rebuilt_lines(place: Path, rebuilt: RebuiltStore) -> list[str]:
    lines = [f"rebuilt: {one_line(str(place))}"]
    if rebuilt.set_aside_at is None:
        return lines
    lines.append(f"set aside: {one_line(str(rebuilt.set_aside_at))}")
    if rebuilt.salvaged:
        lines.append(rebuilt.salvaged.summary)
        if rebuilt.left_out_journal:
            lines.append(
                "its journal was not read, since no xscore process of yours noted it; if it is"
                " yours: move the files back, then `xscore store trust`"
            )
    else:
        lines.append(
            "salvaged nothing: nothing that can be read in it shows that you made it here"
        )
        lines.append(
            "if you did: move its files back, then `XSCORE_TRUST_STORE=1 xscore store rebuild`"
            " keeps its readable rows"
        )
    return lines

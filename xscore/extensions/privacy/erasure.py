"""Erase memories for good: the only way anything leaves the store for privacy's sake.

With a memory go all that was made with it or says what it said: its judgments and reasons (where no other memory shows
the same content), vectors, evidence, edges, what receipts tell of it, the answers of turns that kept it, the exchanges
those answers became, and so on from there; then the journal is emptied. A tombstone without content stays. It does not
decide what is to go, and never touches what comes from files: the index does. Trade-off: an answer that was made with
an erased memory goes whole, since nobody can tell which of its words came from there.

Prove an erasure: look for each telling line of the erased text in the raw bytes of every file of the store.

What is still said by a memory that stays, or was asked in a turn, may be found and proves nothing: such lines are left
out and counted. It trusts neither the erasure nor SQLite. The bytes of an encrypted database prove nothing, so that
every row of it is read instead; that nothing is left between the rows rests on its having been rewritten. Trade-off: it
reads every byte, some 20 ms for a megabyte.
"""

import json
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from xscore.extensions.privacy.erasure_plan import (
    ErasurePlan,
    lines_still_stored,
    memory_texts,
    plan_erasure,
    plan_removal,
)
from xscore.extensions.privacy.erasure_rows import erase_rows, remove_observations
from xscore.extensions.privacy.erasure_rows import remove_rows as rows_gone
from xscore.platform import database, sqlite_drivers
from xscore.store import opening
from xscore.store.line_search import LineMatcher, searchable_lines, with_halves
from xscore.store.lookup import delete_projects, list_observations, project_pseudonym
from xscore.store.opening import Databases
from xscore.store.scrubbing import (
    database_files,
    leftover_files_with,
    mark_for_scrubbing,
    needs_scrubbing,
    new_erasure_mark,
    remove_paths,
    scrub_database,
    search_files,
)


class Erasure(Struct, frozen=True, kw_only=True):
    """What went, or would go; counted in rows unless said otherwise."""

    ids: tuple[str, ...] = ()
    """Memories, with the exchanges and summaries that went along; sorted."""
    missing: tuple[str, ...] = ()
    """Ids that no memory has."""
    memories: int = 0
    exchanges: int = 0
    """Of the memories, those that went because an answer was made with an erased one; summaries included."""
    judgments: int = 0
    reasons: int = 0
    vectors: int = 0
    evidence: int = 0
    edges: int = 0
    receipts: int = 0
    """Receipts that named one of them, and are stripped of what they told."""
    answers: int = 0
    """Stored answers of turns that kept one of them, blanked."""
    checkpoints: int = 0
    """Checkpoints that named one of them, stripped."""
    sessions: int = 0
    """Summaries of working sessions, blanked."""
    payloads: int = 0
    """Event payloads, blanked."""
    questions: int = 0
    """Questions of offline jobs that said a line of one, blanked."""
    observations: int = 0
    """What the user's store had noted of them."""
    shared: int = 0
    """Contents that other memories show too: their judgments stay."""
    earlier: tuple[str, ...] = ()
    """Superseded memories that led to one of them, and stay unless they are named too."""
    asides: tuple[str, ...] = ()
    """Set-aside damaged stores and scratch files that held the text, removed; relative to the store's folder."""
    is_finished: bool = False
    """Whether an earlier erasure was completed by this one: it had been cut short before the files were clean."""
    is_clean: bool = True
    """Whether the files hold nothing of it any more; False: another process kept the journal from being emptied."""


def preview_erasure(
    store: Databases, ids: Collection[str], *, turns: Collection[str] = (), noted: bool = False
) -> Erasure:
    """Tell what `erase` would remove, and remove nothing. Raises UsageError for memories of the index."""
    user = store.user_connection()
    with _rolled_back(user), _rolled_back(store.connection):
        own, users = _plans(store, user, ids, turns)
        lines = _lines(own, users, user, noted=noted)
        done = erase_rows(store.connection, own, now=0.0, forget=False)
        if user is not None:
            done["observations"] = remove_observations(user, own, project=project_pseudonym(store.store_id))
            done.update(_carry_out_users(user, users, now=0.0, forget=False, noted=noted))
    strays = tuple(_named(store, place) for place in _strays(store, lines))
    return _erasure(own, users, ids, done, asides=strays)


def erase_memories(
    store: Databases,
    ids: Collection[str],
    *,
    turns: Collection[str] = (),
    now: float,
    forget: bool = False,
    noted: bool = False,
    patience_s: float = 5.0,
) -> Erasure:
    """Erase these memories for good, in the repository's store and in the user's.

    now: Unix seconds, of the tombstones. forget: remember the ids (not the texts), so that no import brings them back.
    noted: with everything that projects noted in the user's store, as when the user's whole layer goes.
    patience_s: how long to wait for processes that read the journal. A call that was killed has changed nothing, or is
    completed by the next. Raises UsageError for memories of the index: exclude their file instead; StoreError.
    """
    user, mark = store.user_connection(), new_erasure_mark()
    is_finished = any(needs_scrubbing(connection) for connection in (store.connection, user) if connection is not None)
    own, users = _plans(store, user, ids, turns)
    lines = _lines(own, users, user, noted=noted)
    places = _strays(store, lines)
    remove_paths(places)
    done = Counter[str]()
    if user is not None and own.memories:  # first, while the memories still say what to look for
        with database.transaction(user):
            done["observations"] = remove_observations(user, own, project=project_pseudonym(store.store_id))
            mark_for_scrubbing(user, mark)
    if own.ids or own.unsaid or users.memories or (noted and user is not None):
        with store.transaction():
            own, users = _plans(
                store, user, ids, turns
            )  # a turn may have ended meanwhile, or another process said more
            lines |= _lines(own, users, user, noted=noted)
            if own.ids or own.unsaid:
                done.update(erase_rows(store.connection, own, now=now, forget=forget))
                mark_for_scrubbing(store.connection, mark)
            if user is not None and (users.memories or noted):
                done.update(_carry_out_users(user, users, now=now, forget=forget, noted=noted))
                mark_for_scrubbing(user, mark)
    is_clean = _cleaned(store, user, lines, mark, patience_s)
    gone = tuple(_named(store, place) for place in places)
    return replace(_erasure(own, users, ids, done, asides=gone), is_finished=is_finished, is_clean=is_clean)


def remove_expired(store: Databases, ids: Collection[str], *, now: float) -> int:
    """Remove memories that time has worn out, with what hangs on them; return how many went.

    Unlike `erase` it leaves the answers, receipts and exchanges that were made with them, and proves nothing: they go
    because they are of no use any more, not because someone wants them unsaid. now: Unix seconds, of the tombstones.
    """
    gone = 0
    for connection in store.connections():
        with database.transaction(connection):
            gone += rows_gone(connection, plan_removal(connection, ids), now=now)
    return gone


def erased_lines(
    store: Databases, ids: Collection[str], *, turns: Collection[str] = (), noted: bool = False
) -> frozenset[str]:
    """Return the telling lines of what `erase_memories` would remove, for `verify_erasure`; ask before it is gone."""
    user = store.user_connection()
    own, users = _plans(store, user, ids, turns)
    asked = store.connection.execute(
        "SELECT task || char(10) || answer FROM turn WHERE id IN (SELECT value FROM json_each(?))",
        (json.dumps(list(turns)),),
    ).fetchall()
    texts = [*memory_texts([own, users]), *(text for (text,) in asked), *(_noted(user) if noted else [])]
    return with_halves(searchable_lines(texts))


def _plans(
    store: Databases, user: sqlite3.Connection | None, ids: Collection[str], turns: Collection[str] = ()
) -> tuple[ErasurePlan, ErasurePlan]:
    """Plan for the repository's store and for the user's, each knowing what the other loses."""
    if user is None:
        return plan_erasure(store.connection, ids, turns=turns), ErasurePlan(memories={}, along=frozenset())
    users = plan_erasure(user, ids)
    own = plan_erasure(store.connection, ids, turns=turns, elsewhere=users.memories, texts=memory_texts([users]))
    return own, plan_erasure(user, ids, texts=memory_texts([own]))


def _carry_out_users(
    user: sqlite3.Connection, users: ErasurePlan, *, now: float, forget: bool, noted: bool
) -> Counter[str]:
    if not (users.memories or noted):
        return Counter()
    observed = delete_projects(user) if noted else remove_observations(user, users, project=None)
    done = erase_rows(user, users, now=now, forget=forget) if users.memories else Counter[str]()
    return done + Counter(observations=observed)


def _noted(user: sqlite3.Connection | None) -> list[str]:
    return [] if user is None else [each.value for each in list_observations(user)]


def _lines(own: ErasurePlan, users: ErasurePlan, user: sqlite3.Connection | None, *, noted: bool) -> frozenset[str]:
    """Every line that is to be found nowhere afterwards."""
    return own.lines.all | users.lines.all | (searchable_lines(_noted(user)) if noted else frozenset())


def _strays(store: Databases, lines: frozenset[str]) -> list[Path]:
    """Stray copies that hold what goes, beside either store."""
    folders = [store.path.parent, *([store.user_data_dir] if store.user_data_dir else [])]
    return [place for folder in folders for place in leftover_files_with(folder, lines)]


def _cleaned(
    store: Databases, user: sqlite3.Connection | None, lines: frozenset[str], mark: str, patience_s: float
) -> bool:
    places = [(store.connection, store.path)]
    if user is not None and store.user_data_dir is not None:
        places.append((user, opening.user_store_path(store.user_data_dir)))
    marked = [(connection, path) for connection, path in places if needs_scrubbing(connection)]
    done = [
        scrub_database(connection, path, lines, mark=mark, patience_s=patience_s) for connection, path in marked
    ]  # each one, also after a failure
    return all(done)


def _named(store: Databases, place: Path) -> str:
    return str(place.relative_to(store.path.parent) if place.is_relative_to(store.path.parent) else place)


def _erasure(
    own: ErasurePlan, users: ErasurePlan, ids: Collection[str], done: Counter[str], *, asides: tuple[str, ...]
) -> Erasure:
    gone = own.memories.keys() | users.memories.keys()
    return Erasure(
        ids=tuple(sorted(gone)),
        missing=tuple(sorted(set(ids) - gone)),
        earlier=tuple(sorted({*own.earlier, *users.earlier})),
        asides=asides,
        is_clean=True,
        is_finished=False,
        **done,
    )


@contextmanager
def _rolled_back(connection: sqlite3.Connection | None) -> Iterator[None]:
    """Let everything be tried and nothing stay."""
    if connection is None:
        yield
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        if connection.in_transaction:  # a full disk has ended it already, and that is the error to tell
            connection.execute("ROLLBACK")


class ErasureProof(Struct, frozen=True, kw_only=True):
    """What the search came to."""

    lines: int
    """Telling lines, and halves of long ones, that were looked for."""
    still_said: int
    """Lines that were not: a memory that stays says them, or a task asked for them."""
    files: int
    """Files that were read, all bytes."""
    encrypted: int
    """Databases among them whose bytes prove nothing, so that all their rows were read as well."""
    found_in: tuple[str, ...]
    """Files that hold one of them."""
    journal_is_empty: bool
    """False: another process reads the journal, which therefore keeps what was erased."""

    @property
    def holds(self) -> bool:
        """Whether nothing was found."""
        return self.journal_is_empty and not self.found_in


def verify_erasure(store: Databases, wording: Iterable[str]) -> ErasureProof:
    """Search the files of the repository's store and of the user's. Raises StoreError for one that cannot be read.

    wording: of `erasure.wording`, asked before the erasure.
    """
    wanted = frozenset(wording)
    connections = store.connections()
    kept = set[str]().union(*(lines_still_stored(connection, wanted, tasks=True) for connection in connections))
    files = _files(store)
    found = {str(file) for file in search_files(files, wanted - kept)}
    sealed = {path: connection for path, connection in _databases(store) if sqlite_drivers.read_note(path) is not None}
    found |= {str(path) for path, connection in sealed.items() if _is_said(connection, LineMatcher(wanted - kept))}
    return ErasureProof(
        lines=len(wanted - kept),
        still_said=len(kept),
        files=len(files),
        encrypted=len(sealed),
        found_in=tuple(sorted(found)),
        journal_is_empty=not any(map(needs_scrubbing, connections)),
    )


def _databases(store: Databases) -> Iterator[tuple[Path, sqlite3.Connection]]:
    yield store.path, store.connection
    if store.user_data_dir is not None and (own := store.user_connection()) is not None:
        yield opening.user_store_path(store.user_data_dir), own


def _is_said(connection: sqlite3.Connection, lines: LineMatcher) -> bool:
    """Whether a row of any table says one of the lines."""
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0").fetchall()
    rows = (row for (table,) in tables for row in connection.execute(f'SELECT * FROM "{table}"'))
    texts = (
        value if isinstance(value, str) else value.decode("utf-8", "replace")
        for row in rows
        for value in row
        if isinstance(value, str | bytes)
    )
    return any(lines.found_in(text) for text in texts)


def _files(store: Databases) -> list[Path]:
    """Every file in the store's folder, and the user's store with its journals."""
    own = [place for place in store.path.parent.rglob("*") if place.is_file() and not place.is_symlink()]
    folder = store.user_data_dir
    return sorted({*own, *(database_files(opening.user_store_path(folder)) if folder else [])})

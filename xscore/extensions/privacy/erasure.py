"""Erase memories for good, and prove it: the only way memories leave a store for privacy's sake.

With a memory goes everything made with it or quoting it: judgments and reasons, vectors, evidence,
edges, parts of receipts, stored answers, the exchanges those became, and so on; then the files are
rewritten. The proof searches the raw bytes of every file; of an encrypted database it reads every
row instead. Memories of files are refused. Trade-off: an answer made with an erased memory goes
whole, since its words cannot be traced.
"""

import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import chain
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from xscore.extensions.privacy.erasure_plan import ErasurePlan, plan_erasure
from xscore.extensions.privacy.erasure_rows import erase_rows, remove_observations
from xscore.platform import database, sqlite_drivers
from xscore.store import opening, stated_copy
from xscore.store.line_search import LineMatcher, searchable_lines, with_halves
from xscore.store.lookup import delete_projects, list_observations, project_pseudonym
from xscore.store.scrubbing import (
    database_files,
    leftover_files_with,
    lines_still_stored,
    mark_for_scrubbing,
    needs_scrubbing,
    remove_paths,
    scrub_database,
    search_files,
)
from xscore.store.store import Store


class Erasure(Struct, frozen=True, kw_only=True):
    """What was erased, or would be; rows unless said otherwise."""

    ids: tuple[str, ...] = ()
    """Memories, with the exchanges and summaries that depend on them; sorted."""
    missing: tuple[str, ...] = ()
    """Ids that no memory has."""
    memories: int = 0
    exchanges: int = 0
    """Of the memories, dependent exchanges and summaries."""
    judgments: int = 0
    reasons: int = 0
    vectors: int = 0
    evidence: int = 0
    edges: int = 0
    receipts: int = 0
    """Stripped."""
    answers: int = 0
    """Blanked."""
    checkpoints: int = 0
    """Stripped."""
    sessions: int = 0
    """Summaries of working sessions, blanked."""
    payloads: int = 0
    """Of events, blanked."""
    questions: int = 0
    """Of batch jobs, blanked."""
    observations: int = 0
    """In the user's store."""
    shared: int = 0
    """Contents that other memories show too, so their judgments stay."""
    earlier: tuple[str, ...] = ()
    """Superseded memories that led to one of them and stay."""
    asides: tuple[str, ...] = ()
    """Set-aside stores and scratch files with the text, removed; relative to the store's folder."""
    is_finished: bool = False
    """Whether this call completed an erasure that had been cut short."""
    is_clean: bool = True
    """Whether the files are rewritten; False: another process prevented it."""


_Parts = list[tuple[sqlite3.Connection, ErasurePlan]]
"""The repository's store and its erasures, then the user's, if there is one."""


def preview_erasure(
    store: Store,
    ids: Collection[str],
    *,
    turns: Collection[str] = (),
    with_observations: bool = False,
) -> Erasure:
    """Return what `erase_memories` would erase. Raises UsageError for memories of files."""
    with ExitStack() as stack:
        for connection in reversed(store.connections()):
            stack.enter_context(_rolled_back(connection))
        parts = _plan_parts(store, ids, turns)
        leftovers = _leftovers(store, _lines_of(parts, with_observations=with_observations))
        done = _erase_observations(store, parts)
        done += _erase_parts(parts, now=0.0, forget=False, with_observations=with_observations)
    return _erasure(store, parts, ids, done, leftovers)


def erase_memories(
    store: Store,
    ids: Collection[str],
    *,
    turns: Collection[str] = (),
    now: float,
    forget: bool = False,
    with_observations: bool = False,
    timeout_s: float = 5.0,
) -> Erasure:
    """Erase these memories for good, in the repository's store and in the user's.

    turns: past turns that go with question, answer and receipt.
    now: unix seconds, of the tombstones.
    forget: remember the ids (not the texts), so that no import brings them back.
    with_observations: also everything that projects noted in the user's store.
    timeout_s: how long to wait for processes that read the journal. A call that was killed has
        changed nothing, or is completed by the next.

    Raises UsageError for memories of files; StoreError.
    """
    connections = store.connections()
    is_finished = any(map(needs_scrubbing, connections))
    parts = _plan_parts(store, ids, turns)
    leftovers = _leftovers(store, _lines_of(parts, with_observations=with_observations))
    # Files and copies before the rows: a call that is killed here has the rows left to find them
    # by again.
    remove_paths(leftovers)
    _erase_from_copies(store, parts)
    done = Counter[str]()
    # The user's store first, while the memories still say what to look for.
    if len(parts) > 1 and parts[0][1].memories:
        with database.transaction(parts[1][0]):
            done += _erase_observations(store, parts)
            mark_for_scrubbing(parts[1][0])
    with store.transaction():
        parts = _plan_parts(store, ids, turns)  # again: a turn may have ended meanwhile
        done += _erase_parts(parts, now=now, forget=forget, with_observations=with_observations)
    # Deleted rows stay in free pages and in the journal until both are rewritten.
    scrubbed = []
    for connection in connections:
        if needs_scrubbing(connection):
            scrubbed.append(scrub_database(connection, timeout_s=timeout_s))
    for source in store.copied_stores():
        # Another process may have copied it again while it was still here.
        stated_copy.update_copy(source)
    erasure = _erasure(store, parts, ids, done, leftovers)
    return replace(erasure, is_finished=is_finished, is_clean=all(scrubbed))


def erased_lines(
    store: Store,
    ids: Collection[str],
    *,
    turns: Collection[str] = (),
    with_observations: bool = False,
) -> frozenset[str]:
    """Return the searchable lines of what would be erased, for `verify_erasure`; ask before it is
    gone."""
    parts = _plan_parts(store, ids, turns)
    lines = searchable_lines(chain.from_iterable(plan.texts for _, plan in parts))
    return with_halves(lines | (_observed_lines(parts) if with_observations else frozenset()))


def _plan_parts(store: Store, ids: Collection[str], turns: Collection[str]) -> _Parts:
    """Plan both stores, each with what the other loses."""
    user = store.user_connection()
    if user is None:
        return [(store.connection, plan_erasure(store.connection, ids, deleted_turns=turns))]
    users = plan_erasure(user, ids)
    plan = plan_erasure(
        store.connection,
        ids,
        deleted_turns=turns,
        other_store_ids=users.memories,
        texts=users.texts,
    )
    return [
        (store.connection, plan),
        (user, plan_erasure(user, ids, texts=plan.texts, turn_keys=plan.turn_keys)),
    ]


def _erase_observations(store: Store, parts: _Parts) -> Counter[str]:
    """Remove the user store's observations of this repository's memories."""
    project = project_pseudonym(store.store_id)
    plan = parts[0][1]
    return Counter(
        observations=sum(remove_observations(user, plan, project=project) for user, _ in parts[1:])
    )


def _erase_parts(
    parts: _Parts, *, now: float, forget: bool, with_observations: bool
) -> Counter[str]:
    done = Counter[str]()
    for number, (connection, plan) in enumerate(parts):
        takes_notes = bool(number) and with_observations
        if takes_notes:
            done["observations"] += delete_projects(connection)
        elif number and plan.memories:
            done["observations"] += remove_observations(connection, plan, project=None)
        touches_rows = plan.ids or plan.erased_tasks or plan.turn_keys
        if touches_rows:
            done.update(erase_rows(connection, plan, now=now, forget=forget))
        if touches_rows or takes_notes:
            mark_for_scrubbing(connection)
    return done


def _erase_from_copies(store: Store, parts: _Parts) -> None:
    """Erase from every copy of these stores in the user's folder; a call that is killed now has
    erased too much."""
    ids = set[str]()
    for _, plan in parts:
        ids.update(plan.ids)
    if ids:
        lines = LineMatcher(_lines_of(parts, with_observations=False))
        for source in store.copied_stores():
            stated_copy.erase_from_copies(source, ids, lines)


def _observed_lines(parts: _Parts) -> frozenset[str]:
    observations = chain.from_iterable(list_observations(user) for user, _ in parts[1:])
    return searchable_lines(observation.value for observation in observations)


def _lines_of(parts: _Parts, *, with_observations: bool) -> frozenset[str]:
    """Return every line that must not be found afterwards."""
    lines = frozenset[str]().union(*(plan.lines.all for _, plan in parts))
    if with_observations:
        return lines | _observed_lines(parts)
    return lines


def _leftovers(store: Store, lines: frozenset[str]) -> list[Path]:
    folders = [store.path.parent, *([store.user_data_dir] if store.user_data_dir else [])]
    places: list[Path] = []
    for folder in folders:
        places += leftover_files_with(folder, lines)
    return places


def _erasure(
    store: Store, parts: _Parts, ids: Collection[str], done: Counter[str], leftovers: list[Path]
) -> Erasure:
    gone = set[str]()
    predecessors = set[str]()
    for _, plan in parts:
        gone.update(plan.memories)
        predecessors.update(plan.predecessors)
    folder = store.path.parent
    places = (
        place.relative_to(folder) if place.is_relative_to(folder) else place for place in leftovers
    )
    return Erasure(
        ids=tuple(sorted(gone)),
        missing=tuple(sorted(set(ids) - gone)),
        earlier=tuple(sorted(predecessors)),
        asides=tuple(map(str, places)),
        **done,  # type: ignore[arg-type]  # its keys are names of fields that hold counts
    )


@contextmanager
def _rolled_back(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        if connection.in_transaction:  # a full disk has ended it already
            connection.execute("ROLLBACK")


class ErasureProof(Struct, frozen=True, kw_only=True):
    """The result of the search."""

    lines: int
    """Lines, and halves of long ones, that were searched for."""
    still_said: int
    """Lines left out because another memory or a task holds them."""
    files: int
    """Files read."""
    encrypted: int
    """Encrypted databases among them, whose rows were read instead."""
    found_in: tuple[str, ...]
    """Files that hold one of the lines."""
    journal_is_empty: bool
    """False: another process reads the journal, which therefore still holds erased text."""
    user_store_searched: bool
    """False: `memory.user_learning` is off, so the user's own store stayed shut."""
    holds: bool
    """Whether nothing erased was found; also False if no line is long enough to search for."""


def verify_erasure(store: Store, lines: Iterable[str]) -> ErasureProof:
    """Search the files of both stores and their copies. Raises StoreError.

    lines: of `erased_lines`, asked before the erasure.
    """
    searched = frozenset(lines)
    connections = store.connections()
    kept = set[str]().union(
        *(lines_still_stored(connection, searched, tasks=True) for connection in connections)
    )
    databases = {store.path: store.connection}
    user = store.user_connection()
    if user is not None and store.user_data_dir is not None:
        databases[opening.user_store_path(store.user_data_dir)] = user
    folder = store.path.parent
    files = {place for place in folder.rglob("*") if place.is_file() and not place.is_symlink()}
    with ExitStack() as opened:
        for source in store.copied_stores():
            for copy in filter(Path.exists, source.copies):
                databases[copy] = opened.enter_context(
                    closing(stated_copy.open_copy(copy, source.keys))
                )
        for path in databases:
            files.update(database_files(path))
        remaining = {str(file) for file in search_files(sorted(files), searched - kept)}
        encrypted = {}
        for path, database in databases.items():
            if sqlite_drivers.read_note(path) is not None:
                encrypted[path] = database
        remaining |= {
            str(path)
            for path, database in encrypted.items()
            if _has_row_with(database, LineMatcher(searched - kept))
        }
    is_empty = not any(map(needs_scrubbing, connections))
    return ErasureProof(
        lines=len(searched - kept),
        still_said=len(kept),
        files=len(files),
        encrypted=len(encrypted),
        found_in=tuple(sorted(remaining)),
        journal_is_empty=is_empty,
        user_store_searched=store.user_data_dir is not None,
        holds=is_empty and not remaining and bool(searched),
    )


def _has_row_with(connection: sqlite3.Connection, lines: LineMatcher) -> bool:
    """Whether a row of any table holds one of the lines."""
    tables = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0"
    ).fetchall()
    tables_rows = (connection.execute(f'SELECT * FROM "{table}"') for (table,) in tables)
    values = chain.from_iterable(chain.from_iterable(tables_rows))
    texts = (
        value.decode("utf-8", "replace") if isinstance(value, bytes) else value for value in values
    )
    return any(lines.found_in(text) for text in texts if isinstance(text, str))

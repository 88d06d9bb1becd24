"""Erase memories for good: the only way memories leave a store for privacy's sake.

With a memory goes everything made with it or quoting it: judgments and reasons, vectors, evidence,
edges, parts of receipts, stored answers, the exchanges those became, and so on; then the files are
rewritten. A dry run does the same and rolls it back, so that no second list of what goes can say
something else. Memories of files are refused. Trade-offs: an answer made with an erased memory goes
whole, since its words cannot be traced; a dry run holds the write lock.
"""

import sqlite3
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from xscore.extensions.privacy.erasure_plan import ErasurePlan, plan_erasure
from xscore.extensions.privacy.erasure_rows import erase_rows, remove_observations
from xscore.platform import database
from xscore.platform.paths import find_root
from xscore.store import derived_memories, stated_copy
from xscore.store.failed_actions import all_trees, remove_actions
from xscore.store.line_search import LineMatcher, searchable_lines, with_halves
from xscore.store.lookup import delete_projects, list_observations, project_pseudonym
from xscore.store.scrubbing import (
    leftover_files_with,
    mark_for_scrubbing,
    needs_scrubbing,
    remove_paths,
    scrub_database,
)
from xscore.store.store import Store


class Erasure(Struct, frozen=True, kw_only=True):
    """What was erased, or would be; rows unless said otherwise."""

    ids: tuple[str, ...] = ()
    """Ids of the memories, with the exchanges and summaries that depend on them; sorted."""
    missing: tuple[str, ...] = ()
    """Ids that no memory has."""
    memories: int = 0
    exchanges: int = 0
    """How many of the memories are dependent exchanges and summaries."""
    judgments: int = 0
    reasons: int = 0
    vectors: int = 0
    evidence: int = 0
    edges: int = 0
    receipts: int = 0
    """Receipts that were stripped."""
    answers: int = 0
    """Answers that were blanked."""
    checkpoints: int = 0
    """Checkpoints that were stripped."""
    sessions: int = 0
    """Summaries of working sessions that were blanked, and what compression kept of agents'
    sessions."""
    payloads: int = 0
    """Payloads of events that were blanked."""
    questions: int = 0
    """Questions of batch jobs that were blanked."""
    purposes: int = 0
    """Lines by a model about files, classes and folders that quote an erased memory."""
    observations: int = 0
    """Observations in the user's store."""
    shared: int = 0
    """Contents that other memories show too, so that their judgments stay."""
    earlier: tuple[str, ...] = ()
    """Superseded memories that led to an erased one and stay."""
    asides: tuple[str, ...] = ()
    """Set-aside stores and scratch files that contained the text and were removed; relative to
    the store's folder."""
    is_finished: bool = False
    """Whether this call completed an erasure that had been cut short."""
    is_clean: bool = True
    """Whether the files are rewritten; if not, another process prevented it."""


class _StorePlan(NamedTuple):
    connection: sqlite3.Connection
    plan: ErasurePlan


class _Plans(Struct, frozen=True):
    """What goes from each store."""

    repository: _StorePlan
    user: _StorePlan | None
    """What goes from the user's own store; None if it stays closed."""
    takes_observations: bool
    """Whether everything that projects noted in the user's store goes as well."""
    observed: tuple[str, ...]
    """The texts of those observations; empty if they stay."""

    @property
    def stores(self) -> list[_StorePlan]:
        """The stores that are open, the repository's first."""
        if self.user is None:
            return [self.repository]
        return [self.repository, self.user]

    @property
    def lines(self) -> frozenset[str]:
        """Every line that must not be found afterwards."""
        lines = searchable_lines(self.observed)
        for _, plan in self.stores:
            lines |= plan.lines.all
        return lines


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
        plans = _plan_stores(store, ids, turns, with_observations)
        leftovers = _leftovers(store, plans.lines)
        done = _erase_observations(store, plans)
        done += _erase_rows(plans, now=0.0, forget=False)
    return _erasure(store, plans, ids, done, leftovers)


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
    plans = _plan_stores(store, ids, turns, with_observations)
    leftovers = _leftovers(store, plans.lines)
    # Files and copies before the rows: a call that is killed now has the rows left to find them
    # by again.
    remove_paths(leftovers)
    _forget_failed_actions(store)
    _erase_from_copies(store, plans)
    done = Counter[str]()
    # The user's store first, while the memories still say what to look for.
    if plans.user and plans.repository.plan.memories:
        with database.transaction(plans.user.connection):
            done += _erase_observations(store, plans)
            mark_for_scrubbing(plans.user.connection)
    with store.transaction():
        # Planned again: a turn may have ended meanwhile.
        plans = _plan_stores(store, ids, turns, with_observations)
        done += _erase_rows(plans, now=now, forget=forget)
    # Deleted rows stay in free pages and in the journal until both are rewritten.
    scrubbed = []
    for connection in connections:
        if needs_scrubbing(connection):
            scrubbed.append(scrub_database(connection, timeout_s=timeout_s))
    for source in store.copied_stores():
        # Another process may have copied it again while it was still here.
        stated_copy.update_copy(source)
    erasure = _erasure(store, plans, ids, done, leftovers)
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
    plans = _plan_stores(store, ids, turns, with_observations)
    lines = searchable_lines(plans.observed)
    for _, plan in plans.stores:
        lines |= searchable_lines(plan.texts)
    return with_halves(lines)


def _plan_stores(
    store: Store, ids: Collection[str], turns: Collection[str], with_observations: bool
) -> _Plans:
    """Plan both stores, each with what the other loses."""
    connection = store.connection
    user = store.user_connection()
    if user is None:
        plan = plan_erasure(connection, ids, deleted_turns=turns)
        return _Plans(_StorePlan(connection, plan), None, with_observations, ())
    # What goes from the user's store is needed for the repository's plan, and the other way round.
    users = plan_erasure(user, ids)
    plan = plan_erasure(
        connection, ids, deleted_turns=turns, other_store_ids=users.memories, texts=users.texts
    )
    # Facts of the user's own that quote an exchange of this repository go with it.
    quoting = derived_memories.facts_quoting(user, plan.memories)
    users = plan_erasure(user, [*ids, *quoting], texts=plan.texts, turn_keys=plan.turn_keys)
    if quoting:
        plan = plan_erasure(
            connection,
            ids,
            deleted_turns=turns,
            other_store_ids=users.memories,
            texts=users.texts,
        )
    observed: tuple[str, ...] = ()
    if with_observations:
        observed = tuple(observation.value for observation in list_observations(user))
    return _Plans(
        _StorePlan(connection, plan), _StorePlan(user, users), with_observations, observed
    )


def _erase_observations(store: Store, plans: _Plans) -> Counter[str]:
    """Remove the user store's observations of this repository's memories."""
    if plans.user is None:
        return Counter()
    project = project_pseudonym(store.store_id)
    removed = remove_observations(plans.user.connection, plans.repository.plan, project=project)
    return Counter(observations=removed)


def _erase_rows(plans: _Plans, *, now: float, forget: bool) -> Counter[str]:
    done = Counter[str]()
    for connection, plan in plans.stores:
        if plan.ids or plan.erased_tasks or plan.turn_keys:
            done.update(erase_rows(connection, plan, now=now, forget=forget))
            mark_for_scrubbing(connection)
    if plans.user is None:
        return done
    connection, plan = plans.user
    if plans.takes_observations:
        done["observations"] += delete_projects(connection)
        mark_for_scrubbing(connection)
    elif plan.memories:
        done["observations"] += remove_observations(connection, plan, project=None)
    return done


def _erase_from_copies(store: Store, plans: _Plans) -> None:
    """Erase from every copy of these stores in the user's folder; a call that is killed now has
    erased too much."""
    ids = set[str]()
    lines = set[str]()
    for _, plan in plans.stores:
        ids |= plan.ids
        lines |= plan.lines.all
    if not ids:
        return
    matcher = LineMatcher(lines)
    for source in store.copied_stores():
        stated_copy.erase_from_copies(source, ids, matcher)


def _forget_failed_actions(store: Store) -> None:
    """Forget what agents did that failed, in every working tree of this store: it may quote what
    is erased, and is worth no search."""
    for tree in list(all_trees()):
        if find_root(Path(tree)).store_dir == store.path.parent:
            remove_actions(tree)


def _leftovers(store: Store, lines: frozenset[str]) -> list[Path]:
    """Return set-aside stores and scratch files that hold one of the lines."""
    leftovers = leftover_files_with(store.path.parent, lines)
    if store.user_data_dir:
        leftovers += leftover_files_with(store.user_data_dir, lines)
    return leftovers


def _erasure(
    store: Store, plans: _Plans, ids: Collection[str], done: Counter[str], leftovers: list[Path]
) -> Erasure:
    gone = set[str]()
    predecessors = set[str]()
    for _, plan in plans.stores:
        gone.update(plan.memories)
        predecessors.update(plan.predecessors)
    asides = []
    for place in leftovers:
        # Only one in the user's folder is named by its whole path.
        is_inside = place.is_relative_to(store.path.parent)
        asides.append(str(place.relative_to(store.path.parent) if is_inside else place))
    return Erasure(
        ids=tuple(sorted(gone)),
        missing=tuple(sorted(set(ids) - gone)),
        earlier=tuple(sorted(predecessors)),
        asides=tuple(asides),
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

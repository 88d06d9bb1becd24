"""The pool of a turn: every memory that may be judged, as a light candidate.

Each turn builds ten thousand candidates, so they are read by column, enum members come from plain
dicts, and no text is read. Layers are read one after the other in one snapshot: threads are slower
(`docs/internals/decisions/0016-routing.md`). Damage in the project's store is an error; damage in
the user's own store is reported, and the turn continues without it.
Trade-off: candidates are not validated, except for unknown layers and kinds.
"""

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain, repeat
from operator import itemgetter
from time import perf_counter
from typing import NamedTuple

import msgspec
from msgspec import Struct

from xscore.platform.database import damage_if_invalid, read_snapshot
from xscore.platform.errors import StoreDamaged, StoreError
from xscore.platform.sqlite_drivers import recovery_hint
from xscore.records.candidates import TERM_ENTRY, Candidate, TermColumn
from xscore.records.memory import Kind, Layer, TestView, judged_views
from xscore.records.turn import LayerReport
from xscore.store.memory_rows import IN_JSON_LIST, LIVE_CONDITION, STATED_CONDITION, SqlRow
from xscore.store.memory_views import join_judged_view
from xscore.store.packed_pool import IS_UNPACKED, PACKED_VIEW, LayerColumns, read_packs
from xscore.store.worktrees import HERE, visible_memories

_TICKS = 1 << 22
"""Ticks in a second, so that a time of this century is a whole number of them: SQLite's JSON
rounds other numbers."""
_CANDIDATE_COLUMNS = (
    *(
        "id",
        "{hash}",
        "kind",
        "path",
        "entity",
        "start_line",
        "end_line",
        "language",
        "{tokens}",
    ),
    f"CAST(updated_at * {_TICKS}.0 AS INTEGER)",
    "length(terms)",
)
"""SQL of the columns. Each is read as one JSON list of a whole layer: a fetched row costs a
lock for each of its values."""
_texts, _numbers = (
    msgspec.json.Decoder(list[str]).decode,
    msgspec.json.Decoder(list[int]).decode,
)
_OF_ANOTHER_SESSION = f"scope = 'session' AND {STATED_CONDITION} AND thread NOT IN ('', ?)"
"""SQL condition for what was stated for a single working session other than that of the
parameter."""
_OF_LAYER = f"layer = ? AND {LIVE_CONDITION}"
REPOSITORY_LAYERS = (Layer.SESSION, Layer.PROJECT, Layer.GOVERNANCE, Layer.GRAPH, Layer.VECTOR)
"""Layers of a repository's store in reading order, small ones first."""
_HASH, _PLACE = itemgetter(1), itemgetter(4, 6)
"""Getters of a candidate's content, and of its path and line."""
_KINDS = {kind.value: kind for kind in Kind}


class FetchedPool(NamedTuple):
    """The memories of all layers."""

    candidates: tuple[Candidate, ...]
    """One candidate per content, ordered by path and line."""
    layers: tuple[LayerReport, ...]
    terms: TermColumn = TermColumn()
    """Term vectors of the candidates, if asked for."""
    has_damaged_packs: bool = False
    """Whether rows were read instead of packs that contradict themselves or the index of the
    table."""


class WithoutExchanges(Struct, frozen=True):
    """Which exchanges are not candidates of a turn."""

    thread: str = ""
    """Leave out the exchanges of this working session, which the answer prompt shows anyway."""
    keys: frozenset[str] = frozenset()
    """Leave out the exchanges of these turn keys: an earlier answer to the same question is not
    evidence for it."""
    any: bool = False
    """Leave out all exchanges, and all commits, which other worktrees of the repository may
    have made later."""

    @property
    def condition(self) -> str:
        """The condition in SQL, with two parameters."""
        return f"{int(self.any)} OR thread = ? OR key {IN_JSON_LIST}"

    @property
    def parameters(self) -> tuple[str, str]:
        """The parameters of the condition."""
        return self.thread or "\0", json.dumps(sorted(self.keys))


def fetch_pool(
    connection: sqlite3.Connection,
    user: Callable[[], sqlite3.Connection | None],
    *,
    tests: TestView = "cards",
    without: "WithoutExchanges",
    deadline_s: float | None = None,
    with_terms: bool = False,
) -> FetchedPool:
    """Read every active or stale memory, except some exchanges.

    user: opens the user's own store, or returns None.
    deadline_s: a slower layer is read whole and reported as late.
    with_terms: read the term vectors too, in a third of the time that they take by themselves.
    Raises StoreDamaged if the table lacks rows that its index has, so that a damaged page hides
    nothing.
    """
    layers: list[_LayerOfPool] = []
    with read_snapshot(connection):
        reading = _Reading(tests, visible_memories(connection), without, with_terms)
        for layer in REPOSITORY_LAYERS:
            layers.append(_layer_of_pool(connection, layer, reading, deadline_s=deadline_s))
    try:
        layers.append(_layer_of_pool(user(), Layer.USER, reading, deadline_s=deadline_s))
    except StoreError as error:
        layers.append(_LayerOfPool(LayerReport(Layer.USER, 0, 0.0, problem=error.message)))
    return FetchedPool(
        _one_per_content(list(chain.from_iterable(layer.candidates for layer in layers))),
        tuple(layer.report for layer in layers),
        _all_terms(list(chain.from_iterable(layer.columns for layer in layers))),
        has_damaged_packs=any(layer.has_damaged_packs for layer in layers),
    )


class _LayerOfPool(Struct, frozen=True):
    """What was read of a layer."""

    report: LayerReport
    candidates: Sequence[Candidate] = ()
    columns: Sequence[LayerColumns] = ()
    has_damaged_packs: bool = False


def _layer_of_pool(
    source: sqlite3.Connection | None,
    layer: Layer,
    reading: "_Reading",
    *,
    deadline_s: float | None,
) -> _LayerOfPool:
    """Read a layer, from its rows where its packs are damaged. source: None: there is no store."""
    if source is None:
        return _LayerOfPool(LayerReport(layer, 0, 0.0))
    started = perf_counter()
    has_damaged_packs = False
    try:
        columns = _read_layer(source, layer, reading)
    except StoreDamaged:
        if not _reads_packs(layer, reading):
            raise
        # A pack repeats what rows say. Rows that are damaged too raise here.
        columns = _read_layer(source, layer, reading, packed=False)
        has_damaged_packs = True
    seconds = perf_counter() - started
    candidates: list[Candidate] = []
    count = 0
    for part in columns:
        count += len(part.ids)
        candidates.extend(_candidates(part, layer))
    is_late = count > 0 and deadline_s is not None and seconds > deadline_s
    report = LayerReport(layer, count, round(seconds * 1000, 3), is_late)
    return _LayerOfPool(report, candidates, columns, has_damaged_packs)


class _Reading(Struct, frozen=True):
    """How the layers of a pool are read."""

    tests: TestView
    visible: str
    """SQL condition for what this worktree has."""
    without: "WithoutExchanges"
    with_terms: bool


def _reads_packs(layer: Layer, reading: _Reading) -> bool:
    # The default of the setting is packed; with another all rows are read.
    return layer.is_indexed and reading.tests == PACKED_VIEW


def _read_layer(
    connection: sqlite3.Connection, layer: Layer, reading: _Reading, *, packed: bool = True
) -> list[LayerColumns]:
    """Return the memories of a layer, in one part or more.

    packed: by their packs, where it has any.
    Raises StoreDamaged if an indexed layer has fewer than its index has, and for words that are not
    whole entries.
    """
    parts = _layer_parts(connection, layer, reading, packed=packed)
    if reading.with_terms:
        for columns in parts:
            _check_words(columns)
    return parts


def _layer_parts(
    connection: sqlite3.Connection, layer: Layer, reading: _Reading, *, packed: bool
) -> list[LayerColumns]:
    if not layer.is_indexed:
        return [_read_rows(connection, layer, reading)]
    packs = None
    if packed and _reads_packs(layer, reading):
        packs = read_packs(connection, layer, with_terms=reading.with_terms)
    indexed = _count_indexed(connection, layer, reading.visible)
    if packs is None:
        parts = [_read_rows(connection, layer, reading)]
    elif len(packs.ids) == indexed:
        parts = [packs]
    else:
        parts = [packs, _read_rows(connection, layer, reading, only=IS_UNPACKED)]
    if sum(len(columns.ids) for columns in parts) != indexed:
        raise StoreDamaged(
            "the store is damaged: memories are missing", hint=recovery_hint(None)
        )
    return parts


def _read_rows(
    connection: sqlite3.Connection, layer: Layer, reading: _Reading, *, only: str = ""
) -> LayerColumns:
    """Return the memories of a layer from their rows. only: SQL condition; empty: all of them."""
    query = _layer_query(
        layer, reading.tests, reading.visible, with_terms=reading.with_terms, only=only
    )
    query, parameters = _without_exchanges(query, layer, reading.without)
    return _decoded(connection.execute(query, parameters).fetchone())


def _without_exchanges(
    query: str, layer: Layer, without: "WithoutExchanges"
) -> tuple[str, tuple[str, ...]]:
    """Return the query of a layer without these exchanges, and its parameters."""
    query += f" AND NOT (kind = 'exchange' AND ({without.condition}))"
    if layer.is_indexed:
        return query, (layer, *without.parameters)
    query += f" AND NOT (kind = 'commit' AND {int(without.any)})"
    query += f" AND NOT ({_OF_ANOTHER_SESSION})"
    return query, (layer, *without.parameters, without.thread)


def _layer_query(
    layer: Layer, tests: TestView, visible: str, *, with_terms: bool, only: str = ""
) -> str:
    """Return the query for the candidates of a layer.

    visible: SQL condition, what this worktree has.
    only: SQL condition that few rows meet; empty: all are read.
    """
    # Stated memories are in all worktrees, and stale where the code that they cite has changed.
    views = join_judged_view(
        judged_views(layer, tests), ("0",) if layer.is_indexed else (HERE, "0")
    )
    if not layer.is_indexed:
        visible = "true"
    # Nearly all rows are of the graph: reading the table from end to end takes a fifth less than by
    # the index.
    is_whole_graph = layer is Layer.GRAPH and not only
    way = "NOT INDEXED" if is_whole_graph else "INDEXED BY memory_by_layer"
    values = {"hash": views.hash, "tokens": views.tokens}
    lists = [
        f"CAST(json_group_array({column.format(**values)}) AS BLOB)"
        for column in _CANDIDATE_COLUMNS
    ]
    # The index infers nothing, which need not be read of each of its memories.
    inferred = "CAST(json_group_array(source = 'inferred') AS BLOB)"
    lists.append("'[]'" if layer.is_indexed else inferred)
    terms = "CAST(group_concat(terms, '') AS BLOB)" if with_terms else "NULL"
    return (
        f"SELECT {', '.join(lists)}, {terms} FROM memory_row {way} {views.joins}"
        f" WHERE {_OF_LAYER} AND {visible} AND {only or 'true'}"
    )


def _count_indexed(connection: sqlite3.Connection, layer: Layer, visible: str) -> int:
    """Return how many memories of a layer the index of the table has."""
    counting = (
        f"SELECT count(*) FROM memory_row INDEXED BY memory_by_layer WHERE {_OF_LAYER} AND"
        f" {visible}"
    )
    (count,) = connection.execute(counting, (layer,)).fetchone()
    return int(count)


def _decoded(row: SqlRow) -> LayerColumns:
    (
        ids,
        hashes,
        kinds,
        paths,
        entities,
        start_lines,
        end_lines,
        languages,
        tokens,
        ticks,
        sizes,
        inferred,
        terms,
    ) = row
    share = dict[str, str]().setdefault  # equal paths become one string, which is hashed once
    with damage_if_invalid("a memory"):
        path_of_memory = _texts(paths)
        return LayerColumns(
            _texts(ids),
            _texts(hashes),
            list(map(_KINDS.__getitem__, _texts(kinds))),
            list(map(share, path_of_memory, path_of_memory)),
            _texts(entities),
            _numbers(start_lines),
            _numbers(end_lines),
            _texts(languages),
            _numbers(tokens),
            [updated / _TICKS for updated in _numbers(ticks)],
            _numbers(sizes),
            _numbers(inferred),
            terms or b"",
        )


def _candidates(columns: LayerColumns, layer: Layer) -> list[Candidate]:
    with damage_if_invalid("a memory"):
        fields = zip(
            columns.ids,
            columns.hashes,
            repeat(layer),
            columns.kinds,
            columns.paths,
            columns.entities,
            columns.start_lines,
            columns.end_lines,
            columns.languages,
            columns.tokens,
            columns.updated_at,
            repeat(()),
            map(bool, columns.inferred) if columns.inferred else repeat(False),
            repeat(""),
            strict=False,
        )
        # Made by `zip` and `tuple.__new__`: a sixth of the time of `Candidate(…)`.
        return list(map(tuple.__new__, repeat(Candidate), fields))


def _check_words(columns: LayerColumns) -> None:
    """Raise StoreDamaged for a term vector of another size than is stated, which would shift all
    that follow it."""
    sizes = columns.term_sizes
    with damage_if_invalid("a memory"):
        if sum(sizes) != len(columns.terms) or any(
            size % TERM_ENTRY.size for size in set(sizes)
        ):
            raise ValueError("its words are not whole entries")


def _all_terms(layers: Sequence[LayerColumns]) -> TermColumn:
    ids: list[str] = []
    sizes: list[int] = []
    for columns in layers:
        ids += columns.ids
        sizes += columns.term_sizes
    return TermColumn(ids, sizes, b"".join([columns.terms for columns in layers]))


def _one_per_content(candidates: list[Candidate]) -> tuple[Candidate, ...]:
    """Return them by path and line, one per content, with its duplicates listed."""
    with damage_if_invalid("a memory"):
        candidates.sort(key=_PLACE)
    # Many pools have no duplicate: counting takes three times as long.
    if len(set(map(_HASH, candidates))) == len(candidates):
        return tuple(candidates)
    counts = Counter(map(_HASH, candidates))
    ids: dict[str, list[str]] = {content: [] for content, count in counts.items() if count > 1}
    for candidate in candidates:
        if candidate.content_hash in ids:
            ids[candidate.content_hash].append(candidate.id)
    firsts = {first: tuple(duplicates) for first, *duplicates in ids.values()}
    unique: list[Candidate] = []
    for candidate in candidates:
        if candidate.content_hash not in ids:
            unique.append(candidate)
        elif candidate.id in firsts:
            unique.append(candidate._replace(duplicates=firsts[candidate.id]))
    return tuple(unique)

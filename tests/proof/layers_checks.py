"""Invariants of both stores after every step, checked with plain SQL independent of the tested
code."""

import json
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

from msgspec import Struct, field

from tests.proof.layers_model import Model
from tests.proof.layers_world import World, reader, rows_of

Event = tuple[int, float, str, str, str]
Rows = dict[str, dict[str, object]]
_ORPHANS = {
    "vec": "SELECT text_hash FROM vec WHERE text_hash NOT IN (SELECT text_hash FROM memory)",
    "views": "SELECT hash FROM memory_view WHERE memory NOT IN (SELECT number FROM memory)",
    "no view": (
        "SELECT id FROM memory WHERE number NOT IN (SELECT memory FROM memory_view WHERE view ="
        " 'whole' AND worktree = 0)"
    ),
    "no vector": "SELECT id FROM memory WHERE terms = x''",
    "evidence": "SELECT memory_id FROM evidence WHERE memory_id NOT IN (SELECT id FROM memory)",
    "occurrence": "SELECT memory_id FROM occurrence WHERE memory_id NOT IN (SELECT id FROM memory)",
    "edge": (
        "SELECT source FROM edge WHERE source LIKE 'm\\_%' ESCAPE '\\' AND source NOT IN (SELECT id"
        " FROM memory) UNION SELECT target FROM edge WHERE target LIKE 'm\\_%' ESCAPE '\\' AND"
        " target NOT IN (SELECT id FROM memory)"
    ),
    "mention": "SELECT source FROM mention WHERE source NOT IN (SELECT id FROM memory)",
    "slot": "SELECT memory_id FROM pack_slot WHERE memory_id NOT IN (SELECT id FROM memory)",
    "judgment": (
        "SELECT content_id FROM judgment WHERE content_id NOT IN (SELECT id FROM content)"
        " OR query_id NOT IN (SELECT id FROM query)"
    ),
    "reason": (
        "SELECT content_id FROM reason WHERE (query_id, content_id) NOT IN"
        " (SELECT query_id, content_id FROM judgment)"
    ),
    "observation": "SELECT key FROM observation WHERE project NOT IN (SELECT id FROM project)",
    "claim": "SELECT content FROM claim",
    "reservation": "SELECT id FROM reservation",
    "receipt": "SELECT turn_id FROM receipt WHERE turn_id NOT IN (SELECT id FROM turn)",
    "behind nobody": "SELECT id FROM memory WHERE status = 'superseded' AND superseded_by = id",
}
_TWO_ACTIVE = (
    "SELECT layer, scope, key FROM memory WHERE status = 'active' AND key <> '' GROUP BY 1, 2, 3"
    " HAVING count(*) > 1"
)


class PreviousState(Struct):
    """The state after the previous step."""

    rows: Rows = field(default_factory=dict)
    events: dict[Path, list[Event]] = field(default_factory=dict)


def check(
    world: World, model: Model, past: PreviousState, *, may_blank: bool, is_free: bool = False
) -> None:
    """Compare both stores with the model and with the previous state.

    may_blank: something was erased in this step.
    is_free: who was touched is not known, as after a turn.
    """
    for path in world.databases:
        if path.exists():
            with closing(reader(path)) as connection:
                _check_one(connection)
                past.events[path] = _check_events(
                    connection, past.events.get(path, []), may_blank=may_blank
                )
    rows = rows_of(world.store)
    _check_model(model, rows)
    _check_layers(world)
    if not is_free:
        changed = {
            id_ for id_ in rows.keys() | past.rows.keys() if rows.get(id_) != past.rows.get(id_)
        }
        assert changed <= model.touched, (
            f"changed without being asked: {changed - model.touched}"
        )
    model.touched.clear()
    past.rows = rows


def _check_one(connection: sqlite3.Connection) -> None:
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    for name, query in _ORPHANS.items():
        assert connection.execute(query).fetchall() == [], f"orphans: {name}"
    assert connection.execute(_TWO_ACTIVE).fetchall() == [], "two are active for one key"
    # Those of memories that are stale in a worktree count as well.
    counted = Counter(hash_ for (hash_,) in connection.execute("SELECT hash FROM memory_view"))
    kept = dict(
        connection.execute("SELECT hash, memories FROM content WHERE memories > 0").fetchall()
    )
    assert kept == dict(counted), "contents are counted wrongly"


def _check_events(
    connection: sqlite3.Connection, before: list[Event], *, may_blank: bool
) -> list[Event]:
    """Events are only appended; only erasing may blank their text."""
    now: list[Event] = connection.execute(
        "SELECT id, at, name, subject, payload FROM event ORDER BY id"
    ).fetchall()
    assert len(now) >= len(before), "events are gone"
    for old, new in zip(before, now, strict=False):
        assert old == new or (may_blank and old[:4] == new[:4] and new[4] == "{}"), (
            f"an event was changed: {old}"
        )
    return now


def _check_model(model: Model, rows: Rows) -> None:
    lost, strangers = model.held.keys() - rows.keys(), rows.keys() - model.held.keys()
    assert not lost, f"lost: {[model.held[expected] for expected in lost]}"
    assert not strangers, (
        f"there, and should not be: {[rows[expected] for expected in strangers]}"
    )
    for identifier, expected in model.held.items():
        row = rows[identifier]
        actual_fields = (
            row["layer"],
            row["kind"],
            row["scope"],
            row["status"],
            row["key"],
            row["thread"],
        )
        expected_fields = (
            expected.layer,
            expected.kind,
            expected.scope,
            expected.status,
            expected.key,
            expected.thread,
        )
        assert actual_fields == expected_fields, (
            f"{row['title']}: {actual_fields}, should be {expected_fields}"
        )
        assert str(row["text"]).startswith(expected.words), (
            f"{row['text']!r}, should be {expected.words!r}"
        )


def _check_layers(world: World) -> None:
    """The user's layer and its judgments are in the user's store and nowhere else (P07)."""
    project, *user_connections = world.store.connections()
    assert project.execute("SELECT count(*) FROM memory WHERE layer = 'user'").fetchone() == (
        0,
    )
    for user in user_connections:
        assert user.execute("SELECT count(*) FROM memory WHERE layer <> 'user'").fetchone() == (
            0,
        )
        hashes = json.dumps(
            [row[0] for row in user.execute("SELECT hash FROM content").fetchall()]
        )
        query = "SELECT hash FROM content WHERE hash IN (SELECT value FROM json_each(?))"
        assert project.execute(query, (hashes,)).fetchall() == [], (
            "the repository's store knows a content of the user's"
        )


def check_pool(world: World, model: Model) -> None:
    """Every live memory is a candidate, or the named twin of one; nothing else is."""
    code = "SELECT id FROM memory WHERE source = 'index' AND status IN ('active', 'stale')"
    expected_ids = {memory.id for memory in model.live()} | {
        row[0] for row in world.store.connection.execute(code).fetchall()
    }
    candidate_ids = [
        id_ for memory in world.store.pool() for id_ in (memory.id, *memory.duplicates)
    ]
    assert sorted(candidate_ids) == sorted(expected_ids), (
        f"lost: {expected_ids - set(candidate_ids)}; strangers: {set(candidate_ids) - expected_ids}"
    )


def check_bytes(world: World, model: Model) -> None:
    """Erased text is in no byte of any file."""
    words_in_files = world.holding(model.dead_words())
    assert not words_in_files, f"erased, and still in the files: {words_in_files}"

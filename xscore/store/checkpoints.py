"""Checkpoints: working sessions under a name, for any later turn.

A row holds what was extracted from the session's turns, one entry for each exchange, and names
memories by id; no text of a memory is copied. So erasing an exchange removes its entry and leaves
the rest. No model is asked. Trade-off: a checkpoint shows the session as it was when it was saved,
except for what was erased since.
"""

import sqlite3
import unicodedata
from collections.abc import Sequence

import msgspec
from msgspec import Struct, structs

from xscore.platform import database
from xscore.platform.errors import NothingMatched, UsageError
from xscore.platform.near_names import did_you_mean, nearest_names
from xscore.records.turn import Checkpoint, SessionEntry
from xscore.store.index_rows import read_meta, write_meta
from xscore.store.personal_data import redact_said
from xscore.store.redaction import redact
from xscore.store.scrubbing import mark_for_scrubbing, scrub_database
from xscore.store.session_summary import session_entries, summarise_entries
from xscore.store.store import Store
from xscore.store.working_session import load_session

NAME_CHARS = 64
NOTE_CHARS = 2_000
MOST_NOTES = 20
_FORGET_NAME = (
    "DELETE FROM checkpoint WHERE name = ?",
    (
        "UPDATE turn SET context = json_set(context, '$.checkpoint', '') WHERE"
        " json_extract(context, '$.checkpoint') = ?"
    ),
    (
        "UPDATE receipt SET body = json_set(body, '$.checkpoint', '') WHERE json_extract(body,"
        " '$.checkpoint') = ?"
    ),
)

_TAKEN_BACK = "checkpoints_taken_back"
"""Key in `meta`: names of checkpoints that the team's server is still to erase."""
_SHARED = """
    SELECT name, created_at, payload FROM checkpoint
    WHERE json_extract(payload, '$.is_shared') = 1
"""
_OF_TEAM = """
    SELECT json_extract(payload, '$.from_team') FROM checkpoint
    WHERE json_extract(payload, '$.from_team') <> ''
"""
_DELETE_OF_TEAM = "DELETE FROM checkpoint WHERE json_extract(payload, '$.from_team') "
_MARK = (
    "UPDATE checkpoint SET payload = json_set(payload, '$.is_shared', json(?)) WHERE name = ?"
)


class CheckpointContent(Struct, frozen=True, kw_only=True):
    """What was extracted from a session, and what its user said of it."""

    branch: str = ""
    ticket: str = ""
    persona: str = ""
    notes: tuple[str, ...] = ()
    goals: tuple[str, ...] = ()
    entries: tuple[SessionEntry, ...] = ()


class CheckpointPayload(CheckpointContent, frozen=True, kw_only=True):
    """The stored form of a session. Erasure finds an entry by its exchange or its turn."""

    thread: str = ""
    is_shared: bool = False
    """Whether the user sends it to the team."""
    from_team: str = ""
    """Where a checkpoint comes from that another member, or another machine, sent."""
    by: str = ""
    """Name of the member who sent it."""


class SharedRow(Struct, frozen=True):
    """A checkpoint that the user sends to the team."""

    name: str
    created_at: float
    """Unix seconds."""
    content: CheckpointContent


def save_checkpoint(
    connection: sqlite3.Connection,
    name: str,
    *,
    thread: str,
    notes: Sequence[str] = (),
    goals: Sequence[str] = (),
    persona: str = "",
    replace: bool = True,
    now: float,
) -> Checkpoint:
    """Save the current session under this name.

    goals: replace those named by the tasks.
    replace: overwrite an existing checkpoint, notes and goals included.
    Raises UsageError for a name or note that cannot be kept, or a name that is taken.
    """
    checked = _checked(name)
    kept_notes = tuple(_kept(note, "a note") for note in notes)[:MOST_NOTES]
    kept_goals = tuple(_kept(goal, "a goal") for goal in goals)[:MOST_NOTES]
    with database.transaction(connection):  # so that nothing is kept that is erased just now
        if has_checkpoint(connection, checked) and not replace:
            hint = (
                "Choose another name, or give --replace: its notes and goals then go, and those"
                " given now stay."
            )
            raise UsageError(f"there is a checkpoint `{checked}` already", hint=hint)
        payload = CheckpointPayload(
            thread=thread,
            persona=persona,
            notes=kept_notes,
            goals=kept_goals,
            entries=tuple(session_entries(connection, thread)),
        )
        session = load_session(connection, thread)
        if session:
            payload = structs.replace(payload, branch=session.branch, ticket=session.ticket)
        write_checkpoint(connection, checked, payload, created_at=now)
    return load_checkpoint(connection, checked)


def write_checkpoint(
    connection: sqlite3.Connection, name: str, payload: CheckpointPayload, *, created_at: float
) -> None:
    """Write a checkpoint over one of the same name; call it inside a transaction.

    created_at: Unix seconds.
    """
    connection.execute(
        "INSERT OR REPLACE INTO checkpoint (name, created_at, payload) VALUES (?, ?, ?)",
        (name, created_at, msgspec.json.encode(payload).decode()),
    )


def load_checkpoint(connection: sqlite3.Connection, name: str) -> Checkpoint:
    """Return a checkpoint. Raises NothingMatched with similar names."""
    row = connection.execute(
        "SELECT name, created_at, payload FROM checkpoint WHERE name = ?", (_name(name),)
    ).fetchone()
    if row is not None:
        with database.damage_if_invalid("a checkpoint"):
            return _checkpoint(*row)
    rows = connection.execute("SELECT name FROM checkpoint ORDER BY name").fetchall()
    likely = nearest_names(name, [str(existing) for (existing,) in rows])
    hint = did_you_mean(likely, "`xscore session checkpoints` lists them.")
    raise NothingMatched(f"there is no checkpoint `{name}`", hint=hint)


def list_checkpoints(connection: sqlite3.Connection) -> list[Checkpoint]:
    """Return all checkpoints, newest first."""
    rows = connection.execute(
        "SELECT name, created_at, payload FROM checkpoint ORDER BY created_at DESC, name"
    )
    with database.damage_if_invalid("a checkpoint"):
        return [_checkpoint(*row) for row in rows.fetchall()]


def erase_checkpoint(store: Store, name: str) -> bool:
    """Erase a checkpoint for good; False: another process kept the journal from being emptied, so
    it may linger there.

    Raises NothingMatched if there is none.
    """
    with database.transaction(store.connection):
        gone = load_checkpoint(store.connection, name)
        for sql in _FORGET_NAME:
            store.connection.execute(sql, (gone.name,))
        if gone.is_shared:
            take_back_checkpoint(store.connection, gone.name)
        mark_for_scrubbing(store.connection)
    return scrub_database(store.connection, timeout_s=5.0)


def share_checkpoint(connection: sqlite3.Connection, name: str) -> Checkpoint:
    """Mark a checkpoint for the team. Raises NothingMatched, and UsageError for another's."""
    with database.transaction(connection):
        checkpoint = load_checkpoint(connection, name)
        if checkpoint.by:
            raise UsageError(
                f"`{checkpoint.name}` came from {checkpoint.by}",
                hint="Save a checkpoint of your own: `xscore session save NAME`.",
            )
        connection.execute(_MARK, ("true", checkpoint.name))
    return load_checkpoint(connection, name)


def shared_checkpoints(connection: sqlite3.Connection) -> list[SharedRow]:
    """Return the checkpoints that the user sends to the team, by name. Raises StoreDamaged."""
    rows = connection.execute(f"{_SHARED} ORDER BY name").fetchall()
    with database.damage_if_invalid("a checkpoint"):
        return [
            # Whoever is sent it gets what belongs to the session, not how it is kept here.
            SharedRow(name, created_at, msgspec.json.decode(payload, type=CheckpointContent))
            for name, created_at, payload in rows
        ]


def is_shared_checkpoint(connection: sqlite3.Connection, name: str) -> bool:
    """Whether the user sends the checkpoint of this name to the team."""
    return connection.execute(f"{_SHARED} AND name = ?", (name,)).fetchone() is not None


def has_checkpoint(connection: sqlite3.Connection, name: str) -> bool:
    """Whether there is a checkpoint of this name, exactly."""
    query = "SELECT 1 FROM checkpoint WHERE name = ?"
    return connection.execute(query, (name,)).fetchone() is not None


def delete_checkpoints_of_team(
    connection: sqlite3.Connection, sent_as: str | None = None
) -> int:
    """Delete what other members, or other machines, sent; return how many went.

    sent_as: only the one that came under this id. Call it inside a transaction.
    """
    if sent_as is None:
        return connection.execute(_DELETE_OF_TEAM + "<> ''").rowcount
    return connection.execute(_DELETE_OF_TEAM + "= ?", (sent_as,)).rowcount


def checkpoints_of_team(connection: sqlite3.Connection) -> list[str]:
    """Return the ids under which checkpoints of other members, or machines, came."""
    return [sent_as for (sent_as,) in connection.execute(_OF_TEAM).fetchall()]


def take_back_checkpoint(connection: sqlite3.Connection, name: str) -> None:
    """Note that the team's server is to erase a checkpoint, which may be gone here; in a
    transaction."""
    names = sorted({*retracted_checkpoints(connection), name})
    connection.execute(_MARK, ("false", name))
    write_meta(connection, _TAKEN_BACK, msgspec.json.encode(names).decode())


def retracted_checkpoints(connection: sqlite3.Connection) -> list[str]:
    """Return the checkpoints that the team's server is to erase."""
    with database.damage_if_invalid("a list of checkpoints"):
        return msgspec.json.decode(read_meta(connection, _TAKEN_BACK) or "[]", type=list[str])


def note_checkpoints_erased(connection: sqlite3.Connection, names: Sequence[str]) -> None:
    """Note that the team's server has erased these; in a transaction."""
    waiting = [name for name in retracted_checkpoints(connection) if name not in names]
    write_meta(
        connection, _TAKEN_BACK, msgspec.json.encode(waiting).decode() if waiting else ""
    )


def _checkpoint(name: str, created_at: float, payload: str) -> Checkpoint:
    kept = msgspec.json.decode(payload, type=CheckpointPayload)
    summary = summarise_entries(kept.entries, ticket=kept.ticket, goals=kept.goals)
    return Checkpoint(
        name=name,
        created_at=created_at,
        branch=kept.branch,
        summary=summary.text,
        goals=summary.goals,
        entities=summary.entities,
        files=summary.files,
        pending=summary.pending,
        memory_ids=summary.memory_ids,
        notes=tuple(filter(None, kept.notes)),
        persona=kept.persona,
        entries=kept.entries,
        by=kept.by,
        is_shared=kept.is_shared,
    )


def _name(name: str) -> str:
    return redact(unicodedata.normalize("NFC", name.strip())).text


def is_checkpoint_name(name: str) -> bool:
    """Whether a checkpoint can have this name: short, and without control characters."""
    if not 0 < len(name) <= NAME_CHARS:
        return False
    return not any(unicodedata.category(char)[0] == "C" for char in name)


def _checked(name: str) -> str:
    """Return a valid name. Raises UsageError."""
    checked = _name(name)
    if not checked or len(checked) > NAME_CHARS:
        raise UsageError(
            f"a checkpoint's name has 1 to {NAME_CHARS} characters, not {len(checked)}",
            hint="Choose another.",
        )
    if not is_checkpoint_name(checked):
        raise UsageError(
            "a checkpoint's name holds no control characters", hint="Choose another."
        )
    return checked


def _kept(text: str, field: str) -> str:
    redacted = redact_said(text.strip()).text
    if len(redacted) > NOTE_CHARS:
        raise UsageError(
            f"{field} of {len(redacted):,} characters is too long",
            hint=f"Keep it to {NOTE_CHARS:,}.",
        )
    return redacted

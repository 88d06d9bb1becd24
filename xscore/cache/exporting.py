"""A store's judgments as one signed Parquet file, for another machine with a clone of the same repository.

It reveals keys, scores and reasons: no task, no source, no path. A judgment that does not fit its seal stays behind.
The user's own layer is judged in another store and never exported. Trade-off: a judgment bears no date, so `since` goes
by when its turn was last asked; one that no turn here has asked is left out then.
"""

import os
import secrets
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import Connection
from typing import Any

from xscore import database
from xscore.cache import exchange_form, exchange_seal
from xscore.cache.exchange_form import GROUP_ROWS, Row
from xscore.cache.exchange_key import ExchangeKey
from xscore.cache.usage import JudgedTurn, judge_names, judged_turns, judges_meant
from xscore.errors import NothingMatched, UsageError
from xscore.hashing import judgment_seals, turn_seal

_OF_TURN = """
    SELECT hash, score, prior, pack, position, seal, coalesce(text, '')
    FROM judgment JOIN content ON content.id = judgment.content_id
    LEFT JOIN reason ON reason.query_id = judgment.query_id AND reason.content_id = judgment.content_id
    WHERE judgment.query_id = ? ORDER BY judgment.content_id
"""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which judgments."""

    judges: tuple[str, ...] = ()
    """Names (`provider:model`) or beginnings of judge keys (`usage.judges_meant`); none: every judge."""
    since: float | None = None
    """Unix seconds; those of turns that were asked then or later."""
    reasons: bool = True


@dataclass(slots=True)
class Exported:
    """What went into the file."""

    judgments: int = 0
    turns: int = 0
    """Turns by one judge."""
    reasons: int = 0
    damaged: int = 0
    """Judgments that stayed behind, since they do not fit their seal."""
    bytes: int = 0
    key: str = ""
    """Id of the key that signed."""


def export(connection: Connection, path: Path, key: ExchangeKey, wanted: Wanted) -> Exported:
    """Write the file, for the user alone, in place of an earlier export and of nothing else.

    Raises NothingMatched where there is nothing to write or a judge is unknown, UsageError, StoreError.
    """
    place = path.resolve()
    if place.exists() and not place.is_file():
        raise UsageError(f"{path} is not a file", hint="Name a file to write, such as cache.parquet.")
    if not exchange_seal.may_replace(place):
        raise UsageError(
            f"{path} is there and was not written by `xscore cache export`",
            hint="Name another file, or remove this one first.",
        )
    found = Exported(key=key.id)
    aside = place.with_name(f".{place.name}.{secrets.token_hex(4)}")
    try:
        os.close(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        try:
            with database.snapshot(connection):
                turns = _chosen(connection, wanted)
                entry = (exchange_seal.KEY, exchange_seal.unsigned(key))
                exchange_form.write(aside, lambda: _groups(connection, turns, wanted, found), signature=entry)
            if not found.judgments:
                raise NothingMatched("there is no judgment to export", hint="`xscore cache stats` names the judges.")
            with aside.open("r+b") as file:
                exchange_seal.sign(file, key)
                file.flush()
                os.fsync(file.fileno())
                found.bytes = file.seek(0, os.SEEK_END)
            aside.replace(place)
        finally:
            aside.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror}", hint="Name a file that you may write."
        ) from error
    return found


def _chosen(connection: Connection, wanted: Wanted) -> list[tuple[JudgedTurn, str]]:
    """Return the turns that are wanted, each with its judge's name where that is known."""
    names, meant = judge_names(connection), judges_meant(connection, wanted.judges)
    return [
        (turn, names.get(turn.judge, ""))
        for turn in judged_turns(connection)
        if (wanted.since is None or (turn.used_at or 0.0) >= wanted.since)
        and (not wanted.judges or turn.judge in meant)
    ]


def _groups(
    connection: Connection, turns: list[tuple[JudgedTurn, str]], wanted: Wanted, found: Exported
) -> Iterator[list[Row]]:
    group: list[Row] = []
    for turn, name in turns:
        reader = connection.execute(_OF_TURN, (turn.query,))
        before = found.judgments
        while rows := reader.fetchmany(GROUP_ROWS):
            for row in _sound(turn, name, rows, found, reasons=wanted.reasons):
                group.append(row)
                if len(group) == GROUP_ROWS:
                    yield group
                    group = []
        found.turns += found.judgments > before
    if group:
        yield group


def _sound(
    turn: JudgedTurn, name: str, rows: list[tuple[Any, ...]], found: Exported, *, reasons: bool
) -> Iterator[Row]:
    """Yield what fits its seal."""
    begun = turn_seal(turn.turn_key, turn.judge, turn.sample)
    for hash_, score, prior, pack, position, seal, reason in rows:
        try:
            fits = judgment_seals(begun, [(hash_, score, prior, pack, position)]) == [seal] and 0 <= score <= 1
        except (ValueError, TypeError, AttributeError, struct.error):
            fits = False
        if not fits:
            found.damaged += 1
            continue
        told = reason if reasons and isinstance(reason, str) else ""
        found.judgments += 1
        found.reasons += bool(told)
        yield Row(turn.turn_key, turn.judge, name, turn.sample, hash_, score, prior, pack, position, told)

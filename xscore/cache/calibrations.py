"""Calibrations, one for each judge identity, in the store of the repository that they were measured
on.

A row is read strictly: an invalid one is ignored, and the judge has the usual cut. Trade-off: a
clone measures its own; nothing is taken over, since a cut decides what an agent is shown.
"""

import sqlite3
from typing import Literal

import msgspec

from xscore.cache.keys import judge_key
from xscore.platform import database
from xscore.records.calibration import Calibration
from xscore.records.judgment import JudgeIdentity

CALIBRATION_VERSION = 1
"""Version of what is measured: with another one, a judge is uncalibrated."""

_READ = "SELECT body FROM calibration WHERE judge = ?"
_KEYS = "SELECT judge FROM calibration ORDER BY at DESC, judge"
_WRITE = "INSERT OR REPLACE INTO calibration (judge, body, at) VALUES (?, ?, ?)"
_DELETE = "DELETE FROM calibration WHERE judge = ?"
_Body = tuple[Literal[1], Calibration]
"""A stored body: CALIBRATION_VERSION and the calibration."""


def read_calibration(
    connection: sqlite3.Connection, identity: JudgeIdentity
) -> Calibration | None:
    """Return the calibration of this judge; None if there is none, or an invalid one."""
    return calibration_of_key(connection, judge_key(identity))


def calibration_of_key(connection: sqlite3.Connection, key: str) -> Calibration | None:
    """Return the calibration of the judge with this key; None if there is none, or an invalid
    one."""
    row = connection.execute(_READ, (key,)).fetchone()
    if row is None:
        return None
    calibration = _decoded(row[0])
    is_of_judge = calibration is not None and judge_key(calibration.identity) == key
    return calibration if is_of_judge else None


def read_calibrations(connection: sqlite3.Connection) -> list[Calibration]:
    """Return every valid calibration, newest first."""
    calibrations: list[Calibration] = []
    for (key,) in connection.execute(_KEYS).fetchall():
        calibration = calibration_of_key(connection, key)
        if calibration is not None:
            calibrations.append(calibration)
    return calibrations


def write_calibration(connection: sqlite3.Connection, calibration: Calibration) -> None:
    """Replace the calibration of its judge."""
    text = msgspec.json.encode((CALIBRATION_VERSION, calibration)).decode()
    with database.transaction(connection):
        connection.execute(_WRITE, (judge_key(calibration.identity), text, calibration.made_at))


def delete_calibrations(connection: sqlite3.Connection, *identities: JudgeIdentity) -> None:
    """Remove the calibrations of these judges."""
    keys = [(judge_key(identity),) for identity in identities]
    with database.transaction(connection):
        connection.executemany(_DELETE, keys)


def _decoded(body: object) -> Calibration | None:
    try:
        stored: _Body = msgspec.json.decode(body if isinstance(body, str) else "", type=_Body)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    return stored[1]

"""What turns chose, and what came near, out of their stored receipts; each is read strictly, a torn one is named."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from pydantic import TypeAdapter, ValidationError

from xscore.database import as_it_can_be_read
from xscore.records import Selected
from xscore.records.cost_report import TurnDetail

_BODY = "SELECT body FROM receipt WHERE turn_id = ?"


class Place(NamedTuple):
    """Where the receipt of a turn is."""

    connection: sqlite3.Connection
    turn_id: str


class Details(NamedTuple):
    """What receipts tell."""

    found: tuple[TurnDetail, ...]
    torn: int
    """Receipts that cannot be read."""


def details(places: Sequence[Place]) -> Details:
    """Read the receipts of these turns, those that have one."""
    found, torn = [], 0
    for connection, turn_id in places:
        with as_it_can_be_read(connection):
            row = connection.execute(_BODY, (turn_id,)).fetchone()
        if row is None:
            continue
        try:
            receipt = _receipt().validate_json(row[0], strict=True)
        except ValidationError:
            torn += 1
        else:
            found.append(TurnDetail(turn_id=turn_id, selected=receipt.selected, near_misses=receipt.near_misses))
    return Details(tuple(found), torn)


@dataclass(frozen=True, slots=True)
class _Receipt:
    """The part of a receipt that is read."""

    selected: tuple[Selected, ...]
    near_misses: tuple[Selected, ...]


@cache
def _receipt() -> TypeAdapter[_Receipt]:
    return TypeAdapter(_Receipt)

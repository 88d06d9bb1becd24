"""What people make of a memory moves its confidence (L08): accepted, rejected, adopted, overridden; bounded 0..1.

An inferred memory starts at `memory.inferred_confidence` (0.6). The amounts are settings (`memory.feedback`): accept
+0.10, adoption +0.05, reject −0.20, override −0.30. Trade-off: a plain sum rather than a model of trust, so that
anybody can work out in their head where a memory stands.
"""

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from xscore.memory.store import Store


class Signal(StrEnum):
    """What was made of a memory."""

    ACCEPT = "accept"
    """A person says that it is right."""
    REJECT = "reject"
    """A person says that it is wrong."""
    ADOPTION = "adoption"
    """It was kept for an answer, or another project was seen to do so."""
    OVERRIDE = "override"
    """It was known, and the opposite was done."""


@dataclass(frozen=True, slots=True)
class Moved:
    """How a signal moved a memory."""

    id: str
    title: str
    signal: Signal
    before: float
    """Confidence."""
    after: float
    evidence_count: int


def moved(confidence: float, signal: Signal, amounts: Mapping[str, float]) -> float:
    """Return the confidence after a signal, bounded 0..1. amounts: `settings.memory.feedback`."""
    return min(1.0, max(0.0, confidence + amounts[signal]))


def give_feedback(store: Store, memory_id: str, signal: Signal, *, amounts: Mapping[str, float], now: float) -> Moved:
    """Move one memory of the repository's store, or of the user's. now: Unix seconds.

    Raises UsageError for an id that no memory has, and for memories of the index, which are what the file says.
    """
    raise NotImplementedError


def adopted(connection: sqlite3.Connection, ids: Iterable[str], *, amounts: Mapping[str, float], now: float) -> int:
    """Count preferences, patterns and conventions among these as adopted, in a transaction that is open.

    Returns how many; others are left alone.
    """
    raise NotImplementedError

"""What consolidation does to memories, one action each, with why: shown by `--dry-run` before anything is changed."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

Scope = Literal["session", "project", "user"]
SCOPES: tuple[Scope, ...] = ("session", "project", "user")


class ActionKind(StrEnum):
    """What is done."""

    CARRY = "carry"
    """What a session learned becomes the project's (L01)."""
    SUMMARISE = "summarise"
    """The summary of a closed session is made, or made anew."""
    MERGE = "merge"
    """Memories that say the same become one; the others are superseded (L03)."""
    EXCEPT = "except"
    """A deliberate choice of this project is marked as an exception from the user's preference (L09)."""
    FADE = "fade"
    """Confidence falls with the days it was not seen (L05), faster where the latest projects do without it (L09)."""
    ARCHIVE = "archive"
    """No candidate any more: long unused (L06), too weak (L04), or the layer is over its cap (L11)."""
    DROP = "drop"
    """Erased: unimportant and unused (L03)."""
    PRUNE = "prune"
    """Erased: unused for a year (L06)."""
    OBSERVE = "observe"
    """The user's store notes what this project says about a key, or that it says it no more."""
    PROMOTE = "promote"
    """What holds in enough projects becomes the user's (L02)."""


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that consolidation does, or would do."""

    kind: ActionKind
    scope: Scope
    memory_ids: tuple[str, ...]
    """What it is done to; the one that stays, or comes to be, stands first. Empty for observations that end."""
    why: str
    """In words, with the figures that decided."""
    title: str = ""
    """Of the first memory, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Consolidation:
    """What a run of consolidation did, or would do."""

    actions: tuple[Action, ...]
    dry_run: bool
    considered: int
    """Memories that were looked at; those of the index are not."""
    counts: dict[str, int] = field(default_factory=dict)
    """Action kind -> how many."""
    skipped: tuple[str, ...] = ()
    """What was left out, and why."""

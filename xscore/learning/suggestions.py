"""What the user usually does and this project has said nothing of (H25): offered, never applied; muted keys are not.

Muted keys stand in the user's own store, since that is whose suggestions they are. Trade-off: whether the project does
it already is told by what is remembered of it, not by reading its code.
"""

from dataclasses import dataclass

from xscore.memory.store import Store


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Something the user usually does."""

    key: str
    value: str
    memory_id: str
    confidence: float
    evidence_count: int


@dataclass(frozen=True, slots=True)
class Suggestions:
    """All of them, in one sentence and one by one."""

    text: str
    """`You typically use Prisma + Postgres; …`; empty: nothing to suggest."""
    suggestions: tuple[Suggestion, ...]


def suggest(store: Store, *, at_least: float) -> Suggestions:
    """Return what to suggest, surest first. at_least: confidence below which nothing is suggested."""
    raise NotImplementedError


def mute(store: Store, key: str, *, now: float) -> None:
    """Suggest nothing of this key any more. Raises UsageError where there is no user's store to say it in."""
    raise NotImplementedError


def unmute(store: Store, key: str) -> bool:
    """Suggest it again; False: it was not muted."""
    raise NotImplementedError


def muted(store: Store) -> tuple[str, ...]:
    """Return the muted keys, sorted."""
    raise NotImplementedError

"""What the user usually does and this project has said nothing of (H25): offered, never applied; muted keys are not.

Muted keys stand in the user's own store, since that is whose suggestions they are. Trade-off: whether the project does
it already is told by what is remembered of it, not by reading its code.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xscore.learning.choices import VALUE_WORDS, chosen, normal, topic, value
from xscore.learning.retention import RECORDS
from xscore.memory import rows
from xscore.memory.databases import Databases
from xscore.memory.observations import observations
from xscore.records import Layer, Memory

_USUAL = (
    "layer = 'user' AND status = 'active' AND kind IN ('preference', 'pattern') AND key <> '' AND confidence >= ?"
    " AND coalesce(json_extract(attrs, '$.polarity'), '') <> 'antipattern'"
)


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Something the user usually does."""

    key: str
    value: str
    memory_id: str
    confidence: float
    projects: int
    """Projects that do so; 0: none was seen, the user said it."""


@dataclass(frozen=True, slots=True)
class Suggestions:
    """All of them, in one sentence and one by one."""

    text: str
    """`You typically use Prisma + Postgres; …`; empty: nothing to suggest."""
    suggestions: tuple[Suggestion, ...]


def suggest(store: Databases, *, at_least: float) -> Suggestions:
    """Return what to suggest, surest first. at_least: confidence below which nothing is suggested.

    Nothing is where the user's own store is not to be opened, or there is none.
    """
    user = store.user_connection()
    if user is None:
        return Suggestions("", ())
    known = rows.memories(store.connection, "source <> 'index' AND status IN ('active', 'stale')", ())
    settled = {topic(memory.key) for memory in known} | {topic(key) for key in muted(store)}
    told = normal("\n".join(f"{memory.title}\n{memory.text}" for memory in known if memory.kind not in RECORDS))
    doing: dict[tuple[str, str], set[str]] = {}
    for each in map(chosen, observations(user)):
        doing.setdefault((each.topic, each.value), set()).add(each.observed.project)
    found = [
        Suggestion(memory.key, value(memory), memory.id, memory.confidence, len(doing.get(_choice(memory), ())))
        for memory in rows.memories(user, _USUAL, (at_least,))
        if topic(memory.key) not in settled and normal(value(memory)) not in told
    ]
    found.sort(key=lambda each: (-each.confidence, -each.projects, each.key))
    return Suggestions(_sentence(found), tuple(found))


def mute(store: Databases, key: str, *, now: float) -> None:
    """Suggest nothing of this key any more. Raises UsageError where the user's store is not to be opened."""
    store.home_of(Layer.USER).execute("INSERT INTO muted (key, at) VALUES (?, ?) ON CONFLICT DO NOTHING", (key, now))


def unmute(store: Databases, key: str) -> bool:
    """Suggest it again; False: it was not muted."""
    user = store.user_connection()
    return user is not None and user.execute("DELETE FROM muted WHERE key = ?", (key,)).rowcount > 0


def muted(store: Databases) -> tuple[str, ...]:
    """Return the muted keys, sorted."""
    user = store.user_connection()
    return () if user is None else tuple(key for (key,) in user.execute("SELECT key FROM muted ORDER BY key"))


def _choice(memory: Memory) -> tuple[str, str]:
    return topic(memory.key), normal(value(memory))


def _sentence(found: Sequence[Suggestion]) -> str:
    if not found:
        return ""
    named = [each.value for each in found if len(each.value.split()) <= VALUE_WORDS]
    rules = [each.value for each in found if len(each.value.split()) > VALUE_WORDS]
    parts = [f"You typically use {' + '.join(named)}"] if named else []
    parts += [f"You usually hold that: {'; '.join(rules)}"] if rules else []
    keys = ", ".join(each.key for each in found)
    return f"{'. '.join(parts)}. Nothing of this is remembered of this project yet ({keys})."

"""Suggest what the user usually does and this project says nothing about (H25); muted keys are skipped.

Nothing is applied. Muted keys are in the user's own store. Trade-off: a project's code is not read, only its memories.
"""

from collections.abc import Sequence

from msgspec import Struct

from xscore.extensions.learning.draft import HISTORY_KINDS
from xscore.pipeline.contradictions import VALUE_WORDS, chosen_value, normalized, parse_choice, topic_of_key
from xscore.records import Layer, Memory
from xscore.store import memory_rows
from xscore.store.lookup import list_observations
from xscore.store.store import Store

_USUAL = (
    "layer = 'user' AND status = 'active' AND kind IN ('preference', 'pattern') AND key <> '' AND confidence >= ?"
    " AND coalesce(json_extract(attrs, '$.polarity'), '') <> 'antipattern'"
)


class Suggestion(Struct, frozen=True):
    """Something the user usually does."""

    key: str
    value: str
    memory_id: str
    confidence: float
    projects: int
    """Projects that do so; 0: none was seen, the user said it."""


class Suggestions(Struct, frozen=True):
    """All of them, in one sentence and one by one."""

    text: str
    """`You typically use Prisma + Postgres; …`; empty: nothing to suggest."""
    suggestions: tuple[Suggestion, ...]


def suggest_preferences(store: Store, *, at_least: float) -> Suggestions:
    """Return what to suggest, surest first. at_least: confidence below which nothing is suggested.

    Nothing is where the user's own store is not to be opened, or there is none.
    """
    user = store.user_connection()
    if user is None:
        return Suggestions("", ())
    known = memory_rows.select_memories(store.connection, "source <> 'index' AND status IN ('active', 'stale')", ())
    settled = {topic_of_key(memory.key) for memory in known} | {topic_of_key(key) for key in muted_keys(store)}
    told = normalized(
        "\n".join(f"{memory.title}\n{memory.text}" for memory in known if memory.kind not in HISTORY_KINDS)
    )
    doing: dict[tuple[str, str], set[str]] = {}
    for each in map(parse_choice, list_observations(user)):
        doing.setdefault((each.topic, each.value), set()).add(each.observed.project)
    found = [
        Suggestion(memory.key, chosen_value(memory), memory.id, memory.confidence, len(doing.get(_choice(memory), ())))
        for memory in memory_rows.select_memories(user, _USUAL, (at_least,))
        if topic_of_key(memory.key) not in settled and normalized(chosen_value(memory)) not in told
    ]
    found.sort(key=lambda each: (-each.confidence, -each.projects, each.key))
    return Suggestions(_sentence(found), tuple(found))


def mute_suggestion(store: Store, key: str, *, now: float) -> None:
    """Suggest nothing of this key any more. Raises UsageError where the user's store is not to be opened."""
    store.home_of(Layer.USER).execute(
        "INSERT INTO muted_key (key, at) VALUES (?, ?) ON CONFLICT DO NOTHING", (key, now)
    )


def unmute_suggestion(store: Store, key: str) -> bool:
    """Suggest it again; False: it was not muted."""
    user = store.user_connection()
    return user is not None and user.execute("DELETE FROM muted_key WHERE key = ?", (key,)).rowcount > 0


def muted_keys(store: Store) -> tuple[str, ...]:
    """Return the muted keys, sorted."""
    user = store.user_connection()
    return () if user is None else tuple(key for (key,) in user.execute("SELECT key FROM muted_key ORDER BY key"))


def _choice(memory: Memory) -> tuple[str, str]:
    return topic_of_key(memory.key), normalized(chosen_value(memory))


def _sentence(found: Sequence[Suggestion]) -> str:
    if not found:
        return ""
    named = [each.value for each in found if len(each.value.split()) <= VALUE_WORDS]
    rules = [each.value for each in found if len(each.value.split()) > VALUE_WORDS]
    parts = [f"You typically use {' + '.join(named)}"] if named else []
    parts += [f"You usually hold that: {'; '.join(rules)}"] if rules else []
    keys = ", ".join(each.key for each in found)
    return f"{'. '.join(parts)}. Nothing of this is remembered of this project yet ({keys})."

"""What the machine of the layers does to a store, as values: so that the same write can be rehearsed, cut and repeated.

`perform` is the only place that calls the house. Nothing is checked here.
"""

from pathlib import Path
from typing import Any

from msgspec import Struct

from xscore.extensions.exchange import checkpoints
from xscore.extensions.exchange.snapshots import Snapshot, restore_snapshot
from xscore.extensions.learning.consolidate import close_session, consolidate
from xscore.extensions.learning.draft import Scope
from xscore.extensions.learning.feedback import Signal, give_feedback, update_preference
from xscore.extensions.privacy import erasure
from xscore.platform import database
from xscore.platform.hashing import digest
from xscore.platform.paths import find_root
from xscore.records.memory import Kind, Layer, MemoryDetails, MemoryScope, MemorySource
from xscore.records.statement import Statement
from xscore.settings import MemorySettings, validate_group
from xscore.store import failures, memory_writer
from xscore.store.events import write_memory as put
from xscore.store.evidence import parse_citation, refresh_evidence
from xscore.store.remembering import MemoryChange, remember, update_memory
from xscore.store.store import Store

RULES = validate_group(MemorySettings, {"promote_projects": 1, "max_rows": {"governance": 4, "project": 12}})
"""One project is enough to promote, so that both stores are written at once; caps that are reached."""


class Say(Struct, frozen=True):
    """`memory add`."""

    kind: Kind
    words: str
    key: str = ""
    layer: Layer | None = None
    because: str = ""
    cites: str = ""
    """Lines of a file, as `--cite` takes them."""
    importance: float = 0.5
    is_inferred: bool = False


class Edit(Struct, frozen=True):
    """`memory update`."""

    id: str
    words: str | None = None
    key: str | None = None
    importance: float | None = None


class Fail(Struct, frozen=True):
    """`failure add`."""

    words: str
    occurrence: str = ""


class Resolve(Struct, frozen=True):
    """`failure resolve`."""

    id: str
    by: str


class Prefer(Struct, frozen=True):
    """`store.user.update_preference`."""

    key: str
    words: str
    delta: int
    is_said: bool


class Feedback(Struct, frozen=True):
    """`memory feedback`."""

    id: str
    signal: Signal


class Erase(Struct, frozen=True):
    """`memory delete` and `memory wipe`."""

    ids: tuple[str, ...]
    forget: bool = False


class Note(Struct, frozen=True):
    """Something that a session learned."""

    words: str
    kind: Kind
    key: str
    thread: str
    is_said: bool


class Consolidate(Struct, frozen=True):
    """`memory consolidate`."""

    scopes: tuple[Scope, ...]


class Close(Struct, frozen=True):
    """`session close`."""

    thread: str


class Save(Struct, frozen=True):
    """`checkpoint save`."""

    name: str
    thread: str


class Restore(Struct, frozen=True):
    """`memory import` of a snapshot."""

    snapshot: Snapshot


class Look(Struct, frozen=True):
    """A look at the cited files, as every turn begins with."""


Write = Say | Edit | Fail | Resolve | Prefer | Feedback | Erase | Note | Consolidate | Close | Save | Restore | Look
ATOMIC = (Say, Edit, Fail, Resolve, Prefer, Feedback, Note, Close, Save, Restore, Look)
"""Writes of one transaction: cut short, nothing of them is there."""


def opened(folder: Path, *, now: float) -> Store:
    """Open the project in this folder, with its user, at a fixed clock."""
    root = folder / "project"
    root.mkdir(parents=True, exist_ok=True)
    return Store.open(find_root(root), user_data_dir=folder / "user", settings=RULES, clock=lambda: now, trust=True)


def perform(store: Store, write: Write, *, now: float) -> Any:  # noqa: C901  one line for each
    """Do it, and return what the house says of it. Raises what the house raises."""
    match write:
        case Say():
            return _say(store, write, now)
        case Edit(id=id_, words=words, key=key, importance=importance):
            return update_memory(store, id_, MemoryChange(text=words, key=key, importance=importance), now=now)
        case Fail(words=words, occurrence=occurrence):
            return failures.record_failure(store, text=words, occurrence=occurrence, seen_at=now)
        case Resolve(id=id_, by=by):
            return failures.resolve_failure(store, id_, by, now=now)
        case Prefer(key=key, words=words, delta=delta, is_said=is_said):
            source = MemorySource.EXPLICIT if is_said else MemorySource.INFERRED
            return update_preference(store, key, words, delta_evidence=delta, source=source, now=now)
        case Feedback(id=id_, signal=signal):
            return give_feedback(store, id_, signal, now=now)
        case Erase(ids=ids, forget=forget):
            return erasure.erase_memories(store, ids, now=now, forget=forget)
        case Note():
            return _note(store, write, now)
        case Consolidate(scopes=scopes):
            return consolidate(store, RULES, now=now, scopes=scopes)
        case Close(thread=thread):
            return close_session(store, thread, now=now)
        case Save(name=name, thread=thread):
            return checkpoints.save_checkpoint(store.connection, name, thread=thread, now=now)
        case Restore(snapshot=snapshot):
            return restore_snapshot(store, snapshot, now=now)
        case Look():
            return refresh_evidence(store.connection, store.root, now=now)


def _say(store: Store, write: Say, now: float) -> object:
    statement = Statement(
        text=write.words,
        kind=write.kind,
        layer=write.layer,
        key=write.key,
        because=write.because,
        importance=write.importance,
        confidence=RULES.inferred_confidence if write.is_inferred else 1.0,
        source=MemorySource.INFERRED if write.is_inferred else MemorySource.EXPLICIT,
    )
    cited = [parse_citation(store.root, write.cites)] if write.cites else []
    return remember(store, statement, citations=cited, now=now)


def _note(store: Store, write: Note, now: float) -> str:
    memory, _ = memory_writer.make_memory(
        layer=Layer.SESSION,
        kind=write.kind,
        title=write.words,
        text=write.words,
        entity=write.key,
        ordinal=int(digest("noted", write.thread, write.words)[:15], 16),
        particulars=MemoryDetails(session=write.thread),
        key=write.key,
        scope=MemoryScope.SESSION,
        source=MemorySource.EXPLICIT if write.is_said else MemorySource.INFERRED,
        updated_at=now,
    )
    with database.transaction(store.connection):
        before = store.memories([memory.id]).get(memory.id)
        put(store.connection, memory, before=before, now=now, thread=write.thread)
    return memory.id

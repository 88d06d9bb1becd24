"""Writes of the layers' state machine as values, so that one can be rehearsed, interrupted and
repeated.

`perform` is the only place that calls the house. Nothing is checked here.
"""

from pathlib import Path
from typing import Any

from msgspec import Struct

from xscore.extensions.learning.consolidate import consolidate
from xscore.extensions.learning.draft import Scope
from xscore.extensions.privacy import erasure
from xscore.platform.paths import find_root
from xscore.records.memory import Kind, Layer, MemorySource
from xscore.records.statement import Statement
from xscore.settings import MemorySettings, validate_group
from xscore.store import failures
from xscore.store.citing import parse_citation
from xscore.store.evidence import refresh_evidence
from xscore.store.remembering import MemoryChange, remember, update_memory
from xscore.store.store import Store

RULES = validate_group(
    MemorySettings, {"promote_projects": 1, "max_rows": {"governance": 4, "project": 12}}
)
"""One project is enough to promote, so that one run writes both stores; caps that are reached."""


class AddMemory(Struct, frozen=True):
    """A write as by `memory add`."""

    kind: Kind
    words: str
    key: str = ""
    layer: Layer | None = None
    because: str = ""
    cites: str = ""
    """Lines of a file, as for `--cite`."""
    importance: float = 0.5
    is_inferred: bool = False


class Edit(Struct, frozen=True):
    """A write as by `memory update`."""

    id: str
    words: str | None = None
    key: str | None = None
    importance: float | None = None


class Fail(Struct, frozen=True):
    """A write as by `failure add`."""

    words: str
    occurrence: str = ""


class Erase(Struct, frozen=True):
    """A write as by `memory delete` and `memory wipe`."""

    ids: tuple[str, ...]
    forget: bool = False


class Consolidate(Struct, frozen=True):
    """A write as by `memory consolidate`."""

    scopes: tuple[Scope, ...]


class CheckEvidence(Struct, frozen=True):
    """A check of the cited files, as at the start of every turn."""


Write = AddMemory | Edit | Fail | Erase | Consolidate | CheckEvidence
ATOMIC = (AddMemory, Edit, Fail, CheckEvidence)
"""Writes of one transaction: interrupted, none of it is stored."""


def opened(folder: Path, *, now: float) -> Store:
    """Open the project in this folder, with its user, at a fixed clock."""
    root = folder / "project"
    root.mkdir(parents=True, exist_ok=True)
    return Store.open(
        find_root(root),
        user_data_dir=folder / "user",
        settings=RULES,
        clock=lambda: now,
        trust=True,
    )


def perform(store: Store, write: Write, *, now: float) -> Any:
    """Do it, and return or raise what the program does."""
    match write:
        case AddMemory():
            return _say(store, write, now)
        case Edit(id=id_, words=words, key=key, importance=importance):
            return update_memory(
                store, id_, MemoryChange(text=words, key=key, importance=importance), now=now
            )
        case Fail(words=words, occurrence=occurrence):
            return failures.record_failure(
                store, text=words, occurrence=occurrence, seen_at=now
            )
        case Erase(ids=ids, forget=forget):
            return erasure.erase_memories(store, ids, now=now, forget=forget)
        case Consolidate(scopes=scopes):
            return consolidate(store, RULES, now=now, scopes=scopes)
        case CheckEvidence():
            return refresh_evidence(store.connection, store.root, now=now)


def _say(store: Store, write: AddMemory, now: float) -> object:
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

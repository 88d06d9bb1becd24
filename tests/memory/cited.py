"""A file, decisions that cite it, and looks at what became of them."""

from pathlib import Path

from xscore import database
from xscore.memory import door, evidence
from xscore.memory.evidence import Refreshed
from xscore.memory.store import Store
from xscore.records import Kind, Layer, Memory, Source

CODE = "import os\n\n\ndef retry(n):\n    return n + 1\n\n\ndef other():\n    return 2\n"
NOW = 2_000_000_000.0
"""Far behind every file's time, so that no stamp is doubted."""


def write(store: Store, text: str | bytes = CODE, name: str = "a.py") -> Path:
    """Write a file of the repository."""
    path = store.root.path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def decide(store: Store, *cited: str, title: str = "Retry once", key: str = "", at: float = 10.0) -> Memory:
    """Remember a decision that cites code."""
    made, _ = door.make(
        layer=Layer.GOVERNANCE,
        kind=Kind.DECISION,
        title=title,
        text=f"{title}, not twice.",
        entity=title,
        key=key,
        source=Source.EXPLICIT,
        updated_at=at,
    )
    spans = [evidence.cite(store.root, one) for one in cited]
    with database.transaction(store.connection):
        door.put(store.connection, [made], thread="s_1")
        evidence.attach(store.connection, made.id, spans)
    return made


def refresh(store: Store, now: float = NOW) -> Refreshed:
    """Look at the cited files."""
    return evidence.refresh(store.connection, store.root, now=now)


def lines(store: Store, memory: Memory) -> list[tuple[int, int, bool]]:
    """Say where the memory's spans stand."""
    found = evidence.citations(store.connection, [memory.id])[memory.id]
    return [(one.start_line, one.end_line, one.is_changed) for one in found]

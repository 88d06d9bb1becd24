"""A file, decisions that cite it, and checks of their citations."""

from pathlib import Path

from tests.store.conftest import said
from xscore.platform import database
from xscore.records.memory import Kind, Layer, Memory
from xscore.store import evidence, memory_writer
from xscore.store.citing import parse_citation
from xscore.store.evidence import EvidenceRefresh
from xscore.store.store import Store

CODE = "import os\n\n\ndef retry(n):\n    return n + 1\n\n\ndef other():\n    return 2\n"
NOW = 2_000_000_000.0
"""Long before every file's time, so that all stamps are trusted."""


def write(store: Store, text: str | bytes = CODE, name: str = "a.py") -> Path:
    """Write a file of the repository."""
    path = store.root.path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def decide(
    store: Store, *cited: str, title: str = "Retry once", key: str = "", at: float = 10.0
) -> Memory:
    """Remember a decision that cites code."""
    decision = said(
        f"{title}, not twice.",
        key=key,
        layer=Layer.GOVERNANCE,
        kind=Kind.DECISION,
        entity=title,
        updated_at=at,
    )
    spans = [parse_citation(store.root, reference) for reference in cited]
    with database.transaction(store.connection):
        memory_writer.put_memories(store.connection, [decision], thread="s_1")
        evidence.attach_citations(store.connection, decision.id, spans)
    return decision


def refresh(store: Store, now: float = NOW) -> EvidenceRefresh:
    """Check the cited files."""
    return evidence.refresh_evidence(store.connection, store.root, now=now)


def lines(store: Store, memory: Memory) -> list[tuple[int, int, bool]]:
    """Return the lines of the memory's spans."""
    citations = evidence.citations_of(store.connection, [memory.id])[memory.id]
    return [
        (citation.start_line, citation.end_line, citation.is_changed) for citation in citations
    ]

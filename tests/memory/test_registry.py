"""The registry: seven rules, four verbs."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.memory.conftest import function
from xscore.extensions.evaluation.registry import CAP, halved, registry_score
from xscore.platform import database
from xscore.platform.errors import NothingMatched
from xscore.records import (
    Kind,
    Layer,
    Memory,
    MemoryDetails,
    MemoryScope,
    MemorySource,
    RegistryQuery,
    Statement,
    StoredStatement,
)
from xscore.store import memory_writer
from xscore.store.remembering import MemoryChange
from xscore.store.store import Store

NOW = 1_000_000.0
DAY = 86_400.0


def made(**more: object) -> Memory:
    """Make a decision with importance 1, never used."""
    memory, _ = memory_writer.make_memory(
        layer=Layer.GOVERNANCE,
        kind=Kind.DECISION,
        title="Retry policy",
        text="we use tenacity",
        particulars=MemoryDetails(links=("docs/net.md",), paths=("src/retry.py",)),
        importance=1.0,
        source=MemorySource.EXPLICIT,
        updated_at=1.0,
    )
    return replace(memory, **more)


TEXT = RegistryQuery(text="tenacity")
ALL = RegistryQuery(text="tenacity", references=("src/retry.py",), scope=MemoryScope.REPOSITORY, kind=Kind.DECISION)
RULES = [
    ("nothing asked, nothing used", made(), RegistryQuery(), 0.0),
    ("1 text in content", made(), TEXT, 1.0),
    ("1 text in title", made(), RegistryQuery(text="Retry pol"), 1.0),
    ("1 no match", made(), RegistryQuery(text="backoff"), 0.0),
    ("1 the very characters", made(), RegistryQuery(text="TENACITY"), 0.0),
    ("2 reference by path", made(), RegistryQuery(references=("src/retry.py",)), 0.3),
    ("2 reference by link", made(), RegistryQuery(references=("x", "docs/net.md")), 0.3),
    ("2 two references count once", made(), RegistryQuery(references=("src/retry.py", "docs/net.md")), 0.3),
    ("2 another reference", made(), RegistryQuery(references=("src/other.py",)), 0.0),
    ("3 scope", made(), RegistryQuery(scope=MemoryScope.REPOSITORY), 0.2),
    ("3 another scope", made(), RegistryQuery(scope=MemoryScope.GLOBAL), 0.0),
    ("4 kind", made(), RegistryQuery(kind=Kind.DECISION), 0.1),
    ("4 another kind", made(), RegistryQuery(kind=Kind.TODO), 0.0),
    ("1-4 add up", made(), ALL, 1.6),
    ("5 importance 0 halves", made(importance=0.0), ALL, 0.8),
    ("5 importance 0.5", made(importance=0.5), ALL, 1.2),
    ("6 used within 24 h", made(accessed_at=NOW - DAY), TEXT, 1.1),
    ("6 used before", made(accessed_at=NOW - DAY - 1), TEXT, 1.0),
    ("6 comes after importance", made(importance=0.0, accessed_at=NOW - 1), TEXT, 0.6),
    ("6 alone", made(accessed_at=NOW - 1), RegistryQuery(), 0.1),
    ("7 each use", made(access_count=3), TEXT, 1.15),
    ("7 at most ten", made(access_count=11), TEXT, 1.5),
    ("7 comes after importance", made(importance=0.0, access_count=10), TEXT, 1.0),
    ("cap", made(accessed_at=NOW - 1, access_count=10), ALL, 2.0),
]


@pytest.mark.parametrize(("memory", "query", "score"), [rule[1:] for rule in RULES], ids=[rule[0] for rule in RULES])
def test_every_rule(memory: Memory, query: RegistryQuery, score: float) -> None:
    """A04: text 1, reference 0.3, scope 0.2, kind 0.1; times importance; then recency and use; never above 2."""
    assert registry_score(memory, query, now=NOW) == pytest.approx(score, abs=1e-12)
    assert halved(registry_score(memory, query, now=NOW)) == pytest.approx(score / 2, abs=1e-12)


@settings(deadline=None)
@given(
    importance=st.floats(0, 1),
    uses=st.integers(0, 1_000),
    accessed=st.floats(0, 2 * NOW),
    query=st.sampled_from([TEXT, ALL, RegistryQuery()]),
)
def test_a_score_stays_in_its_range(importance: float, uses: int, accessed: float, query: RegistryQuery) -> None:
    """A04: between 0 and 2 whatever a memory went through, and so half of it is a score among others."""
    memory = made(importance=importance, access_count=uses, accessed_at=accessed)
    assert 0 <= registry_score(memory, query, now=NOW) <= CAP


def said(store: Store, text: str, **more: object) -> StoredStatement:
    """Register a statement."""
    return store.registry.register(Statement(text=text, **more), now=NOW)  # type: ignore[arg-type]  # any field may be given


def test_a_query_finds_the_best_first_and_nothing_else(store: Store) -> None:
    """A05: memories of which nothing fits are left out, as are those of files; ties go by id."""
    decision = said(store, "we use tenacity", kind=Kind.DECISION, importance=1.0).memory
    note = said(store, "tenacity is pinned", importance=0.0).memory
    said(store, "ports begin at 8000")
    with database.transaction(store.connection):
        memory_writer.put_memories(store.connection, [function("tenacity")])
    hits = store.registry.query(RegistryQuery(text="tenacity", kind=Kind.DECISION), now=NOW)
    assert [(hit.memory.id, round(hit.score, 9)) for hit in hits] == [(decision.id, 1.1), (note.id, 0.5)]
    assert len(store.registry.query(now=NOW)) == 3
    assert [hit.memory.id for hit in store.registry.query(RegistryQuery(layer=Layer.GOVERNANCE))] == [decision.id]
    assert len(store.registry.query(limit=1, now=NOW)) == 1


def test_register_update_remove(store: Store) -> None:
    """A05: the three verbs that change, each by exact id; what was removed is gone, and told once."""
    memory = said(store, "one").memory
    assert store.registry.update(memory.id, MemoryChange(text="two"), now=NOW).memory.text == "two"
    erased = store.registry.remove(memory.id, now=NOW)
    assert erased.ids == (memory.id,)
    assert store.registry.query(now=NOW) == []
    with pytest.raises(NothingMatched):
        store.registry.remove(memory.id)
    told = store.connection.execute("SELECT count(*) FROM event WHERE name = 'memory.removed'").fetchone()
    assert told == (1,)

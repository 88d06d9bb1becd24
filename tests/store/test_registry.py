"""The registry: seven rules in one order."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from xscore.records.memory import Kind, Layer, Memory, MemoryDetails, MemoryScope, MemorySource
from xscore.store.lookup import CAP, RegistryQuery, registry_score

NOW, DAY = 1_000_000.0, 86_400.0
DECISION = Memory(
    id="m_1",
    layer=Layer.GOVERNANCE,
    kind=Kind.DECISION,
    title="Retry policy",
    text="we use tenacity",
    details=MemoryDetails(links=("docs/net.md",), paths=("src/retry.py",)),
    importance=1.0,
    source=MemorySource.EXPLICIT,
)
TEXT = RegistryQuery(text="tenacity")
ALL = RegistryQuery(
    text="tenacity",
    references=("src/retry.py",),
    scopes=(MemoryScope.REPOSITORY,),
    kinds=(Kind.DECISION,),
)
RULES: list[tuple[str, dict[str, float], RegistryQuery, float]] = [
    ("nothing asked, nothing used", {}, RegistryQuery(), 0.0),
    ("1 text", {}, TEXT, 1.0),
    ("1 text in the title", {}, RegistryQuery(text="Retry pol"), 1.0),
    ("1 the same case only", {}, RegistryQuery(text="TENACITY"), 0.0),
    ("2 reference by path", {}, RegistryQuery(references=("src/retry.py",)), 0.3),
    (
        "2 each matching reference",
        {},
        RegistryQuery(references=("src/retry.py", "docs/net.md", "x")),
        0.6,
    ),
    ("3 scope", {}, RegistryQuery(scopes=(MemoryScope.REPOSITORY,)), 0.2),
    ("3 another scope", {}, RegistryQuery(scopes=(MemoryScope.GLOBAL,)), 0.0),
    ("4 kind", {}, RegistryQuery(kinds=(Kind.DECISION,)), 0.1),
    ("1-4 add up", {}, ALL, 1.6),
    ("5 importance", {"importance": 0.5}, ALL, 1.2),
    ("6 used within 24 h", {"accessed_at": NOW - DAY}, TEXT, 1.1),
    ("6 used before", {"accessed_at": NOW - DAY - 1}, TEXT, 1.0),
    ("6 comes after importance", {"importance": 0.0, "accessed_at": NOW - 1}, TEXT, 0.6),
    ("7 each use", {"access_count": 3}, TEXT, 1.15),
    ("7 at most ten", {"access_count": 11}, TEXT, 1.5),
    ("never above 2", {"accessed_at": NOW - 1, "access_count": 10}, ALL, 2.0),
]


@pytest.mark.parametrize(
    ("changes", "query", "score"), [rule[1:] for rule in RULES], ids=[rule[0] for rule in RULES]
)
def test_every_rule(changes: dict[str, float], query: RegistryQuery, score: float) -> None:
    """A04: text 1, each reference 0.3, scope 0.2, kind 0.1; times importance; then recency and use;
    at most 2."""
    assert registry_score(replace(DECISION, **changes), query, now=NOW) == pytest.approx(
        score, abs=1e-12
    )


@settings(deadline=None)
@given(
    st.floats(0, 1),
    st.integers(0, 1_000),
    st.floats(0, 2 * NOW),
    st.sampled_from([TEXT, ALL, RegistryQuery()]),
)
def test_a_score_stays_in_its_range(
    importance: float, uses: int, accessed: float, query: RegistryQuery
) -> None:
    """A04: between 0 and 2, whatever a memory's history."""
    memory = replace(DECISION, importance=importance, access_count=uses, accessed_at=accessed)
    assert 0 <= registry_score(memory, query, now=NOW) <= CAP

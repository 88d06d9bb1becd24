"""Memories that need attention."""

from tests.extensions.learning.conftest import NOW, made, preference, put
from xscore.extensions.learning.audit import AuditProblem, MemoryAudit, audit_memories
from xscore.platform import database
from xscore.records.memory import Layer, Memory, MemorySource, MemoryStatus
from xscore.settings import MemorySettings, validate_group
from xscore.store import evidence
from xscore.store.citing import parse_citation
from xscore.store.store import Store


def remember(
    store: Store, text: str, *, title: str = "", cited: str = "", **values: object
) -> Memory:
    """Remember a convention."""
    memory = made(
        text, days_ago=1, entity=title or text, source=MemorySource.EXPLICIT, **values
    )
    put(store, memory)
    if cited:
        evidence.attach_citations(
            store.connection, memory.id, [parse_citation(store.root, cited)]
        )
    return memory


def look(store: Store, **rules: object) -> MemoryAudit:
    """Audit the store."""
    return audit_memories(store, validate_group(MemorySettings, rules), now=NOW)


def found(store: Store, **rules: object) -> list[tuple[AuditProblem, set[str]]]:
    """Return the findings with their memories."""
    return [(finding.problem, set(finding.ids)) for finding in look(store, **rules).findings]


def test_the_same_twice_is_found_once(store: Store) -> None:
    """L03: equal words, whatever the spaces, are one duplicate, the best evidenced first, and not a
    near duplicate."""
    weak = remember(store, "We format with ruff.", title="a", confidence=0.5)
    strong = remember(store, "We  format with ruff.\n", title="b", confidence=0.9)
    remember(store, "We format with ruff.", title="c", layer=Layer.GOVERNANCE)
    (finding,) = look(store).findings
    assert (finding.problem, finding.ids) == (AuditProblem.DUPLICATE, (strong.id, weak.id))


def test_the_same_in_other_words_is_found(store: Store) -> None:
    """H18: the same statement in other words is reported; one with another number is not."""
    first = remember(store, "Retry failed requests three times.")
    reworded = remember(store, "retry failed requests, three times!")
    remember(store, "Retry failed requests four times.")
    assert found(store) == [(AuditProblem.NEAR_DUPLICATE, {first.id, reworded.id})]


def test_a_stale_memory_is_listed_with_the_citation_that_broke(store: Store) -> None:
    """The audit checks the code itself, and reports the broken citation but not the intact one."""
    for name in ("a.py", "b.py"):
        (store.root.path / name).write_text("x = 1\ny = 2\n")
    memory = remember(store, "x is one.", cited="a.py:1")
    with database.transaction(store.connection):
        spans = [parse_citation(store.root, name) for name in ("a.py:1", "b.py:1-2")]
        evidence.attach_citations(store.connection, memory.id, spans)
    assert look(store).is_clean
    (store.root.path / "b.py").write_text("x = 3\ny = 2\n")
    (finding,) = look(store).findings
    assert (finding.problem, finding.ids) == (AuditProblem.STALE, (memory.id,))
    assert [
        (citation.path, citation.start_line, citation.end_line)
        for citation in finding.citations
    ] == [("b.py", 1, 2)]
    assert finding.because == "the code it cites has changed: b.py:1-2"
    assert store.memories([memory.id])[memory.id].status is MemoryStatus.STALE


def test_a_secret_past_the_door_is_found_and_not_repeated(store: Store) -> None:
    """P01: the rules are applied to stored text; the finding names the type, never the text."""
    memory = remember(store, "We keep it elsewhere.")
    key = "AKIA" + "Z7Q2M4X9W1C5V8B3"
    store.connection.execute(
        "UPDATE memory_row SET text = ? WHERE id = ?", (f"key = {key}", memory.id)
    )
    (finding,) = look(store).findings
    assert (finding.problem, finding.ids) == (AuditProblem.SECRET, (memory.id,))
    assert key not in finding.because
    store.connection.execute(
        "UPDATE memory_row SET text = 'Ask ann.lee@acme-werke.de.' WHERE id = ?", (memory.id,)
    )
    assert found(store) == [(AuditProblem.SECRET, {memory.id})]


def test_a_layer_over_its_cap_is_found(store: Store) -> None:
    """L11: rows and bytes are counted by layer, against each layer's cap."""
    remember(store, "One thing.")
    remember(store, "Quite another thing.")
    assert found(store, max_rows={"project": 2}, max_bytes={"project": 30}) == []
    assert found(store, max_rows={"project": 1}) == [(AuditProblem.OVER_CAP, set())]
    assert found(store, max_bytes={"project": 29}) == [(AuditProblem.OVER_CAP, set())]


def test_the_users_own_memories_are_looked_at_too(store: Store) -> None:
    """P06: duplicates in the user's store are found; if it is missing, none is made."""
    assert look(store).is_clean
    assert store.user_connection() is None
    put(store, *(preference("I like short answers.", entity=f"user {title}") for title in "ab"))
    assert [problem for problem, _ in found(store)] == [AuditProblem.DUPLICATE]

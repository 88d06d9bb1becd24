"""A member with login and key who sends what no xscore would write: counted and skipped, entry by
entry."""

from typing import Any

import msgspec
import pytest

from tests.extensions.shared.team.conftest import KEY, NewMember
from tests.statements import decide, say
from tests.store.conftest import said
from xscore.extensions.privacy.erasure import erase_memories
from xscore.extensions.shared.team.address import connected, memories_address
from xscore.extensions.shared.team.server_sync import project_digest, read_entry
from xscore.extensions.shared.team.shared_content import (
    local_memory,
    memory_content,
    read_memory,
)
from xscore.extensions.shared.team.team_key import RowPlace, TeamKey
from xscore.extensions.shared.team.team_server import NewEntry, ServerEntry, TeamServer
from xscore.records.memory import Kind, Layer, MemoryScope
from xscore.store.memory_rows import memories_with_ids

REPOSITORY = "github.com/acme/pay"
TEAM_KEY = TeamKey(bytes.fromhex(KEY))
CHANGES: dict[str, dict[str, Any]] = {
    "code": {"kind": "function", "layer": "graph"},
    "an exchange": {"kind": "exchange", "layer": "session"},
    "the user's own layer": {"layer": "user"},
    "the index's": {"source": "index"},
    "an id of another form": {"id": "m_../../x"},
    "a citation outside": {
        "citations": [
            {"path": "../../etc/passwd", "start_line": 1, "end_line": 1, "span_hash": "a" * 32}
        ]
    },
    "not a number": {"confidence": 7.5},
    "a later field": {"surprise": 1},
    "a later schema": {"schema": 9},
    "long ago": {"created_at": -5.0},
    "too many names": {"particulars": {"aliases": ["a"] * 50}},
}


def content_of(**changes: Any) -> bytes:
    """Return a memory's content with parts of it changed."""
    memory = said("We round half to even", kind=Kind.DECISION, layer=Layer.GOVERNANCE)
    body = msgspec.json.decode(memory_content(memory, (), by="Mallory", repository=REPOSITORY))
    body["memory"] |= changes
    return msgspec.json.encode(body)


@pytest.mark.parametrize("name", CHANGES)
def test_what_no_xscore_writes_is_refused(name: str) -> None:
    """Every field is checked as that of a stranger's file."""
    assert read_memory(content_of(), repository=REPOSITORY)
    with pytest.raises(ValueError):
        read_memory(content_of(**CHANGES[name]), repository=REPOSITORY)


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"null", b"\xff\xfe", b"[" * 100_000, b'{"by": "x", "repository": "y"}'],
)
def test_what_is_no_memory_is_refused(content: bytes) -> None:
    """Empty, broken or deep: an error that the exchange counts."""
    for kind in ("memory", "checkpoint"):
        place = RowPlace("acme", "p", "m", "n", kind)
        entry = ServerEntry("m", "n", kind, 1, TEAM_KEY.encrypt(content, place))
        with pytest.raises((ValueError, RecursionError)):
            read_entry(TEAM_KEY, entry, "acme", "p", REPOSITORY)


def test_another_repositorys_memory_is_refused() -> None:
    """A row of this project cannot claim to be of another."""
    with pytest.raises(ValueError):
        read_memory(content_of(), repository="github.com/acme/other")


def test_what_would_weigh_more_than_it_may_is_cut() -> None:
    """Counts, times to come, a wider scope and a place in the code are not believed."""
    content = content_of(
        evidence_count=10**9,
        updated_at=4e9,
        created_at=4e9,
        scope="global",
        entity="Store.write",
        start_line=3,
        end_line=9,
    )
    shared = read_memory(content, repository=REPOSITORY)
    memory = local_memory(shared, "m_1", member="a" * 32, now=1e9, allow_pii=False)
    assert (memory.evidence_count, memory.updated_at, memory.created_at) == (1_000, 1e9, 1e9)
    assert (memory.scope, memory.entity, memory.start_line) == (MemoryScope.REPOSITORY, "", 0)


def test_a_bad_entry_keeps_no_other_from_coming(member: NewMember) -> None:
    """Entries that cannot be read are counted; the others arrive, now and later."""
    ann, bob = member("ann", repository=REPOSITORY), member("bob", repository=REPOSITORY)
    with connected(memories_address(ann.shared)) as connection:
        project = project_digest(TEAM_KEY, REPOSITORY)
        server = TeamServer(connection, address=memories_address(ann.shared), project=project)
        greeting = server.greet()
        entries: list[NewEntry] = []
        for number, content in enumerate((b"[" * 100_000, b"{}", content_of(kind="function"))):
            place = RowPlace(
                greeting.organisation, project, greeting.member, f"{number:032x}", "memory"
            )
            entries.append(NewEntry(place.name, "memory", TEAM_KEY.encrypt(content, place)))
        server.put(entries)
    decide(ann.store, "A good one")
    ann.sync()
    done = bob.sync()
    assert (done.added, sum(done.skipped.values())) == (1, 3)
    assert bob.sync().skipped == {}


def test_the_same_words_stay_each_members_own(member: NewMember) -> None:
    """Who says what a colleague has said keeps it when the colleague takes it back."""
    ann, bob = member("ann"), member("bob")
    stated = decide(ann.store, "Use Prisma", key="orm").memory
    ann.sync()
    bob.sync()
    mine = decide(bob.store, "Use Prisma").memory
    assert bob.sync().sent == 1
    say(bob.store, "Something else")
    erase_memories(ann.store, [stated.id], now=1.0)
    ann.sync()
    assert bob.sync().removed == 1
    (kept,) = memories_with_ids(bob.store.connection, [mine.id])
    assert not kept.is_from_team and kept.text == "Use Prisma"

"""What members state about a repository reaches the others, with author, evidence and conflicts."""

import pytest
from msgspec.structs import replace

from tests.extensions.shared.team.conftest import OTHER_KEY, NewMember, TeamDatabase
from tests.statements import decide, say
from xscore.extensions.privacy.erasure import erase_memories
from xscore.extensions.shared.team.server_sync import OTHER_KEY as OTHER_KEY_REASON
from xscore.pipeline.contradictions import resolve_conflicts
from xscore.platform.errors import UsageError
from xscore.records.memory import Kind, Layer, MemorySource, MemoryStatus
from xscore.settings import MemorySettings, Secret
from xscore.store.citing import parse_citation
from xscore.store.evidence import refresh_evidence
from xscore.store.lookup import MemoryFilter, filter_memories
from xscore.store.memory_rows import memories_with_ids
from xscore.store.remembering import MemoryChange, update_memory
from xscore.store.store import Store

ORM = "Use Prisma for the ORM"


def of_team(store: Store) -> list[str]:
    """Return the ids of memories of others."""
    memories = filter_memories(store, MemoryFilter(statuses=()))
    return [memory.id for memory in memories if memory.is_from_team]


def test_a_statement_reaches_the_others_with_its_author(member: NewMember) -> None:
    """It comes with author, repository, time and key, and goes only once."""
    name = "github.com/acme/pay"
    ann, bob = member("ann", repository=name), member("bob", repository=name)
    stated = decide(ann.store, ORM, key="orm", because="migrations", now=1000.0).memory
    assert ann.sync().sent == 1
    assert bob.sync().added == 1
    (arrived,) = memories_with_ids(bob.store.connection, of_team(bob.store))
    assert (arrived.details.author, arrived.place) == ("Ann", "github.com/acme/pay")
    assert arrived.text == stated.text and arrived.updated_at == stated.updated_at
    assert arrived.content_hash == stated.content_hash
    assert arrived.is_stated and arrived.source is MemorySource.IMPORT
    assert (ann.sync().sent, bob.sync().added) == (0, 0)
    assert not of_team(ann.store)


def test_what_changes_and_goes_follows(member: NewMember) -> None:
    """An edit changes the others' copy; what is superseded goes; other kinds never come."""
    ann, bob = member("ann"), member("bob")
    kept = decide(ann.store, "Deploy on Fridays never", now=1.0).memory
    gone = decide(ann.store, "Use Redux", key="state", now=1.0).memory
    say(ann.store, "A passing remark", kind=Kind.CONTEXT)
    say(ann.store, "Inferred only", kind=Kind.CONVENTION, source=MemorySource.INFERRED)
    assert ann.sync().sent == 2
    assert bob.sync().added == 2
    update_memory(ann.store, kept.id, MemoryChange(text="Deploy on Fridays rarely"), now=2.0)
    decide(ann.store, "Use Zustand", key="state", now=2.0)
    done = ann.sync()
    assert (done.sent, done.taken_back) == (2, 1)
    done = bob.sync()
    assert (done.added, done.changed, done.removed) == (1, 1, 1)
    assert set(bob.texts()) == {"Deploy on Fridays rarely", "Use Zustand"}
    assert gone.text not in bob.texts()


def test_a_citation_is_stale_where_the_code_differs(member: NewMember) -> None:
    """One memory is fresh in one checkout and stale in another."""
    code = "def pay():\n    return 1\n"
    ann = member("ann", files={"pay.py": code})
    bob = member("bob", files={"pay.py": code})
    eva = member("bob", files={"pay.py": "def pay():\n    return 2\n"})
    cited = parse_citation(ann.store.root, "pay.py:1-2")
    decide(ann.store, "Pay returns one", citations=[cited])
    ann.sync()
    statuses = []
    for colleague in (bob, eva):
        colleague.sync()
        identifiers = of_team(colleague.store)
        (arrived,) = memories_with_ids(colleague.store.connection, identifiers)
        statuses.append(arrived.status)
    assert statuses == [MemoryStatus.ACTIVE, MemoryStatus.STALE]


def test_a_conflict_between_members_says_who(member: NewMember) -> None:
    """Two members with one key keep both; one sentence says what holds and who said what."""
    ann, bob = member("ann"), member("bob")
    decide(ann.store, ORM, key="orm", author="Ann", now=1000.0)
    mine = decide(bob.store, "Use Drizzle for the ORM", key="orm", author="Bob", now=9e8).memory
    ann.sync()
    bob.sync()
    memories = filter_memories(bob.store, MemoryFilter(layers=(Layer.GOVERNANCE,)))
    assert len(memories) == 2
    (conflict,) = resolve_conflicts(memories, authority={"governance": 1.0}, now=9.1e8)
    assert conflict.winner == mine.id
    assert "by Bob" in conflict.text and "by Ann" in conflict.text


def test_what_was_forgotten_here_stays_forgotten(member: NewMember) -> None:
    """A member who erased another's memory does not get it back."""
    ann, bob = member("ann"), member("bob")
    stated = decide(ann.store, ORM, key="orm").memory
    ann.sync()
    bob.sync()
    (identifier,) = of_team(bob.store)
    erase_memories(bob.store, [identifier], now=1.0)
    update_memory(ann.store, stated.id, MemoryChange(text="Use Prisma, always"), now=2.0)
    ann.sync()
    assert bob.sync().forgotten == 1
    assert not of_team(bob.store)


def test_machines_of_one_member_do_not_take_back_each_other(member: NewMember) -> None:
    """Two machines with one login share both ways; only what is removed at its origin goes."""
    desk, laptop, bob = member("ann"), member("ann"), member("bob")
    first = decide(desk.store, "Said at the desk").memory
    desk.sync()
    decide(laptop.store, "Said on the train")
    assert laptop.sync().taken_back == 0
    desk.sync()
    assert (set(desk.texts()), set(laptop.texts())) == ({"Said on the train"}, {first.text})
    bob.sync()
    assert len(bob.texts()) == 2


def test_a_member_who_only_reads_sends_nothing(member: NewMember) -> None:
    """`read` takes and does not give."""
    ann, bob = member("ann", memories="read"), member("bob")
    decide(ann.store, ORM)
    decide(bob.store, "Bob's view")
    bob.sync()
    done = ann.sync()
    assert (done.sent, done.added) == (0, 1)


def test_kinds_named_later_come_then(member: NewMember) -> None:
    """Everything of a kind that the settings begin to name comes."""
    ann, bob = member("ann", kinds=("decision", "context")), member("bob", kinds=("decision",))
    say(ann.store, "A remark", kind=Kind.CONTEXT)
    ann.sync()
    assert bob.sync().added == 0
    bob.shared = replace(bob.shared, kinds=("context", "decision"))
    assert bob.sync().added == 1


def test_another_key_reads_nothing_and_says_so(member: NewMember) -> None:
    """A member with another key sees no project at all, since its name is made of the key. It is
    told that colleagues use another."""
    ann = member("ann", repository="github.com/acme/keys")
    bob = member("bob", repository="github.com/acme/keys", key=Secret(OTHER_KEY))
    decide(ann.store, ORM)
    ann.sync()
    done = bob.sync()
    assert done.added == 0 and done.skipped[OTHER_KEY_REASON] > 0
    corrected = member("bob", repository="github.com/acme/keys")
    assert (corrected.sync().added, corrected.sync().skipped) == (1, {})
    # A repository of which nothing is shared yet is no other key's.
    assert not member("bob", repository="github.com/acme/nothing").sync().skipped


def test_the_server_holds_no_word_of_it(team: TeamDatabase, member: NewMember) -> None:
    """Neither text, author, key nor repository is in any table in readable form."""
    ann = member("ann", by="Ann Quokka", repository="github.com/acme/secretive")
    decide(ann.store, "We pay the walrus in herring", key="walrus")
    ann.sync()
    with team.admin() as admin:
        dump = ""
        for table in ("entry", "project", "reader", "login"):
            rows = admin.execute(
                f"SELECT t::text FROM xscore_team.{table} AS t".encode()
            ).fetchall()
            dump += "\n".join(str(row) for row in rows)
        contents = "SELECT coalesce(string_agg(encode(content, 'escape'), ''), '')"
        (stored,) = admin.execute(f"{contents} FROM xscore_team.entry".encode()).fetchone() or (
            "",
        )
    for word in ("walrus", "herring", "Quokka", "secretive"):
        assert word not in dump and word not in str(stored)


def test_personal_data_that_a_member_keeps_does_not_leave(member: NewMember) -> None:
    """What a user allows in their own store is redacted before it is sent."""
    ann, bob = member("ann"), member("bob")
    ann.store.settings = MemorySettings(allow_pii=True)
    kept = decide(ann.store, "Ask jane.doe@acme-pay.com about refunds").memory
    assert "jane.doe@" in kept.text
    ann.sync()
    bob.sync()
    (arrived,) = bob.texts()
    assert "about refunds" in arrived and "jane.doe@" not in arrived


def test_what_a_colleague_stated_is_not_changed_here(member: NewMember) -> None:
    """It would be said in their name, and be undone by their next change."""
    ann, bob = member("ann"), member("bob")
    decide(ann.store, "Discounts are rounded up")
    ann.sync()
    bob.sync()
    (identifier,) = of_team(bob.store)
    with pytest.raises(UsageError, match="Ann"):
        update_memory(bob.store, identifier, MemoryChange(text="Discounts are rounded down"))
    assert bob.texts() == {"Discounts are rounded up": "Ann"}


def test_pulling_all_again_changes_only_what_differs(member: NewMember) -> None:
    """What this store noted about a memory stays, and nothing is reported that did not happen."""
    files = {"rates.py": "RATE = 1\n\n\nVAT = 2\n"}
    ann, bob = member("ann", files=files), member("bob", files=files)
    cited = parse_citation(ann.store.root, "rates.py:1-1")
    decide(ann.store, "The rate is fixed", citations=[cited])
    ann.sync()
    bob.sync()
    (bob.store.root.path / "rates.py").write_text("RATE = 3\n\n\nVAT = 2\n")
    refresh_evidence(bob.store.connection, bob.store.root, now=bob.store.clock())
    done = bob.sync(everything=True)
    assert (done.added, done.changed, done.removed) == (0, 0, 0)
    (memory,) = memories_with_ids(bob.store.connection, of_team(bob.store))
    assert memory.status is MemoryStatus.STALE

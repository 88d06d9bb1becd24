"""Facts are kept once, superseded with their history, and go with the exchange that they quote."""

from pathlib import Path

import pytest

from tests.extensions.extraction.conftest import NOW, put_session
from tests.extensions.extraction.planted_dialogs import dialogs, plants
from tests.statements import decide
from xscore.extensions.extraction.keeping import Mode
from xscore.extensions.extraction.review import accept_fact, facts_to_review, reject_fact
from xscore.extensions.extraction.session_end import ReadSession, read_session, sessions_over
from xscore.extensions.learning.consolidate import consolidate
from xscore.extensions.privacy import erasure
from xscore.platform.clock import DAY_S
from xscore.platform.errors import NothingMatched
from xscore.records.memory import Kind, Layer, Memory, MemorySource, MemoryStatus
from xscore.store.composing import statement_text
from xscore.store.extracted_facts import note_session_over
from xscore.store.lookup import MemoryFilter, filter_memories
from xscore.store.near_duplicates import near_duplicates
from xscore.store.store import Store

REDIS = ("We decided to use Redis for the job queue because it survives restarts.", "Done.")


def facts(store: Store) -> list[Memory]:
    """Return the extracted facts, in any status."""
    everything = filter_memories(store, MemoryFilter(statuses=tuple(MemoryStatus)))
    return [memory for memory in everything if memory.details.quote]


def read(store: Store, thread: str, mode: Mode = "ask", *, now: float = NOW) -> ReadSession:
    """Read a session."""
    return read_session(store, thread, mode=mode, now=now)


def candidates(store: Store) -> set[str]:
    """Return the ids that a turn would judge."""
    rows = store.connection.execute("SELECT id FROM memory WHERE status IN ('active', 'stale')")
    return {identifier for (identifier,) in rows}


def test_a_fact_waits_with_its_quote(store: Store) -> None:
    """In `ask` it is no candidate; it has its quote, its exchange and 0.6."""
    (exchange,) = put_session(store, "s_1", [REDIS])
    assert len(read(store, "s_1").kept.new) == 1
    (fact,) = facts(store)
    assert fact.id not in candidates(store)
    assert fact.kind == Kind.DECISION
    assert fact.layer == Layer.GOVERNANCE
    assert fact.source == MemorySource.INFERRED
    assert fact.confidence == pytest.approx(0.6)
    assert fact.details.quote == REDIS[0]
    assert fact.details.quoted_in == exchange
    assert facts_to_review(store) == [fact]


def test_in_auto_a_fact_is_a_marked_candidate_and_a_preference_waits(store: Store) -> None:
    """A preference would reach all repositories, so that it waits in any mode."""
    put_session(store, "s_1", [REDIS, ("I prefer small commits.", "Understood.")])
    read(store, "s_1", "auto")
    decision, preference = sorted(facts(store), key=lambda fact: fact.kind)
    assert decision.details.review == "unreviewed"
    assert decision.id in candidates(store)
    assert preference.kind is Kind.PREFERENCE
    assert preference.status is MemoryStatus.ARCHIVED


def test_an_exchange_is_read_once(store: Store) -> None:
    """A second run finds nothing, whatever the clock says; a continued exchange is read again."""
    put_session(store, "s_1", [REDIS])
    read(store, "s_1")
    assert read(store, "s_1", now=NOW - 400 * DAY_S).exchanges == 0
    assert sessions_over(store, now=NOW) == []


def test_a_session_is_over_when_its_agent_says_so_or_after_an_hour(store: Store) -> None:
    """A clock that was set back does not keep it open for ever."""
    put_session(store, "s_1", [REDIS], at=NOW - 60)
    assert sessions_over(store, now=NOW) == []
    assert sessions_over(store, now=NOW + 3_601)
    assert sessions_over(store, now=NOW - 10 * DAY_S)
    note_session_over(store.connection, "s_1", now=NOW)
    assert [session.thread for session in sessions_over(store, now=NOW)] == ["s_1"]


def test_a_session_in_which_nothing_was_said_leaves_nothing(store: Store) -> None:
    """Agents are opened and closed again many times; none of it is noted for good."""
    put_session(store, "s_1", [REDIS], at=NOW - 60)
    for thread in ("s_1", "s_2", "s_3"):
        note_session_over(store.connection, thread, now=NOW)
    query = "SELECT key FROM meta WHERE key LIKE 'session_over:%'"
    assert store.connection.execute(query).fetchall() == [("session_over:s_1",)]
    read(store, "s_1")
    assert store.connection.execute(query).fetchall() == []


def test_repetition_in_another_session_is_believed_more(store: Store) -> None:
    """The user's word counts once a session; the agent's repetition does not."""
    put_session(store, "s_1", [REDIS, REDIS])
    read(store, "s_1")
    (fact,) = facts(store)
    assert fact.confidence == pytest.approx(0.6)
    assert fact.details.occurrences == 2
    put_session(store, "s_2", [("Go on.", REDIS[0])])
    read(store, "s_2")
    assert facts(store)[0].confidence == pytest.approx(0.6)
    put_session(store, "s_3", [REDIS])
    read(store, "s_3")
    (fact,) = facts(store)
    assert fact.confidence == pytest.approx(0.7)


def test_thirty_replays_leave_no_near_duplicates(store: Store) -> None:
    """The same sessions thirty times make no fact twice."""
    for replay in range(30):
        for dialog in dialogs(plants(38), size=19):
            thread = f"s_{replay}_{dialog.number}"
            put_session(store, thread, dialog.turns, at=NOW - (30 - replay) * DAY_S)
            read(store, thread)
    kept = {fact.id: statement_text(fact) for fact in facts(store)}
    assert len(kept) >= 25
    doubled = sum(len(group) - 1 for group in near_duplicates(kept))
    assert doubled <= 0.02 * len(kept)


def test_a_later_word_supersedes_what_was_inferred(store: Store) -> None:
    """The earlier fact stays, superseded; nothing that a person stated is touched."""
    put_session(store, "s_1", [REDIS])
    read(store, "s_1", "auto")
    later = "We decided to use Postgres for the job queue instead of Redis."
    put_session(store, "s_2", [(later, "Done.")])
    read(store, "s_2", "auto")
    by_text = {fact.text.split()[4]: fact for fact in facts(store)}
    assert by_text["Redis"].status is MemoryStatus.SUPERSEDED
    assert by_text["Postgres"].status is MemoryStatus.ACTIVE


def test_what_is_taken_back_in_a_later_session_is_superseded(store: Store) -> None:
    """It is superseded even where nothing takes its place, and while it waits."""
    put_session(store, "s_1", [REDIS])
    read(store, "s_1")
    put_session(store, "s_2", [("We no longer use the Redis queue.", "Understood.")])
    assert read(store, "s_2").kept.superseded == 1
    assert facts(store)[0].status is MemoryStatus.SUPERSEDED
    assert facts_to_review(store) == []


def test_nothing_inferred_replaces_what_a_person_stated(store: Store) -> None:
    """The fact waits without the key."""
    stated = decide(store, "Use SQS for the job queue", key="job_queue").memory
    put_session(store, "s_1", [REDIS])
    read(store, "s_1", "auto")
    assert stated.id in candidates(store)
    (fact,) = facts(store)
    assert fact.key == ""


def test_an_accepted_fact_is_stated_and_a_rejected_one_does_not_come_back(store: Store) -> None:
    """An edit changes its words before it is accepted."""
    put_session(store, "s_1", [REDIS, ("From now on name branches after tickets.", "Done.")])
    read(store, "s_1")
    by_kind = {fact.kind: fact.id for fact in facts(store)}
    accept_fact(store, by_kind[Kind.DECISION], now=NOW, text="Use Redis 7 for the job queue.")
    reject_fact(store, by_kind[Kind.CONVENTION], now=NOW)
    after = {fact.kind: fact for fact in facts(store)}
    accepted = after[Kind.DECISION]
    assert (accepted.status, accepted.source) == (MemoryStatus.ACTIVE, MemorySource.EXPLICIT)
    assert (accepted.confidence, accepted.details.review) == (1.0, "")
    assert statement_text(accepted) == "Use Redis 7 for the job queue."
    put_session(store, "s_2", [("From now on name branches after tickets.", "Done.")])
    assert read(store, "s_2").kept.refused == 1
    assert facts_to_review(store) == []
    with pytest.raises(NothingMatched):
        accept_fact(store, "m_00000000000000000000", now=NOW)


def test_a_rejected_fact_stays_rejected_when_its_row_is_erased(store: Store) -> None:
    """In the same words, and in others that say the same; what says the opposite is another
    fact."""
    put_session(store, "s_1", [("From now on name branches after tickets.", "Done.")])
    read(store, "s_1")
    (fact,) = facts(store)
    reject_fact(store, fact.id, now=NOW)
    erasure.erase_memories(store, [fact.id], now=NOW)
    assert facts(store) == []
    repetitions = [
        "From now on name branches after tickets.",
        "From now on name the branches after our tickets!",
    ]
    for number, words in enumerate(repetitions):
        put_session(store, f"s_2{number}", [(words, "Done.")])
        assert read(store, f"s_2{number}").kept.refused == 1
    put_session(store, "s_3", [("From now on never name branches after tickets.", "Done.")])
    assert len(read(store, "s_3").kept.new) == 1


def test_secrets_are_in_no_fact(store: Store) -> None:
    """What a session said is redacted before it is read."""
    token = "ghp_" + "a1B2" * 9
    put_session(
        store, "s_1", [(f"Remember that the deploy token is {token} for now.", "Done.")]
    )
    read(store, "s_1")
    assert all(token not in f"{fact.text}{fact.details.quote}" for fact in facts(store))


@pytest.mark.parametrize("mode", ["ask", "auto"])
def test_erasing_an_exchange_takes_its_facts(store: Store, mode: Mode) -> None:
    """What waits goes too, from both stores: no file holds a byte of it."""
    preference = "I prefer vexdunlap reports for reviews."
    (_, exchange, _) = put_session(
        store,
        "s_1",
        [
            ("Hello there, agent.", "Hello."),
            (f"We decided to use korvexine for caching. {preference}", "Done."),
            ("Thanks a lot.", "Welcome."),
        ],
    )
    read(store, "s_1", mode)
    assert {fact.kind for fact in facts(store)} == {Kind.DECISION, Kind.PREFERENCE}
    erasure.erase_memories(store, [exchange], now=NOW)
    assert facts(store) == []
    assert store.user_path is not None
    for database in (store.path, store.user_path):
        for file in database.parent.rglob("*"):
            if file.is_file():
                content = file.read_bytes()
                assert b"korvexine" not in content
                assert b"vexdunlap" not in content


def test_files_are_cited_where_they_are_here(store: Store) -> None:
    """A file that is named is noted; named lines make the fact stale when they change."""
    (Path(store.root.path) / "queue.py").write_text("a = 1\nb = 2\nc = 3\n")
    put_session(
        store,
        "s_1",
        [("From now on jobs are defined in queue.py:1-2 and not in gone.py.", "Understood.")],
    )
    read(store, "s_1")
    (fact,) = facts(store)
    assert fact.details.paths == ("queue.py",)


def test_what_nobody_reviews_expires(store: Store) -> None:
    """After 28 days a fact that waits is erased, and one that does not is archived."""
    put_session(store, "s_1", [REDIS])
    read(store, "s_1")
    put_session(store, "s_2", [("From now on name branches after tickets.", "Done.")])
    read(store, "s_2", "auto")
    consolidate(store, store.settings, now=NOW + 27 * DAY_S)
    assert len(facts(store)) == 2
    consolidate(store, store.settings, now=NOW + 60 * DAY_S)
    assert [(fact.kind, fact.status) for fact in facts(store)] == [
        (Kind.CONVENTION, MemoryStatus.ARCHIVED)
    ]

"""The later word ranks above the earlier, both say so, and nothing else moves."""

import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from xscore.pipeline.amendments import STEP, place_later_words
from xscore.platform.clock import DAY_S
from xscore.platform.database import transaction
from xscore.platform.hashing import integer_id
from xscore.records.judgment import ORDER_BOOSTS, Judgment, Origin, Ranked
from xscore.records.memory import (
    Kind,
    Layer,
    Memory,
    MemoryDetails,
    MemoryOrigin,
    MemorySource,
)
from xscore.store.fetched_pool import WithoutExchanges, fetch_pool
from xscore.store.memory_writer import make_memory, put_memories
from xscore.store.opening import connect_store
from xscore.store.worktrees import enter_worktree

OLD_RULE = (
    "Overage bills in blocks of fifty units, rounded up, with no free units: any overage bills at"
    " least one block. The quota is prorated by the day of the month."
)
NEW_RULE = (
    "Amendment to the overage policy: every account gets twenty-five free units before the blocks"
    " of fifty are rounded up. The quota stays prorated by the day of the month."
)
OTHER_RULE = (
    "Sessions end after an hour without a request, and a token is renewed at half time."
)


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A store that nothing was said in."""
    opened = connect_store(tmp_path / "memory.db")
    enter_worktree(opened)
    yield opened
    opened.close()


def said(
    text: str,
    *,
    day: int,
    kind: Kind = Kind.EXCHANGE,
    session: str = "",
    place: str = "",
) -> Memory:
    """Something that was said on a day."""
    layer = {Kind.EXCHANGE: Layer.SESSION, Kind.CONTEXT: Layer.PROJECT}.get(
        kind, Layer.GOVERNANCE
    )
    memory, _ = make_memory(
        layer=layer,
        kind=kind,
        title=text[:40],
        text=text,
        place=place,
        origin=MemoryOrigin.COMMIT if place else MemoryOrigin.STATED,
        ordinal=integer_id(text, str(day), session),
        details=MemoryDetails(session=session),
        source=MemorySource.INDEX if place else MemorySource.IMPORT,
        updated_at=float(day * DAY_S),
    )
    return memory


def placed(
    connection: sqlite3.Connection, scores: Mapping[str, float], *memories: Memory
) -> dict[str, Ranked]:
    """Store these memories, and return what changes of their ranking. scores: by the start of the
    text; the others have 0.5."""
    with transaction(connection):
        put_memories(connection, memories)
    pool = fetch_pool(connection, lambda: None, without=WithoutExchanges())
    texts = {memory.id: memory.text for memory in memories}
    ranked: list[Ranked] = []
    for candidate in pool.candidates:
        score = 0.5
        for start, of_start in scores.items():
            if texts[candidate.id].startswith(start):
                score = of_start
        judgment = Judgment(candidate.content_hash, score, "")
        ranked.append(Ranked(candidate, judgment, Origin.JUDGED, (), score))
    return place_later_words(ranked, [connection])


def test_a_chat_that_amends_stands_above_the_earlier_one(
    connection: sqlite3.Connection,
) -> None:
    """It takes the earlier one's score, that one follows, and both name each other."""
    old, new = said(OLD_RULE, day=1, session="a"), said(NEW_RULE, day=2, session="b")
    changed = placed(connection, {"Overage": 0.9, "Amendment": 0.2}, old, new)
    assert changed.keys() == {old.id, new.id}
    assert changed[new.id].score == 0.9
    assert 0.9 - 2 * STEP < changed[old.id].score < 0.9
    (amends,), (amended,) = changed[new.id].boosts, changed[old.id].boosts
    assert {amends.name, amended.name} == ORDER_BOOSTS
    assert amends.amount == pytest.approx(0.7)
    assert f"[{old.id}] of 1970-01-02" in amends.because
    assert f"[{new.id}]" in amended.because


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (OLD_RULE, OTHER_RULE),
        (OLD_RULE, f"Amendment to the session policy: {OTHER_RULE}"),
        (OLD_RULE, OLD_RULE.replace("fifty", "sixty")),
    ],
    ids=["another matter", "an amendment of another matter", "a chat that says much the same"],
)
def test_what_is_no_later_word_moves_nothing(
    connection: sqlite3.Connection, old: str, new: str
) -> None:
    """Words in common alone, or an amendment alone, are not enough."""
    assert placed(connection, {}, said(old, day=1), said(new, day=2)) == {}


def test_the_earlier_does_not_amend_the_later(connection: sqlite3.Connection) -> None:
    """Time decides which of two is the later one; of the same time neither is."""
    assert placed(connection, {}, said(NEW_RULE, day=1), said(OLD_RULE, day=2)) == {}
    assert placed(connection, {}, said(NEW_RULE, day=1), said(OLD_RULE, day=1)) == {}


def test_the_last_of_three_stands_first(connection: sqlite3.Connection) -> None:
    """A chain keeps its order, whatever the scores were."""
    last_rule = NEW_RULE.replace("twenty-five", "forty").replace(
        "Amendment", "Second amendment"
    )
    chain = [said(OLD_RULE, day=1), said(NEW_RULE, day=2), said(last_rule, day=3)]
    scores = {"Overage": 0.9, "Amendment": 0.8, "Second": 0.3}
    changed = placed(connection, scores, *chain)
    in_order = sorted(changed, key=lambda id_: -changed[id_].score)
    assert in_order == [memory.id for memory in reversed(chain)]
    assert len({entry.score for entry in changed.values()}) == 3


def test_a_chat_is_compared_whole(connection: sqlite3.Connection) -> None:
    """The exchange that says what holds is lifted, also where others of its chat share more
    words with the task, and all of the earlier chat ranks below it."""
    old = [
        said("How does overage_charge bill overage units?", day=1, session="a"),
        said(OLD_RULE, day=1, session="a"),
    ]
    new = [
        said("Customers with an overage of three units escalated", day=2, session="b"),
        said(NEW_RULE, day=2, session="b"),
    ]
    changed = placed(connection, {"Overage": 0.8, "Amendment": 0.05}, *old, *new)
    assert changed[new[1].id].score == 0.8
    assert new[0].id not in changed
    assert all(changed[memory.id].score < 0.8 for memory in old)


def test_a_revert_amends_the_commit_that_it_names(connection: sqlite3.Connection) -> None:
    """A citation is enough where the message changes something; a mention is not."""
    commit_hash = "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d"
    first = said("Round half cents up", day=1, kind=Kind.COMMIT, place=commit_hash)
    revert = said(
        f"Undo the rounding of invoices\n\nThis reverts commit {commit_hash}.",
        day=2,
        kind=Kind.COMMIT,
        place="f" * 40,
    )
    mention = said(
        f"Document the invoices of {commit_hash[:9]}", day=3, kind=Kind.COMMIT, place="e" * 40
    )
    changed = placed(connection, {"Round": 0.7}, first, revert, mention)
    assert changed.keys() == {first.id, revert.id}
    assert changed[revert.id].score == 0.7
    assert "commit 1a2b3c4 of 1970-01-02" in changed[revert.id].boosts[0].because


def test_a_decision_and_a_fact_follow_the_same_rule(connection: sqlite3.Connection) -> None:
    """Decisions amend chats, and two facts that differ in a value are not equals."""
    chat = said(OLD_RULE, day=1)
    decision = said(NEW_RULE, day=2, kind=Kind.DECISION)
    facts = [
        said(
            "Uploads of customers are limited to ten megabytes each", day=1, kind=Kind.CONTEXT
        ),
        said(
            "Uploads of customers are limited to fifty megabytes each", day=4, kind=Kind.CONTEXT
        ),
    ]
    changed = placed(connection, {}, chat, decision, *facts)
    assert changed[decision.id].score > changed[chat.id].score
    assert changed[facts[1].id].score > changed[facts[0].id].score


def test_what_nobody_would_be_shown_is_left_alone(connection: sqlite3.Connection) -> None:
    """A single memory has none to amend, and neither has an empty list."""
    assert placed(connection, {}) == {}
    assert placed(connection, {}, said(NEW_RULE, day=1)) == {}

"""Statements are stored once, under their key, with history and events."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import MakeRepo, git
from tests.statements import decide, facts, list_decisions, list_events, prefer, say
from tests.store.generated_secrets import ASSIGNMENTS, SECRET, SecretGenerator, provider_keys
from xscore.extensions.transfer.memory_lines import exported_memories
from xscore.platform.errors import NothingMatched, UsageError
from xscore.platform.paths import find_root
from xscore.records.memory import Citation, Kind, Layer, MemoryScope, MemorySource, MemoryStatus
from xscore.records.statement import (
    ALIAS_CHARS,
    LAYERS_BY_KIND,
    MOST_ALIASES,
    Statement,
    StatementEffect,
)
from xscore.settings import MemorySettings
from xscore.store.composing import memory_from_statement, merge_details, statement_text
from xscore.store.events import EventName
from xscore.store.lookup import MemoryFilter, filter_memories, memory_by_id
from xscore.store.memory_writer import DETAIL_CHARS, LINE_CHARS, STATEMENT_CHARS
from xscore.store.personal_data import redact_said
from xscore.store.remembering import MemoryChange, remember, update_memory
from xscore.store.store import Store


def happened(store: Store) -> Counter[str]:
    """Count the events of the repository's store by name."""
    return Counter(event.name.value for event in list_events(store.connection))


def test_a_decision_carries_its_author(make_repo: MakeRepo, own_home: Path) -> None:
    """H09: git's name or the given one; repeating does not change the author; view and export have
    it."""
    bo = "Bo <bo" + "@" + "corp-x.io>"
    root = make_repo({"a.py": "x = 1\n"})
    git(root, "config", "user.name", "Anna Arch")
    with Store.open(find_root(root), user_data_dir=own_home / "data") as store:
        by_git = decide(store, "we use tenacity").memory
        by_bo = remember(store, Statement(text="no ORM", kind=Kind.DECISION, author=bo)).memory
        repeated = remember(
            store, Statement(text="we use tenacity", kind=Kind.DECISION, author="Cy")
        ).memory
        context = remember(store, Statement(text="the CI runs on Fridays")).memory
        authors = [memory.details.author for memory in (by_git, by_bo, repeated, context)]
        assert authors == ["Anna Arch", "Bo <<PII:email>>", "Anna Arch", ""]
        view = store.connection.execute(
            "SELECT created_by FROM decisions ORDER BY created_by"
        ).fetchall()
        assert view == [("Anna Arch",), ("Bo <<PII:email>>",)]
        assert (
            update_memory(store, by_git.id, MemoryChange(author="Di")).memory.details.author
            == "Di"
        )
        exported = {
            memory.details.author for memory in exported_memories(store, MemoryFilter())
        }
        assert exported == {"Di", "Bo <<PII:email>>", ""}


def test_a_scope_stays_until_another_is_named(store: Store) -> None:
    """A02: the same words keep their scope; a key may hold one value in each scope."""
    wide = remember(
        store, Statement(text="use tabs", key="indent", scope=MemoryScope.WORKSPACE)
    )
    repeated = remember(store, Statement(text="use tabs", key="indent"))
    narrow = remember(store, Statement(text="use spaces", key="indent"))
    assert repeated.memory.id == wide.memory.id
    assert repeated.memory.scope == MemoryScope.WORKSPACE
    assert (narrow.memory.scope, narrow.superseded) == (MemoryScope.REPOSITORY, ())
    moved = remember(
        store, Statement(text="use tabs", key="indent", scope=MemoryScope.SESSION)
    ).memory
    assert (moved.id, moved.scope) == (wide.memory.id, MemoryScope.SESSION)


def test_a_decision_is_kept_with_its_reason_and_both_views_show_it(store: Store) -> None:
    """H24, A07: a decision is in governance; its judge sees rationale and alternatives; the views
    have it."""
    remembered = decide(
        store,
        "we use tenacity",
        because="it composes",
        alternatives=["backoff"],
        links=["https://example.org"],
        now=5.0,
    )
    memory = remembered.memory
    assert memory.layer == Layer.GOVERNANCE
    assert memory.kind == Kind.DECISION
    assert remembered.became == StatementEffect.STORED
    assert memory.text == "we use tenacity\n\nBecause: it composes\n\nInstead of: backoff"
    assert memory.details.links == ("https://example.org",)
    view = store.connection.execute(
        "SELECT id, rationale, alternatives_json, created_by FROM decisions"
    ).fetchall()
    assert view == [(memory.id, "it composes", '["backoff"]', "explicit")]
    facts = store.connection.execute("SELECT id, category FROM project_facts").fetchall()
    assert facts == [(memory.id, "decision")]
    assert list_decisions(store) == [memory]
    assert store.memories([memory.id]) == {memory.id: memory}
    assert [candidate.id for candidate in store.pool()] == [memory.id]


def test_the_same_words_twice_are_one_memory(store: Store) -> None:
    """A repetition adds evidence to the existing memory, even after a reason was added in
    between."""
    first = say(store, "tabs, never spaces", kind=Kind.CONVENTION, now=1.0)
    repeated = say(
        store, "  tabs, never spaces\n", kind=Kind.CONVENTION, because="the linter", now=2.0
    )
    third = say(store, "tabs, never spaces", kind=Kind.CONVENTION, now=3.0)
    assert first.memory.id == repeated.memory.id == third.memory.id
    assert (repeated.became, third.memory.evidence_count) == (StatementEffect.REPEATED, 3)
    assert third.memory.text == "tabs, never spaces\n\nBecause: the linter"
    assert (third.memory.created_at, third.memory.updated_at) == (1.0, 3.0)
    assert facts(store, Kind.CONVENTION) == [third.memory]
    assert happened(store) == {"memory.stored": 1, "memory.updated": 2}


def test_the_same_key_supersedes_and_saying_it_again_brings_it_back(store: Store) -> None:
    """One active memory for each key; the previous one is superseded, and reactivated when
    repeated."""
    old = decide(store, "retry with backoff", key="retry", now=1.0).memory
    new = decide(store, "retry with tenacity", key="retry", now=2.0)
    assert new.superseded == (old.id,)
    kept = memory_by_id(store, old.id)
    assert (kept.status, kept.superseded_by) == (MemoryStatus.SUPERSEDED, new.memory.id)
    assert list_decisions(store) == [new.memory]
    assert {decision.id for decision in list_decisions(store, superseded=True)} == {
        old.id,
        new.memory.id,
    }
    back = decide(store, "retry with backoff", key="retry", now=3.0)
    assert (back.memory.id, back.superseded) == (old.id, (new.memory.id,))
    assert [decision.id for decision in list_decisions(store)] == [old.id]


def test_an_update_keeps_the_id_and_is_judged_anew(store: Store) -> None:
    """A changed text is another content with the same id; unnamed fields stay."""
    before = decide(store, "use A", because="fast", key="k", importance=0.3, now=1.0).memory
    updated = update_memory(
        store, before.id, MemoryChange(text="use B", importance=0.9), now=2.0
    )
    after = memory_by_id(store, before.id)
    assert (updated.became, updated.memory) == (StatementEffect.UPDATED, after)
    assert after.text == "use B\n\nBecause: fast"
    assert after.title == "use B"
    assert (after.importance, after.created_at, after.updated_at) == (0.9, 1.0, 2.0)
    assert after.content_hash != before.content_hash
    renamed = update_memory(store, before.id, MemoryChange(title="Which one"), now=3.0).memory
    assert (renamed.title, renamed.content_hash) == ("Which one", after.content_hash)


def test_words_that_were_rewritten_can_be_said_anew(store: Store) -> None:
    """The id of words changed since is taken, so repeating them makes a new id."""
    first = say(store, "one", now=1.0).memory
    update_memory(store, first.id, MemoryChange(text="two"), now=2.0)
    restated = say(store, "one", now=3.0)
    assert (restated.became, restated.memory.id != first.id) == (StatementEffect.STORED, True)
    assert say(store, "two", now=4.0).memory.id == first.id
    assert say(store, "one", now=5.0).memory.id == restated.memory.id


def test_without_its_key_it_is_the_same_memory(store: Store) -> None:
    """P06: removing a key removes nothing else; a preference keeps its required key."""
    before = say(store, "use port 80", key="port", now=1.0).memory
    updated = update_memory(store, before.id, MemoryChange(key=""), now=2.0)
    assert (updated.memory.id, updated.memory.key, updated.superseded) == (before.id, "", ())
    assert memory_by_id(store, before.id).status is MemoryStatus.ACTIVE
    mine = prefer(store, "tone", "short", now=1.0).memory
    with pytest.raises(UsageError, match="needs a key"):
        update_memory(store, mine.id, MemoryChange(key=""), now=2.0)


def test_another_key_is_another_memory_that_supersedes(store: Store) -> None:
    """A memory whose key changes leaves its history behind; a first key does not."""
    plain = say(store, "port 8080", now=1.0).memory
    keyed = update_memory(store, plain.id, MemoryChange(key="port"), now=2.0).memory
    assert (keyed.id, keyed.key, keyed.entity) == (plain.id, "port", "port")
    moved = update_memory(store, plain.id, MemoryChange(key="http_port"), now=3.0)
    assert moved.memory.id != plain.id
    assert moved.superseded == (plain.id,)
    assert memory_by_id(store, plain.id).superseded_by == moved.memory.id


def test_no_secret_comes_in(store: Store) -> None:
    """P01: words, reasons, alternatives, titles, keys and links are redacted before ids are
    computed."""
    remembered = decide(
        store,
        f"key = '{SECRET}'",
        because=SECRET,
        alternatives=[SECRET],
        title=f"t {SECRET}",
        links=[SECRET],
        now=1.0,
    )
    assert SECRET not in repr(remembered.memory)
    assert remembered.redacted >= 5
    same = decide(store, f"key = '{SECRET[:-1]}A'", now=2.0)
    assert same.memory.id == remembered.memory.id
    update_memory(
        store,
        remembered.memory.id,
        MemoryChange(text=f"token {SECRET}", because=SECRET),
        now=3.0,
    )
    assert SECRET not in "".join(store.connection.iterdump())


def test_what_cannot_be_kept_is_refused(store: Store) -> None:
    """Each refusal has a remedy, and stores nothing."""
    cases = [
        (Statement(text="  \n"), "empty"),
        (Statement(text="x" * (STATEMENT_CHARS + 1)), "too many"),
        (Statement(text="x", because="y" * (DETAIL_CHARS + 1)), "too long"),
        (Statement(text="x", title="y" * (LINE_CHARS + 1)), "for a title"),
        (Statement(text="x", key="y" * (LINE_CHARS + 1)), "for a key"),
        (Statement(text="x", links=("y" * (LINE_CHARS + 1),)), "for a link"),
        (Statement(text="x", kind=Kind.FUNCTION), "cannot be stated"),
        (Statement(text="x", kind=Kind.DECISION, layer=Layer.PROJECT), "cannot be in"),
        (Statement(text="x", kind=Kind.PREFERENCE), "needs a key"),
    ]
    for statement, message in cases:
        with pytest.raises(UsageError, match=message) as refused:
            remember(store, statement, now=1.0)
        assert refused.value.hint
    with pytest.raises(UsageError, match="cannot cite"):
        remember(
            store,
            Statement(text="x", key="k", kind=Kind.PREFERENCE),
            citations=[Citation("a.py", 1, 2, "0" * 32)],
        )
    assert filter_memories(store, MemoryFilter()) == []


def test_a_prefix_is_refused_and_the_whole_ids_are_named(store: Store) -> None:
    """Ids are exact: even an unambiguous prefix is refused, with the full id as a hint."""
    memory = say(store, "x", now=1.0).memory
    with pytest.raises(NothingMatched) as refused:
        memory_by_id(store, memory.id[:-1])
    assert memory.id in refused.value.hint
    assert refused.value.exit_code == 1


def test_every_happening_is_told_once_and_without_words(store: Store) -> None:
    """A13: storing, superseding and deciding leave one event each; no payload contains text."""
    old = decide(store, "one thing", key="k", now=1.0).memory
    decide(store, "another thing", key="k", now=2.0)
    assert happened(store) == {"memory.stored": 2, "decision.recorded": 2, "memory.updated": 1}
    updates = [
        event
        for event in list_events(store.connection, subject=old.id)
        if event.name is EventName.UPDATED
    ]
    assert [list(event.payload) for event in updates] == [["superseded_by"]]
    assert "thing" not in repr(list_events(store.connection))


def test_the_users_layer_stays_in_the_users_store(store: Store) -> None:
    """P07: statements about the user are stored in their own store, apply everywhere, and share no
    content."""
    same = "prefer small functions"
    mine = remember(
        store, Statement(text=same, kind=Kind.CONVENTION, layer=Layer.USER, key="size"), now=1.0
    ).memory
    project_memory = remember(
        store, Statement(text=same, kind=Kind.CONVENTION, key="size"), now=1.0
    ).memory
    assert mine.scope is MemoryScope.GLOBAL
    assert mine.content_hash != project_memory.content_hash
    assert store.connection.execute("SELECT id FROM memory").fetchall() == [
        (project_memory.id,)
    ]
    assert {memory.id for memory in filter_memories(store, MemoryFilter())} == {
        mine.id,
        project_memory.id,
    }


def test_with_user_learning_off_the_users_store_is_never_opened(store: Store) -> None:
    """P07: reading or writing preferences is a UsageError with a hint, and no user file is made."""
    closed_to_us = MemorySettings(user_learning=False)
    user_dir = store.root.path / "someone"
    with Store.open(
        find_root(store.root.path), user_data_dir=user_dir, trust=True, settings=closed_to_us
    ) as closed:
        with pytest.raises(UsageError, match="layer is off") as refused:
            prefer(closed, "k", "v")
        assert refused.value.hint
        assert filter_memories(closed, MemoryFilter()) == []
        assert not (user_dir / "user.db").exists()


@settings(deadline=None)
@given(
    words=st.text(min_size=1, max_size=60).filter(lambda text: bool(text.strip())),
    because=st.text(max_size=20),
    alternatives=st.lists(st.text(max_size=10), max_size=3),
    kind=st.sampled_from([kind for kind in LAYERS_BY_KIND if kind is not Kind.PREFERENCE]),
)
def test_words_and_their_tail_come_apart_again(
    words: str, because: str, alternatives: list[str], kind: Kind
) -> None:
    """For any statement, its words are found in the text, and repeating it gives the same id."""
    statement = Statement(
        text=words, kind=kind, because=because, alternatives=tuple(alternatives), allow_pii=True
    )
    memory, redacted = memory_from_statement(statement, merge_details(statement), now=1.0)
    if not redacted:
        assert statement_text(memory) == words.strip().encode("utf-8", "replace").decode()
    assert (
        memory_from_statement(statement, merge_details(statement), now=9.0)[0].id == memory.id
    )
    assert memory.source is MemorySource.EXPLICIT


FORGE = SecretGenerator(17)
SECRETS = [
    *provider_keys(FORGE).values(),
    *(form.format(FORGE.password()) for form in ASSIGNMENTS),
]
PARTS = st.one_of(
    st.sampled_from([*SECRETS, "vault", "password=", "token:", "me@example.org"]),
    st.text(max_size=9),
)


@settings(deadline=None)
@given(
    words=PARTS.filter(lambda text: bool(text.strip())),
    because=PARTS,
    alternatives=st.lists(PARTS, max_size=3),
)
def test_no_secret_hides_behind_its_neighbour(
    words: str, because: str, alternatives: list[str]
) -> None:
    """P01: parts are redacted separately and together; the words can be separated again."""
    statement = Statement(
        text=words, kind=Kind.DECISION, because=because, alternatives=tuple(alternatives)
    )
    memory, _ = memory_from_statement(statement, merge_details(statement), now=1.0)
    particulars = memory.details
    parts = (memory.text, particulars.rationale, *particulars.alternatives)
    assert [part for part in parts if redact_said(part).text != part] == []
    for part in statement.text, statement.because, *statement.alternatives:
        lone = redact_said(part.strip()).text
        assert lone == part.strip() or part.strip() not in memory.text
    if memory.details.rationale or memory.details.alternatives:
        assert (
            statement_text(memory)
            == redact_said(words.strip().encode("utf-8", "replace").decode()).text
        )


def test_a_password_before_a_semicolon_is_taken_out(store: Store) -> None:
    """P01: joining alternatives does not make a password look like code."""
    remembered = decide(
        store, "the store", alternatives=["password=hunter2hunter2", "vault"], now=1.0
    )
    assert "hunter2" not in "".join(store.connection.iterdump())
    assert remembered.redacted == 1
    assert statement_text(remembered.memory) == "the store"
    update_memory(
        store,
        remembered.memory.id,
        MemoryChange(alternatives=("password=hunter3hunter3", "vault")),
        now=2.0,
    )
    assert "hunter3" not in "".join(store.connection.iterdump())


def test_aliases_are_names_kept_once_and_bounded(store: Store) -> None:
    """An alias is on one line, once in any case, in the text that a judge reads; stating again
    adds, an update replaces, an empty one clears."""
    aliases = ("DLQ", " dead\n letter ")
    stated = say(store, "Failed jobs wait in a table.", key="queue", aliases=aliases)
    assert stated.memory.details.aliases == ("DLQ", "dead letter")
    assert "Also called: DLQ; dead letter" in stated.memory.text
    repeated = say(store, "Failed jobs wait in a table.", aliases=("dlq", "jobs"))
    assert repeated.memory.details.aliases == ("DLQ", "dead letter", "jobs")
    changed = update_memory(store, stated.memory.id, MemoryChange(aliases=("retry table",)))
    assert changed.memory.details.aliases == ("retry table",)
    assert statement_text(changed.memory) == "Failed jobs wait in a table."
    cleared = update_memory(store, stated.memory.id, MemoryChange(aliases=("",)))
    assert cleared.memory.text == "Failed jobs wait in a table."
    with pytest.raises(UsageError):
        say(store, "x", aliases=("a" * (ALIAS_CHARS + 1),))
    with pytest.raises(UsageError):
        say(store, "x", aliases=tuple(map(str, range(MOST_ALIASES + 1))))


def test_a_secret_in_an_alias_is_taken_out(store: Store) -> None:
    """P01: neither the record nor the text nor an export keeps it."""
    stated = say(store, "The key of CI.", key="ci", aliases=("CI", SECRET))
    assert stated.redacted >= 1
    memory = memory_by_id(store, stated.memory.id)
    assert SECRET not in memory.text and SECRET not in "".join(memory.details.aliases)
    (line,) = exported_memories(store, MemoryFilter())
    assert SECRET not in repr(line) and "CI" in line.details.aliases

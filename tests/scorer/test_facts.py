"""Short stated facts: the one that is named, in any form, and silence otherwise."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import MakeRepo, git
from tests.statements import decide, prefer, say
from xscore.indexer.index import index_repository
from xscore.pipeline.build import Pipeline
from xscore.platform.paths import find_root
from xscore.records.judgment import Judgment
from xscore.records.memory import MOST_FACT_TOKENS, Kind, MemoryScope, MemorySource
from xscore.records.turn import Turn
from xscore.scorer.facts import slips
from xscore.scorer.lexical import LexicalJudge
from xscore.settings import (
    IndexSettings,
    JudgeSettings,
    SelectionSettings,
    Settings,
    StoreSettings,
)
from xscore.store.store import Store

CUT = SelectionSettings().lexical_facts_threshold


@pytest.fixture
def facts(store: Store) -> dict[str, str]:
    """State six facts; return the name of each by its id."""
    stated = {
        "queue": say(
            store,
            "Failed jobs go to a table and are replayed by hand.",
            key="dead_letter_queue",
            aliases=("DLQ", "failed jobs"),
        ),
        "cache": say(
            store, "One Valkey node caches sessions.", key="cache", aliases=("Valkey",)
        ),
        "editor": prefer(store, "text_editor", "Helix, with relative line numbers."),
        "release": say(store, "Releases leave from the branch `stable` on Tuesdays."),
        "loops": say(
            store,
            "Data is transformed by composed functions.",
            key="functional_style",
            aliases=("point of view of data", "pipelines"),
        ),
        "money": decide(
            store, "Amounts are integers of the smallest unit.", key="money_amounts"
        ),
    }
    return {remembered.memory.id: name for name, remembered in stated.items()}


def judged(store: Store, task: str) -> dict[str, Judgment]:
    """Judge a store's pool by words; judgments by id."""
    pool = store.pool()
    judge = LexicalJudge(store.term_vectors)
    judgments = judge.judge_all(Turn(task=task), pool)
    return {candidate.id: judgment for candidate, judgment in zip(pool, judgments, strict=True)}


def passing(store: Store, facts: dict[str, str], task: str) -> set[str]:
    """Return the names of the facts that reach their threshold."""
    judgments = judged(store, task)
    return {name for id_, name in facts.items() if judgments[id_].score >= CUT}


@pytest.mark.parametrize(
    ("task", "names"),
    [
        ("how do we replay things from the DLQ?", {"queue"}),
        ("what happens to a failed job?", {"queue"}),
        ("where does the dead letter queue live?", {"queue"}),
        ("which text editor is set up here?", {"editor"}),
        ("should the pipeline be rewritten with a loop?", {"loops"}),
        ("from which branch do releases leave?", {"release"}),
        ("is a money amount rounded?", {"money"}),
        (
            "Given the DLQ and Valkey, how do pipelines report to our editor?",
            {"queue", "cache"},
        ),
        ("think about observability and dashboards", set()),
        ("add a flag to the parser of the command line", set()),
        ("", set()),
    ],
)
def test_the_fact_that_is_named_passes_alone(
    store: Store, facts: dict[str, str], task: str, names: set[str]
) -> None:
    """A key or an alias in any inflection is enough, and a fact's own words where they answer most
    of the question; one shared word is not."""
    passing_names = passing(store, facts, task)
    assert passing_names >= names
    assert len(passing_names - names) <= ("pipelines" in task)


def test_the_whole_alias_counts_and_not_one_word_of_it(
    store: Store, facts: dict[str, str]
) -> None:
    """`point of view of data` names its fact; `point` and `view` alone name nothing."""
    assert passing(store, facts, "what is our point of view of data in reports?") == {"loops"}
    assert passing(store, facts, "render the view at this point of the template") == set()


def test_a_slip_of_the_keyboard_names_the_fact_and_the_reason_says_so(
    store: Store, facts: dict[str, str]
) -> None:
    """Two letters swapped name it, with a lower score than the name itself."""
    mistyped = judged(store, "does Vlakey evict old entries?")
    right = judged(store, "does Valkey evict old entries?")
    (cache,) = [id_ for id_, name in facts.items() if name == "cache"]
    assert CUT <= mistyped[cache].score < right[cache].score
    assert "vlakey" in mistyped[cache].reason
    assert passing(store, facts, "does Velcro hold old entries?") == set()


def test_no_slip_is_looked_for_in_a_word_that_the_code_has(
    make_repo: MakeRepo, user_dir: Path
) -> None:
    """`listing`, which is a function here, is not a mistyped `linting`."""
    root = find_root(make_repo({"a.py": "def listing():\n    return []\n"}))
    with Store.open(root, user_data_dir=user_dir) as store:
        linter = say(store, "Biome formats too.", key="tools", aliases=("linting",)).memory.id
        assert judged(store, "sort the listing by age")[linter].score >= CUT
        index_repository(store.connection, store.root, IndexSettings(git=False), now=1e9)
        assert judged(store, "sort the listing by age")[linter].score < CUT


def test_a_word_that_a_name_explains_says_little_of_other_facts(store: Store) -> None:
    """A fact that only mentions what another one is called does not pass with it."""
    named = say(store, "Sessions are cached here.", key="valkey_cache", aliases=("Valkey",))
    mention = say(store, "If Valkey is down, logins fail.", key="login_outage")
    scores = judged(store, "what is Valkey doing?")
    assert scores[named.memory.id].score >= CUT > scores[mention.memory.id].score


def test_an_inferred_fact_is_not_found_by_one_word_of_its_text(store: Store) -> None:
    """A command that a Makefile shows shares `flags` with a question about flags; two words, its
    name, or a statement of the same words are enough."""
    text = "Tests are run with `make test`, which runs `go test $(GO_TEST_FLAGS) ./...`."
    inferred = say(store, text, source=MemorySource.INFERRED, key="test_command").memory.id

    def score(task: str) -> float:
        return judged(store, task)[inferred].score

    assert score("what happens to a flag?") < CUT
    assert score("which flags does go get?") >= CUT
    assert score("what is the test command?") >= CUT
    stated = say(store, "Parsers reject duplicate flags.").memory.id
    assert judged(store, "what happens to a flag?")[stated].score >= CUT


def test_a_long_statement_is_judged_as_a_document(store: Store) -> None:
    """Beyond `MOST_FACT_TOKENS` a statement is no fact; at most that long it is."""
    say(store, "word " * MOST_FACT_TOKENS * 4, kind=Kind.ARCHITECTURE)
    say(store, "short", kind=Kind.ARCHITECTURE)
    assert sorted(candidate.is_fact for candidate in store.pool()) == [False, True]


@given(st.text("abcdefgh", min_size=2, max_size=9), st.data())
def test_every_slip_is_taken_back(word: str, data: st.DataObject) -> None:
    """A letter left out, doubled, wrong or swapped after the first: the word is among its slips."""
    at = data.draw(st.integers(1, len(word) - 1))
    head, tail = word[:at], word[at:]
    wrong = [head + tail[1:], head + "z" + tail[1:], head + head[-1] + tail]
    if len(tail) > 1:
        wrong.append(head + tail[1] + tail[0] + tail[2:])
    for mistyped in wrong:
        assert mistyped == word or word in set(slips(mistyped))
    assert len(list(slips(word))) < 60 * len(word)


async def shown(root: Path, user_dir: Path, task: str, **selection: float) -> list[str]:
    """Return the ids of what a question by words alone selects."""
    settings = Settings(
        judge=JudgeSettings(model="lexical"),
        selection=SelectionSettings(**selection),  # type: ignore[arg-type]  # thresholds
        index=IndexSettings(git=False),
        store=StoreSettings(user_data_dir=user_dir),
    )
    async with Pipeline.open(root, settings) as pipeline:
        answer = await pipeline.context(Turn(task=task))
    return [entry.id for entry in answer.selected]


async def test_scopes_are_respected(make_repo: MakeRepo, tmp_path: Path) -> None:
    """A fact of one repository is not shown in another, one of a user nowhere to another user; the
    user's own are shown everywhere, and what was replaced nowhere."""
    roots = [make_repo({"a.py": "x = 1\n"}), tmp_path / "other", tmp_path / "of bo"]
    roots[1].mkdir()
    roots[2].mkdir()
    users = [tmp_path / "anna", tmp_path / "bo"]
    with Store.open(find_root(roots[0]), user_data_dir=users[0]) as store:
        old = say(store, "We queue on disk.", key="queue", aliases=("broker",)).memory.id
        new = say(store, "We queue in Kafka.", key="queue", aliases=("broker",)).memory.id
        preference = prefer(
            store, "broker_habit", "Names brokers by city.", aliases=("broker",)
        )
    shown_ids = await shown(roots[0], users[0], "which broker?")
    assert set(shown_ids) == {new, preference.memory.id} and old not in shown_ids
    assert await shown(roots[1], users[0], "which broker?") == [preference.memory.id]
    assert await shown(roots[2], users[1], "which broker?") == []


async def test_what_was_stated_for_a_session_stays_in_it(
    make_repo: MakeRepo, user_dir: Path
) -> None:
    """It is a candidate in the session of its branch alone, until that is closed; what was stated
    for the repository is one on every branch."""
    root = make_repo({"a.py": "x = 1\n"})
    with Store.open(find_root(root), user_data_dir=user_dir) as store:
        brief = say(
            store, "Kafka is off today.", scope=MemoryScope.SESSION, aliases=("broker",)
        )
        lasting = say(store, "We queue in Kafka.", key="queue", aliases=("broker",))
    both = {brief.memory.id, lasting.memory.id}
    assert set(await shown(root, user_dir, "which broker?")) == both
    git(root, "switch", "-q", "-c", "other")
    assert await shown(root, user_dir, "which broker?") == [lasting.memory.id]
    git(root, "switch", "-q", "-")
    assert set(await shown(root, user_dir, "which broker?")) == both
    with Store.open(find_root(root), user_data_dir=user_dir) as store:
        widened = say(store, "Kafka is off today.", scope=MemoryScope.REPOSITORY)
        assert widened.memory.id == brief.memory.id
    git(root, "switch", "-q", "other")
    assert set(await shown(root, user_dir, "which broker?")) == both


async def test_facts_have_a_threshold_of_their_own(make_repo: MakeRepo, user_dir: Path) -> None:
    """`selection.lexical_facts_threshold` decides for facts alone, and a fact below it fills no
    place."""
    root = make_repo({"queue.py": "def broker():\n    return 'kafka'\n"})
    with Store.open(find_root(root), user_data_dir=user_dir) as store:
        fact = say(store, "We queue in Kafka.", key="queue", aliases=("broker",)).memory.id
    usual = await shown(root, user_dir, "broker")
    strict = await shown(root, user_dir, "broker", lexical_facts_threshold=1.0)
    assert fact in usual
    assert set(usual) - set(strict) == {fact} and strict

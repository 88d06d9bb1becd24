"""The lexical judge: relevant memories first, nothing for nonsense, and a scale of its own."""

import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scorer.lexical_pool import made, scores
from xscore.indexer.index import index_repository
from xscore.platform.paths import find_root
from xscore.records.candidates import Candidate
from xscore.records.judgment import FILL, Judgment
from xscore.records.memory import Kind
from xscore.records.turn import Turn
from xscore.scorer.lexical import LexicalJudge
from xscore.settings import IndexSettings, SelectionSettings
from xscore.store.store import Store
from xscore.store.term_vectors import term_vector

THRESHOLD = SelectionSettings().lexical_threshold
NONSENSE = Path(__file__).parents[2] / "benchmarks" / "lexical_nonsense.csv"
"""A data file, so that no index of this repository contains the questions."""
SENSIBLE = {
    "how are shell completions generated for bash?": "shell_completion.py",
    "prompt the user for a password with hidden input": "termui.py",
    "render a progress bar with the estimated time left": "_termui_impl.py",
    "strip ANSI escape codes when the output is not a terminal": "_compat.py",
    "wrap paragraphs of help text to the terminal width": "formatting.py",
    "where are environment variables consulted for an option?": "core.py",
}


@pytest.fixture(scope="module")
def click_tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Index the installed source of click."""
    place = tmp_path_factory.mktemp("lexical")
    shutil.copytree(
        Path(click.__file__).parent,
        place / "tree" / "click",
        ignore=shutil.ignore_patterns("*.pyc"),
    )
    with Store.open(find_root(place / "tree"), user_data_dir=place / "user") as store:
        index_repository(
            store.connection, store.root, IndexSettings(git=False), now=time.time()
        )
        yield store


def ask(store: Store, task: str, errors: str = "") -> list[tuple[Candidate, Judgment]]:
    """Judge a store's pool, best first."""
    pool = store.pool()
    by_content = {candidate.content_hash: candidate for candidate in pool}
    judge = LexicalJudge(store.term_vectors, links=store.edges_touching)
    return [
        (by_content[j.content_hash], j)
        for j in judge.judgments(Turn(task=task, errors=errors), pool)
    ]


def test_nonsense_keeps_nothing(click_tree: Store) -> None:
    """An unrelated question stays below the threshold, and below where boosts begin, on a real
    tree."""
    questions = NONSENSE.read_text("utf-8").splitlines()
    best = {question: ask(click_tree, question)[0][1].score for question in questions}
    assert len(best) == 50
    least = FILL.share * THRESHOLD
    assert {question: score for question, score in best.items() if score >= least} == {}


@pytest.mark.parametrize(("question", "file"), SENSIBLE.items())
def test_sensible_questions_keep_the_right_file(
    click_tree: Store, question: str, file: str
) -> None:
    """A question about the code keeps a few memories, with the right file's among the first
    five."""
    ranked = ask(click_tree, question)
    assert any(candidate.path.endswith(file) for candidate, _ in ranked[:5])
    assert ranked[0][1].score >= THRESHOLD
    assert sum(judgment.score >= THRESHOLD for _, judgment in ranked) < len(ranked) / 10


def test_a_block_is_found_by_the_values_it_defines_and_not_by_its_made_up_name() -> None:
    """`module:after Cart` matches neither `module` nor `Cart`; the block that defines `MOST_CARTS`
    is named by it."""
    candidates, vectors = made(
        ("module:after Cart.total", "register(1)"), ("module:imports", "MOST_CARTS = 3")
    )
    values = term_vector(
        "MOST_CARTS = 3", path="m1.py", entity="module:imports", defines=["MOST_CARTS", "few"]
    )
    pool = candidates, [vectors[0], ("m1", values)]
    assert scores(pool, "module total after cart")["m0"] == 0
    judge = LexicalJudge(lambda: pool[1])
    best = next(judge.judgments(Turn(task="why is MOST_CARTS three?"), candidates))
    assert best.content_hash == "c1" and best.reason.startswith(
        "task names `MOST_CARTS`; name matches carts"
    )


def test_an_everyday_word_that_the_code_lacks_changes_nothing() -> None:
    """`What happens`, where nothing happens, asks no more than the rest of the question; an unknown
    noun does."""
    pool = made(
        ("open_lid", "open the lid of the jar"),
        ("close_lid", "close the lid"),
        ("fill", "pour water"),
    )
    plain = scores(pool, "open the jar lid")
    assert scores(pool, "what happens when many try to open the jar lid?") == plain
    assert scores(pool, "how is it decided to open the jar lid?") == plain
    assert max(scores(pool, "open the jar lid with a giraffe").values()) < max(plain.values())


def test_an_everyday_word_in_a_name_is_weak_evidence() -> None:
    """`How long is the delay of a failed job?` is about failed jobs, not about what has `long` in
    its name."""
    other_jobs = [(f"job{number}", "a job in the queue") for number in range(20)]
    pool = made(("long_job", "runs"), ("delay", "of a failed job"), *other_jobs)
    by_id = scores(pool, "how long is the delay of a failed job?")
    assert max(4 * by_id["m0"], THRESHOLD) < by_id["m1"]


def test_a_compound_word_of_the_task_is_one_word() -> None:
    """The name `toClickHouseArray` shares one word with a task that says ClickHouse, not three."""
    unrelated = [(f"other{number}", "something else altogether") for number in range(20)]
    pool = made(
        ("toClickHouseArray", "return rows"),
        ("query", "bounce = count of ClickHouse rows"),
        *unrelated,
    )
    by_id = scores(pool, "why is the bounce rate wrong in ClickHouse?")
    assert max(by_id["m0"], THRESHOLD) < by_id["m1"]


def test_documents_count_in_full_where_there_is_no_code() -> None:
    """In a tree of documents alone they repeat the words of no code."""
    candidates, vectors = made(("Pause", "pause the queue"), ("Start", "start the queue"))
    documents = [candidate._replace(kind=Kind.DOC) for candidate in candidates]
    with_code = [*documents, *made(("f", "x"), ("g", "y"), ("h", "z"))[0][2:]]
    alone = scores((documents, vectors), "pause the queue")["m0"]
    assert alone > THRESHOLD
    assert alone > scores((with_code, vectors), "pause the queue")["m0"]


def test_a_named_entity_comes_first(click_tree: Store) -> None:
    """A task that names `Context.invoke` ranks it first, with that reason."""
    (candidate, judgment), *_ = ask(
        click_tree, "`Context.invoke` should pass on the defaults of other parameters"
    )
    assert candidate.entity == "Context.invoke"
    assert "task names `Context.invoke`" in judgment.reason


def test_a_stack_frame_is_strong_evidence(click_tree: Store) -> None:
    """A function in the error's stack trace is kept (X23)."""
    target = next(c for c in click_tree.pool() if c.entity == "Option.prompt_for_value")
    trace = (
        f'  File "/x/site-packages/{target.path}", line {target.start_line + 3}, in'
        " prompt_for_value\nValueError: no"
    )
    (candidate, judgment), *_ = ask(click_tree, "it crashes", trace)
    assert candidate.id == target.id and judgment.score >= THRESHOLD


def test_reasons_name_the_evidence(click_tree: Store) -> None:
    """A reason lists which words matched, and where."""
    (_, judgment), *_ = ask(click_tree, "render a progress bar with the estimated time left")
    assert "matches" in judgment.reason and "progress" in judgment.reason


def test_a_reason_names_a_compound_word_once() -> None:
    """`JavaScript` is one word of the task; `script` is another where the task says it too."""
    pool = made(("run", "JavaScript"), ("stop", "a jar"))
    judge = LexicalJudge(lambda: pool[1], reasons_from=0.0)
    best = next(judge.judgments(Turn(task="which JavaScript is run?"), pool[0]))
    assert best.reason == "name matches run; text mentions JavaScript"
    best = next(judge.judgments(Turn(task="run the JavaScript script"), pool[0]))
    assert best.reason == "name matches run; text mentions script, JavaScript"
    pool = made(("makeRequests", "send"), ("stop", "a jar"))
    best = next(judge.judgments(Turn(task="make requests"), pool[0]))
    assert best.reason == "name matches make, requests"


WORDS = st.sampled_from(
    [
        "read",
        "write",
        "cache",
        "pack",
        "turn",
        "judge",
        "42",
        "été",
        "_x",
        "fooBar",
        "`a.b`",
        "x.py:3",
    ]
)
TEXTS = st.lists(WORDS, max_size=12).map(" ".join)


@given(st.lists(st.tuples(TEXTS, TEXTS), max_size=8), TEXTS)
def test_scores_lie_between_0_and_1(texts: Sequence[tuple[str, str]], task: str) -> None:
    """Any pool and any task give finite scores in 0..1 (X06)."""
    assert all(0 <= score <= 1 for score in scores(made(*texts), task).values())


@given(st.lists(WORDS, min_size=1, max_size=6, unique=True), st.data())
def test_more_evidence_scores_no_less(words: list[str], data: st.DataObject) -> None:
    """Of two memories of the same length, the one with more of the task's words scores at least as
    high."""
    fewer = data.draw(st.integers(0, len(words)))
    texts = [words[:count] + ["filler"] * (len(words) - count) for count in (fewer, len(words))]
    poorer, richer = scores(
        made(("f", " ".join(texts[0])), ("g", " ".join(texts[1]))), " ".join(words)
    ).values()
    assert richer >= poorer - 1e-9


@settings(max_examples=25)
@given(st.text(alphabet="abcdefghij ", max_size=200))
def test_an_unrelated_memory_pushes_nobody_out(text: str) -> None:
    """A memory above the threshold stays there when an unrelated one is added."""
    texts = [
        (
            "commit_judgments",
            "def commit_judgments(cache):\n    write every judgment to the cache",
        )
    ]
    texts += [(f"other{n}", f"def other{n}():\n    return {n} + sideways") for n in range(20)]
    task = "where are judgments written to the cache?"
    before, after = (
        scores(made(*texts), task),
        scores(made(*texts, ("unrelated", f"zz {text}")), task),
    )
    assert before["m0"] >= THRESHOLD
    assert after["m0"] >= THRESHOLD


def test_a_window_of_text_counts_like_a_function() -> None:
    """Code in a language without a grammar is text; its score is not halved for that."""
    candidates, vectors = made(
        ("f", "parse the header of a frame"), ("g", "parse the header of a frame")
    )
    candidates[1] = candidates[1]._replace(kind=Kind.TEXT, path=candidates[0].path)
    candidates[0] = candidates[0]._replace(kind=Kind.METHOD)
    as_code, as_text = scores(
        (candidates, vectors), "where is the header of a frame parsed?"
    ).values()
    assert as_text == pytest.approx(as_code)

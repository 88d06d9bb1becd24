"""What the lexical judge takes as the question, and how much of it has to be held here."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.scorer.lexical_pool import made, scores
from xscore.records.candidates import TERM_ENTRY
from xscore.records.judgment import FILL, UNRELATED_WORDS_BELOW
from xscore.records.memory import Kind
from xscore.records.turn import Turn
from xscore.scorer.lexical import LexicalJudge, lexical_priors
from xscore.scorer.scored_pool import is_about_pool, why_less
from xscore.scorer.term_hits import entries_of, sum_of
from xscore.scorer.weighed_pool import WeighedPool
from xscore.settings import SelectionSettings

THRESHOLD = SelectionSettings().lexical_threshold


def test_a_task_without_words_scores_nothing() -> None:
    """A task of punctuation keeps nothing and fails nothing; nor does an empty pool."""
    pool = made(("f", "def f(): ..."))
    assert scores(pool, "??? !!!") == {"m0": 0.0}
    assert scores(made(), "write the cache") == {}


def test_the_frame_of_a_question_is_no_evidence() -> None:
    """In `how does X work?` the word work is ignored; elsewhere it counts like any other."""
    pool = made(
        ("set_working_dir", "change the folder"),
        ("read_flags", "the flags"),
        ("steal", "take their work"),
    )
    for question in (
        "how does it work?",
        "explain how that works",
        "how does this work when\n",
    ):
        assert set(scores(pool, question).values()) == {0.0}, question
    assert scores(pool, "how does a thread steal work from others?")["m2"] > 0
    assert scores(pool, "split the work")["m2"] > 0


def test_lines_about_tests_and_lint_alone_say_nothing() -> None:
    """Further lines that only ask for tests, a changelog or lint change no score; a line with a
    subject does, and so does upkeep that comes first."""
    pool = made(
        ("rework_cache", "rework the handling of the line cache"),
        ("lint", "lint all files, add a changelog"),
        ("split_docs", "split the docs"),
    )
    task = "Rework linecache handling"
    plain = scores(pool, task)
    upkeep = "\n\n* lint\n* Add changelog\n- fix the tests\n"
    assert scores(pool, task + upkeep) == plain
    assert scores(pool, f"{task}\n* split docs")["m2"] > plain["m2"] == 0
    assert scores(pool, "Fix lint\n* add changelog")["m1"] > 0


def test_an_option_is_its_name_in_code() -> None:
    """`--no-ignore` finds `no_ignore` before text that only says `ignore`."""
    by_id = scores(
        made(("f", "if opts.no_ignore: pass"), ("g", "if opts.to_ignore: pass")),
        "what is --no-ignore for?",
    )
    assert by_id["m0"] > 2 * by_id["m1"] > 0


def test_the_name_of_the_repository_says_nothing() -> None:
    """The repository's own name is no evidence in any field; a task of nothing else still finds
    something."""
    candidates, vectors = made(
        ("skip_ignored", "skip what gitignore matches"), ("fd", "fd 1"), ("fd > Help", "fd")
    )
    task = "why does fd skip files of .gitignore?"
    plain = scores((candidates, vectors), task)
    titled = [
        candidate._replace(path="README.md") if number else candidate
        for number, candidate in enumerate(candidates)
    ]
    named = scores((titled, vectors), task)
    assert named["m1"] == 0 < plain["m1"]
    assert named["m0"] > plain["m0"]
    assert scores((titled, vectors), "fd")["m1"] > 0


def test_tests_of_what_is_named_count_in_full() -> None:
    """A task that names a file or symbol gives its tests full weight, by their file's name or by
    the graph."""
    candidates, vectors = made(
        ("split_rows", "split the rows"), ("test_split", "split the rows"), ("other", "x")
    )
    candidates[0] = candidates[0]._replace(path="app/rows.py")
    test = candidates[1] = candidates[1]._replace(kind=Kind.TEST, path="tests/test_rows.py")

    def of_test(task: str, judge: LexicalJudge) -> float:
        judged = {
            candidate.content_hash: candidate.score
            for candidate in judge.judgments(Turn(task=task), candidates)
        }
        return judged[test.content_hash]

    named = "split the rows in app/rows.py"
    by_file = of_test(named, LexicalJudge(lambda: vectors))
    candidates[1] = candidates[1]._replace(path="tests/test_elsewhere.py")
    elsewhere = of_test(named, LexicalJudge(lambda: vectors))
    linked = of_test(named, LexicalJudge(lambda: vectors, tests_of=lambda _ids: [test.id]))
    assert linked > elsewhere > 0 and by_file > elsewhere


def test_a_question_about_what_is_nowhere_keeps_less() -> None:
    """One of four words in common is not enough for a question; an instruction names what its
    author has seen."""
    texts = [(f"f{at}", f"word{at} and some more text") for at in range(60)]
    pool = made(
        *texts,
        ("Rule.refresh", "refresh the rule"),
        ("oauth_doc", "oauth"),
        ("token_doc", "token"),
    )
    as_question = scores(pool, "where is the oauth token refreshed?")["m60"]
    as_order = scores(pool, "the oauth token must be refreshed in time")["m60"]
    assert as_question < THRESHOLD and as_question < as_order


def test_a_question_counts_where_the_best_memories_hold_enough_of_it() -> None:
    """Words of a question that are apart, one here and one there, are no answer to it; the
    reason says so."""
    unrelated = [(f"f{at}", f"word{at} and some more text") for at in range(300)]
    question = "how does it cache parsed options to disk?"
    apart = made(
        *unrelated,
        ("parse_args", "parse it"),
        ("cache_page", "cache a page"),
        ("free_disk", "a disk"),
    )
    together = made(
        *unrelated,
        *[(f"cache_options{at}", "cache the parsed options on disk") for at in range(3)],
    )
    assert max(scores(apart, question).values()) < FILL.share * THRESHOLD
    assert min(scores(together, question)[f"m{at}"] for at in (300, 301, 302)) > THRESHOLD
    candidates, vectors = apart
    judge = LexicalJudge(lambda: vectors, reasons_from=0.0)
    best = next(judge.judgments(Turn(task=question), candidates))
    assert "of the question's words" in best.reason


@pytest.mark.parametrize(
    ("log_odds", "held", "is_about"),
    [
        (2.2, 0.38, True),
        (0.5, 0.38, False),
        (0.5, 0.5, True),
        (-0.2, 0.5, False),
        (9.0, 0.0, False),
    ],
)
def test_learned_odds_and_what_is_held_decide_together_about_a_question(
    log_odds: float, held: float, is_about: bool
) -> None:
    """Strong odds make up for words that are apart, and many words for weak odds."""
    candidates, vectors = made(("cache_options", "cache the parsed options on disk"))
    task = Turn(task="how does it cache parsed options to disk?")
    evidence = replace(WeighedPool(task, candidates, lambda: vectors).evidence, held=held)
    assert evidence.needed == 0.44
    assert is_about_pool(evidence, log_odds, frozenset()) is is_about


def test_how_something_is_computed_is_asked_of_what_it_names() -> None:
    """A repository that has no word for `computed` may still have what is computed."""
    texts = [(f"f{at}", f"word{at} and some more text") for at in range(60)]
    pool = made(*texts, ("find_suggestions", "suggestions by distance of a mistyped name"))
    assert scores(pool, "where are suggestions computed?")["m60"] > THRESHOLD
    assert scores(pool, "where are invoices computed?")["m60"] < FILL.share * THRESHOLD


@pytest.mark.parametrize(("held", "needed"), [(0.4399, 0.44), (0.4021, 0.4033), (0.2199, 0.22)])
def test_the_reason_for_a_lower_score_never_names_one_figure_twice(
    held: float, needed: float
) -> None:
    """What is held is rounded down, and what is needed up."""
    percents = re.findall(r"\d+%", why_less(held, needed))
    assert len(set(percents)) == 2


def test_a_small_pool_needs_one_memory_that_holds_the_question() -> None:
    """Of three functions only one can deal with it."""
    pool = made(
        ("cache_options", "cache the parsed options on disk"),
        ("run", "run it"),
        ("stop", "stop it"),
    )
    assert scores(pool, "how does it cache parsed options to disk?")["m0"] > THRESHOLD


def test_a_dotfile_counts_as_settings() -> None:
    """`.gitignore` lists names of everything: its text weighs less than a window of code without a
    grammar."""
    texts = [(f"f{at}", f"word{at} and some more text") for at in range(60)]
    candidates, vectors = made(
        *texts, ("window", "build output of the session store"), ("f", "x")
    )
    windows = [candidate._replace(kind=Kind.TEXT, entity="") for candidate in candidates]
    task = "add retries to the session store of the build"

    def best_at(path: str) -> float:
        windows[60] = windows[60]._replace(path=path)
        return scores((windows, vectors), task)["m60"]

    assert 0 < best_at("web/.gitignore") < best_at("web/store.pl")


def test_a_name_that_a_short_question_says_stays_in_sight() -> None:
    """An unknown word next to it leaves most of its evidence, not so much that it is kept."""
    texts = [(f"f{at}", f"word{at} and some more text") for at in range(60)]
    pool = made(
        *texts,
        ("report.latencies", "the latencies"),
        ("report.of", "the latencies of a report"),
    )
    by_id = scores(pool, "how are the latency percentiles plotted?")
    assert UNRELATED_WORDS_BELOW < by_id["m60"] < FILL.share * THRESHOLD
    assert by_id["m61"] < by_id["m60"]


def test_a_word_of_half_of_all_memories_is_no_evidence() -> None:
    """It adds nothing, in any field, where the task has another word that is found."""
    pool = made(
        *[(f"handler{at}", "handler of events") for at in range(30)], ("parse", "parse a frame")
    )
    by_id = scores(pool, "which handler can parse a frame?")
    assert by_id["m30"] > THRESHOLD and by_id["m0"] == 0
    assert scores(pool, "the handler")["m0"] > 0


def test_a_question_is_about_its_common_word_where_the_other_is_an_everyday_one() -> None:
    """`made` is in few memories, and is not what is asked for."""
    pool = made(
        *[(f"handler{at}", "handler of events") for at in range(30)],
        ("create_handler", "create a handler"),
        ("note", "a note of what was made"),
    )
    by_id = scores(pool, "how is the handler made?")
    assert by_id["m30"] > by_id["m31"]


ENTRIES = st.lists(
    st.tuples(st.integers(0, 600), st.integers(0, 255), st.integers(0, 63)), max_size=400
)


@given(
    vectors=st.lists(ENTRIES, max_size=5), asked_terms=st.sets(st.integers(0, 600), max_size=40)
)
@settings(max_examples=60)
def test_the_words_of_a_pool_are_those_that_a_look_at_each_entry_finds(
    vectors: list[list[tuple[int, int, int]]], asked_terms: set[int]
) -> None:
    """Comparing whole columns of bytes finds the same entries, in order, and the same length of
    each memory."""
    hashes = [term * 0x9E3779B1 & 0xFFFFFFFF for term in asked_terms]
    spread = [
        [(term * 0x9E3779B1 & 0xFFFFFFFF, *rest) for term, *rest in entries]
        for entries in vectors
    ]
    joined = [b"".join(TERM_ENTRY.pack(*entry) for entry in entries) for entries in spread]
    flat = [entry for entries in spread for entry in entries]
    expected = [
        (place, hashes.index(term), count, fields)
        for place, (term, count, fields) in enumerate(flat)
        if term in hashes
    ]
    assert list(entries_of(b"".join(joined), hashes)) == expected
    for entries, vector in zip(spread, joined, strict=True):
        assert sum_of(vector[4 :: TERM_ENTRY.size]) == sum(count for _, count, _ in entries)


def test_the_mean_length_is_of_the_pool_alone() -> None:
    """Words of memories outside the scope make nothing of the pool shorter or more common."""
    candidates, vectors = made(
        ("total", "sum the prices"), ("parse", "split a header"), ("other", "prices " * 300)
    )
    task = Turn(task="where are prices summed?")
    narrow = [(memory_id, vector) for memory_id, vector in vectors if memory_id != "m2"]
    assert lexical_priors(task, candidates[:2], lambda: vectors) == lexical_priors(
        task, candidates[:2], lambda: narrow
    )

"""A receipt as a page for a terminal."""

from decimal import Decimal

from click import unstyle
from msgspec.structs import replace
from syrupy.assertion import SnapshotAssertion

from tests import receipts
from xscore.cli import answer_account, answer_text
from xscore.records.calls import Stage, Usage
from xscore.records.judgment import FILL, Boost
from xscore.records.memory import Kind
from xscore.records.receipt import Coverage, Latency, StageUsage, UnjudgedAccount

WRITE = replace(
    receipts.CHOSEN,
    kind="method",
    path="xscore/cache/judgments.py",
    entity="Judgments.write",
    start_line=41,
    end_line=77,
    raw_score=0.83,
    boosts=(Boost("dependency", 0.10, "called by JudgmentWriter.write"),),
    score=0.93,
    reason="writes a judgment in one transaction",
)
MISS = replace(
    WRITE,
    id="m_2",
    entity="Judgments.known",
    raw_score=0.64,
    boosts=(),
    score=0.64,
    reason="",
    below_threshold=True,
)
A_SHADE_LESS = replace(WRITE, boosts=(), score=0.7 - 1e-12, threshold=0.7)
"""Means of two draws come out so; the selection counts them as at the threshold."""
ANSWER = replace(
    receipts.ANSWER,
    task="where is a judgment written?",
    coverage=Coverage(812, 41, 771, 0, 0),
    selected=(WRITE,),
    near_misses=(MISS,),
    bundle="",
    usage={
        Stage.JUDGE: StageUsage(
            calls=41,
            attempts=42,
            usage=Usage(input_tokens=98_000, cached_input_tokens=61_000, output_tokens=4_000),
            cost_usd=Decimal("0.0114"),
        )
    },
    latency=Latency(total=3.21),
)


def test_page(snapshot: SnapshotAssertion) -> None:
    """Each memory with score, place, name, reason and boosts; near misses; one cost line."""
    parts = [
        answer_text.render_selection(ANSWER),
        answer_account.render_near_misses(ANSWER),
        answer_account.render_cost_line(ANSWER),
    ]
    assert unstyle("\n".join(parts)) == snapshot


def test_what_reached_its_threshold_is_not_called_below_it() -> None:
    """Whether a score reached its threshold is decided by the selection alone, not again by its
    digits."""
    answer = replace(ANSWER, selected=(A_SHADE_LESS,), near_misses=(A_SHADE_LESS,))
    assert "below" not in unstyle(answer_text.render_selection(answer))
    assert unstyle(answer_account.render_near_misses(answer)).startswith("passed, but not kept")


def test_a_commit_is_named_as_it_is_cited() -> None:
    """Its title begins with that, so the kind is not said again."""
    title = "commit 1a2b3c4: Round half cents down: finance asked for it"
    commit = replace(MISS, kind=Kind.COMMIT, path="", entity="", title=title)
    cited = "commit 1a2b3c4 “Round half cents down: finance asked for it”"
    assert answer_text.memory_name(commit) == cited


def test_a_document_that_was_passed_over_is_not_called_just_below() -> None:
    """Where lower memories were added, what scores more says why it was not; a copy is not
    named."""
    added = replace(MISS, id="m_3", score=0.1, threshold=0.5, placed_by="filled")
    document = replace(
        MISS, kind="doc", path="README.md", entity="Usage", score=0.4, threshold=0.5
    )
    copy = replace(document, id="m_4", kind="function", path="copy.py", entity="same")
    answer = replace(
        ANSWER, threshold=0.5, selected=(WRITE, added), near_misses=(document, copy)
    )
    shown = unstyle(answer_account.render_near_misses(answer))
    assert "README.md:41-77 0.40" in shown
    assert "nearest below" not in shown
    assert "copy.py" not in shown
    assert unstyle(answer_account.render_filled(answer)).startswith("~ marks 1 weaker match")
    alone = replace(answer, selected=(WRITE,))
    assert unstyle(answer_account.render_near_misses(alone)).startswith(
        "nearest below the threshold of 0.5: README.md:41-77 0.40"
    )


def test_of_unrelated_memories_words_name_the_best_alone() -> None:
    """Listed is what is related (0.01); of lower scores only the best, unless it would read as
    0.00."""
    related = replace(MISS, id="m_4", score=0.01, threshold=0.05)
    near = replace(MISS, score=0.008, threshold=0.05)
    far = replace(near, id="m_5", entity="other", score=0.001)
    words = replace(ANSWER.judge, by_model=False)
    answer = replace(ANSWER, judge=words, selected=(), near_misses=(near, far))
    assert answer_text.shown_memories(answer) == (near,)
    assert answer_text.shown_memories(
        replace(answer, near_misses=(near, replace(near, id="m_6")))
    ) == (near,)
    assert answer_text.shown_memories(replace(answer, near_misses=(related, near))) == (
        related,
    )
    assert answer_text.shown_memories(replace(answer, near_misses=(far,))) == ()
    assert answer_text.shown_memories(replace(answer, judge=ANSWER.judge)) == ()


def test_the_rule_that_adds_weaker_matches_is_stated() -> None:
    """The lowest score that takes a free place is shown where weaker matches were added, and
    where none was."""
    words = replace(ANSWER.judge, by_model=False)
    near = replace(MISS, score=0.45, threshold=0.5, below_threshold=True, placed_by="filled")
    question = replace(
        ANSWER, task="what is an idle room?", threshold=0.5, judge=words, selected=(near,)
    )
    assert "these reached 0.2" in answer_account.render_filled(question)
    few = replace(question, selected=(WRITE, near))
    assert "only 1 reached the threshold of 0.5" in answer_account.render_filled(few)
    full = replace(question, selected=(WRITE, *[near] * (FILL.target_places - 1)))
    assert f"to make {FILL.target_places}" in answer_account.render_filled(full)
    assert f"to make {FILL.target_places}" not in answer_account.render_filled(few), (
        "there are two"
    )
    nothing = replace(question, selected=(), near_misses=(replace(near, score=0.15),))
    assert "reached the threshold of 0.5, or 0.25 for" in answer_text.render_selection(nothing)
    assert "or 0.2" not in answer_text.render_selection(replace(nothing, judge=ANSWER.judge))


def test_a_question_without_a_word_is_told_so() -> None:
    """Nothing matches `?????` at any threshold, so a lower one is not advised."""
    words = replace(ANSWER.judge, by_model=False)
    answer = replace(
        ANSWER, task="?????", judge=words, selected=(), near_misses=(replace(MISS, score=0.0),)
    )
    assert answer_text.NO_WORDS_HINT in answer_text.render_selection(answer)
    assert "--threshold" not in answer_text.render_selection(answer)


def test_unpriced_is_not_free() -> None:
    """A call without a known price leaves the turn unpriced; the lexical judge alone is $0 and is
    named."""
    without_price = replace(ANSWER.spent(Stage.JUDGE), cost_usd=None)
    unpriced = replace(ANSWER, usage={Stage.JUDGE: without_price})
    assert "unpriced" in answer_account.render_cost_line(
        unpriced
    ) and "$" not in answer_account.render_cost_line(unpriced)
    by_words = replace(ANSWER.judge, by_model=False)
    lexical = replace(ANSWER, judge=by_words, usage={Stage.JUDGE: StageUsage()})
    assert "no model · $0 · 3.2 s" in answer_account.render_cost_line(lexical)


def test_a_ranking_by_words_in_place_of_the_judge_is_called_so() -> None:
    """If the host was unreachable, page and cost line say that only words ranked; otherwise they do
    not."""
    away = replace(ANSWER, ranked_by="lexical")
    for page in (answer_text.render_selection, answer_account.render_cost_line):
        assert "by words alone" in page(away) and "by words alone" not in page(ANSWER)


def test_unjudged_are_counted_by_cause() -> None:
    """Unjudged memories are counted by cause, with the next command."""
    partial = replace(
        ANSWER,
        coverage=Coverage(812, 31, 771, 0, 10),
        unjudged=UnjudgedAccount({"refused": 2, "budget": 8}, ()),
    )
    assert (
        "10 of 812 candidates are unjudged (8 budget, 2 refused)"
        in answer_account.render_unjudged(partial)
    )
    assert (
        f"`xscore continue {partial.turn_id}` judges the rest"
        in answer_account.render_unjudged(partial)
    )
    assert answer_account.render_unjudged(ANSWER) == ""


def test_hostile_names_are_harmless() -> None:
    """A path, name or reason from a repository cannot control the terminal."""
    hostile = replace(WRITE, path="a\x1b[2J.py", entity="f\u202e", reason="x\ny\x07")
    page = unstyle(
        answer_text.render_selection(
            replace(ANSWER, selected=(hostile,), near_misses=(hostile,))
        )
    )
    assert "\x1b" not in page and "\u202e" not in page and "\x07" not in page
    assert len(page.splitlines()) == 2


def test_a_terminal_keeps_the_best_in_sight() -> None:
    """Five memories with reason and text, the other ten in one line each, cut to the width."""
    chosen = tuple(
        replace(WRITE, id=f"m_{n}", entity=f"Judgments.write_{n:02}") for n in range(15)
    )
    texts = {
        memory.id: "def write(self):\n    where = 1\n    judgment = 2\n    written = 3"
        for memory in chosen
    }
    page = unstyle(
        answer_text.render_selection(replace(ANSWER, selected=chosen), texts, width=80)
    )
    lines = page.split("\n")
    assert len(lines) == 5 * 5 + 10
    assert all(f"write_{n:02}" in line for n, line in enumerate(lines[25:], start=5))
    assert all(len(line) <= 80 for line in lines[25:])


def test_a_long_path_gives_way_to_the_name() -> None:
    """In a line of its own a memory keeps file, lines and name; first folders and reason give
    way."""
    folders = "src/main/java/org/example/commons/help"
    long = replace(
        WRITE, path=f"{folders}/AbstractFormatter.java", entity="AbstractFormatter.wrap"
    )
    chosen = (WRITE,) * answer_text.SHOWN_WITH_TEXT + (long,)
    answer = replace(ANSWER, selected=chosen)
    narrow, wide = (
        unstyle(answer_text.render_selection(answer, {}, width=width)).split("\n")[-1]
        for width in (80, 160)
    )
    place = "/AbstractFormatter.java:41-77  AbstractFormatter.wrap"
    assert place in narrow and "…/" in narrow and len(narrow) <= 80
    least = unstyle(answer_text.render_selection(answer, {}, width=50)).split("\n")[-1]
    assert "AbstractFormatter.java:41-77  ….wrap" in least and len(least) <= 50
    assert f"{folders}{place}" in wide


def test_a_commit_is_named_once() -> None:
    """A commit is cited where others have their path, and its subject is where they have their
    name."""
    commit = replace(
        WRITE,
        kind=Kind.COMMIT,
        path="",
        entity="",
        title="commit 1a2b3c4: Waits end",
        boosts=(),
    )
    page = unstyle(answer_text.render_selection(replace(ANSWER, selected=(commit,))))
    assert page.count("1a2b3c4") == 1 and "Waits end" in page


def test_what_commits_lack_is_told_of_commits() -> None:
    """A commit that passed lacks a place that `--top-k` does not give; one below is never added, so
    nothing is said of it."""
    words = replace(ANSWER.judge, by_model=False)
    commit = replace(
        WRITE, kind=Kind.COMMIT, path="", entity="", title="commit 1a2b3c4: Waits end"
    )
    filled = replace(MISS, score=0.5, placed_by="filled")
    answer = replace(ANSWER, judge=words, selected=(WRITE, filled), near_misses=(commit,))
    remarks = answer_account.render_near_misses(answer)
    assert "1a2b3c4" in remarks and "--kind commit" in remarks and "--top-k" not in remarks
    assert "--kind commit" in answer_text.render_unplaced(answer)
    near = replace(commit, score=0.65, below_threshold=True)
    assert answer_account.render_near_misses(replace(answer, near_misses=(near,))) == ""


def test_text_begins_where_it_says_something() -> None:
    """What opens a comment, a decorator or an attribute is not the first line that is shown."""
    texts = {
        "m_1": "/**\n * Wraps what is too long.\n */\nvoid wrap() {}",
        "m_2": "@property\ndef last(self) -> bool:\n    return True",
        "m_3": "#[test]\nfn waits() {}",
    }
    chosen = tuple(replace(WRITE, id=id_) for id_ in texts)
    page = unstyle(
        answer_text.render_selection(replace(ANSWER, selected=chosen), texts, width=80)
    )
    lines = {line.strip() for line in page.split("\n")}
    assert {"* Wraps what is too long.", "def last(self) -> bool:", "fn waits() {}"} <= lines
    assert lines.isdisjoint({"/**", "@property", "#[test]"})

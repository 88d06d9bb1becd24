"""Two sets of results, paired: figures, groups, the worst cases, and what does not pair."""

import json
import re
from pathlib import Path

import pytest

from xscore.extensions.evaluation.comparison import (
    CaseResult,
    Miss,
    ResultSet,
    compare,
    task_length,
)
from xscore.extensions.evaluation.comparison_page import render_comparison_page
from xscore.extensions.evaluation.comparison_text import render_comparisons
from xscore.extensions.evaluation.results import read_results
from xscore.platform.errors import UsageError

MISS = Miss(path="a.py", name="f", why="rank 23, score 0.41")


def result(number: int, recall: float, **fields: str) -> CaseResult:
    """One case; every second one is of another language."""
    misses = () if recall == 1 else (MISS,)
    return CaseResult(
        id=f"c{number}",
        figures={"recall": recall, "recall_at_k": recall, "kept": 3.0},
        task=f"Mend the thing number {number}",
        language="python" if number % 2 else "rust",
        misses=misses,
        **fields,
    )


def results(name: str, recalls: list[float]) -> ResultSet:
    """Cases c0, c1, … with these recalls."""
    cases = [result(number, recall) for number, recall in enumerate(recalls)]
    return ResultSet(name=name, cases=tuple(cases))


A = results("a", [1.0, 0.0, 0.5, 1.0, 0.0, 1.0])
B = results("b", [1.0, 1.0, 0.5, 0.0, 0.5, 1.0])


def test_cases_are_paired_by_their_id() -> None:
    """Whatever the order, each case meets itself."""
    shuffled = ResultSet(name="b", cases=B.cases[::-1])
    comparison = compare(A, shuffled)
    assert comparison.overall == compare(A, B).overall
    recall = comparison.overall["recall"]
    assert (recall.better, recall.worse, recall.equal) == (2, 1, 3)
    assert recall.difference == pytest.approx(0.5 / 6)
    assert comparison.differences == (-1.0, 0.0, 0.0, 0.0, 0.5, 1.0)


def test_groups_have_figures_of_their_own() -> None:
    """By language; a division in which all cases are alike is left out."""
    comparison = compare(A, B)
    of_recall = {group.group: group for group in comparison.groups if group.measure == "recall"}
    assert set(of_recall) == {"python", "rust"}
    assert of_recall["rust"].difference.difference == pytest.approx(0.5 / 3)
    assert {group.by for group in comparison.groups} == {"language"}


def test_the_worst_case_is_what_b_lost() -> None:
    """First what B lost of what A has, then what it misses too."""
    comparison = compare(A, B)
    assert [case.id for case in comparison.worst] == ["c3", "c2", "c4"]
    assert comparison.worst[0].misses == (MISS,)


def test_what_does_not_pair_is_named() -> None:
    """Counted and named as a warning, in no figure; nothing in common is an error."""
    longer = ResultSet(name="b", cases=(*B.cases[1:], result(9, 1.0)))
    comparison = compare(A, longer)
    assert (comparison.cases, comparison.only_a, comparison.only_b) == (5, ("c0",), ("c9",))
    assert any("c9" in warning for warning in comparison.warnings)
    with pytest.raises(UsageError, match="no case is in both"):
        compare(A, ResultSet(name="b", cases=(result(9, 1.0),)))


def test_another_task_under_one_id_is_noticed() -> None:
    """The two files may be of different cases."""
    renamed = CaseResult(id="c0", figures={"recall": 1.0}, task="Something else")
    assert any(
        "another task" in line
        for line in compare(A, ResultSet(name="b", cases=(renamed,))).warnings
    )


def test_cases_without_gold_are_compared_by_silence() -> None:
    """They have no recall; whether nothing was kept is compared."""
    silent = ResultSet(
        name="a", cases=(CaseResult(id="n", figures={"silent": 1.0, "kept": 0.0}),)
    )
    loud = ResultSet(
        name="b", cases=(CaseResult(id="n", figures={"silent": 0.0, "kept": 4.0}),)
    )
    comparison = compare(silent, loud)
    assert set(comparison.overall) == {"silent", "kept"}
    assert comparison.overall["silent"].worse == 1
    assert "none with gold" in render_comparisons([comparison], verbose=False)
    assert "<!doctype html>" in render_comparison_page([comparison])


@pytest.mark.parametrize(
    ("words", "length"), [(0, ""), (5, "short"), (12, "medium"), (49, "medium"), (50, "long")]
)
def test_a_task_is_as_long_as_its_distinct_words(words: int, length: str) -> None:
    """Repeated words count once."""
    task = " ".join(f"word{number}" for number in range(words)) + " word0" * bool(words)
    assert task_length(task).partition(" ")[0] == length


def test_the_page_loads_nothing_and_shows_text_as_text() -> None:
    """Names from outside are escaped, and the same comparisons give the same page."""
    hostile = result(3, 0.0, repository="<script>alert(1)</script>")
    comparison = compare(
        A, ResultSet(name="<img src=x>", cases=(*B.cases[:3], hostile, *B.cases[4:]))
    )
    page = render_comparison_page([comparison])
    assert page == render_comparison_page([comparison])
    assert "<script>alert" not in page and "<img" not in page and "&lt;img src=x&gt;" in page
    markup = re.sub("<script.*?</script>", "", page, flags=re.DOTALL)
    assert "http://" not in markup and "https://" not in markup
    assert "src=" not in markup.replace("img src=x", "")
    assert page.count("<figure") >= 3 and "rank 23, score 0.41" in page


def write(path: Path, lines: list[object]) -> Path:
    """Write a file of JSON lines."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def measures(recall: float) -> dict[str, object]:
    """The figures of a case, as `eval run --json` writes them."""
    quality = {
        "recall": recall,
        "precision": 0.5,
        "hit": 1.0,
        "reciprocal_rank": 0.5,
        "ndcg": 0.7,
    }
    return {"chosen": quality, "ranked": quality, "kept": 2.0}


def test_results_are_read_from_lines_or_an_object(tmp_path: Path) -> None:
    """Both forms give the same cases; unknown fields are ignored."""
    missed = [{"path": "a.py", "name": "f", "rank": 9, "score": 0.4, "is_candidate": True}]
    case = {
        "id": "1",
        "query": "why?",
        "judge": measures(0.5),
        "missed": missed,
        "kept": 2,
        "x": 1,
    }
    of_lines = read_results(write(tmp_path / "a.jsonl", [case]))
    (tmp_path / "b.json").write_text(json.dumps({"judge": "m", "results": [case]}, indent=1))
    of_object = read_results(tmp_path / "b.json")
    assert of_lines.cases == of_object.cases and of_object.judge == "m"
    (read,) = of_lines.cases
    assert read.figures["recall"] == 0.5 and read.misses[0].why == "rank 9, score 0.40"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no json",
        '{"results": []}',
        '{"results": {}}',
        '{"id": ""}',
        '{"id": "1", "judge": 3}',
        '{"id": "1", "kept": NaN}',
        '{"id": "1", "kept": -1}',
        '{"id": "1"}\n{"id": "1"}',
        "[" * 100_000,
    ],
)
def test_what_is_no_result_is_refused(tmp_path: Path, text: str) -> None:
    """With the name of the file, never with a traceback."""
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(UsageError, match=r"r\.json"):
        read_results(tmp_path / "r.json")

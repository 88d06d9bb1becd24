"""Files of public benchmarks are recognised and read; what is wrong in them is named."""

import json
from pathlib import Path

import pytest

from xscore.extensions.evaluation.cases import read_cases
from xscore.extensions.evaluation.metrics import EntityRef, span_entities
from xscore.platform.errors import UsageError

SAMPLE = {
    "id": "a1",
    "repo": "owner/shop",
    "base_commit": "b" * 40,
    "candidate_corpus": {"type": "repo_at_base_commit"},
    "task_type": "trace2code",
    "query": {"pr_title": "Improve the sum", "raw_signal": "AssertionError", "line": 3},
    "gold": {
        "fix_commit": "f" * 40,
        "root_cause_files": ["shop/prices.py"],
        "related_tests": ["t.py"],
    },
}
INSTANCE = {
    "instance_id": "owner__shop-1",
    "repo": "owner/shop",
    "base_commit": "b" * 40,
    "problem_statement": "The sum is wrong",
    "gold_context": json.dumps(
        [{"file": "/testbed/shop/prices.py", "start_line": 3, "end_line": 9}]
    ),
    "language": "Python",
    "source": "Verified",
    "created_at": "2026-03-04T01:02:03Z",
}


def written(folder: Path, *lines: object) -> Path:
    """Write lines of JSON."""
    file = folder / "cases.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def test_a_sample_of_agent_retrieval_bench(tmp_path: Path) -> None:
    """Gold is the files that it scores, the task what its query says, the parent its base."""
    (case,) = read_cases(written(tmp_path, SAMPLE)).cases
    assert case.gold == (EntityRef("shop/prices.py"),)
    assert case.task == "Improve the sum\n\nAssertionError" and case.parent == "b" * 40
    assert (case.repository, case.kind, case.commit) == ("owner/shop", "trace2code", "f" * 40)


@pytest.mark.parametrize(
    ("task_type", "gold", "paths"),
    [
        ("code2test", {"root_cause_files": ["a"], "related_tests": ["t", "t"]}, ["t"]),
        (
            "comment2context",
            {"root_cause_files": ["a"], "context_files": [{"path": "c"}]},
            ["c"],
        ),
        ("comment2context", {"root_cause_files": ["a"]}, ["a"]),
        ("edit2ripple", {"files": ["r", {"path": "s"}], "root_cause_files": ["a"]}, ["r", "s"]),
        ("abstention", {"files": [], "no_gold": True, "reason": "elsewhere"}, []),
    ],
)
def test_its_tasks_have_gold_of_their_own(
    tmp_path: Path, task_type: str, gold: object, paths: list[str]
) -> None:
    """Each kind of task scores other files; one may have none."""
    line = SAMPLE | {
        "task_type": task_type,
        "gold": gold,
        "query": {"text": "why?", "path": "x.py"},
    }
    (case,) = read_cases(written(tmp_path, line)).cases
    assert [place.path for place in case.gold] == paths
    assert case.file == ("x.py" if task_type == "comment2context" else "")


def test_an_instance_of_contextbench(tmp_path: Path) -> None:
    """Its spans are gold, in the repository and not in its container."""
    as_list = INSTANCE | {"instance_id": "2", "gold_context": [{"file": "./a.py"}]}
    first, second = read_cases(written(tmp_path, INSTANCE, as_list)).cases
    assert first.gold == (EntityRef("shop/prices.py", "", 3, 9),)
    assert first.language == "python"
    assert first.date == "2026-03-04"
    assert first.task == "The sum is wrong"
    assert second.gold == (EntityRef("a.py"),)


@pytest.mark.parametrize(
    "line",
    [
        SAMPLE | {"gold": {}},
        SAMPLE | {"query": {}},
        {**SAMPLE, "base_commit": 5},
        {"id": "own", "task": "t", "gold": []},
    ],
)
def test_a_wrong_line_of_a_benchmark_is_named(tmp_path: Path, line: object) -> None:
    """A line that is not of the form of the first is refused with its number."""
    with pytest.raises(UsageError, match=r"cases\.jsonl:2"):
        read_cases(written(tmp_path, SAMPLE, line))
    with pytest.raises(UsageError, match=r"cases\.jsonl:2: gold_context"):
        read_cases(
            written(tmp_path, INSTANCE, INSTANCE | {"instance_id": "x", "gold_context": "["})
        )


def test_a_span_stands_for_its_entities() -> None:
    """Lines that are no entity are those within them, or the smallest around them."""
    places = [
        EntityRef("a.py", "C", 1, 200),
        EntityRef("a.py", "C.f", 10, 40),
        EntityRef("a.py", "C.g", 50, 60),
        EntityRef("b.py", "h", 1, 9),
    ]
    spans = [
        EntityRef("a.py", "", 12, 15),
        EntityRef("a.py", "", 8, 70),
        EntityRef("b.py", "", 1, 9),
    ]
    assert span_entities(spans[:1], places) == (places[1],)
    assert span_entities(spans[1:2], places) == (places[1], places[2])
    assert span_entities(spans[2:], places) == (spans[2],)
    assert span_entities((EntityRef("gone.py", "", 1, 2),), places) == (
        EntityRef("gone.py", "", 1, 2),
    )

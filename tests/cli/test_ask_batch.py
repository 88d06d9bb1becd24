"""`xscore ask --batch`: a section for each question, one JSON object, and rejected input."""

import json
from pathlib import Path

import pytest

from tests.cli.basket import script_flags
from tests.cli.conftest import Run
from xscore.prompts.questions import QUESTIONS_VERSION

LINES = (
    '{"id": "twice", "task": "The discount is taken twice"}\n'
    '{"id": "cart", "task": "Where is the sum asked for?"}\n'
)
SCRIPT = {
    "rules": [{"task": "discount", "entity": "discount", "score": 0.9, "reason": "takes it"}],
    "answer": "As it is.",
}


@pytest.fixture
def models(tmp_path: Path) -> tuple[str, ...]:
    """A scripted judge and answerer."""
    return script_flags(tmp_path / "script.json", SCRIPT)


@pytest.fixture
def questions(tmp_path: Path) -> str:
    """A list of two questions."""
    path = tmp_path / "questions.jsonl"
    path.write_text(LINES)
    return str(path)


def test_each_question_has_a_section_and_the_saving_stands_at_the_end(
    xscore: Run, shop: Path, questions: str, models: tuple[str, ...]
) -> None:
    """Answers go to stdout under the question's id, costs to stderr, with the cost of asking one by
    one."""
    done = xscore("ask", "--batch", questions, "--answer-anyway", *models, cwd=shop)
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "# twice  The discount is taken twice", "As it is.", "",
        "# cart  Where is the sum asked for?", "As it is.",
    ]  # fmt: skip
    assert "shop/prices.py:9" in done.stderr
    assert "takes it" in done.stderr
    assert "turn t_" in done.stderr
    assert "asked 2 of 2 questions" in done.stderr and "one question a call:" in done.stderr
    assert "\nsaved 1 of 2 calls" in done.stderr
    repeated = xscore("ask", "--batch", questions, *models, cwd=shop)
    assert "nothing was sent to the judge" in repeated.stderr


def test_json_is_one_object(
    xscore: Run, shop: Path, questions: str, models: tuple[str, ...]
) -> None:
    """`questions` holds one receipt for each line's id, `together` the totals of the run."""
    done = xscore("ask", "--batch", questions, "--json", "--no-answer", *models, cwd=shop)
    body = json.loads(done.stdout)
    assert list(body) == ["schema", "questions", "together"]
    assert [receipt["id"] for receipt in body["questions"]] == ["twice", "cart"]
    assert all(
        receipt["coverage"]["judged"] == receipt["coverage"]["candidates"]
        for receipt in body["questions"]
    )
    together = body["together"]
    assert together["questions"] == together["asked"] == 2 and together["ended"] == ""
    assert (
        together["alone"]["calls"] - together["took"]["calls"]
        == together["saved"]["calls"]
        == 1
    )


def test_an_unfinished_turn_of_a_list_goes_on_with_its_judge(
    xscore: Run, shop: Path, questions: str, tmp_path: Path, models: tuple[str, ...]
) -> None:
    """`xscore continue` finds what was judged in the shared layout and judges only this turn's
    rest."""
    xscore("ask", "--batch", questions, "--no-answer", "--glob", "shop/", *models, cwd=shop)
    xscore(
        "ask", "--batch", questions, "--no-answer", "--replay", "--judge", models[1], cwd=shop
    )
    turns = json.loads(xscore("history", "list", "--json", cwd=shop).stdout)["turns"]
    done = xscore("continue", turns[0]["id"], "--no-answer", "--json", *models, cwd=shop)
    receipt = json.loads(done.stdout)
    assert receipt["judge"]["prompt_version"] == QUESTIONS_VERSION
    assert receipt["coverage"]["carried"] > 0
    assert receipt["coverage"]["unjudged"] == 0 and done.returncode == 0

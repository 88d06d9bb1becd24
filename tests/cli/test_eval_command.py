"""`xscore eval` as a user sees it: the page, the costs, the JSON, what it refuses."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.conftest import MakeRepo, store_dir
from tests.extensions.evaluation.history_repo import write_history
from tests.pipeline.conftest import FILES

GOLD = [
    {"path": "shop/prices.py", "name": "total"},
    {"path": "shop/gone.py", "name": "f\u001b[31m"},
]
LINES = [
    {"id": "twice", "query": "The discount is taken twice", "gold": GOLD},
    {
        "id": "readme",
        "query": "What is sold <b>here</b>?\u001b[2J",
        "gold": [{"path": "README.md"}],
    },
]
SCRIPT = {
    "default": 0.05,
    "rules": [
        {
            "task": "twice",
            "path": "shop/prices.py",
            "entity": "total",
            "score": 0.9,
            "reason": "sums",
        },
        {"task": "sold", "path": "README.md", "score": 0.3},
    ],
}


@pytest.fixture
def repo(make_repo: MakeRepo, tmp_path: Path) -> Path:
    """A shop with questions and a scripted judge."""
    (tmp_path / "questions.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in LINES)
    )
    (tmp_path / "script.json").write_text(json.dumps(SCRIPT))
    return make_repo(FILES)


def judged_by_script(repo: Path) -> list[str]:
    """The command with the scripted judge."""
    return [
        "eval",
        str(repo.parent / "questions.jsonl"),
        "--judge",
        f"scripted:{repo.parent / 'script.json'}",
    ]


def test_its_json_is_one_object(xscore: Run, repo: Path) -> None:
    """Under --json stdout is exactly the object of docs/reference/json.md."""
    done = xscore(*judged_by_script(repo), "--json", cwd=repo)
    body = json.loads(done.stdout)
    assert (
        body["schema"] == 1 and body["asked"] == 2 and body["found"]["chosen"]["recall"] == 0.25
    )
    assert [entry["id"] for entry in body["results"]] == ["twice", "readme"]
    missed = set(body["results"][0]["missed"][0])
    assert missed == {"path", "name", "rank", "score", "is_candidate", "raw_score", "words"}
    assert (
        sum(entry["memories"] for entry in body["reliability"])
        == body["coverage"]["candidates"]
    )


def test_questions_that_cannot_be_read_are_refused(xscore: Run, repo: Path) -> None:
    """The line is named on stderr, or in an object with --json; nothing is judged, and no store is
    made."""
    (repo.parent / "questions.jsonl").write_text("{}\n")
    done = xscore(*judged_by_script(repo), cwd=repo)
    assert (done.returncode, done.stdout) == (2, "") and "questions.jsonl:1: " in done.stderr
    in_json = xscore(*judged_by_script(repo), "--json", cwd=repo)
    assert json.loads(in_json.stdout)["error"]["kind"] == "usage"
    assert not (store_dir(repo)).exists()


def test_eval_of_a_file_runs_it(xscore: Run, repo: Path) -> None:
    """`eval FILE` is `eval run FILE`; a command misspelled is named, not taken for a file."""
    command, *words = judged_by_script(repo)
    assert command == "eval"
    in_full = json.loads(xscore("eval", "run", *words, "--json", cwd=repo).stdout)
    alone = json.loads(xscore("eval", *words, "--json", cwd=repo).stdout)
    assert alone["found"] == in_full["found"] and alone["questions"] == in_full["questions"]
    misspelt = xscore("eval", "rum", cwd=repo)
    assert misspelt.returncode == 2 and "'run'" in misspelt.stderr
    missing = xscore("eval", "no/such.jsonl", cwd=repo)
    assert missing.returncode == 2 and "no/such.jsonl" in missing.stderr


def test_a_case_without_gold_is_shown_apart(xscore: Run, repo: Path) -> None:
    """Nothing should be kept for it: the page says how many kept nothing."""
    nothing = {"id": "none", "task": "Why does the printer jam?", "gold": []}
    (repo.parent / "questions.jsonl").write_text(json.dumps(nothing) + "\n")
    done = xscore(*judged_by_script(repo), cwd=repo)
    assert done.returncode == 0 and "1 kept nothing" in done.stdout


def test_mined_cases_are_lines_of_json(xscore: Run, tmp_path: Path) -> None:
    """Cases on stdout and nothing else there, the account on stderr; the same bytes in a file."""
    root = write_history(tmp_path / "shop")
    done = xscore("eval", "mine", cwd=root)
    assert done.returncode == 0 and "2 cases of 5 commits" in done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["date"] for line in lines] == ["2026-03-05", "2026-03-02"]
    in_file = xscore(
        "eval", "mine", "--out", str(tmp_path / "cases.jsonl"), "--quiet", cwd=root
    )
    assert (in_file.stdout, in_file.stderr) == ("", "")
    assert (tmp_path / "cases.jsonl").read_text() == done.stdout
    in_json = json.loads(xscore("eval", "mine", "--most", "1", "--json", cwd=root).stdout)
    assert len(in_json["cases"]) == 1 and in_json["commits"] == 1 and not in_json["is_shallow"]
    assert not store_dir(root).exists()


def test_nothing_to_mine_is_said(xscore: Run, repo: Path, tmp_path: Path) -> None:
    """One commit, no commit, no git: exit 1 with the reason, no traceback."""
    single = xscore("eval", "mine", cwd=repo)
    assert (single.returncode, single.stdout) == (
        1,
        "",
    )
    assert "0 cases of 1 commit" in single.stderr
    (tmp_path / "plain").mkdir()
    none = xscore("eval", "mine", cwd=tmp_path / "plain")
    assert (none.returncode, none.stdout) == (1, "") and "no history" in none.stderr


def test_a_run_at_parents_goes_on(xscore: Run, tmp_path: Path) -> None:
    """Mined cases run as they are; the second run asks nothing; a missing clone is counted."""
    root = write_history(tmp_path / "shop")
    cases, results = tmp_path / "cases.jsonl", tmp_path / "results.jsonl"
    xscore("eval", "mine", "--out", str(cases), cwd=root)
    run = ("eval", "run", str(cases), "--judge", "lexical", "--out", str(results))
    done = xscore(*run, cwd=root)
    assert done.returncode == 0 and "recall@20" in done.stdout, done.stderr
    resumed = json.loads(xscore(*run, "--json", cwd=root).stdout)
    assert resumed["resumed"] == 2 and resumed["summary"]["cases"] == 2
    assert len(results.read_text().splitlines()) == 2
    compared = xscore("eval", "compare", str(results), str(results), cwd=root)
    assert compared.returncode == 0, compared.stderr
    first = json.loads(cases.read_text().splitlines()[0])
    cases.write_text(json.dumps(first | {"repository": "owner/shop"}) + "\n")
    missing = xscore("eval", "run", str(cases), "--judge", "lexical", cwd=tmp_path)
    assert missing.returncode == 1 and "not asked" in missing.stderr
    (tmp_path / "clones").mkdir()
    (tmp_path / "clones" / "shop").symlink_to(root)
    away = ("--repositories", str(tmp_path / "clones"), "--limit", "1", "--judge", "lexical")
    elsewhere = xscore("eval", "run", str(cases), *away, cwd=tmp_path)
    assert elsewhere.returncode == 0, elsewhere.stderr
    assert not (tmp_path / ".xscore").exists()

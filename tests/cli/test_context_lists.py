"""`context` used like grep: paths that limit it, paths or lines as output, grep's exit codes."""

import json
from pathlib import Path

import pytest

from tests.cli.basket import FILES, SCRIPT, TASK, script_flags
from tests.cli.conftest import Run
from tests.conftest import MakeRepo, git

RULES = [
    *SCRIPT["rules"],
    {"entity": "greet", "score": 0.81, "reason": "says \x1b[31mhello\nworld"},
]


@pytest.fixture
def shop(make_repo: MakeRepo) -> Path:
    """A small repository with a file name that spans lines."""
    return make_repo(
        {**FILES, "docs/odd\nname.md": "# Refunds\n\nRefunds of a basket take three days.\n"}
    )


@pytest.fixture
def scripted(tmp_path: Path) -> tuple[str, ...]:
    """Flags for a scripted judge."""
    return script_flags(
        tmp_path / "script.json",
        {**SCRIPT, "rules": [*RULES, {"path": "docs/*", "score": 0.9}]},
    )[:2]


def candidate_count(done_json: str) -> int:
    """Return how many candidates a turn had."""
    count: int = json.loads(done_json)["coverage"]["candidates"]
    return count


def test_paths_confine_a_turn(xscore: Run, shop: Path, scripted: tuple[str, ...]) -> None:
    """Only the given files and folders, relative to the current folder, are judged; they narrow
    --glob further."""
    all_candidates = candidate_count(
        xscore("context", TASK, *scripted, "--json", cwd=shop).stdout
    )
    of_one_file = json.loads(
        xscore("context", TASK, "checkout.py", *scripted, "--json", cwd=shop / "shop").stdout
    )
    both = json.loads(
        xscore("context", TASK, "shop/", "README.md", *scripted, "--json", cwd=shop).stdout
    )
    inside = json.loads(
        xscore("context", TASK, "shop", "-g", "check*", *scripted, "--json", cwd=shop).stdout
    )
    of_folder = json.loads(xscore("context", TASK, ".", *scripted, "--json", cwd=shop).stdout)
    assert of_one_file["scope"]["within"] == ["shop/checkout.py"]
    assert both["scope"]["within"] == [
        "shop",
        "README.md",
    ]
    assert of_one_file["coverage"] == inside["coverage"]
    assert of_one_file["coverage"]["candidates"] > 0
    assert of_one_file["coverage"]["candidates"] < both["coverage"]["candidates"]
    assert both["coverage"]["candidates"] < all_candidates
    assert of_folder["coverage"]["candidates"] == all_candidates


def test_ask_and_estimate_take_paths(
    xscore: Run, shop: Path, scripted: tuple[str, ...]
) -> None:
    """`ask` and `estimate` take paths too, and `continue` keeps them from any folder."""
    receipt = json.loads(
        xscore("ask", TASK, "shop", "--no-answer", *scripted, "--json", cwd=shop).stdout
    )
    estimated = json.loads(
        xscore("estimate", TASK, "shop", *scripted, "--json", cwd=shop).stdout
    )
    going_on = json.loads(
        xscore("continue", "--model", scripted[1], "--json", cwd=shop / "docs").stdout
    )
    assert (
        receipt["coverage"]["candidates"]
        == estimated["judge"]["candidates"]
        == going_on["coverage"]["candidates"]
    )
    assert going_on["scope"]["within"] == ["shop"]


@pytest.mark.parametrize("path", ["shop/chekout.py", "chekout.py"])
def test_no_such_path(path: str, xscore: Run, shop: Path) -> None:
    """A missing path is a usage error that names the nearest, and nothing is judged."""
    done = xscore("context", TASK, path, cwd=shop)
    assert done.returncode == 2
    assert "Did you mean shop/checkout.py" in done.stderr
    assert not done.stdout
    folder = xscore("context", TASK, "shp/", cwd=shop)
    assert folder.returncode == 2 and "shop/" in folder.stderr


def test_words_of_an_unquoted_task_are_not_called_paths(xscore: Run, shop: Path) -> None:
    """The error shows how to quote the task, and nothing is judged."""
    done = xscore("ask", "where", "is", "the", "cart?", cwd=shop)
    assert done.returncode == 2 and "not in quotes" in done.stderr
    assert '"where is the cart?"' in done.stderr


def test_a_misspelt_path_after_a_quoted_question_is_called_missing(
    xscore: Run, shop: Path
) -> None:
    """A task of several words was quoted already, so no quotes are advised."""
    done = xscore("ask", "how are prices summed", "shoop", cwd=shop)
    assert done.returncode == 2 and "there is no `shoop` in" in done.stderr
    assert "shop/" in done.stderr and "quotes" not in done.stderr


def test_a_kind_is_named_by_one_word_everywhere(xscore: Run, shop: Path) -> None:
    """`--kind` and `--type` both narrow a turn and a list of memories."""
    for word in ("--kind", "--type", "-t"):
        receipt = json.loads(
            xscore("context", TASK, word, "function", "--json", cwd=shop).stdout
        )
        assert receipt["scope"]["kinds"] == ["function"]
    for word in ("--kind", "--type"):
        # There is none.
        assert xscore("memory", "list", word, "decision", cwd=shop).returncode == 1


def test_outside_the_root(xscore: Run, shop: Path, tmp_path: Path) -> None:
    """A path outside the repository is refused, also through a symbolic link."""
    (tmp_path / "secret.py").write_text("x = 1\n")
    (shop / "way_out").symlink_to(tmp_path)
    for path in ("..", str(tmp_path / "secret.py"), "way_out/secret.py"):
        assert xscore("context", TASK, path, cwd=shop).returncode == 2, path


def test_paths_alone(xscore: Run, shop: Path, scripted: tuple[str, ...]) -> None:
    """`-l` prints only the chosen files, each once on one line, best first; notes go to standard
    error."""
    done = xscore("context", TASK, "-l", *scripted, cwd=shop)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "shop/basket.py\ndocs/odd name.md\n"
    assert "kept " in done.stderr


def test_lines(xscore: Run, shop: Path, scripted: tuple[str, ...], tmp_path: Path) -> None:
    """`--format lines` prints `path:lines  score  reason`, best first, without color, and nothing
    below the threshold."""
    arguments = ["context", TASK, "shop", "--format", "lines", *scripted]
    done = xscore(*arguments, "--color", "always", cwd=shop)
    assert done.stdout.splitlines() == [
        "shop/basket.py:7-9  0.95  sums the prices",
        "shop/basket.py:12-14  0.81  says [31mhello world",
    ]
    filled = xscore(*arguments, "--min-keep", "3", "-q", cwd=shop).stdout.splitlines()
    assert filled[:2] == done.stdout.splitlines() and " (below 0.7)  calls it" in filled[2]
    assert xscore(*arguments, "-o", str(tmp_path / "found"), cwd=shop).stdout == ""
    assert (tmp_path / "found").read_text() == done.stdout


def test_what_passed_without_a_place_is_listed_too(
    xscore: Run, shop: Path, scripted: tuple[str, ...]
) -> None:
    """On standard error, a line each in the form of the others, for --format lines and -l."""
    all_lines = xscore(
        "context", TASK, "--format", "lines", *scripted, cwd=shop
    ).stdout.splitlines()
    assert len(all_lines) > 1
    for form in (["-l"], ["--format", "lines"]):
        done = xscore("context", TASK, *form, "--top-k", "1", *scripted, cwd=shop)
        assert len(done.stdout.splitlines()) == 1
        assert set(all_lines[1:]) <= set(done.stderr.splitlines())


def test_nothing_chosen(
    xscore: Run, shop: Path, scripted: tuple[str, ...], tmp_path: Path
) -> None:
    """If nothing was chosen the list is empty and exits with 1, as grep does; its file is empty,
    not an old list."""
    output_file = tmp_path / "found"
    output_file.write_text("old\n")
    for form in (["-l"], ["--format", "lines"], ["-l", "-o", str(output_file)]):
        done = xscore("context", TASK, "README.md", *form, *scripted, cwd=shop)
        assert (done.returncode, done.stdout) == (1, ""), done.stderr
        assert "Nothing was chosen" in done.stderr
    assert output_file.read_text() == ""
    assert xscore("context", TASK, "-l", "--max-tokens", "9", cwd=shop).returncode == 2


def test_json_of_a_list(xscore: Run, shop: Path, scripted: tuple[str, ...]) -> None:
    """Under --json a list is the whole receipt, with exit code 0."""
    done = xscore("context", TASK, "-l", "--json", *scripted, cwd=shop)
    answer = json.loads(done.stdout)
    assert done.returncode == 0 and len(answer["selected"]) == 3 and "bundle" not in answer


def test_a_commit_stands_in_a_list_as_it_is_cited(xscore: Run, make_repo: MakeRepo) -> None:
    """`commit 1a2b3c4`, which git understands, not the id of its memory."""
    root = make_repo(FILES)
    reason = "Round the discount half up, since the tax office rejects truncated cents"
    git(root, "commit", "-q", "--allow-empty", "-m", reason)
    commit = git(root, "rev-parse", "--short=7", "HEAD").strip()
    question = "why is the discount rounded half up for the tax office?"
    done = xscore("context", question, "--format", "lines", "--judge", "lexical", cwd=root)
    assert f"commit {commit}  " in done.stdout, done.stderr

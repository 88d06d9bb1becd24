"""Without an answer a terminal shows the ranking and a pipe gets the bundle."""

from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.terminals import shown_on_terminal
from tests.conftest import MakeRepo

FILES = {
    "shop/basket.py": (
        "class Basket:\n"
        "    def total(\n"
        "        self,\n"
        "        cents: bool,\n"
        "    ) -> int:\n"
        '        """Return a number."""\n\n'
        "        # the prices of a basket are summed\n"
        "        return sum(self.prices)\n"
    ),
    "shop/greet.py": (
        'def greet(name: str) -> str:\n    """Say hello."""\n    return f"hello {name}"\n'
    ),
}
TASK = "where are the prices of a basket summed by `Basket.total`?"
PLAIN = {"TERM": "dumb", "NO_COLOR": "1"}


@pytest.fixture
def shop(make_repo: MakeRepo) -> Path:
    """A small repository."""
    return make_repo(FILES)


def asked(shop: Path, home: Path, *arguments: str, columns: int = 80) -> tuple[str, int]:
    """Ask on a terminal without a key."""
    environ = {**PLAIN, "HOME": str(home)}
    return shown_on_terminal(
        ["-m", "xscore", "ask", *arguments], cwd=shop, environ=environ, columns=columns
    )


def test_a_terminal_is_shown_the_ranking(shop: Path, own_home: Path) -> None:
    """Score, place, name and reason; the first line of text and the two closest to the task; no
    XML."""
    seen, code = asked(shop, own_home, TASK)
    lines = seen.splitlines()
    at = next(number for number, line in enumerate(lines) if "Basket.total" in line)
    assert code == 0, seen
    assert lines[at].split()[1:] == ["shop/basket.py:2-9", "Basket.total"]
    assert "names" in lines[at + 1]
    entry = [line.strip() for line in lines[at + 1 : at + 6]]
    assert "def total(" in entry and "# the prices of a basket are summed" in entry
    assert "self," not in entry and "<" not in seen


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_the_ranking_fits_the_window(columns: int, shop: Path, own_home: Path) -> None:
    """No line is wider than the window."""
    seen, _ = asked(shop, own_home, TASK, "--threshold", "0", columns=columns)
    assert max(map(len, seen.splitlines())) <= columns


def test_with_nothing_over_the_cut_the_nearest_are_marked(shop: Path, own_home: Path) -> None:
    """At most five near misses, each marked as below the threshold, a line each where nothing here
    seems to be what is asked; none for nonsense."""
    question = "which ledger rounds a number of cents?"
    seen, _ = asked(shop, own_home, question)
    nearest = [line for line in seen.splitlines() if line.startswith("~")]
    assert "Nothing was chosen" in seen
    assert 1 <= len(nearest) <= 5 and "Basket.total" in seen and "def total" not in seen
    nonsense, _ = asked(shop, own_home, "zebra quantum giraffe")
    assert "Nothing was chosen" in nonsense and "~" not in nonsense


def test_a_pipe_and_a_file_get_the_bundle(shop: Path, own_home: Path, xscore: Run) -> None:
    """stdout is the context unless it is a terminal; `--output` writes it from a terminal too."""
    assert "<code" in xscore("ask", TASK, cwd=shop).stdout
    seen, _ = asked(shop, own_home, TASK, "--output", "bundle.xml")
    assert "<code" in (shop / "bundle.xml").read_text() and "<code" not in seen


def test_index_and_answer_are_timed_apart() -> None:
    """Indexing that takes a second or more is shown separately from the turn's time."""
    from msgspec.structs import replace

    from tests import receipts
    from xscore.cli.answer_account import render_cost_line

    latency = receipts.ANSWER.latency
    slow = replace(receipts.ANSWER, latency=replace(latency, index=20.0, total=20.5))
    assert "20 s (20 s for the index)" in render_cost_line(slow)
    assert "index" not in render_cost_line(
        replace(slow, latency=replace(latency, index=0.2, total=0.7))
    )


def test_how_to_get_a_model_is_said_once_a_day(shop: Path, xscore: Run) -> None:
    """The second answer of a day ends without the hint; that no model judged is said each time."""
    first, second = (xscore("ask", TASK, cwd=shop).stderr for _ in range(2))
    assert "OPENAI_API_KEY" in first and "OPENAI_API_KEY" not in second
    assert "no model" in first and second.count("no model ") == 1

"""The page about twelve repositories is exactly what its script generates."""

import re

from benchmarks.repositories import HEADS, INTRODUCTION, PAGE, REPOSITORIES, as_row

CELLS = re.compile(r"[\d,]+|\$\d+\.\d{3}, \d+ s")


def test_the_page_has_the_form_of_its_script() -> None:
    """The page has its text and headings, one row of figures for each repository and commit, and
    kinds that add up."""
    page = PAGE.read_text("utf-8")
    assert page.startswith(f"{INTRODUCTION}\n{as_row(*HEADS)}\n|{'---|' * len(HEADS)}\n")
    table = [
        line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| [")
    ]
    assert len(table) == len(REPOSITORIES) == page.count("\n| [")
    for (place, language, *figures), repository in zip(table, REPOSITORIES, strict=True):
        assert repository.name in place
        assert repository.commit in place
        assert language == repository.language
        assert len(figures) == len(HEADS) - 2 and all(map(CELLS.fullmatch, figures))
        memories, *kinds = (
            int(figure.replace(",", "")) for figure in figures[: HEADS.index("tokens") - 2]
        )
        assert sum(kinds) == memories

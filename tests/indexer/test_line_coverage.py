"""Every line of an indexed file is in some memory."""

from pathlib import Path

from tests.indexer.conftest import unseen_lines

ROOT = Path(__file__).parents[2]


def test_this_repository_is_seen_whole() -> None:
    """X15, X17, X18: prose, configuration and queries of this repository are covered like code."""
    for suffix in ("md", "toml", "scm", "sql", "py"):
        for file in ROOT.joinpath("xscore").rglob(f"*.{suffix}"):
            assert unseen_lines(str(file.relative_to(ROOT)), file.read_text("utf-8")) == []
    for name in ("README.md", "pyproject.toml", "Makefile"):
        if (ROOT / name).is_file():
            assert unseen_lines(name, (ROOT / name).read_text("utf-8")) == []

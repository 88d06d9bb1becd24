"""Every line of an indexed file is in some memory."""

from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.indexer.conftest import unseen_lines
from xscore.indexer.languages import LANGUAGES

ROOT = Path(__file__).parents[2]
FRAGMENTS = st.sampled_from(
    [
        *(
            "def f(x):",
            "    return 1",
            "class A:",
            "    x = 1",
            "    def m(self): pass",
            "@deco",
            "# note",
            '"""doc"""',
        ),
        *("function g() {", "}", "const h = () => {", "};", "x.y = function () { return 1 }", "// c", "/** d */"),
        *("describe('a', () => {", "  it('b', () => {", "  })", "})", "export default {", "  go() {", "  },"),
        *("# Title", "## Sub", "```", "text `name` more", "Title", "=====", "-----", "- a", "  b: 1", "key: value"),
        *("[table]", "a = 1", '{"a": {', '"b": [1, 2]', "}}", "; c", "", "", "   ", "\t", "é = 'ü'", "((((", "]]"),
    ]
)
SUFFIXES = sorted({suffix for row in LANGUAGES for suffix in row.suffixes})


def package_files(name: str) -> list[Path]:
    """Source files of an installed package."""
    spec = find_spec(name)
    assert spec is not None
    assert spec.submodule_search_locations
    return sorted(Path(spec.submodule_search_locations[0]).rglob("*.py"))


@pytest.mark.parametrize("package", ["click", "rich", "pydantic", "_pytest"])
@pytest.mark.verify
def test_real_packages_are_seen_whole(package: str) -> None:
    """X15: in real source trees, no line that is not blank is missing from the memories."""
    files = package_files(package)
    assert len(files) > 10
    for file in files:
        assert unseen_lines(file.name, file.read_text("utf-8")) == []


def test_this_repository_is_seen_whole() -> None:
    """X15, X17, X18: prose, configuration and queries of this very repository are covered like code."""
    for suffix in ("md", "toml", "scm", "sql", "py"):
        for file in ROOT.joinpath("xscore").rglob(f"*.{suffix}"):
            assert unseen_lines(str(file.relative_to(ROOT)), file.read_text("utf-8")) == []
    for name in ("README.md", "pyproject.toml", "Makefile"):
        if (ROOT / name).is_file():
            assert unseen_lines(name, (ROOT / name).read_text("utf-8")) == []


@settings(max_examples=50, deadline=None)
@given(lines=st.lists(FRAGMENTS, max_size=40), suffix=st.sampled_from(SUFFIXES))
def test_no_text_loses_a_line(lines: list[str], suffix: str) -> None:
    """Whatever the lines and whatever the language, each line that is not blank is in some memory."""
    assert unseen_lines("pkg/file" + suffix, "\n".join(lines)) == []

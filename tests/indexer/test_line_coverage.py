"""Every line of an indexed file is in some memory."""

from pathlib import Path

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
SUFFIXES = sorted({claim for row in LANGUAGES for claim in row.claims.split() if claim.startswith(".")})


def test_this_repository_is_seen_whole() -> None:
    """X15, X17, X18: prose, configuration and queries of this repository are covered like code."""
    for suffix in ("md", "toml", "scm", "sql", "py"):
        for file in ROOT.joinpath("xscore").rglob(f"*.{suffix}"):
            assert unseen_lines(str(file.relative_to(ROOT)), file.read_text("utf-8")) == []
    for name in ("README.md", "pyproject.toml", "Makefile"):
        if (ROOT / name).is_file():
            assert unseen_lines(name, (ROOT / name).read_text("utf-8")) == []


@settings(max_examples=50, deadline=None)
@given(lines=st.lists(FRAGMENTS, max_size=40), suffix=st.sampled_from(SUFFIXES))
def test_no_text_loses_a_line(lines: list[str], suffix: str) -> None:
    """For any lines and any language, each non-blank line is in some memory."""
    assert unseen_lines("pkg/file" + suffix, "\n".join(lines)) == []

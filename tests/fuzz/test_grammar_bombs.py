"""Whatever a file repeats, its grammar gets a second and 300 MB of it, and no line is lost.

What this finds and differs in kind becomes an example in `tests/indexer/bombs.py`.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.indexer.bombs import check_cost
from xscore.indexer.grammars import has_grammar, load_parser
from xscore.indexer.languages import LANGUAGES, Language, language_named

SIZES = (16_000, 64_000)
GRAMMARS = {row.name: row for row in LANGUAGES if has_grammar(row)}
PARTS = {
    "html": ("<script>\n{}\n</script>\n", "javascript"),
    "vue": ('<script lang="ts">\n{}\n</script>\n', "typescript"),
    "notebook": ("# %%\n{}\n", "python"),
}
"""A file that holds another language: the frame, and what is in it."""
WORDS = (
    "a",
    "A",
    "1",
    '"a"',
    "'a'",
    "/*",
    "*/",
    "//",
    "#",
    "\\",
    " ",
    "  ",
    "\n",
    "\n  ",
    "é",
    "\t",
)


def tokens_of(language: Language) -> list[str]:
    """Return the marks and keywords of a grammar, and some names, literals and white space."""
    _, grammar = load_parser(language)
    kinds = range(grammar.node_kind_count)
    plain = {
        grammar.node_kind_for_id(kind) or ""
        for kind in kinds
        if not grammar.node_kind_is_named(kind)
    }
    return sorted({*WORDS, *(token for token in plain if token and "\0" not in token)})


@pytest.mark.nightly
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("name", [*GRAMMARS, *PARTS])
@settings(max_examples=40)
@given(data=st.data())
def test_no_repetition_costs_more_than_a_second(name: str, data: st.DataObject) -> None:
    """Any few tokens of a grammar, repeated after any few others, at 16 and 64 kB."""
    frame, inner = PARTS.get(name, ("{}", name))
    tokens = st.lists(
        st.sampled_from(tokens_of(language_named(inner))), min_size=1, max_size=4
    ).map("".join)
    head, fragment = data.draw(st.just("") | tokens), data.draw(tokens)
    size = data.draw(st.sampled_from(SIZES))
    text = (head + fragment * (size // len(fragment)))[:size]
    suffix = next(
        claim for claim in language_named(name).claims.split() if claim.startswith(".")
    )
    check_cost(f"file{suffix}", frame.replace("{}", text))

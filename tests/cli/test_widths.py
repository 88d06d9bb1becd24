"""Lines that fit a window, whatever letters they are of."""

from hypothesis import given
from hypothesis import strategies as st

from xscore.cli.terminal import display_width, truncate_line, truncate_middle, wrapped
from xscore.cost_reports.report_text import render_columns

LINES = st.text(st.sampled_from("ab1:/.表語é \u200b"), max_size=60)


@given(LINES, st.integers(3, 60))
def test_a_line_that_is_cut_fits(line: str, width: int) -> None:
    """Wide letters take two columns; what fits is left as it is, and an ellipsis stands for the rest."""
    for found in (truncate_line(line, width), truncate_middle(line, width)):
        assert display_width(found) <= width
        assert (found == line) if display_width(line) <= width else "…" in found
    assert truncate_line(line, None) == line


def test_the_middle_is_cut_out_of_a_name() -> None:
    """Both ends of a name stay, since names differ at either."""
    assert truncate_middle("openai:a-very-long-name-2026", 14) == "openai…me-2026"


@given(st.lists(LINES.filter(bool), min_size=1, max_size=5))
def test_figures_stand_below_each_other(names: list[str]) -> None:
    """The column beside names ends at the same place in each line, and no line is wider than the window."""
    head, *lines = render_columns(("name", "n"), [(name, "1") for name in names], words=1, width=24)
    assert len({display_width(line) for line in lines}) == 1
    assert display_width(lines[0]) <= 24
    assert all(line.endswith("1") for line in lines)
    assert "name" in head


@given(LINES.map(lambda line: line.replace(".", " ").replace("/", " · ")), st.integers(12, 60))
def test_breaking_a_line_loses_no_word(line: str, width: int) -> None:
    """Words come in their order, none is torn apart, and only a word that is wider than the room passes the width."""
    found = wrapped(line, width)
    assert found.split() == line.split()
    for each in found.split("\n"):
        assert display_width(each) <= width or len(each.split()) <= 2
    assert wrapped(line, None) == line


def test_a_line_breaks_between_figures() -> None:
    """Figures stay whole, and go on below the first one, not below the label."""
    line = "judge    956 of 1,000 to judge · 64 calls · 1.3M in / 77k out · ~$0.204 · 18 s · api.openai.com"
    assert wrapped(line, 50) == (
        "judge    956 of 1,000 to judge · 64 calls ·\n"
        "         1.3M in / 77k out · ~$0.204 · 18 s ·\n"
        "         api.openai.com"
    )


def test_a_sentence_breaks_between_words() -> None:
    """A note without figures goes on two columns in; each line of a block is broken for itself."""
    assert wrapped("no cap on dollars holds its calls\nshort", 16) == ("no cap on\n  dollars holds\n  its calls\nshort")

"""Summary and comment: bounded, well closed, and without active content from others."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.write_report import (
    ACTIVE,
    CODE,
    COMMENT_BYTES,
    NOTHING,
    as_it_was,
    bounded,
    passive,
    together,
)

NO_SURROGATES = st.text(st.characters(exclude_categories=["Cs"]))


@given(text=NO_SURROGATES, max_bytes=st.integers(100, 400))
def test_what_is_bounded_is_bounded(text: str, max_bytes: int) -> None:
    """A text is complete, or cut to N bytes with a note."""
    kept = bounded(text, max_bytes)
    assert kept == text or (len(kept.encode()) <= max_bytes and "cut here" in kept)


@pytest.mark.parametrize(
    "line",
    [
        "`" * 30,
        "ä line",
        "x" * 30_000,
        "```",
        "\r```\r@ada",
        "</details>\n# kept 9",
        "\n\n\na",
        "\x0b\x0c\u2028- a",
    ],
)
def test_what_was_printed_stays_code_however_long(line: str, tmp_path: Path) -> None:
    """Whatever an answer holds and wherever it is cut, it stays inside its fence and fits into a
    comment."""
    (tmp_path / "out").write_text(f"{line}\n" * (60_000 // len(line)), "utf-8")
    text = together("# kept 3\n" * 20_000, as_it_was(tmp_path / "out"), COMMENT_BYTES)
    assert len(text.encode()) <= COMMENT_BYTES
    assert "\r" not in text
    report, _, printed = text.partition(
        "<details><summary>What the command printed</summary>\n\n"
    )
    assert report.endswith("the page has the rest.\n\n")
    code, _, rest = printed.rpartition("\n\n</details>\n")
    assert rest == ""
    lines = code.removesuffix("\n\n… cut here: the page has the rest.").split("\n")
    assert [code_line for code_line in lines if not code_line.startswith(CODE)] == []


@pytest.mark.parametrize(
    ("text", "active"),
    [
        ("ask @ada and @org/team", "@ada"),
        (r"escaped \@ada", "@ada"),
        ("_@ada_ **@ada** (@ada)", "@ada"),
        ("&#64;ada", "&#64;"),
        ("fixes #12, other/repo#12, GH-12", "#12"),
        (r"\#12", "#12"),
        ("GH-12", "GH-12"),
        ("![x](https://evil.invalid/a.png)", "]("),
        ("![x](//evil.invalid/a.png)", "]("),
        ("![x][y]\n\n[y]: //evil.invalid/a.png", "]:"),
        ("see https://evil.invalid", "://"),
        (r"see https:\//evil.invalid", ":\\/"),
        ("see www.evil.invalid", "www."),
        ("<img src=//evil.invalid>", "<img"),
        ("</details><!-- x -->", "<!--"),
    ],
)
def test_what_others_wrote_is_passive(text: str, active: str) -> None:
    """A name mentions no user; addresses, images and HTML stay text and read as before."""
    shown = passive(text)
    assert active in text and active not in shown
    assert shown.replace(NOTHING, "") == text


@given(text=NO_SURROGATES)
def test_what_is_passive_stays_so(text: str) -> None:
    """No active content remains, whatever surrounds it."""
    assert ACTIVE.search(passive(text)) is None


@pytest.mark.parametrize(
    "text",
    ["recall@8 is 0.9", "| kept | ---: |", "## xscore report: turn t_1", "at 08:55: 3 × 429"],
)
def test_our_own_figures_stay_as_they_are(text: str) -> None:
    """Numbers, tables and headings are unchanged."""
    assert passive(text) == text

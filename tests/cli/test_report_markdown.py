"""Foreign text in Markdown is shown literally and has no effect; checked with a real renderer."""

import html
import re

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from xscore.cost_reports.report_files import escape_markdown
from xscore.platform.text import one_line

NO_WIDTH = "\u200b"
MADE_OF_PLAIN_TEXT = re.compile(
    r"@[a-z0-9]|#[0-9]|\bgh-[0-9]|://|\bwww\.[a-z0-9]|\b(?:mailto|xmpp):[a-z0-9]", re.IGNORECASE
)
"""What GitHub turns into a mention, a reference or a link, anywhere in a page."""
PIECES = (
    *(
        "@octocat",
        "@org/team",
        "#12",
        "GH-7",
        "org/repo#3",
        "https://x.example/p.png",
        "www.x.example",
        "a@b.example",
    ),
    *(
        "![x](https://x.example/p.png)",
        "[x](javascript:0)",
        "<img src=https://x.example>",
        "<!--",
        "&lt;",
        "mailto:a@b",
    ),
    *(
        "|",
        "`",
        "``",
        "*",
        "**",
        "_",
        "~~",
        "\\",
        "$x$",
        "$",
        "![",
        "](",
        "\n",
        "\r",
        " ",
        "word",
        "é",
        "表",
        "\u200d",
    ),
)
TEXTS = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)


def rendered(text: str) -> str:
    """Render HTML as GitHub does, with tables and strike-through."""
    page: str = MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(text)
    return page


def shown(page: str) -> str:
    """Return the visible text of a page."""
    return html.unescape(re.sub(r"<[^>]*>", "", page))


@given(TEXTS)
def test_any_text_is_shown_as_it_is_and_nothing_comes_of_it(text: str) -> None:
    """In a table it is one cell without tags, keeps its characters and mentions no user."""
    page = rendered(f"| a | b |\n|---|---|\n| x{escape_markdown(text)}x | end |")
    (cell, _) = re.findall(r"<td>(.*?)</td>", page, re.DOTALL)
    assert "<" not in cell
    assert shown(cell).replace(NO_WIDTH, "") == f"x{one_line(text)}x"
    assert MADE_OF_PLAIN_TEXT.search(shown(cell)) is None

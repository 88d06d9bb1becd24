"""Markdown of others as HTML that does nothing but show it.

What the text may hold is paragraphs, lists, emphasis, tables and code. Links, images and markup
stay as they are written: an answer may repeat what a stranger put into the repository, and nothing
in it leads elsewhere. Trade-off: an address has to be copied.
"""

from collections.abc import Callable, Sequence

from markdown_it import MarkdownIt
from markdown_it.token import Token

from xscore.platform.text import escape_controls

_NOT_RENDERED = ("link", "image", "autolink", "html_inline", "html_block", "reference")
Rewrite = Callable[[Sequence[Token]], list[Token]]


def markdown_html(text: str, rewrite: Rewrite | None = None) -> str:
    """Return the text as HTML in which everything is escaped but the marks made here.

    rewrite: what becomes of the tokens of a line; what it makes HTML, it has escaped.
    """
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table").disable(_NOT_RENDERED)
    tokens = markdown.parse(escape_controls(text))
    for token in tokens:
        if rewrite is not None and token.type == "inline" and token.children:
            token.children = rewrite(token.children)
    html: str = markdown.renderer.render(tokens, markdown.options, {})
    return html

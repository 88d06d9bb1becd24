"""The answer as HTML: its Markdown, and citations as links to the memories that they mean.

What the text may hold is said in `platform/markdown_html.py`. Trade-off: a citation whose id begins
two of the chosen is marked as unknown.
"""

import re
from collections.abc import Sequence
from html import escape

from markdown_it.token import Token

from xscore.extensions.pages.records import ListedMemory
from xscore.extensions.pages.threads import name_of
from xscore.platform.markdown_html import markdown_html
from xscore.platform.text import ellipsize, one_line

NAME_CHARS = 48
_BRACKET = re.compile(r"\[[^\[\]\n]{0,400}\]")
_ID = re.compile(r"m_[0-9a-f]{1,64}")


def answer_html(answer: str, kept: Sequence[ListedMemory]) -> str:
    """Return the answer as HTML in which everything is escaped but the marks made here."""
    return markdown_html(answer, lambda tokens: _with_citations(tokens, kept))


def _with_citations(tokens: Sequence[Token], kept: Sequence[ListedMemory]) -> list[Token]:
    """Return the tokens of a line, with the citations in its text as links."""
    written: list[Token] = []
    for token in tokens:
        if token.type == "text" and "m_" in token.content:
            written.append(Token("html_inline", "", 0, content=_linked(token.content, kept)))
        else:
            written.append(token)
    return written


def _linked(text: str, kept: Sequence[ListedMemory]) -> str:
    pieces: list[str] = []
    end = 0
    for bracket in _BRACKET.finditer(text):
        ids = _ID.findall(bracket[0])
        if not ids:
            continue
        pieces.append(escape(text[end : bracket.start()]))
        pieces += [_citation(cited_id, kept) for cited_id in ids]
        end = bracket.end()
    pieces.append(escape(text[end:]))
    return "".join(pieces)


def _citation(cited_id: str, kept: Sequence[ListedMemory]) -> str:
    """Return the link to the one chosen memory that an id, or its beginning, means."""
    numbers = [
        number
        for number, entry in enumerate(kept, start=1)
        if entry.memory.id.startswith(cited_id)
    ]
    if len(numbers) != 1:
        return (
            f'<span class="cite unknown" title="not among the chosen">{escape(cited_id)}</span>'
        )
    number = numbers[0]
    name = ellipsize(one_line(name_of(kept[number - 1].memory)), NAME_CHARS)
    return f'<a class="cite" href="#kept-{number}">{number} {escape(name)}</a>'

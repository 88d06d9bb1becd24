"""HTML from text: the one gate between what a repository or a model says and the page.

A plain `str` is text and is escaped wherever it enters an element; only `Html` passes as it is, and only this module
and constants of our own make it. What no text should hold is shown as an escape (`safe_text`): it could reorder what
is read, or make the file impossible to write. It knows no element by meaning.
Trade-off: end tags that HTML lets one leave out are left out, for a page of a thousand turns is mostly cells.
"""

from collections.abc import Iterable
from html import escape

from xscore.safe_text import visible

_NO_END = frozenset({"td", "th", "tr", "tbody", "meta", "br", "line", "rect", "path", "circle"})
_VOID_IN_SVG = frozenset({"line", "rect", "path", "circle"})


class Html(str):
    """Markup that is ready to stand in the page."""

    __slots__ = ()


def text(words: str) -> Html:
    """Make any text harmless, in an element and in a quoted attribute."""
    return Html(escape(visible(words), quote=True))


def element(name: str, *children: str, **attributes: str | float) -> Html:
    """Make an element; `class_` is `class`, other underscores are hyphens, and an empty value is no attribute."""
    said = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(value) if isinstance(value, str) else number(value)}"'
        for key, value in attributes.items()
        if value != ""
    )
    if name in _VOID_IN_SVG:
        return Html(f"<{name}{said}/>")
    return Html(f"<{name}{said}>{joined(children)}" + ("" if name in _NO_END else f"</{name}>"))


def joined(children: Iterable[str]) -> Html:
    """Put pieces beside each other; what is not `Html` is escaped."""
    return Html("".join(child if isinstance(child, Html) else text(child) for child in children))


def number(value: float) -> str:
    """Write a coordinate: at most one decimal, no trailing zero."""
    return f"{value:.1f}".removesuffix(".0")

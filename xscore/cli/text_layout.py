"""The one text renderer: tables, labelled facts, wrapped lines, emphasis. It writes nothing;
`terminal` does.

A stream that shows no color drops the emphasis. Trade-off: tables are set in plain Python, since
importing rich costs more CPU than most commands; rich draws the live board and measures wide
characters.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import ModuleType

import click

from xscore.platform.text import one_line

_NO_BREAK = "\0"
_NAME_BREAK = r"(?<=/)(?=[^/])|(?<=[^:])(?=::)|(?<=[A-Za-z_)]\.)(?=[A-Za-z_])"
"""Where the name of a file or entity may end a line: behind a slash or dot, before colons."""
_LABEL = r"\A(?: *\S+(?: \S+)* {2,}| +)"
"""The prefix of a line: a label and its gap, or an indent."""


def bold(text: str) -> str:
    """Set a heading or score in bold; dropped if the stream shows no color."""
    return click.style(text, bold=True)


def faint(text: str) -> str:
    """Set secondary text faint."""
    return click.style(text, dim=True)


def _display_width(cell: str) -> int:
    plain = click.unstyle(cell)
    if plain.isascii():
        return len(plain)
    width: int = _cells().cell_len(plain)
    return width


def _cells() -> ModuleType:
    import rich.cells  # only for text that is not ASCII

    return rich.cells


def render_facts(rows: Iterable[tuple[str, str]]) -> str:
    """Set labels and values in two columns; a row without a value is left out."""
    shown = [(label, value) for label, value in rows if value]
    width = max((len(label) for label, _ in shown), default=0)
    return "\n".join(f"{label:<{width}}  {value}" for label, value in shown)


def render_table(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Collection[str] = (),
    width: int | None = None,
) -> str:
    """Set a table under faint heads; no heads: rows only. Cells are printed unchanged, so escape
    names first.

    right: heads of right-aligned columns, which hold figures.
    width: columns of the window, to which the widest column of text is cut, then line ends; where
        figures would be cut, each row is set as a block. None: nothing is cut.
    """
    table = [heads, *rows] if heads else rows
    widths = [max(map(_display_width, column)) for column in zip(*table, strict=True)]
    over = 0
    if width is not None:
        over = sum(widths) + 2 * (len(widths) - 1) - width
    texts = [at for at in range(len(widths)) if not heads or heads[at] not in right]
    if over > 0 and texts:
        widest = max(texts, key=lambda at: widths[at])
        chars_left = max(12, widths[widest] - over)
        over -= max(0, widths[widest] - chars_left)
        widths[widest] = min(chars_left, widths[widest])
    if over > 0 and heads and right:
        return "\n\n".join(render_facts(zip(heads, row, strict=True)) for row in rows)
    lines = []
    for row in table:
        cells = [
            _fit(cell, size, is_figure=bool(heads) and heads[at] in right)
            for at, (cell, size) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(truncate("  ".join(cells).rstrip(), width))
    return "\n".join([faint(lines[0]), *lines[1:]] if heads else lines)


def _fit(cell: str, size: int, *, is_figure: bool) -> str:
    cell = truncate(cell, size)
    gap = " " * (size - _display_width(cell))
    if is_figure:
        return gap + cell
    return cell + gap


def most_first(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return names and counts, the largest count first."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def render_counts(counts: Mapping[str, int]) -> str:
    """`812 function · 41 class`, most first."""
    parts = [f"{count:,} {one_line(name)}" for name, count in most_first(counts)]
    return " · ".join(parts) or "none"


def wrapped(text: str, width: int | None) -> str:
    """Break long lines between words; continuation lines align with the text after a label, or
    indent by two."""
    if width is None:
        return text
    return "\n".join(_wrap_line(line, width) for line in text.split("\n"))


def _wrap_line(line: str, width: int) -> str:
    if _display_width(line) <= width:
        return line
    label = re.match(_LABEL, click.unstyle(line))
    is_short = label is not None and len(label[0]) <= width // 3
    indent = " " * (len(label[0]) if label and is_short else 2)
    start = len(line) - len(line.lstrip())
    parts = line.strip().split(" · ")
    widest = start + _display_width(parts[0])
    for part in parts[1:]:
        widest = max(widest, len(indent) + _display_width(part))
    if widest + len(" ·") <= width:  # a line ends between two of them, not inside one
        unbroken = [part.replace(" ", _NO_BREAK) for part in parts]
        line = line[:start] + f"{_NO_BREAK}· ".join(unbroken)
    elif is_short:  # a label stays with what it labels, even if wider than the window
        line = re.sub(_LABEL, lambda gap: gap[0].replace(" ", _NO_BREAK), line, count=1)
    return _fill(line, width, indent).replace(_NO_BREAK, " ")


def _fill(line: str, width: int, indent: str) -> str:
    """Break a line before each word that ends behind the width; `textwrap` counts the signs of
    color as letters."""
    filled = ""
    taken = 0
    for gap, word in _words(line, width - len(indent)):
        size = _display_width(word.replace(_NO_BREAK, " "))
        if filled and taken + len(gap) + size > width:
            filled = f"{filled}\n{indent}{word}"
            taken = len(indent) + size
        else:
            filled = filled + gap + word
            taken = taken + len(gap) + size
    return filled


def _words(line: str, room: int) -> Iterator[tuple[str, str]]:
    """Yield the words of a line, each with the gap before it; a name wider than `room` in parts
    that end at a sign."""
    # The word may be empty: a run of spaces at the end is then read once, not from each of its
    # places.
    for gap, word in re.findall(r"( *)([^ ]*)", line):
        if not word:
            continue
        if _display_width(word.replace(_NO_BREAK, " ")) <= room:
            yield gap, word
            continue
        first, *rest = re.split(_NAME_BREAK, word)
        yield gap, first
        yield from (("", part) for part in rest)


def truncate(text: str, width: int | None) -> str:
    """Cut the end off a text wider than this. None: it is not cut."""
    if width is None or _display_width(text) <= width:
        return text
    shortened: str = _cells().set_cell_size(text, max(width - 1, 0))
    return shortened.rstrip() + "…"

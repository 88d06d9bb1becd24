"""The two streams, and the one renderer: results go to stdout, everything said about them to stderr.

Live progress exists only on a terminal; color also with `--color always`. It decides where, how loudly and in what
columns something is printed, never what. Trade-off: tables are set in plain Python, since importing rich costs more
CPU than most commands; rich draws the live board alone.
"""

import os
import re
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, TextIO, TypeVar

import click
from msgspec import Struct, field

from xscore.platform.errors import UsageError
from xscore.platform.text import escape_controls, one_line, safe_json

COLOR_MODES = ("auto", "always", "never")
OUTPUT: dict[str, Callable[[Any], Any]] = {
    "as_json": click.option("--json", "as_json", is_flag=True, help="Print one JSON object, also for errors."),
    "quiet": click.option("-q", "--quiet", is_flag=True, help="No progress, notes or cost line."),
    "verbose": click.option("-v", "--verbose", is_flag=True, help="Say more; show the traceback of a bug."),
    "color": click.option("--color", type=click.Choice(COLOR_MODES), help="Color the output; auto by default."),
}
"""They stand before or after the command."""
_LABEL = r" *\S+ {2,}| +"
"""What stands before the words of a line: a label and its gap, or an indent."""
_color = {"mode": "auto"}

Record = TypeVar("Record")


def set_color(mode: str | None) -> None:
    """Choose when output is colored; None is `auto`: on a terminal, unless NO_COLOR is set."""
    _color["mode"] = mode or "auto"


def print_json(value: object) -> None:
    """Write one JSON object to stdout; in ASCII where stdout is not UTF-8."""
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    _write(safe_json(value, ascii_only=encoding != "utf8") + "\n")


class Terminal(Struct):
    """How loudly to speak, and where. `--json` and `--quiet` come in here and nowhere else."""

    as_json: bool = False
    quiet: bool = False
    verbose: bool = False
    noted: set[str] = field(default_factory=set)
    """Notes already given; each is given once."""

    @property
    def is_live(self) -> bool:
        """Whether progress can be drawn: stderr is a terminal that can move its cursor, and we may speak."""
        return not self.quiet and sys.stderr.isatty() and os.environ.get("TERM", "") != "dumb"

    @property
    def can_ask(self) -> bool:
        """Whether someone is there to answer a question."""
        return sys.stdin.isatty() and sys.stderr.isatty()

    def print_result(self, record: Record, render: Callable[[Record], str], **more: object) -> None:
        """Write a result to stdout: under `--json` the record (or a mapping) and `more`, else the rendered text."""
        if not self.as_json:
            write_stdout(render(record))
            return
        from xscore.pipeline.json_form import SCHEMA, to_json

        print_json({**(({"schema": SCHEMA} | record) if isinstance(record, dict) else to_json(record)), **more})

    def data(self, text: str) -> None:
        """Write the result to stdout: as it is into a pipe or file, harmless onto a terminal."""
        _write(text_for_stdout(text) + ("" if text.endswith("\n") else "\n"))

    def stream(self, text: str) -> None:
        """Write a piece of a result at once, with no line end added."""
        _write(text_for_stdout(text))

    def lines(self, text: str) -> None:
        """Write a block made for people to stderr."""
        if not self.quiet and text:
            write_stderr(text)

    def note(self, message: str, *, say: Callable[[str], None] | None = None) -> None:
        """Say something the user should know, once, on one line of stderr; by `say` where a board is drawn there."""
        if not self.quiet and message not in self.noted:
            self.noted.add(message)
            (say or write_stderr)(one_line(message))

    def notes(self, messages: Iterable[str]) -> None:
        """Say each of these that is not empty."""
        for message in filter(None, messages):
            self.note(message)

    def confirm(self, question: str, *, yes: bool, otherwise: str) -> bool:
        """Ask before something that cannot be undone; no is the default. otherwise: what is said after a no.

        Raises UsageError where nobody can answer and `yes` was not given.
        """
        if yes:
            return True
        if not self.can_ask:
            raise UsageError(f"there is nobody to ask: {question}", hint="Say --yes, or look first with --dry-run.")
        if click.confirm(question, default=False, err=True):
            return True
        self.note(otherwise)
        return False


def bold(text: str) -> str:
    """Mark a heading or score; the mark goes where the stream shows no color."""
    return click.style(text, bold=True) if _color_allowed() else text


def faint(text: str) -> str:
    """Mark what is secondary."""
    return click.style(text, dim=True) if _color_allowed() else text


def terminal_columns() -> int:
    """Columns that a page may have: those of the terminal, or of `COLUMNS`."""
    return shutil.get_terminal_size().columns


def stdout_columns() -> int | None:
    """Columns of the terminal that reads stdout; None where it is a pipe or file, which gets whole lines."""
    return terminal_columns() if sys.stdout.isatty() else None


def display_width(line: str) -> int:
    """Return the columns that a line takes; wide characters take two."""
    if line.isascii():
        return len(line)
    from rich.cells import cell_len

    return cell_len(line)


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
    shrink: bool = False,
) -> str:
    """Set a table under faint heads; no heads: rows alone. Cells are printed as they are, so escape names before.

    right: heads of the columns that hold figures. width: columns of the window; None: no line is cut. shrink: cut the
    names of the first column to make room, instead of the ends of the lines.
    """
    table = [list(heads), *map(list, rows)] if any(heads) else list(map(list, rows))
    if not table:
        return ""
    widths = [max(_styled_width(row[at]) for row in table) for at in range(len(table[0]))]
    spare = 0 if width is None else width - sum(widths) - 2 * (len(widths) - 1)
    if shrink and spare < 0:
        widths[0] = max(12, widths[0] + spare)
    lines = []
    for row in table:
        first, *others = row
        cells = [truncate_middle(first, widths[0]) if shrink else first, *others]
        padded = [
            _pad(cell, size, at < len(heads) and heads[at] in right)
            for at, (cell, size) in enumerate(zip(cells, widths, strict=True))
        ]
        lines.append(truncate_line("  ".join(padded).rstrip(), None if shrink else width))
    return "\n".join([faint(lines[0]), *lines[1:]] if any(heads) else lines)


def _styled_width(cell: str) -> int:
    return display_width(click.unstyle(cell))


def _pad(cell: str, size: int, is_figure: bool) -> str:
    gap = " " * (size - _styled_width(cell))
    return gap + cell if is_figure else cell + gap


def render_counts(counts: dict[str, int]) -> str:
    """`812 function · 41 class`, most first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return " · ".join(f"{count:,} {one_line(name)}" for name, count in ordered) or "none"


def wrapped(text: str, width: int | None) -> str:
    """Break lines that take more columns: between figures (` · `) where there are some, else between words.

    What goes on stands below the words after a label, or two columns in. None: nothing is broken; nor is a word.
    """
    return text if width is None else "\n".join(_wrap_line(line, width) for line in text.split("\n"))


def _wrap_line(line: str, width: int) -> str:
    plain = click.unstyle(line)
    if display_width(plain) <= width:
        return line
    label = re.match(_LABEL, plain)
    indent = " " * (len(label[0]) if label and len(label[0]) <= width // 3 else 2)
    start = len(line) - len(line.lstrip(" "))
    first, *others = _unbreakable_parts(line[start:], width - len(indent))
    lines = [line[:start] + first]
    for piece in others:
        longer = f"{lines[-1]} {piece}"
        if display_width(click.unstyle(longer)) <= width:
            lines[-1] = longer
        elif piece:
            lines.append(indent + piece)
    return "\n".join(lines)


def _unbreakable_parts(line: str, room: int) -> Iterator[str]:
    """Yield a figure with its point, or each word where the figure is wider than the room."""
    *figures, last = line.split(" · ")
    for figure in [*(f"{figure} ·" for figure in figures), last]:
        if figures and display_width(click.unstyle(figure)) <= room:
            yield figure
        else:
            yield from figure.split(" ")


def truncate_line(line: str, width: int | None) -> str:
    """Cut the end off a line that takes more columns. None: it is not cut."""
    if width is None or display_width(line) <= width:
        return line
    from rich.cells import set_cell_size

    return set_cell_size(line, max(width - 1, 0)).rstrip() + "…"


def truncate_middle(line: str, width: int) -> str:
    """Cut the middle out of a line that takes more columns: names differ at both ends."""
    if display_width(line) <= width:
        return line
    from rich.cells import set_cell_size

    head, tail = set_cell_size(line, max(width // 2 - 1, 0)), set_cell_size(line[::-1], width - width // 2)
    return f"{head}…{tail[::-1]}"


def text_for_stdout(text: str) -> str:
    """Escape control characters where a terminal would obey them."""
    return escape_controls(text) if sys.stdout.isatty() else text


def _stream_columns(stream: TextIO) -> int | None:
    """Columns of the terminal behind a stream, or of `COLUMNS`; None: it is none."""
    if not stream.isatty():
        return None
    try:
        return int(os.environ.get("COLUMNS", "")) or terminal_columns()
    except ValueError:
        return os.get_terminal_size(stream.fileno()).columns or terminal_columns()


def write_stdout(text: str) -> None:
    """Write a block made for people to stdout; colors go where it shows none."""
    text = wrapped(text, _stream_columns(sys.stdout))
    _write((text if _shows_color(sys.stdout) else click.unstyle(text)) + "\n")


def write_stderr(text: str) -> None:
    """Write to stderr; a reader who left, or a full disk there, changes nothing of the work or its result."""
    try:
        click.echo(wrapped(text, _stream_columns(sys.stderr)), err=True, color=_shows_color(sys.stderr))
    except OSError:
        discard_stream(sys.stderr)


def discard_stream(stream: TextIO) -> None:
    """Send what else is written to a stream nowhere, so that Python does not complain of it at exit either."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _color_allowed() -> bool:
    return _color["mode"] == "always" or (_color["mode"] == "auto" and not os.environ.get("NO_COLOR"))


def _shows_color(stream: TextIO) -> bool:
    return _color_allowed() and (_color["mode"] == "always" or stream.isatty())


def _write(text: str) -> None:
    """Write and flush now, so that a full disk or a closed pipe is noticed while it can be reported."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UsageError(
            f"standard output cannot be written: {error.strerror}", hint="Send it elsewhere, or make room on the disk."
        ) from error

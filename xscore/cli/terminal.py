"""The two streams: data goes to stdout, everything said about it to stderr.

Colour and live progress exist only on a terminal; pipes, files and `NO_COLOR` get plain lines. It decides where and
how loudly something is said, never what.
"""

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from typing import TextIO

import click
from msgspec import Struct, field

from xscore.platform.errors import UsageError
from xscore.platform.text import escape_controls, one_line, safe_json

_LABEL = re.compile(r" *\S+ {2,}| +")
"""What stands before the words of a line: a label and its gap, or an indent."""


def print_json(value: object) -> None:
    """Write one JSON object to stdout; in ASCII where stdout is not UTF-8."""
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    _write(safe_json(value, ascii_only=encoding != "utf8") + "\n")


class Terminal(Struct):
    """How loudly to speak, and where. `--json` and `--quiet` come in here and nowhere else."""

    as_json: bool = False
    quiet: bool = False
    verbose: bool = False
    said: set[str] = field(default_factory=set)
    """Notes already given; each is given once."""

    @property
    def is_live(self) -> bool:
        """Whether progress can be drawn: stderr is a terminal that can move its cursor, and we may speak."""
        return not self.quiet and sys.stderr.isatty() and os.environ.get("TERM", "") != "dumb"

    @property
    def can_ask(self) -> bool:
        """Whether someone is there to answer a question."""
        return sys.stdin.isatty() and sys.stderr.isatty()

    def data(self, text: str) -> None:
        """Write the result to stdout: as it is into a pipe or file, harmless onto a terminal."""
        _write(text_for_stdout(text) + ("" if text.endswith("\n") else "\n"))

    def piece(self, text: str) -> None:
        """Write a piece of a result at once, with no line end added."""
        _write(text_for_stdout(text))

    def lines(self, text: str) -> None:
        """Write a block made for people to stderr."""
        if not self.quiet and text:
            write_stderr(text, color=None if _colour_allowed() else False)

    def note(self, message: str, *, say: Callable[[str], None] | None = None) -> None:
        """Say something the user should know, once, on one line of stderr; by `say` where a board is drawn there."""
        if not self.quiet and message not in self.said:
            self.said.add(message)
            (say or write_stderr)(one_line(message))


def bold(text: str) -> str:
    """Mark a heading or score; click removes the mark where the stream is no terminal."""
    return click.style(text, bold=True) if _colour_allowed() else text


def faint(text: str) -> str:
    """Mark what is secondary."""
    return click.style(text, dim=True) if _colour_allowed() else text


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


def wrapped(text: str, width: int | None) -> str:
    """Break lines that take more columns: between figures (` · `) where there are some, else between words.

    What goes on stands below the words after a label, or two columns in. None: nothing is broken; nor is a word.
    """
    return text if width is None else "\n".join(_wrap_line(line, width) for line in text.split("\n"))


def _wrap_line(line: str, width: int) -> str:
    plain = click.unstyle(line)
    if display_width(plain) <= width:
        return line
    label = _LABEL.match(plain)
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
    """Yield what is not to be torn apart: a figure with its point, or each word where it is wider than the room."""
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
    """Write a block made for people to stdout; colours go when stdout is no terminal."""
    text = wrapped(text, _stream_columns(sys.stdout))
    _write(text + "\n" if sys.stdout.isatty() and _colour_allowed() else click.unstyle(text) + "\n")


def write_stderr(text: str, *, color: bool | None = None) -> None:
    """Write to stderr; a reader who left, or a full disk there, changes nothing of the work or its result."""
    try:
        click.echo(wrapped(text, _stream_columns(sys.stderr)), err=True, color=color)
    except OSError:
        discard_stream(sys.stderr)


def discard_stream(stream: TextIO) -> None:
    """Send what else is written to a stream nowhere, so that Python does not complain of it at exit either."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _colour_allowed() -> bool:
    return not os.environ.get("NO_COLOR")


def _write(text: str) -> None:
    """Write and flush now, so that a full disk or a closed pipe is noticed while it can be told."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UsageError(
            f"standard output cannot be written: {error.strerror}", hint="Send it elsewhere, or make room on the disk."
        ) from error

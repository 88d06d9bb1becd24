"""The two streams: results go to stdout, everything said about them to stderr.

It decides where and how verbosely to print, never what. Trade-off: lines are wrapped as they are
written, so a text for a terminal is set again for its width.
"""

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TextIO, TypeVar

import click
from msgspec import Struct, field

from xscore.platform.errors import UsageError
from xscore.platform.text import (
    PIECE_OVERLAP,
    escape_controls,
    escape_in_json,
    escape_piece,
    one_line,
    safe_json,
)

COLOR_MODES = ("auto", "always", "never")
OUTPUT = [
    click.Option(
        ["--json", "as_json"], is_flag=True, help="Print one JSON object, also for errors."
    ),
    click.Option(["-q", "--quiet"], is_flag=True, help="No progress, notes or cost line."),
    click.Option(
        ["-v", "--verbose"], is_flag=True, help="Say more; show the traceback of a bug."
    ),
    click.Option(
        ["--color"], type=click.Choice(COLOR_MODES), help="Color the output; auto by default."
    ),
]
"""Options of output, which may come before or after the command."""
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
    """How verbose to be, and where to print. Only this class reads `--json` and `--quiet`."""

    as_json: bool = False
    quiet: bool = False
    verbose: bool = False
    noted: set[str] = field(default_factory=set)
    """Notes already given; each is given once."""
    _streamed: str = ""
    """The last piece that was streamed: an emoji may come in two pieces."""

    @property
    def is_live(self) -> bool:
        """Whether progress can be drawn: stderr is a terminal that can move its cursor, and output
        is not quiet."""
        return not self.quiet and sys.stderr.isatty() and os.environ.get("TERM", "") != "dumb"

    @property
    def can_ask(self) -> bool:
        """Whether a user can answer a question."""
        return sys.stdin.isatty() and sys.stderr.isatty()

    def print_result(
        self,
        record: Record,
        text: str | Callable[[Record], str],
        *,
        none: str = "",
        more: Mapping[str, object] | None = None,
    ) -> None:
        """Write a result to stdout: under `--json` the record (or a mapping) and `more`,
        otherwise the text.

        none: the note printed instead of an empty text.
        """
        if self.as_json:
            from xscore.pipeline.json_form import SCHEMA, to_json  # text needs no JSON form

            if isinstance(record, dict):
                body = {"schema": SCHEMA, **record}
            else:
                body = to_json(record)
            print_json({**body, **(more or {})})
            return
        words = text if isinstance(text, str) else text(record)
        if words or not none:
            write_stdout(words)
        else:
            self.note(none)

    def data(self, text: str, *, is_json: bool = False) -> None:
        """Write the result to stdout, escaped: a pipe may end at a terminal, or at a model.

        is_json: the text is JSON, and is escaped so that it means the same.
        """
        safe = escape_in_json(text) if is_json else escape_controls(text)
        _write(safe + ("" if safe.endswith("\n") else "\n"))

    def stream(self, text: str) -> None:
        """Write a piece of a result at once, escaped, with no line end added."""
        _write(escape_piece(text, self._streamed))
        self._streamed = (self._streamed + text)[-PIECE_OVERLAP:]

    def lines(self, text: str) -> None:
        """Write a formatted block to stderr."""
        if not self.quiet and text:
            write_stderr(text)

    def note(self, message: str, *, say: Callable[[str], None] | None = None) -> None:
        """Print a note once, on one line of stderr; through `say` if a board is drawn there."""
        if not self.quiet and message not in self.noted:
            self.noted.add(message)
            (say or write_stderr)(one_line(message))

    def notes(self, messages: Iterable[str]) -> None:
        """Print each of these notes that is not empty."""
        for message in filter(None, messages):
            self.note(message)

    def confirm(
        self, question: str, *, yes: bool, otherwise: str, default: bool = False
    ) -> bool:
        """Ask before something that cannot be undone.

        otherwise: printed after a no.
        default: what Enter means.

        Raises UsageError if there is no terminal to ask for confirmation and `yes` was not given.
        """
        if yes:
            return True
        if not self.can_ask:
            raise UsageError(
                f"no terminal to ask for confirmation: {question}",
                hint="Pass --yes, or look first with --dry-run.",
            )
        if click.confirm(question, default=default, err=True):
            return True
        self.note(otherwise)
        return False


def _stream_columns(stream: TextIO) -> int | None:
    if not stream.isatty():
        return None
    return shutil.get_terminal_size(
        (os.get_terminal_size(stream.fileno()).columns or 80, 24)
    ).columns


def stdout_columns() -> int | None:
    """Return the columns of stdout's terminal, or None."""
    return _stream_columns(sys.stdout)


def write_stdout(text: str) -> None:
    """Write a formatted block to stdout, without colors if it shows none."""
    text = _wrapped_for(sys.stdout, text)
    if not _shows_color(sys.stdout):
        # All that came from outside is escaped already; this makes sure.
        text = escape_controls(click.unstyle(text))
    _write(text + "\n")


def write_stderr(text: str) -> None:
    """Write to stderr; a closed pipe or a full disk there does not affect the work or its
    result."""
    try:
        click.echo(_wrapped_for(sys.stderr, text), err=True, color=_shows_color(sys.stderr))
    except OSError:
        discard_stream(sys.stderr)


def _wrapped_for(stream: TextIO, text: str) -> str:
    width = _stream_columns(stream)
    if width is None:
        return text
    from xscore.cli.text_layout import wrapped  # a pipe needs no layout

    return wrapped(text, width)


def discard_stream(stream: TextIO) -> None:
    """Redirect a stream to /dev/null, so that Python does not report an error on it at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _shows_color(stream: TextIO) -> bool:
    if _color["mode"] == "auto":
        return stream.isatty() and not os.environ.get("NO_COLOR")
    return _color["mode"] == "always"


def write_bytes(content: bytes) -> None:
    """Write bytes to stdout as they are, whatever its encoding."""
    with _written_or_refused():
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.flush()


def _write(text: str) -> None:
    with _written_or_refused():
        sys.stdout.write(text)
        sys.stdout.flush()


@contextmanager
def _written_or_refused() -> Iterator[None]:
    """Raise UsageError where standard output cannot be written."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UsageError(
            f"standard output cannot be written: {error.strerror}",
            hint="Send it elsewhere, or make room on the disk.",
        ) from error

"""The two streams: data goes to stdout, everything said about it to stderr.

Colour and live progress exist only on a terminal; pipes, files and `NO_COLOR` get plain lines. It decides where and
how loudly something is said, never what.
"""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TextIO

import click

from xscore.cli.safe_text import json_text, one_line, visible
from xscore.errors import UsageError


def print_json(value: object) -> None:
    """Write one JSON object to stdout; in ASCII where stdout is not UTF-8."""
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    _write(json_text(value, ascii_only=encoding != "utf8") + "\n")


@dataclass(slots=True)
class Terminal:
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
            tell_people(text, color=None if _may_colour() else False)

    def note(self, message: str, *, say: Callable[[str], None] | None = None) -> None:
        """Say something the user should know, once, on one line of stderr; by `say` where a board is drawn there."""
        if not self.quiet and message not in self.said:
            self.said.add(message)
            (say or tell_people)(one_line(message))


def bold(text: str) -> str:
    """Mark a heading or score; click removes the mark where the stream is no terminal."""
    return click.style(text, bold=True) if _may_colour() else text


def faint(text: str) -> str:
    """Mark what is secondary."""
    return click.style(text, dim=True) if _may_colour() else text


def text_for_stdout(text: str) -> str:
    """Escape control characters where a terminal would obey them."""
    return visible(text) if sys.stdout.isatty() else text


def echo(text: str) -> None:
    """Write a block made for people to stdout; colours go when stdout is no terminal."""
    _write(text + "\n" if sys.stdout.isatty() and _may_colour() else click.unstyle(text) + "\n")


def tell_people(text: str, *, color: bool | None = None) -> None:
    """Write to stderr; a reader who left, or a full disk there, changes nothing of the work or its result."""
    try:
        click.echo(text, err=True, color=color)
    except OSError:
        let_go(sys.stderr)


def let_go(stream: TextIO) -> None:
    """Send what else is written to a stream nowhere, so that Python does not complain of it at exit either."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _may_colour() -> bool:
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

"""The decorator that makes a function a command, and the `Flags` that the function gets.

A task, errors and lists may come from files or standard input, which are read here within bounds.
The options that several commands share are in `cli/options.py`.
"""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import click
from msgspec import Struct, field

from xscore.cli.options import NO_USER_LEARNING
from xscore.cli.terminal import OUTPUT, Terminal, set_color
from xscore.platform.errors import UsageError
from xscore.platform.files import is_there
from xscore.platform.paths import decode_path_argument, find_root, is_folder_name
from xscore.platform.text import one_line, readable_text
from xscore.records.memory import Layer
from xscore.records.turn import Scope, Turn

MAX_INPUT_BYTES = 64 << 20
"""Largest task or errors read, in bytes. They are shortened anyway, and a device or a command
may never end."""
_LAST_PART = "Give only its last part."


class Flags(Struct, frozen=True):
    """Options by name; an option that the command does not have counts as not given."""

    given: Mapping[str, Any]
    overrides: Mapping[str, object] = {}
    """`section.name` -> value, for `load_settings`; None where the option was not given."""
    names: Mapping[str, str] = {}
    """`section.name` -> the option that sets it."""
    terminal: Terminal = field(default_factory=Terminal)
    """The terminal of this command, which prints each note once."""

    @property
    def assume_yes(self) -> bool:
        """Whether the user agreed to the price beforehand."""
        return bool(self.given.get("yes"))

    @property
    def dry_run(self) -> bool:
        """Whether to show what would happen and change nothing."""
        return bool(self.given.get("dry_run"))

    @property
    def all_scores(self) -> Path | None:
        """File for each candidate's line, or None."""
        return self.given.get("all_scores")

    @property
    def scope(self) -> Scope:
        """What the candidate pool is narrowed to."""
        without_memory = (Layer.GRAPH, Layer.VECTOR) if self.given.get("no_memory") else ()
        layers = tuple(self.given["layer"]) or without_memory
        globs = tuple(map(decode_path_argument, self.given["glob"]))
        inside = tuple(self.given.get("paths", ()))
        also = tuple(map(_repository, self.given.get("repo", ())))
        return Scope(globs, tuple(self.given["type"]), layers, inside, also)

    def turn(self, task: str) -> Turn:
        """Build the turn, reading the task and the errors from files or stdin if asked to."""
        errors: str | None = self.given["errors"]
        if task == "-" and errors == "-":
            raise UsageError(
                "TASK and --errors cannot both be read from standard input",
                hint="Give one as a file.",
            )
        _refuse_unquoted(task, self.scope.within)
        file, line = _file_and_line(self.given["file"] or "")
        thread = self.given.get("thread") or ""
        follows = bool(self.given.get("follows_latest"))
        if thread and follows:
            raise UsageError(
                "--thread and --continue both name a thread", hint="Give one of them."
            )
        is_fresh = bool(self.given.get("fresh"))
        goes_on = bool(thread) or follows
        # `--fresh` alone starts a new session. With `--thread` or `--continue` it keeps the thread
        # and judges everything again.
        return Turn(
            task=read_stdin() if task == "-" else readable_text(task),
            errors="" if errors is None else _read_errors(errors),
            file=file,
            line=line,
            recent=tuple(self.given["recent"]),
            thread=thread,
            follows_latest=follows,
            fresh=is_fresh and not goes_on,
            rejudge_all=is_fresh and goes_on,
            checkpoint=self.given.get("checkpoint") or "",
            scope=self.scope,
        )


class XscoreCommand(click.Command):
    """A command whose help lists tuning options separately."""

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Leave out arguments without a name: they are accepted only so that the error can say what
        was meant."""
        return list(filter(None, super().collect_usage_pieces(ctx)))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write "Options", then "Advanced"."""
        for title, advanced in (("Options", False), ("Advanced", True)):
            records = []
            for parameter in self.get_params(ctx):
                # Arguments are described in the command's text.
                if not isinstance(parameter, click.Option):
                    continue
                if getattr(parameter, "advanced", False) is not advanced:
                    continue
                record = parameter.get_help_record(ctx)
                if record:
                    records.append(record)
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def command(
    *groups: Sequence[click.Parameter],
) -> Callable[[Callable[..., Any]], XscoreCommand]:
    """Make a command with its own options, these groups, and `OUTPUT`, whose options may also
    precede the command.

    The function is given its own options by name, and all of them as `flags`.
    """
    shared: dict[str, click.Parameter] = {}
    for group in (*groups, OUTPUT, NO_USER_LEARNING):
        shared.update({str(parameter.name): parameter for parameter in group})
    names: dict[str, str] = {}
    for parameter in shared.values():
        for setting in getattr(parameter, "sets", ()):
            names[setting] = max(parameter.opts, key=len)

    def decorate(function: Callable[..., Any]) -> XscoreCommand:
        parameters: list[click.Parameter] = list(
            reversed(getattr(function, "__click_params__", []))
        )

        own_names = [str(parameter.name) for parameter in parameters]
        output_names = [str(parameter.name) for parameter in OUTPUT]

        def run(**values: Any) -> Any:
            before = click.get_current_context().find_root().params
            # An option of OUTPUT may come before the command: the group then holds it.
            for output_name in output_names:
                values[output_name] = values[output_name] or before.get(output_name)
            set_color(values["color"])
            overrides: dict[str, Any] = {}
            for name, parameter in shared.items():
                for setting in getattr(parameter, "sets", ()):
                    overrides[setting] = values[name]
            terminal = Terminal(
                bool(values["as_json"]), bool(values["quiet"]), bool(values["verbose"])
            )
            flags = Flags(values, overrides, names, terminal)
            own_values = {name: values[name] for name in own_names}
            return function(**own_values, flags=flags)

        return XscoreCommand(
            function.__name__,
            callback=run,
            params=[*parameters, *shared.values()],
            help=function.__doc__,
        )

    return decorate


def _repository(argument: str) -> str:
    """Return another repository as the turn names it: a folder is relative to the working one."""
    if argument.startswith("~") or not is_folder_name(argument):
        return argument
    return str(Path.cwd() / argument)


def _refuse_unquoted(task: str, paths: Sequence[str]) -> None:
    """Raise UsageError if the PATHs are the rest of a task that was not quoted.

    Words that look like paths, and all after a task that was quoted, are left to the check against
    the repository, which names the nearest file.
    """
    looks_like_path = any("/" in path or "." in path.rstrip(".?!…") for path in paths)
    if not paths or looks_like_path or " " in task.strip():
        return
    folder = Path.cwd()
    places = (folder, find_root(folder).path)
    if any(is_there(place / path) for place in places for path in paths):
        return
    words = " ".join((task, *paths))
    raise UsageError(
        "the question is not in quotes: without them each further word is read as a path",
        hint=f'Put it in quotes: "{one_line(words)}".',
    )


def _file_and_line(argument: str) -> tuple[str, int]:
    name, colon, line = argument.rpartition(":")
    if not colon or not re.fullmatch(r"[0-9]{1,9}", line) or is_there(Path(argument)):
        return argument, 0
    return name, int(line)


def _read_errors(argument: str) -> str:
    if argument == "-":
        return read_stdin()
    try:
        with Path(argument).open("rb") as file:
            return _read_text(file, f"--errors: {argument}")
    except OSError as error:
        raise UsageError(
            f"--errors: {argument} cannot be read: {error.strerror}",
            hint="Name a readable file, or - for standard input.",
        ) from error


def read_stdin(max_bytes: int = MAX_INPUT_BYTES, *, hint: str = _LAST_PART) -> str:
    """Return what standard input holds. Raises UsageError if it is more than this."""
    return _read_text(sys.stdin.buffer, "standard input", max_bytes, hint)


def _read_text(
    file: IO[bytes], name: str, max_bytes: int = MAX_INPUT_BYTES, hint: str = _LAST_PART
) -> str:
    data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise UsageError(f"{name} has more than {max_bytes >> 20} MiB", hint=hint)
    return data.decode("utf-8", "replace")

"""The options that several commands share, and the records they become.

A flag that overrides a setting says so in one table (`OVERRIDES`); precedence and bounds stay with the settings. No
option is read anywhere but here.

Spans of time as a person writes them on the command line; what they mean is for the options that take one.
"""

import functools
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from xscore.cli.terminal import Terminal
from xscore.platform.errors import UsageError
from xscore.records import Kind, Layer, Scope, TaskType, Turn


class PeriodType(click.ParamType[float]):
    """How far back from now, in seconds: `30s`, `90m`, `24h`, `7d`, `2w`."""

    name = "stretch"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return seconds."""
        found = _PERIOD.fullmatch(str(value).strip())
        if found is None or not int(found[1]):
            self.fail(f"{value!r} is no stretch of time. Write 30s, 90m, 24h, 7d or 2w.", param, ctx)
        return float(int(found[1]) * _UNIT_SECONDS[found[2]])


class DurationType(click.ParamType[float]):
    """Seconds, as `30`, `30s`, `1.5m` or `2h`."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return seconds."""
        found = _DURATION.fullmatch(str(value).strip())
        if found is None or not float(found[1]):
            self.fail(f"{value!r} is no time. Write 30s, 2m or 1h.", param, ctx)
        return float(found[1]) * _UNIT_SECONDS[found[2] or "s"]


_DURATION = re.compile(r"(\d{1,7}(?:\.\d{1,3})?) ?(s|m|min|h)?")
_PERIOD = re.compile(r"([0-9]{1,6}) ?(s|m|min|h|d|w)")
_UNIT_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400, "w": 604_800}


Command = Callable[..., Any]
Option = Callable[[Command], Command]

OVERRIDES: dict[str, tuple[str, ...]] = {
    "threshold": ("selection.threshold", "selection.lexical_threshold"),
    "top_k": ("selection.top_k",),
    "min_keep": ("selection.min_keep",),
    "judge": ("judge.model",),
    "model": ("primary.model",),
    "pack_size": ("judge.pack_size",),
    "concurrency": ("judge.concurrency",),
    "rpm": ("judge.rpm",),
    "tpm": ("judge.tpm",),
    "max_usd": ("budget.max_usd",),
    "deadline": ("budget.deadline_s",),
    "judge_context": ("judge.context",),
    "reasons": ("judge.reasons",),
    "tests": ("judge.tests",),
    "max_tokens": ("bundle.max_tokens",),
    "persona": ("session.persona",),
    "task_type": ("routing.task_type",),
    "strict": ("routing.strict",),
    "replay": ("judge.replay",),
    "key_file": ("cache.key_file",),
    "require_shared": ("shared.require",),
}
"""Flag -> settings it overrides. `--threshold` speaks of whichever judge is at work."""

COUNT = click.IntRange(min=1)
FILE = click.Path(dir_okay=False, path_type=Path)

OUTPUT: dict[str, Option] = {
    "as_json": click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, errors included."),
    "quiet": click.option("-q", "--quiet", is_flag=True, help="No progress, notes or cost line."),
    "verbose": click.option("-v", "--verbose", is_flag=True, help="Say more; show the traceback of an internal error."),
    "no_user_learning": click.option(
        "--no-user-learning", is_flag=True, help="Leave your own store shut: nothing is learned of you, nothing read."
    ),
}
WORKING_FILE: dict[str, Option] = {
    "file": click.option(
        "--file", "file", metavar="F[:LINE]", type=click.Path(), help="The file you are in, and the line."
    ),
    "errors": click.option(
        "--errors", metavar="FILE|-", type=click.Path(allow_dash=True), help="Error output or a stack trace to go by."
    ),
    "recent": click.option(
        "--recent",
        metavar="FILE",
        type=click.Path(),
        multiple=True,
        help="A recently opened file, newest first. Repeatable.",
    ),
    "no_git": click.option("--no-git", is_flag=True, help="Do not ask git for the files, the diff and recent changes."),
}
SESSION: dict[str, Option] = {
    "fresh": click.option("--fresh", is_flag=True, help="Begin a new working session on this branch."),
    "checkpoint": click.option("--checkpoint", metavar="NAME", help="Go on from this checkpoint."),
}
PERSONA: dict[str, Option] = {
    "persona": click.option(
        "--persona", type=click.Choice(["concise", "playful", "formal"]), help="Tone of the answer: plain unless set."
    ),
}
SCOPE: dict[str, Option] = {
    "path": click.option(
        "--path", metavar="GLOB", multiple=True, help="Only memories of files that match. Repeatable."
    ),
    "kind": click.option(
        "--kind",
        metavar="KIND",
        type=click.Choice(list(map(str, Kind))),
        multiple=True,
        help=f"Only this kind: {', '.join(Kind)}. Repeatable.",
    ),
    "layer": click.option(
        "--layer",
        metavar="LAYER",
        type=click.Choice(list(map(str, Layer))),
        multiple=True,
        help=f"Only this layer: {', '.join(Layer)}. Repeatable.",
    ),
}
SELECTION: dict[str, Option] = {
    "threshold": click.option(
        "--threshold", metavar="SCORE", type=click.FloatRange(0, 1), help="Lowest final score that is kept."
    ),
    "top_k": click.option("--top-k", metavar="N", type=COUNT, help="At most so many are kept."),
    "min_keep": click.option(
        "--min-keep", metavar="N", type=click.IntRange(min=0), help="Fill up from the near misses to this many."
    ),
}
ROUTING: dict[str, Option] = {
    "task_type": click.option(
        "--task-type",
        type=click.Choice([*map(str, TaskType)]),
        help="What sort of work it is; shapes the bundle. Read off the task unless given.",
    ),
    "strict": click.option(
        "--strict", is_flag=True, default=None, help="Stop where a layer cannot be read, instead of going on without."
    ),
}
MODELS: dict[str, Option] = {
    "judge": click.option("--judge", metavar="SPEC", help="Who judges: provider:model, lexical, or scripted:FILE."),
    "model": click.option("--model", metavar="SPEC", help="Who answers: provider:model, or scripted:FILE."),
}
REPLAY: dict[str, Option] = {
    "replay": click.option(
        "--replay",
        is_flag=True,
        default=None,
        help="Send nothing and need no key: what is not in the cache is unjudged.",
    )
}
JUDGING: dict[str, Option] = {
    "pack_size": click.option(
        "--pack-size", metavar="N", type=click.IntRange(1, 60), help="Memories a prompt; 1: one prompt each."
    ),
    "judge_context": click.option(
        "--judge-context", type=click.Choice(["task", "full"]), help="Show the judge the task, or also file and diff."
    ),
    "reasons": click.option(
        "--reasons", type=click.Choice(["relevant", "all"]), help="Reasons for relevant memories, or for all."
    ),
    "tests": click.option(
        "--tests", type=click.Choice(["cards", "full"]), help="Show tests to the judge as cards, or whole."
    ),
}
LIMITS: dict[str, Option] = {
    "concurrency": click.option("--concurrency", metavar="N", type=COUNT, help="Calls in flight."),
    "rpm": click.option("--rpm", metavar="N", type=COUNT, help="Requests a minute."),
    "tpm": click.option("--tpm", metavar="N", type=COUNT, help="Tokens a minute."),
    "max_usd": click.option("--max-usd", metavar="DOLLARS", help="Cap on this turn, reserved before each send."),
    "require_shared": click.option(
        "--require-shared",
        is_flag=True,
        default=None,
        help="Stop where the shared server (shared.url) cannot be asked, instead of going on without it.",
    ),
    "deadline": click.option(
        "--deadline",
        metavar="TIME",
        type=DurationType(),
        help="Be done in 30s, 2m or so, start-up included; what is not judged by then is left for `xscore continue`.",
    ),
}
RESULT: dict[str, Option] = {
    "all_scores": click.option(
        "--all-scores", metavar="FILE.jsonl", type=FILE, help="Write one line a candidate: score, reason, or why none."
    ),
    "yes": click.option("-y", "--yes", is_flag=True, help="Do not ask before a costly turn; --max-usd still holds."),
}


class Flags(Struct, frozen=True):
    """Options as given, by name; what a command did not offer is as if not given."""

    given: Mapping[str, Any]

    @property
    def terminal(self) -> Terminal:
        """The streams as the output options want them."""
        wanted = {name: bool(self.given.get(name)) for name in OUTPUT}
        return Terminal(as_json=wanted["as_json"], quiet=wanted["quiet"], verbose=wanted["verbose"])

    @property
    def overrides(self) -> dict[str, object]:
        """`section.name` -> value, for `settings.load`; None where the flag was not given."""
        found = {name: self.given.get(flag) for flag, names in OVERRIDES.items() for name in names}
        shut = False if self.given.get("no_user_learning") else None
        return {**found, "index.git": False if self.given.get("no_git") else None, "memory.user_learning": shut}

    @property
    def agreed(self) -> bool:
        """Whether the user agreed to the price beforehand."""
        return bool(self.given.get("yes"))

    @property
    def all_scores(self) -> Path | None:
        """Where each candidate's line goes."""
        path = self.given.get("all_scores")
        return path if isinstance(path, Path) else None

    @property
    def scope(self) -> Scope:
        """What the pool is narrowed to."""
        return Scope(
            tuple(map(decode_path_argument, self.given["path"])), tuple(self.given["kind"]), tuple(self.given["layer"])
        )

    def turn(self, task: str) -> Turn:
        """Build the turn; reads the task and the errors from files or stdin where asked to."""
        errors: str | None = self.given["errors"]
        if task == "-" and errors == "-":
            raise UsageError("TASK and --errors cannot both be read from standard input", hint="Give one as a file.")
        file, line = _file_and_line(self.given["file"] or "")
        return Turn(
            task=_from_stdin() if task == "-" else _readable(task),
            errors="" if errors is None else _from_stdin() if errors == "-" else _from_file(Path(errors)),
            file=file,
            line=line,
            recent=tuple(self.given["recent"]),
            fresh=bool(self.given.get("fresh")),
            checkpoint=self.given.get("checkpoint") or "",
            scope=self.scope,
        )


def options(*groups: Mapping[str, Option]) -> Callable[[Command], Command]:
    """Give a command these groups of options; its callback receives them as one `Flags`, the last argument."""
    merged: dict[str, Option] = {name: option for group in groups for name, option in group.items()}

    def decorate(callback: Command) -> Command:
        @functools.wraps(callback)
        def gather(**values: Any) -> Any:
            flags = Flags({name: values.pop(name) for name in merged})
            return callback(**values, flags=flags)

        decorated: Command = gather
        for option in reversed(merged.values()):
            decorated = option(decorated)
        return decorated

    return decorate


def _file_and_line(given: str) -> tuple[str, int]:
    """Split `F:LINE`; a file whose very name ends so wins."""
    name, colon, line = given.rpartition(":")
    if not colon or not re.fullmatch(r"[0-9]{1,9}", line) or Path(given).exists():
        return given, 0
    return name, int(line)


def _from_stdin() -> str:
    return sys.stdin.buffer.read().decode("utf-8", "replace")


def _from_file(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace")
    except OSError as error:
        raise UsageError(
            f"--errors: {path} cannot be read: {error.strerror}", hint="Name a readable file, or - for standard input."
        ) from error


def decode_path_argument(name: str) -> str:
    """Write bytes of the command line that are not UTF-8 as listings write them in paths; other text stays."""
    from xscore.platform.paths import portable_name

    return name if name.isascii() or name == _readable(name) else portable_name(name)


def _readable(text: str) -> str:
    """Replace bytes of the command line that are not UTF-8."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")

"""The options that several commands share, and the records they become.

A flag that overrides a setting is named in `OVERRIDES`; the settings keep precedence and bounds. Commands read no
option but through `Flags`. Trade-off: one wording an option, so its help fits every command that has it.
"""

import functools
import re
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from xscore.cli.terminal import OUTPUT, Terminal, set_color
from xscore.platform.errors import UsageError
from xscore.records import Kind, Layer, Scope, TaskType, Turn

_DURATION = r"([0-9]{1,7}(?:\.[0-9]{1,3})?) ?(s|m|min|h)?"
_PERIOD = r"([0-9]{1,6}) ?(s|m|min|h|d|w)"
_UNIX_SECONDS = r"[0-9]{9,10}(\.[0-9]{1,6})?"
_UNIT_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400, "w": 604_800}


class DurationType(click.ParamType[float]):
    """Seconds, as `30`, `30s`, `1.5m` or `2h`."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return seconds."""
        found = re.fullmatch(_DURATION, str(value).strip())
        if found is None or not float(found[1]):
            self.fail(f"{value!r} is not a duration. Write 30s, 2m or 1h.", param, ctx)
        return float(found[1]) * _UNIT_SECONDS[found[2] or "s"]


class PeriodType(click.ParamType[float]):
    """How far back from now, in seconds: `30s`, `90m`, `24h`, `7d`, `2w`."""

    name = "period"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return seconds."""
        found = re.fullmatch(_PERIOD, str(value).strip())
        if found is None or not int(found[1]):
            self.fail(f"{value!r} is not a period. Write 30s, 90m, 24h, 7d or 2w.", param, ctx)
        return float(int(found[1]) * _UNIT_SECONDS[found[2]])


class UtcTimeType(click.ParamType[float]):
    """A day or a time, in UTC unless it names an offset, or how long ago: `2026-11-01`, `2026-11-01T08:00`, `7d`."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return Unix seconds."""
        text = str(value).strip()
        if re.fullmatch(_UNIX_SECONDS, text):
            return float(text)
        try:
            if ago := re.fullmatch(_PERIOD, text):
                return datetime.now().timestamp() - int(ago[1]) * _UNIT_SECONDS[ago[2]]
            at = datetime.fromisoformat(text)
            return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC).timestamp()
        except (ValueError, OverflowError, OSError):
            self.fail(f"{value!r} is not a time. Write 2026-11-01, 2026-11-01T08:00 (UTC), or 7d.", param, ctx)


Callback = Callable[..., Any]
Option = Callable[[Callback], Callback]


class AdvancedOption(click.Option):
    """An option for tuning; help lists it in a section of its own."""


class XscoreCommand(click.Command):
    """A command whose help keeps the tuning options apart."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write "Options", then "Advanced"."""
        for title, advanced in (("Options", False), ("Advanced", True)):
            records = [
                record
                for parameter in self.get_params(ctx)
                if isinstance(parameter, click.Option)
                and isinstance(parameter, AdvancedOption) is advanced
                and (record := parameter.get_help_record(ctx))
            ]
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


command = functools.partial(click.command, cls=XscoreCommand)
tuning = functools.partial(click.option, cls=AdvancedOption)

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
"""Flag -> settings it overrides. `--threshold` is of whichever judge is at work."""

COUNT = click.IntRange(1, 1_000_000)
FILE = click.Path(dir_okay=False, path_type=Path)
INPUT_FILE = click.Path(path_type=Path, allow_dash=True)

NO_USER_LEARNING: dict[str, Option] = {
    "no_user_learning": tuning(
        "--no-user-learning", is_flag=True, help="Do not open your own store: learn nothing of you, read nothing."
    )
}
WORKING_FILE: dict[str, Option] = {
    "file": click.option("-f", "--file", metavar="F[:LINE]", type=click.Path(), help="The file you are in."),
    "errors": click.option(
        "-e", "--errors", metavar="FILE|-", type=click.Path(allow_dash=True), help="Error output or a stack trace."
    ),
    "recent": tuning(
        "--recent",
        metavar="FILE",
        type=click.Path(),
        multiple=True,
        help="A recently opened file, newest first. Repeatable.",
    ),
    "no_git": tuning("--no-git", is_flag=True, help="Do not ask git for files, diff and recent changes."),
}
SESSION: dict[str, Option] = {
    "fresh": click.option("--fresh", is_flag=True, help="Begin a new working session on this branch."),
    "checkpoint": click.option("--checkpoint", metavar="NAME", help="Go on from this checkpoint."),
}
PERSONA: dict[str, Option] = {
    "persona": tuning("--persona", type=click.Choice(["concise", "playful", "formal"]), help="Tone of the answer.")
}
SCOPE: dict[str, Option] = {
    "glob": click.option(
        "-g", "--glob", metavar="GLOB", multiple=True, help="Only memories of files that match. Repeatable."
    ),
    "type": click.option(
        "-t",
        "--type",
        metavar="KIND",
        type=click.Choice(list(map(str, Kind))),
        multiple=True,
        help=f"Only this kind: {', '.join(Kind)}. Repeatable.",
    ),
    "layer": tuning(
        "--layer",
        metavar="LAYER",
        type=click.Choice(list(map(str, Layer))),
        multiple=True,
        help=f"Only this layer: {', '.join(Layer)}. Repeatable.",
    ),
}
SELECTION: dict[str, Option] = {
    "threshold": click.option(
        "--threshold", metavar="SCORE", type=click.FloatRange(0, 1), help="Keep what scores at least this."
    ),
    "top_k": click.option("-k", "--top-k", metavar="N", type=COUNT, help="Keep at most N."),
    "min_keep": tuning(
        "--min-keep", metavar="N", type=click.IntRange(min=0), help="Fill up to N from the near misses."
    ),
}
ROUTING: dict[str, Option] = {
    "task_type": tuning(
        "--task-type", type=click.Choice([*map(str, TaskType)]), help="What sort of work it is; else read off the task."
    ),
    "strict": tuning("--strict", is_flag=True, default=None, help="Stop if a layer cannot be read."),
}
JUDGE: dict[str, Option] = {
    "judge": click.option("--judge", metavar="MODEL", help="Who judges: a model, lexical, or scripted:FILE."),
}
MODELS: dict[str, Option] = {
    **JUDGE,
    "model": click.option("-m", "--model", metavar="MODEL", help="Who answers: a model, or scripted:FILE."),
}
REPLAY: dict[str, Option] = {
    "replay": tuning("--replay", is_flag=True, default=None, help="Send nothing: use the cache alone, without a key.")
}
JUDGING: dict[str, Option] = {
    "pack_size": tuning(
        "--pack-size", metavar="N", type=click.IntRange(1, 60), help="Memories in one prompt; 1: one prompt each."
    ),
    "judge_context": tuning(
        "--judge-context", type=click.Choice(["task", "full"]), help="Show the judge the task, or also file and diff."
    ),
    "reasons": tuning(
        "--reasons", type=click.Choice(["relevant", "all"]), help="Ask reasons for relevant memories, or for all."
    ),
    "tests": tuning("--tests", type=click.Choice(["cards", "full"]), help="Show tests as cards, or whole."),
}
YES: dict[str, Option] = {
    "yes": click.option("-y", "--yes", is_flag=True, help="Do not ask; caps such as --max-usd still hold.")
}
DRY_RUN: dict[str, Option] = {
    "dry_run": click.option("--dry-run", is_flag=True, help="Show what would happen; change and send nothing.")
}
MAX_USD: dict[str, Option] = {
    "max_usd": click.option("--max-usd", metavar="DOLLARS", help="Cap on the whole command, held before each send.")
}
LIMITS: dict[str, Option] = {
    **MAX_USD,
    "deadline": click.option(
        "--deadline",
        metavar="TIME",
        type=DurationType(),
        help="Stop after 30s, 2m or 1h, start-up included; what was judged is kept.",
    ),
    "concurrency": tuning("--concurrency", metavar="N", type=COUNT, help="Calls in flight."),
    "rpm": tuning("--rpm", metavar="N", type=COUNT, help="Requests per minute."),
    "tpm": tuning("--tpm", metavar="N", type=COUNT, help="Tokens per minute."),
    "require_shared": tuning(
        "--require-shared", is_flag=True, default=None, help="Stop if the shared server (shared.url) does not answer."
    ),
    **YES,
}
ALL_SCORES: dict[str, Option] = {
    "all_scores": tuning(
        "--all-scores", metavar="FILE.jsonl", type=FILE, help="Write each candidate's score and reason, or why none."
    ),
}


class Flags(Struct, frozen=True):
    """Options as given, by name; what a command did not offer is as if not given."""

    given: Mapping[str, Any]

    @property
    def terminal(self) -> Terminal:
        """The streams as the output options want them."""
        given = self.given
        return Terminal(
            as_json=bool(given.get("as_json")), quiet=bool(given.get("quiet")), verbose=bool(given.get("verbose"))
        )

    @property
    def overrides(self) -> dict[str, object]:
        """`section.name` -> value, for `settings.load`; None where the flag was not given."""
        found = {name: self.given.get(flag) for flag, names in OVERRIDES.items() for name in names}
        shut = False if self.given.get("no_user_learning") else None
        return {**found, "index.git": False if self.given.get("no_git") else None, "memory.user_learning": shut}

    @property
    def assume_yes(self) -> bool:
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
            tuple(map(decode_path_argument, self.given["glob"])), tuple(self.given["type"]), tuple(self.given["layer"])
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


def options(*groups: Mapping[str, Option]) -> Callable[[Callback], Callback]:
    """Give a command these groups of options, then those of `OUTPUT`.

    Its callback receives them as one `Flags`, the last argument. Options of `OUTPUT` before the command count as well.
    """
    merged: dict[str, Option] = {
        name: option for group in (*groups, OUTPUT, NO_USER_LEARNING) for name, option in group.items()
    }

    def decorate(callback: Callback) -> Callback:
        @functools.wraps(callback)
        def gather(**values: Any) -> Any:
            before = click.get_current_context().find_root().params
            given = {name: values.pop(name) for name in merged}
            given |= {name: given[name] or before.get(name) for name in OUTPUT}
            set_color(given["color"])
            return callback(**values, flags=Flags(given))

        decorated: Callback = gather
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

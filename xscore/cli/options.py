"""The options that several commands share, and the records they become.

An option that overrides a setting names it (`sets`); the setting defines type, bounds and
precedence. Trade-off: one help text per option has to fit every command that has it.
"""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO, Any

import click
from msgspec import Struct, field

from xscore.cli.terminal import OUTPUT, Terminal, set_color
from xscore.platform.errors import UsageError
from xscore.platform.files import is_there
from xscore.platform.paths import decode_path_argument, find_root, is_folder_name
from xscore.platform.text import one_line, readable_text
from xscore.records.memory import Kind, Layer
from xscore.records.turn import Scope, TaskType, Turn

_PERIOD = r"([0-9]{1,7}(?:\.[0-9]{1,3})?) ?(s|m|min|h|d|w)"
_UNIX_SECONDS = r"[0-9]{9,10}(\.[0-9]{1,6})?"
_UNIT_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def period_s(text: str) -> float:
    """Return a length of time with its unit, in seconds: `30s`, `1.5m`, `24h`, `7d`, `2w`.

    Raises BadParameter.
    """
    match = re.fullmatch(_PERIOD, text.strip())
    if match is None or not float(match[1]):
        raise click.BadParameter(
            f"{text!r} is not a length of time. Write 30s, 90m, 24h, 7d or 2w."
        )
    return float(match[1]) * _UNIT_SECONDS[match[2]]


def utc_time(argument: str) -> float:
    """Return a day or a time, in UTC unless it names an offset, or how long ago, as Unix seconds.
    Raises BadParameter.

    `2026-11-01`, `2026-11-01T08:00`, `7d`.
    """
    text = argument.strip()
    if re.fullmatch(_UNIX_SECONDS, text):
        return float(text)
    try:
        if text[-1:] in _UNIT_SECONDS:
            return datetime.now().timestamp() - period_s(text)
        at = datetime.fromisoformat(text)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC).timestamp()
    except (ValueError, OverflowError, OSError) as error:
        why = f"{argument!r} is not a time. Write 2026-11-01, 2026-11-01T08:00 (UTC), or 7d."
        raise click.BadParameter(why) from error


def checked_thread(text: str) -> str:
    """Return the name of a thread: letters, digits and `._:/-`, at most 80. Raises BadParameter."""
    if not re.fullmatch(r"[A-Za-z0-9._:/-]{1,80}", text):
        raise click.BadParameter(
            f"{text!r} is not a thread name. Use letters, digits and ._:/- (at most 80)."
        )
    return text


class SharedOption(click.Option):
    """An option of several commands.

    sets: the settings it overrides, separated by spaces. advanced: help lists it under "Advanced".
    """

    def __init__(
        self, *names: str, sets: str = "", advanced: bool = False, **attributes: Any
    ) -> None:
        super().__init__(names, **attributes)
        self.sets: list[str] = sets.split()
        self.advanced = advanced


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


option = SharedOption
tuning: partial[SharedOption] = partial(SharedOption, advanced=True)

COUNT = click.IntRange(1, 1_000_000)
FILE = click.Path(dir_okay=False, path_type=Path)
INPUT_FILE = click.Path(path_type=Path, allow_dash=True)

NO_USER_LEARNING = [
    tuning(
        "--no-user-learning",
        sets="memory.user_learning",
        flag_value=False,
        default=None,
        help="Do not read or update your user store.",
    )
]
NO_GIT = tuning(
    "--no-git",
    sets="index.git",
    flag_value=False,
    default=None,
    help="Do not ask git for files, diff and changes.",
)
WORKING_FILE = [
    option("-f", "--file", metavar="F[:LINE]", type=click.Path(), help="The file you are in."),
    option(
        "-e",
        "--errors",
        metavar="FILE|-",
        type=click.Path(allow_dash=True),
        help="Error output or a stack trace.",
    ),
    tuning(
        "--recent",
        metavar="FILE",
        type=click.Path(),
        multiple=True,
        help="A recent file, newest first. Repeatable.",
    ),
    NO_GIT,
]
THREAD = [
    tuning(
        "--thread",
        metavar="NAME",
        type=checked_thread,
        help="Continue this thread and keep its judgments.",
    ),
    tuning(
        "--continue",
        "follows_latest",
        is_flag=True,
        help="Continue the thread of this branch's latest turn.",
    ),
    option(
        "--fresh",
        is_flag=True,
        help=(
            "Re-judge everything; also starts a new session unless --thread or --continue is given."
        ),
    ),
]
SESSION = [
    *THREAD,
    option("--checkpoint", metavar="NAME", help="Continue from this checkpoint."),
    tuning(
        "--no-memory",
        is_flag=True,
        help="Only code and documents: nothing that was stated or answered.",
    ),
]
SCOPE = [
    option(
        "-g",
        "--glob",
        metavar="GLOB",
        multiple=True,
        help="Only memories of files that match. Repeatable.",
    ),
    option(
        "-t",
        "--kind",
        "--type",
        "type",
        metavar="KIND",
        type=click.Choice(list(map(str, Kind))),
        multiple=True,
        help=f"Only this kind: {', '.join(Kind)}. Repeatable.",
    ),
    tuning(
        "--layer",
        metavar="LAYER",
        type=click.Choice(list(map(str, Layer))),
        multiple=True,
        help=f"Only this layer: {', '.join(Layer)}. Repeatable.",
    ),
]
SELECTION = [
    option(
        "--threshold",
        metavar="SCORE",
        sets=("selection.threshold selection.lexical_threshold selection.lexical_facts_threshold"),
        help="Keep what scores at least this, from 0 to 1.",
    ),
    option("-k", "--top-k", metavar="N", sets="selection.top_k", help="Keep at most N."),
    tuning(
        "--min-keep",
        metavar="N",
        sets="selection.min_keep",
        help="Fill up to N from the near misses.",
    ),
]
PERSONA = [
    tuning("--persona", metavar="TONE", sets="session.persona", help="concise, playful or formal.")
]
ROUTING = [
    tuning(
        "--task-type",
        metavar="TYPE",
        sets="routing.task_type",
        help=f"{', '.join(TaskType)}; default: found from TASK.",
    ),
    tuning(
        "--strict",
        flag_value=True,
        default=None,
        sets="routing.strict",
        help="Stop if a layer cannot be read.",
    ),
]
JUDGE = [
    option(
        "--judge",
        metavar="MODEL",
        sets="judge.model",
        help="The judge: a model, lexical, or scripted:FILE.",
    )
]
ANSWERER = [
    option(
        "-m",
        "--model",
        metavar="MODEL",
        sets="primary.model",
        help="The answering model, or scripted:FILE.",
    )
]
REPLAY = [
    tuning(
        "--replay",
        flag_value=True,
        default=None,
        sets="judge.replay",
        help="Use only the cache; needs no key.",
    )
]
JUDGING = [
    tuning(
        "--pack-size", metavar="N", sets="judge.pack_size", help="Memories in one prompt, 1 to 60."
    ),
    tuning(
        "--judge-sees",
        metavar="task|full",
        sets="judge.sees",
        help="Also show the judge the file and diff.",
    ),
    tuning(
        "--reasons",
        metavar="relevant|all",
        sets="judge.reasons",
        help="Which memories to ask reasons for.",
    ),
    tuning(
        "--tests", metavar="cards|full", sets="judge.tests", help="Show tests as cards, or whole."
    ),
]
YES = [option("-y", "--yes", is_flag=True, help="Do not ask; caps such as --max-usd still hold.")]
DRY_RUN = [
    option("--dry-run", is_flag=True, help="Show what would happen; change and send nothing.")
]
MAX_USD = [
    option(
        "--max-usd",
        metavar="DOLLARS",
        sets="budget.max_usd",
        help="Cap on the whole command, checked before each call.",
    )
]
LIMITS = [
    *MAX_USD,
    option(
        "--deadline",
        metavar="TIME",
        type=period_s,
        sets="budget.deadline_s",
        help="Stop after 30s, 2m or 1h, start-up included; judgments are kept.",
    ),
    tuning("--concurrency", metavar="N", sets="judge.concurrency", help="Calls in flight."),
    tuning("--rpm", metavar="N", sets="judge.rpm", help="Requests per minute."),
    tuning("--tpm", metavar="N", sets="judge.tpm", help="Tokens per minute."),
    tuning(
        "--require-shared",
        flag_value=True,
        default=None,
        sets="shared.require",
        help="Stop if the shared server (shared.url) does not answer.",
    ),
    *YES,
]
RESULTS_FILE = [
    option(
        "-o",
        "--output",
        metavar="FILE",
        type=FILE,
        help="Write what was chosen, ranked: FILE.parquet or FILE.jsonl.",
    )
]
LIST_OPTIONS = [*SCOPE, *SELECTION, *JUDGE, *LIMITS, *REPLAY, *JUDGING]
PATHS = [click.Argument(["paths"], metavar="[PATH]...", nargs=-1, type=click.Path())]
OTHERS = [
    option(
        "--repo",
        metavar="NAME|DIR",
        multiple=True,
        help="Also judge this other repository, as indexed on this machine. Repeatable.",
    )
]
TURN_OPTIONS: list[click.Parameter] = [*PATHS, *WORKING_FILE, *LIST_OPTIONS, *OTHERS]


class Flags(Struct, frozen=True):
    """Options by name; one that the command does not offer counts as not given."""

    given: Mapping[str, Any]
    overrides: Mapping[str, object] = {}
    """`section.name` -> value, for `load_settings`; None where the option was not given."""
    names: Mapping[str, str] = {}
    """`section.name` -> the option that sets it."""
    terminal: Terminal = field(default_factory=Terminal)
    """The one of this command, which prints each note once."""

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
            raise UsageError("--thread and --continue both name a thread", hint="Give one of them.")
        is_fresh = bool(self.given.get("fresh"))
        goes_on = bool(thread) or follows
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


def command(*groups: Sequence[click.Parameter]) -> Callable[[Callable[..., Any]], XscoreCommand]:
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
            # An option of OUTPUT may stand before the command: the group then holds it.
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
    """Raise UsageError if what stands in the place of PATHs is the rest of a task that was not
    quoted.

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


MAX_INPUT_BYTES = 64 << 20
"""Of a task or errors, which are shortened anyway: a device or a command may never end."""
_LAST_PART = "Give only its last part."


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

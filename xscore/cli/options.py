"""The options that several commands share, and how their values are written.

An option that overrides a setting names it (`sets`); the setting defines type, bounds and
precedence. A command gets their values as its `Flags` (`cli/flags.py`). Trade-off: one help text
per option has to fit every command that has it.
"""

import re
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import click

from xscore.records.memory import Kind, Layer
from xscore.records.turn import TaskType

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
    tuning("--checkpoint", metavar="NAME", help="Continue from this checkpoint."),
    tuning(
        "--no-memory",
        is_flag=True,
        help="Only code and documents: nothing that was stated or answered.",
    ),
]
SCOPE = [
    tuning(
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
        sets=(
            "selection.threshold selection.lexical_threshold selection.lexical_facts_threshold"
        ),
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
    tuning(
        "--persona", metavar="TONE", sets="session.persona", help="concise, playful or formal."
    )
]
ROUTING = [
    tuning(
        "--task-type",
        metavar="TYPE",
        sets="routing.task_type",
        help=f"{', '.join(TaskType)}; default: inferred from TASK.",
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
        "--pack-size",
        metavar="N",
        sets="judge.pack_size",
        help="Memories in one prompt, 1 to 60.",
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
        "--tests",
        metavar="cards|full",
        sets="judge.tests",
        help="Show tests as cards, or whole.",
    ),
]
YES = [
    option("-y", "--yes", is_flag=True, help="Do not ask; caps such as --max-usd still hold.")
]
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

"""From the options of a Python call to settings: `xscore.open` and `xscore.judge` share names,
types and checks.

They are read as the command line reads its flags, on top of the files and the environment.
Trade-off: the options are those that a script changes most; for the others there is a `Settings`.
"""

import os
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, TypedDict

from msgspec.structs import replace

from xscore.platform.errors import UsageError, require_kind
from xscore.platform.paths import RepositoryRoot, user_config_file
from xscore.settings import LoadedSettings, Settings, load_settings


class JudgingOptions(TypedDict, total=False):
    """The options of every call that judges."""

    judge: str
    """`provider:model`, such as `openai:gpt-5-mini`, `typesafe:jev-1.14.0` or `lexical`. Default:
    by the settings."""
    max_usd: Decimal | str | float
    """Most dollars of one turn, or of one list. Default: `budget.max_usd`."""
    deadline: float
    """Seconds after which a turn answers with what is judged, and the rest of a list stays
    unjudged. Default: `budget.deadline_s`."""
    rubric: str
    """What counts, in your own words, or `code`, or `general`; part of the key of every
    judgment. Default: `code` for a folder under git, otherwise `general`."""


OPTION_OF_SETTING = {
    "judge.model": "judge",
    "primary.model": "model",
    "budget.max_usd": "max_usd",
    "budget.deadline_s": "deadline",
}


def check_options(options: Mapping[str, Any], options_type: type) -> None:
    """Raise UsageError for an option that is none of these. options_type: a `TypedDict`."""
    names = options_type.__annotations__
    if unknown := options.keys() - names.keys():
        raise UsageError(
            f"there is no option `{min(unknown)}`", hint=f"One of: {', '.join(names)}."
        )
    require_kind(str, type(None), rubric=options.get("rubric"))


def require_path(**arguments: object) -> None:
    """Raise UsageError unless each argument, given by its name, could be the path of a file or
    folder."""
    require_kind(str, Path, **arguments)
    for name, path in arguments.items():
        if not str(path):
            raise UsageError(
                f"`{name}` is empty", hint="Name a folder; `.` is the current one."
            )
        try:
            is_possible = b"\0" not in os.fsencode(str(path))
        except UnicodeEncodeError:
            is_possible = False
        if not is_possible:
            raise UsageError(
                f"`{name}` has a character that no path can have", hint="Name a folder."
            )


def load_with_options(
    options: Mapping[str, Any], root: RepositoryRoot | None
) -> LoadedSettings:
    """Read the settings with the options on top. root: None for what is in no folder.

    Raises UsageError.
    """
    flags: dict[str, Any] = {}
    flag_names: dict[str, str] = {}
    for setting, name in OPTION_OF_SETTING.items():
        flags[setting] = options.get(name)
        flag_names[setting] = f"{name}="
    loaded = load_settings(
        repo_root=root.path if root else None,
        user_file=user_config_file(),
        environ=os.environ,
        flags=flags,
        flag_names=flag_names,
    )
    default = "code" if root and root.is_git else "general"
    return replace(loaded, settings=with_rubric(loaded.settings, options, default=default))


def with_rubric(
    settings: Settings, options: Mapping[str, Any], *, default: str = "general"
) -> Settings:
    """Return the settings with the rubric of these options."""
    rubric = (options.get("rubric") or "").strip() or default
    return replace(settings, judge=replace(settings.judge, rubric=rubric))

"""Layer the settings: defaults < user file < repository file < environment < flags.

A repository's file (`.xscore.toml`, or `[tool.xscore]` in `pyproject.toml`) comes with a clone, so
it may set only what `model` marks `RepoMay`: globs, thresholds, quotas, boosts. Only the user may
set hosts, models, keys, budgets and limits; in a repository's file they are ignored with a warning.
An unknown name is an error, an unknown `XSCORE_…` variable a warning. This package reads only the
environment it is given.
"""

import re
import stat
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from msgspec import Struct, convert
from msgspec.structs import replace

from xscore.platform.errors import UsageError
from xscore.platform.files import is_there
from xscore.platform.near_names import nearest_names
from xscore.platform.toml_text import parse_toml
from xscore.records.calls import DecisionWire
from xscore.settings.hosts import HostAccess
from xscore.settings.model import Settings
from xscore.settings.values import MOST_USD, Secret, SettingsGroup

REPOSITORY_FILES = (".xscore.toml", "pyproject.toml")
"""Files at the root of a repository that may hold settings."""
VENDORS = ("openai", "anthropic")
"""Hosts of models that are built in: each has a section of settings, whose key comes from the
environment alone, and a module of this name in `xscore.providers`."""
KEYS = frozenset(f"{vendor}.api_key" for vendor in VENDORS)
DECISION_VENDORS = (
    "typesafe",
    "perplexity",
    "openrouter",
    "fireworks",
    *map(str, DecisionWire),
)
"""Their key and base URL are `<NAME>_API_KEY` and `<NAME>_BASE_URL` in the environment."""
ENVIRONMENT = "environment"
VARIABLES = {
    "openai.api_key": "OPENAI_API_KEY",
    "openai.base_url": "OPENAI_BASE_URL",
    "anthropic.api_key": "ANTHROPIC_API_KEY",
    "anthropic.base_url": "ANTHROPIC_BASE_URL",
    "store.trust": "XSCORE_TRUST_STORE",
}
"""Settings whose variable has a name that is not made from theirs."""
NOT_OURS = "XSCORE_PYTHON"
"""A variable of the GitHub action's own steps."""
MAX_FILE_BYTES = 1_000_000
SWITCHES = {"yes": True, "on": True, "no": False, "off": False}
CI_ORIGIN = "environment CI"
"""Origin of `memory.extract` where a continuous integration runs xscore."""
_TRUE = ("1", "true", "yes")
G = TypeVar("G", bound=SettingsGroup)


class LoadedSettings(Struct, frozen=True):
    """Settings with the origin of each value."""

    settings: Settings
    origins: dict[str, str]
    """`section.name` -> `default`, `environment XSCORE_…`, `flag`, or the file."""
    warnings: tuple[str, ...]


class SettingField(Struct, frozen=True):
    """What a setting accepts and who may set it."""

    group: type[SettingsGroup]
    kind: Any
    """Its type, without the marks."""
    default: object
    repository_may: bool | str
    """Whether a repository's file may set it; `off`: only to switch it off."""


@cache
def setting_names() -> dict[str, SettingField]:
    """Every setting by `section.name`, in the order of the reference."""
    names = {}
    for section, group in get_type_hints(Settings).items():
        defaults = group()
        for name, hint in get_type_hints(group, include_extras=True).items():
            if get_origin(hint) is Annotated:
                metas = get_args(hint)[1:]
            else:
                metas = ()
            extra: dict[str, Any] = {}
            for meta in metas:
                extra.update(meta.extra or {})
            if not extra.get("fixed"):
                default = getattr(defaults, name)
                names[f"{section}.{name}"] = SettingField(
                    group, hint, default, extra.get("repo", False)
                )
    return names


def repository_may_set(name: str, value: object = None) -> bool:
    """Whether a repository's own file may set this name (some it may only set to a certain
    value)."""
    allowed = setting_names()[name].repository_may
    if allowed == "off":
        return value is False or value == "off"
    return bool(allowed)


def environment_variable(name: str) -> str:
    """Name the environment variable that sets `section.name`."""
    return VARIABLES.get(name, "XSCORE_" + name.replace(".", "_").upper())


def load_settings(
    *,
    repo_root: Path | None,
    user_file: Path | None,
    environ: Mapping[str, str],
    flags: Mapping[str, object] | None = None,
    flag_names: Mapping[str, str] | None = None,
) -> LoadedSettings:
    """Merge all sources, lowest first.

    flags: `section.name` -> value; a value of None is a flag not given.
    flag_names: `section.name` -> what the user wrote to set it, such as `--max-usd` or `max_usd=`,
        for error messages.

    Raises UsageError for an unreadable file, an unknown name or a value out of range; the message
    names the source.
    """
    by_group: dict[str, dict[str, object]] = {}
    origins = dict.fromkeys(setting_names(), "default")
    warnings: list[str] = []
    for source, values in _sources(repo_root, user_file, environ, flags or {}, warnings):
        for name, value in values.items():
            _check_name(name, source)
            is_of_repository = source in REPOSITORY_FILES
            if is_of_repository and not repository_may_set(name, value):
                warnings.append(
                    f"{source} sets {name}, which only you may set (user file, environment or"
                    " flag); ignored"
                )
                continue
            section, _, field = name.partition(".")
            by_group.setdefault(section, {})[field] = value
            origins[name] = (
                f"environment {environment_variable(name)}" if source == ENVIRONMENT else source
            )
    warnings += _misspelt_variables(environ)
    groups = {
        section: _validate(section, values, origins, flag_names or {})
        for section, values in by_group.items()
    }
    settings = replace(Settings(), **groups)
    if environ.get("CI", "").lower() in _TRUE and origins["memory.extract"] == "default":
        # Nobody reads what a build machine said, and its store is thrown away.
        settings = replace(settings, memory=replace(settings.memory, extract="off"))
        origins["memory.extract"] = CI_ORIGIN
    settings = replace(
        settings, decisions=replace(settings.decisions, hosts=_decision_hosts(environ))
    )
    return LoadedSettings(settings, origins, tuple(warnings))


def _decision_hosts(environ: Mapping[str, str]) -> dict[str, HostAccess]:
    """Return the vendors of decision models that the environment says something of."""
    hosts = {}
    for vendor in DECISION_VENDORS:
        key = f"{vendor.upper()}_API_KEY"
        url = environ.get(f"{vendor.upper()}_BASE_URL", "")
        if url or environ.get(key):
            hosts[vendor] = HostAccess(url, Secret(environ.get(key, "")), key)
    return hosts


def validate_group(group: type[G], values: Mapping[str, object]) -> G:
    """Check values from outside and build the group; a table is merged over its default.

    Raises ValueError with the field's path (`$.name`) and never the value of a secret.
    """
    defaults = group()
    merged = dict(values)
    for name, value in values.items():
        default = getattr(defaults, name, None)
        if isinstance(default, dict) and isinstance(value, dict):
            merged[name] = {**default, **value}
    if "model" in values and hasattr(defaults, "is_named"):
        merged["is_named"] = True
    validated = convert(merged, group, strict=False, dec_hook=_from_outside)
    for name in values:
        amount = getattr(validated, name)
        if isinstance(amount, Decimal) and not (amount.is_finite() and 0 <= amount <= MOST_USD):
            raise ValueError(f"Expected dollars from 0 to {MOST_USD:,} - at `$.{name}`")
    return validated


def _from_outside(kind: type, value: object) -> object:
    if isinstance(value, kind):
        return value
    if not isinstance(value, str):
        raise TypeError(f"Expected `str`, got `{type(value).__name__}`")
    return kind(value)


def _validate(
    section: str,
    values: Mapping[str, object],
    origins: Mapping[str, str],
    flag_names: Mapping[str, str],
) -> object:
    try:
        return validate_group(type(getattr(Settings(), section)), values)
    except ValueError as error:
        from xscore.settings.accepted import describe_accepted  # for an error alone

        _, _, path = str(error).partition(" - at ")
        field = re.search(r"\$\.(\w+)", path)
        name = f"{section}.{field[1]}" if field else section
        origin = origins.get(name, "settings")
        accepted = f"does not fit: {error}"
        if field:
            accepted = (
                f"accepts {describe_accepted(setting_names()[name].kind, values.get(field[1]))}"
            )
        if origin == "flag" and name in flag_names:
            raise UsageError(
                f"{flag_names[name]} {accepted}", hint=f"It sets {name}."
            ) from error
        hint = "Correct or remove it; `xscore config show` then shows what is in force."
        raise UsageError(f"{origin}: {name} {accepted}", hint=hint) from error


def _sources(
    repo_root: Path | None,
    user_file: Path | None,
    environ: Mapping[str, str],
    flags: Mapping[str, object],
    warnings: list[str],
) -> Iterator[tuple[str, dict[str, object]]]:
    if user_file is not None and is_there(user_file, stat.S_ISREG):
        yield str(user_file), _flatten(_read_toml(user_file), str(user_file))
    paths: list[Path] = []
    if repo_root is not None:
        paths = [repo_root / name for name in REPOSITORY_FILES]
    for path in paths:
        name = path.name
        if is_there(path, stat.S_ISREG, follow=False):
            data = _read_toml(path) if name == ".xscore.toml" else _tool_table(path, warnings)
            yield name, _flatten(data, name)
        elif name == ".xscore.toml" and is_there(path, follow=False):
            warnings.append(f"{name} is a link or not a regular file; its settings are ignored")
    sources = {}
    for name, field in setting_names().items():
        text = environ.get(environment_variable(name), "")
        if text:
            sources[name] = _from_text(text, field.default)
    yield ENVIRONMENT, sources
    yield "flag", {name: value for name, value in flags.items() if value is not None}


def _misspelt_variables(environ: Mapping[str, str]) -> list[str]:
    """Warn of variables that look like settings and are none, each with the nearest that is one."""
    variables = [environment_variable(name) for name in setting_names()]
    unknown: list[str] = []
    for name in sorted(environ):
        if name.startswith("XSCORE_") and name not in (*variables, NOT_OURS):
            unknown.append(name)
    if not unknown:
        return []
    warnings: list[str] = []
    for name in unknown:
        (nearest,) = nearest_names(name, variables, limit=1, likeness=0.0)
        warnings.append(f"environment: {name} sets nothing; the nearest setting is {nearest}")
    return warnings


def _tool_table(path: Path, warnings: list[str]) -> object:
    """Return xscore's table; where the file cannot be read, warn and return none: other programs
    own the rest of it."""
    try:
        tool = _read_toml(path, holding=b"xscore").get("tool", {})
    except UsageError as error:
        warnings.append(f"{error.message}; a [tool.xscore] in it is ignored")
        return {}
    if isinstance(tool, dict):
        return tool.get("xscore", {})
    return {}


def _read_toml(path: Path, *, holding: bytes = b"") -> dict[str, Any]:
    """Read a file of at most `MAX_FILE_BYTES`. holding: parse nothing where these bytes are not in
    it."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise ValueError(f"it has more than {MAX_FILE_BYTES:,} bytes")
        if holding not in data:
            return {}
        return parse_toml(data.decode())
    except (OSError, ValueError) as error:  # of bytes, of TOML, of its numbers, of its nesting
        raise UsageError(
            f"{path} cannot be read: {error}", hint="Correct the file, or move it away."
        ) from error


def _flatten(data: object, source: str) -> dict[str, object]:
    flat: dict[str, object] = {}
    for section, values in data.items() if isinstance(data, dict) else [("", data)]:
        if not isinstance(values, dict):
            raise UsageError(
                f"{source}: `{section}` is outside a table",
                hint="Write it as [section] name = value.",
            )
        flat.update({f"{section}.{name}": value for name, value in values.items()})
    return flat


def _from_text(text: str, default: object) -> object:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if isinstance(default, tuple):
        return parts
    if isinstance(default, dict) or (isinstance(default, float) and "=" in text):
        return dict(part.partition("=")[::2] for part in parts)
    if isinstance(default, bool):
        return SWITCHES.get(text.lower(), text.lower())
    return text


def _check_name(name: str, source: str) -> None:
    names = setting_names()
    if name in names and (name not in KEYS or source == ENVIRONMENT):
        return
    section = name.partition(".")[0]
    names_of_section = []
    for full_name in names:
        if full_name.startswith(f"{section}."):
            names_of_section.append(full_name.partition(".")[2])
    if names_of_section:
        hint = f"[{section}] has {', '.join(names_of_section)}."
    else:
        hint = f"Sections: {', '.join(Settings.__struct_fields__)}."
    if name in KEYS:
        hint = f"Keys are read from the environment only; set {environment_variable(name)}."
    raise UsageError(f"{source}: there is no setting `{name}`", hint=hint)

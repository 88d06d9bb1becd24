"""Layer the settings: defaults < user file < repository file < environment < flags.

A repository's file (`.xscore.toml`, or `[tool.xscore]` in `pyproject.toml`) comes with a clone, so it may set only
what is marked `REPO`: globs, thresholds, quotas, boosts. Hosts, models, keys, budgets and limits are the user's alone;
found in a repository's file they are ignored and reported. A misspelt name is an error everywhere.

Settings reach the other rooms by hand only, and this room reads no environment but the one it is given. (What a
terminal says of itself, `cli.terminal`, and what git needs to run, `git`, are no settings.)
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import get_origin

from msgspec import Struct
from pydantic import SecretStr, ValidationError

from xscore.platform.errors import UsageError
from xscore.settings.model import Settings, SettingsGroup

VENDORS = ("openai", "anthropic")
"""Sections whose key comes from the environment alone."""
KEYS = frozenset(f"{vendor}.api_key" for vendor in VENDORS)


class LoadedSettings(Struct, frozen=True):
    """Settings with the place each value came from."""

    settings: Settings
    origins: dict[str, str]
    """`section.name` -> `default`, `environment XSCORE_…`, `flag`, or the file."""
    warnings: tuple[str, ...]


def load_settings(
    *,
    repo_root: Path | None,
    user_file: Path | None,
    environ: Mapping[str, str],
    flags: Mapping[str, object] | None = None,
) -> LoadedSettings:
    """Merge all sources, lowest first.

    flags: `section.name` -> value; None values are flags not given.
    Raises UsageError for an unreadable file, an unknown name or a value out of range; the message names the source.
    """
    values: dict[str, object] = {}
    origins: dict[str, str] = {}
    warnings: list[str] = []
    for source, found in _sources(repo_root, user_file, environ, flags or {}, warnings):
        _check_names(found, source)
        for name, value in found.items():
            values[name] = value
            origins[name] = source if source != "environment" else f"environment {environment_variable(name)}"
    settings = _validate(values, origins)
    for vendor in VENDORS:
        part = getattr(settings, vendor)
        key = environ.get(part.api_key_env, "")
        if key:
            with_key = part.model_copy(update={"api_key": SecretStr(key)})
            settings = settings.model_copy(update={vendor: with_key})
            origins[f"{vendor}.api_key"] = f"environment {part.api_key_env}"
    return LoadedSettings(settings, {name: origins.get(name, "default") for name in setting_names()}, tuple(warnings))


def setting_names() -> dict[str, tuple[type[SettingsGroup], str]]:
    """Every setting: `section.name` -> (part, field name), in the order of the reference."""
    names: dict[str, tuple[type[SettingsGroup], str]] = {}
    for section, info in Settings.model_fields.items():
        part = info.annotation
        assert isinstance(part, type) and issubclass(part, SettingsGroup)
        for field in part.model_fields:
            names[f"{section}.{field}"] = (part, field)
    return names


def repository_may_set(name: str, value: object = None) -> bool:
    """Whether a repository's own file may set this name, to this value where some are for it and others not."""
    part, field = setting_names()[name]
    extra = part.model_fields[field].json_schema_extra
    allowed = extra.get("repo") if isinstance(extra, dict) else None
    return value is False if allowed == "off" else bool(allowed)


def _sources(
    repo_root: Path | None,
    user_file: Path | None,
    environ: Mapping[str, str],
    flags: Mapping[str, object],
    warnings: list[str],
) -> list[tuple[str, dict[str, object]]]:
    found: list[tuple[str, dict[str, object]]] = []
    if user_file is not None and user_file.is_file():
        found.append((str(user_file), _flatten(_read_toml(user_file), str(user_file))))
    if repo_root is not None:
        found.extend(_repo_sources(repo_root, warnings))
    found.append(("environment", _from_environment(environ)))
    found.append(("flag", {name: value for name, value in flags.items() if value is not None}))
    return found


def _repo_sources(root: Path, warnings: list[str]) -> list[tuple[str, dict[str, object]]]:
    found = []
    for name, table in ((".xscore.toml", ()), ("pyproject.toml", ("tool", "xscore"))):
        path = root / name
        if not path.is_file() or path.is_symlink():
            continue
        data: object = _read_toml(path, tolerant=name == "pyproject.toml")
        for key in table:
            data = data.get(key, {}) if isinstance(data, dict) else {}
        values = _flatten(data, name)
        _check_names(values, name)
        for refused in [key for key, value in values.items() if not repository_may_set(key, value)]:
            del values[refused]
            warnings.append(f"{name} sets {refused}, which only you may set (user file, environment or flag); ignored")
        found.append((name, values))
    return found


def _read_toml(path: Path, *, tolerant: bool = False) -> dict[str, object]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:  # of bytes, of TOML, of its numbers, of its nesting
        if tolerant:
            return {}
        raise UsageError(f"{path} cannot be read: {error}", hint="Mend the file, or move it away.") from error


def _flatten(data: object, source: str) -> dict[str, object]:
    if not isinstance(data, dict):
        raise UsageError(f"{source}: settings are tables, such as [judge]", hint="Write [section], then name = value.")
    flat: dict[str, object] = {}
    for section, values in data.items():
        if not isinstance(values, dict):
            raise UsageError(
                f"{source}: `{section}` stands outside a table", hint="Write it as [section] name = value."
            )
        flat.update({f"{section}.{name}": value for name, value in values.items()})
    return flat


def environment_variable(name: str) -> str:
    """Name the environment variable that sets `section.name`."""
    special = {
        "openai.base_url": "OPENAI_BASE_URL",
        "anthropic.base_url": "ANTHROPIC_BASE_URL",
        "store.trust": "XSCORE_TRUST_STORE",
    }
    return special.get(name, "XSCORE_" + name.replace(".", "_").upper())


def _from_environment(environ: Mapping[str, str]) -> dict[str, object]:
    return {
        name: _from_text(environ[environment_variable(name)], part.model_fields[field].annotation)
        for name, (part, field) in setting_names().items()
        if name not in KEYS and environ.get(environment_variable(name), "") != ""
    }


def _from_text(text: str, kind: object) -> object:
    """Read a list as `a,b` and a table as `name=value,…`; anything else is for the validator to read."""
    if get_origin(kind) is tuple:
        return [part.strip() for part in text.split(",") if part.strip()]
    if get_origin(kind) is dict:
        return dict(part.strip().partition("=")[::2] for part in text.split(",") if part.strip())
    return text


def _check_names(values: Mapping[str, object], source: str) -> None:
    names = setting_names()
    for name in values:
        if name not in names or name in KEYS:
            section = name.partition(".")[0]
            known = [each.partition(".")[2] for each in names if each.startswith(f"{section}.")]
            hint = f"[{section}] has {', '.join(known)}." if known else f"Sections: {', '.join(Settings.model_fields)}."
            if name in KEYS:
                hint = f"Keys are read from the environment only; name the variable in {name}_env."
            raise UsageError(f"{source}: there is no setting `{name}`", hint=hint)


def _validate(values: Mapping[str, object], origins: Mapping[str, str]) -> Settings:
    nested: dict[str, dict[str, object]] = {}
    for name, value in values.items():
        section, field = name.split(".", 1)
        nested.setdefault(section, {})[field] = value
    try:
        return Settings.model_validate(nested)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"][:2])
        raise UsageError(
            f"{origins.get(name, 'settings')}: {name}: {first['msg']}",
            hint="Mend it or take it out; `xscore config show` then shows what is in force.",
        ) from error

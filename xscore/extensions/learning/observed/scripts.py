"""Commands that the repository offers by name: targets of make and just, scripts of npm and
composer, environments of tox and nox, files in `scripts/`.

Each is shown as it is typed, with the first line that it runs. Nothing is run. Trade-off: only
names that say what they are for count.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from xscore.extensions.learning.observed.observed_fact import SourceLine
from xscore.extensions.learning.observed.purposes import (
    MOST_COMMAND_CHARS,
    CommandPurpose,
    CommandSource,
    RunCommand,
    one_command,
    purpose_of_name,
)
from xscore.platform.toml_text import parse_toml

_TARGET = re.compile(r"^([A-Za-z0-9][\w./-]*)[ \t]*:(?![=:])")
_JUST = re.compile(r"^@?([A-Za-z0-9][\w-]*)(?: [^:=]*)?:(?!=)")
_INI_ENVIRONMENT = re.compile(r"^\[testenv(?::([\w.,{}-]+))?\]")
_TOML_ENVIRONMENT = re.compile(r"^\[(?:tool\.tox\.)?env(?:\.([\w.-]+)|_run_base)\]")
_SESSION = re.compile(r"^def (\w+)\(")
_RAKE = re.compile(r"(?:^|[ \t:])(?:task|RakeTask\.new|TestTask\.new)[ \t(]*:(\w+)")
_NOISE = (
    "#",
    "echo ",
    "set ",
    ".",
    "$(info",
    "$(call",
    "printf ",
    "cd ",
    "mkdir ",
    "rm ",
    "if ",
)
"""Beginnings of lines of a recipe that do not say what it is for."""
_INSTALLS_PACKAGES = re.compile(
    r"\b(?:pip3?|uv|poetry|pdm|npm|pnpm|yarn|bun|bundle|composer|go|pre-commit|make)\b"
)
_SCRIPT_FILE = re.compile(r"(?:scripts?|bin|tools)/([\w-]+)(?:\.sh|\.py)?\Z")


def script_commands(path: str, text: str, *, package_manager: str) -> list[RunCommand]:
    """Return the commands that a file offers by name.

    package_manager: what scripts of `package.json` are run with.
    """
    name = path.rpartition("/")[2]
    reader = _READERS.get(name)
    if reader is not None:
        return list(reader(path, text))
    if name == "package.json":
        return list(_package_scripts(path, text, package_manager))
    script = _SCRIPT_FILE.match(path)
    if script is not None:
        purpose = purpose_of_name(script[1])
        if purpose is not None:
            return [RunCommand(purpose, path, SourceLine(path), CommandSource.SCRIPT)]
    return []


def _targets(path: str, text: str) -> Iterator[RunCommand]:
    yield from _recipes(path, text, pattern=_TARGET, runner="make")


def _just_recipes(path: str, text: str) -> Iterator[RunCommand]:
    yield from _recipes(path, text, pattern=_JUST, runner="just")


def _recipes(
    path: str, text: str, *, pattern: re.Pattern[str], runner: str
) -> Iterator[RunCommand]:
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        target = pattern.match(line)
        if target is None:
            continue
        purpose = purpose_of_name(target[1])
        if purpose is None:
            continue
        recipe = _first_recipe_line(lines[number : number + 8])
        # A target that only needs others is named by what it needs.
        needs = line[target.end() :].partition("#")[0].split()
        if not recipe and needs:
            recipe = f"{runner} {' '.join(needs)}"
        # `make install` of most projects copies the program into the system.
        if purpose is CommandPurpose.INSTALL and not _INSTALLS_PACKAGES.search(recipe):
            continue
        yield _named(purpose, f"{runner} {target[1]}", SourceLine(path, number), recipe)


def _first_recipe_line(lines: list[str]) -> str:
    for line in lines:
        bare = line.strip().lstrip("@-+")
        is_noise = not bare or bare.startswith(_NOISE)
        if line[:1] not in (" ", "\t") and bare:
            return ""
        if not is_noise:
            return bare.removesuffix("\\")
    return ""


def _package_scripts(path: str, text: str, package_manager: str) -> Iterator[RunCommand]:
    for name, body in _json_table(text, "scripts").items():
        purpose = purpose_of_name(name)
        if purpose is None or not isinstance(body, str):
            continue
        command = f"{package_manager} run {name}"
        # `bun test` is its own runner.
        if name in ("test", "start") and package_manager != "bun":
            command = f"{package_manager} {name}"
        place = SourceLine(path, _line_of_key(text, name))
        yield _named(purpose, command, place, body)


def _composer_scripts(path: str, text: str) -> Iterator[RunCommand]:
    for name, body in _json_table(text, "scripts").items():
        purpose = purpose_of_name(name)
        if purpose is None:
            continue
        recipe = body
        if isinstance(body, list):
            recipe = next((line for line in body if isinstance(line, str)), "")
        if isinstance(recipe, str):
            place = SourceLine(path, _line_of_key(text, name))
            yield _named(purpose, f"composer {name}", place, recipe)


def _json_table(text: str, key: str) -> Mapping[str, Any]:
    try:
        root = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    table = root.get(key) if isinstance(root, dict) else None
    return table if isinstance(table, dict) else {}


def _line_of_key(text: str, key: str) -> int:
    place = re.search(rf'"{re.escape(key)}"[ \t]*:', text[text.find('"scripts"') :])
    if place is None:
        return 0
    return text.count("\n", 0, max(text.find('"scripts"'), 0) + place.start()) + 1


def _tox_ini(path: str, text: str) -> Iterator[RunCommand]:
    for number, line in enumerate(text.split("\n"), 1):
        section = _INI_ENVIRONMENT.match(line)
        if section is None:
            continue
        yield from _environment(path, number, section[1] or "", runner="tox", flag="-e")


def _tox_toml(path: str, text: str) -> Iterator[RunCommand]:
    for number, line in enumerate(text.split("\n"), 1):
        section = _TOML_ENVIRONMENT.match(line)
        # In `pyproject.toml` only tables of tox count.
        if section is None or (path.endswith("pyproject.toml") and "tool.tox" not in line):
            continue
        yield from _environment(path, number, section[1] or "", runner="tox", flag="-e")


def _environment(
    path: str, line: int, name: str, *, runner: str, flag: str
) -> Iterator[RunCommand]:
    purpose = purpose_of_name(name) if name else CommandPurpose.TEST
    if purpose is None:
        return
    command = f"{runner} {flag} {name}" if name else runner
    yield RunCommand(purpose, command, SourceLine(path, line), CommandSource.ENVIRONMENTS)


def _nox_sessions(path: str, text: str) -> Iterator[RunCommand]:
    is_session = False
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith(("@nox.session", "@session")):
            is_session = True
        function = _SESSION.match(line)
        if function is None:
            continue
        if is_session:
            yield from _environment(path, number, function[1], runner="nox", flag="-s")
        is_session = False


def _pyproject(path: str, text: str) -> Iterator[RunCommand]:
    yield from _tox_toml(path, text)
    try:
        tools = parse_toml(text).get("tool")
    except ValueError:
        return
    if not isinstance(tools, dict):
        return
    for table_name, runner in (("poe", "poe"), ("pdm", "pdm run")):
        tool = tools.get(table_name)
        key = "tasks" if table_name == "poe" else "scripts"
        tasks = tool.get(key) if isinstance(tool, dict) else None
        if isinstance(tasks, dict):
            for name, body in tasks.items():
                yield from _task(path, text, name, body, command=f"{runner} {name}")
    yield from _hatch_scripts(path, text, tools.get("hatch"))


def _hatch_scripts(path: str, text: str, hatch: object) -> Iterator[RunCommand]:
    environments = hatch.get("envs") if isinstance(hatch, dict) else None
    if not isinstance(environments, dict):
        return
    for environment, table in environments.items():
        scripts = table.get("scripts") if isinstance(table, dict) else None
        if not isinstance(scripts, dict):
            continue
        prefix = "" if environment == "default" else f"{environment}:"
        for name, body in scripts.items():
            yield from _task(path, text, name, body, command=f"hatch run {prefix}{name}")


def _task(
    path: str, text: str, name: str, body: object, *, command: str
) -> Iterator[RunCommand]:
    purpose = purpose_of_name(name)
    if purpose is None:
        return
    place = re.search(rf"(?m)^[ \t]*\"?{re.escape(name)}\"?[ \t]*=", text)
    line = 0
    if place:
        line = text.count("\n", 0, place.start()) + 1
    yield _named(
        purpose, command, SourceLine(path, line), body if isinstance(body, str) else ""
    )


def _rake_tasks(path: str, text: str) -> Iterator[RunCommand]:
    for number, line in enumerate(text.split("\n"), 1):
        task = _RAKE.search(line)
        purpose = purpose_of_name(task[1]) if task else None
        if task and purpose:
            yield _named(purpose, f"rake {task[1]}", SourceLine(path, number), "")


def _named(purpose: CommandPurpose, command: str, at: SourceLine, recipe: str) -> RunCommand:
    shown = one_command(recipe)
    if len(shown) > MOST_COMMAND_CHARS:
        shown = f"{shown[:MOST_COMMAND_CHARS]} …"
    return RunCommand(purpose, command, at, CommandSource.SCRIPT, shown)


_READERS: Mapping[str, Callable[[str, str], Iterator[RunCommand]]] = {
    "Makefile": _targets,
    "makefile": _targets,
    "GNUmakefile": _targets,
    "justfile": _just_recipes,
    "Justfile": _just_recipes,
    "composer.json": _composer_scripts,
    "tox.ini": _tox_ini,
    "tox.toml": _tox_toml,
    "noxfile.py": _nox_sessions,
    "pyproject.toml": _pyproject,
    "Rakefile": _rake_tasks,
}

"""What one file of settings shows: packages that it names or configures, commands, versions.

Manifests, files of tools, CI files and scripts; nothing is run. What is read of a file is kept
until the file changes. Trade-off: only known packages, and names that say what they are for, count.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from xscore.extensions.learning.observed.ci_files import ci_commands, is_ci_file
from xscore.extensions.learning.observed.named_places import (
    NamedPlace,
    named_places,
    names_places,
)
from xscore.extensions.learning.observed.observed_fact import ObservedFact
from xscore.extensions.learning.observed.purposes import RunCommand
from xscore.extensions.learning.observed.runtimes import runtime_facts
from xscore.extensions.learning.observed.scripts import script_commands
from xscore.platform.text import normalized_package
from xscore.platform.toml_text import parse_toml
from xscore.store.redaction import redact

_MANIFEST = re.compile(
    r"(?:.*/)?(?:pyproject\.toml|package\.json|composer\.json|Cargo\.toml|Pipfile|go\.mod|Gemfile"
    r"|pom\.xml|build\.gradle(?:\.kts)?|requirements[\w.-]*\.txt)\Z"
)
_NOT_OURS = re.compile(
    r"(?:\A|/)(?:tests?|fixtures?|examples?|vendor|node_modules|templates?|bench\w*)/"
)
_OF_TOOLS = {
    r"\.flake8": "flake8",
    r"\.?mypy\.ini": "mypy",
    r"pyrightconfig\.json": "pyright",
    r"\.?ruff\.toml": "ruff",
    r"\.?pylintrc": "pylint",
    r"pytest\.ini": "pytest",
    r"\.eslintrc(?:\.\w+)?|eslint\.config\.\w+": "eslint",
    r"\.prettierrc(?:\.\w+)?|prettier\.config\.\w+": "prettier",
    r"biome\.jsonc?": "@biomejs/biome",
    r"tsconfig\.json": "typescript",
    r"jest\.config\.\w+": "jest",
    r"vitest\.config\.\w+": "vitest",
    r"\.golangci\.ya?ml": "golangci-lint",
    r"\.?rustfmt\.toml": "rustfmt",
    r"\.?clippy\.toml": "clippy",
    r"\.rubocop\.ya?ml": "rubocop",
    r"phpunit\.xml(?:\.dist)?": "phpunit/phpunit",
    r"\.clang-format": "clang-format",
}
"""File in the top folder -> the tool that it configures."""
_OTHERS = re.compile(
    r"(?:GNU)?[Mm]akefile|[Jj]ustfile|Rakefile|noxfile\.py|tox\.(?:ini|toml)|setup\.(?:cfg|py)"
    r"|\.pre-commit-config\.yaml|(?:scripts?|bin|tools)/[\w-]+(?:\.sh|\.py)?"
)
"""Further files of the top folder that are read."""
_DECLARES = re.compile(
    r"(?i)dependenc|^requires$|^require(?:-dev)?$|^(?:dev-)?packages$|^tool$"
)
"""Keys whose lists and tables name packages: those of pip, Poetry, PDM, uv, Pipenv, Cargo, composer
and npm, and the tools that are configured."""
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][\w.-]*)")
_LISTED: Mapping[str, re.Pattern[str]] = {
    "go.mod": re.compile(
        r"(?m)^(?:require[ \t]+|[ \t]+)([\w.-]+(?:/[\w.-]+)+) v\d(?!.*// indirect)"
    ),
    "Gemfile": re.compile(r"""(?m)^[ \t]*gem[ \t(]+["']([\w-]+)"""),
    "pom.xml": re.compile(r"<artifactId>([\w.-]{1,80})</artifactId>"),
    "build.gradle": re.compile(r"""["'][\w.-]{1,80}:([\w.-]{1,80}):"""),
    "build.gradle.kts": re.compile(r"""["'][\w.-]{1,80}:([\w.-]{1,80}):"""),
    ".pre-commit-config.yaml": re.compile(r"(?m)^[ \t-]*id:[ \t]*([\w-]+)"),
    "setup.cfg": re.compile(r"(?m)^\[(?:tool:)?(flake8|mypy|pytest|isort|pylint)\b"),
    "tox.ini": re.compile(r"(?m)^\[(flake8|mypy|pytest|isort)\b"),
}
"""Pattern of a package's name in manifests that are not TOML or JSON."""
_RUFF_FORMAT = re.compile(r"\bruff format\b|^\[tool\.ruff\.format\]", re.MULTILINE)
MOST_DECLARED = 5_000
MOST_LOCATED = 60
"""Most known packages located in one file, which is searched once for each."""


class SettingsTraits(Struct, array_like=True):
    """What one version of a file of settings shows."""

    version: str
    packages: dict[str, int] = {}
    """Known package -> the line that names it; 0: the file as a whole."""
    own_name: str = ""
    """The project's own package, if it is a known one."""
    commands: list[RunCommand] = []
    runtimes: list[ObservedFact] = []
    names: list[NamedPlace] = []
    """Places in the file that say what folders are called."""


def is_manifest(path: str) -> bool:
    """Whether a file names packages of this project."""
    return _MANIFEST.match(path) is not None and _NOT_OURS.search(path) is None


def is_settings_file(path: str) -> bool:
    """Whether a file of the top folder, or one of CI, shows how the project is worked on."""
    if path.endswith((".yml", ".yaml")) and is_ci_file(path):
        return True
    if names_places(path):
        return True
    # Nearly all files lie deeper.
    return path.count("/") < 2 and (_OTHERS.fullmatch(path) is not None or _tool_of(path) != "")


def _tool_of(path: str) -> str:
    """Return the tool that a file of the top folder configures, or ""."""
    if "/" in path:
        return ""
    for pattern, tool in _OF_TOOLS.items():
        if re.fullmatch(pattern, path):
            return tool
    return ""


def read_settings_file(
    path: str, text: str, *, version: str, known_packages: Collection[str], package_manager: str
) -> SettingsTraits:
    """Return what a file shows. known_packages: the packages that count.

    package_manager: what scripts of `package.json` are run with.
    """
    packages, own_name = _packages_in(path, text, known_packages)
    commands: list[RunCommand] = []
    if is_ci_file(path):
        commands = ci_commands(path, text)
    # In the top folder, or in one such as `scripts/`.
    elif path.count("/") <= 1:
        commands = script_commands(path, text, package_manager=package_manager)
    # Any other name excludes nothing.
    if own_name not in known_packages:
        own_name = ""
    shown = [_redacted(command) for command in commands]
    runtimes = list(runtime_facts(path, text))
    return SettingsTraits(
        version, packages, own_name, shown, runtimes, _clean_names(path, text)
    )


def _clean_names(path: str, text: str) -> list[NamedPlace]:
    """Return what a file calls folders, without names that may be secrets."""
    clean: list[NamedPlace] = []
    for named in named_places(path, text):
        if not redact(f"{named.name}\n{named.place}").count:
            clean.append(named)
    return clean


def _redacted(command: RunCommand) -> RunCommand:
    """Return a command without the secrets that somebody wrote into it: what is kept of a file is
    stored."""
    return replace(
        command,
        command=redact(command.command, prose=True).text,
        recipe=redact(command.recipe, prose=True).text,
    )


def _packages_in(
    path: str, text: str, known_packages: Collection[str]
) -> tuple[dict[str, int], str]:
    name = path.rpartition("/")[2]
    declared: set[str] = set()
    own_name = ""
    if is_manifest(path) and name not in _LISTED:
        try:
            declared, own_name = _read_manifest(path, text)
        except (ValueError, RecursionError):
            # What cannot be read shows nothing; the other manifests do.
            return {}, ""
    elif name in _LISTED:
        declared = {
            normalized_package(match) for match in _LISTED[name].findall(text)[:MOST_DECLARED]
        }
    packages: dict[str, int] = {}
    declared_known = sorted(package for package in declared if package in known_packages)
    for package in declared_known[:MOST_LOCATED]:
        packages[package] = line_naming(package, text)
    tool = _tool_of(path)
    if tool:
        packages.setdefault(tool, 0)
    formats = _RUFF_FORMAT.search(text)
    if formats is not None and "ruff-format" in known_packages:
        packages.setdefault("ruff-format", text.count("\n", 0, formats.start()) + 1)
    return packages, own_name


def _read_manifest(path: str, text: str) -> tuple[set[str], str]:
    """Return a manifest's packages and the project's own name.

    Raises ValueError, RecursionError.
    """
    if path.endswith(".txt"):
        return set(_requirements(text.splitlines())), ""
    parse = json.loads if path.endswith(".json") else parse_toml
    root = _table(parse(text))
    poetry = _table(_table(root.get("tool")).get("poetry"))
    own_names = (
        root.get("name"),
        _table(root.get("project")).get("name"),
        _table(root.get("package")).get("name"),
        poetry.get("name"),
    )
    own_name = next(filter(None, own_names), "")
    packages = set(_declared_packages(root))
    packages.add(str(root.get("packageManager", "")).partition("@")[0])
    return packages, normalized_package(str(own_name))


def _declared_packages(root: Mapping[str, Any]) -> Iterator[str]:
    """Return the packages of every table and list that declares some, however deeply nested."""
    waiting = [root]
    while waiting:
        for key, value in waiting.pop().items():
            if isinstance(value, dict):
                waiting.append(value)
            if not _DECLARES.search(key):
                continue
            if isinstance(value, list):
                yield from _requirements(value)
            for name, entry in _table(value).items():
                if isinstance(entry, list):
                    # A group: what it lists is declared, its name is not.
                    yield from _requirements(entry)
                else:
                    yield normalized_package(name)


def _requirements(lines: Collection[object]) -> Iterator[str]:
    for line in lines:
        if isinstance(line, str):
            match = _REQUIREMENT.match(line)
            if match is not None:
                yield normalized_package(match[1])


def line_naming(package: str, text: str) -> int:
    """Return the first line that declares the package; 0 if there is none."""
    name = re.escape(package).replace(r"\-", "[-_.]")
    place = re.search(
        rf"(?im)(?:^[ \t]*|[\"'\[.:>]|\bid:[ \t]*|\bgem[ \t(]+[\"']){name}(?![\w/-])", text
    )
    if place is None:
        return 0
    return text.count("\n", 0, place.end()) + 1


def _table(value: object) -> Mapping[str, Any]:
    if isinstance(value, dict):
        return value
    return {}

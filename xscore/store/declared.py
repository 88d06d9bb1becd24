"""What the manifests of a repository declare: commands, binaries, packages with their versions.

Read line by line, since nothing but names and versions is wanted and a parser of TOML takes
milliseconds: `Makefile`, `package.json`, `pyproject.toml`, `setup.cfg`, `requirements*.txt`,
`Cargo.toml`, `go.mod`, `justfile`, those of folders too. Nothing is run. Trade-off: what a manifest
computes or includes is not seen, so where a Makefile includes another no target is reported as
missing.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct, field

from xscore.platform.files import FileRefused, read_file_under
from xscore.platform.paths import native_name
from xscore.platform.text import normalized_package

MOST_MANIFESTS = 40
MOST_BYTES = 300_000
_MANIFESTS = frozenset(
    """
    Makefile makefile GNUmakefile package.json pyproject.toml setup.cfg setup.py Cargo.toml go.mod
    justfile Justfile Pipfile
    """.split()
)
_REQUIREMENTS = re.compile(r"requirements[\w.-]*\.(?:txt|in)\Z")
_TARGET = re.compile(r"([\w./%$(){}-][\w./%$(){} -]*?)[ \t]*::?(?!=)")
_TABLE = re.compile(r"[ \t]*+\[{1,2}[ \t]*+([^\[\]]++)\]")
_ENTRY = re.compile(r"""[ \t]*["']?([A-Za-z][\w./@-]*)["']?[ \t]*=[ \t]*(.*)""")
_REQUIREMENT = re.compile(r"""([A-Za-z][\w.-]*)(?:\[[^\]]*\])?[ \t]*([=<>~!^][^;"'#]*)?""")
_QUOTED = re.compile(r""""([^"\n]*)"|'([^'\n]*)'""")
_RUNTIMES = {"requires-python": "python", "python_requires": "python", "rust-version": "rust"}
_SCRIPT_TABLES = frozenset({"project.scripts", "project.gui-scripts", "tool.poetry.scripts"})


class Declared(Struct):
    """What manifests declare, gathered manifest by manifest."""

    targets: set[str] = field(default_factory=set)
    """Targets of Makefiles."""
    has_open_makefile: bool = False
    """Whether a Makefile includes or computes targets."""
    scripts: set[str] = field(default_factory=set)
    """Scripts of `package.json`."""
    recipes: set[str] = field(default_factory=set)
    """Recipes of a justfile."""
    binaries: set[str] = field(default_factory=set)
    """Commands that an installation of the repository has."""
    versions: dict[str, list[str]] = field(default_factory=dict)
    """Package or runtime, normalized -> what is required of its version."""
    manifests: set[str] = field(default_factory=set)
    """Names of the manifests that were read."""

    def require(self, package: str, version: str) -> None:
        """Note that a package is required, in some version."""
        self.versions.setdefault(normalized_package(package), []).append(version.strip())


def is_manifest(path: str) -> bool:
    """Whether this file is read."""
    name = path.rpartition("/")[2]
    return name in _MANIFESTS or _REQUIREMENTS.match(name) is not None


def read_declared(top: int, paths: Iterable[str]) -> Declared:
    """Read the manifests among these paths, outermost first; one that cannot be read declares
    nothing. top: the open folder of the repository."""
    manifests = sorted(filter(is_manifest, paths), key=lambda path: (path.count("/"), path))
    declared = Declared()
    for path in manifests[:MOST_MANIFESTS]:
        try:
            data = read_file_under(top, native_name(path), max_bytes=MOST_BYTES)
            _read_manifest(path.rpartition("/")[2], data.decode("utf-8", "replace"), declared)
        except (OSError, FileRefused, ValueError, RecursionError):
            continue
    return declared


def _read_manifest(name: str, text: str, declared: Declared) -> None:
    declared.manifests.add(name)
    if name in ("Makefile", "makefile", "GNUmakefile"):
        _read_makefile(text, declared)
    elif name == "package.json":
        _read_package(json.loads(text), declared)
    elif name.lower() == "justfile":
        _read_justfile(text, declared)
    elif name == "go.mod":
        _read_go_module(text, declared)
    elif name.endswith((".txt", ".in")):
        for line in text.splitlines():
            _read_requirement(line, declared)
    else:
        _read_tables(text, declared)


def _unindented(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if line[:1] not in (" ", "\t", "#", ""):
            yield line


def _read_makefile(text: str, declared: Declared) -> None:
    for line in _unindented(text):
        if line.startswith(("include ", "-include ", "sinclude ", "$(")):
            declared.has_open_makefile = True
        target = _TARGET.match(line)
        for word in target[1].split() if target is not None else ():
            declared.targets.add(word)
            if "$" in word or "%" in word:
                declared.has_open_makefile = True


def _read_justfile(text: str, declared: Declared) -> None:
    for line in _unindented(text):
        head, colon, rest = line.partition(":")
        if colon and not rest.startswith("="):
            declared.recipes.update(head.lstrip("@").split()[:1])


def _read_go_module(text: str, declared: Declared) -> None:
    for line in text.splitlines():
        words = line.removeprefix("require ").split()
        if len(words) > 1 and (words[0] == "go" or words[1].startswith("v")):
            declared.require(words[0], words[1])


def _read_package(manifest: Any, declared: Declared) -> None:
    if not isinstance(manifest, dict):
        return
    declared.scripts.update(_table(manifest.get("scripts")))
    binaries = manifest.get("bin")
    if isinstance(binaries, str):
        declared.binaries.add(str(manifest.get("name", "")).rpartition("/")[2])
    declared.binaries.update(_table(binaries))
    for name, version in _table(manifest.get("engines")).items():
        declared.require(name, str(version))
    for key, packages in manifest.items():
        if key.lower().endswith("dependencies"):
            for name, version in _table(packages).items():
                declared.require(name, str(version))


def _read_tables(text: str, declared: Declared) -> None:
    """Read `pyproject.toml`, `Cargo.toml`, `setup.cfg` and the like: tables, entries, quoted
    requirements."""
    table = ""
    for line in text.splitlines():
        if line.lstrip().startswith("#"):
            continue
        heading = _TABLE.match(line)
        if heading is not None and "=" not in line and "," not in line:
            table = heading[1].strip("\"' ")
            continue
        entry = _ENTRY.match(line)
        if entry is not None:
            _read_entry(table, entry[1], entry[2], declared)
            listed = "dependenc" in entry[1] or "requires" in entry[1]
        else:
            listed = True
            if table.startswith("options"):  # of `setup.cfg`, without quotes
                _read_requirement(line, declared)
        for double, single in _QUOTED.findall(line) if listed else ():
            _read_requirement(double or single, declared)


def _read_entry(table: str, name: str, value: str, declared: Declared) -> None:
    quoted = _QUOTED.search(value)
    words = ""
    if quoted is not None:
        words = quoted[1] or quoted[2] or ""
    if name in _RUNTIMES:
        declared.require(_RUNTIMES[name], words or value)
    elif table in _SCRIPT_TABLES or table.endswith("entry_points"):
        declared.binaries.add(name)
    elif table in ("bin", "package") and name == "name":
        declared.binaries.add(words)
    elif "dependencies" in table or table.endswith("packages"):
        version = re.search(r"version[ \t]*=[ \t]*[\"']([^\"']*)", value)
        declared.require(name, version[1] if version is not None else words)
        # Groups of optional dependencies are lists below a name.
        for double, single in _QUOTED.findall(value) if "[" in value[:1] else ():
            _read_requirement(double or single, declared)


def _read_requirement(line: str, declared: Declared) -> None:
    requirement = _REQUIREMENT.match(line.strip())
    if requirement is not None:
        declared.require(requirement[1], requirement[2] or "")


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}

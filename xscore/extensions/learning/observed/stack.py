"""The project's stack, as shown by manifests, files of tools and imports.

What a dependency says is data (`stack.json`): topic -> packages as manifests and imports name
them, the usual name after `=`. If there are several for one topic, the one that manifests name
and most files import counts, then the first. A part cites the line of the manifest that names
it, or names three files that import it. What examples and documents import shows nothing.
Trade-off: only known packages count, and of several for one topic only one, unless another
folder's manifest names another.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from xscore.extensions.learning.observed.file_traits import IMPORT, FileTraits
from xscore.extensions.learning.observed.manifests_read import SettingsTraits
from xscore.extensions.learning.observed.observed_fact import (
    FILES_NAMED,
    ObservedFact,
    SourceLine,
    is_aside,
)
from xscore.records.memory import Kind

MIN_IMPORTS = 3
"""Number of files that must import a package that no manifest names."""
"""Where code imports what the project itself need not use; tests count, since they use its
tools."""


_ASKED_AS: Mapping[str, str] = {
    "test_runner": "test framework; test runner; testing framework",
    "linter": "linter",
    "formatter": "code formatter; formatter",
    "type_checker": "type checker",
    "orm": "ORM",
    "http_client": "HTTP client; HTTP library",
    "package_manager": "package manager",
    "web_framework": "web framework",
}
"""Topic -> the names by which a task asks for it."""


class StackPart(Struct, frozen=True):
    """One choice shown by the project's files."""

    topic: str
    value: str
    files: tuple[str, ...] = ()
    """Files that import it, sorted."""
    manifest: SourceLine | None = None
    """The line that names it; None if only imports show it."""
    folder: str = ""
    """Folder in which it is another choice than the project's main one; empty if it is the main
    one."""

    @property
    def key(self) -> str:
        """What its memory is about."""
        if self.folder:
            return f"{self.topic} in {self.folder}"
        return self.topic

    @property
    def manifest_folder(self) -> str:
        """The folder of the manifest that names it; empty for the top, and where none does."""
        if self.manifest:
            return self.manifest.path.rpartition("/")[0]
        return ""

    def as_fact(self) -> ObservedFact:
        """Return what its memory says."""
        folder = f" in {self.folder}" if self.folder else ""
        seen_in = self.files[:FILES_NAMED]
        lines: tuple[SourceLine, ...] = ()
        if self.manifest:
            seen_in = (self.manifest.path,)
            lines = (self.manifest,)
        aliases: tuple[str, ...] = ()
        if self.topic in _ASKED_AS:
            aliases = tuple(_ASKED_AS[self.topic].split("; "))
        return ObservedFact(
            key=self.key,
            value=self.value,
            words=f"Uses {self.value}{folder}.",
            kind=Kind.TECH_STACK,
            because=f"seen in {', '.join(seen_in)}",
            aliases=aliases,
            lines=lines,
            files=self.files,
            count=len(self.files),
            topic=self.topic,
        )


def shown_stack(
    files: Mapping[str, FileTraits],
    settings: Mapping[str, SettingsTraits],
    locks: Mapping[str, str],
) -> tuple[StackPart, ...]:
    """Return the stack by topic: one part each, and others that other folders' manifests name.

    locks: package manager -> its lock file.
    """
    manifest_lines, own_names = _named_in_settings(settings)
    for manager, lock in locks.items():
        manifest_lines.setdefault(manager, SourceLine(lock))
    importing = _importing_files(files)
    by_topic: dict[str, list[StackPart]] = {}
    for package, (topic, value) in known_packages().items():
        importers = importing.get(package, set())
        line = manifest_lines.get(package)
        if package in own_names or (line is None and len(importers) < MIN_IMPORTS):
            continue
        part = StackPart(topic, value, tuple(sorted(importers)), line)
        by_topic.setdefault(topic, []).append(part)
    parts: list[StackPart] = []
    for _, of_topic in sorted(by_topic.items()):
        # Equal ones stay in the order of the list of known packages.
        of_topic.sort(key=lambda part: (part.manifest is None, -len(part.files)))
        parts += _main_and_others(of_topic)
    return tuple(parts)


def _main_and_others(best_first: Sequence[StackPart]) -> list[StackPart]:
    """Return the best of one topic, and of each other folder with a manifest of its own the best
    that differs."""
    main = best_first[0]
    chosen = [main]
    folders = {main.manifest_folder}
    values = {main.value}
    for part in best_first[1:]:
        folder = part.manifest_folder
        if part.manifest is None or folder in folders or part.value in values:
            continue
        folders.add(folder)
        values.add(part.value)
        chosen.append(replace(part, folder=folder or "the top folder"))
    return chosen


@cache
def known_packages() -> Mapping[str, tuple[str, str]]:
    """Package -> topic and usual name."""
    data = Path(__file__).with_name("stack.json").read_bytes()
    packages: dict[str, tuple[str, str]] = {}
    for topic, lines in msgspec.json.decode(data, type=dict[str, list[str]]).items():
        for word in " ".join(lines).split():
            package, _, name = word.partition("=")
            packages[package] = (topic, name or package)
    return packages


def _importing_files(files: Mapping[str, FileTraits]) -> dict[str, set[str]]:
    """Package -> importing files, tests included."""
    files_by_name: dict[str, set[str]] = {}
    for path, file in files.items():
        if is_aside(path):
            continue
        for trait in file.traits:
            if trait.startswith(IMPORT):
                files_by_name.setdefault(trait.removeprefix(IMPORT), set()).add(path)
    return files_by_name


def _named_in_settings(
    settings: Mapping[str, SettingsTraits],
) -> tuple[dict[str, SourceLine], set[str]]:
    """Return known packages with the line that names them, and the project's own package names."""
    lines: dict[str, SourceLine] = {}
    own_names = set[str]()
    # The top's come first: if two manifests name a package, the outer one is cited.
    for path in sorted(settings, key=lambda path: (path.count("/"), path)):
        traits = settings[path]
        own_names.add(traits.own_name)
        for package, line in traits.packages.items():
            lines.setdefault(package, SourceLine(path, line))
    return lines, own_names - {""}

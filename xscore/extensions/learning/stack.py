"""The project's stack, as shown by manifests and imports, for `consolidate` to note.

Read are the indexed `pyproject.toml`, `package.json`, `Pipfile` and `requirements*.txt`, and the
modules that code imports; nothing is run. What a dependency says is data (`stack.toml`). A part is
noted as inferred: it cites the line of the manifest, and is stale when that changes, or names three
files that import it. What examples and documents import shows nothing. Trade-off: only known
packages count, and of several for one topic only one, unless another folder's manifest names
another.
"""

import json
import re
import sqlite3
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from xscore.extensions.learning.draft import LIVE, ActionKind, ConsolidationDraft, as_superseded
from xscore.pipeline.contradictions import topic_of_key
from xscore.platform.errors import UsageError
from xscore.platform.files import FileRefused, opened_folder, read_file_under
from xscore.platform.hashing import integer_id
from xscore.platform.paths import native_name
from xscore.platform.text import counted
from xscore.platform.toml_text import parse_toml
from xscore.records.memory import (
    Citation,
    Kind,
    Layer,
    Memory,
    MemoryDetails,
    MemorySource,
    MemoryStatus,
)
from xscore.store import memory_writer
from xscore.store.composing import details_text
from xscore.store.events import EventName
from xscore.store.evidence import parse_citation
from xscore.store.file_bodies import read_with_bodies
from xscore.store.store import Store

ORIGIN = "stack"
MIN_IMPORTS = 3
"""Number of files that must import a package that no manifest names."""
MAX_MANIFESTS = 50
MAX_MANIFEST_BYTES = 1_000_000
_MANIFEST = re.compile(
    r"(?:.*/)?(?:pyproject\.toml|package\.json|Pipfile|requirements[\w.-]*\.txt)\Z"
)
_NOT_OURS = re.compile(r"(?:\A|/)(?:tests?|fixtures?|examples?|vendor|node_modules|templates?)/")
_ASIDE = re.compile(r"(?:\A|/)(?:examples?|docs?|vendor|node_modules|templates?)/")
"""Where code imports what the project itself need not use; tests count, since they use its
tools."""
_DECLARES = re.compile(r"(?i)dependenc|^requires$|^(?:dev-)?packages$|^tool$")
"""Keys whose lists and tables name packages: those of pip, Poetry, PDM, uv, Pipenv and npm, and the
tools that are configured."""
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][\w.-]*)")
_ENTITIES = "source = 'index' AND layer = 'graph' AND status = 'active'"


class StackPart(Struct, frozen=True):
    """One choice shown by the project's files."""

    topic: str
    value: str
    files: tuple[str, ...] = ()
    """Files that import it, sorted."""
    manifest: Citation | None = None
    """The line that names it; None: only imports show it."""
    folder: str = ""
    """Where it is another choice than the project's main one; empty: it is that."""

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


def read_stack(store: Store) -> tuple[StackPart, ...]:
    """Return the stack of the indexed files, by topic: one part each, and others that other
    folders' manifests name."""
    manifest_lines, own_names = _named_in_manifests(store)
    importing = _importing_files(store.connection)
    by_topic: dict[str, list[StackPart]] = {}
    for package, (topic, value) in _known_packages().items():
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


def note_stack(
    draft: ConsolidationDraft, shown: Collection[StackPart], *, erased: Collection[str]
) -> None:
    """Note parts that no memory contradicts, update changed ones, archive those no longer shown.

    erased: ids that were removed and do not come back.
    """
    project = draft.of_scope("project")
    noted = [memory for memory in project if memory.particulars.imported_from == ORIGIN]
    # By a person, or inferred from something else: a manifest takes the place of neither.
    taken = set[str]()
    for memory in project:
        is_other = memory not in noted and memory.status is not MemoryStatus.SUPERSEDED
        if memory.key and is_other:
            taken.add(topic_of_key(memory.key))
    current = set[str]()
    for part in shown:
        memory = _stack_memory(part, draft)
        if part.topic in taken or memory.id in erased:
            continue
        current.add(memory.id)
        draft.seen[memory.id] = draft.now
        earlier = draft.after.get(memory.id)
        if earlier is not None:
            if earlier.status not in (MemoryStatus.SUPERSEDED, MemoryStatus.STALE):
                continue
            # Feedback may have changed its confidence since: keep that.
            revived = replace(earlier, superseded_by="")
            memory = memory_writer.with_status(revived, MemoryStatus.ACTIVE)
        _note_part(draft, part, memory, noted)
    for memory in noted:
        if memory.id not in current and draft.after[memory.id].status in LIVE:
            draft.archive(
                "project", memory, why="no file shows it any more, or a memory says otherwise"
            )


def _note_part(
    draft: ConsolidationDraft, part: StackPart, memory: Memory, noted: Sequence[Memory]
) -> None:
    """Note a part of the stack; earlier notes of the same key are superseded."""
    rivals: list[Memory] = []
    for earlier in noted:
        is_same_topic = earlier.key == memory.key and earlier.id != memory.id
        if is_same_topic and earlier.status in LIVE:
            rivals.append(earlier)
    shown_by: list[str] = []
    if part.manifest:
        place = f"{part.manifest.path}:{part.manifest.start_line}"
        shown_by.append(f"{place} names it")
    if part.files:
        shown_by.append(f"imported in {counted(len(part.files), 'file')}")
    why = f"{part.key}: {part.value}, {'; '.join(shown_by)}"
    superseded = [as_superseded(rival, memory.id) for rival in rivals]
    draft.change(ActionKind.INFER, "project", memory, *superseded, why=why)
    draft.citations[memory.id] = ()
    if part.manifest:
        draft.citations[memory.id] = (part.manifest,)


def erased_ids(connection: sqlite3.Connection) -> frozenset[str]:
    """Return the ids of all memories that were removed."""
    rows = connection.execute(
        "SELECT DISTINCT subject FROM event WHERE name = ?", (EventName.REMOVED,)
    )
    return frozenset(memory_id for (memory_id,) in rows)


def _stack_memory(part: StackPart, draft: ConsolidationDraft) -> Memory:
    paths = part.files[:MIN_IMPORTS]
    if part.manifest:
        paths = (part.manifest.path,)
    rationale = f"seen in {', '.join(paths)}"
    details = MemoryDetails(rationale=rationale, imported_from=ORIGIN, paths=paths)
    folder = ""
    if part.folder:
        folder = f" in {part.folder}"
    memory, _ = memory_writer.make_memory(
        layer=Layer.PROJECT,
        kind=Kind.TECH_STACK,
        title=f"{part.key}: {part.value}",
        text=f"Uses {part.value}{folder}.{details_text(details)}",
        ordinal=integer_id(ORIGIN, part.key, part.value),
        particulars=details,
        key=part.key,
        confidence=draft.rules.inferred_confidence,
        evidence_count=max(1, len(part.files)),
        source=MemorySource.INFERRED,
        updated_at=draft.now,
    )
    return memory


@cache
def _known_packages() -> Mapping[str, tuple[str, str]]:
    """Package -> topic and usual name."""
    data = tomllib.loads(Path(__file__).with_name("stack.toml").read_text("utf-8"))
    packages: dict[str, tuple[str, str]] = {}
    for topic, words in data.items():
        for word in words.split():
            package, _, name = word.partition("=")
            packages[package] = (topic, name or package)
    return packages


def _importing_files(connection: sqlite3.Connection) -> dict[str, set[str]]:
    """Package -> importing files, tests included."""
    files_by_name: dict[str, set[str]] = {}
    for path, attrs, *_ in read_with_bodies(connection, "path", _ENTITIES):
        if _ASIDE.search(path):
            continue
        for imported in json.loads(attrs).get("imports", ()):
            package = _package_of(str(imported).partition(":")[0])
            files_by_name.setdefault(_normalized(package), set()).add(path)
    return files_by_name


def _package_of(module: str) -> str:
    """Return the package of an imported module: `a` of `a.b` and `a/b`, `@a/b` of `@a/b/c`."""
    first, _, rest = module.partition("/")
    if first.startswith("@"):
        return f"{first}/{rest.partition('/')[0]}"
    return first.partition(".")[0]


def _named_in_manifests(store: Store) -> tuple[dict[str, Citation], set[str]]:
    """Return known packages with the line that names them, and the project's own package names."""
    manifests: list[str] = []
    for (path,) in store.connection.execute("SELECT path FROM file WHERE excluded = ''"):
        if _MANIFEST.match(path) and not _NOT_OURS.search(path):
            manifests.append(path)
    # The top's come first: of two manifests that name a package the outer one is cited.
    manifests.sort(key=lambda path: (path.count("/"), path))
    cited: dict[str, Citation] = {}
    own_names = set[str]()
    with opened_folder(store.root.path) as top:
        for path in manifests[:MAX_MANIFESTS]:
            try:
                data = read_file_under(top, native_name(path), max_bytes=MAX_MANIFEST_BYTES)
                text = data.decode("utf-8")
                packages, own_name = _read_manifest(path, text)
                own_names.add(own_name)
                for package in packages & _known_packages().keys() - cited.keys():
                    place = f"{path}{_line_naming(package, text)}"
                    cited[package] = parse_citation(store.root, place)
            except (FileRefused, OSError, ValueError, RecursionError, UsageError):
                # What cannot be read shows nothing; the other manifests do.
                continue
    return cited, own_names


def _read_manifest(path: str, text: str) -> tuple[set[str], str]:
    """Return a manifest's packages and the project's own name.

    Raises ValueError, RecursionError.
    """
    if path.endswith(".txt"):
        return set(_requirements(text.splitlines())), ""
    parse = json.loads if path.endswith(".json") else parse_toml
    root = _table(parse(text))
    poetry = _table(_table(root.get("tool")).get("poetry"))
    own_names = (root.get("name"), _table(root.get("project")).get("name"), poetry.get("name"))
    own_name = next(filter(None, own_names), "")
    packages = set(_declared_packages(root))
    packages.add(str(root.get("packageManager", "")).partition("@")[0])
    return packages, _normalized(str(own_name))


def _declared_packages(root: Mapping[str, Any]) -> Iterator[str]:
    """Return the packages of every table and list that declares some, however deep it stands."""
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
                    yield _normalized(name)


def _requirements(lines: Collection[object]) -> Iterator[str]:
    for line in lines:
        if isinstance(line, str):
            match = _REQUIREMENT.match(line)
            if match is not None:
                yield _normalized(match[1])


def _line_naming(package: str, text: str) -> str:
    """Return `:12` for the first line that declares the package; empty if there is none."""
    name = re.escape(package).replace(r"\-", "[-_.]")
    place = re.search(rf"(?im)(?:^[ \t]*|[\"'\[.]){name}(?![\w/-])", text)
    if place is None:
        return ""
    line = text.count("\n", 0, place.end()) + 1
    return f":{line}"


def _table(value: object) -> Mapping[str, Any]:
    if isinstance(value, dict):
        return value
    return {}


def _normalized(name: str) -> str:
    return name.lower().replace("_", "-")

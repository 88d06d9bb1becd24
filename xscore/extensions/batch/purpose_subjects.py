"""What has a purpose to be written: files of code, classes, and folders with several such files.

A model is shown an outline (signatures and first sentences of docstrings), not the bodies: a tenth
of the tokens. Trade-off: what only a body says, no purpose says.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence

from msgspec import Struct

from xscore.platform.paths import folder_of
from xscore.records.memory import PRODUCT_CODE_KINDS, Kind, Memory
from xscore.store.memory_rows import IN_JSON_LIST, select_memories
from xscore.store.personal_data import redact_said
from xscore.store.purposes import (
    IndexedClass,
    PurposeKey,
    PurposeKind,
    folder_keys,
    indexed_classes,
)
from xscore.store.store import Store

FILE_CHARS, CLASS_CHARS, FOLDER_CHARS = 4_000, 1_600, 2_000
HEAD_CHARS, BLOCK_CHARS, SENTENCE_CHARS = 600, 160, 160
"""Characters shown of the first block of a file, of another block, and of the docstring of what
it defines."""
FILES_OF_FOLDER = 2
"""Fewest files of a folder; one with fewer says no more than its file does."""
PATHS_AT_ONCE = 500
_FILES_OF_CODE = f"""
    SELECT file.path, file_hash FROM file JOIN memory ON memory.path = file.path
    WHERE excluded = '' AND memory.source = 'index' GROUP BY file.path
    HAVING sum(kind IN ({", ".join(f"'{kind}'" for kind in sorted(PRODUCT_CODE_KINDS))}))
        > sum(kind = '{Kind.TEST}') ORDER BY file.path
"""


class Subject(Struct, frozen=True, kw_only=True):
    """Something of which a model says what it is for."""

    key: PurposeKey
    path: str
    """Path of a file or a folder; empty: the root."""
    name: str
    """Name of the class; empty for a file or folder."""
    source: str
    """Text that the model is shown of it, redacted."""


class SubjectPlace(Struct, frozen=True):
    """A subject whose source was not read yet."""

    key: PurposeKey
    path: str
    name: str = ""


def all_places(store: Store) -> dict[PurposeKey, SubjectPlace]:
    """Return what may have a purpose, in the order of the paths; no source is read.

    Two files of the same bytes are one.
    """
    places: dict[PurposeKey, SubjectPlace] = {}
    for place in sorted(_places(store), key=lambda place: (place.path, place.name)):
        places.setdefault(place.key, place)
    return places


def read_subjects(store: Store, places: Sequence[SubjectPlace]) -> list[Subject]:
    """Return these with their sources; those without any are left out."""
    subjects: list[Subject] = []
    for start in range(0, len(places), PATHS_AT_ONCE):
        chunk = places[start : start + PATHS_AT_ONCE]
        memories = _memories_by_path(store, [place.path for place in chunk])
        for place in chunk:
            if place.key.kind is PurposeKind.FOLDER:
                source = _folder_source(store, place.path)
            else:
                source = _source_of(place, memories[place.path])
            redacted = redact_said(source, prose=False, allow_pii=store.settings.allow_pii)
            if redacted.text.strip():
                subject = Subject(
                    key=place.key, path=place.path, name=place.name, source=redacted.text
                )
                subjects.append(subject)
    return subjects


def _places(store: Store) -> list[SubjectPlace]:
    connection = store.connection
    places: list[SubjectPlace] = []
    files_of: defaultdict[str, int] = defaultdict(int)
    for path, file_hash in connection.execute(_FILES_OF_CODE).fetchall():
        places.append(SubjectPlace(PurposeKey(PurposeKind.FILE, file_hash), path))
        files_of[folder_of(path)] += 1
    paths = {place.path for place in places}
    places += [
        _class_place(class_) for class_ in indexed_classes(connection) if class_.path in paths
    ]
    for folder, key in folder_keys(connection).items():
        if files_of[folder] >= FILES_OF_FOLDER:
            places.append(SubjectPlace(key, folder))
    return places


def _class_place(class_: IndexedClass) -> SubjectPlace:
    return SubjectPlace(class_.key, class_.path, class_.entity)


def _memories_by_path(store: Store, paths: Iterable[str]) -> defaultdict[str, list[Memory]]:
    by_path: defaultdict[str, list[Memory]] = defaultdict(list)
    among = (json.dumps(sorted(set(paths))),)
    condition = f"source = 'index' AND path {IN_JSON_LIST}"
    for memory in select_memories(store.connection, condition, among):
        by_path[memory.path].append(memory)
    return by_path


def _source_of(place: SubjectPlace, memories: Sequence[Memory]) -> str:
    """Return the outline of a file, or of one of its classes with its members."""
    lines: list[str] = []
    for memory in memories:
        if place.name and not _is_of_class(memory, place.name):
            continue
        lines += _outline(memory, is_first=not lines)
    return "\n".join(lines)[: CLASS_CHARS if place.name else FILE_CHARS]


def _is_of_class(memory: Memory, name: str) -> bool:
    return memory.entity == name or memory.entity.startswith((f"{name}.", f"{name}::"))


def _outline(memory: Memory, *, is_first: bool) -> list[str]:
    """Return the signature of a memory, and the first sentence of its docstring."""
    if memory.kind not in PRODUCT_CODE_KINDS:
        return []
    if memory.kind is Kind.BLOCK:
        return [memory.text.strip()[: HEAD_CHARS if is_first else BLOCK_CHARS]]
    indent = "    " if memory.kind is Kind.METHOD else ""
    lines = [f"{indent}{memory.facts.signature or memory.entity}"]
    sentence = " ".join(memory.facts.docstring.split())[:SENTENCE_CHARS]
    if sentence:
        lines.append(f"{indent}    {sentence}")
    return lines


def _folder_source(store: Store, folder: str) -> str:
    """Return the names of a folder's files, each with what it defines at its top."""
    rows = store.connection.execute(
        "SELECT path, entity FROM memory WHERE source = 'index' AND kind IN ('class', 'function')"
        " AND path GLOB ? AND instr(substr(path, ?), '/') = 0 ORDER BY path, start_line",
        (f"{_glob_of(folder)}*", len(folder) + 2 if folder else 1),
    ).fetchall()
    entities_of: defaultdict[str, list[str]] = defaultdict(list)
    for path, entity in rows:
        entities_of[path.rpartition("/")[2]].append(entity)
    lines = [f"{file}: {', '.join(entities)}" for file, entities in entities_of.items()]
    room = FOLDER_CHARS // max(1, len(lines))
    return "\n".join(line[: max(room, len(line.partition(":")[0]))] for line in lines)[
        :FOLDER_CHARS
    ]


def _glob_of(folder: str) -> str:
    """Return the pattern of what is below a folder, whose own name is taken as it is."""
    if not folder:
        return ""
    escaped = "".join(f"[{letter}]" if letter in "*?[" else letter for letter in folder)
    return f"{escaped}/"

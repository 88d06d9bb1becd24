"""Names that a change removes for good, and the documents that still mention them.

A name is removed if changed lines lose it and none of them gains it, and no code has it any more.
Telling names count wherever a document has them: compounds (`parse_args`, `--no-ignore`, `MaxSize`)
and the paths of files that are gone. A plain word counts only if the change removed its definition
and a document shows it as code. Changelogs name what is gone by right. Trade-off: a name that lives
on in a comment, or in code that the index keeps out, is thought alive or dead wrongly.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

from msgspec import Struct

from xscore.extensions.checking.file_names import FileRole, role_of
from xscore.extensions.checking.records import Change, ChangeStatus
from xscore.platform.files import FileRefused, opened_folder, read_file_under
from xscore.platform.paths import RepositoryRoot, native_name
from xscore.records.candidates import TERM_ENTRY
from xscore.scorer.term_hits import entries_of
from xscore.store.fetched_pool import FetchedPool
from xscore.store.redaction import is_secret_file
from xscore.store.store import Store
from xscore.store.term_vectors import WHOLE_NAME, split_word

MOST_NAMES = 400
MOST_DOCUMENTS = 2_000
MAX_DOCUMENT_BYTES = 400_000
MOST_TEXTS = 60
"""Most memories that are read to see whether a name is still there; a name in more of them counts
as there."""
SHORTEST = 5
_WORD = re.compile(r"--[a-z][a-z0-9]*(?:-[a-z0-9]+)+|[A-Za-z_]\w{2,63}")
_COMPOUND = re.compile(r"--.*|_*[A-Za-z0-9]+_\w+|[a-z]+[A-Z]\w*|[A-Z]+[a-z0-9]+[A-Z]\w*")
_DEFINITION = re.compile(
    r"^\s*(?:(?:export|default|async|pub(?:\([^)]*\))?|public|private|protected|static|final"
    r"|abstract)\s+){0,4}"
    r"(?:def|class|func|fn|function\*?|struct|enum|trait|interface|type|const|let|var)\s+"
    r"(?:\([^)]{0,80}\)\s*)?([A-Za-z_]\w{2,63})"
)
_CODE_SPAN = re.compile(r"`([^`\n]{1,200})`|\b([A-Za-z_]\w{2,63})\(")
_FENCE = re.compile(r"^\s*(?:```|~~~)")
_PATH_END = r"(?![\w/-]|\.\w)"
_RECORD = re.compile(
    r"(?:^|/)(?:changes|changelogs?|history|news|newsfragments|releases?|release[_-]notes|whatsnew"
    r"|upgrading|migrat\w*|blog)(?:[./_-]|$)",
    re.IGNORECASE,
)
"""Matches paths of files that record the past, and so may name what is gone."""


class RemovedNames(Struct, frozen=True):
    """What a change removes: name -> the file that had it."""

    compounds: Mapping[str, str]
    words: Mapping[str, str]
    """Plain words whose definitions are gone."""
    defined: frozenset[str]
    """The compounds whose definitions are gone, not only a use."""
    paths: Mapping[str, str]
    """Files that are gone, by path -> their new path, or empty."""

    def __bool__(self) -> bool:
        return bool(self.compounds or self.words or self.paths)


class NameMention(Struct, frozen=True):
    """A line of a document that mentions a name that is gone."""

    path: str
    line: int
    name: str
    came_from: str
    """The file that had the name; for a file, its new path or empty."""
    is_path: bool


def removed_names(change: Change) -> RemovedNames:
    """Return the names that the changed lines lose and do not gain."""
    gained: set[str] = set()
    for file in change.files:
        for line in file.added:
            gained.update(_WORD.findall(line))
    compounds: dict[str, str] = {}
    words: dict[str, str] = {}
    for file in change.files:
        if role_of(file.path) not in (FileRole.CODE, FileRole.SETTINGS):
            continue
        for name, is_compound in _names_lost(file.removed):
            if name not in gained:
                (compounds if is_compound else words).setdefault(name, file.path)
    plain = {name: path for name, path in words.items() if name not in compounds}
    defined = frozenset(words.keys() & compounds.keys())
    for name in defined:
        # It came from where it was defined, not from its first use.
        compounds[name] = words[name]
    return RemovedNames(_first(compounds), _first(plain), defined, _first(_gone_paths(change)))


def _names_lost(lines: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """Yield the telling names of removed lines, and the plain words whose definitions they had."""
    for line in lines:
        for name in _WORD.findall(line):
            if len(name) >= SHORTEST and _COMPOUND.fullmatch(name):
                yield name, True
        defined = _DEFINITION.match(line)
        if defined:
            yield defined[1], False


def _gone_paths(change: Change) -> dict[str, str]:
    """Return the old paths of files that are gone -> their new paths, or empty."""
    paths: dict[str, str] = {}
    for file in change.files:
        if file.status is ChangeStatus.DELETED:
            paths[file.path] = ""
        elif file.status is ChangeStatus.RENAMED:
            paths[file.before] = file.path
    return paths


def _first(names: Mapping[str, str]) -> dict[str, str]:
    return dict(list(names.items())[:MOST_NAMES])


def stale_mentions(
    store: Store, pool: FetchedPool, removed: RemovedNames, paths: Iterable[str]
) -> list[NameMention]:
    """Return the mentions of removed names in these files, as far as they are documents.

    Names that code still has are left out.
    """
    if not removed:
        return []
    present = frozenset(paths)
    gone = {path: new for path, new in removed.paths.items() if path not in present}
    documents = [path for path in sorted(present) if _is_document(path)]
    mentions: list[NameMention] = []
    for path, text in _texts(store.root, documents[:MOST_DOCUMENTS]):
        mentions += _mentions_in(path, text, removed, gone)
    names = {mention.name for mention in mentions if not mention.is_path}
    alive = living_names(store, pool, names, defined=removed.defined)
    return [mention for mention in mentions if mention.name not in alive]


def _is_document(path: str) -> bool:
    return role_of(path) is FileRole.DOCUMENT and not _RECORD.search(path)


def _texts(root: RepositoryRoot, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    with opened_folder(root.path) as top:
        for path in paths:
            if is_secret_file(path):
                continue
            name = native_name(path)
            try:
                data = read_file_under(top, name, max_bytes=MAX_DOCUMENT_BYTES, start_only=True)
            except (FileRefused, OSError):
                continue
            yield path, data.decode("utf-8", "replace")


def _mentions_in(
    path: str, text: str, removed: RemovedNames, gone: Mapping[str, str]
) -> Iterator[NameMention]:
    """Yield the first mention of each name in a document."""
    seen: set[str] = set()
    gone_here = {old: new for old, new in gone.items() if old in text}
    is_fenced = False
    for number, line in enumerate(text.splitlines(), start=1):
        if _FENCE.match(line):
            is_fenced = not is_fenced
        for name in _names_in_line(line, removed, is_fenced=is_fenced):
            if name not in seen:
                seen.add(name)
                came_from = removed.compounds.get(name) or removed.words[name]
                yield NameMention(path, number, name, came_from, is_path=False)
        for old, new in gone_here.items():
            if old not in seen and old in line and re.search(_path_pattern(old), line):
                seen.add(old)
                yield NameMention(path, number, old, new, is_path=True)


def _path_pattern(path: str) -> str:
    return rf"(?<![\w/-]){re.escape(path)}{_PATH_END}"


def _names_in_line(line: str, removed: RemovedNames, *, is_fenced: bool) -> list[str]:
    in_line = _WORD.findall(line)
    names = [name for name in in_line if name in removed.compounds]
    if removed.words:
        as_code = in_line if is_fenced else _words_as_code(line)
        names += [name for name in as_code if name in removed.words]
    return names


def _words_as_code(line: str) -> list[str]:
    words: list[str] = []
    for span, called in _CODE_SPAN.findall(line):
        words += _WORD.findall(span or called)
    return words


def living_names(
    store: Store, pool: FetchedPool, names: Iterable[str], *, defined: frozenset[str]
) -> frozenset[str]:
    """Return those of these names that code or settings of the index still have.

    defined: names that were defined; they live on only where something else defines them, since a
        comment may name what is gone.
    """
    code_ids: list[str] = []
    is_code: dict[str, bool] = {}
    for candidate in pool.candidates:
        role = role_of(candidate.path) if candidate.path else FileRole.DOCUMENT
        is_code[candidate.id] = role in (FileRole.CODE, FileRole.SETTINGS)
    for id_ in pool.terms.ids:
        code_ids.append(id_ if is_code.get(id_) else "")
    likely = _holders(pool, code_ids, {name: _hashes(name) for name in names})
    alive: set[str] = set()
    for name, holders in likely.items():
        if name in defined:
            is_alive = any(holders.values())
        else:
            is_alive = len(holders) > MOST_TEXTS or _is_in_a_text(store, name, holders)
        if is_alive:
            alive.add(name)
    return frozenset(alive)


def _hashes(name: str) -> frozenset[int]:
    """Return the terms that a text with this name has for sure."""
    terms: set[int] = set()
    for word in re.findall(r"\w+", name):
        terms.update(term for _, term in split_word(word)[-1:])
    return frozenset(terms)


def _holders(
    pool: FetchedPool, code_ids: Sequence[str], hashes: Mapping[str, frozenset[int]]
) -> dict[str, dict[str, bool]]:
    """Return the memories of code that have all terms of a name, by name, and whether each defines
    it."""
    every = sorted(frozenset().union(*hashes.values()))
    ends = list(accumulate(pool.terms.sizes))
    terms_of: dict[str, dict[int, int]] = {}
    for entry, number, _, fields in entries_of(pool.terms.entries, every) if every else ():
        id_ = code_ids[bisect_right(ends, entry * TERM_ENTRY.size)]
        if id_:
            terms_of.setdefault(id_, {})[every[number]] = fields
    holders: dict[str, dict[str, bool]] = {name: {} for name in hashes}
    for id_, fields_of in terms_of.items():
        for name, needed in hashes.items():
            if needed <= fields_of.keys():
                defines = all(fields_of[term] & WHOLE_NAME for term in needed)
                holders[name][id_] = defines
    return holders


def _is_in_a_text(store: Store, name: str, ids: Iterable[str]) -> bool:
    pattern = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w])")
    return any(pattern.search(memory.text) for memory in store.memories(ids).values())

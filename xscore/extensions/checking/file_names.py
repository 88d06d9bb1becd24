"""What the names of files say: which is a test, a document or a setting, and which belong together.

Names are compared by their words: `tests/test_cache.py`, `cache.py` and `docs/cache.md` are one
matter. Trade-off: only names are read, so a test that is called otherwise is none.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache

from msgspec import Struct

from xscore.indexer.languages import is_test_path, language_of
from xscore.platform.paths import folder_of
from xscore.store.term_vectors import stem

MOST_COMPARED = 60
"""Changed files whose names are compared with all others."""
_DATA_OF_TESTS = re.compile(
    r"(?:^|/)(?:tests?|__tests__|testing|specs?|e2e)(?:/|$)", re.IGNORECASE
)
_DOCUMENT = re.compile(r".*\.(?:md|mdx|rst|adoc|txt|tex|html?)$", re.IGNORECASE)
_DOCUMENT_NAME = re.compile(
    r"^(?:readme|changes|changelog|history|news|authors|contributing|license|upgrading|releases?)"
    r"(?:\..*)?$",
    re.IGNORECASE,
)
_SETTINGS = re.compile(
    r".*\.(?:toml|ya?ml|json5?|jsonc|ini|cfg|conf|lock|xml|gradle|mod|sum|properties|env)$"
    r"|^(?:\.[^/]+|makefile|dockerfile|package-lock\.json|manifest\.in)$",
    re.IGNORECASE,
)
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_GENERIC = frozenset(
    """
    test tests testing spec specs unit src lib libs source sources packages pkg crates apps docs doc
    index init main mod readme the py js ts go rs e2e integration
    """.split()
)
"""Words of names that nearly every repository has."""


class FileRole(StrEnum):
    """What a file is for."""

    CODE = "code"
    TEST = "test"
    DOCUMENT = "document"
    SETTINGS = "settings"


@lru_cache(maxsize=1 << 14)
def role_of(path: str) -> FileRole:
    """Return what a file is for, by its name."""
    name = path.rpartition("/")[2]
    # What is in the folders of tests and is not code changes with them.
    if is_test_path(path, language_of(path)) or _DATA_OF_TESTS.search(folder_of(path)):
        return FileRole.TEST
    if _DOCUMENT.match(name) or _DOCUMENT_NAME.match(name):
        return FileRole.DOCUMENT
    if _SETTINGS.match(name) or path.startswith("."):
        return FileRole.SETTINGS
    return FileRole.CODE


class NameLikeness(Struct, frozen=True):
    """How a file's name is like those of a change: 0..1 each, of the nearest changed file."""

    of_name: float = 0.0
    """Words that the file names share, over all words of both; 1 where they say the same."""
    of_path: float = 0.0
    """The same figure for the whole paths."""
    nearest: str = ""
    """The changed file with the nearest name."""


@lru_cache(maxsize=1 << 14)
def _name_words(path: str) -> frozenset[str]:
    return _words(path.rpartition("/")[2].partition(".")[0])


@lru_cache(maxsize=1 << 14)
def _path_words(path: str) -> frozenset[str]:
    return _words(path.rpartition(".")[0] or path)


def _words(text: str) -> frozenset[str]:
    words = {stem(part.lower()) for part in _PART.findall(text)}
    return frozenset(word for word in words if word not in _GENERIC and len(word) > 1)


def name_likeness(paths: Sequence[str], changed: Iterable[str]) -> dict[str, NameLikeness]:
    """Return how the names of files are like those of changed ones; what has no word in common is
    missing."""
    by_word: dict[str, list[str]] = {}
    for path in paths:
        for word in _path_words(path):
            by_word.setdefault(word, []).append(path)
    likeness: dict[str, NameLikeness] = {}
    for of_change in sorted(changed)[:MOST_COMPARED]:
        for path, common in _common_counts(by_word, _path_words(of_change)).items():
            if path == of_change:
                continue
            of_path = common / len(_path_words(path) | _path_words(of_change))
            names = _name_words(path), _name_words(of_change)
            of_name = len(names[0] & names[1]) / max(len(names[0] | names[1]), 1)
            before = likeness.get(path, NameLikeness())
            nearest = of_change if of_name > before.of_name else before.nearest
            likeness[path] = NameLikeness(
                max(of_name, before.of_name), max(of_path, before.of_path), nearest
            )
    return likeness


def _common_counts(
    by_word: Mapping[str, Sequence[str]], words: frozenset[str]
) -> dict[str, int]:
    counts: dict[str, int] = {}
    for word in sorted(words):
        for path in by_word.get(word, ()):
            counts[path] = counts.get(path, 0) + 1
    return counts

"""Resolve module names to files.

A *reference* is how the store names a module: `./src/pkg/x` is a path in this repository, `pkg/x` a name that some path
may end in. Resolving needs only the list of paths. Trade-off: it knows no path aliases of bundlers and no installed
packages; a module that it cannot resolve counts as external.
"""

import posixpath
from collections.abc import Iterable, Iterator
from functools import cache
from os.path import commonprefix

from xscore.indexer.languages import LANGUAGES, family_of, language_named

_SCRIPT_SUFFIXES = (".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx")


def module_reference(module: str, *, path: str, separator: str = "/", is_relative: bool = False) -> str:
    """Return the reference for a module that the file `path` imports; empty if it is outside the repository."""
    if separator == ".":
        return _dotted(module, path)
    if separator == "::":
        return _in_crate(module, path)
    if separator == "\\":
        return "/".join(filter(None, module.split("\\")))
    if is_relative or module.startswith("."):
        joined = posixpath.normpath(posixpath.join(posixpath.dirname(path), module))
        return "" if joined.startswith("..") else "./" + joined
    return module.removeprefix("@/").removeprefix("~/").split("?")[0]


def _in_crate(module: str, path: str) -> str:
    """`crate::a::b` -> `a/b`; `self::` and `super::` count from the folder of the file."""
    first, *rest = module.split("::")
    folder = posixpath.dirname(path)
    match first:
        case "crate":
            return "/".join(rest)
        case "self" | "super":
            return "./" + posixpath.join(folder, *[part for part in rest if part != "super"])
        case _:
            return "/".join([first, *rest])


def _dotted(module: str, path: str) -> str:
    name = module.lstrip(".")
    up = len(module) - len(name)
    parts = [part.strip() for part in name.split(".") if part.strip()]
    if not up:
        return "/".join(parts)
    folder = posixpath.dirname(path).split("/") if posixpath.dirname(path) else []
    if up - 1 > len(folder):
        return ""
    return "./" + "/".join([*folder[: len(folder) - (up - 1)], *parts])


def _with_those_above(folder: str) -> Iterator[str]:
    while folder:
        yield folder
        folder = folder.rpartition("/")[0]


class ModuleIndex:
    """Finds the files of a repository by module name."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = frozenset(paths)
        folders = {path.rpartition("/")[0] for path in self._paths}
        self._folders = {above for folder in folders for above in _with_those_above(folder)}
        self._by_tail: dict[str, list[tuple[str, str]]] = {}
        for path in sorted(self._paths):
            stem = _stem(path)
            if stem:
                self._by_tail.setdefault(stem.rpartition("/")[2], []).append((stem, path))

    def resolve(self, target: str, *, importer: str, language: str) -> str:
        """Return the file that a reference in `importer` means; empty if there is none, or if several fit equally."""
        if target.startswith("./"):
            return self._at(target[2:], language)
        if language_named(language).module_separator == "\\":  # the first parts are the vendor's, and no folders
            parts = target.split("/")
            ends = ("/".join(parts[at:]) for at in range(len(parts)))
            return next(filter(None, (self._named(end, importer, language) for end in ends)), "")
        return self._named(target, importer, language)

    def _named(self, target: str, importer: str, language: str) -> str:
        folders = importer.split("/")[:-1]
        found = [
            ((len(commonprefix([path.split("/")[:-1], folders])), -len(stem)), path, stem)  # noqa: RUF071  lists of folders, not text
            for stem, path in self._by_tail.get(target.rpartition("/")[2], ())
            if (stem == target or stem.endswith("/" + target)) and path.endswith(_path_ends(family_of(language)))
        ]
        if not target or not found:
            return ""
        likeness, best, stem = max(found)
        return best if {tied for other, _, tied in found if other == likeness} == {stem} else ""

    def folder(self, target: str) -> str:
        """Return the folder, with a final slash, that the end of a module's name matches; empty if there is none."""
        parts = target.split("/")
        ends = ("/".join(parts[at:]) for at in range(len(parts)))
        return next((f"{end}/" for end in ends if end in self._folders), "")

    def _at(self, place: str, language: str) -> str:
        if place in self._paths:
            return place
        bare = [place, *(place.removesuffix(suffix) for suffix in _SCRIPT_SUFFIXES if place.endswith(suffix))]
        paths = (
            (stem + end).removeprefix("/").removeprefix("./")
            for stem in bare
            for end in language_named(language).path_ends
        )
        return next((path for path in paths if path in self._paths), "")


@cache
def _path_ends(family: str) -> tuple[str, ...]:
    return tuple(end for row in LANGUAGES if family_of(row.name) == family for end in row.path_ends)


@cache
def _module_suffixes() -> tuple[str, ...]:
    named_by_files = (row for row in LANGUAGES if row.grammar and row.module_separator and not row.has_folder_modules)
    suffixes = {suffix for row in named_by_files for suffix in row.path_ends if "." in suffix}
    return tuple(sorted(suffixes, key=len, reverse=True))


def _stem(path: str) -> str:
    """`src/pkg/__init__.py` -> `src/pkg`; `lib/a.js` -> `lib/a`; empty if it is not a module."""
    return next((path.removesuffix(suffix) for suffix in _module_suffixes() if path.endswith(suffix)), "")

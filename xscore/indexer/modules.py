"""Module names and the files they stand for.

A *reference* is how a module is remembered in the store: `./src/pkg/x` is a place in this repository, `pkg/x` is a name
that some file path may end in. Resolving needs only the list of paths; nothing is read. It knows no path aliases of
bundlers and no installed packages: what does not resolve is taken to be foreign.
"""

import posixpath
from collections.abc import Iterable
from functools import cache

from xscore.indexer.languages import LANGUAGES, Language, by_name, family_of

_SCRIPT_SUFFIXES = (".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx")


def reference(module: str, *, path: str, separator: str = "/", is_relative: bool = False) -> str:
    """How the module that `path` names is remembered; empty where the name leads out of the repository."""
    if separator == ".":
        return _dotted(module, path)
    if is_relative or module.startswith("."):
        joined = posixpath.normpath(posixpath.join(posixpath.dirname(path), module))
        return "" if joined.startswith("..") else "./" + joined
    return module.removeprefix("@/").removeprefix("~/").split("?")[0]


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


class Modules:
    """The files of a repository, by the module names that may mean them."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = frozenset(paths)
        self._by_tail: dict[str, list[tuple[str, str]]] = {}
        for path in sorted(self._paths):
            for stem in _stems(path):
                self._by_tail.setdefault(stem.rpartition("/")[2], []).append((stem, path))

    def resolve(self, target: str, *, importer: str, language: str) -> str:
        """The file that a reference means when `importer` says it; empty: none, or several as likely."""
        if target.startswith("./"):
            return self._at(target[2:], language)
        found = [
            (stem, path)
            for stem, path in self._by_tail.get(target.rpartition("/")[2], ())
            if stem == target or stem.endswith("/" + target)
            if _suits(path, language)
        ]
        if not target or not found:
            return ""
        best = max(found, key=lambda pair: (_shared(pair[1], importer), -len(pair[0]), pair[1]))
        tied = [p for s, p in found if (_shared(p, importer), len(s)) == (_shared(best[1], importer), len(best[0]))]
        return best[1] if len(tied) == 1 or len({_stems(p)[0] for p in tied}) == 1 else ""

    def _at(self, place: str, language: str) -> str:
        if place in self._paths:
            return place
        bare = [place]
        bare += [place.removesuffix(suffix) for suffix in _SCRIPT_SUFFIXES if place.endswith(suffix)]
        suffixes = by_name(language).module_suffixes or by_name(language).suffixes
        for stem in bare:
            for suffix in suffixes:
                path = (stem + suffix).removeprefix("/").removeprefix("./")
                if path in self._paths:
                    return path
        return ""


@cache
def _module_suffixes() -> tuple[str, ...]:
    suffixes = {suffix for row in LANGUAGES for suffix in row.module_suffixes}
    return tuple(sorted(suffixes, key=len, reverse=True))


def _stems(path: str) -> list[str]:
    """`src/pkg/__init__.py` -> `src/pkg`; `lib/a.js` -> `lib/a`."""
    return [path.removesuffix(suffix) for suffix in _module_suffixes() if path.endswith(suffix)][:1]


def _suits(path: str, language: str) -> bool:
    family = family_of(language)
    return any(
        path.endswith(suffix) for row in LANGUAGES if (row.family or row.name) == family for suffix in _endings(row)
    )


def _endings(row: Language) -> tuple[str, ...]:
    return row.module_suffixes or row.suffixes


def _shared(one: str, other: str) -> int:
    """Leading folders that two paths share."""
    count = 0
    for a, b in zip(one.split("/")[:-1], other.split("/")[:-1], strict=False):
        if a != b:
            break
        count += 1
    return count

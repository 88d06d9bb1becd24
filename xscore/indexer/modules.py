"""Resolve module names to files.

A *reference* is how the store names a module: `./src/pkg/x` is a path in this repository, `pkg/x` a name that some path
may end in. `ModuleIndex` resolves by the list of paths alone; `ModuleFiles` also by what `go.mod` and `Cargo.toml` call
their modules. Trade-off: neither knows path aliases of bundlers or installed packages; a module that they cannot
resolve counts as external.
"""

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, cached_property

from xscore.indexer.languages import family_of, language_named, module_suffixes, path_ends_of
from xscore.store.link_rows import DecodedMentions

_CRATE_ROOTS = frozenset({"mod.rs", "lib.rs", "main.rs", "build.rs"})
_CRATE_FOLDERS = frozenset({"bin", "tests", "examples", "benches"})
"""Files in Rust whose modules stand beside them, not in a folder of the file's name."""
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
    """`crate::a::b` -> `./src/a/b`; `self::` counts from the module of the file, `super::` from the one above."""
    first, *rest = module.split("::")
    folder, _, name = path.rpartition("/")
    match first:
        case "crate":
            above = f"/{folder}/".rpartition("/src/")
            return posixpath.join("./" + f"{above[0]}/src".strip("/"), *rest) if above[1] else "/".join(rest)
        case "self":
            is_root = name in _CRATE_ROOTS or folder.rpartition("/")[2] in _CRATE_FOLDERS
            return "./" + posixpath.join(folder if is_root else path.removesuffix(".rs"), *rest)
        case "super":
            for _ in range(rest.count("super")):
                folder = posixpath.dirname(folder)
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
        self._at = cache(self._find_at)
        self._by_tail: dict[str, list[tuple[str, str]]] = {}
        self._resolved: dict[tuple[str, str, str], str] = {}
        """What `_named` found: the files of a folder import the same modules."""
        self._ending: dict[tuple[str, str], dict[str, list[tuple[str, str]]]] = {}
        """What `_below` found: looked for at each import, the time of an index would grow by the square."""
        for path in self._paths:
            stem = _stem(path)
            if stem:
                self._by_tail.setdefault(stem.rpartition("/")[2], []).append((stem, path))

    @cached_property
    def _folders(self) -> set[str]:
        folders = {path.rpartition("/")[0] for path in self._paths}
        return {above for folder in folders for above in _with_those_above(folder)}

    def resolve(self, target: str, *, importer: str, language: str) -> str:
        """Return the file that a reference in `importer` means; empty if there is none, or if several fit equally."""
        if target.startswith("./"):
            return self._at(target[2:], language_named(language).path_ends)
        if language_named(language).module_separator == "\\":  # the first parts are the vendor's, and no folders
            parts = target.split("/")
            ends = ("/".join(parts[at:]) for at in range(len(parts)))
            return next(filter(None, (self._named(end, importer, language) for end in ends)), "")
        return self._named(target, importer, language)

    def _named(self, target: str, importer: str, language: str) -> str:
        asked = (target, importer.rpartition("/")[0], language)
        if asked not in self._resolved:
            self._resolved[asked] = self._nearest(*asked)
        return self._resolved[asked]

    def _nearest(self, target: str, folder: str, language: str) -> str:
        below = self._below(target, family_of(language))
        nearest = next((below[place] for place in (*_with_those_above(folder), "") if place in below), [])
        return max(nearest)[1] if len({stem for stem, _ in nearest}) == 1 else ""

    def _below(self, target: str, family: str) -> dict[str, list[tuple[str, str]]]:
        """Return for each folder the stems and paths below it that end in a name, those of the shortest stem."""
        if (target, family) not in self._ending:
            found = self._ending[target, family] = {}
            for stem, path in self._by_tail.get(target.rpartition("/")[2], ()) if target else ():
                if f"/{stem}".endswith(f"/{target}") and path.endswith(path_ends_of(family)):
                    for place in (*_with_those_above(path.rpartition("/")[0]), ""):
                        known = found.setdefault(place, [])
                        if known and len(stem) < len(known[0][0]):
                            known.clear()
                        if not known or len(stem) == len(known[0][0]):
                            known.append((stem, path))
        return self._ending[target, family]

    def folder(self, target: str) -> str:
        """Return the folder, with a final slash, that the end of a module's name matches; empty if there is none."""
        parts = target.split("/")
        ends = ("/".join(parts[at:]) for at in range(len(parts)))
        return next((f"{end}/" for end in ends if end in self._folders), "")

    def _find_at(self, place: str, path_ends: tuple[str, ...]) -> str:
        if place in self._paths:
            return place
        bare = [place, *(place.removesuffix(suffix) for suffix in _SCRIPT_SUFFIXES if place.endswith(suffix))]
        paths = ((stem + end).removeprefix("/").removeprefix("./") for stem in bare for end in path_ends)
        return next((path for path in paths if path in self._paths), "")


def _stem(path: str) -> str:
    """`src/pkg/__init__.py` -> `src/pkg`; `lib/a.js` -> `lib/a`; empty if it is not a module."""
    for suffix in _suffixes_by_end().get(path[path.rfind(".") :], ()):
        if path.endswith(suffix):
            return path.removesuffix(suffix)
    return ""


@cache
def _suffixes_by_end() -> dict[str, list[str]]:
    """The suffixes of modules by what follows their last dot, with it, in their order."""
    found: dict[str, list[str]] = {}
    for suffix in module_suffixes():
        found.setdefault(suffix[suffix.rfind(".") :], []).append(suffix)
    return found


class ModuleFiles:
    """Resolves references of imports to files and folders."""

    def __init__(self, languages: Mapping[str, str], mentions: Callable[[str], DecodedMentions]) -> None:
        """languages: of all files. mentions: of a path."""
        self._modules, self._languages, self._mentions = ModuleIndex(languages), languages, cache(mentions)

    def _file(self, target: str, importer: str) -> str:
        place = self._in_named_crate(target, importer)
        return self._modules.resolve(place, importer=importer, language=self._languages.get(importer, ""))

    def _in_named_crate(self, target: str, importer: str) -> str:
        """`my_crate/x` -> `./crates/my-crate/src/x`, where a `Cargo.toml` names that crate; else as it was."""
        crate, _, rest = target.partition("/")
        if crate not in self._crates or not self._is_rust(importer):
            return target
        return "/".join(filter(None, (".", self._crates[crate], "src", rest)))

    def _is_rust(self, path: str) -> bool:
        return language_named(self._languages.get(path, "")).module_separator == "::"

    def _has_packages(self, path: str) -> bool:
        return language_named(self._languages.get(path, "")).has_folder_modules

    @cached_property
    def _go_modules(self) -> list[tuple[str, str]]:
        """The name and folder of each Go module, innermost first."""
        return sorted(self._modules_of(path for path, name in self._languages.items() if name == "gomod"), reverse=True)

    @cached_property
    def _crates(self) -> dict[str, str]:
        """The folder of each Rust crate, by its name in code."""
        return dict(self._modules_of(path for path in self._languages if f"/{path}".endswith("/Cargo.toml")))

    def _modules_of(self, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
        for path in paths:
            for one in self._mentions(path):
                yield one.hint.removeprefix("module:"), folder_of(path)

    def _package(self, target: str) -> str | None:
        """Return the folder of an imported package; None if it is not in this repository."""
        for module, folder in self._go_modules:
            if target == module or target.startswith(module + "/"):
                return "/".join(filter(None, (folder, target.removeprefix(module).lstrip("/"))))
        found = "" if self._go_modules else self._modules.folder(target).rstrip("/")
        return found or None

    def _package_file(self, target: str, path: str) -> str:
        """Return the file that has the name of an imported package, if there is one."""
        folder = self._package(target) if self._has_packages(path) else None
        if folder is None:
            return ""
        named = f"{folder}/{target.rpartition('/')[2]}.go".lstrip("/")
        return named if named in self._languages else ""

    @cached_property
    def _package_files(self) -> dict[str | None, list[str]]:
        """The files of each package, where a module is a folder, by the folder."""
        found: dict[str | None, list[str]] = {}
        for path in sorted(self._languages):
            if self._has_packages(path):
                found.setdefault(folder_of(path), []).append(path)
        return found


def folder_of(path: str) -> str:
    """Return the folder of a path; empty: the root."""
    return path.rpartition("/")[0]

"""Resolve module names to files.

A *reference* is how the store names a module: `./src/pkg/x` is a path of this repository, `pkg/x` a
name that some path may end in, `/x` one that is not a package's, `:x` what a script package calls
`#x` itself. `ModuleIndex` resolves it by the paths, and by what manifests call their modules (see
`manifests`). Trade-off: path aliases of bundlers alone and installed packages are not known; a
module that cannot be resolved counts as external.
"""

import posixpath
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, cached_property

from xscore.indexer.languages import (
    Language,
    family_of,
    language_named,
    module_suffixes,
    path_ends_of,
)
from xscore.indexer.script_packages import (
    MANIFEST,
    WORKSPACE_FILES,
    ScriptPackages,
    is_paths_file,
)
from xscore.platform.paths import folder_of
from xscore.store.encoded_files import FileMentions

_CRATE_ROOTS = frozenset({"mod.rs", "lib.rs", "main.rs", "build.rs"})
_CRATE_FOLDERS = frozenset({"bin", "tests", "examples", "benches"})
"""Files in Rust whose modules are next to them, not in a folder of the file's name."""
_PACKAGE_FILES = ("__init__.py", "__init__.pyi")
_PYTHON_FILES = (".py", ".pyi")
_SCRIPT_SUFFIXES = (".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx")


def module_reference(
    module: str, *, path: str, separator: str = "/", is_relative: bool = False
) -> str:
    """Return the reference for a module that the file `path` imports; empty if it is outside the
    repository."""
    if separator == ".":
        return _dotted(module, path)
    if separator == "::":
        return _in_crate(module, path)
    if separator == "\\":
        return "/".join(filter(None, module.split("\\")))
    if is_relative or module.startswith("."):
        joined = posixpath.normpath(posixpath.join(posixpath.dirname(path), module))
        return "" if joined.startswith("..") else "./" + joined
    if module.startswith("#"):  # private to its package; `#` divides the parts of a hint
        return ":" + module[1:].partition("?")[0]
    if module.startswith(("@/", "~/")):  # what bundlers call the folder of the sources
        module = module[1:]
    if module.startswith("$lib/"):  # what SvelteKit calls the folder `lib` of the sources
        module = "/" + module[1:]
    return module.split("?")[0]


def _in_crate(module: str, path: str) -> str:
    """`crate::a::b` -> `./src/a/b`; `self::` counts from the module of the file, `super::` from the
    one above."""
    first, *rest = module.split("::")
    folder, _, name = path.rpartition("/")
    match first:
        case "crate":
            above, has_sources, _ = f"/{folder}/".rpartition("/src/")
            if not has_sources:
                return "/".join(rest)
            return posixpath.join("./" + f"{above}/src".strip("/"), *rest)
        case "self":
            is_root = name in _CRATE_ROOTS or folder.rpartition("/")[2] in _CRATE_FOLDERS
            own_folder = folder if is_root else path.removesuffix(".rs")
            return "./" + posixpath.join(own_folder, *rest)
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
    folder = [part for part in posixpath.dirname(path).split("/") if part]
    if up - 1 > len(folder):
        return ""
    return "./" + "/".join([*folder[: len(folder) - (up - 1)], *parts])


def _with_those_above(folder: str) -> Iterator[str]:
    while folder:
        yield folder
        folder = folder_of(folder)


def _tails(target: str) -> Iterator[str]:
    """`a/b/c`, `b/c`, `c`."""
    parts = target.split("/")
    return ("/".join(parts[at:]) for at in range(len(parts)))


class ModuleIndex:
    """Finds the file or folder of the repository that a reference means."""

    def __init__(
        self, languages: Mapping[str, str], mentions: Callable[[str], FileMentions]
    ) -> None:
        """languages: those of all files.
        mentions: those of a path.
        """
        self._languages = languages
        self._mentions = cache(mentions)
        self._at = cache(self._find_at)
        # The files of a folder import the same modules.
        self._nearest = cache(self._find_nearest)
        # Looked for at each import, an index would take time by the square.
        self._below = cache(self._find_below)
        self._by_tail: dict[str, list[tuple[str, str]]] = {}
        for path in languages:
            stem = _stem(path)
            if stem:
                self._by_tail.setdefault(stem.rpartition("/")[2], []).append((stem, path))

    def resolve(self, target: str, importer: str) -> str:
        """Return the file that a reference in `importer` means; empty if there is none, or if
        several fit equally."""
        target = self._in_named_crate(target, importer)
        row = self._row(importer)
        folder = folder_of(importer)
        family = family_of(self._languages.get(importer, ""))
        is_script = family == "javascript"
        if target.startswith("./"):
            file = self._at(target[2:], row.path_ends)
            return self._script_packages.main(target[2:]) if is_script and not file else file
        if is_script and (aliased := self._script_packages.aliased(target, importer)):
            return aliased
        if target.startswith("/"):
            target = target[1:]
        elif is_script:
            source = self._script_packages.resolve(target, importer)
            is_package = target.startswith(("@", ":")) or "/" not in target
            # A name that no package of this repository has is another's.
            if source is not None or is_package:
                return source or ""
        if is_script and target.endswith(_SCRIPT_SUFFIXES):
            # Modules are found by their stems: `@/store.js` may mean `store.ts`.
            target = target.rpartition(".")[0]
        if row.module_separator == "\\":  # the first parts are the vendor's, and no folders
            for end in _tails(target):
                if file := self._nearest(end, folder, family):
                    return file
            return ""
        return self._nearest(target, folder, family)

    def find_nearby(self, name: str, path: str) -> str:
        """Return the module of this name that is nearest to a file; empty if there is none, or
        several fit equally."""
        return self._nearest(
            name, folder_of(path), family_of(self._languages.get(path, "")), is_import=False
        )

    def _find_nearest(
        self, target: str, folder: str, family: str, *, is_import: bool = True
    ) -> str:
        below = self._below(target, family)
        for place in (*_with_those_above(folder), ""):
            modules = below.get(place, [])
            if is_import:
                modules = [
                    (stem, path)
                    for stem, path in modules
                    if self._is_importable(stem, path, target, folder)
                ]
            if modules:
                stems = {stem for stem, _ in modules}
                if len(stems) == 1:
                    return max(modules)[1]
                return ""
        return ""

    def _is_importable(self, stem: str, path: str, target: str, folder: str) -> bool:
        """Whether a file may be what a module of this name means in a folder.

        In a package of Python it has the name of the package before its own, and a name of Python's
        library means that library. A script in the package, or below, may name its neighbours.
        """
        top = stem[: -len(target)].rstrip("/")
        if not top or f"{folder}/".startswith(f"{top}/"):
            return True
        if any(f"{top}/{name}" in self._languages for name in _PACKAGE_FILES):
            return False
        is_library = target.partition("/")[0] in sys.stdlib_module_names
        return not (is_library and path.endswith(_PYTHON_FILES))

    def _find_below(self, target: str, family: str) -> dict[str, list[tuple[str, str]]]:
        """Return for each folder the stems and paths below it that end in a name, those of the
        shortest stem."""
        modules: dict[str, list[tuple[str, str]]] = {}
        if not target:
            return modules
        for stem, path in self._by_tail.get(target.rpartition("/")[2], ()):
            if not f"/{stem}".endswith(f"/{target}") or not path.endswith(path_ends_of(family)):
                continue
            for place in (*_with_those_above(folder_of(path)), ""):
                shortest = modules.setdefault(place, [])
                if shortest and len(stem) < len(shortest[0][0]):
                    shortest.clear()
                if not shortest or len(stem) == len(shortest[0][0]):
                    shortest.append((stem, path))
        return modules

    def _find_at(self, place: str, path_ends: tuple[str, ...]) -> str:
        if place in self._languages:
            return place
        stems = [place]
        # `./store.js` in a source of TypeScript means `store.ts`.
        stems += [place.removesuffix(end) for end in _SCRIPT_SUFFIXES if place.endswith(end)]
        for stem in stems:
            for end in path_ends:
                path = (stem + end).removeprefix("/").removeprefix("./")
                if path in self._languages:
                    return path
        return ""

    def _row(self, path: str) -> Language:
        return language_named(self._languages.get(path, ""))

    def _in_named_crate(self, target: str, importer: str) -> str:
        """`my_crate/x` -> `./crates/my-crate/src/x`, where a `Cargo.toml` names that crate;
        otherwise as it was."""
        crate, _, rest = target.partition("/")
        if crate not in self._crates or not self._is_rust(importer):
            return target
        return "/".join(filter(None, (".", self._crates[crate], "src", rest)))

    def _is_rust(self, path: str) -> bool:
        return self._row(path).module_separator == "::"

    def _has_packages(self, path: str) -> bool:
        return self._row(path).has_folder_modules

    @cached_property
    def _go_modules(self) -> list[tuple[str, str]]:
        """The name and folder of each Go module, innermost first."""
        return sorted(
            self._modules_of(path for path, name in self._languages.items() if name == "gomod"),
            reverse=True,
        )

    @cached_property
    def _crates(self) -> dict[str, str]:
        """The folder of each Rust crate, by its name in code."""
        manifests = [
            path for path in self._languages if path.rpartition("/")[2] == "Cargo.toml"
        ]
        return dict(self._modules_of(manifests))

    @cached_property
    def _script_packages(self) -> ScriptPackages:
        """The packages of `package.json` and their workspaces."""
        names = (MANIFEST, *WORKSPACE_FILES)
        hints: list[tuple[str, list[str]]] = []
        for path in self._languages:
            name = path.rpartition("/")[2]
            if name in names or is_paths_file(name):
                hints.append(
                    (folder_of(path), [hint for _, hint in self._mentions(path).imports])
                )
        return ScriptPackages(hints, lambda place: self._at(place, path_ends_of("javascript")))

    def _modules_of(self, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
        for path in paths:
            for _, hint in self._mentions(path).imports:
                yield hint.removeprefix("module:"), folder_of(path)

    def _package(self, target: str) -> str | None:
        """Return the folder of an imported package; None if it is not in this repository."""
        for module, folder in self._go_modules:
            if target == module or target.startswith(module + "/"):
                return "/".join(filter(None, (folder, target.removeprefix(module).lstrip("/"))))
        if self._go_modules:
            return None
        # Without a `go.mod` any folder may be the end of the name.
        for end in _tails(target):
            if end in self._folders:
                return end
        return None

    @cached_property
    def _folders(self) -> set[str]:
        folders: set[str] = set()
        for path in self._languages:
            folders.update(_with_those_above(folder_of(path)))
        return folders

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
        files: dict[str | None, list[str]] = {}
        for path in sorted(self._languages):
            if self._has_packages(path):
                files.setdefault(folder_of(path), []).append(path)
        return files


def _stem(path: str) -> str:
    """`src/pkg/__init__.py` -> `src/pkg`; `lib/a.js` -> `lib/a`; empty if it is not a module."""
    for suffix in _suffixes_by_end().get(path[path.rfind(".") :], ()):
        if path.endswith(suffix):
            return path.removesuffix(suffix)
    return ""


@cache
def _suffixes_by_end() -> dict[str, list[str]]:
    """The suffixes of modules by what follows their last dot, with it, in their order."""
    suffixes: dict[str, list[str]] = {}
    for suffix in module_suffixes():
        suffixes.setdefault(suffix[suffix.rfind(".") :], []).append(suffix)
    return suffixes

"""Resolve what scripts import by the name of a package of this repository, by `package.json` and
its workspaces.

`exports` and its like name built files, which are seldom in a repository: a path below `dist/` then
means the source of that name. A package counts where a workspace lists it, or where no workspace
is above the importer. The `paths` of the nearest `tsconfig.json` above come first. Pure.
Trade-off: installed packages are not known, nor what a `tsconfig.json` takes over from another
folder.
"""

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache

from msgspec import Struct, field

from xscore.platform.globs import GlobList, is_glob
from xscore.platform.paths import folder_of

MODULE = "module:"
"""Begins the hint of what a manifest says; `manifests` lists the forms."""
MANIFEST, WORKSPACE_FILES = "package.json", ("pnpm-workspace.yaml", "pnpm-workspace.yml")
_PATHS_FILE = re.compile(r"[tj]sconfig(?:\.[\w-]+)*\.json\Z")
ALIAS = "to:"
"""Begins the fact that a name, or a pattern of names, means a path for the files of a folder."""
_BUILT = re.compile(r"(?:\.?/)?(?:[^/]*dist[^/]*|build|lib|out|es|esm|cjs|umd|types|output)/")
_BUILT_SUFFIX = re.compile(r"(\.d)?\.[cm]?[jt]sx?\Z")
_USUAL_ENTRIES = ("src/index", "index", "src/main", "lib/index")
_MOST_LAYERS = 3
"""Most folders left out between `dist/` and a file's name in the sources:
`dist/esm/legacy/`."""


class ScriptPackage(Struct):
    """A folder with a `package.json`."""

    folder: str
    targets: list[tuple[str, str]] = field(default_factory=list)
    """Name of each target (`.`, `./sub` or `:private`), and a path in the folder that it
    means."""
    only: bool = False
    """Whether nothing but the targets may be imported."""

    def contains(self, path: str) -> bool:
        """Whether a file lies in the folder, or below."""
        return not self.folder or path.startswith(self.folder + "/")


class ScriptPackages:
    """The packages of a repository by name, and its workspaces."""

    def __init__(
        self, manifests: Iterable[tuple[str, Iterable[str]]], file_at: Callable[[str], str]
    ) -> None:
        """manifests: folders, each with its hints.
        file_at: the file that a path of a module means, or nothing.
        """
        self._file_at = file_at
        self._named: dict[str, list[ScriptPackage]] = {}
        self._folders: dict[str, ScriptPackage] = {}
        self._workspaces: list[tuple[str, GlobList]] = []
        self._aliases: dict[str, ScriptPackage] = {}
        """Folder -> its aliases that belong to no package."""
        self._resolve_from = cache(self._find)
        for folder, hints in manifests:
            self._add(folder, hints)

    def _add(self, folder: str, hints: Iterable[str]) -> None:
        globs: list[str] = []
        packages: dict[str, ScriptPackage] = {}
        for hint in hints:
            name, _, fact = hint.removeprefix(MODULE).partition("#")
            key, _, value = fact.partition("=")
            if key == "has":
                globs.append(_anchored(value))
                continue
            if key.startswith(ALIAS):
                aliases = self._aliases.setdefault(folder, ScriptPackage(folder))
                aliases.targets.append((key.removeprefix(ALIAS), value))
                continue
            package = packages.setdefault(name, ScriptPackage(folder))
            package.only |= key == "only"
            if value:
                package.targets.append((key, value))
        for name, package in packages.items():
            self._folders[folder] = package
            self._named.setdefault(name, []).append(package)
        if globs:
            # Stored sorted; what leaves folders out has the last word, wherever it was written.
            ordered = sorted(globs, key=lambda glob: glob.startswith("!"))
            valid = [glob for glob in ordered if is_glob(glob)]
            self._workspaces.append((folder, GlobList(valid, below=False)))

    def resolve(self, target: str, importer: str) -> str | None:
        """Return the file that a package's name means; empty if it is not here; None if it is
        no package of here."""
        return self._resolve_from(target, folder_of(importer))

    def main(self, folder: str) -> str:
        """Return the file that a folder with a manifest means; empty if there is none."""
        package = self._folders.get(folder.removeprefix("."))
        if package is None:
            return ""
        return self._in_package(package, ".")

    def aliased(self, target: str, importer: str) -> str:
        """Return the file that a name means by the nearest paths of a `tsconfig.json`; empty if
        it is not here."""
        if not self._aliases:
            return ""
        names = (f"@{target}", f"~{target}") if target.startswith("/") else (target,)
        for folder in _upward(folder_of(importer)):
            aliases = self._aliases.get(folder)
            if aliases is None:
                continue
            for name in names:
                for path in _targets_of(aliases, name):
                    if file := self._file_at(
                        posixpath.normpath(f"{folder}/{path}".lstrip("/"))
                    ):
                        return file
        return ""

    def _find(self, target: str, folder: str) -> str | None:
        if target.startswith(":"):
            around = [self._folders[up] for up in _upward(folder) if up in self._folders]
            if not around:
                return ""
            return self._in_package(around[0], target)
        parts = target.split("/")
        length = 2 if target.startswith("@") else 1
        name = "/".join(parts[:length])
        rest = parts[length:]
        package = self._meant(name, folder)
        if package is None:
            return None
        return self._in_package(package, "/".join([".", *rest]))

    def _meant(self, name: str, folder: str) -> ScriptPackage | None:
        """Return the one package of this name that a file of this folder may import."""
        if name:
            packages = self._named.get(name, ())
        else:
            packages = ()
        inside = f"{folder}/"
        around = [package for package in packages if package.contains(inside)]
        if around:
            return max(around, key=lambda package: len(package.folder))
        roots: list[tuple[str, GlobList]] = []
        for top, globs in self._workspaces:
            if not top or inside.startswith(top + "/"):
                roots.append((top, globs))
        eligible = [package for package in packages if not roots or _is_listed(package, roots)]
        if len(eligible) == 1:
            return eligible[0]
        return None

    def _in_package(self, package: ScriptPackage, place: str) -> str:
        for path in _targets_of(package, place):
            if file := self._source(package.folder, path):
                return file
        if place == ".":
            return self._first(package.folder, _USUAL_ENTRIES)
        if package.only or place.startswith(":"):
            return ""
        return self._first(package.folder, (place[2:], f"src/{place[2:]}"))

    def _source(self, folder: str, path: str) -> str:
        """Return the file at a path, or the source from which it is built."""
        exact = self._first(folder, (path,))
        built = _BUILT.match(path)
        if exact or not built:
            return exact or self._first(folder, (_BUILT_SUFFIX.sub("", path),))
        parts = _BUILT_SUFFIX.sub("", path[built.end() :]).split("/")
        inner = ["/".join(parts[skipped:]) for skipped in range(min(len(parts), _MOST_LAYERS))]
        in_sources = [f"src/{place}" for place in inner]
        return self._first(folder, [*in_sources, *inner])

    def _first(self, folder: str, places: Iterable[str]) -> str:
        for place in places:
            if file := self._file_at(f"{folder}/{place}".lstrip("/")):
                return file
        return ""


def is_paths_file(file_name: str) -> bool:
    """Whether a file may say what names mean to the scripts of its folder."""
    return _PATHS_FILE.match(file_name) is not None


def importable_name(hint: str) -> str:
    """Return the last part by which others import what a fact about a package leads to, or
    ""."""
    name, _, fact = hint.removeprefix(MODULE).partition("#")
    place = fact.partition("=")[0]
    if place.startswith(ALIAS):
        return place.removeprefix(ALIAS).rstrip("/*").rpartition("/")[2]
    if place == ".":
        return name.rpartition("/")[2]
    if not place.startswith(("./", ":")):
        return ""
    return place.rpartition("/")[2]


def _targets_of(package: ScriptPackage, place: str) -> Iterator[str]:
    """Yield the paths that a place in a package means: by its name, then by the longest pattern."""
    for key, path in package.targets:
        if key == place:
            yield path
    patterns = [target for target in package.targets if "*" in target[0]]
    patterns.sort(key=lambda target: -len(target[0]))
    for key, path in patterns:
        before, _, after = key.partition("*")
        middle = place[len(before) : len(place) - len(after)]
        if middle and place == before + middle + after:
            yield path.replace("*", middle)


def _is_listed(package: ScriptPackage, roots: Iterable[tuple[str, GlobList]]) -> bool:
    return any(_lists(top, globs, package.folder) for top, globs in roots)


def _lists(top: str, globs: GlobList, folder: str) -> bool:
    """Whether a workspace in the folder `top` lists this folder; it is always one of its own."""
    if folder == top:
        return True
    below = not top or folder.startswith(top + "/")
    return below and bool(globs.verdict(folder[len(top) :].strip("/") + "/"))


def _anchored(glob: str) -> str:
    """`packages/*` -> `/packages/*`: a glob of a workspace begins at its folder."""
    excludes = "!" if glob.startswith("!") else ""
    return f"{excludes}/{glob.removeprefix('!').removeprefix('./').strip('/')}"


def _upward(folder: str) -> Iterator[str]:
    while folder:
        yield folder
        folder = folder_of(folder)
    yield ""

"""Which files a file may hold objects of, so that a name alone makes an edge only where the
language allows it.

A method called on an object of unknown class, or a name that nothing states, is followed if one
entity of the repository has the name and its file is within reach: imported, or imported by an
imported file, or of the same package. A file that defines nothing and only passes on what others
define is not a step. What a package is differs by language (`languages.Reach`).
Trade-off: an object handed through three files that do not import each other's is out of reach.
"""

from collections.abc import Callable, Mapping
from functools import cache, cached_property

from xscore.indexer.languages import Reach, is_test_path
from xscore.indexer.modules import ModuleIndex
from xscore.platform.paths import folder_of
from xscore.store.encoded_files import FileMentions

REEXPORT_STEPS = 5
"""How many re-exports are followed from an import to a definition."""
FIXTURES = "conftest.py"
"""Name of a file of fixtures: tests in its folder and below use what it defines and imports
without importing it."""


class ReachIndex(ModuleIndex):
    """Tells whether a file may mean an entity of another by its name alone."""

    def __init__(
        self,
        languages: Mapping[str, str],
        mentions: Callable[[str], FileMentions],
        is_barrel: Callable[[str], bool],
    ) -> None:
        """languages: those of all files.
        mentions: those of a path.
        is_barrel: whether a file defines nothing itself.
        """
        super().__init__(languages, mentions)
        self._is_barrel = cache(is_barrel)
        self._imports = cache(self._find_imports)
        self._within_reach = cache(self._find_within_reach)
        self._packages = cache(self._find_packages)
        self._fixtures_of = cache(self._find_fixtures)

    def _sees(self, path: str, target: str) -> bool:
        """Whether a file may hold objects of another."""
        if path == target:
            return True
        match self._row(path).reach:
            case Reach.IMPORTS:
                is_near = False
            case Reach.PACKAGE:
                is_near = self._sees_package(path, folder_of(target))
            case Reach.HEADERS:
                return self._shares_header(path, target)
            case Reach.CRATE:
                is_near = self._crate_of(path) == self._crate_of(target)
            case _:
                return True
        return is_near or target in self._within_reach(path)

    def _sees_bare(self, path: str, target: str) -> bool:
        """Whether a file may use a name of another that it does not import by this name."""
        if self._row(path).reach is not Reach.IMPORTS:
            return self._sees(path, target)
        if target.endswith(".py"):
            return target in self._fixtures_of(path)
        # Scripts of a page share their names; modules do not.
        return not self._mentions(path).imports and not self._mentions(target).imports

    def _sees_package(self, path: str, folder: str) -> bool:
        """Whether a folder is that of the file, or of a package that it imports."""
        if self._has_packages(path):
            return folder in self._packages(path)
        return folder.rpartition("/")[2] in self._packages(path)

    def _find_packages(self, path: str) -> frozenset[str]:
        """Return the folders of the packages that a file imports, and its own; the last part alone
        but in Go."""
        folder = folder_of(path)
        has_packages = self._has_packages(path)
        packages = {folder if has_packages else folder.rpartition("/")[2]}
        for _, hint in self._mentions(path).imports:
            reference = hint.removeprefix("import:").partition("#")[0]
            if not has_packages:
                packages.update(reference.rsplit("/", 2)[-2:])
                continue
            imported = self._package(reference)
            if imported is not None:
                packages.add(imported)
        return frozenset(packages)

    def _shares_header(self, path: str, target: str) -> bool:
        if folder_of(path) == folder_of(target):
            return True
        reached = self._within_reach(path)
        return target in reached or not reached.isdisjoint(self._imports(target))

    def _crate_of(self, path: str) -> str:
        """Return the folder of the crate that a Rust file belongs to."""
        innermost = ""
        for folder in self._crates.values():
            if path.startswith(folder + "/") and len(folder) > len(innermost):
                innermost = folder
        return innermost

    def _find_within_reach(self, path: str) -> frozenset[str]:
        """Return the files that a file imports, and those that these import."""
        return frozenset(self.reached_from({*self._imports(path), *self._fixtures_of(path)}))

    def reached_from(self, paths: set[str]) -> set[str]:
        """Return these files, and what one of them may be a step to."""
        near = self._beyond_barrels(paths)
        return self._beyond_barrels(near.union(*map(self._imports, near)))

    def _beyond_barrels(self, paths: set[str]) -> set[str]:
        """Return these files, and what those of them import that define nothing themselves."""
        reached = set(paths)
        waiting = paths
        for _ in range(REEXPORT_STEPS):
            barrels = [path for path in waiting if self._is_barrel(path)]
            waiting = set[str]().union(*map(self._imports, barrels)) - reached
            if not waiting:
                break
            reached |= waiting
        return reached

    def _find_imports(self, path: str) -> frozenset[str]:
        imports: set[str] = set()
        for name, hint in self._mentions(path).imports:
            imports.add(self.file_imported(name, hint, path))
        imports.discard("")
        return frozenset(imports)

    def file_imported(self, name: str, hint: str, path: str) -> str:
        """Return the file that an import of a file means; empty if it is not of this repository."""
        kind, _, rest = hint.partition(":")
        if kind == "path":
            return self._named_file(rest, path)
        if kind == "import":
            return self._imported_file(name, rest.partition("#")[0], path)
        return ""

    def _imported_file(self, name: str, module: str, path: str) -> str:
        return (
            self.resolve(f"{module}/{name}", path)
            or self.resolve(module, path)
            or self._package_file(module, path)
        )

    def _named_file(self, place: str, path: str) -> str:
        folder = folder_of(path)
        in_folder = f"{folder}/{place}" if folder else place
        for candidate in (place, in_folder):
            if candidate in self._languages:
                return candidate
        # The folders of headers are not stated.
        if "/" not in place and self._row(path).reach is not Reach.HEADERS:
            return ""
        named = self._by_file_name.get(place.rpartition("/")[2], ())
        ending = [p for p in named if p.endswith("/" + place)]
        if len(ending) == 1:
            return ending[0]
        return ""

    @cached_property
    def _by_file_name(self) -> dict[str, list[str]]:
        named: dict[str, list[str]] = {}
        for path in self._languages:
            named.setdefault(path.rpartition("/")[2], []).append(path)
        return named

    def _find_fixtures(self, path: str) -> list[str]:
        """Return the `conftest.py` files of a test of Python: those in its folder and above."""
        if not is_test_path(path, self._row(path)):
            return []
        places = [f"{folder}/{FIXTURES}" for folder in _upward(folder_of(path))]
        return [place for place in (*places, FIXTURES) if place in self._languages]


def _upward(folder: str) -> list[str]:
    parts = folder.split("/") if folder else []
    return ["/".join(parts[:length]) for length in range(len(parts), 0, -1)]

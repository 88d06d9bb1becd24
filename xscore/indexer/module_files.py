"""Which file or folder of the repository an import means, by what `go.mod` and `Cargo.toml` call its modules.

It resolves no names within them (`links`). Trade-off: the list of all files is held.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, cached_property

from xscore.indexer.languages import language_named
from xscore.indexer.modules import ModuleIndex
from xscore.store.link_rows import DecodedMentions


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

"""Find what the name that a chain begins with means: an entity, a variable, a fixture of a
test, or a module.

The chain of a module-level variable is followed where that variable is (`receiver_types`).
"""

from functools import cached_property

from xscore.indexer.chain_values import NOT_CALLED, OUTSIDE, Value
from xscore.indexer.chains import OTHER_BUILD
from xscore.indexer.class_names import ClassNameIndex
from xscore.indexer.library_names import BUILTIN_NAMES
from xscore.indexer.reach import REEXPORT_STEPS
from xscore.platform.paths import folder_of
from xscore.records.memory import Kind
from xscore.store.link_rows import EntityRow


class VariableIndex(ClassNameIndex):
    """Finds what names and module-level variables mean."""

    @cached_property
    def _known_variables(self) -> dict[str, dict[str, str]]:
        return {}

    @cached_property
    def _known_packages(self) -> dict[str, dict[str, str]]:
        return {}

    def _value_of(self, chain: str, path: str) -> Value | None:
        """Return what a chain leads to; None if nothing is known about it."""
        raise NotImplementedError

    def _member(self, value: Value, name: str, *, count: int = NOT_CALLED) -> Value | None:
        """Return a method or a member of an object, by its class and the bases of that."""
        raise NotImplementedError

    def _types(self, path: str) -> dict[str, dict[str, str]]:
        return self._mentions(path).types

    def _bare_value(self, name: str, path: str) -> Value | None:
        row = self._in_file(path).get(name)
        if row is not None and row.kind is not Kind.BLOCK:
            return Value(row)
        variables = self._variables(path)
        # A file of another build means its own.
        chain = variables.get(name) or variables.get(name + OTHER_BUILD)
        if chain is not None:
            return self._value_of(chain, path)
        has_packages = self._has_packages(path)
        if has_packages:
            file, written = self._variable_of(name, folder_of(path))
            if file:
                return self._value_of(self._variables(file)[written], file)
        row = self._fixture(name, path) or self._class_named(name, path)
        if row is None and (has_packages or name not in BUILTIN_NAMES):
            row = self._bare(name, path)
        if row is None:
            return None
        return Value(row)

    def _fixture(self, name: str, path: str) -> EntityRow | None:
        if not path.endswith(".py"):
            return None
        for file in self._fixtures_of(path):
            if name in self._in_file(file):
                return self._in_file(file)[name]
        return None

    def _imported_value(self, name: str, hint: str, path: str) -> Value | None:
        target, _, held_by = hint.removeprefix("mod:").partition("#")
        if not name or held_by == "default":
            return self._module(target, path, alias=name)
        row = self._resolved(name, hint, path)
        if row is not None:
            return Value(row)
        file = self.resolve(target, path)
        if file and held_by and held_by != "default":
            holder = self._exported(held_by, file)
            return None if holder is None else self._member(Value(holder), name)
        if file:
            return self._exported_variable(name, file)
        inner = self.resolve(f"{target}/{name}", path)
        if inner:
            return Value(module=inner)
        folder = self._package(target) if self._has_packages(path) else None
        return OUTSIDE if folder is None else self._in_folder(name, folder)

    def _module(self, target: str, path: str, *, alias: str) -> Value | None:
        file = self.resolve(target, path)
        if file:
            return Value(module=file, written=alias)
        folder = self._package(target) if self._has_packages(path) else None
        if folder is None:
            return OUTSIDE
        return Value(module=folder)

    def _in_folder(self, name: str, folder: str) -> Value | None:
        row = self._in_package(name, folder)
        if row is not None:
            return Value(row)
        file, written = self._variable_of(name, folder)
        if not file:
            return None
        return self._value_of(self._variables(file)[written], file)

    def _variable_of(self, name: str, folder: str) -> tuple[str, str]:
        """Return the file of a package's variable, and its name there: first one of a usual
        build; empty if none has it.

        The files of a package are read once, not at each name.
        """
        if folder not in self._known_packages:
            file_of: dict[str, str] = {}
            for file in self._package_files.get(folder, ()):
                for variable in self._variables(file):
                    file_of.setdefault(variable, file)
            self._known_packages[folder] = file_of
        file_of = self._known_packages[folder]
        for written in (name, name + OTHER_BUILD):
            if written in file_of:
                return file_of[written], written
        return "", ""

    def _exported_variable(self, name: str, file: str) -> Value | None:
        for _ in range(REEXPORT_STEPS):
            if name in self._variables(file):
                return self._value_of(self._variables(file)[name], file)
            if file.endswith("__init__.py"):
                inner = self.resolve(f"./{file.rpartition('/')[0]}/{name}", file)
                if inner:
                    return Value(module=inner)
            name, file = self._reexporter(name, file, has_values=True)
            if not file:
                return None
            row = self._in_file(file).get(name)
            if row is not None and row.kind is not Kind.BLOCK:
                return Value(row)
        return None

    def _variables(self, path: str) -> dict[str, str]:
        """The chains of a file's module-level variables."""
        chains = self._known_variables
        if path not in chains:
            chains[path] = {}
            types = self._types(path)
            for row in dict.fromkeys(self._in_file(path).values()):
                if row.entity.startswith("module:") and row.id in types:
                    chains[path] |= types[row.id]
        return chains[path]

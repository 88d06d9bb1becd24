"""Find the class that a name means, and the bases of a class.

A name means the class of the innermost class or namespace around it, then one of the file, of its
package, of what it imports all of, or the only one of the repository. In some languages a class has
several definitions, which count as one. Trade-off: a class in a file of tests is a test to all
others, and is known here by its members.
"""

from collections.abc import Sequence
from functools import cached_property

from xscore.indexer.chains import EXTENDED, INDEXED, PARAMETERS
from xscore.indexer.links import NameIndex
from xscore.platform.paths import folder_of
from xscore.records.memory import WITHIN, Kind
from xscore.store.link_rows import EntityRow
from xscore.store.written_rows import last_name

_GLOBAL_TYPES = (".d.ts", ".d.mts", ".d.cts")


class ClassNameIndex(NameIndex):
    """Resolves names to classes."""

    def _class_named(self, name: str, path: str, *, within: str = "") -> EntityRow | None:
        """Return the class that a bare name means in a file. within: the class or namespace
        around the name."""
        last = name.rpartition(".")[2]
        if within:
            around = self._class_around(name, last, path, within)
            if around is not None:
                return around
        row = self._in_file(path).get(name)
        if row is not None and self._is_class(row):
            return row
        classes = [row for row in self._named(last) if self._is_class(row)]
        of_this_file = _endings_of(name, [row for row in classes if row.path == path])
        if of_this_file:
            # If there are several, it is unknown which one is meant.
            names = {row.plain for row in of_this_file}
            return of_this_file[0] if len(names) == 1 else None
        if self._has_packages(path):
            return self._in_package(name, folder_of(path))
        starred = self._in_file(self._star(name, path)).get(name)
        if starred is not None:
            return starred
        if self._row(path).module_separator == "/":
            # What a module neither defines nor imports is of the language, or all scripts have it.
            classes = [row for row in classes if self._is_global(row, path)]
        exact = self._nearest_of([row for row in classes if row.plain == name], path)
        nested = [row for row in classes if row.plain.endswith(f".{name}")]
        return exact or self._nearest_of(nested, path)

    def _class_around(self, name: str, last: str, path: str, within: str) -> EntityRow | None:
        """Return the class of a name that the innermost class or namespace around it has."""
        namesakes = self._named(last)
        while within:
            within = within.rpartition(".")[0]
            plain = f"{within}.{name}" if within else name
            classes = [row for row in namesakes if row.plain == plain and self._is_class(row)]
            nearest = self._nearest_of(classes, path)
            if nearest is not None:
                return nearest
        return None

    def _is_global(self, row: EntityRow, path: str) -> bool:
        return row.path.endswith(_GLOBAL_TYPES) or self._sees_bare(path, row.path)

    def _made(self, name: str, owner: str, path: str, count: int) -> EntityRow | None:
        del count  # a constructor means its class
        return self._class_named(name, path, within=f"{owner}.")

    def _find_bases(self, holder: EntityRow) -> list[EntityRow]:
        mentions = self._mentions(holder.path)
        stated = list(mentions.bases.get(holder.id, ()))
        # An `impl` or an extension of the class states bases of it, too.
        for id_, of_extension in mentions.bases.items():
            if mentions.types.get(id_, {}).get(EXTENDED) == f":{holder.plain}":
                stated += of_extension
        bases = self._parts(holder)
        for _, name, hint in stated:
            base = self._base(holder, name, hint)
            if base is not None and self._is_class(base):
                bases.append(base)
        return bases

    def _base(self, holder: EntityRow, name: str, hint: str) -> EntityRow | None:
        if hint.startswith("mod:"):
            return self._resolved(name, hint, holder.path)
        kind, _, place = hint.partition(":")
        written = f"{place}.{name}" if kind in ("typed", "of") and place else name
        return self._class_named(written, holder.path, within=holder.plain)

    def _parts(self, holder: EntityRow) -> list[EntityRow]:
        """Return the other definitions of a class: in its file, and in others where a language
        allows that."""
        if not self._row(holder.path).has_open_classes or self._has_packages(holder.path):
            same_name = self._overloads(holder.path).get(holder.plain, [])
            return [row for row in same_name if row.id != holder.id and self._is_class(row)]
        parts: list[EntityRow] = []
        for row in self._named(last_name(holder.entity)):
            is_namesake = row.plain == holder.plain and row.language == holder.language
            if is_namesake and self._is_class(row):
                parts.append(row)
        return parts

    def _bare(self, name: str, path: str) -> EntityRow | None:
        return super()._bare(name, path) or self._extension(
            "", name, path, within=folder_of(path)
        )

    def _extension_of(
        self, row: EntityRow | None, written: str, name: str, path: str
    ) -> EntityRow | None:
        """Return the method that extends a class, or a type outside of the repository, in a
        language with such methods (`extension_methods`).

        row: the class.
        written: the type, as `read_type` has it; both empty: nothing is known about the object.
        """
        del row, written, name, path
        return None

    def _alike(self, name: str, path: str) -> EntityRow | None:
        """Return the class that a variable is named for, where names say it (`ruby_names`)."""
        del name, path
        return None

    def _extension(
        self, written: str, name: str, path: str, *, within: str = ""
    ) -> EntityRow | None:
        """Return a method that a file gives to a type outside of the repository.

        written: the type, empty: any.
        within: the folder of that file, empty: any.
        """
        language = self._row(path)
        if not (language.has_open_classes and language.has_implicit_receiver):
            return None
        type_, _, argument = written.partition("<")
        if type_ == INDEXED:
            owner = f"[{argument[:-1]}]"
        else:
            owner = last_name(type_.rpartition("!")[2])
        methods: list[EntityRow] = []
        for row in self._named(name):
            is_within = row.kind is Kind.METHOD and folder_of(row.path).startswith(within)
            if is_within and self._is_given_outside(row, owner):
                methods.append(row)
        if not methods:
            return None
        return self._nearest_of(methods, path)

    def _is_given_outside(self, row: EntityRow, owner: str) -> bool:
        """Whether a method belongs to a type that no class of the repository defines."""
        extended = last_name(row.plain.rpartition(".")[0])
        if owner and extended != owner:
            return False
        return not any(map(self._is_class, self._named(extended)))

    def _is_class(self, row: EntityRow) -> bool:
        """Whether an entity is a class; one of a file of tests counts as a test and is known by its
        members."""
        if row.kind is Kind.TEST:
            return row.plain in self._holders(row.path)
        return row.kind is Kind.CLASS

    def _holders(self, path: str) -> set[str]:
        """Return the names of those entities of a file that have members."""
        if path not in self._known_holders:
            types = self._mentions(path).types
            no_members = {"", PARAMETERS}
            names: set[str] = set()
            for row in self._in_file(path).values():
                if WITHIN not in row.entity:
                    names.add(row.plain.rpartition(".")[0])
                if types.get(row.id, {}).keys() - no_members:
                    names.add(row.plain)
            self._known_holders[path] = names
        return self._known_holders[path]

    @cached_property
    def _known_holders(self) -> dict[str, set[str]]:
        return {}


def _endings_of(name: str, rows: Sequence[EntityRow]) -> list[EntityRow]:
    """Return those whose full name ends with these whole parts."""
    return [row for row in rows if f".{row.plain}".endswith(f".{name}")]

"""Find the methods of classes: of their own, in the files that may add some, and of their bases.

Bases are searched breadth first, which differs from Python's order only in diamonds, and at most
`MAX_BASES` of them. What the bases of a class are is left to `class_names`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache

from xscore.indexer.chains import PARAMETERS
from xscore.indexer.languages import Reach, family_of
from xscore.indexer.reach import ReachIndex
from xscore.platform.paths import folder_of
from xscore.records.memory import BLOCK_NAME, Kind
from xscore.store.encoded_files import FileMentions
from xscore.store.link_rows import EntityRow
from xscore.store.written_rows import last_name

MOST_TWINS = 4
"""Most definitions of one name in a file that a call may mean together."""
MAX_BASES = 30


class MemberIndex(ReachIndex):
    """Finds entities by file and name, and methods by class."""

    def __init__(
        self,
        languages: Mapping[str, str],
        mentions: Callable[[str], FileMentions],
        in_file: Callable[[str], Iterable[EntityRow]],
        named: Callable[[str], Iterable[EntityRow]],
    ) -> None:
        """languages: of all files.
        mentions: of a path.
        in_file: of a path.
        named: the entities with this last part of a name.
        """
        super().__init__(languages, mentions, self.defines_nothing)
        self._rows = cache(lambda path: [*in_file(path)])
        self._in_file = cache(lambda path: _by_name(self._rows(path)))
        self._named = cache(
            lambda name: [row for row in named(name) if not row.entity.startswith(BLOCK_NAME)]
        )
        self._overloads = cache(self._find_overloads)
        self._bases = cache(self._find_bases)
        self._with_bases = cache(self._find_with_bases)
        self._class_here = cache(self._find_class_here)

    def defines_nothing(self, path: str) -> bool:
        """Whether a file has no functions and classes of its own, and only passes on those of
        others."""
        return all(row.entity.startswith(BLOCK_NAME) for row in self._in_file(path).values())

    def names_reached(self, paths: set[str]) -> set[str]:
        """Return the last names of everything that is within reach through these files."""
        files = self.reached_from(paths)
        names: set[str] = set()
        for file in files:
            names.update(last_name(entity.entity) for entity in self._in_file(file).values())
        return names

    def _find_bases(self, holder: EntityRow) -> list[EntityRow]:
        raise NotImplementedError

    def _inherited(
        self, holder: EntityRow | None, name: str, *, skips_first: bool = False, count: int = -1
    ) -> EntityRow | None:
        """Return the nearest definition of a method in a class and its bases. count: of arguments,
        -1: any."""
        if holder is None:
            return None
        nearest: EntityRow | None = None
        for this in self._with_bases(holder):
            if skips_first and self._is_part(this, holder):
                continue
            member = self._own_member(this, name)
            if member is not None and count >= 0:
                nearest = nearest or member
                member = self._overload(member, count)
            if member is not None:
                return member
        return nearest

    def _is_part(self, row: EntityRow, holder: EntityRow) -> bool:
        """Whether two rows define one class."""
        is_open = self._row(holder.path).has_open_classes
        return row.plain == holder.plain and (is_open or row.path == holder.path)

    def _overload(self, row: EntityRow, count: int) -> EntityRow | None:
        """Return the first definition of a method's name in its class that takes a number of
        arguments.

        Where headers state what callers may leave out, a definition may take more.
        """
        overloads = self._overloads(row.path)[row.plain]
        for overload in overloads:
            if self._takes(overload, count):
                return overload
        if self._row(row.path).reach is Reach.HEADERS:
            for overload in overloads:
                if self._parameters(overload) > count:
                    return overload
        return None

    def _overloads_taking(self, row: EntityRow, count: int) -> list[EntityRow]:
        """Return the definitions of one kind and name in a file that take a number of
        arguments, otherwise the row alone.

        The row alone, too, where there are more than `MOST_TWINS`: of eleven `impl From` a call
        means one.
        """
        same_name: list[EntityRow] = []
        for overload in self._overloads(row.path)[row.plain]:
            if overload.kind is row.kind:
                same_name.append(overload)
        taking = [
            overload for overload in same_name if count < 0 or self._takes(overload, count)
        ]
        if 0 < len(taking) <= MOST_TWINS:
            return taking
        return [row]

    def _takes(self, row: EntityRow, count: int) -> bool:
        stated = self._mentions(row.path).types.get(row.id, {}).get(PARAMETERS, "")
        return stated in ("", str(count))

    def _parameters(self, row: EntityRow) -> int:
        return int(self._mentions(row.path).types.get(row.id, {}).get(PARAMETERS) or 0)

    def _find_overloads(self, path: str) -> dict[str, list[EntityRow]]:
        """Return the definitions of each name of a file."""
        overloads: dict[str, list[EntityRow]] = {}
        for row in self._rows(path):
            overloads.setdefault(row.plain, []).append(row)
        return overloads

    def _find_with_bases(self, holder: EntityRow) -> list[EntityRow]:
        """Return a class and its bases, breadth first, each once."""
        waiting = [holder]
        seen = dict[str, EntityRow]()
        while waiting and len(seen) < MAX_BASES:
            this = waiting.pop(0)
            if this.id not in seen:
                seen[this.id] = this
                waiting += self._bases(this)
        return [*seen.values()]

    def _own_member(self, holder: EntityRow, name: str) -> EntityRow | None:
        """Return what a class itself defines under a name, in its file or, in some languages, in
        others."""
        plain = f"{holder.plain}.{name}"
        member = self._in_file(holder.path).get(plain)
        if member is not None or not self._row(holder.path).has_open_classes:
            return member
        named = self._named(name)
        if not named:
            return None
        rows = [row for row in named if row.plain == plain]
        if rows and self._has_packages(holder.path):
            folder = folder_of(holder.path)
            rows = [row for row in rows if folder_of(row.path) == folder]
        if not rows:
            return None
        return self._nearest_of(rows, holder.path)

    def _find_class_here(self, owner: str, path: str) -> EntityRow | None:
        """Return the class whose methods are in this file, though it may be defined in
        another."""
        defined_here = self._in_file(path).get(owner)
        if defined_here is not None or not self._row(path).has_open_classes:
            return defined_here
        named = self._named(last_name(owner))
        classes = [row for row in named if row.kind is Kind.CLASS and row.plain == owner]
        return self._nearest_of(classes, path)

    def _nearest_of(self, rows: Sequence[EntityRow], path: str) -> EntityRow | None:
        """Return the one of these that a file means: in itself, in its folder, or the only one of
        its family."""
        family = family_of(self._languages.get(path, ""))
        rows = [row for row in rows if family_of(row.language) == family]
        in_file = only_entity([row for row in rows if row.path == path])
        if in_file is not None:
            return in_file
        folder = folder_of(path)
        in_folder = only_entity(
            [row for row in rows if folder_of(row.path) == folder], by_folder=True
        )
        return in_folder or only_entity(rows) or self._first_part(rows)

    def _first_part(self, rows: Sequence[EntityRow]) -> EntityRow | None:
        """Return the first definition of a class that has several in files anywhere; None if
        they are no such class."""
        names = {row.plain for row in rows}
        if len(names) != 1 or rows[0].kind is not Kind.CLASS:
            return None
        language = self._row(rows[0].path)
        if language.reach is not Reach.REPOSITORY:
            return None
        is_open = language.has_open_classes and language.has_implicit_receiver
        return rows[0] if is_open else None


def _by_name(targets: Iterable[EntityRow]) -> dict[str, EntityRow]:
    """Return the last definition of each entity of a file."""
    rows: dict[str, EntityRow] = {}
    for target in targets:
        rows[target.plain] = target
        rows[target.entity] = target
    return rows


def only_entity(rows: Iterable[EntityRow], *, by_folder: bool = False) -> EntityRow | None:
    """Return the last definition if all define one entity, otherwise None. by_folder: in any
    file of one folder."""
    row = None
    meant = ("", "")
    for row in rows:
        place = (folder_of(row.path) if by_folder else row.path), row.plain
        if meant[1] and place != meant:
            return None
        meant = place
    return row

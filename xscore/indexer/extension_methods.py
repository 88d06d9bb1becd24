"""Find the methods that a language gives to a type apart from its class, by their first parameter,
as C# does.

`static bool IsName(this Token token)` may be called on any `Token`, and on what inherits from it.
Several classes may have one of that name: the one whose parameter is nearest to the object counts,
and of an object of which nothing is known only a name that no other such method has. Trade-off:
whether the file uses the namespace is not asked, so a name that two namespaces give to one type has
no edge.
"""

from functools import cached_property
from typing import NamedTuple

from xscore.indexer.chains import ALTERNATIVE, EXTENDS, TYPE_MARK
from xscore.indexer.languages import names_in
from xscore.indexer.receiver_types import ReceiverIndex
from xscore.records.memory import Kind
from xscore.store.link_rows import EntityRow
from xscore.store.written_rows import last_name

ANY_TYPES = frozenset({"?", "object", "dynamic", "Object"})
"""Types that every object has."""
_SEQUENCES = frozenset(
    {"IEnumerable", "ICollection", "IList", "IReadOnlyCollection", "IReadOnlyList"}
)
"""Types that containers of the library have."""
_NO_SEQUENCES = frozenset(
    {"bool", "int", "long", "double", "Task", "Func", "Action", "Type", "Nullable"}
)
SAME, RELATED, ANY = 3, 2, 1
"""How near the first parameter of such a method is to an object."""


class ExtensionMethod(NamedTuple):
    """A method, and the types of its first parameter: one for each definition in its class."""

    row: EntityRow
    types: tuple[str, ...]


class ExtensionIndex(ReceiverIndex):
    """Finds such methods by name and by the type of an object."""

    @cached_property
    def _known_extensions(self) -> dict[tuple[str, str], list[ExtensionMethod]]:
        return {}

    def _extending(self, name: str, language: str) -> list[ExtensionMethod]:
        """Return the methods of this name that extend types, one of each class."""
        if (name, language) in self._known_extensions:
            return self._known_extensions[name, language]
        methods: dict[str, ExtensionMethod] = {}
        for row in self._named(name):
            if row.kind is not Kind.METHOD or row.language != language or row.plain in methods:
                continue
            holder = self._in_file(row.path).get(row.plain.rpartition(".")[0])
            if holder is None:
                continue
            stated = self._mentions(row.path).types.get(holder.id, {}).get(name + EXTENDS)
            if stated is not None:
                methods[row.plain] = ExtensionMethod(row, tuple(stated.split(ALTERNATIVE)))
        self._known_extensions[name, language] = [*methods.values()]
        return self._known_extensions[name, language]

    def _extension_of(
        self, row: EntityRow | None, written: str, name: str, path: str
    ) -> EntityRow | None:
        language = self._row(path)
        if not language.has_extension_methods:
            return None
        methods = self._extending(name, self._languages.get(path, ""))
        is_usual = row is None and name in names_in(language.library)
        if not methods or is_usual:
            return None
        if row is None and not written:
            first = methods[0].row
            for namesake in self._named(name):
                if namesake.kind is Kind.METHOD and namesake.plain != first.plain:
                    return None
            return first
        ranked = [(self._nearness(method, row, written), method) for method in methods]
        best = max(rank for rank, _ in ranked)
        nearest = [method.row for rank, method in ranked if rank == best]
        if best and len(nearest) == 1:
            return nearest[0]
        return None

    def _nearness(self, method: ExtensionMethod, row: EntityRow | None, written: str) -> int:
        """Return how near a method is to an object; 0 if it is none of its methods."""
        return max(
            self._nearness_of(stated, method.row.path, row, written) for stated in method.types
        )

    def _nearness_of(self, stated: str, path: str, row: EntityRow | None, written: str) -> int:
        type_ = _bare(stated.lstrip(TYPE_MARK))
        if type_ in ANY_TYPES:
            return ANY
        if row is None:
            return _nearness_outside(type_, written)
        extended = self._class_named(type_, path)
        if extended is None:
            if type_ in self._base_names(row):
                return RELATED
            return 0
        if extended.plain == row.plain:
            return SAME
        is_base = any(base.plain == extended.plain for base in self._with_bases(row))
        return RELATED if is_base else 0

    def _base_names(self, row: EntityRow) -> set[str]:
        """Return the names of all that a class and its bases state to inherit from."""
        names = set[str]()
        for this in self._with_bases(row):
            names |= {name for _, name, _ in self._mentions(this.path).bases.get(this.id, ())}
        return names


def _nearness_outside(type_: str, written: str) -> int:
    """Return how near a parameter's type is to a type outside of the repository."""
    bare = _bare(written)
    if bare == type_:
        return SAME
    if type_ not in _SEQUENCES or bare in _NO_SEQUENCES:
        return 0
    if "<" in written or bare == "string":
        return RELATED
    return 0


def _bare(written: str) -> str:
    return last_name(written.partition("<")[0].rpartition("!")[2])

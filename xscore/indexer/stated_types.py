"""The types that a file states, with names that other files can look up.

A type may be stated of a variable, of what a function gives or takes, or of what a type of
functions is made of; a parameter of a type (`<T extends Store>`) means what it is bound to
where it is used. How a chain of calls begins with such a type is `receivers`' business.
"""

from bisect import bisect_left

from xscore.indexer.chains import ALTERNATIVE, GIVEN, OWN_TYPES, TAKEN, TYPE_MARK
from xscore.indexer.entities import Entity
from xscore.indexer.file_facts import FileFacts, within
from xscore.indexer.type_names import read_type, with_names

MAX_CALLBACKS = 6
"""Most types of parameters kept of one function, which may be types of functions."""
MAX_FACTS = 200
"""Most members whose types are kept of one class, or of one file."""
FOREIGN_TYPES = frozenset(
    """
    any bool boolean byte bytes char complex128 complex64 decimal dict double f32 f64 float float32
    float64 i128 i16 i32 i64 i8 int int16 int32 int64 int8 isize list long number object rune set
    short size_t str string tuple u128 u16 u32 u64 u8 uint uint16 uint32 uint64 uint8 uintptr
    unknown usize void
    """.split()
)
"""Types of every program of a language: a method of one is never of this repository."""
_NO_PARAMETER = frozenset(".@<")
"""First characters of the names of variables that are members, or parameters of a type."""


class StatedTypes:
    """The types of one file."""

    def __init__(self, facts: FileFacts) -> None:
        self._facts = facts
        self._language = facts.source.language
        self._types: dict[tuple[str, int], str] = {}
        self._generics: dict[str, list[tuple[int, str]]] = {}
        """Name of a type's parameter -> the types that it may have; without a bound, an empty
        chain."""
        for at, name, chain in facts.syntax.variables:
            if name[0] == "<":
                self._generics.setdefault(name[1:-1], []).append((at, chain))

    def type_of(self, written: str, at: int) -> str:
        """Return a type at a byte, whose names other files can look up; empty if it has no
        name."""
        # Only a parameter of a type differs in meaning from place to place.
        key = written, at if self._generics else 0
        if key not in self._types:
            type_ = read_type(written)
            self._types[key] = with_names(type_, lambda name: self._type_name(name, at))
        return self._types[key]

    def _type_name(self, name: str, at: int) -> str:
        if name in self._generics:
            bound = self._bound_of(name, at)
            if not bound:
                return "?"
            if bound in self._generics:
                return bound
            return self._type_name(bound, 0)
        parts = name.split(".")
        if parts[-1] in OWN_TYPES:  # imported too: `typing.Self`
            return parts[-1]
        return self._path_of_type(name, parts)

    def _path_of_type(self, name: str, parts: list[str]) -> str:
        head, *rest = parts
        separator = self._language.module_separator
        if separator == "::" and rest:
            inner, hint = self._facts.path_of(parts)
            if hint.startswith("typed:"):
                return inner
            return f"{hint}!{inner}"
        imported = self._facts.imported.get(head)
        if self._language.has_named_modules:
            module = [imported.module, imported.name] if imported is not None else [head]
            return ".".join(filter(None, [*module, *rest]))
        place = ""
        if imported is not None:
            place = self._facts.reference(imported.module)
        if imported is None or not place:
            return name
        if imported.name not in {"", "default", "*"}:
            place += f"#{imported.name}" if rest else ""
            return f"mod:{place}!{rest[-1] if rest else imported.name}"
        place += "#default" if separator == "/" and not rest else ""
        if separator == ".":
            place = self._inner_module(imported.module, parts) or place
        return f"mod:{place}!{rest[-1] if rest else head}"

    def _inner_module(self, module: str, parts: list[str]) -> str:
        """Return the reference of the module that the path of a type leads through: `shop.stores`
        of `shop.stores.Store`, where `shop` is imported."""
        outer = module.split(".")
        inner = parts[len(outer) if parts[: len(outer)] == outer else 1 : -1]
        if not inner or not all(part.islower() for part in inner):
            return ""
        return self._facts.reference(".".join((*outer, *inner)))

    def _bound_of(self, name: str, at: int) -> str:
        """Return what a parameter of a type means at a byte; empty if it has no bound."""
        bounds = self._generics[name]
        above = bisect_left(bounds, (at, ""))
        if not above:
            return name
        return read_type(bounds[above - 1][1].lstrip(":")).partition("<")[0]

    def alias_of(self, entity: Entity) -> str:
        """Return the type that another name is given to; empty if the entity is none."""
        d = entity.definition
        stated = within(self._facts.syntax.results, d.inner_start_byte, d.end_byte)
        if not stated or d.body_byte != d.end_byte:
            return ""
        result = self.type_of(stated[0][1], d.end_byte)
        return TYPE_MARK + result if result else ""

    def taken_by(self, entity: Entity) -> dict[str, str]:
        """Return what a function type says of its parameters and of what it gives, and which types
        the parameters of a function have that may be functions themselves.

        The function types in the parameters of a function count as its own: what it passes to what
        it is given.
        """
        d = entity.definition
        syntax = self._facts.syntax
        is_type = d.kind in {"class", "type", "alias"}
        end = d.end_byte if is_type else d.body_byte
        types = self._taken_between(d.inner_start_byte, end)
        if is_type:
            results = within(syntax.gives, d.inner_start_byte, end)
        else:
            results = ()
        result = ""
        if results:
            result = self.type_of(results[0][1].lstrip(": "), results[0][0])
        if result:
            types[GIVEN] = TYPE_MARK + result
        callbacks: dict[str, None] = {}
        for at, name, chain in within(syntax.variables, d.inner_start_byte, end):
            if name[0] in _NO_PARAMETER or not chain.startswith(TYPE_MARK):
                continue
            stated = self.type_of(chain.lstrip(": "), at).removeprefix("[]<")
            type_name = stated.partition("<")[0].rstrip(">")
            if type_name and type_name not in FOREIGN_TYPES:
                callbacks[TYPE_MARK + type_name] = None
        if callbacks:
            types[TAKEN] = ALTERNATIVE.join(list(callbacks)[:MAX_CALLBACKS])
        return types

    def _taken_between(self, start: int, end: int) -> dict[str, str]:
        """Return the types of the parameters of the function types between two bytes."""
        function_types = within(self._facts.syntax.taken, start, end)
        of_members = {at for at, member, _ in function_types if member}
        types: dict[str, str] = {}
        for at, member, written in function_types:
            if not member and at in of_members:
                continue
            begins = f"{TAKEN}{member}." if member else TAKEN
            for place, stated in enumerate(written):
                parameter = self.type_of(stated.lstrip(": "), at)
                if parameter and parameter.partition("<")[0] not in FOREIGN_TYPES:
                    types.setdefault(f"{begins}{place}", TYPE_MARK + parameter)
        return dict(list(types.items())[:MAX_FACTS])

"""What a file says about the objects that methods are called on: calls with the chain of their
object, and stated types.

A local variable is replaced here by what it was last given, so that a chain begins with what other
files can look up:

    :T              an object of the type T             @C      the object itself, in the class C
    mod:REF!x       x of the module REF                 ^C      the same, as its bases have it
    mod:REF!        the module REF                      x       a name of this file or package
    in:C!x          a member x of the class C, or a name of this file

The names in a type are looked up the same way. `receiver_types` follows the chains; `links` knows
the hints. Trade-off: a variable has at each place what was last assigned above it, whatever the
branches around are.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import cached_property

from xscore.indexer.chains import (
    ALIKE_MARK,
    ALTERNATIVE,
    CALL_MARK,
    DECLARED,
    EXTENDED,
    EXTENDS,
    GIVEN,
    MAX_CHAIN_CHARS,
    MODULE_MARK,
    NARROWED,
    OTHER_BUILD,
    OWN_TYPES,
    PARAMETER,
    STEP,
    TAKEN,
    TYPE_MARK,
    UNKNOWN,
    class_named_like,
)
from xscore.indexer.entities import Entity
from xscore.indexer.file_facts import FileFacts, Place, first_from
from xscore.indexer.go_builds import is_usual_build
from xscore.indexer.languages import names_in
from xscore.indexer.syntax import NameUse
from xscore.indexer.type_names import read_type, with_names
from xscore.store.written_rows import COUNT_MARK

MAX_USES = 120
"""Calls with distinct objects kept of one entity."""
MAX_GIVEN = 8
"""Variables given to each other that are followed."""
MAX_RETURNED = 3
"""Distinct values that a function returns, which are kept."""
MAX_CALLBACKS = 6
"""Types of parameters kept of one function, which may be types of functions."""
MAX_FACTS = 200
"""Members whose types are kept of one class, or of one file."""
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
"""What the name of a variable begins with that is a member or a parameter of a type."""
_Bound = dict[str, list[tuple[int, str]]]
_LOOKED_BACK = 8
"""Assignments to one name that are tried for one that is seen at a place."""
_SUPER = frozenset({"super", "base", "parent"})


class Receivers:
    """Chains and types of one file."""

    def __init__(self, facts: FileFacts) -> None:
        self._facts = facts
        self._language = facts.source.language
        definitions = facts.syntax.definitions
        functions: list[tuple[int, int]] = []
        for definition in definitions:
            if definition.kind == "function":
                functions.append((definition.start_byte, definition.end_byte))
        self._functions = sorted([*facts.syntax.closures, *functions])
        self._closures = sorted([*self._functions, *facts.syntax.narrowed])
        self._variable_names = {name for _, name, _ in facts.syntax.variables}
        self._types: dict[tuple[str, int], str] = {}
        self._generics: _Bound = {}
        """The types that a parameter of a type stands for, by its name; without a bound an empty
        chain."""
        for at, name, chain in facts.syntax.variables:
            if name[0] == "<":
                self._generics.setdefault(name[1:-1], []).append((at, chain))
        self._library = names_in(self._language.library)
        self._own = {name for name in self._language.receivers if name not in _SUPER} - {"super()"}
        self._super = {name.rstrip("()") for name in self._language.receivers}

    def uses(
        self, scope: "VariableScope", start: int, end: int, holes: Sequence[tuple[int, int]] = ()
    ) -> list[NameUse]:
        """Return the calls between two bytes. holes: spans to leave out."""
        uses: dict[NameUse, None] = {}
        seen = set[tuple[str, int, int]]()
        for at, chain, count in self._facts.outside(holes, self._facts.syntax.chains, start, end):
            head = chain.partition(STEP)[0]
            bound = scope.last(head, at) if head in scope.names else None
            key = chain, count, -1 if bound is None else bound[0]
            if key in seen or len(uses) >= MAX_USES:
                continue
            seen.add(key)
            use = self._use(chain, at, scope, bound)
            if use is not None:
                name, hint = use
                if count >= 0 and self._language.has_overloads:
                    hint = f"{hint}{COUNT_MARK}{count}"
                uses[NameUse(name, hint)] = None
        return list(uses)

    def _use(
        self, chain: str, at: int, scope: "VariableScope", bound: "tuple[int, str] | None"
    ) -> tuple[str, str] | None:
        *held, name = chain.split(STEP)
        if not held:
            return self._bare_use(name, scope, bound)
        head = held[0]
        is_own = len(held) == 1 and head in self._language.receivers and scope.owner
        if is_own or "::" in name:
            return self._facts.named_use(f"{head}.{name}", scope.owner)
        # If not a variable of this scope, then of the module.
        is_variable = bound is not None or head in self._variable_names
        if not is_variable and self._is_plain(held, scope):
            return self._facts.named_use(
                ".".join((*held, name)), scope.owner, is_path="::" in chain
            )
        expression = self.expand(STEP.join(held), at, scope)
        if not expression:
            return self._facts.named_use(f"?.{name}", scope.owner, is_path=False)
        if self._is_foreign(expression, name):
            return None
        return name, f"at:{expression}"

    def _is_foreign(self, expression: str, name: str) -> bool:
        """Whether a method is called on a type of the language, and is none of this repository."""
        if expression[0] != TYPE_MARK or expression[1:].partition("<")[0] not in FOREIGN_TYPES:
            return False
        return not self._language.has_extension_methods or name in self._library

    def _bare_use(
        self, name: str, scope: "VariableScope", bound: tuple[int, str] | None
    ) -> tuple[str, str] | None:
        """Return the use of a name that is called without an object."""
        if name == "super":  # what the constructor of the base is
            if not scope.owner:
                return None
            return (name, f"at:^{scope.owner}")
        if scope.suite and name in self._facts.suite_names and name not in self._facts.imported:
            return name, f"in:{scope.suite}"
        if bound is not None and not self._language.has_overloads:
            return self._held_function(bound, scope)
        if name == "?":
            return None
        return self._without_object(name, scope)

    def _held_function(
        self, bound: tuple[int, str], scope: "VariableScope"
    ) -> tuple[str, str] | None:
        """Return the function that a variable was given: `const { open } = store`."""
        at, chain = bound
        begins, _, name = self.expand(chain, at - 1, scope).rpartition(STEP)
        if begins and name.isidentifier():
            return (name, f"at:{begins}")
        return None

    def _without_object(self, name: str, scope: "VariableScope") -> tuple[str, str] | None:
        if name.startswith(TYPE_MARK):
            return name[1:].rpartition(".")[2], f"new:{scope.owner}"
        has_inner = self._language.has_implicit_receiver or self._language.module_separator == "::"
        is_own = has_inner and scope.owner and "::" not in name
        if is_own and name.rstrip("?!").isidentifier() and name not in self._facts.imported:
            return name, f"in:{scope.owner}"
        return self._facts.named_use(name.replace("::", "."), scope.owner)

    def _is_plain(self, held: Sequence[str], scope: "VariableScope") -> bool:
        """Whether the hints of `links` say all of an object: an imported name, or one name that is
        not the class's."""
        head = held[0]
        if head in self._facts.imported:
            if any(step[:1] in "([" for step in held):
                return False
            has_name = self._facts.imported[head].name not in {"", "default", "*"}
            return len(held) == 1 or not has_name
        may_be_own = self._language.has_implicit_receiver and scope.owner
        return len(held) == 1 and head != "?" and not may_be_own

    def expand(self, chain: str, at: int, scope: "VariableScope", depth: int = 0) -> str:
        """Return a chain that begins with what other files can look up; empty: nothing is known of
        it."""
        if not chain or depth > MAX_GIVEN:
            return ""
        head, *steps = chain.split(STEP)
        if steps and steps[0].startswith(NARROWED):
            return self._narrowed(head, steps, at, scope, depth + 1)
        bound = scope.last(head, at)
        if bound is not None:
            # At the byte before: `store = store.reopened()` means what it was before.
            begins = self.expand(bound[1], bound[0] - 1, scope, depth + 1) or self._alike(head)
        elif head.startswith(TYPE_MARK):
            stated = self.type_of(head[1:], at)
            begins = TYPE_MARK + stated if stated else ""
        elif head.startswith(MODULE_MARK):
            place = self._facts.reference(head[1:])
            begins = f"mod:{place}!" if place else ""
        else:
            return self._of_name(head, steps, scope)
        return _joined(begins, steps) if begins else ""

    def _narrowed(
        self, head: str, steps: list[str], at: int, scope: "VariableScope", depth: int
    ) -> str:
        """Return the chain of a value of which a function tells the type, if what that returns says
        so."""
        before = self.expand(head, at, scope, depth)
        guard = self.expand(steps[0][len(NARROWED) :], at, scope, depth)
        if guard and STEP not in guard:
            return _joined(before or UNKNOWN, [NARROWED + guard, *steps[1:]])
        return _joined(before, steps[1:]) if before else ""

    def _alike(self, name: str) -> str:
        """Return the class that a variable may be named for, where no type is ever stated; empty:
        none."""
        class_name = class_named_like(name) if self._language.name == "ruby" else ""
        if not class_name:
            return ""
        return ALIKE_MARK + class_name

    def _of_name(self, head: str, steps: list[str], scope: "VariableScope") -> str:
        first, *rest = head.split("::")
        is_super = head in _SUPER and head in self._super
        if first in self._own:
            steps = [*rest, *steps]
        elif is_super and steps and steps[0].startswith(CALL_MARK):
            steps = steps[1:]
        elif head[0] in "@$":  # a variable of the object, in Ruby
            steps = [head, *steps]
        elif not is_super:
            is_name = head[0].isalpha() or head[0] == "_"
            if not is_name:
                return ""
            return self._looked_up(head, steps, scope)
        if not scope.owner:
            return ""
        return _joined(f"{'^' if is_super else '@'}{scope.owner}", steps)

    def _looked_up(self, head: str, steps: list[str], scope: "VariableScope") -> str:
        if "::" in head and self._language.module_separator == "::":
            name, hint = self._facts.path_of(head.split("::"))
            if hint.startswith("typed:"):
                return _joined(hint.partition(":")[2], [name, *steps])
            return _joined(f"{hint}!{name}", steps)
        head = head.replace("::", ".")
        if head in self._facts.imported:
            return self._of_imported(head, steps)
        is_own = self._language.has_implicit_receiver and scope.owner
        return _joined(f"in:{scope.owner}!{head}" if is_own else head, steps)

    def _of_imported(self, head: str, steps: list[str]) -> str:
        imported = self._facts.imported[head]
        separator = self._language.module_separator
        place = self._facts.reference(imported.module)
        if not place:
            return ""
        if imported.name not in {"", "default", "*"}:
            return _joined(f"mod:{place}!{imported.name}", steps)
        if not imported.alias and separator == ".":
            # `import a.b` is used as `a.b.open`: the parts of the module are not steps.
            module = imported.module.split(".")
            if [head, *steps][: len(module)] == module:
                return _joined(f"mod:{place}!", steps[len(module) - 1 :])
        if separator == "/" and imported.alias:
            return _joined(f"mod:{place}#default!{head}", steps)
        return _joined(f"mod:{place}!", steps)

    def type_of(self, written: str, at: int) -> str:
        """Return a type at a byte, whose names other files can look up; empty: it has no name."""
        # Only a parameter of a type means something else from place to place.
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
        place = self._facts.reference(imported.module) if imported is not None else ""
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
        """Return what a parameter of a type stands for at a byte; empty: it has no bound."""
        bounds = self._generics[name]
        above = bisect_left(bounds, (at, ""))
        if not above:
            return name
        return read_type(bounds[above - 1][1].lstrip(":")).partition("<")[0]

    def scope_of(
        self, entity: Entity, owner: str, outer: "VariableScope | None" = None
    ) -> "VariableScope":
        """Return the variables that the code of an entity sees."""
        d = entity.definition
        holes = [(m.definition.start_byte, m.definition.end_byte) for m in entity.members]
        variables = self._variables(d.start_byte, d.end_byte, holes)
        scope = VariableScope(owner, variables, outer, self._closures)
        if d.kind == "suite":
            scope.suite = entity.name
        elif outer is not None and entity.parent is not None:
            scope.suite = entity.parent.name
        return scope

    def _variables(self, start: int, end: int, holes: Sequence[tuple[int, int]]) -> _Bound:
        bound: _Bound = {}
        variables = self._facts.outside(holes, self._facts.syntax.variables, start, end)
        for at, name, stated in variables:
            if stated == PARAMETER and name in self._own:
                continue
            chain = self._of_parameter(name) if stated == PARAMETER else stated
            assigned = bound.setdefault(name, [])
            if not assigned or assigned[-1][0] != at:
                assigned.append((at, chain))
            elif not assigned[-1][1]:  # a stated type sorts before a value
                assigned[-1] = (at, chain)
        return bound

    def _of_parameter(self, name: str) -> str:
        """Return what a parameter without a type is: in a test, what the fixture of its name
        gives."""
        if not self._facts.source.is_test:
            return ""
        return f"{name}{STEP}{PARAMETER}"

    def alias_of(self, entity: Entity) -> str:
        """Return the type that another name is given to; empty: the entity is none."""
        d = entity.definition
        stated = _within(self._facts.syntax.results, d.inner_start_byte, d.end_byte)
        if not stated or d.body_byte != d.end_byte:
            return ""
        result = self.type_of(stated[0][1], d.end_byte)
        return TYPE_MARK + result if result else ""

    def result_of(self, entity: Entity, scope: "VariableScope") -> str:
        """Return what a function gives, by its declaration or by what it returns; alternatives are
        apart by blanks."""
        d = entity.definition
        syntax = self._facts.syntax
        stated = _within(syntax.results, d.inner_start_byte, d.body_byte)
        if stated:
            result = self.type_of(stated[0][1].lstrip(": "), d.body_byte)
            return TYPE_MARK + result if result else ""
        returned = _within(syntax.returned, d.body_byte, d.end_byte)
        inner = _within(self._functions, d.body_byte, d.end_byte) if returned else ()
        values: dict[str, None] = {}
        for at, chain in returned:
            # What a function inside it returns is not what it returns.
            if not any(start <= at < end for start, end in inner):
                values[self.expand(chain, at, scope)] = None
        values.pop("", None)
        return ALTERNATIVE.join(list(values)[:MAX_RETURNED])

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
        results = _within(syntax.gives, d.inner_start_byte, end) if is_type else ()
        result = self.type_of(results[0][1].lstrip(": "), results[0][0]) if results else ""
        if result:
            types[GIVEN] = TYPE_MARK + result
        callbacks: dict[str, None] = {}
        for at, name, chain in _within(syntax.variables, d.inner_start_byte, end):
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
        function_types = _within(self._facts.syntax.taken, start, end)
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

    def members_of(
        self, entity: Entity, scope: "VariableScope", methods: Iterable["VariableScope"]
    ) -> dict[str, str]:
        """Return the types of a class's fields, and `name()` with the result of each method that it
        only declares."""
        d = entity.definition
        members: dict[str, str] = {}
        for name, assigned in scope.bound.items():
            if name[0] == ".":
                self._add(members, name, assigned, scope)
        for method in methods:
            for name, assigned in method.bound.items():
                if name.partition(".")[0] in self._own or name[:1] == "@":
                    self._add(members, name, assigned, method)
        holes = [(m.definition.start_byte, m.definition.end_byte) for m in entity.members]
        declared = self._facts.outside(holes, self._facts.syntax.declared, d.start_byte, d.end_byte)
        for at, name, written in declared:
            result = self.type_of(written.lstrip(": "), at)
            stated = TYPE_MARK + result if result else ""
            members[name + DECLARED] = members.get(name + DECLARED) or stated
        if d.kind == "extension":
            members[EXTENDED] = f":{entity.qualifier}"
        return dict(list(members.items())[:MAX_FACTS])

    def _add(
        self,
        members: dict[str, str],
        name: str,
        assigned: Sequence[tuple[int, str]],
        scope: "VariableScope",
    ) -> None:
        field = (name.partition(".")[2] or name).lstrip("#")
        for at, chain in assigned:
            value = self.expand(chain, at, scope)
            if not value or "." in field:
                continue
            if field.endswith(EXTENDS) and field in members:
                members[field] += ALTERNATIVE + value
            members.setdefault(field, value)

    def scope_between(self, start: int, end: int) -> "VariableScope":
        """Return the variables that module-level code between two bytes gives values to."""
        return VariableScope("", self._variables(start, end, ()), None, self._closures)

    @cached_property
    def _is_usual(self) -> bool:
        """Whether the file is in a usual build."""
        source = self._facts.source
        return not self._language.has_folder_modules or is_usual_build(source.path, source.text)

    def variables_between(self, start: int, end: int) -> dict[str, str]:
        """Return the types of these variables."""
        scope = self.scope_between(start, end)
        variables: dict[str, str] = {}
        for name, assigned in scope.bound.items():
            if name.isidentifier():
                stored_name = name if self._is_usual else name + OTHER_BUILD
                self._add(variables, stored_name, assigned, scope)
        return dict(list(variables.items())[:MAX_FACTS])


class VariableScope:
    """The variables of an entity, and those of the one around it."""

    def __init__(
        self,
        owner: str,
        bound: _Bound,
        outer: "VariableScope | None",
        closures: Sequence[tuple[int, int]] = (),
    ) -> None:
        """closures: bytes of all functions of the file, in order of their starts."""
        self.owner: str = owner
        self.bound: _Bound = bound
        self._outer = outer
        self._closures = closures
        self.suite: str = ""
        """The suite of tests whose functions it may call."""
        self.names: set[str] = set(bound)
        if outer is not None:
            self.names |= outer.names

    def last(self, name: str, at: int) -> tuple[int, str] | None:
        """Return what a variable was last given before a byte, and where; None: it is none of
        these."""
        assigned = self.bound.get(name)
        if assigned is None:
            if self._outer is None:
                return None
            return self._outer.last(name, at)
        above = bisect_left(assigned, (at + 1, ""))
        for place, chain in reversed(assigned[max(0, above - _LOOKED_BACK) : above]):
            if self._is_seen(place, at):
                return place, chain
        return assigned[above - 1] if above else None

    def _is_seen(self, place: int, at: int) -> bool:
        """Whether no function between ends before a byte that a place is inside of."""
        index = bisect_left(self._closures, (place + 1, 0))
        for start, end in reversed(self._closures[max(0, index - 2 * _LOOKED_BACK) : index]):
            if start <= place < end:
                return at < end
        return True


def _joined(begins: str, steps: Sequence[str]) -> str:
    chain = STEP.join((begins, *steps))
    if len(chain) > MAX_CHAIN_CHARS:
        return ""
    return chain


def _within(places: Sequence[Place], start: int, end: int) -> Sequence[Place]:
    return places[first_from(places, start) : first_from(places, end)]

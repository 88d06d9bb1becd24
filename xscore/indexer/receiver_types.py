"""Follow the chain of a call's object to its class, through what files state of results, members
and variables.

A class of this repository has methods and members; only the arguments of any other type are
known, so that `Optional[Store]` and the items of `[]Store` lead to `Store`. What leads outside
gets no edge; where nothing is known, the rule of unique names decides (`links`). Bounded: each
chain is followed once, at most `MAX_FOLLOWED` deep. Trade-off: arguments of generic classes of
the repository itself are not followed.
"""

from functools import cached_property

from xscore.indexer.chain_values import NOT_CALLED, OUTSIDE, Value, object_of, type_arguments
from xscore.indexer.chains import (
    ALIKE_MARK,
    ALTERNATIVE,
    CALL_MARK,
    DECLARED,
    GIVEN,
    INDEXED,
    NARROWED,
    OWN_TYPES,
    PARAMETERS,
    PASSED,
    STEP,
    TAKEN,
    TYPE_MARK,
    UNKNOWN,
)
from xscore.indexer.library_names import BUILTIN_NAMES
from xscore.indexer.type_names import ITEM_METHODS, PREDICATE, SAME_METHODS, WRAPPERS
from xscore.indexer.variable_values import VariableIndex
from xscore.records.memory import WITHIN, Kind
from xscore.store.link_rows import EntityRow
from xscore.store.written_rows import last_name

MAX_FOLLOWED = 24
"""How many chains within chains are followed: results of results, members of members."""
MAX_ALIASES = 4
"""How many aliases of a function type are followed."""
_PREDICATE = f"{TYPE_MARK}{PREDICATE}<"
_TOP_KINDS = (Kind.FUNCTION, Kind.CLASS)


class ReceiverIndex(VariableIndex):
    """Resolves the mentions of a file, those of methods by the class of their object."""

    _depth = 0

    @cached_property
    def _followed(self) -> dict[tuple[str, str], Value | None]:
        return {}

    def _reached(self, name: str, chain: str, path: str, count: int = -1) -> EntityRow | None:
        held = self._in_file(path).get(f"{chain}.{name}")
        # A member of an object, which is not a class.
        if held is not None and self._in_file(path).get(chain) is None:
            return held
        value = self._value_of(chain, path)
        if value is None:
            return self._of_unknown_object(name, chain, path)
        if name == "super" and value.row is not None:
            return self._constructed_base(value.row)
        member = self._step(value, name, count=count)
        if member is not None and (value.module is not None or member.holder is not None):
            return member.row
        # A member that holds a function, or something outside.
        extending = self._extension_of(None, "", name, path)
        if extending is None and value == OUTSIDE:
            return self._extension("", name, path)
        return extending

    def _constructed_base(self, row: EntityRow) -> EntityRow | None:
        for base in self._with_bases(row):
            if self._own_member(base, "constructor"):
                return base
        return None

    def _of_unknown_object(self, name: str, chain: str, path: str) -> EntityRow | None:
        """Return a method called on an object of which nothing is known."""
        is_class = STEP not in chain and chain.rpartition("!")[2][:1].isupper()
        if is_class and self._row(path).has_extension_methods:
            return None  # a class of the library
        extending = self._extension_of(None, "", name, path)
        if extending is not None or len(name) < 2:
            return extending
        return self._of_unknown(name, path)

    def _of_unknown(self, name: str, path: str) -> EntityRow | None:
        """Return the only method of a name, or the interface of its class that declares it.

        Either may be meant: the one whose name the other's is made of, as `Store` is of
        `IStore`, otherwise none.
        """
        method = self._attribute(name, path, dotted=True)
        if method is None or not self._row(path).has_extension_methods:
            return method
        holder = self._in_file(method.path).get(method.plain.rpartition(".")[0])
        interface = None if holder is None else self._declaring_base(holder, name)
        if holder is None or interface is None:
            return method
        holder_name = last_name(holder.plain)
        interface_name = last_name(interface.plain)
        if holder_name in interface_name:
            return method
        if interface_name not in holder_name:
            return None
        return interface

    def _declaring_base(self, holder: EntityRow, name: str) -> EntityRow | None:
        for base in self._with_bases(holder)[1:]:
            if name + DECLARED in self._types(base.path).get(base.id, {}):
                return base
        return None

    def _of_value(self, name: str, value: str, target: str, path: str) -> EntityRow | None:
        holder = self._imported_value(value, f"mod:{target}", path)
        if holder is None:
            member = None
        else:
            member = self._step(holder, name, count=-1)
        if member is None or member.holder is None:
            return None
        return member.row

    def _value_of(self, chain: str, path: str) -> Value | None:
        """Return what a chain leads to; None if nothing is known about it."""
        followed = self._followed
        key = (chain, path)
        if key not in followed:
            # It is not noted as unknown: from a place less deep it may be found.
            if self._depth >= MAX_FOLLOWED:
                return None
            followed[key] = None  # a chain that leads to itself
            self._depth += 1
            followed[key] = self._follow(chain, path)
            self._depth -= 1
        return followed[key]

    def _follow(self, chain: str, path: str) -> Value | None:
        head, *steps = chain.split(STEP)
        value = self._begin(head, path)
        for step, behind in zip(steps, [*steps[1:], ""], strict=False):
            if step.startswith(NARROWED):
                value = self._narrowed(step[len(NARROWED) :], path) or value
                continue
            if value is None:
                return None
            # A call behind a member tells by its arguments which overload is meant.
            count = NOT_CALLED
            if behind.startswith(CALL_MARK):
                count = int(behind[1:-1] or 0)
            value = self._step(value, step, count=count)
        return value

    def _narrowed(self, guard: str, path: str) -> Value | None:
        """Return the object that a function says its argument is; None if it does not say
        so."""
        function = self._begin(guard, path)
        row = None if function is None else function.row
        if row is None:
            return None
        stated = self._types(row.path).get(row.id, {}).get("", "")
        if not stated.startswith(_PREDICATE):
            return None
        narrowed = self._type(type_arguments(stated)[0], row.path)
        if narrowed is not None and narrowed.row is not None:
            return narrowed
        return None

    def _begin(self, head: str, path: str) -> Value | None:
        if not head:
            return None
        if head.startswith(ALIKE_MARK):
            return object_of(self._alike(head[1:], path))
        if head.startswith(TYPE_MARK):
            return self._type(head[1:], path)
        if head[0] in "@^":
            return self._object_itself(head[1:], path, is_base=head[0] == "^")
        return self._named_value(head, path)

    def _named_value(self, head: str, path: str) -> Value | None:
        place, mark, name = head.rpartition("!")
        if not mark:
            return self._bare_value(name, path)
        if place.startswith("in:"):
            return self._own_value(name, place[3:], path)
        return self._imported_value(name, place, path)

    def _object_itself(self, owner: str, path: str, *, is_base: bool) -> Value | None:
        """Return what `self` or `super` means in a class; if it has no known bases, `super` is
        outside."""
        class_row = self._class_here(owner, path)
        if class_row is None:
            return None
        if not is_base:
            return Value(class_row)
        bases = self._bases(class_row)
        return Value(bases[0]) if bases else OUTSIDE

    def _own_value(self, name: str, owner: str, path: str) -> Value | None:
        """Return a member of a class or of one around it, otherwise what the bare name
        means."""
        held = owner
        while held:
            class_row = self._class_here(held, path)
            if class_row is None:
                member = None
            else:
                member = self._member(Value(class_row), name)
            if member is not None:
                return member
            if class_row is not None and name == "new" and self._is_ruby(path):
                return Value(class_row)
            held = held.rpartition(".")[0]
        if name[:1].isupper():
            near = self._class_named(name, path, within=f"{owner}.")
            if near is not None:
                return Value(near)
        if name in self._in_file(path):
            alike = None
        else:
            alike = self._alike(name, path)
        if alike is None:
            return self._bare_value(name, path)
        return Value(alike)

    def _type(self, written: str, path: str, holder: EntityRow | None = None) -> Value | None:
        """Return an object of a type."""
        name = written.partition("<")[0]
        if name in OWN_TYPES:
            if holder is None:
                return None
            return Value(holder)
        place, mark, last = name.rpartition("!")
        if mark:
            row = self._resolved(last, place, path)
        else:
            row = self._class_named(last, path)
        if row is not None and self._is_class(row):
            return self._alternative(row, written, path) or Value(row, is_object=True)
        return Value(written=written, path=path)

    def _alternative(self, row: EntityRow, written: str, path: str) -> Value | None:
        """Return what an alias of its own argument means: `type Maybe<T> = T | null`; None if
        it is none."""
        argument = type_arguments(written)[0]
        if not argument:
            return None
        if self._types(row.path).get(row.id, {}).get("", "") != TYPE_MARK + UNKNOWN:
            return None
        return Value(written=f"Optional<{argument}>", path=path)

    def _method(
        self, owner: str, name: str, path: str, *, is_own: bool, count: int = -1
    ) -> EntityRow | None:
        class_row = self._class_here(owner, path) if is_own else None
        if class_row is None:
            member = None
        else:
            member = self._member(Value(class_row), name, count=count)
        if member is not None and member.holder is not None:
            return member.row
        return super()._method(owner, name, path, is_own=is_own, count=count)

    def _own_or_bare(self, name: str, owner: str, path: str, count: int) -> EntityRow | None:
        if not self._named(name) and not self._row(path).has_overloads:
            # No language without overloads has methods that are only declared, and no receiver.
            return None
        has_receiver = self._row(path).has_implicit_receiver
        held = owner
        # A constructor has the name of its class.
        while held and not (has_receiver and last_name(held) == name):
            class_row = self._class_here(held, path)
            if class_row is not None and has_receiver:
                member = self._member(Value(class_row), name, count=count)
                if member is not None and member.holder is not None:
                    return member.row
            if class_row is not None and self._reads(class_row, name):
                return None
            rows_by_name = self._in_file(path)
            neighbour = rows_by_name.get(f"{held} > {name}")
            if neighbour is None and class_row is None:
                neighbour = rows_by_name.get(f"{held}.{name}")
            if neighbour is not None:
                return neighbour
            held = held.rpartition(WITHIN)[0] or held.rpartition(".")[0]
        row = self._in_file(path).get(name)
        if row is not None or name in BUILTIN_NAMES:
            return row
        in_namespace = self._in_namespace(name, owner, path)
        return in_namespace or self._bare_or_mixed_in(name, owner, path)

    def _in_namespace(self, name: str, owner: str, path: str) -> EntityRow | None:
        """Return the function or class in the outermost namespace of a class."""
        plain = f"{owner.partition('.')[0]}.{name}"
        rows = [row for row in self._named(name) if row.plain == plain]
        return self._nearest_of([row for row in rows if row.kind in _TOP_KINDS], path)

    def _is_ruby(self, path: str) -> bool:
        return self._languages.get(path) == "ruby"

    def _reads(self, class_row: EntityRow, name: str) -> bool:
        """Whether a class reads a variable of its object under a name (`ruby_names`)."""
        del class_row, name
        return False

    def _mixed_in(self, name: str, owner: str, path: str) -> EntityRow | None:
        """Return what a class may have mixed in under a name (`ruby_names`)."""
        del name, owner, path
        return None

    def _bare_or_mixed_in(self, name: str, owner: str, path: str) -> EntityRow | None:
        return self._bare(name, path) or self._mixed_in(name, owner, path)

    def _step(self, value: Value, step: str, *, count: int = NOT_CALLED) -> Value | None:
        """Return what a call, an index or a member of a value is.

        count: number of arguments with which the next step calls the member.
        """
        if self._depth >= MAX_FOLLOWED:
            return None
        self._depth += 1
        try:
            return self._next_value(value, step, count)
        finally:
            self._depth -= 1

    def _next_value(self, value: Value, step: str, count: int) -> Value | None:
        if step.startswith(CALL_MARK):
            return self._called(value, int(step[1:-1] or 0))
        if step.startswith(TAKEN):
            return self._taken(value, step)
        if step.startswith(PASSED):
            return self._passed(value, TAKEN + step[len(PASSED) :])
        if value.module is not None:
            return self._of_module(value, step, count)
        if value.row is None:
            return self._of_foreign(value, step, count)
        return self._of_row(value, value.row, step, count)

    def _taken(self, value: Value, place: str) -> Value | None:
        """Return a parameter of a function type, also under another name of it."""
        row = value.row
        for _ in range(MAX_ALIASES):
            if row is None:
                break
            types = self._types(row.path).get(row.id, {})
            if place in types:
                return self._value_of(types[place], row.path)
            member, has_member, inner_place = place.removeprefix(TAKEN).partition(".")
            if has_member and member in types:
                of_member = self._value_of(types[member], row.path)
                if of_member is None:
                    return None
                return self._taken(of_member, TAKEN + inner_place)
            alias = self._value_of(types.get("", ""), row.path)
            row = None if alias is None or alias.row is row else alias.row
        return None

    def _passed(self, value: Value, place: str) -> Value | None:
        """Return a parameter of the function that is passed to a call: of a type in place, or of
        the first type among those of the called function's parameters that is one of functions."""
        row = value.row
        if row is None:
            return None
        types = self._types(row.path).get(row.id, {})
        if place in types and not self._is_class(row):
            return self._value_of(types[place], row.path)
        for chain in types.get(TAKEN, "").split(ALTERNATIVE):
            function_type = self._value_of(chain, row.path) if chain else None
            parameter = None if function_type is None else self._taken(function_type, place)
            if parameter is not None:
                return parameter
        return None

    def _of_row(self, value: Value, row: EntityRow, step: str, count: int) -> Value | None:
        if not self._is_class(row):
            return self._of_result(value, row, step, count)
        if step != INDEXED:
            member = self._member(value, step, count=count)
            if member is not None:
                return member
        if step in ("new", "class") and self._is_ruby(row.path):
            return Value(row, holder=row)
        meant = self._types(row.path).get(row.id, {}).get("", "")
        alias = self._value_of(meant, row.path) if meant else None
        if alias is not None and alias.row is not row:
            return self._step(alias, step, count=count)
        if count != NOT_CALLED:
            extending = self._extension_of(row, "", step, row.path)
            if extending is not None:
                return Value(extending, holder=extending)
        # A member without a known type may be anything; a method that no class defines belongs to
        # none.
        return None if step == INDEXED or count == NOT_CALLED else OUTSIDE

    def _of_result(self, value: Value, row: EntityRow, step: str, count: int) -> Value | None:
        """Return a member of what a property gives, or a method that is called without brackets."""
        result = self._called(value, 0)
        if result is None or result.row is row:
            return None
        return self._step(result, step, count=count)

    def _of_module(self, value: Value, step: str, count: int) -> Value | None:
        place = value.module or ""
        if place not in self._languages:
            return self._in_folder(step, place)
        row = self._exported(step, place)
        exported = Value(row) if row is not None else self._exported_variable(step, place)
        if exported is not None or not value.written:
            return exported
        default = self._default_value(value.written, place)
        if default is None:
            return None
        return self._step(default, step, count=count)

    def _default_value(self, alias: str, file: str) -> Value | None:
        """Return what a module exports without a name."""
        variables = self._variables(file)
        if "default" in variables:
            return self._value_of(variables["default"], file)
        row = self._default_export(alias, file)
        if row is None:
            return None
        return Value(row)

    def _called(self, value: Value, count: int) -> Value | None:
        """Return what a function gives. count: number of arguments, by which overloads
        differ."""
        if value.result:
            return self._result(value.result, value)
        row = value.row
        if row is None:
            return value
        if self._is_class(row):
            return self._called_class(value, row, count)
        types = self._types(row.path).get(row.id, {})
        if PARAMETERS in types:
            row = self._overload(row, count) or row
        stated = self._types(row.path).get(row.id, {}).get("", "")
        if not stated:
            return None
        return self._result(stated, value)

    def _called_class(self, value: Value, row: EntityRow, count: int) -> Value | None:
        """Return an object of a class, or what an object gives that is called itself."""
        if not value.is_object:
            return value._replace(is_object=True)
        result = self._types(row.path).get(row.id, {}).get(GIVEN, "")
        if result:
            return self._value_of(result, row.path)
        call_method = self._member(value, "__call__")
        if call_method is None:
            return value
        return self._called(call_method, count)

    def _result(self, stated: str, value: Value) -> Value | None:
        row = value.row
        if row is None:
            return None
        holder = value.holder or row
        itself = None if value.holder is None else Value(holder)
        outside: Value | None = None
        for chain in stated.split(ALTERNATIVE):
            head = chain.partition("<")[0]
            is_own_type = head.startswith(TYPE_MARK) and head[1:] in OWN_TYPES
            is_object = chain.startswith("@") and STEP not in chain
            if is_own_type or (is_object and itself is not None):
                return itself
            result = self._value_of(chain, row.path)
            if is_object:
                return result
            if result is not None and result != OUTSIDE:
                return self._with_own(result, holder)
            outside = outside or result
        return outside

    def _with_own(self, value: Value, holder: EntityRow) -> Value:
        """`Result<Self, E>` of a method is one of the class that it is called on."""
        if (
            value.row is not None
            or "Self" not in value.written
            or not self._in_file(holder.path)
        ):
            return value
        arguments: list[str] = []
        for argument in type_arguments(value.written):
            arguments.append(holder.plain if argument == "Self" else argument)
        name = value.written.partition("<")[0]
        return Value(written=f"{name}<{','.join(arguments)}>", path=holder.path)

    def _member(self, value: Value, name: str, *, count: int = NOT_CALLED) -> Value | None:
        """Return a method or a member of an object, by its class and the bases of that."""
        if value.row is None:
            return None
        nearest: EntityRow | None = None
        for this in self._with_bases(value.row):
            row = self._own_member(this, name)
            if row is not None and count >= 0:
                nearest = nearest or row
                row = self._overload(row, count)
            members = self._types(this.path).get(this.id, {})
            chain = members.get(name) or members.get(f"@{name}")
            if row is not None and (count != NOT_CALLED or not chain):
                return Value(row, holder=value.row)
            if chain:
                held = self._value_of(chain, this.path)
                return held or object_of(self._alike(name.lstrip("@"), this.path))
            if name + DECLARED in members:
                # What an interface declares is in its class, whatever the number of arguments says.
                if nearest is not None and nearest.plain != f"{this.plain}.{name}":
                    break
                return Value(this, holder=value.row, result=members[name + DECLARED] or ":?")
        if nearest is None:
            return None
        return Value(nearest, holder=value.row)

    def _of_foreign(self, value: Value, step: str, count: int) -> Value | None:
        """Return what is known about a member of a type outside of the repository: what its
        arguments say."""
        name, _, rest = value.written.partition("<")
        extending = None
        if name:
            extending = self._extension(value.written, step, value.path)
            extending = extending or self._extension_of(None, value.written, step, value.path)
        if extending is not None:
            return Value(extending, holder=extending)
        if not rest:
            return OUTSIDE
        arguments = type_arguments(value.written)
        is_wrapper = last_name(name.rpartition("!")[2]) in WRAPPERS
        inner = self._type(arguments[0 if is_wrapper else -1], value.path)
        if is_wrapper and inner is not None and inner.row is not None and step != INDEXED:
            member = self._member(inner, step, count=count)
            if member is not None:
                return member
        if step == INDEXED or step in ITEM_METHODS:
            return inner
        if step in SAME_METHODS:
            return value
        within = inner if is_wrapper else None
        return OUTSIDE if within is None else self._step(within, step, count=count)

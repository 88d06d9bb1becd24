"""Follow the chain of a call's object to its class, through what files state of results, members
and variables.

A class of this repository has methods and members; of a type that is none of it only the arguments
are known, so that `Optional[Store]` and the items of `[]Store` lead to `Store`. What leads outside
gets no edge; where nothing is known, the rule of unique names decides (`links`). Bounded: each
chain is followed once, at most `MAX_FOLLOWED` deep. Trade-off: arguments of generic classes of the
repository itself are not followed.
"""

from functools import cached_property

from xscore.indexer.chain_values import NOT_CALLED, OUTSIDE, Value, object_of, type_arguments
from xscore.indexer.chains import (
    ALIKE_MARK,
    ALTERNATIVE,
    CALL_MARK,
    DECLARED,
    INDEXED,
    NARROWED,
    OWN_TYPES,
    PARAMETERS,
    STEP,
    TYPE_MARK,
    UNKNOWN,
)
from xscore.indexer.library_names import BUILTIN_NAMES
from xscore.indexer.type_names import ITEM_METHODS, PREDICATE, SAME_METHODS, WRAPPERS
from xscore.indexer.variable_values import VariableIndex
from xscore.records.memory import Kind
from xscore.store.link_rows import EntityRow
from xscore.store.written_rows import last_name

MAX_FOLLOWED = 24
"""Chains within chains: results of results, members of members."""
_PREDICATE = f"{TYPE_MARK}{PREDICATE}<"


class ReceiverIndex(VariableIndex):
    """Resolves the mentions of a file, those of methods by the class of their object."""

    _depth = 0

    @cached_property
    def _followed(self) -> dict[tuple[str, str], Value | None]:
        return {}

    def _reached(self, name: str, chain: str, path: str, count: int = -1) -> EntityRow | None:
        held = self._in_file(path).get(f"{chain}.{name}")
        # Of an object, which is no class.
        if held is not None and self._in_file(path).get(chain) is None:
            return held
        value = self._value_of(chain, path)
        if value is None:
            if (
                self._row(path).has_extension_methods
                and STEP not in chain
                and chain.rpartition("!")[2][:1].isupper()
            ):
                return None  # a class of the library
            extending = self._extension_of(None, "", name, path)
            return extending or (None if len(name) < 2 else self._of_unknown(name, path))
        if name == "super" and value.row is not None:
            holders = (
                base
                for base in self._with_bases(value.row)
                if self._own_member(base, "constructor")
            )
            return next(holders, None)
        member = self._step(value, name, count=count)
        if member is None or (value.module is None and member.holder is None):
            # A member that holds a function, or something outside.
            is_outside = value == OUTSIDE
            return self._extension_of(None, "", name, path) or (
                self._extension("", name, path) if is_outside else None
            )
        return member.row

    def _of_unknown(self, name: str, path: str) -> EntityRow | None:
        """Return the only method of a name, or the interface of its class that declares it.

        Either may be meant: the one whose name the other's is made of, as `Store` is of `IStore`,
        and else none.
        """
        method = self._attribute(name, path, dotted=True)
        if method is None or not self._row(path).has_extension_methods:
            return method
        holder = self._in_file(method.path).get(method.plain.rpartition(".")[0])
        bases = self._with_bases(holder)[1:] if holder is not None else []
        declaring = (
            base for base in bases if name + DECLARED in self._types(base.path).get(base.id, {})
        )
        interface = next(declaring, None)
        if (
            holder is None
            or interface is None
            or last_name(holder.plain) in last_name(interface.plain)
        ):
            return method
        return interface if last_name(interface.plain) in last_name(holder.plain) else None

    def _of_value(self, name: str, value: str, target: str, path: str) -> EntityRow | None:
        holder = self._imported_value(value, f"mod:{target}", path)
        member = None if holder is None else self._step(holder, name, count=-1)
        return None if member is None or member.holder is None else member.row

    def _value_of(self, chain: str, path: str) -> Value | None:
        """Return what a chain leads to; None: nothing is known of it."""
        followed, key = self._followed, (chain, path)
        if key not in followed:
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
            value = self._step(
                value,
                step,
                count=int(behind[1:-1] or 0) if behind.startswith(CALL_MARK) else NOT_CALLED,
            )
        return value

    def _narrowed(self, guard: str, path: str) -> Value | None:
        """Return the object that a function says its argument is; None: it does not say so."""
        function = self._begin(guard, path)
        row = None if function is None else function.row
        if row is None:
            return None
        stated = self._types(row.path).get(row.id, {}).get("", "")
        if not stated.startswith(_PREDICATE):
            return None
        narrowed = self._type(type_arguments(stated)[0], row.path)
        return narrowed if narrowed is not None and narrowed.row is not None else None

    def _begin(self, head: str, path: str) -> Value | None:
        if not head:
            return None
        if head.startswith(ALIKE_MARK):
            return object_of(self._alike(head[1:], path))
        if head.startswith(TYPE_MARK):
            return self._type(head[1:], path)
        if head[0] in "@^":
            class_row = self._class_here(head[1:], path)
            objects = (
                []
                if class_row is None
                else [class_row]
                if head[0] == "@"
                else self._bases(class_row)
            )
            return next(map(Value, objects), None if class_row is None else OUTSIDE)
        place, mark, name = head.rpartition("!")
        if mark and not place.startswith("in:"):
            return self._imported_value(name, place, path)
        return self._own_value(name, place[3:], path) if mark else self._bare_value(name, path)

    def _own_value(self, name: str, owner: str, path: str) -> Value | None:
        """Return a member of a class or of one around it, else what the bare name means."""
        held = owner
        while held:
            class_row = self._class_here(held, path)
            member = None if class_row is None else self._member(Value(class_row), name)
            if member is not None:
                return member
            if class_row is not None and name == "new" and self._languages.get(path) == "ruby":
                return Value(class_row)
            held = held.rpartition(".")[0]
        near = self._class_named(name, path, within=f"{owner}.") if name[:1].isupper() else None
        if near is not None:
            return Value(near)
        alike = None if name in self._in_file(path) else self._alike(name, path)
        return self._bare_value(name, path) if alike is None else Value(alike)

    def _type(self, written: str, path: str, holder: EntityRow | None = None) -> Value | None:
        """Return an object of a type."""
        name = written.partition("<")[0]
        if name in OWN_TYPES:
            return None if holder is None else Value(holder)
        place, mark, last = name.rpartition("!")
        row = self._resolved(last, place, path) if mark else self._class_named(last, path)
        if row is not None and self._is_class(row):
            return self._alternative(row, written, path) or Value(row, is_object=True)
        return Value(written=written, path=path)

    def _alternative(self, row: EntityRow, written: str, path: str) -> Value | None:
        """Return what an alias of its own argument means: `type Maybe<T> = T | null`; None: it is
        none."""
        arguments = type_arguments(written)
        if (
            not arguments[0]
            or self._types(row.path).get(row.id, {}).get("", "") != TYPE_MARK + UNKNOWN
        ):
            return None
        return Value(written=f"Optional<{arguments[0]}>", path=path)

    def _method(
        self, owner: str, name: str, path: str, *, is_own: bool, count: int = -1
    ) -> EntityRow | None:
        class_row = self._class_here(owner, path) if is_own else None
        member = None if class_row is None else self._member(Value(class_row), name, count=count)
        if member is not None and member.holder is not None:
            return member.row
        return super()._method(owner, name, path, is_own=is_own, count=count)

    def _own_or_bare(self, name: str, owner: str, path: str, count: int) -> EntityRow | None:
        held = owner
        if not self._named(name) and not self._row(path).has_overloads:
            # No language without overloads has methods that are only declared, and no receiver.
            return None
        has_receiver = self._row(path).has_implicit_receiver
        # A constructor has the name of its class.
        while held and not (has_receiver and last_name(held) == name):
            own = self._class_here(held, path)
            member = (
                self._member(Value(own), name, count=count)
                if own is not None and has_receiver
                else None
            )
            if member is not None and member.holder is not None:
                return member.row
            if own is not None and self._reads(own, name):
                return None
            rows_by_name = self._in_file(path)
            beside = rows_by_name.get(f"{held} > {name}") or (
                rows_by_name.get(f"{held}.{name}") if own is None else None
            )
            if beside is not None:
                return beside
            held = held.rpartition(" > ")[0] or held.rpartition(".")[0]
        own = self._in_file(path).get(name)
        if own is not None or name in BUILTIN_NAMES:
            return own
        spaces = [t for t in self._named(name) if t.plain == f"{owner.partition('.')[0]}.{name}"]
        beside = self._nearest_of(
            [t for t in spaces if t.kind in (Kind.FUNCTION, Kind.CLASS)], path
        )
        return beside or self._bare(name, path) or self._mixed_in(name, owner, path)

    def _step(self, value: Value, step: str, *, count: int = NOT_CALLED) -> Value | None:
        """Return what a call, an index or a member of a value is.

        count: of arguments, with which the next step calls the member.
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
        if value.module is not None:
            return self._of_module(value, step, count)
        return (
            self._of_foreign(value, step, count)
            if value.row is None
            else self._of_row(value, value.row, step, count)
        )

    def _of_row(self, value: Value, row: EntityRow, step: str, count: int) -> Value | None:
        # A property, or a method that a language calls without brackets.
        if not self._is_class(row):
            result = self._called(value, 0)
            return (
                None
                if result is None or result.row is row
                else self._step(result, step, count=count)
            )
        member = None if step == INDEXED else self._member(value, step, count=count)
        if member is not None:
            return member
        if step in ("new", "class") and self._languages.get(row.path) == "ruby":
            return Value(row, holder=row)
        meant = self._types(row.path).get(row.id, {}).get("", "")
        alias = self._value_of(meant, row.path) if meant else None
        if alias is not None and alias.row is not row:
            return self._step(alias, step, count=count)
        extending = self._extension_of(row, "", step, row.path) if count != NOT_CALLED else None
        if extending is not None:
            return Value(extending, holder=extending)
        # A member without a known type may be anything; a method that no class defines belongs to
        # none.
        return None if step == INDEXED or count == NOT_CALLED else OUTSIDE

    def _of_module(self, value: Value, step: str, count: int) -> Value | None:
        place = value.module or ""
        if place not in self._languages:
            return self._in_folder(step, place)
        row = self._exported(step, place)
        exported = Value(row) if row is not None else self._exported_variable(step, place)
        if exported is not None or not value.written:
            return exported
        default = self._default_value(value.written, place)
        return None if default is None else self._step(default, step, count=count)

    def _default_value(self, alias: str, file: str) -> Value | None:
        """Return what a module exports without a name."""
        variables = self._variables(file)
        if "default" in variables:
            return self._value_of(variables["default"], file)
        row = self._default_export(alias, file)
        return None if row is None else Value(row)

    def _called(self, value: Value, count: int) -> Value | None:
        """Return what a function gives. count: of arguments, by which overloads differ."""
        if value.result:
            return self._result(value.result, value)
        row = value.row
        if row is None:
            return value
        if self._is_class(row):
            call_method = self._member(value, "__call__") if value.is_object else None
            return (
                value._replace(is_object=True)
                if call_method is None
                else self._called(call_method, count)
            )
        types = self._types(row.path).get(row.id, {})
        if PARAMETERS in types:
            row = self._overload(row, count) or row
        stated = self._types(row.path).get(row.id, {}).get("", "")
        return self._result(stated, value) if stated else None

    def _result(self, stated: str, value: Value) -> Value | None:
        row = value.row
        if row is None:
            return None
        holder = value.holder or row
        outside: Value | None = None
        for chain in stated.split(ALTERNATIVE):
            head = chain.partition("<")[0]
            if chain.startswith("@") and STEP not in chain:
                return (
                    Value(holder) if value.holder is not None else self._value_of(chain, row.path)
                )
            if head.startswith(TYPE_MARK) and head[1:] in OWN_TYPES:
                return Value(holder) if value.holder is not None else None
            result = self._value_of(chain, row.path)
            if result is not None and result != OUTSIDE:
                return self._with_own(result, holder)
            outside = outside or result
        return outside

    def _with_own(self, value: Value, holder: EntityRow) -> Value:
        """`Result<Self, E>` of a method is one of the class that it is called on."""
        if value.row is None and "Self" in value.written and self._in_file(holder.path):
            written = ",".join(
                holder.plain if part == "Self" else part for part in type_arguments(value.written)
            )
            return Value(written=f"{value.written.partition('<')[0]}<{written}>", path=holder.path)
        return value

    def _member(self, value: Value, name: str, *, count: int = NOT_CALLED) -> Value | None:
        """Return a method or a member of an object, by its class and the bases of that."""
        if value.row is None:
            return None
        nearest: Value | None = None
        for this in self._with_bases(value.row):
            row = self._own_member(this, name)
            if row is not None and count >= 0:
                nearest = nearest or Value(row, holder=value.row)
                row = self._overload(row, count)
            members = self._types(this.path).get(this.id, {})
            chain = members.get(name) or members.get(f"@{name}")
            if row is not None and (count != NOT_CALLED or not chain):
                return Value(row, holder=value.row)
            if chain:
                return self._value_of(chain, this.path) or object_of(
                    self._alike(name.lstrip("@"), this.path)
                )
            if name + DECLARED in members:
                # What an interface declares is in its class, whatever the number of arguments says.
                if (
                    nearest is not None
                    and nearest.row is not None
                    and nearest.row.plain != f"{this.plain}.{name}"
                ):
                    return nearest
                return Value(this, holder=value.row, result=members[name + DECLARED] or ":?")
        return nearest

    def _of_foreign(self, value: Value, step: str, count: int) -> Value | None:
        """Return what is known of a member of a type outside of the repository: what its arguments
        say."""
        name, _, rest = value.written.partition("<")
        extending = self._extension(value.written, step, value.path) if name else None
        extending = extending or (
            self._extension_of(None, value.written, step, value.path) if name else None
        )
        if extending is not None or not rest:
            return OUTSIDE if extending is None else Value(extending, holder=extending)
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
        return self._step(inner, step, count=count) if is_wrapper and inner is not None else OUTSIDE

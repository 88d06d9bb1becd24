"""Follow the chain of a call's object to its class, through what files state of results, members and variables.

A class of this repository has methods and members; of a type that is none of it only the arguments are known, so that
`Optional[Store]` and the items of `[]Store` lead to `Store`. What leads outside gets no edge; where nothing is known, the
rule of unique names decides (`links`). Bounded: each chain is followed once, at most `MAX_FOLLOWED` deep. Trade-off:
arguments of generic classes of the repository itself are not followed, and of overloads the last one's result counts.
"""

from typing import NamedTuple

from xscore.indexer.chains import CALL_MARK, INDEXED, STEP, TYPE_MARK
from xscore.indexer.languages import BUILTIN_NAMES, language_named
from xscore.indexer.links import NameIndex
from xscore.indexer.receivers import ALTERNATIVE, DECLARED, EXTENDED, OWN_TYPES, PARAMETERS
from xscore.records.memory import Kind
from xscore.store.link_rows import EntityRow
from xscore.store.written_rows import last_name

MAX_FOLLOWED = 24
"""Chains within chains: results of results, members of members."""
_WRAPPERS = frozenset(
    """
    Arc Annotated Awaitable Box Cell ClassVar ComPtr Coroutine Cow Deferred Final Future Lazy Maybe Mutex MutexGuard
    NonNullable Nullable Option Optional Partial Pin Promise PromiseLike Provider Rc Readonly Ref RefCell RefMut
    Required Result RwLock Supplier Task ThreadLocal Type Union ValueTask Weak shared_ptr unique_ptr weak_ptr type ()
    """.split()  # noqa: SIM905  read as a list of words
)
"""Types whose first argument has the members that are asked for."""
_SAME = frozenset(
    """
    as_deref as_mut as_ref as_slice await borrow borrow_mut by_ref chain clone cloned copied drain filter into_iter iter
    iter_mut limit lock map_err ok ok_or or_else peekable read rev reversed skip sorted stream take then to_owned
    to_vec toList values write where Where OrderBy ToList slice reverse concat ConfigureAwait lower
    """.split()  # noqa: SIM905  read as a list of words
)
"""Methods of such types and of containers that give one of the same."""
_ITEMS = frozenset(
    """
    Dequeue ElementAt First FirstOrDefault Last LastOrDefault Peek Pop Result Single SingleOrDefault Value at back find
    findAny findFirst first front get getFirst getLast getOrDefault last max min next orElse orElseGet orElseThrow peek
    poll pop pop_front removeFirst removeLast shift top unwrap unwrap_or unwrap_or_default unwrap_or_else expect nth
    sample detect take_first front_mut last_mut first_mut get_mut
    """.split()  # noqa: SIM905  read as a list of words
)
"""Methods of them that give what they hold."""


NOT_CALLED = -2
"""In the place of a number of arguments: a member is used, not called. -1: called with any."""


class Value(NamedTuple):
    """What a chain leads to. Without a row: something outside of the repository."""

    row: EntityRow | None = None
    """A class, for itself or an object of it; or a function."""
    written: str = ""
    """A type that is none of the repository, with its arguments, as the file at `path` has it."""
    path: str = ""
    holder: EntityRow | None = None
    """The class on whose object a method is called."""
    result: str = ""
    """What a method gives that `row` only declares; a chain."""
    module: str | None = None
    """A file, or the folder of a package."""


OUTSIDE = Value()


class ReceiverIndex(NameIndex):
    """Resolves the mentions of a file, those of methods by the class of their object."""

    _depth = 0
    _followed: dict[tuple[str, str], Value | None]

    def _reached(self, name: str, chain: str, path: str, count: int = -1) -> EntityRow | None:
        value = self._value_of(chain, path)
        if value is None:
            library = language_named(self._languages.get(path, "")).library.split()
            is_usual = name in BUILTIN_NAMES or len(name) < 2 or name in library
            return None if is_usual else self._attribute(name, path, dotted=True)
        found = self._step(value, name, count=count)
        if found is None or (value.module is None and found.holder is None):
            return None  # a member that holds a function, or something outside
        return found.row

    def _of_value(self, name: str, value: str, target: str, path: str) -> EntityRow | None:
        holder = self._imported_value(value, f"mod:{target}", path)
        found = None if holder is None else self._step(holder, name, count=-1)
        return None if found is None or found.holder is None else found.row

    def _value_of(self, chain: str, path: str) -> Value | None:
        """Return what a chain leads to; None: nothing is known of it."""
        followed = self.__dict__.setdefault("_followed", {})
        key = chain, path
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
            if value is None:
                return None
            value = self._step(value, step, count=int(behind[1:-1] or 0) if behind.startswith(CALL_MARK) else NOT_CALLED)
        return value

    def _begin(self, head: str, path: str) -> Value | None:
        if head.startswith(TYPE_MARK):
            return self._type(head[1:], path)
        if not head:
            return None
        if head[0] in "@^":
            own = self._class_here(head[1:], path)
            if own is None or head[0] == "@":
                return None if own is None else Value(own)
            return next((Value(base) for base in self._bases(own)), OUTSIDE)
        place, mark, name = head.rpartition("!")
        if not mark:
            return self._bare_value(name, path)
        if place.startswith("in:"):
            return self._own_value(name, place[3:], path)
        return self._imported_value(name, place, path)

    def _own_value(self, name: str, owner: str, path: str) -> Value | None:
        """Return a member of a class or of one around it, else what the bare name means."""
        held = owner
        while held:
            own = self._class_here(held, path)
            found = None if own is None else self._member(Value(own), name)
            if found is not None:
                return found
            if own is not None and name == "new" and self._languages.get(path) == "ruby":
                return Value(own)
            held = held.rpartition(".")[0]
        near = self._class_named(name, path, within=f"{owner}.") if name[:1].isupper() else None
        return self._bare_value(name, path) if near is None else Value(near)

    def _bare_value(self, name: str, path: str) -> Value | None:
        row = self._in_file(path).get(name)
        if row is not None and row.kind is not Kind.BLOCK:
            return Value(row)
        files = self._package_files.get(path.rpartition("/")[0], []) if self._has_packages(path) else [path]
        for file in files:
            if name in self._variables(file):
                return self._value_of(self._variables(file)[name], file)
        row = self._class_named(name, path) or (None if name in BUILTIN_NAMES else self._bare(name, path))
        return None if row is None else Value(row)

    def _imported_value(self, name: str, hint: str, path: str) -> Value | None:
        target, _, held_by = hint.removeprefix("mod:").partition("#")
        if not name or (held_by == "default" and name == "default"):
            return self._module(target, path, is_default=held_by == "default")
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

    def _module(self, target: str, path: str, *, is_default: bool) -> Value | None:
        file = self.resolve(target, path)
        if file:
            return Value(module=file, written="default" if is_default else "")
        folder = self._package(target) if self._has_packages(path) else None
        return OUTSIDE if folder is None else Value(module=folder)

    def _in_folder(self, name: str, folder: str) -> Value | None:
        row = self._in_package(name, folder)
        if row is not None:
            return Value(row)
        for file in self._package_files.get(folder, []):
            if name in self._variables(file):
                return self._value_of(self._variables(file)[name], file)
        return None

    def _exported_variable(self, name: str, file: str) -> Value | None:
        for _ in range(5):
            if name in self._variables(file):
                return self._value_of(self._variables(file)[name], file)
            inner = self.resolve(f"./{file.rpartition('/')[0]}/{name}", file) if file.endswith("__init__.py") else ""
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
        known = self.__dict__.setdefault("_known_variables", {})
        if path not in known:
            known[path] = {}
            types = self._mentions(path).types
            for row in dict.fromkeys(self._in_file(path).values()):
                if row.entity.startswith("module:") and row.id in types:
                    known[path] |= types[row.id]
        return known[path]

    def _type(self, written: str, path: str, own: EntityRow | None = None) -> Value | None:
        """Return an object of a type."""
        name, _, arguments = written.partition("<")
        if name in OWN_TYPES:
            return None if own is None else Value(own)
        place, mark, last = name.rpartition("!")
        row = self._resolved(last, place, path) if mark else self._class_named(last, path)
        if row is not None and self._is_class(row):
            return Value(row)
        return Value(written=written, path=path)

    def _class_named(self, name: str, path: str, *, within: str = "") -> EntityRow | None:
        """Return the class that a bare name means in a file. within: the class or namespace where it stands."""
        while within:
            within = within.rpartition(".")[0]
            plain = f"{within}.{name}" if within else name
            beside = [t for t in self._named(name.rpartition(".")[2]) if t.plain == plain and self._is_class(t)]
            found = self._nearest_of(beside, path)
            if found is not None:
                return found
        own = self._in_file(path)
        row = own.get(name)
        if row is not None and self._is_class(row):
            return row
        last = name.rpartition(".")[2]
        classes = [t for t in self._named(last) if self._is_class(t)]
        here = [t for t in classes if t.path == path and f".{t.plain}".endswith(f".{name}")]
        if here:
            return here[0] if len({t.plain for t in here}) == 1 else None
        if self._has_packages(path):
            return self._in_package(name, path.rpartition("/")[0])
        starred = self._in_file(self._star(name, path)).get(name)
        if starred is not None:
            return starred
        exact = self._nearest_of([t for t in classes if t.plain == name], path)
        return exact or self._nearest_of([t for t in classes if t.plain.endswith(f".{name}")], path)

    def _find_bases(self, holder: EntityRow) -> list[EntityRow]:
        bases, types = self._mentions(holder.path).bases, self._mentions(holder.path).types
        stated = list(bases.get(holder.id, ()))
        for id_ in bases:
            if types.get(id_, {}).get(EXTENDED) == f":{holder.plain}":
                stated += bases[id_]
        found = [self._base(holder, name, hint) for _, name, hint in stated]
        return [*self._parts(holder), *(base for base in found if base is not None and self._is_class(base))]

    def _base(self, holder: EntityRow, name: str, hint: str) -> EntityRow | None:
        if hint.startswith("mod:"):
            return self._resolved(name, hint, holder.path)
        kind, _, place = hint.partition(":")
        written = f"{place}.{name}" if kind in ("typed", "of") and place else name
        return self._class_named(written, holder.path, within=holder.plain)

    def _parts(self, holder: EntityRow) -> list[EntityRow]:
        """Return the other definitions of a class, where a language lets it have several."""
        if not self._row(holder.path).has_open_classes or self._has_packages(holder.path):
            return []
        named = self._named(last_name(holder.entity))
        return [t for t in named if t.plain == holder.plain and t.language == holder.language and self._is_class(t)]

    def _own_or_bare(self, name: str, owner: str, path: str, count: int) -> EntityRow | None:
        held = owner
        if not self._named(name) and not self._row(path).has_overloads:
            return None  # no language without overloads has methods that are only declared, and no receiver
        has_receiver = self._row(path).has_implicit_receiver
        while held and last_name(held) != name:  # a constructor is called by the name of its class
            own = self._class_here(held, path)
            found = self._member(Value(own), name, count=count) if own is not None and has_receiver else None
            if found is not None and found.holder is not None:
                return found.row
            here = self._in_file(path)
            beside = here.get(f"{held} > {name}") or (here.get(f"{held}.{name}") if own is None else None)
            if beside is not None:
                return beside
            held = held.rpartition(" > ")[0] or held.rpartition(".")[0]
        own = self._in_file(path).get(name)
        if own is not None or name in BUILTIN_NAMES:
            return own
        spaces = [t for t in self._named(name) if t.plain == f"{owner.partition('.')[0]}.{name}"]
        return self._nearest_of([t for t in spaces if t.kind in (Kind.FUNCTION, Kind.CLASS)], path) or self._bare(
            name, path
        )

    def _is_class(self, row: EntityRow) -> bool:
        """Whether an entity is a class; one of a file of tests counts as a test and is known by its members."""
        return row.kind is Kind.CLASS or (row.kind is Kind.TEST and row.plain in self._holders(row.path))

    def _holders(self, path: str) -> set[str]:
        known = self.__dict__.setdefault("_known_holders", {})
        if path not in known:
            types = self._mentions(path).types
            rows = {*self._in_file(path).values()}
            known[path] = {row.plain.rpartition(".")[0] for row in rows if " > " not in row.entity}
            known[path] |= {row.plain for row in rows if types.get(row.id, {}).keys() - {""}}
        return known[path]

    def _step(self, value: Value, step: str, *, count: int = NOT_CALLED) -> Value | None:
        """Return what a call, an index or a member of a value is. count: of arguments, with which the next step calls the member."""
        if step.startswith(CALL_MARK):
            return self._called(value, int(step[1:-1] or 0))
        if value.module is not None:
            return self._of_module(value, step)
        if value.row is None:
            return self._of_foreign(value, step)
        if not self._is_class(value.row):  # a property, or a method that a language calls without brackets
            given = self._called(value, 0)
            return None if given is None or given.row is value.row else self._step(given, step, count=count)
        found = None if step == INDEXED else self._member(value, step, count=count)
        if found is None and step == "new" and self._languages.get(value.row.path) == "ruby":
            return value
        meant = "" if found is not None else self._mentions(value.row.path).types.get(value.row.id, {}).get("", "")
        alias = self._value_of(meant, value.row.path) if meant else None
        if alias is not None and alias.row is not value.row:
            return self._step(alias, step, count=count)
        if step == INDEXED:
            return None
        return OUTSIDE if found is None else found

    def _of_module(self, value: Value, step: str) -> Value | None:
        place = value.module or ""
        if place not in self._languages:
            return self._in_folder(step, place)
        row = self._exported(step, place)
        found = Value(row) if row is not None else self._exported_variable(step, place)
        if found is None and value.written:
            default = self._default_export(step, place)
            found = self._member(Value(default), step) if default is not None else None
        return found

    def _called(self, value: Value, count: int) -> Value | None:
        """Return what a function gives. count: of arguments, by which overloads differ."""
        if value.result:
            return self._result(value.result, value)
        row = value.row
        if row is None or self._is_class(row):
            return value
        types = self._mentions(row.path).types.get(row.id, {})
        if PARAMETERS in types:
            row = self._overload(row, count) or row
        stated = self._mentions(row.path).types.get(row.id, {}).get("", "")
        return self._result(stated, value) if stated else None

    def _result(self, stated: str, value: Value) -> Value | None:
        row = value.row
        if row is None:
            return None
        holder = value.holder or row
        for chain in stated.split(ALTERNATIVE):
            head = chain.partition("<")[0]
            if chain.startswith("@") and STEP not in chain:
                return Value(holder) if value.holder is not None else self._value_of(chain, row.path)
            if head.startswith(TYPE_MARK) and head[1:] in OWN_TYPES:
                return Value(holder) if value.holder is not None else None
            found = self._value_of(chain, row.path)
            if found is not None:
                return self._with_own(found, holder)
        return None

    def _with_own(self, value: Value, holder: EntityRow) -> Value:
        """`Result<Self, E>` of a method is one of the class that it is called on."""
        if value.row is None and "Self" in value.written and self._in_file(holder.path):
            written = ",".join(holder.plain if part == "Self" else part for part in _arguments(value.written))
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
            members = self._mentions(this.path).types.get(this.id, {})
            chain = members.get(name) or members.get(f"@{name}")
            if row is not None and (count != NOT_CALLED or not chain):
                return Value(row, holder=value.row)
            if chain:
                return self._value_of(chain, this.path)
            if name + DECLARED in members:
                return Value(this, holder=value.row, result=members[name + DECLARED] or ":?")
        return nearest

    def _of_foreign(self, value: Value, step: str) -> Value | None:
        """Return what is known of a member of a type outside of the repository: what its arguments say."""
        name, _, rest = value.written.partition("<")
        if not rest:
            return OUTSIDE
        arguments = _arguments(value.written)
        if step == INDEXED or step in _ITEMS:
            is_first = last_name(name.rpartition("!")[2]) in _WRAPPERS
            inner = self._type(arguments[0 if is_first else -1], value.path)
            return inner if inner is None or step == INDEXED else inner._replace(result="")
        if step in _SAME:
            return value
        if last_name(name.rpartition("!")[2]) in _WRAPPERS and arguments[0]:
            inner = self._type(arguments[0], value.path)
            return OUTSIDE if inner is None else self._step(inner, step)
        return OUTSIDE


def _arguments(written: str) -> list[str]:
    """`A<B,C<D>>` -> `B`, `C<D>`."""
    parts, depth = [""], 0
    for char in written.partition("<")[2].removesuffix(">"):
        depth += (char == "<") - (char == ">")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return parts

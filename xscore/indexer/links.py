"""Mentions resolved to edges. Pure: definitions, files and mentions in, edges out.

An edge needs an unambiguous target: a name of the same file, an imported name (followed through
re-exports), or a name that only one entity of the repository has, if it is within `reach`; in Go, a
name of the package. What has several definitions in a file means all, or of overloads those that
take the number of arguments. A Go file imports the
files whose names it uses, and the file that has the package's name. Ambiguous or foreign names get
no edge.

Hints of a mention, as `file_facts` and `sections` write them:

    ""               a bare name                     import:REF   the file (or a name in it) is imported
    self:C           a method of the class C          import:REF#A  the same, under the name A
    super:C          a method of a base of C          doc:        prose names it
    of:X             an attribute of X, unimported    doc:C       prose names it as C.name
    typed:C          a method of the class C          path:P      prose names a file
    in:C             the same, or a bare name         at:CHAIN    a method of what a chain leads to (`receivers`)
    new:C            a class, as the class C sees it
    ?                an attribute of something        …~2     called with two arguments, where that matters
    mod:REF          a name in the module REF
    mod:REF#X        an attribute of X, imported from REF; `#default`: what REF exports
    value:REF        a value in the module REF         module:…      what a manifest calls its folder: see `manifests`
    value:REF#X      a value in REF/X, or an attribute of the value X in REF

REF is a reference (see `languages`). What classes are, and what chains lead to, is for
`class_names` and `receiver_types`. Trade-off: a method called on an object of which nothing is
known is linked only if its name is unique and within reach, and no method that any object of the
language has (`library_names`).
"""  # noqa: E501  its lines are read by others

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache

from xscore.indexer.class_members import MemberIndex, only_entity
from xscore.indexer.languages import family_of, is_test_path, language_named, names_in
from xscore.indexer.library_names import BUILTIN_NAMES
from xscore.indexer.modules import folder_of
from xscore.indexer.reach import REEXPORT_STEPS
from xscore.platform.hashing import file_id
from xscore.records.memory import BLOCK_NAME, Edge, Kind, Mention, Relation
from xscore.store.encoded_files import FileMentions
from xscore.store.link_rows import EntityRow
from xscore.store.written_rows import NAMELESS, last_name, split_count, tested_name

_CALLABLE = frozenset({Kind.FUNCTION, Kind.METHOD, Kind.CLASS})
_TOP_KINDS = frozenset({Kind.FUNCTION, Kind.CLASS})
_ATTRIBUTE_KINDS = frozenset({Kind.METHOD, Kind.FUNCTION})


class NameIndex(MemberIndex):
    """Resolves the mentions of a file to edges."""

    def __init__(
        self,
        languages: Mapping[str, str],
        mentions: Callable[[str], FileMentions],
        in_file: Callable[[str], Iterable[EntityRow]],
        named: Callable[[str], Iterable[EntityRow]],
    ) -> None:
        """languages: of all files. mentions, in_file: of a path. named: the entities with this last
        part of a name.

        Each is asked once for what the mentions lead to, so that linking one file does not read the
        others.
        """
        super().__init__(languages, mentions, in_file, named)
        self._stars = cache(self._find_stars)
        self._all_stars = cache(self._find_all_stars)
        self._defined = cache(self._find_defined)
        self._imported = cache(lambda path: _by_alias(self._mentions(path).imports))

    def edges_of(self, path: str) -> list[Edge]:
        """Return every edge of this file."""
        rows_by_name = self._in_file(path)
        by_id = {target.id: target for target in rows_by_name.values()}
        edges = [
            _belonging(target, rows_by_name)
            for target in by_id.values()
            if not target.entity.startswith(BLOCK_NAME)
        ]
        edges += self._test_of(path)
        targets: dict[tuple[str, str], list[EntityRow | str]] = {}
        for mention in self._mentions(path).of(path):
            key = mention.name, mention.hint
            if key not in targets:
                targets[key] = self._targets(*key, path)
            edges += self._edges(path, mention, targets[key])
        return list(
            {(e.source, e.relation, e.target): e for e in edges if e.source != e.target}.values()
        )

    def _test_of(self, path: str) -> list[Edge]:
        """`tests/test_app.py` -> `src/app.py`, if only one file has that name."""
        row = language_named(self._languages.get(path, ""))
        subject = tested_name(path)
        if not row.module_suffixes or not is_test_path(path, row) or not subject:
            return []
        tested = self.find_beside(subject, path)
        if not tested or is_test_path(tested, row):
            return []
        return [Edge(file_id(path), file_id(tested), Relation.TESTS)]

    def _targets(self, name: str, hint: str, path: str) -> list[EntityRow | str]:
        """Return the entity that a mention means, with its twins, or the path of the file; empty:
        it is not known."""
        kind, _, rest = hint.partition(":")
        if kind == "value":
            return [*self._values(name, rest, path)]
        if kind in ("import", "path", "module"):
            return [*filter(None, (self.file_imported(name, hint, path),))]
        hint, count = split_count(hint)
        rest = hint.partition(":")[2]
        entity = (
            self._documented(name, rest)
            if kind == "doc"
            else self._resolved(name, hint, path, count)
        )
        if entity is None and kind == "mod" and "#" not in rest:
            # What a call made and a name holds: `const Card = memo(Inner)`.
            return [*self._values(name, rest, path)]
        return [] if entity is None else [*self._twins(entity, count)]

    def _edges(
        self, path: str, mention: Mention, targets: Sequence[EntityRow | str]
    ) -> Iterator[Edge]:
        has_packages = mention.hint.startswith(("mod:", "value:")) and self._has_packages(path)
        calls_itself = any(
            isinstance(one, EntityRow) and one.id == mention.source for one in targets
        )
        if len(targets) > 1 and calls_itself and not self._row(path).has_implicit_receiver:
            # What calls itself calls none of its twins, but where several of one name live side by
            # side.
            return
        for target in targets:
            if isinstance(target, str):
                yield Edge(mention.source, file_id(target), mention.relation)
                continue
            is_test = mention.relation is Relation.TESTS and target.kind is Kind.TEST
            yield Edge(mention.source, target.id, Relation.CALLS if is_test else mention.relation)
            if has_packages:
                yield Edge(file_id(path), file_id(target.path), Relation.IMPORTS)

    def _twins(self, entity: EntityRow, count: int) -> list[EntityRow]:
        """Return every definition of an entity that a call may mean.

        A file may have one for each platform; a Go package has them in files of their own. Of
        overloads, those that take this number of arguments. -1: any number.
        """
        if not self._has_packages(entity.path):
            return self._overloads_taking(entity, count)
        return [
            t
            for t in self._named(last_name(entity.entity))
            if (folder_of(t.path), t.plain, t.kind)
            == (folder_of(entity.path), entity.plain, entity.kind)
            and self._has_packages(t.path)
        ]

    def _in_package(self, name: str, folder: str) -> EntityRow | None:
        tops = [
            t
            for t in self._named(name)
            if (t.kind in _TOP_KINDS or t.kind is Kind.TEST) and "." not in t.plain
        ]
        return only_entity(
            [t for t in tops if folder_of(t.path) == folder and self._has_packages(t.path)],
            by_folder=True,
        )

    def _documented(self, name: str, owner: str) -> EntityRow | None:
        rows = [t for t in self._named(name) if t.kind is not Kind.TEST]
        if owner:
            rows = [t for t in rows if t.plain == f"{owner}.{name}"] or [
                t
                for t in rows
                if t.path.rpartition("/")[2].partition(".")[0] == owner and "." not in t.plain
            ]
        elif name in BUILTIN_NAMES or (name.islower() and "_" not in name and len(name) < 5):
            return None
        return only_entity(rows)

    def _resolved(self, name: str, hint: str, path: str, count: int = -1) -> EntityRow | None:
        kind, _, rest = hint.partition(":")
        rows_by_name = self._in_file(path)
        match kind:
            case "":
                return rows_by_name.get(name) or self._bare(name, path)
            case "self" | "super":
                owner = rest.partition("#")[0]
                return self._method(owner, name, path, is_own=kind == "self", count=count)
            case "of" | "typed":
                return (self._of if kind == "of" else self._typed)(name, rest, path)
            case "in" | "at" | "new":
                find = (
                    self._own_or_bare
                    if kind == "in"
                    else self._reached
                    if kind == "at"
                    else self._made
                )
                return find(name, rest, path, count)
            case "mod":
                return self._in_module(name, rest, path) or self._in_crate(name, rest, path)
            case _:
                return self._attribute(name, path, dotted=True)

    def _of(self, name: str, holder: str, path: str) -> EntityRow | None:
        rows_by_name = self._in_file(path)
        class_row = rows_by_name.get(holder) or self._class(holder, path)
        held = rows_by_name.get(f"{holder}.{name}") or self._inherited(class_row, name)
        return held or self._reached(name, holder, path)

    def _made(self, name: str, owner: str, path: str, count: int) -> EntityRow | None:
        """Return the class of which an object is made in a class."""
        raise NotImplementedError

    def _reached(self, name: str, chain: str, path: str, count: int = -1) -> EntityRow | None:
        """Return a method of what a chain leads to."""
        raise NotImplementedError

    def _of_value(self, name: str, value: str, target: str, path: str) -> EntityRow | None:
        """Return a method of a value that a module has."""
        raise NotImplementedError

    def _own_or_bare(self, name: str, owner: str, path: str, count: int) -> EntityRow | None:
        """Return a method of a class, its bases or a class around it, else what the bare name
        means."""
        raise NotImplementedError

    def _typed(self, name: str, holder: str, path: str) -> EntityRow | None:
        """Return a method of a class, or with `my_crate::run()` what that crate exports."""
        if holder in self._crates and self._is_rust(path):
            return self._in_module(name, holder, path) or self._in_crate(name, holder, path)
        rows_by_name = self._in_file(path)
        class_row = rows_by_name.get(holder) or self._class(holder, path)
        held = rows_by_name.get(f"{holder}.{name}") or self._inherited(class_row, name)
        return held or (self._reached(name, holder, path) if class_row is None else None)

    def _unique(
        self,
        name: str,
        importer: str,
        kinds: frozenset[Kind] = _CALLABLE,
        *,
        within: str = "",
        dotted: bool | None = None,
    ) -> EntityRow | None:
        """Return the only entity of this name that `importer` could mean. dotted: whether it must
        have an owner."""
        family = family_of(self._languages.get(importer, ""))
        only = only_entity(
            t
            for t in self._named(name)
            if t.kind in kinds and family_of(t.language) == family and t.path.startswith(within)
        )
        return only if only is not None and dotted in (None, "." in only.plain) else None

    def _class(self, name: str, path: str) -> EntityRow | None:
        """Return the only class of this name, if the file may hold objects of it."""
        class_row = self._unique(name, path, frozenset({Kind.CLASS}))
        return class_row if class_row is not None and self._sees(path, class_row.path) else None

    def _attribute(self, name: str, path: str, *, dotted: bool | None = None) -> EntityRow | None:
        is_usual = name in BUILTIN_NAMES or name in names_in(self._row(path).library)
        row = None if is_usual else self._unique(name, path, _ATTRIBUTE_KINDS, dotted=dotted)
        return None if row is None or row.overrides or not self._sees(path, row.path) else row

    def _method(
        self, owner: str, name: str, path: str, *, is_own: bool, count: int = -1
    ) -> EntityRow | None:
        """Return a method of a class or its bases (not is_own: of its bases), else the only one
        with the name."""
        rows_by_name = self._in_file(path)
        while is_own and owner:
            method = self._inherited(self._class_here(owner, path), name, count=count)
            # What an object holds that a module exports has no name of that.
            plain = name if owner in NAMELESS else f"{owner}.{name}"
            if method or rows_by_name.get(plain):
                return method or rows_by_name[plain]
            owner = owner.rpartition(".")[0]
        method = (
            None
            if is_own
            else self._inherited(self._class_here(owner, path), name, skips_first=True, count=count)
        )
        only = method or self._attribute(name, path)
        return None if not is_own and only is rows_by_name.get(f"{owner}.{name}") else only

    def _find_stars(self, path: str) -> list[str]:
        return [
            self.resolve(_module_of(hint), path)
            for name, hint in self._mentions(path).imports
            if name == "*"
        ]

    def _bare(self, name: str, path: str) -> EntityRow | None:
        if self._has_packages(path):
            return self._in_package(name, folder_of(path))
        starred = self._in_file(self._star(name, path)).get(name) or self._static_star(name, path)
        unique = starred or self._unique(name, path, _TOP_KINDS, dotted=False)
        return unique if starred or (unique and self._sees_bare(path, unique.path)) else None

    def _static_star(self, name: str, path: str) -> EntityRow | None:
        """Return a member of a class all of whose members a file imports, as `import static
        a.Store.*` does."""
        for file in self._stars(path) if self._row(path).has_implicit_receiver else ():
            member = self._in_file(file).get(f"{file.rpartition('/')[2].partition('.')[0]}.{name}")
            if member is not None:
                return member
        return None

    def _star(self, name: str, path: str, *, has_values: bool = False) -> str:
        """Return the first file with this name of those that a file imports all of; empty if there
        is none."""
        names_of = (self._in_file, self._imported, *((self._defined,) if has_values else ()))
        return next(
            (
                file
                for file in self._all_stars(path)
                if any(name in names(file) for names in names_of)
            ),
            "",
        )

    def _find_all_stars(self, path: str) -> list[str]:
        """Return the files that a file imports all of, and those that these import all of: barrels
        of barrels."""
        reached: dict[str, None] = {}
        waiting = self._stars(path)
        for _ in range(REEXPORT_STEPS):
            waiting = [file for file in waiting if file and file not in reached]
            reached |= dict.fromkeys(waiting)
            waiting = [deeper for file in waiting for deeper in self._stars(file)]
        return list(reached)

    def _in_module(self, name: str, hint: str, path: str) -> EntityRow | None:
        target, _, held_by = hint.partition("#")
        file = self.resolve(target, path)
        if held_by and held_by != "default":
            submodule = self.resolve(f"{target}/{held_by}", path)
            if submodule:
                return self._in_file(submodule).get(f"{held_by}.{name}") or self._exported(
                    name, submodule
                )
            in_object = self._in_file(file).get(f"{held_by}.{name}") if file else None
            held = self._exported(held_by, file) if file and in_object is None else None
            return (
                in_object
                or self._inherited(held, name)
                or self._of_value(name, held_by, target, path)
            )
        if not file and self._has_packages(path):
            folder = self._package(target)
            return None if folder is None else self._in_package(name, folder)
        if not file:
            of_its_name = self.resolve(f"{target}/{name}", path)  # a class in the file of its name
            return self._exported(name, of_its_name) if of_its_name else None
        if held_by:
            return self._default_export(name, file)
        # `import static a.Store.open`.
        of_class = self._in_file(file).get(f"{target.rpartition('/')[2]}.{name}")
        return of_class or self._exported(name, file)

    def _in_crate(self, name: str, hint: str, path: str) -> EntityRow | None:
        """Return the only entity that a path in the same Rust crate may mean: re-exports and inner
        modules hide it."""
        place, _, held_by = hint.partition("#")
        if not self._is_rust(path) or not self._in_named_crate(place, path).startswith("./"):
            return None
        if held_by:
            return self._inherited(self._unique(held_by, path, frozenset({Kind.CLASS})), name)
        return self._in_file(path).get(name) or self._unique(name, path, _TOP_KINDS, dotted=False)

    def _exported(self, name: str, file: str) -> EntityRow | None:
        """Return the entity that a module exports under a name, defined or re-exported there."""
        seen: set[str] = set()
        alias, package = name, file.rpartition("/")[0]
        for _ in range(REEXPORT_STEPS):
            if name in self._in_file(file):
                return self._in_file(file)[name]
            seen.add(file)
            name, onward = self._reexporter(name, file)
            if onward == file:  # `export { Store as Shop }`
                continue
            if not onward or onward in seen:
                break
            file = onward
            if name == "default":  # `export { default as open } from './open'`
                return self._default_export(alias, file)
        return self._unique(name, file, within=package + "/" if package else "")

    def _values(self, name: str, hint: str, path: str) -> list[EntityRow]:
        """Return the blocks that define a value of a module; in Go, there may be one for each
        platform."""
        target, _, held_by = hint.partition("#")
        if held_by and (submodule := self.resolve(f"{target}/{held_by}", path)):
            return self._value(name, submodule)
        if file := self.resolve(target, path):
            return self._value(held_by or name, file)
        folder = self._package(target) if self._has_packages(path) else None
        return [
            block
            for file_path in self._package_files.get(folder, ())
            for block in self._value(name, file_path)
        ]

    def _value(self, name: str, file: str) -> list[EntityRow]:
        """Return the block that defines what a module exports under a name, if that is a value; at
        most one."""
        for _ in range(REEXPORT_STEPS):
            if name in self._in_file(file) or not file:
                break  # a function or a class
            if name in self._defined(file):
                return [self._defined(file)[name]]
            name, file = self._reexporter(name, file, has_values=True)
        return []

    def _find_defined(self, path: str) -> dict[str, EntityRow]:
        """Return the first block of a file that defines each value."""
        blocks = {block.id: block for block in self._in_file(path).values()}
        defines = self._mentions(path).defines
        return {name: blocks[id_] for id_ in reversed([*blocks]) for name in defines.get(id_, ())}

    def _reexporter(self, name: str, file: str, *, has_values: bool = False) -> tuple[str, str]:
        """Return under which name another file has what this one exports as `name`, and that file;
        or an empty path."""
        imported = self._imported(file).get(name)
        if imported:
            return imported[0], self.resolve(imported[1], file)
        return name, self._star(name, file, has_values=has_values)

    def _default_export(self, alias: str, file: str) -> EntityRow | None:
        """Return what `import alias from file` means: `default`, the same name, or the only
        top-level entity."""
        rows_by_name = self._in_file(file)
        stated, module = self._imported(file).get("default", ("", ""))
        if stated in rows_by_name and self.resolve(module, file) == file:
            return rows_by_name[stated]
        for name in ("default", alias, "module.exports"):
            if name in rows_by_name:
                return rows_by_name[name]
        tops = {
            t.id: t
            for t in rows_by_name.values()
            if "." not in t.plain and not t.entity.startswith(BLOCK_NAME)
        }
        return next(iter(tops.values())) if len(tops) == 1 else None


def _by_alias(imports: Sequence[tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """Return the name and the module of the first import under each name."""
    return {
        hint.partition("#")[2] or name: (name, _module_of(hint)) for name, hint in reversed(imports)
    }


def _belonging(target: EntityRow, rows_by_name: Mapping[str, EntityRow]) -> Edge:
    outer = target.entity.rpartition(" > ")[0] or target.entity.rpartition(".")[0]
    holder = rows_by_name.get(outer) or rows_by_name.get(BLOCK_NAME + outer) if outer else None
    return Edge(target.id, holder.id if holder else file_id(target.path), Relation.BELONGS_TO)


def _module_of(hint: str) -> str:
    return hint.removeprefix("import:").partition("#")[0]

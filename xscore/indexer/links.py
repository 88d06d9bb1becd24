"""Mentions resolved to edges. Pure: definitions, files and mentions in, edges out.

An edge needs an unambiguous target: a name of the same file, an imported name (followed through
re-exports), or a name that only one entity of the repository has, if it is within `reach`; in Go, a
name of the package. What has several definitions in a file means all, or of overloads those that
take the number of arguments. A Go file imports the files whose names it uses, and the file that has
the package's name. Ambiguous or foreign names get no edge.

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
"""  # noqa: E501  a table in two columns

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache

from xscore.indexer.class_members import MemberIndex, only_entity
from xscore.indexer.languages import family_of, is_test_path, language_named, names_in
from xscore.indexer.library_names import BUILTIN_NAMES
from xscore.indexer.reach import REEXPORT_STEPS
from xscore.platform.hashing import file_id
from xscore.platform.paths import folder_of
from xscore.records.indexing import Mention
from xscore.records.memory import BLOCK_NAME, WITHIN, Edge, Kind, Relation, tested_name
from xscore.store.encoded_files import FileMentions
from xscore.store.link_rows import EntityRow
from xscore.store.written_rows import NAMELESS, last_name, split_count

_CALLABLE = frozenset({Kind.FUNCTION, Kind.METHOD, Kind.CLASS})
_TOP_KINDS = frozenset({Kind.FUNCTION, Kind.CLASS})
_PACKAGE_KINDS = _TOP_KINDS | {Kind.TEST}
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
        """languages: of all files.
        mentions: of a path.
        in_file: of a path.
        named: the entities with this last part of a name.

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
        edges: dict[tuple[str, Relation, str], Edge] = {}

        def add(edge: Edge) -> None:
            if edge.source != edge.target:
                edges[edge.source, edge.relation, edge.target] = edge

        for target in {target.id: target for target in rows_by_name.values()}.values():
            if not target.entity.startswith(BLOCK_NAME):
                add(_belonging(target, rows_by_name))
        for edge in self._test_of(path):
            add(edge)
        targets: dict[tuple[str, str], list[EntityRow | str]] = {}
        for mention in self._mentions(path).of(path):
            key = mention.name, mention.hint
            if key not in targets:
                targets[key] = self._targets(*key, path)
            for edge in self._edges(path, mention, targets[key]):
                add(edge)
        return list(edges.values())

    def _test_of(self, path: str) -> list[Edge]:
        """`tests/test_app.py` -> `src/app.py`, if only one file has that name."""
        row = language_named(self._languages.get(path, ""))
        subject = tested_name(path)
        if not row.module_suffixes or not is_test_path(path, row) or not subject:
            return []
        tested = self.find_nearby(subject, path)
        if not tested or is_test_path(tested, row):
            return []
        return [Edge(file_id(path), file_id(tested), Relation.TESTS)]

    def _targets(self, name: str, hint: str, path: str) -> list[EntityRow | str]:
        """Return the entity that a mention means, with its twins, or the path of the file;
        empty if it is not known."""
        kind, _, rest = hint.partition(":")
        if kind == "value":
            return [*self._values(name, rest, path)]
        if kind in ("import", "path", "module"):
            file = self.file_imported(name, hint, path)
            return [file] if file else []
        hint, count = split_count(hint)
        rest = hint.partition(":")[2]
        if kind == "doc":
            entity = self._documented(name, rest)
        else:
            entity = self._resolved(name, hint, path, count)
        if entity is None and kind == "mod" and "#" not in rest:
            # What a call made and a name holds: `const Card = memo(Inner)`.
            return [*self._values(name, rest, path)]
        if entity is None:
            return []
        return [*self._twins(entity, count)]

    def _edges(
        self, path: str, mention: Mention, targets: Sequence[EntityRow | str]
    ) -> Iterator[Edge]:
        has_packages = mention.hint.startswith(("mod:", "value:")) and self._has_packages(path)
        if len(targets) > 1 and not self._row(path).has_implicit_receiver:
            ids = [target.id for target in targets if isinstance(target, EntityRow)]
            # What calls itself calls none of its twins, but where several of one name live side by
            # side.
            if mention.source in ids:
                return
        for target in targets:
            if isinstance(target, str):
                yield Edge(mention.source, file_id(target), mention.relation)
                continue
            is_test = mention.relation is Relation.TESTS and target.kind is Kind.TEST
            yield Edge(
                mention.source, target.id, Relation.CALLS if is_test else mention.relation
            )
            if has_packages:
                yield Edge(file_id(path), file_id(target.path), Relation.IMPORTS)

    def _twins(self, entity: EntityRow, count: int) -> list[EntityRow]:
        """Return every definition of an entity that a call may mean.

        A file may have one for each platform; a Go package has them in files of their own. Of
        overloads, those that take this number of arguments. -1: any number.
        """
        if not self._has_packages(entity.path):
            return self._overloads_taking(entity, count)
        folder = folder_of(entity.path)
        twins: list[EntityRow] = []
        for row in self._named(last_name(entity.entity)):
            is_same = row.plain == entity.plain and row.kind is entity.kind
            if is_same and folder_of(row.path) == folder and self._has_packages(row.path):
                twins.append(row)
        return twins

    def _in_package(self, name: str, folder: str) -> EntityRow | None:
        tops: list[EntityRow] = []
        for row in self._named(name):
            if row.kind not in _PACKAGE_KINDS or "." in row.plain:
                continue
            if folder_of(row.path) == folder and self._has_packages(row.path):
                tops.append(row)
        return only_entity(tops, by_folder=True)

    def _documented(self, name: str, owner: str) -> EntityRow | None:
        rows = [row for row in self._named(name) if row.kind is not Kind.TEST]
        if owner:
            of_class = [row for row in rows if row.plain == f"{owner}.{name}"]
            return only_entity(of_class or [row for row in rows if _is_top_of(row, owner)])
        # A short word in quotes is a word, not the function of that name.
        is_word = name.islower() and "_" not in name and len(name) < 5
        if is_word or name in BUILTIN_NAMES:
            return None
        return only_entity(rows)

    def _resolved(self, name: str, hint: str, path: str, count: int = -1) -> EntityRow | None:
        kind, _, rest = hint.partition(":")
        match kind:
            case "":
                row = self._in_file(path).get(name) or self._bare(name, path)
            case "self" | "super":
                owner = rest.partition("#")[0]
                row = self._method(owner, name, path, is_own=kind == "self", count=count)
            case "of":
                row = self._of(name, rest, path)
            case "typed":
                row = self._typed(name, rest, path)
            case "in":
                row = self._own_or_bare(name, rest, path, count)
            case "at":
                row = self._reached(name, rest, path, count)
            case "new":
                row = self._made(name, rest, path, count)
            case "mod":
                row = self._in_module(name, rest, path) or self._in_crate(name, rest, path)
            case _:
                row = self._attribute(name, path, dotted=True)
        return row

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
        """Return a method of a class, its bases or a class around it, otherwise what the bare
        name means."""
        raise NotImplementedError

    def _typed(self, name: str, holder: str, path: str) -> EntityRow | None:
        """Return a method of a class, or with `my_crate::run()` what that crate exports."""
        if holder in self._crates and self._is_rust(path):
            return self._in_module(name, holder, path) or self._in_crate(name, holder, path)
        rows_by_name = self._in_file(path)
        class_row = rows_by_name.get(holder) or self._class(holder, path)
        method = rows_by_name.get(f"{holder}.{name}") or self._inherited(class_row, name)
        if method is None and class_row is None:
            return self._reached(name, holder, path)
        return method

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
        rows = [row for row in self._named(name) if row.kind in kinds]
        only = only_entity(
            row
            for row in rows
            if family_of(row.language) == family and row.path.startswith(within)
        )
        if only is None or dotted not in (None, "." in only.plain):
            return None
        return only

    def _class(self, name: str, path: str) -> EntityRow | None:
        """Return the only class of this name, if the file may hold objects of it."""
        class_row = self._unique(name, path, frozenset({Kind.CLASS}))
        if class_row is not None and self._sees(path, class_row.path):
            return class_row
        return None

    def _attribute(
        self, name: str, path: str, *, dotted: bool | None = None
    ) -> EntityRow | None:
        """Return the only method or function of a name that is within reach and overrides no
        other."""
        if name in BUILTIN_NAMES or name in names_in(self._row(path).library):
            return None
        row = self._unique(name, path, _ATTRIBUTE_KINDS, dotted=dotted)
        if row is None or row.overrides or not self._sees(path, row.path):
            return None
        return row

    def _method(
        self, owner: str, name: str, path: str, *, is_own: bool, count: int = -1
    ) -> EntityRow | None:
        """Return a method of a class or its bases (not is_own: of its bases), otherwise the
        only one with the name."""
        rows_by_name = self._in_file(path)
        if not is_own:
            class_row = self._class_here(owner, path)
            base_method = self._inherited(class_row, name, skips_first=True, count=count)
            only = base_method or self._attribute(name, path)
            # `super().run()` is never the method that says it.
            if only is rows_by_name.get(f"{owner}.{name}"):
                return None
            return only
        while owner:
            method = self._inherited(self._class_here(owner, path), name, count=count)
            # What an object holds that a module exports has no name of that.
            plain = name if owner in NAMELESS else f"{owner}.{name}"
            if method or rows_by_name.get(plain):
                return method or rows_by_name[plain]
            owner = owner.rpartition(".")[0]
        return self._attribute(name, path)

    def _find_stars(self, path: str) -> list[str]:
        files: list[str] = []
        for name, hint in self._mentions(path).imports:
            if name == "*":
                files.append(self.resolve(_module_of(hint), path))
        return files

    def _bare(self, name: str, path: str) -> EntityRow | None:
        if self._has_packages(path):
            return self._in_package(name, folder_of(path))
        starred = self._in_file(self._star(name, path)).get(name) or self._static_star(
            name, path
        )
        if starred is not None:
            return starred
        unique = self._unique(name, path, _TOP_KINDS, dotted=False)
        if unique is None or not self._sees_bare(path, unique.path):
            return None
        return unique

    def _static_star(self, name: str, path: str) -> EntityRow | None:
        """Return a member of a class all of whose members a file imports, as `import static
        a.Store.*` does."""
        if not self._row(path).has_implicit_receiver:
            return None
        for file in self._stars(path):
            class_name = file.rpartition("/")[2].partition(".")[0]
            member = self._in_file(file).get(f"{class_name}.{name}")
            if member is not None:
                return member
        return None

    def _star(self, name: str, path: str, *, has_values: bool = False) -> str:
        """Return the first file with this name of those that a file imports all of; empty if there
        is none."""
        for file in self._all_stars(path):
            if name in self._in_file(file) or name in self._imported(file):
                return file
            if has_values and name in self._defined(file):
                return file
        return ""

    def _find_all_stars(self, path: str) -> list[str]:
        """Return the files that a file imports all of, and those that these import all of: barrels
        of barrels."""
        reached: dict[str, None] = {}
        waiting = self._stars(path)
        for _ in range(REEXPORT_STEPS):
            new = [file for file in waiting if file and file not in reached]
            reached |= dict.fromkeys(new)
            waiting = []
            for file in new:
                waiting += self._stars(file)
        return list(reached)

    def _in_module(self, name: str, hint: str, path: str) -> EntityRow | None:
        target, _, held_by = hint.partition("#")
        file = self.resolve(target, path)
        if held_by and held_by != "default":
            return self._held_in_module(name, held_by, target, path, file=file)
        if not file and self._has_packages(path):
            folder = self._package(target)
            if folder is None:
                return None
            return self._in_package(name, folder)
        if not file:
            # A class in the file of its name.
            of_its_name = self.resolve(f"{target}/{name}", path)
            return self._exported(name, of_its_name) if of_its_name else None
        if held_by:
            return self._default_export(name, file)
        # `import static a.Store.open`.
        of_class = self._in_file(file).get(f"{target.rpartition('/')[2]}.{name}")
        return of_class or self._exported(name, file)

    def _held_in_module(
        self, name: str, held_by: str, target: str, path: str, *, file: str
    ) -> EntityRow | None:
        """Return what is called on a name that a module exports: of a submodule, an object, a class
        or a value."""
        submodule = self.resolve(f"{target}/{held_by}", path)
        if submodule:
            in_object = self._in_file(submodule).get(f"{held_by}.{name}")
            return in_object or self._exported(name, submodule)
        if file:
            in_object = self._in_file(file).get(f"{held_by}.{name}")
            method = in_object or self._inherited(self._exported(held_by, file), name)
            if method is not None:
                return method
        return self._of_value(name, held_by, target, path)

    def _in_crate(self, name: str, hint: str, path: str) -> EntityRow | None:
        """Return the only entity that a path in the same Rust crate may mean: re-exports and inner
        modules hide it."""
        place, _, held_by = hint.partition("#")
        if not self._is_rust(path) or not self._in_named_crate(place, path).startswith("./"):
            return None
        if held_by:
            return self._inherited(self._unique(held_by, path, frozenset({Kind.CLASS})), name)
        return self._in_file(path).get(name) or self._unique(
            name, path, _TOP_KINDS, dotted=False
        )

    def _exported(self, name: str, file: str) -> EntityRow | None:
        """Return the entity that a module exports under a name, defined or re-exported there."""
        seen: set[str] = set()
        alias = name
        package = folder_of(file)
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
        blocks: list[EntityRow] = []
        for file_path in self._package_files.get(folder, ()):
            blocks += self._value(name, file_path)
        return blocks

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
        block_of: dict[str, EntityRow] = {}
        for id_, block in blocks.items():
            for name in defines.get(id_, ()):
                block_of.setdefault(name, block)
        return block_of

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
        tops: dict[str, EntityRow] = {}
        for row in rows_by_name.values():
            if "." not in row.plain and not row.entity.startswith(BLOCK_NAME):
                tops[row.id] = row
        if len(tops) != 1:
            return None
        return next(iter(tops.values()))


def _is_top_of(row: EntityRow, stem: str) -> bool:
    """Whether it is at the top level of a file of this name."""
    return row.path.rpartition("/")[2].partition(".")[0] == stem and "." not in row.plain


def _by_alias(imports: Sequence[tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """Return the name and the module of the first import under each name."""
    by_alias: dict[str, tuple[str, str]] = {}
    for name, hint in imports:
        by_alias.setdefault(hint.partition("#")[2] or name, (name, _module_of(hint)))
    return by_alias


def _belonging(target: EntityRow, rows_by_name: Mapping[str, EntityRow]) -> Edge:
    holder = None
    outer = target.entity.rpartition(WITHIN)[0] or target.entity.rpartition(".")[0]
    if outer:
        holder = rows_by_name.get(outer) or rows_by_name.get(BLOCK_NAME + outer)
    holder_id = holder.id if holder else file_id(target.path)
    return Edge(target.id, holder_id, Relation.BELONGS_TO)


def _module_of(hint: str) -> str:
    return hint.removeprefix("import:").partition("#")[0]

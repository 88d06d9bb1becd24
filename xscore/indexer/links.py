"""Mentions resolved to edges. Pure: definitions, files and mentions in, edges out.

An edge needs an unambiguous target: a name of the same file, an imported name (followed through re-exports), or a name
that only one entity of the repository has. Ambiguous or foreign names get no edge.

Hints of a mention, as `entities` and `sections` write them:

    ""               a bare name                     import:REF   the file (or a name in it) is imported
    self:C           a method of the class C          import:REF#A  the same, under the name A
    super:C          a method of a base of C          doc:        prose names it
    of:X             an attribute of X, unimported    doc:C       prose names it as C.name
    typed:C          a method of the class C, as a signature states it
    ?                an attribute of something        path:P      prose names a file
    mod:REF          a name in the module REF
    mod:REF#X        an attribute of X, imported from REF; `#default`: what REF exports

REF is a reference (see `languages`). Trade-offs: types are not inferred, so a method called on an unknown object is
linked only if its name is unique; bases are searched breadth first, which differs from Python's order only in diamonds.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from xscore.indexer.entities import BUILTIN_NAMES
from xscore.indexer.languages import family_of, is_test_path, language_named
from xscore.indexer.modules import ModuleIndex
from xscore.platform.hashing import file_id
from xscore.records.memory import Edge, Kind, Mention, Relation
from xscore.store.index_rows import EntityRow

REEXPORT_STEPS = 5
"""Re-exports followed from an import to a definition."""
MAX_BASES = 30
"""Classes searched for an inherited method."""
_CALLABLE = frozenset({Kind.FUNCTION, Kind.METHOD, Kind.CLASS})
_TOP_KINDS = frozenset({Kind.FUNCTION, Kind.CLASS})
_ATTRIBUTE_KINDS = frozenset({Kind.METHOD, Kind.FUNCTION})


class NameIndex:
    """Resolves the mentions of a file to edges."""

    def __init__(
        self,
        targets: Iterable[EntityRow],
        languages: Mapping[str, str],
        imports: Mapping[str, Sequence[Mention]],
        bases: Mapping[str, Sequence[Mention]],
    ) -> None:
        """imports: by file. bases: the names of base classes, by the id of the class."""
        self._modules, self._languages, self._imports, self._bases = ModuleIndex(languages), languages, imports, bases
        self._in_file: dict[str, dict[str, EntityRow]] = defaultdict(dict)
        """path -> entity -> its last definition there."""
        self._named: dict[str, list[EntityRow]] = defaultdict(list)
        """Last part of the name -> definitions anywhere."""
        for target in targets:
            self._in_file[target.path] |= {target.plain: target, target.entity: target}
            if not target.entity.startswith("module:"):
                self._named[target.plain.rpartition(" > ")[2].rpartition(".")[2]].append(target)

    def edges_of(self, path: str, mentions: Iterable[Mention]) -> list[Edge]:
        """Return every edge of this file."""
        own = self._in_file.get(path, {})
        by_id = {target.id: target for target in own.values()}
        edges = [_belonging(target, own) for target in by_id.values() if not target.entity.startswith("module:")]
        edges += self._test_of(path)
        for mention in mentions:
            edges += self._edges(path, mention, by_id.get(mention.source))
        return list({(e.source, e.relation, e.target): e for e in edges if e.source != e.target}.values())

    def _file(self, target: str, importer: str) -> str:
        return self._modules.resolve(target, importer=importer, language=self._languages.get(importer, ""))

    def _test_of(self, path: str) -> list[Edge]:
        """`tests/test_app.py` -> `src/app.py`, if only one file has that name."""
        row = language_named(self._languages.get(path, ""))
        stem = path.rpartition("/")[2].partition(".")[0]
        subject = stem.removeprefix("test_").removesuffix("_test").removesuffix("-test")
        if not row.module_suffixes or not is_test_path(path, row) or not subject:
            return []
        found = self._file(subject, path)
        if not found or is_test_path(found, row):
            return []
        return [Edge(file_id(path), file_id(found), Relation.TESTS)]

    def _edges(self, path: str, mention: Mention, source: EntityRow | None) -> list[Edge]:
        kind, _, rest = mention.hint.partition(":")
        if kind == "import":
            module = rest.partition("#")[0]
            target = self._file(f"{module}/{mention.name}", path) or self._file(module, path)
            return [Edge(mention.source, file_id(target), Relation.IMPORTS)] if target else []
        if kind == "path":
            target = self._named_file(rest, path)
            return [Edge(mention.source, file_id(target), mention.relation)] if target else []
        entity = self._documented(mention.name, rest) if kind == "doc" else self._resolved(mention, path)
        if entity is None:
            return []
        relation = mention.relation
        if relation is Relation.TESTS and entity.kind is Kind.TEST:
            relation = Relation.CALLS
        if relation is Relation.CALLS and source is not None and source.id == entity.id:
            return []
        return [Edge(mention.source, entity.id, relation)]

    def _named_file(self, place: str, path: str) -> str:
        beside = path.rpartition("/")[0]
        for candidate in (place, f"{beside}/{place}" if beside else place):
            if candidate in self._languages:
                return candidate
        ending = [p for p in self._languages if p.endswith("/" + place)] if "/" in place else []
        return ending[0] if len(ending) == 1 else ""

    def _documented(self, name: str, owner: str) -> EntityRow | None:
        found = [t for t in self._named.get(name, ()) if t.kind is not Kind.TEST]
        if owner:
            found = [t for t in found if t.plain == f"{owner}.{name}"] or [
                t for t in found if t.path.rpartition("/")[2].partition(".")[0] == owner and "." not in t.plain
            ]
        elif name in BUILTIN_NAMES or (name.islower() and "_" not in name and len(name) < 5):
            return None
        return _only(found)

    def _resolved(self, mention: Mention, path: str) -> EntityRow | None:
        kind, _, rest = mention.hint.partition(":")
        own, name = self._in_file.get(path, {}), mention.name
        match kind:
            case "":
                return own.get(name) or self._starred(name, path) or self._unique(name, path, _TOP_KINDS, dotted=False)
            case "self" | "super":
                return self._method(rest.partition("#")[0], name, path, is_own=kind == "self")
            case "of":
                holder = self._unique(rest, path, frozenset({Kind.CLASS}))
                held = own.get(f"{rest}.{name}") or self._inherited(own.get(rest) or holder, name)
                return held or self._attribute(name, path, dotted=True)
            case "typed":
                return self._inherited(own.get(rest) or self._unique(rest, path, frozenset({Kind.CLASS})), name)
            case "mod":
                return self._in_module(name, rest, path)
            case _:
                return self._attribute(name, path, dotted=True)

    def _unique(
        self,
        name: str,
        importer: str,
        kinds: frozenset[Kind] = _CALLABLE,
        *,
        within: str = "",
        dotted: bool | None = None,
    ) -> EntityRow | None:
        """Return the only entity of this name that `importer` could mean. dotted: whether it must have an owner."""
        family = family_of(self._languages.get(importer, ""))
        found = _only(
            [
                t
                for t in self._named.get(name, ())
                if t.kind in kinds and family_of(t.language) == family and t.path.startswith(within)
            ]
        )
        return found if found is not None and dotted in (None, "." in found.plain) else None

    def _attribute(self, name: str, path: str, *, dotted: bool | None = None) -> EntityRow | None:
        found = None if name in BUILTIN_NAMES else self._unique(name, path, _ATTRIBUTE_KINDS, dotted=dotted)
        return None if found is None or found.overrides else found

    def _member(self, holder: EntityRow | None, name: str) -> EntityRow | None:
        return self._in_file[holder.path].get(f"{holder.plain}.{name}") if holder else None

    def _method(self, owner: str, name: str, path: str, *, is_own: bool) -> EntityRow | None:
        """Return a method of a class or its bases (not is_own: of its bases), else the only one of that name."""
        own = self._in_file.get(path, {})
        while is_own and owner:
            found = self._inherited(own.get(owner), name)
            if found or own.get(f"{owner}.{name}"):
                return found or own[f"{owner}.{name}"]
            owner = owner.rpartition(".")[0]
        found = None if is_own else self._inherited(own.get(owner), name, skips_first=True)
        only = found or self._attribute(name, path)
        return None if not is_own and only is own.get(f"{owner}.{name}") else only

    def _inherited(self, holder: EntityRow | None, name: str, *, skips_first: bool = False) -> EntityRow | None:
        """Return the nearest definition of a method in a class and its bases."""
        waiting, seen = [holder] if holder else [], set[str]()
        while waiting and len(seen) < MAX_BASES:
            this = waiting.pop(0)
            if this.id in seen:
                continue
            found = None if skips_first and not seen else self._member(this, name)
            if found is not None:
                return found
            seen.add(this.id)
            bases = (self._resolved(base, this.path) for base in self._bases.get(this.id, ()))
            waiting += [base for base in bases if base is not None and base.kind is not Kind.METHOD]
        return None

    def _starred(self, name: str, path: str) -> EntityRow | None:
        for imported in self._imports.get(path, ()):
            if imported.name == "*":
                found = self._in_file.get(self._file(_module_of(imported), path), {}).get(name)
                if found:
                    return found
        return None

    def _in_module(self, name: str, hint: str, path: str) -> EntityRow | None:
        target, _, held_by = hint.partition("#")
        file = self._file(target, path)
        if held_by and held_by != "default":
            submodule = self._file(f"{target}/{held_by}", path)
            if submodule:
                return self._in_file[submodule].get(f"{held_by}.{name}") or self._exported(name, submodule)
            return self._inherited(self._exported(held_by, file) if file else None, name)
        if not file and language_named(self._languages.get(path, "")).has_folder_modules:
            folder = self._modules.folder(target)
            return self._unique(name, path, _TOP_KINDS, within=folder) if folder else None
        if not file:
            own = self._file(f"{target}/{name}", path)  # a class in the file of its name
            return self._exported(name, own) if own else None
        return self._default_export(name, file) if held_by else self._exported(name, file)

    def _exported(self, name: str, file: str) -> EntityRow | None:
        """Return the entity that a module exports under a name, defined or re-exported there."""
        seen: set[str] = set()
        package = file.rpartition("/")[0]
        for _ in range(REEXPORT_STEPS):
            if name in self._in_file.get(file, {}):
                return self._in_file[file][name]
            seen.add(file)
            name, onward = self._reexporter(name, file)
            if not onward or onward in seen:
                break
            file = onward
        return self._unique(name, file, within=package + "/" if package else "")

    def _reexporter(self, name: str, file: str) -> tuple[str, str]:
        """Return under which name another file has what this one exports as `name`, and that file; or an empty path."""
        starred = ""
        for imported in self._imports.get(file, ()):
            alias = imported.hint.partition("#")[2]
            if name == (alias or imported.name):
                return imported.name, self._file(_module_of(imported), file)
            if imported.name == "*" and not starred:
                found = self._file(_module_of(imported), file)
                starred = found if name in self._in_file.get(found, {}) else ""
        return name, starred

    def _default_export(self, alias: str, file: str) -> EntityRow | None:
        """Return what `import alias from file` means: `default`, the same name, or the only top-level entity."""
        own = self._in_file.get(file, {})
        for name in ("default", alias, "module.exports"):
            if name in own:
                return own[name]
        tops = {t.id: t for t in own.values() if "." not in t.plain and not t.entity.startswith("module:")}
        return next(iter(tops.values())) if len(tops) == 1 else None


def _belonging(target: EntityRow, own: Mapping[str, EntityRow]) -> Edge:
    outer = target.entity.rpartition(" > ")[0] or target.entity.rpartition(".")[0]
    holder = own.get(outer) or own.get(f"module:{outer}") if outer else None
    return Edge(target.id, holder.id if holder else file_id(target.path), Relation.BELONGS_TO)


def _module_of(imported: Mention) -> str:
    return imported.hint.removeprefix("import:").partition("#")[0]


def _only(found: Sequence[EntityRow]) -> EntityRow | None:
    """Return the last definition if all define one entity, else None."""
    return found[-1] if len({(t.path, t.plain) for t in found}) == 1 else None

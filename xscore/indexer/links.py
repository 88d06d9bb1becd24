"""Mentions resolved to edges. Pure: definitions, files and mentions in, edges out.

An edge is drawn only to a target that the code itself singles out: a name of the same file, an imported name (followed
through re-exports), or a name that one entity of the repository alone bears. What is ambiguous or foreign has no edge.

Hints of a mention, as `facts` and `prose` write them:

    ""               a bare name                     import:REF   the file (or a name in it) is imported
    self:C           a method of the class C          doc:        prose names it
    of:X             an attribute of X, unimported    doc:C       prose names it as C.name
    ?                an attribute of something        path:P      prose names a file
    mod:REF          a name in the module REF
    mod:REF#X        an attribute of X, imported from REF; `#default`: what REF exports

REF is a reference of `modules`. Trade-off: types are not inferred, so a method called on an unknown object is linked
only when its name is the only one of its kind.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field

from xscore.indexer.entities import BUILTIN_NAMES
from xscore.indexer.languages import ModuleIndex, family_of, is_test_path, language_named
from xscore.platform.hashing import file_id
from xscore.records import Edge, Kind, Mention, Relation
from xscore.store.index_rows import EntityRow

REEXPORT_STEPS = 5
"""How many re-exports are followed from an import to a definition."""
_CALLABLE = frozenset({Kind.FUNCTION, Kind.METHOD, Kind.CLASS, Kind.TEST})
_TOP_KINDS = frozenset({Kind.FUNCTION, Kind.CLASS})
_ATTRIBUTE_KINDS = frozenset({Kind.METHOD, Kind.FUNCTION})


class NameIndex(Struct):
    """All that names are resolved against."""

    modules: ModuleIndex
    languages: Mapping[str, str]
    imports: Mapping[str, Sequence[Mention]]
    in_file: dict[str, dict[str, EntityRow]] = field(default_factory=dict)
    """path -> entity -> its last definition there."""
    named: dict[str, list[EntityRow]] = field(default_factory=dict)
    """Last part of the name -> definitions anywhere."""

    def resolve(self, target: str, importer: str) -> str:
        """Return the file that a reference in `importer` means, or nothing."""
        return self.modules.resolve(target, importer=importer, language=self.languages.get(importer, ""))

    def member(self, holder: EntityRow | None, name: str) -> EntityRow | None:
        """Return the member of this name of a class or object."""
        return self.in_file[holder.path].get(f"{holder.plain}.{name}") if holder else None

    def unique(
        self, name: str, importer: str, *, kinds: frozenset[Kind] = _CALLABLE, within: str = ""
    ) -> EntityRow | None:
        """The one entity of this name that code in `importer` could mean; None where there is none or several."""
        family = family_of(self.languages.get(importer, ""))
        found = [
            t
            for t in self.named.get(name, ())
            if t.kind in kinds and family_of(t.language) == family and t.path.startswith(within)
        ]
        plain = [t for t in found if t.kind is not Kind.TEST]
        places = {(t.path, t.plain) for t in plain}
        return plain[-1] if len(places) == 1 else None


def build_name_index(
    targets: Iterable[EntityRow], languages: Mapping[str, str], imports: Mapping[str, Sequence[Mention]]
) -> NameIndex:
    """Lay out definitions for lookup by file and by name."""
    known = NameIndex(ModuleIndex(languages), languages, imports)
    for target in targets:
        known.in_file.setdefault(target.path, {})[target.plain] = target
        known.in_file[target.path][target.entity] = target
        if not target.entity.startswith("module:"):
            known.named.setdefault(_last(target.plain), []).append(target)
    return known


def resolve_edges(path: str, mentions: Iterable[Mention], known: NameIndex) -> list[Edge]:
    """Every edge that this file states."""
    own = known.in_file.get(path, {})
    edges = _belonging(path, own)
    edges += _test_of(path, known)
    by_id = {target.id: target for target in own.values()}
    for mention in mentions:
        edges += _edges(path, mention, by_id.get(mention.source), known)
    return list({(e.source, e.relation, e.target): e for e in edges if e.source != e.target}.values())


def _last(entity: str) -> str:
    return entity.rpartition(" > ")[2].rpartition(".")[2]


def _belonging(path: str, own: Mapping[str, EntityRow]) -> list[Edge]:
    edges = []
    for target in {t.id: t for t in own.values()}.values():
        if target.entity.startswith("module:"):
            continue
        outer = target.entity.rpartition(" > ")[0] or target.entity.rpartition(".")[0]
        holder = own.get(outer) or own.get(f"module:{outer}") if outer else None
        edges.append(Edge(target.id, holder.id if holder else file_id(path), Relation.BELONGS_TO))
    return edges


def _test_of(path: str, known: NameIndex) -> list[Edge]:
    """`tests/test_app.py` -> `src/app.py`, where only one file bears that name."""
    row = language_named(known.languages.get(path, ""))
    stem = path.rpartition("/")[2].partition(".")[0]
    subject = stem.removeprefix("test_").removesuffix("_test").removesuffix("-test")
    if not row.module_suffixes or not is_test_path(path, row) or not subject:
        return []
    found = known.resolve(subject, path)
    if not found or found == path or is_test_path(found, row):
        return []
    return [Edge(file_id(path), file_id(found), Relation.TESTS)]


def _edges(path: str, mention: Mention, source: EntityRow | None, known: NameIndex) -> list[Edge]:
    kind, _, rest = mention.hint.partition(":")
    if kind == "import":
        target = _imported_file(mention.name, rest, path, known)
        return [Edge(mention.source, file_id(target), Relation.IMPORTS)] if target else []
    if kind == "path":
        target = _named_file(rest, path, known)
        return [Edge(mention.source, file_id(target), Relation.REFERENCES)] if target else []
    entity = _documented(mention.name, rest, known) if kind == "doc" else _resolved(mention, path, known)
    if entity is None:
        return []
    relation = mention.relation
    if relation is Relation.TESTS and entity.kind is Kind.TEST:
        relation = Relation.CALLS
    if relation is Relation.CALLS and source is not None and source.id == entity.id:
        return []
    return [Edge(mention.source, entity.id, relation)]


def _imported_file(name: str, target: str, path: str, known: NameIndex) -> str:
    return known.resolve(f"{target}/{name}", path) or known.resolve(target, path)


def _named_file(place: str, path: str, known: NameIndex) -> str:
    beside = path.rpartition("/")[0]
    for candidate in (place, f"{beside}/{place}" if beside else place):
        if candidate in known.languages:
            return candidate
    ending = [p for p in known.languages if p.endswith("/" + place)] if "/" in place else []
    return ending[0] if len(ending) == 1 else ""


def _documented(name: str, owner: str, known: NameIndex) -> EntityRow | None:
    found = [t for t in known.named.get(name, ()) if t.kind is not Kind.TEST]
    if owner:
        owned = [t for t in found if t.plain == f"{owner}.{name}"]
        found = owned or [
            t for t in found if t.path.rpartition("/")[2].partition(".")[0] == owner and "." not in t.plain
        ]
    elif name in BUILTIN_NAMES or (name.islower() and "_" not in name and len(name) < 5):
        return None
    return found[-1] if len({(t.path, t.plain) for t in found}) == 1 else None


def _resolved(mention: Mention, path: str, known: NameIndex) -> EntityRow | None:
    kind, _, rest = mention.hint.partition(":")
    own, name = known.in_file.get(path, {}), mention.name
    match kind:
        case "":
            return own.get(name) or _starred(name, path, known) or _unique_bare(name, path, known)
        case "self":
            return _method(rest.partition("#")[0], name, path, known)
        case "of":
            held = own.get(f"{rest}.{name}")
            return held or _of_class(rest, name, path, known) or _unique_attribute(name, path, known)
        case "mod":
            return _in_module(name, rest, path, known)
        case _:
            return _unique_attribute(name, path, known)


def _unique_bare(name: str, path: str, known: NameIndex) -> EntityRow | None:
    found = known.unique(name, path, kinds=_TOP_KINDS)
    return found if found is not None and "." not in found.plain else None


def _unique_attribute(name: str, path: str, known: NameIndex) -> EntityRow | None:
    found = None if name in BUILTIN_NAMES else known.unique(name, path, kinds=_ATTRIBUTE_KINDS)
    return found if found is not None and "." in found.plain else None


def _method(owner: str, name: str, path: str, known: NameIndex) -> EntityRow | None:
    """A method called on the object itself: of its class, else the only one of that name (it may be inherited)."""
    own = known.in_file.get(path, {})
    while owner:
        if f"{owner}.{name}" in own:
            return own[f"{owner}.{name}"]
        owner = owner.rpartition(".")[0]
    return None if name in BUILTIN_NAMES else known.unique(name, path, kinds=_ATTRIBUTE_KINDS)


def _of_class(head: str, name: str, path: str, known: NameIndex) -> EntityRow | None:
    return known.member(known.unique(head, path, kinds=frozenset({Kind.CLASS})), name)


def _starred(name: str, path: str, known: NameIndex) -> EntityRow | None:
    for imported in known.imports.get(path, ()):
        if imported.name == "*":
            target = imported.hint.removeprefix("import:")
            file = known.resolve(target, path)
            if file and name in known.in_file.get(file, {}):
                return known.in_file[file][name]
    return None


def _in_module(name: str, hint: str, path: str, known: NameIndex) -> EntityRow | None:
    target, _, held_by = hint.partition("#")
    file = known.resolve(target, path)
    if held_by and held_by != "default":
        submodule = known.resolve(f"{target}/{held_by}", path)
        if submodule:
            return _exported(name, submodule, known)
        return known.member(_exported(held_by, file, known) if file else None, name)
    if not file:
        return None
    return _default_export(name, file, known) if held_by else _exported(name, file, known)


def _exported(name: str, file: str, known: NameIndex) -> EntityRow | None:
    """What a module means by a name: its own entity, or the one that it imports under that name from elsewhere."""
    seen: set[str] = set()
    package = file.rpartition("/")[0]
    for _ in range(REEXPORT_STEPS):
        if name in known.in_file.get(file, {}):
            return known.in_file[file][name]
        seen.add(file)
        onward = _reexporter(name, file, known)
        if not onward or onward in seen:
            break
        file = onward
    return known.unique(name, file, within=package + "/" if package else "")


def _reexporter(name: str, file: str, known: NameIndex) -> str:
    starred = ""
    for imported in known.imports.get(file, ()):
        target = imported.hint.removeprefix("import:")
        if imported.name == name:
            return known.resolve(target, file)
        if imported.name == "*" and not starred:
            found = known.resolve(target, file)
            starred = found if name in known.in_file.get(found, {}) else ""
    return starred


def _default_export(alias: str, file: str, known: NameIndex) -> EntityRow | None:
    """What `import alias from file` means: `default`, the same name, or the only entity at the top of the file."""
    own = known.in_file.get(file, {})
    for name in ("default", alias, "module.exports"):
        if name in own:
            return own[name]
    tops = {t.id: t for t in own.values() if "." not in t.plain and not t.entity.startswith("module:")}
    return next(iter(tops.values())) if len(tops) == 1 else None

"""Turn definitions into entities with their name, lines, signature, docstring, imports and calls.

Nested functions belong to the outermost one; classes, test suites and objects qualify the names of their members; a
repeated name gets `#2`, `#3`. Pure: byte ranges in, entities out, one pass with an explicit stack.
"""

import inspect
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

from msgspec import Struct, field
from msgspec.structs import replace

from xscore.indexer.languages import Language
from xscore.indexer.modules import module_reference
from xscore.indexer.syntax import Definition, Import, LeadingComment, NameUse, SourceFile, Syntax

LEAD_ROWS = 60
"""A comment above an entity belongs to it up to this many rows; a longer one is a separate text."""
MAX_NESTING = 12
"""Deeper definitions are part of the entity around them."""
_CLOSED = frozenset({"function", "test", "type", "overload"})
"""Definitions inside these are not entities."""
_NAMELESS = frozenset({"module.exports", "exports", "default"})
_NAMESPACE_WORDS = frozenset({"namespace", "inline", "extern", "mod", "pub", "crate", "cfg", "test"})
_TITLED = frozenset({"test", "suite"})
_OWN_ROW = re.compile(r"\s*(#|//|/\*|@|;|<!--)")
"""A row that starts with a comment or decorator."""
_NOISE = re.compile(r"^(module\.exports|exports)\.|\.prototype(?=[.\[])|^[\"'`#]|[\"'`]$")


class Entity(Struct):
    """One entity of a file, or an object that qualifies entities. Rows from 0, ends inclusive."""

    definition: Definition
    name: str
    """Qualified within the file, `#n` included."""
    start: int
    """First row, with the comments that belong to it."""
    end: int
    parent: "Entity | None"
    leads: tuple[LeadingComment, ...] = ()
    members: "list[Entity]" = field(default_factory=list)

    @property
    def is_container(self) -> bool:
        """Whether it can hold members."""
        return self.definition.kind in {"class", "suite", "scope", "extension", "namespace"}

    @property
    def qualifier(self) -> str:
        """What its members are qualified by: its name, or for an extension that of its type."""
        if self.definition.kind != "extension":
            return self.name
        around = f"{self.parent.qualifier}." if self.parent is not None else ""
        return around + self.definition.owner

    @property
    def is_scope(self) -> bool:
        """Whether it is an object, kept only for its functions."""
        return self.definition.kind == "scope"


def outline(found: Syntax, lines: Sequence[str]) -> list[Entity]:
    """Return the entities of a file in source order, members after their container, without empty objects."""
    entities = _without_idle_scopes(_without_namespaces(_nested(found, lines)))
    renamed: dict[int, str] = {}
    seen: Counter[str] = Counter()
    for entity in entities:
        if entity.parent is not None and id(entity.parent) in renamed and entity.parent.definition.kind != "extension":
            entity.name = entity.parent.name + entity.name.removeprefix(renamed[id(entity.parent)])
        seen[entity.name] += 1
        if seen[entity.name] > 1:
            renamed[id(entity)] = entity.name
            entity.name = f"{entity.name}#{seen[entity.name]}"
    return entities


def _nested(found: Syntax, lines: Sequence[str]) -> list[Entity]:
    entities: list[Entity] = []
    stack: list[Entity] = []
    leads = {lead.end: lead for lead in found.leads if _OWN_ROW.match(lines[lead.start])}
    for definition in _joined_overloads(found.definitions):
        while stack and stack[-1].definition.end_byte <= definition.start_byte:
            stack.pop()
        parent = stack[-1] if stack else None
        if len(stack) >= MAX_NESTING:
            continue
        if parent is not None and parent.definition.kind in _CLOSED:
            if parent.name in _NAMELESS and definition.body_byte == parent.definition.body_byte:
                parent.name = definition.name  # `module.exports = function render …` is named render
            continue
        if definition.kind in {"type", "overload"} and (definition.end == definition.start or parent is not None):
            continue
        floor = -1  # the last row already taken
        if entities:
            floor = entities[-1].definition.inner_start if entities[-1] is parent else entities[-1].end
        own = _leads_above(definition.start, leads, lines, floor=floor)
        entity = Entity(
            definition=definition,
            name=_qualified(parent, definition),
            start=own[0].start if own else definition.start,
            end=definition.end,
            parent=parent,
            leads=tuple(own),
        )
        entities.append(entity)
        stack.append(entity)
    return entities


def _leads_above(
    start: int, leads: dict[int, LeadingComment], lines: Sequence[str], *, floor: int
) -> list[LeadingComment]:
    own: list[LeadingComment] = []
    row = start - 1
    if row - 1 in leads and not lines[row].strip() and lines[leads[row - 1].start].lstrip().startswith("/**"):
        row -= 1  # a documentation comment may be separated by one blank line
    while row in leads and leads[row].start > floor and start - leads[row].start <= LEAD_ROWS:
        own.insert(0, leads[row])
        row = leads[row].start - 1
    return own


def _joined_overloads(definitions: Sequence[Definition]) -> list[Definition]:
    """Merge overload signatures into the implementation right below them."""
    joined: list[Definition] = []
    for definition in definitions:
        last = joined[-1] if joined else definition
        is_same = last.kind == "overload" and last.name == definition.name
        if is_same and last is not definition and definition.kind in {"overload", "function"}:
            joined[-1] = replace(definition, start=last.start, start_byte=last.start_byte)
        else:
            joined.append(definition)
    return joined


def _qualified(parent: Entity | None, definition: Definition) -> str:
    name = _NOISE.sub("", _NOISE.sub("", definition.name.strip()) or definition.kind)
    if definition.kind in _TITLED:
        name = " ".join(name.split())[:120]
    if definition.owner and definition.kind != "extension":
        name = f"{definition.owner}.{name}"
    if parent is None or (parent.is_scope and parent.name in _NAMELESS):
        return name  # `module.exports = {…}` and `export default {…}` name nothing
    return parent.qualifier + (" > " if parent.definition.kind == "suite" else ".") + name


def _without_namespaces(entities: list[Entity]) -> list[Entity]:
    """Drop namespaces, which qualify names and are cut like the file itself."""
    for entity in entities:
        while entity.parent is not None and entity.parent.definition.kind == "namespace":
            entity.parent = entity.parent.parent
    return [entity for entity in entities if entity.definition.kind != "namespace"]


def _without_idle_scopes(entities: list[Entity]) -> list[Entity]:
    """Drop objects without a function of two or more lines, and attach members to the outermost object."""
    busy: set[int] = set()
    for entity in reversed(entities):
        counts = entity.definition.end > entity.definition.start and (not entity.is_scope or id(entity) in busy)
        if counts and entity.parent is not None and entity.parent.is_scope:
            busy.add(id(entity.parent))
    kept = []
    for entity in entities:
        in_scope = entity.parent is not None and entity.parent.is_scope
        while entity.parent is not None and entity.parent.is_scope and entity.parent.parent is not None:
            entity.parent = entity.parent.parent
        if entity.is_scope:
            stays = id(entity) in busy and entity.parent is None
        else:
            stays = not in_scope or entity.definition.end > entity.definition.start
        if stays:
            kept.append(entity)
            if entity.parent is not None:
                entity.parent.members.append(entity)
    return kept


MAX_NAMES = 60
"""Calls kept of one entity."""
MAX_SIGNATURE = 2_000
MAX_DECORATOR_ROWS = 3
"""Longer decorators are left out of the signature."""

BUILTIN_NAMES = frozenset(
    """
    abs all any append apply assert bind bool bytes call catch clear concat copy create defineProperty dict encode
    decode endswith enumerate entries every expect extend filter find finally float forEach format freeze frozenset
    from get getattr hasattr has id includes indexOf index insert int isArray isinstance issubclass items iter join
    keys len list log lower lstrip map match max min next open pop print property push raises range read reduce
    remove replace repr require resolve reversed rstrip round search set setattr setdefault slice some sort sorted
    splice split startswith startsWith str strip sub sum super test then toBe toEqual toString trim tuple type update
    upper values vars write zip String Number Boolean Object Array Map Set Promise Error Date Symbol RegExp JSON
    ValueError TypeError KeyError RuntimeError AttributeError Exception NotImplementedError IndexError describe it
    """.split()  # noqa: SIM905  read as a list of words
)
"""Names of built-ins and common container methods, which say nothing about this repository."""

_WORD = re.compile(r"[A-Za-z_$][\w$]*")
_PLAIN_CALL = re.compile(r"(?:super\(\)|[\w$]+)(?:\??\.#?[\w$]+)*\Z")
_LAST_NAME = re.compile(r"[\w$]+\Z")
_QUOTES = re.compile(r"\A[A-Za-z]{0,2}(\"\"\"|'''|\"|'|`)|(\"\"\"|'''|\"|'|`)\Z")
_COMMENT_MARKS = re.compile(r"^[ \t]*(?:/\*\*?|\*/|\*|//+!?|#+|;+)[ \t]?|[ \t]*\*/[ \t]*$", re.MULTILINE)


class FileFacts:
    """Facts about spans of one file's text."""

    def __init__(self, source: SourceFile, found: Syntax) -> None:
        self.source, self.found, self.lines = source, found, source.lines
        self.data = source.text.encode()
        self.row_bytes = list(accumulate((len(line.encode()) + 1 for line in self.lines), initial=0))
        """First byte of each row, and of a row after the last."""
        self._last_byte = len(self.data)
        self._signatures: dict[tuple[int, int], str] = {}
        self._call_bytes = [byte for byte, _ in found.calls]
        self.imported = _by_local_name(found.imports, source.language)
        spaces = [d.name for d in found.definitions if d.kind == "namespace"]
        self.namespace_words = {*re.findall(r"\w+", " ".join(spaces)), *_NAMESPACE_WORDS} if spaces else set[str]()
        self._library = frozenset(source.language.library.split())
        self.own_names = frozenset(d.name for d in found.definitions) if source.is_test else frozenset[str]()
        """In a file of tests: what it defines for itself."""

    def calls(self, start: int, end: int, holes: Sequence[tuple[int, int]] = ()) -> list[str]:
        """Return the names called between two bytes, as written, each once, without those in the holes."""
        low, high = bisect_left(self._call_bytes, start), bisect_left(self._call_bytes, end)
        names: dict[str, None] = {}
        begins = sorted(holes)
        ends = list(accumulate((end for _, end in begins), max, initial=-1))
        for byte, written in self.found.calls[low:high]:
            if not begins or byte >= ends[bisect_right(begins, (byte, self._last_byte))]:
                names.setdefault(_call_name(written))
        names.pop("", None)
        return list(names)[:MAX_NAMES]

    def complexity(self, start: int, end: int) -> int:
        """1 + branches between two bytes."""
        return 1 + bisect_left(self.found.branches, end) - bisect_left(self.found.branches, start)

    def bases(self, entity: Entity) -> list[str]:
        """Return the base classes."""
        d = entity.definition
        return [name for byte, name in self.found.bases if d.start_byte <= byte < max(d.body_byte, d.start_byte + 1)]

    def docstring(self, entity: Entity | None = None) -> str:
        """Return the first string of the body, or the comment above; without an entity, that of the file."""
        body, end = (entity.definition.body_byte, entity.definition.end_byte) if entity else (0, len(self.data))
        first = bisect_left(self.found.docs, (body, ""))
        for byte, written in self.found.docs[first : first + 1]:
            if byte == body or (body < end and not _has_code(self.data[body:byte])):
                return inspect.cleandoc(_QUOTES.sub("", written.strip()))
        above = "\n".join(self._decode(lead.start_byte, lead.end_byte) for lead in (entity.leads if entity else ()))
        unmarked = _COMMENT_MARKS.sub("", above).split("\n")
        return inspect.cleandoc("\n".join(line for line in unmarked if not line.startswith("@")).strip())

    def _decode(self, start: int, end: int) -> str:
        return self.data[start:end].decode("utf-8", "replace")

    def signature(self, entity: Entity) -> str:
        """Return the definition up to its body, as written, with short decorators."""
        d = entity.definition
        place = d.start_byte, d.inner_start_byte
        if place not in self._signatures:
            self._signatures[place] = self._signature(d)
        return self._signatures[place]

    def _signature(self, d: Definition) -> str:
        decorators = self.lines[d.start : d.inner_start] if d.inner_start - d.start <= MAX_DECORATOR_ROWS else []
        head = self._decode(d.inner_start_byte, self._head_end(d))
        row = self.lines[d.inner_start]
        before = row[: row.find(head.split("\n", 1)[0])] if head else ""
        if before.strip() and re.fullmatch(r"[\w\s]*", before):
            head = before.lstrip() + head
        indent = len(row) - len(row.lstrip())
        rows = [*decorators, *(" " * indent + head).split("\n")]
        text = "\n".join(line[min(indent, len(line) - len(line.lstrip())) :] for line in rows)
        return text.rstrip().rstrip("{").rstrip()[:MAX_SIGNATURE]

    def _head_end(self, definition: Definition) -> int:
        """Return where the header ends: at the body, or at comments before it."""
        end = definition.body_byte
        before = bisect_left(self.found.leads, end, key=lambda lead: lead.start_byte)
        for lead in reversed(self.found.leads[:before]):
            if lead.start_byte < definition.inner_start_byte or self.data[lead.end_byte : end].strip():
                break
            end = lead.start_byte
        return end

    def imports(self, text: str) -> tuple[str, ...]:
        """Return what the file imports and this text uses."""
        words = set(_WORD.findall(text))
        used = [imported for name, imported in self.imported.items() if name in words]
        return tuple(dict.fromkeys(_import_name(i, self.source.language.module_separator) for i in used))

    def file_uses(self) -> list[NameUse]:
        """Return one use per import statement of the file: file -> module."""
        uses: dict[NameUse, None] = {}
        for imported in self.found.imports:
            if not self.source.language.module_separator:  # `#include "pkg/x.h"`
                place = imported.module.strip("<>")
                uses.setdefault(NameUse(place.rpartition("/")[2], f"path:{place}"))
                continue
            target = self.reference(imported.module)
            if target:
                renamed = f"#{imported.alias}" if imported.name and imported.alias != imported.name else ""
                uses.setdefault(
                    NameUse(imported.name or target.rpartition("/")[2], f"import:{target}{renamed.rstrip('#')}")
                )
        return list(uses)

    def uses(
        self, calls: Iterable[str], *, owner: str = "", is_reference: bool = False, types: Mapping[str, str] = {}
    ) -> list[NameUse]:
        """Return the calls as names with hints for `links`. types: the class of each variable that has one."""
        found = (self._use(_typed(call, types), owner, is_typed=call.partition(".")[0] in types) for call in calls)
        return [NameUse(name, hint, is_reference) for name, hint in dict.fromkeys(f for f in found if f is not None)]

    def _use(self, call: str, owner: str, *, is_typed: bool = False) -> tuple[str, str] | None:
        head, *rest = call.replace("?.", ".").split(".")
        name = rest[-1] if rest else head
        if head in self.imported and not _is_own_crate(self.imported[head]):
            return self._imported(self.imported[head], head, rest)
        is_own = bool(rest) and head in self.source.language.receivers
        if is_own and owner and len(rest) == 1:
            return name, f"super:{owner}" if head.startswith("super") else f"self:{owner}"
        if rest and (is_typed or (len(rest) == 1 and head[:1].isupper())):  # `Class::create`, of the same namespace
            return name, f"typed:{head}"
        if name in BUILTIN_NAMES or len(name) < 2 or (rest and name in self._library):
            return None
        hint = "of:" + head if len(rest) == 1 and not is_own else "?"
        return name, hint if rest else ""

    def _imported(self, imported: Import, head: str, rest: Sequence[str]) -> tuple[str, str] | None:
        target = self.reference(imported.module)
        if not target:
            return None
        has_name = imported.name not in {"", "default", "*"}
        if not rest:
            return (imported.name, f"mod:{target}") if has_name else (head, f"mod:{target}#default")
        if has_name:
            return rest[-1], f"mod:{target}#{imported.name}"
        if not imported.alias and len(rest) > 1:
            return rest[-1], "mod:" + "/".join([head, *rest[:-1]])
        if not imported.alias and self.source.language.module_separator == ".":
            return rest[-1], f"mod:{head}"
        return rest[-1], f"mod:{target}"

    def reference(self, module: str) -> str:
        """Return how the store names a module that this file imports; empty: it is outside."""
        return module_reference(module, path=self.source.path, separator=self.source.language.module_separator)


def _typed(call: str, types: Mapping[str, str]) -> str:
    """`request.read` -> `Request.read`."""
    head, dot, rest = call.partition(".")
    return f"{types[head]}.{rest}" if dot and head in types and "." not in rest else call


def _is_own_crate(imported: Import) -> bool:
    """Whether Rust names something of the same crate, whose name says more than the path of its module."""
    return imported.module.partition("::")[0] in {"crate", "self", "super"}


def _by_local_name(imports: Iterable[Import], language: Language) -> dict[str, Import]:
    local: dict[str, Import] = {}
    for imported in imports:
        bound = imported.alias or imported.name
        if not bound and language.module_separator == ".":
            bound = imported.module.split(".")[0]
        if not bound and language.has_folder_modules:
            bound = imported.module.rpartition("/")[2]
        if bound and bound != "*":
            local.setdefault(bound, imported)
    return local


def _import_name(imported: Import, separator: str) -> str:
    if not imported.name or imported.name == "*":
        return imported.module
    joint = "" if imported.module.endswith(separator) else separator
    return imported.module + (joint if separator == "." else ":") + imported.name


def _call_name(written: str) -> str:
    if _PLAIN_CALL.match(written):
        return written
    last = _LAST_NAME.search(written)
    return f"?.{last[0]}" if last else ""


def _has_code(data: bytes) -> bool:
    rows = data.decode("utf-8", "replace").split("\n")
    return any(row.strip() and not row.lstrip().startswith("#") for row in rows)

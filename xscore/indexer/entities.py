"""From definitions to entities, and what is known of each: name, lines, signature, docstring, imports, calls.

Nested functions belong to their outermost; classes, suites of tests and objects name what they hold; a repeated name
gets `#2`, `#3`. Pure: byte ranges in, entities out, one pass with a stack of our own.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from xscore.indexer.languages import Language, module_reference
from xscore.indexer.syntax import Definition, Import, LeadingComment, NameUse, SourceFile, Syntax

LEAD_ROWS = 60
"""A comment above an entity is taken along up to this many rows; longer ones are a text of their own."""
MAX_NESTING = 12
"""What is nested deeper is part of what holds it."""
_CLOSED = frozenset({"function", "test", "type", "overload"})
"""Nothing inside these is an entity of its own."""
_NAMELESS = frozenset({"module.exports", "exports", "default"})
_TITLED = frozenset({"test", "suite"})
_OWN_ROW = re.compile(r"\s*(#|//|/\*|@|;|<!--)")
"""A row that a comment or decorator opens."""
_NOISE = re.compile(r"^(module\.exports|exports)\.|\.prototype(?=[.\[])|^[\"'`#]|[\"'`]$")


class Entity(Struct):
    """One entity of a file, or an object that names some. Rows from 0, ends inclusive."""

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
        return self.definition.kind in {"class", "suite", "scope"}


def outline(found: Syntax, lines: Sequence[str]) -> list[Entity]:
    """Return the entities of a file in source order, members after what holds them, without empty objects."""
    entities = _without_idle_scopes(_nested(found, lines))
    _number_entities(entities)
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
            _take_inner_name(parent, definition)
            continue
        if definition.kind in {"type", "overload"} and (definition.end == definition.start or parent is not None):
            continue
        own = _leads_above(definition.start, leads, lines, floor=_floor(entities, parent))
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


def _take_inner_name(outer: Entity, inner: Definition) -> None:
    """`module.exports = function render …` is called render."""
    if outer.name in _NAMELESS and inner.body_byte == outer.definition.body_byte:
        outer.name = inner.name


def _floor(entities: Sequence[Entity], parent: Entity | None) -> int:
    """The last row that is taken already."""
    last = entities[-1] if entities else None
    if last is None:
        return -1
    return last.definition.inner_start if last is parent else last.end


def _leads_above(
    start: int, leads: dict[int, LeadingComment], lines: Sequence[str], *, floor: int
) -> list[LeadingComment]:
    own: list[LeadingComment] = []
    row = start - 1
    if row - 1 in leads and not lines[row].strip() and lines[leads[row - 1].start].lstrip().startswith("/**"):
        row -= 1  # a documentation comment may stand one blank line above what it documents
    while row in leads and leads[row].start > floor and start - leads[row].start <= LEAD_ROWS:
        own.insert(0, leads[row])
        row = leads[row].start - 1
    return own


def _joined_overloads(definitions: Sequence[Definition]) -> list[Definition]:
    """Overload signatures right above their implementation are part of it."""
    joined: list[Definition] = []
    for definition in definitions:
        last = joined[-1] if joined else None
        if (
            last is not None
            and last.kind == "overload"
            and last.name == definition.name
            and definition.kind in {"overload", "function"}
        ):
            joined[-1] = replace(definition, start=last.start, start_byte=last.start_byte)
        else:
            joined.append(definition)
    return joined


def _qualified(parent: Entity | None, definition: Definition) -> str:
    name = _NOISE.sub("", definition.name.strip()) or definition.kind
    name = _NOISE.sub("", name)
    if definition.kind in _TITLED:
        name = " ".join(name.split())[:120]
    if parent is None or _is_nameless(parent):
        return name
    return parent.name + (" > " if parent.definition.kind == "suite" else ".") + name


def _is_nameless(entity: Entity) -> bool:
    """`module.exports = {…}` and `export default {…}` name nothing."""
    return entity.definition.kind == "scope" and entity.name in _NAMELESS


def _without_idle_scopes(entities: list[Entity]) -> list[Entity]:
    """Drop objects that hold no function of more than a line, and hang members on the outermost object."""
    busy: set[int] = set()
    for entity in reversed(entities):
        if entity.parent is None or entity.parent.definition.kind != "scope":
            continue
        if entity.definition.kind == "scope" and id(entity) not in busy:
            continue
        if entity.definition.end > entity.definition.start:
            busy.add(id(entity.parent))
    kept = [entity for entity in entities if _stays(entity, busy)]
    for entity in kept:
        while (
            entity.parent is not None and entity.parent.definition.kind == "scope" and entity.parent.parent is not None
        ):
            entity.parent = entity.parent.parent
    kept = [entity for entity in kept if entity.definition.kind != "scope" or entity.parent is None]
    for entity in kept:
        if entity.parent is not None:
            entity.parent.members.append(entity)
    return kept


def _stays(entity: Entity, busy: set[int]) -> bool:
    if entity.definition.kind == "scope":
        return id(entity) in busy
    in_object = entity.parent is not None and entity.parent.definition.kind == "scope"
    return not in_object or entity.definition.end > entity.definition.start


def _number_entities(entities: Sequence[Entity]) -> None:
    seen: dict[str, int] = {}
    renamed: dict[int, str] = {}
    for entity in entities:
        if entity.parent is not None and id(entity.parent) in renamed:
            entity.name = entity.parent.name + entity.name.removeprefix(renamed[id(entity.parent)])
        count = seen[entity.name] = seen.get(entity.name, 0) + 1
        if count > 1:
            renamed[id(entity)] = entity.name
            entity.name = f"{entity.name}#{count}"


MAX_NAMES = 60
"""Calls kept of one entity."""
MAX_SIGNATURE = 2_000
MAX_DECORATOR_ROWS = 3
"""Decorators that take more rows stay in the text and out of the signature."""

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
"""Names of built-ins and of methods that every container has: they say nothing about this repository."""

_WORD = re.compile(r"[A-Za-z_$][\w$]*")
_PLAIN_CALL = re.compile(r"(?:super\(\)|[\w$]+)(?:\??\.#?[\w$]+)*\Z")
_LAST_NAME = re.compile(r"[\w$]+\Z")
_QUOTES = re.compile(r"\A[A-Za-z]{0,2}(\"\"\"|'''|\"|'|`)|(\"\"\"|'''|\"|'|`)\Z")
_COMMENT_MARKS = re.compile(r"^[ \t]*(?:/\*\*?|\*/|\*|//+!?|#+|;+)[ \t]?|[ \t]*\*/[ \t]*$", re.MULTILINE)


class FileFacts:
    """The facts of one file, by span."""

    def __init__(self, source: SourceFile, found: Syntax) -> None:
        self.source = source
        self._data = source.text.encode()
        self._found = found
        self._language: Language = source.language
        self._call_bytes = [byte for byte, _ in found.calls]
        self._lead_bytes = [lead.start_byte for lead in found.leads]
        self._docs = dict(found.docs)
        self._imports = _by_local_name(found.imports, source.language)

    def calls(self, start: int, end: int, holes: Sequence[tuple[int, int]] = ()) -> list[str]:
        """Return the names called between two bytes, as written, each once, without those in the holes."""
        low, high = bisect_left(self._call_bytes, start), bisect_left(self._call_bytes, end)
        names: dict[str, None] = {}
        for byte, written in self._found.calls[low:high]:
            if not any(a <= byte < b for a, b in holes):
                names.setdefault(_call_name(written))
        names.pop("", None)
        return list(names)[:MAX_NAMES]

    def complexity(self, start: int, end: int) -> int:
        """1 + branches between two bytes."""
        return 1 + bisect_left(self._found.branches, end) - bisect_left(self._found.branches, start)

    def bases(self, entity: Entity) -> list[str]:
        """Return the classes that this class builds on."""
        d = entity.definition
        return [name for byte, name in self._found.bases if d.start_byte <= byte < max(d.body_byte, d.start_byte + 1)]

    def docstring(self, entity: Entity) -> str:
        """Return the first string of the body, or the comment above."""
        body = entity.definition.body_byte
        written = self._docs.get(body, "")
        if not written and body < entity.definition.end_byte:
            following = next((byte for byte in self._docs if body < byte), None)
            if following is not None and not _has_code(self._data[body:following]):
                written = self._docs[following]
        if written:
            return clean_string(written)
        return clean_comment("\n".join(self._decode(lead.start_byte, lead.end_byte) for lead in entity.leads))

    def module_docstring(self) -> str:
        """Return the first string of the file."""
        byte, written = next(iter(self._found.docs), (0, ""))
        return "" if _has_code(self._data[:byte]) else clean_string(written)

    def _decode(self, start: int, end: int) -> str:
        return self._data[start:end].decode("utf-8", "replace")

    def signature(self, entity: Entity, lines: Sequence[str]) -> str:
        """Return the definition up to its body, as written, with short decorators."""
        d = entity.definition
        decorators = lines[d.start : d.inner_start] if d.inner_start - d.start <= MAX_DECORATOR_ROWS else []
        head = self._decode(d.inner_start_byte, self._head_end(d))
        row = lines[d.inner_start]
        before = row[: row.find(head.split("\n", 1)[0])] if head else ""
        if before.strip() and re.fullmatch(r"[\w\s]*", before):
            head = before.lstrip() + head
        indent = len(row) - len(row.lstrip())
        text = "\n".join([*decorators, " " * indent + head])
        return dedented(text, indent).rstrip().rstrip("{").rstrip()[:MAX_SIGNATURE]

    def _head_end(self, definition: Definition) -> int:
        """Return where the header ends: at the body, or at comments before it."""
        end = definition.body_byte
        for lead in reversed(self._found.leads[: bisect_left(self._lead_bytes, end)]):
            if lead.start_byte < definition.inner_start_byte or self._data[lead.end_byte : end].strip():
                break
            end = lead.start_byte
        return end

    def imports(self, text: str) -> tuple[str, ...]:
        """Return what the file imports and this text uses."""
        words = set(_WORD.findall(text))
        used = [imported for name, imported in self._imports.items() if name in words]
        return tuple(dict.fromkeys(_import_name(i, self._language.module_separator) for i in used))

    def file_uses(self) -> list[NameUse]:
        """Return one use per import statement of the file: file -> module."""
        uses: dict[NameUse, None] = {}
        for imported in self._found.imports:
            target = self._reference(imported.module)
            if target:
                uses.setdefault(NameUse(imported.name or target.rpartition("/")[2], f"import:{target}"))
        return list(uses)

    def uses(self, calls: Iterable[str], *, owner: str = "", is_reference: bool = False) -> list[NameUse]:
        """Return names as they may resolve to entities of the repository."""
        found = (self._use(call, owner) for call in calls)
        return [NameUse(name, hint, is_reference) for name, hint in dict.fromkeys(f for f in found if f is not None)]

    def _use(self, call: str, owner: str) -> tuple[str, str] | None:
        head, *rest = call.replace("?.", ".").split(".")
        name = rest[-1] if rest else head
        if head in self._imports:
            return self._imported(self._imports[head], head, rest)
        if rest and head in self._language.receivers:
            return (name, f"self:{owner}") if owner and len(rest) == 1 else _unless_ambient(name, "?")
        if not rest:
            return _unless_ambient(name, "")
        return _unless_ambient(name, f"of:{head}" if len(rest) == 1 else "?")

    def _imported(self, imported: Import, head: str, rest: Sequence[str]) -> tuple[str, str] | None:
        target = self._reference(imported.module)
        if not target:
            return None
        has_name = imported.name not in {"", "default", "*"}
        if not rest:
            return (imported.name, f"mod:{target}") if has_name else (head, f"mod:{target}#default")
        if has_name:
            return rest[-1], f"mod:{target}#{imported.name}"
        if not imported.alias and len(rest) > 1:
            return rest[-1], "mod:" + "/".join([head, *rest[:-1]])
        if not imported.alias and self._language.module_separator == ".":
            return rest[-1], f"mod:{head}"
        return rest[-1], f"mod:{target}"

    def _reference(self, module: str) -> str:
        return module_reference(module, path=self.source.path, separator=self._language.module_separator)


def _by_local_name(imports: Iterable[Import], language: Language) -> dict[str, Import]:
    local: dict[str, Import] = {}
    for imported in imports:
        bound = imported.alias or imported.name
        if not bound and language.module_separator == ".":
            bound = imported.module.split(".")[0]
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


def _unless_ambient(name: str, hint: str) -> tuple[str, str] | None:
    return None if name in BUILTIN_NAMES or len(name) < 2 else (name, hint)


def _has_code(data: bytes) -> bool:
    rows = data.decode("utf-8", "replace").split("\n")
    return any(row.strip() and not row.lstrip().startswith("#") for row in rows)


def dedented(text: str, indent: int) -> str:
    """Remove up to `indent` blanks from the front of each line."""
    return "\n".join(line[min(indent, len(line) - len(line.lstrip())) :] for line in text.split("\n"))


def clean_string(written: str) -> str:
    """Remove quotes and indentation of a string literal."""
    return _tidy(_QUOTES.sub("", written.strip()))


def clean_comment(written: str) -> str:
    """Remove the marks of a comment."""
    return _tidy("\n".join(line for line in _COMMENT_MARKS.sub("", written).split("\n") if not line.startswith("@")))


def _tidy(text: str) -> str:
    lines = text.strip().split("\n")
    inner = [len(line) - len(line.lstrip()) for line in lines[1:] if line.strip()]
    cut = min(inner, default=0)
    return "\n".join([lines[0], *(line[cut:].rstrip() for line in lines[1:])]).strip()

"""Turn definitions into entities with their names and lines; `file_facts` says what stands in those.

Nested functions belong to the outermost one; classes, test suites and objects qualify the names of their members; a
repeated name gets `#2`, `#3`. Pure: byte ranges in, entities out, one pass with an explicit stack.
"""

import re
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from xscore.indexer.captures import Definition, LeadingComment, Syntax
from xscore.indexer.syntax import number_names

LEAD_ROWS = 60
"""A comment above an entity belongs to it up to this many rows; a longer one is a separate text."""
MAX_NESTING = 12
"""Deeper definitions are part of the entity around them."""
MAX_ON_ROW = 8
"""Entities that begin on one row, since each shows all of it."""
_CLOSED = frozenset({"function", "test", "type", "overload"})
"""Definitions inside these are not entities."""
_NAMELESS = frozenset({"module.exports", "exports", "default"})
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
    for entity, name in zip(entities, number_names([entity.name for entity in entities]), strict=True):
        entity.name = name
    return entities


def _nested(found: Syntax, lines: Sequence[str]) -> list[Entity]:
    entities: list[Entity] = []
    stack: list[Entity] = []
    leads = {lead.end: lead for lead in found.leads if _OWN_ROW.match(lines[lead.start])}
    on_row: Counter[int] = Counter()
    for definition in _joined_overloads(found.definitions):
        while stack and stack[-1].definition.end_byte <= definition.start_byte:
            stack.pop()
        parent = stack[-1] if stack else None
        on_row[definition.start] += 1
        if len(stack) >= MAX_NESTING or on_row[definition.start] > MAX_ON_ROW:
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
        own = tuple(_leads_above(definition.start, leads, lines, floor=floor))
        start = own[0].start if own else definition.start
        name = _qualified(parent, definition)
        entity = Entity(definition, name, start, definition.end, parent, own)
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
    """Merge overload signatures into the implementation right below them; without one, the last stands for it."""
    joined: list[Definition] = []
    for definition in definitions:
        last = joined[-1] if joined else definition
        is_same = last.kind == "overload" and last.name == definition.name
        if is_same and last is not definition and definition.kind in {"overload", "function"}:
            joined[-1] = replace(definition, start=last.start, start_byte=last.start_byte)
        else:
            joined.append(definition)
    has_body = [d.kind == "overload" and d.body_byte < d.end_byte for d in joined]
    return [replace(d, kind="function") if only else d for d, only in zip(joined, has_body, strict=True)]


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

"""From definitions to entities: who holds whom, what each is called, and which lines are whose.

Nested functions belong to their outermost; classes, suites of tests and objects name what they hold; a repeated name
gets `#2`, `#3`. Pure: byte ranges in, entities out, one pass with a stack of our own.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from xscore.indexer.syntax import Definition, Lead, Syntax

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


@dataclass(slots=True)
class Entity:
    """One entity of a file, or an object that names some. Rows from 0, ends inclusive."""

    definition: Definition
    name: str
    """Qualified within the file, `#n` included."""
    start: int
    """First row, with the comments that belong to it."""
    end: int
    parent: "Entity | None"
    leads: tuple[Lead, ...] = ()
    members: "list[Entity]" = field(default_factory=list)

    @property
    def is_container(self) -> bool:
        """Whether it can hold members."""
        return self.definition.kind in {"class", "suite", "scope"}


def outline(found: Syntax, lines: Sequence[str]) -> list[Entity]:
    """All entities of a file in source order, members after what holds them; empty objects and one-liners left out."""
    entities = _nested(found, lines)
    entities = _without_idle_scopes(entities)
    _number(entities)
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


def _leads_above(start: int, leads: dict[int, Lead], lines: Sequence[str], *, floor: int) -> list[Lead]:
    own: list[Lead] = []
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
            joined[-1] = Definition(
                kind=definition.kind,
                name=definition.name,
                start=last.start,
                end=definition.end,
                start_byte=last.start_byte,
                end_byte=definition.end_byte,
                inner_start_byte=definition.inner_start_byte,
                inner_start=definition.inner_start,
                body_byte=definition.body_byte,
            )
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


def _number(entities: Sequence[Entity]) -> None:
    seen: dict[str, int] = {}
    renamed: dict[int, str] = {}
    for entity in entities:
        if entity.parent is not None and id(entity.parent) in renamed:
            entity.name = entity.parent.name + entity.name.removeprefix(renamed[id(entity.parent)])
        count = seen[entity.name] = seen.get(entity.name, 0) + 1
        if count > 1:
            renamed[id(entity)] = entity.name
            entity.name = f"{entity.name}#{count}"

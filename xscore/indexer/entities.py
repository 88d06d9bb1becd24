"""Turn definitions into entities with their names and lines; `file_facts` says what is in
those.

Nested functions belong to the outermost one; classes, test suites and objects qualify the names of
their members; a repeated name gets `#2`, `#3`. Pure: byte ranges in, entities out, one pass with an
explicit stack.
"""

import re
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from xscore.indexer.captures import Definition, LeadingComment, Syntax
from xscore.indexer.syntax import number_names
from xscore.records.memory import WITHIN
from xscore.store.written_rows import NAMELESS

LEAD_ROWS = 60
"""Most rows of a comment that belongs to the entity below it; a longer one is a separate
text."""
CLAUSE_ROWS = 60
"""Most rows of a function that is joined from clauses."""
MAX_NESTING = 12
"""Deepest nesting of entities; deeper definitions are part of the entity around them."""
MAX_ON_ROW = 8
"""Most entities that begin on one row, since each shows all of it."""
_CLOSED = frozenset({"function", "test", "type", "alias", "overload"})
"""Definitions whose inner ones are not entities."""
_TITLED = frozenset({"test", "suite"})
_OWN_ROW = re.compile(r"\s*(#|//|/\*|@|;|<!--)")
"""Matches a row that starts with a comment or decorator."""
_NOISE = re.compile(r"^(module\.exports|exports)\.|\.prototype(?=[.\[])|^[\"'`#]|[\"'`]$")


class Entity(Struct):
    """One entity of a file, or an object that qualifies entities. Rows from 0, ends inclusive."""

    definition: Definition
    name: str
    """Name qualified within the file, `#n` included."""
    start: int
    """First row, including the comments that belong to the entity."""
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
        return self.definition.kind in {"scope", "binding"}


def outline(
    syntax: Syntax, lines: Sequence[str], *, is_test: bool = False, has_clauses: bool = False
) -> list[Entity]:
    """Return the entities of a file in source order, members after their container, without empty
    objects.

    is_test: the file holds tests, where a type on one row is not a memory.
    has_clauses: functions may be written as several definitions.
    """
    definitions = _joined_overloads(syntax.definitions)
    if has_clauses:
        definitions = _joined_clauses(definitions, lines)
    entities = _nested(syntax, definitions, lines, is_test=is_test)
    # In this order: what a call makes of an object is a function or a scope before idle scopes go.
    entities = _without_idle_scopes(_without_namespaces(_with_bindings(entities)))
    names = number_names([entity.name for entity in entities])
    for entity, name in zip(entities, names, strict=True):
        entity.name = name
    return entities


def _nested(
    syntax: Syntax, definitions: Sequence[Definition], lines: Sequence[str], *, is_test: bool
) -> list[Entity]:
    entities: list[Entity] = []
    stack: list[Entity] = []
    leads = {lead.end: lead for lead in syntax.leads if _OWN_ROW.match(lines[lead.start])}
    on_row: Counter[int] = Counter()
    for definition in definitions:
        while stack and stack[-1].definition.end_byte <= definition.start_byte:
            stack.pop()
        parent = stack[-1] if stack else None
        on_row[definition.start] += 1
        if len(stack) >= MAX_NESTING or on_row[definition.start] > MAX_ON_ROW:
            continue
        if parent is not None and parent.definition.kind in _CLOSED:
            if parent.name in NAMELESS and definition.body_byte == parent.definition.body_byte:
                # `module.exports = function render …` is named render.
                parent.name = definition.name
            continue
        if _is_slight(definition, parent, is_test=is_test):
            continue
        floor = _last_row_taken(entities, parent)
        comments = tuple(_leads_above(definition.start, leads, lines, floor=floor))
        start = comments[0].start if comments else definition.start
        name = _qualified(parent, definition)
        entity = Entity(definition, name, start, definition.end, parent, comments)
        entities.append(entity)
        stack.append(entity)
    return entities


def _last_row_taken(entities: Sequence[Entity], parent: Entity | None) -> int:
    """Return the last row whose comments belong to an entity already; -1: none."""
    if not entities:
        return -1
    last = entities[-1]
    if last is parent:
        return last.definition.inner_start
    return last.end


def _is_slight(definition: Definition, parent: Entity | None, *, is_test: bool) -> bool:
    """Whether a type or a signature goes with the text around it."""
    is_row = definition.end == definition.start
    if definition.kind == "alias":
        in_object = parent is not None and parent.definition.kind not in {"scope", "namespace"}
        return in_object or (is_row and is_test)
    return definition.kind in {"type", "overload"} and (is_row or parent is not None)


def _leads_above(
    start: int, leads: dict[int, LeadingComment], lines: Sequence[str], *, floor: int
) -> list[LeadingComment]:
    comments: list[LeadingComment] = []
    row = start - 1
    if row - 1 in leads and not lines[row].strip():
        above = lines[leads[row - 1].start]
        if above.lstrip().startswith("/**"):
            row -= 1  # a documentation comment may be separated by one blank line
    while row in leads and leads[row].start > floor and start - leads[row].start <= LEAD_ROWS:
        comments.insert(0, leads[row])
        row = leads[row].start - 1
    return comments


def _joined_overloads(definitions: Sequence[Definition]) -> list[Definition]:
    """Merge overload signatures into the implementation right below them; without one, the last
    takes its place."""
    joined: list[Definition] = []
    for definition in definitions:
        last = joined[-1] if joined else None
        is_same = last is not None and last.kind == "overload" and last.name == definition.name
        if last is not None and is_same and definition.kind in {"overload", "function"}:
            joined[-1] = replace(definition, start=last.start, start_byte=last.start_byte)
        else:
            joined.append(definition)
    for index, d in enumerate(joined):
        if d.kind == "overload" and d.body_byte < d.end_byte:
            joined[index] = replace(d, kind="function")
    return joined


def _joined_clauses(
    definitions: Sequence[Definition], lines: Sequence[str]
) -> list[Definition]:
    """Merge the clauses of a function, which follow each other with nothing between but comments.

    What is within a clause stays apart. Many long clauses become several entities. Trade-off: the
    number of arguments is not compared, so `foo/1` and `foo/2`, two functions of one name, are one
    entity where nothing is between them; mostly one calls the other.
    """
    joined: list[Definition] = []
    open_at = -1  # the place of the function whose next clause may follow
    for definition in definitions:
        last = joined[open_at] if open_at >= 0 else None
        if last is not None and definition.start_byte < last.end_byte:
            joined.append(definition)
        elif last is not None and _is_next_clause(last, definition, lines):
            joined[open_at] = replace(last, end=definition.end, end_byte=definition.end_byte)
        else:
            open_at = len(joined) if definition.kind == "function" else -1
            joined.append(definition)
    return sorted(joined, key=lambda d: (d.start_byte, -d.end_byte))


def _is_next_clause(last: Definition, definition: Definition, lines: Sequence[str]) -> bool:
    is_same = definition.kind == "function" and definition.name == last.name
    if not is_same or definition.end - last.start >= CLAUSE_ROWS:
        return False
    between = (line.strip() for line in lines[last.end + 1 : definition.start])
    return all(not line or line.startswith("#") for line in between)


def _qualified(parent: Entity | None, definition: Definition) -> str:
    if definition.kind == "namespace" and definition.name.startswith('"'):
        return parent.qualifier if parent is not None else ""  # `extern "C" {` names nothing
    if definition.kind in _TITLED:
        name = _title(definition)
    else:
        name = _NOISE.sub("", _NOISE.sub("", definition.name.strip()) or definition.kind)
    if definition.owner and definition.kind != "extension":
        name = f"{definition.owner}.{name}"
    if parent is None or (parent.is_scope and parent.name in NAMELESS):
        return name  # `module.exports = {…}` and `export default {…}` name nothing
    joint = WITHIN if parent.definition.kind == "suite" else "."
    if parent.qualifier:
        return parent.qualifier + joint + name
    return name


def _title(definition: Definition) -> str:
    """Return the title of a test without the quotes around it; those inside stay."""
    words = " ".join(definition.name.split())
    if words[:1] in ("'", '"', "`") and words.endswith(words[0]):
        words = words[1:-1]
    return words[:120].strip() or definition.kind


def _with_bindings(entities: list[Entity]) -> list[Entity]:
    """Turn what a call makes of an object into a function, if the object holds one, otherwise
    into a scope."""
    held: Counter[int] = Counter()
    for entity in entities:
        outer = entity.parent
        is_long = entity.definition.end > entity.definition.start and not entity.is_scope
        while outer is not None and is_long:
            held[id(outer)] += 1
            outer = outer.parent
    function_ids: set[int] = set()
    kept: list[Entity] = []
    for entity in entities:
        if entity.parent is not None and id(entity.parent) in function_ids:
            function_ids.add(id(entity))  # a part of the function around it
            continue
        if entity.definition.kind == "binding":
            is_function = held[id(entity)] == 1
            kind = "function" if is_function else "scope"
            entity.definition = replace(entity.definition, kind=kind)
            if is_function:
                function_ids.add(id(entity))
        kept.append(entity)
    return kept


def _without_namespaces(entities: list[Entity]) -> list[Entity]:
    """Drop namespaces, which qualify names and are cut like the file itself."""
    for entity in entities:
        while entity.parent is not None and entity.parent.definition.kind == "namespace":
            entity.parent = entity.parent.parent
    return [entity for entity in entities if entity.definition.kind != "namespace"]


def _without_idle_scopes(entities: list[Entity]) -> list[Entity]:
    """Drop objects without a function of two or more lines, and attach members to the outermost
    object."""
    busy: set[int] = set()
    # From the end: members come after the object that holds them.
    for entity in reversed(entities):
        counts = _is_long(entity) and (not entity.is_scope or id(entity) in busy)
        if counts and entity.parent is not None and entity.parent.is_scope:
            busy.add(id(entity.parent))
    kept = []
    for entity in entities:
        parent = entity.parent
        in_scope = parent is not None and parent.is_scope
        while parent is not None and parent.is_scope and parent.parent is not None:
            parent = parent.parent
        entity.parent = parent
        if entity.is_scope:
            stays = id(entity) in busy and parent is None
        else:
            stays = not in_scope or _is_long(entity)
        if stays:
            kept.append(entity)
            if parent is not None:
                parent.members.append(entity)
    return kept


def _is_long(entity: Entity) -> bool:
    return entity.definition.end > entity.definition.start

"""Tell which functions, methods and classes differ between two versions of a file.

Both versions are cut by the indexer, in its own processes, since files of any history are
strangers'. Two entities of one name are the same; they differ where their tokens do. A class that
got a new member counts as changed. Trade-off: of two entities with one name (`x`, `x#2`) the order
tells which is which.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from xscore.extensions.evaluation.code_tokens import code_tokens
from xscore.extensions.evaluation.history import CommittedFile
from xscore.extensions.evaluation.metrics import EntityRef
from xscore.indexer.parse_jobs import ParseJob
from xscore.indexer.workers import parse_in_processes
from xscore.records.indexing import FileStamp
from xscore.records.memory import BLOCK_NAME, Kind
from xscore.store.encoded_files import EncodedFile
from xscore.store.written_rows import ROW_COLUMNS

_CODE = frozenset({Kind.FUNCTION, Kind.METHOD, Kind.CLASS})
_COLUMNS = {
    name: ROW_COLUMNS.index(name) for name in ("kind", "entity", "start_line", "end_line")
}
_PARSERS = 2


class FileVersion(Struct, frozen=True):
    """A file as it was at some commit."""

    path: str
    id: str
    text: str


class OutlinedEntity(Struct, frozen=True):
    """A function, method, class or test of a version."""

    kind: Kind
    name: str
    start: int
    end: int
    tokens: tuple[str, ...]
    """Tokens of the entity's own rows, without those of its members."""


Outlines = Mapping[tuple[str, str], Mapping[str, OutlinedEntity]]
"""Path and id of a version -> its entities by name."""


class ChangedEntities(Struct, frozen=True, kw_only=True):
    """What a commit changed, as it was before."""

    gold: tuple[EntityRef, ...]
    kinds: frozenset[Kind]
    tests: tuple[EntityRef, ...]
    new_names: tuple[str, ...]
    """Names of entities that exist only since the commit."""


def outline_versions(versions: Iterable[FileVersion], *, window_lines: int) -> Outlines:
    """Cut these versions into entities; a version that its grammar gave up has none."""
    texts: dict[tuple[str, str], str] = {}
    jobs: list[ParseJob] = []
    for version in versions:
        texts[version.path, version.id] = version.text
        size = len(version.text.encode())
        stamp = FileStamp(version.path, size, 0, version.id)
        jobs.append(ParseJob(stamp, version.text, 0, window_lines, 0.0))
    outlines: dict[tuple[str, str], Mapping[str, OutlinedEntity]] = {}
    for parsed in parse_in_processes(jobs, count=_PARSERS):
        key = parsed.stamp.path, parsed.stamp.file_hash
        if key in texts:
            outlines[key] = _outline(parsed, texts[key])
    return outlines


class _Span(Struct, frozen=True):
    start: int
    end: int
    kind: Kind
    name: str


def _outline(parsed: EncodedFile, text: str) -> Mapping[str, OutlinedEntity]:
    spans: list[_Span] = []
    for row in parsed.rows:
        kind, name, start, end = (row[at] for at in _COLUMNS.values())
        if name and not name.startswith(BLOCK_NAME):
            spans.append(_Span(start, end, Kind(kind), name))
    # The widest first: each row belongs to the narrowest entity around it.
    spans.sort(key=lambda span: (span.start - span.end, span.start, span.name))
    entities: dict[str, OutlinedEntity] = {}
    own_texts = _own_texts(spans, text.split("\n"))
    for span, own_text in zip(spans, own_texts, strict=True):
        tokens = code_tokens(own_text, parsed.stamp.language)
        entities[span.name] = OutlinedEntity(span.kind, span.name, span.start, span.end, tokens)
    return entities


def _own_texts(spans: Sequence[_Span], lines: Sequence[str]) -> list[str]:
    """Return the rows of each span without those of later spans within it."""
    owners = [-1] * (len(lines) + 1)
    for number, span in enumerate(spans):
        for line_number in range(span.start, min(span.end, len(lines)) + 1):
            owners[line_number] = number
    own_lines: dict[int, list[str]] = {}
    for owner, line in zip(owners[1:], lines, strict=True):
        own_lines.setdefault(owner, []).append(line)
    return ["\n".join(own_lines.get(number, [])) for number in range(len(spans))]


def changed_entities(
    sources: Sequence[CommittedFile], tests: Sequence[CommittedFile], outlines: Outlines
) -> ChangedEntities | None:
    """Return what differs; None if a source file could not be read."""
    gold: list[EntityRef] = []
    kinds: set[Kind] = set()
    new_names: list[str] = []
    for change in sources:
        after = outlines.get((change.path, change.new))
        if after is None:
            return None
        if change.status == "A":
            new_names += after
            continue
        before = outlines.get((change.path, change.old))
        if before is None:
            return None
        new_names += [name for name in after if name not in before]
        for entity in _differing(before, after):
            if entity.kind in _CODE:
                gold.append(_place(change.path, entity))
                kinds.add(entity.kind)
    touched: list[EntityRef] = []
    for change in tests:
        after = outlines.get((change.path, change.new), {})
        before = outlines.get((change.path, change.old), {})
        new_names += [name for name in after if name not in before]
        if change.status == "A":
            continue
        differing = [entity for entity in _differing(before, after) if entity.kind is Kind.TEST]
        touched += [_place(change.path, entity) for entity in differing]
        if not differing:
            touched.append(EntityRef(change.path))
    return ChangedEntities(
        gold=tuple(sorted(gold, key=_order)),
        kinds=frozenset(kinds),
        tests=tuple(sorted(touched, key=_order)),
        new_names=tuple(new_names),
    )


def _differing(
    before: Mapping[str, OutlinedEntity], after: Mapping[str, OutlinedEntity]
) -> list[OutlinedEntity]:
    """Return the entities, as they were before, that changed, went, or got a new member."""
    grown = {name.rpartition(".")[0] for name in after if name not in before}
    differing: list[OutlinedEntity] = []
    for name, entity in before.items():
        later = after.get(name)
        is_grown = entity.kind is Kind.CLASS and name in grown
        if later is None or later.tokens != entity.tokens or is_grown:
            differing.append(entity)
    return differing


def _place(path: str, entity: OutlinedEntity) -> EntityRef:
    return EntityRef(path, entity.name, entity.start, entity.end)


def _order(place: EntityRef) -> tuple[str, int, str]:
    return place.path, place.start, place.name

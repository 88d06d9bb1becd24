"""One file's text in, its pieces out, whatever the file is.

The language's row says how; where a grammar gives up, the file is cut into windows of lines and a note says so.

Pieces made into memories through the one write door, and what they use into mentions.

Runs in the parsing processes: everything that costs time per file, redaction included, is done by the time a file's
record reaches the store.
"""

from collections.abc import Iterable

from msgspec import Struct

from xscore.indexer import code, sections
from xscore.indexer.entities import FileFacts
from xscore.indexer.languages import FileShape, is_test_path, language_of
from xscore.indexer.syntax import GrammarGaveUp, MemoryDraft, NameUse, SourceFile, parse_syntax
from xscore.platform.hashing import file_id
from xscore.records import FileStamp, IndexedFile, Kind, Layer, Memory, MemorySource, Mention, Relation
from xscore.store import memory_writer
from xscore.store.redaction import is_safe_name


def source_file(path: str, text: str, *, window_lines: int) -> SourceFile:
    """Look the file's language up and see whether it holds tests."""
    language = language_of(path)
    return SourceFile(path, text, language, is_test_path(path, language), window_lines)


def cut_file(source: SourceFile) -> tuple[list[MemoryDraft], list[NameUse], str]:
    """Pieces of the file, what the file as such uses, and a note where the grammar could not be used."""
    if not source.text.strip():
        return [], [], ""
    language = source.language
    if not language.grammar:
        return _cut_by_lines(source), [], ""
    try:
        found = parse_syntax(source.text.encode(), language)
    except GrammarGaveUp as error:
        return sections.cut_windows(source), [], str(error)
    match language.shape:
        case FileShape.CODE:
            return code.cut_code(source, found), FileFacts(source, found).file_uses(), ""
        case FileShape.PROSE:
            return sections.cut_prose(source, found), [], ""
        case _:
            return sections.cut_config(source, found), [], ""


def cut_without_grammar(source: SourceFile) -> list[MemoryDraft]:
    """The last resort for a file on which a grammar crashed."""
    return sections.cut_windows(source)


def _cut_by_lines(source: SourceFile) -> list[MemoryDraft]:
    match source.language.shape:
        case FileShape.PROSE:
            return sections.cut_prose(source, None)
        case FileShape.CONFIG:
            return sections.cut_config(source, None)
        case _:
            return sections.cut_windows(source, kind=Kind.TEXT)


_GRAPH = frozenset({Kind.FUNCTION, Kind.METHOD, Kind.CLASS, Kind.TEST, Kind.BLOCK})


class ParseJob(Struct, frozen=True):
    """A file to be cut: its text and how it looked."""

    stamp: FileStamp
    text: str
    mtime_ns: int
    window_lines: int
    now: float
    allow_pii: bool = False


class ParsedFile(Struct, frozen=True):
    """What became of a job."""

    file: IndexedFile
    note: str = ""


def parse_file(job: ParseJob) -> ParsedFile:
    """Cut a file and make its memories."""
    source = source_file(job.stamp.path, job.text, window_lines=job.window_lines)
    pieces, uses, note = cut_file(source)
    return ParsedFile(
        _indexed(job, source, pieces, uses), f"{source.path}: {note}; cut into windows of lines" if note else ""
    )


def parse_file_by_windows(job: ParseJob, why: str) -> ParsedFile:
    """The same without any grammar, for a file that crashed one or kept it too long."""
    source = source_file(job.stamp.path, job.text, window_lines=job.window_lines)
    file = _indexed(job, source, cut_without_grammar(source), ())
    return ParsedFile(file, f"{source.path}: {why}; cut into windows of lines")


def _indexed(job: ParseJob, source: SourceFile, pieces: Iterable[MemoryDraft], uses: Iterable[NameUse]) -> IndexedFile:
    memories: list[Memory] = []
    mentions: list[Mention] = []
    seen: dict[tuple[str, str], int] = {}
    redacted = 0
    for piece in pieces:
        ordinal = seen[piece.kind, piece.entity] = seen.get((piece.kind, piece.entity), -1) + 1
        memory, secrets = _make_memory(job, source, piece, ordinal)
        redacted += secrets
        memories.append(memory)
        mentions += [_make_mention(memory, use) for use in piece.uses]
    mentions += [Mention(file_id(source.path), Relation.IMPORTS, use.name, use.hint) for use in uses]
    stamp = FileStamp(job.stamp.path, job.stamp.size, job.stamp.mtime_ns, job.stamp.file_hash, source.language.name)
    return IndexedFile(
        stamp=stamp, memories=tuple(memories), mentions=_namable(dict.fromkeys(mentions)), secrets_redacted=redacted
    )


def _namable(mentions: Iterable[Mention]) -> tuple[Mention, ...]:
    """Leave out those whose very name is a secret; looked at one by one only where all together hold one."""
    given = tuple(mentions)
    if is_safe_name("\n".join({word for one in given for word in (one.name, one.hint)})):
        return given
    return tuple(one for one in given if is_safe_name(one.name) and is_safe_name(one.hint))


def _make_memory(job: ParseJob, source: SourceFile, piece: MemoryDraft, ordinal: int) -> tuple[Memory, int]:
    return memory_writer.make_memory(
        layer=Layer.GRAPH if piece.kind in _GRAPH else Layer.VECTOR,
        kind=piece.kind,
        title=piece.title,
        text=piece.text,
        path=source.path,
        entity=piece.entity,
        card=piece.card,
        ordinal=ordinal,
        start_line=piece.start + 1,
        end_line=piece.end + 1,
        language=source.language.name,
        facts=piece.facts,
        source=MemorySource.INDEX,
        created_at=job.now,
        updated_at=job.mtime_ns / 1e9,
        allow_pii=job.allow_pii,
    )


def _make_mention(memory: Memory, use: NameUse) -> Mention:
    if use.hint.startswith("import:"):
        return Mention(file_id(memory.path), Relation.IMPORTS, use.name, use.hint)
    if use.is_reference:
        relation = Relation.REFERENCES
    else:
        relation = Relation.TESTS if memory.kind is Kind.TEST else Relation.CALLS
    return Mention(memory.id, relation, use.name, use.hint)

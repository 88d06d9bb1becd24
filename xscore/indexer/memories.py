"""One file's text in, its memories and mentions out, whatever the file is.

The language's row says how to cut; where a grammar gives up, the file is cut into windows of lines and a note says so.
Runs in the parsing processes: everything that takes time per file, redaction included, is done before a file's record
reaches the store.
"""

from collections import Counter
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


def parse_file(job: ParseJob, *, without_grammar: str = "") -> ParsedFile:
    """Cut one file, redact it and name what it uses. without_grammar: why no grammar may be used, such as a crash."""
    source = source_file(job.stamp.path, job.text, window_lines=job.window_lines)
    drafts, uses, note = cut_file(source, without_grammar=without_grammar)
    note = f"{source.path}: {note}; cut into windows of lines" if note else ""
    return ParsedFile(_indexed(job, source, drafts, uses), note)


def source_file(path: str, text: str, *, window_lines: int) -> SourceFile:
    """Look up the file's language and whether it holds tests."""
    language = language_of(path)
    return SourceFile(path, text, language, is_test_path(path, language), window_lines)


def cut_file(source: SourceFile, *, without_grammar: str = "") -> tuple[list[MemoryDraft], list[NameUse], str]:
    """Return the drafts of a file, what the file as such uses, and a note where the grammar could not be used."""
    if without_grammar or not source.text.strip():
        return sections.cut_windows(source) if without_grammar else [], [], without_grammar
    language, found = source.language, None
    if language.grammar:
        try:
            found = parse_syntax(source.text.encode(), language)
        except GrammarGaveUp as error:
            return sections.cut_windows(source), [], str(error)
    match language.shape:
        case FileShape.CODE if found is not None:
            return code.cut_code(source, found), FileFacts(source, found).file_uses(), ""
        case FileShape.PROSE:
            return sections.cut_prose(source, found), [], ""
        case FileShape.CONFIG:
            return sections.cut_config(source, found), [], ""
        case _:
            return sections.cut_windows(source), [], ""


def _indexed(job: ParseJob, source: SourceFile, drafts: Iterable[MemoryDraft], uses: Iterable[NameUse]) -> IndexedFile:
    memories: list[Memory] = []
    mentions: list[Mention] = []
    seen: Counter[tuple[str, str]] = Counter()
    redacted = 0
    for draft in drafts:
        memory, secrets = _make_memory(job, source, draft, seen[draft.kind, draft.entity])
        seen[draft.kind, draft.entity] += 1
        redacted += secrets
        memories.append(memory)
        mentions += [_make_mention(memory, use) for use in draft.uses]
    mentions += [Mention(file_id(source.path), Relation.IMPORTS, use.name, use.hint) for use in uses]
    stamp = FileStamp(job.stamp.path, job.stamp.size, job.stamp.mtime_ns, job.stamp.file_hash, source.language.name)
    return IndexedFile(
        stamp=stamp, memories=tuple(memories), mentions=_namable(dict.fromkeys(mentions)), secrets_redacted=redacted
    )


def _namable(mentions: Iterable[Mention]) -> tuple[Mention, ...]:
    """Leave out those whose name is a secret; check them one by one only where all together hold one."""
    given = tuple(mentions)
    if is_safe_name("\n".join({word for one in given for word in (one.name, one.hint)})):
        return given
    return tuple(one for one in given if is_safe_name(one.name) and is_safe_name(one.hint))


def _make_memory(job: ParseJob, source: SourceFile, draft: MemoryDraft, ordinal: int) -> tuple[Memory, int]:
    return memory_writer.make_memory(
        layer=Layer.GRAPH if draft.kind in _GRAPH else Layer.VECTOR,
        kind=draft.kind,
        title=draft.title,
        text=draft.text,
        path=source.path,
        entity=draft.entity,
        card=draft.card,
        ordinal=ordinal,
        start_line=draft.start + 1,
        end_line=draft.end + 1,
        language=source.language.name,
        facts=draft.facts,
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

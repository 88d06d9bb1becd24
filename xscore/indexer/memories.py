"""Pieces made into memories through the one write door, and what they use into mentions.

Runs in the parsing processes: everything that costs time per file, redaction included, is done by the time a file's
record reaches the store.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from xscore.hashing import file_id
from xscore.indexer.cut import by_windows, cut, source_file
from xscore.indexer.pieces import Piece, SourceFile, Use
from xscore.memory import door
from xscore.memory.secrets.redact import may_be_named
from xscore.records import FileStamp, IndexedFile, Kind, Layer, Memory, Mention, Relation, Source

_GRAPH = frozenset({Kind.FUNCTION, Kind.METHOD, Kind.CLASS, Kind.TEST, Kind.BLOCK})


@dataclass(frozen=True, slots=True)
class Job:
    """A file to be cut: its text and how it looked."""

    stamp: FileStamp
    text: str
    mtime_ns: int
    window_lines: int
    now: float
    allow_pii: bool = False


@dataclass(frozen=True, slots=True)
class Done:
    """What became of a job."""

    file: IndexedFile
    note: str = ""


def remember(job: Job) -> Done:
    """Cut a file and make its memories."""
    source = source_file(job.stamp.path, job.text, window_lines=job.window_lines)
    pieces, uses, note = cut(source)
    return Done(
        _indexed(job, source, pieces, uses), f"{source.path}: {note}; cut into windows of lines" if note else ""
    )


def remember_by_windows(job: Job, why: str) -> Done:
    """The same without any grammar, for a file that crashed one or kept it too long."""
    source = source_file(job.stamp.path, job.text, window_lines=job.window_lines)
    file = _indexed(job, source, by_windows(source), ())
    return Done(file, f"{source.path}: {why}; cut into windows of lines")


def _indexed(job: Job, source: SourceFile, pieces: Iterable[Piece], uses: Iterable[Use]) -> IndexedFile:
    memories: list[Memory] = []
    mentions: list[Mention] = []
    seen: dict[tuple[str, str], int] = {}
    redacted = 0
    for piece in pieces:
        ordinal = seen[piece.kind, piece.entity] = seen.get((piece.kind, piece.entity), -1) + 1
        memory, secrets = _memory(job, source, piece, ordinal)
        redacted += secrets
        memories.append(memory)
        mentions += [_mention(memory, use) for use in piece.uses]
    mentions += [Mention(file_id(source.path), Relation.IMPORTS, use.name, use.hint) for use in uses]
    stamp = FileStamp(job.stamp.path, job.stamp.size, job.stamp.mtime_ns, job.stamp.file_hash, source.language.name)
    return IndexedFile(
        stamp=stamp, memories=tuple(memories), mentions=_namable(dict.fromkeys(mentions)), secrets_redacted=redacted
    )


def _namable(mentions: Iterable[Mention]) -> tuple[Mention, ...]:
    """Leave out those whose very name is a secret; looked at one by one only where all together hold one."""
    given = tuple(mentions)
    if may_be_named("\n".join({word for one in given for word in (one.name, one.hint)})):
        return given
    return tuple(one for one in given if may_be_named(one.name) and may_be_named(one.hint))


def _memory(job: Job, source: SourceFile, piece: Piece, ordinal: int) -> tuple[Memory, int]:
    return door.make(
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
        source=Source.INDEX,
        created_at=job.now,
        updated_at=job.mtime_ns / 1e9,
        allow_pii=job.allow_pii,
    )


def _mention(memory: Memory, use: Use) -> Mention:
    if use.hint.startswith("import:"):
        return Mention(file_id(memory.path), Relation.IMPORTS, use.name, use.hint)
    if use.is_reference:
        relation = Relation.REFERENCES
    else:
        relation = Relation.TESTS if memory.kind is Kind.TEST else Relation.CALLS
    return Mention(memory.id, relation, use.name, use.hint)

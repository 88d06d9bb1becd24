"""Files that an earlier xscore wrote, turned into the form of today: one step for each old form.

A step keeps what the old signature said: if it was made with the key at hand, the new file is
signed with that key, otherwise it is not signed. Nothing of an old file is unpacked before its
signature is checked, unless the caller has no key and quarantines what it holds. Trade-off: an
old file of judgments is packed twice while it is read.
"""

import hmac
import re
from collections.abc import Iterator
from hashlib import sha256
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from xscore.extensions.transfer.saved_files import (
    FILE_SCHEMA,
    Contents,
    earlier_contents,
    encode_packed,
    file_header,
    first_value,
    join_file,
    unpacked_lines,
)
from xscore.extensions.transfer.saved_records import (
    MEMORY_SCHEMA,
    MappedFile,
    RetrievalTrace,
    SavedEdge,
    SavedJudgment,
    SavedMap,
    SavedMapFile,
    map_records,
)
from xscore.extensions.transfer.transfer_keys import TransferKey
from xscore.platform.errors import UsageError, newer_file_error
from xscore.platform.json_lines import refuse_newer_schema, without_values
from xscore.records.memory import Edge, Relation

_JUDGMENTS_FORM = 3
_JUDGMENTS_PURPOSE = b"xscore cache export %d\0" % _JUDGMENTS_FORM
_JUDGMENTS_LINE = re.compile(
    rb"xscore-cache %d ([0-9a-f]{16}) ([0-9a-f]{64})" % _JUDGMENTS_FORM
)
_ANY_JUDGMENTS_LINE = re.compile(rb"xscore-cache (\d{1,6}) ")
_UNVERIFIED = "0" * 64
"""A signature that no key produces."""


def upgrade_file(
    data: bytes, name: str, key: TransferKey | None, *, hint: str, max_judgments: int
) -> bytes:
    """Return an old file in the form of today, and any other as it is.

    key: signs the new file if it signed the old one; None: nothing is checked of judgments.
    Raises UsageError for what is a file of ours only at first sight.
    """
    first_line, _, body = data.partition(b"\n")
    earlier = earlier_contents(first_line)
    if earlier is Contents.JUDGMENTS:
        return _upgrade_judgments(first_line, body, name, key, hint=hint, limit=max_judgments)
    if earlier is Contents.SNAPSHOT:
        return _upgrade_snapshot(first_line, body, name, key, hint=hint)
    return data


def is_judgments_line(first_line: bytes) -> bool:
    """Whether an earlier xscore's file of judgments that this one reads begins like this."""
    return _JUDGMENTS_LINE.fullmatch(first_line) is not None


def _upgrade_judgments(
    first_line: bytes, body: bytes, name: str, key: TransferKey | None, *, hint: str, limit: int
) -> bytes:
    """Form 3: `xscore-cache 3 KEY SIGNATURE`, then packed arrays of ten values."""
    match = _JUDGMENTS_LINE.fullmatch(first_line)
    if match is None:
        raise _judgments_error(first_line, name, hint)
    signer = match[1].decode()
    signature = match[2].decode()
    if key is not None:
        expected = hmac.new(key.secret, _JUDGMENTS_PURPOSE + body, sha256).hexdigest()
        if not hmac.compare_digest(signature, expected):
            # It cannot be trusted, so no line of it is read; the caller says whose it is.
            header = file_header(Contents.JUDGMENTS, signer=signer, signature=_UNVERIFIED)
            return msgspec.json.encode(header) + b"\n"
    lines = _judgment_lines(body, name, hint, limit)
    return encode_packed(Contents.JUDGMENTS, lines, key)


def _judgments_error(first_line: bytes, name: str, hint: str) -> UsageError:
    match = _ANY_JUDGMENTS_LINE.match(first_line)
    if match is None or int(match[1]) == _JUDGMENTS_FORM:
        return UsageError(f"{name} is not a file of judgments", hint=hint)
    form = int(match[1])
    if form > _JUDGMENTS_FORM:
        return newer_file_error(name, form, _JUDGMENTS_FORM)
    return UsageError(
        f"{name} was made by an older xscore (schema {form}; this one reads {_JUDGMENTS_FORM} to"
        f" {FILE_SCHEMA})",
        hint="Export it again with this version of xscore.",
    )


def _judgment_lines(body: bytes, name: str, hint: str, limit: int) -> Iterator[bytes]:
    """Yield the arrays of form 3 as records. One too many is left for the reader to refuse."""
    fields = SavedJudgment.__struct_encode_fields__
    tag = {"record": SavedJudgment.__struct_config__.tag}
    for number, line in enumerate(unpacked_lines(body, name, hint=hint), start=1):
        if number > limit + 1:
            return
        try:
            values = msgspec.json.decode(line, type=list)
            record = msgspec.json.encode(tag | dict(zip(fields, values, strict=True)))
        except (ValueError, RecursionError) as error:
            raise UsageError(
                f"{name} is damaged: judgment {number}: {without_values(error)}", hint=hint
            ) from error
        yield record


class _OldMap(Struct, frozen=True, forbid_unknown_fields=True):
    indexed_at: float = 0.0
    files: tuple[MappedFile, ...] = ()
    edges: dict[Relation, int] = {}


class _OldRetrieval(Struct, frozen=True, forbid_unknown_fields=True):
    at: float
    turn: str
    memories: tuple[str, ...] = ()


class _OldSnapshot(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Form 1 of a snapshot's first line: everything but the memories."""

    schema: Annotated[int, Meta(ge=MEMORY_SCHEMA, le=MEMORY_SCHEMA)]
    kind: Annotated[str, Meta(pattern=r"^snapshot\Z")]
    mac: Annotated[str, Meta(pattern=r"^([0-9a-f]{64}|)\Z")] = ""
    edges: tuple[Edge, ...] = ()
    retrievals: tuple[_OldRetrieval, ...] = ()
    repository_maps: tuple[_OldMap, ...] = ()
    memories: Annotated[tuple[str, ...], Meta(max_length=0)] = ()


def _upgrade_snapshot(
    first_line: bytes, body: bytes, name: str, key: TransferKey | None, *, hint: str
) -> bytes:
    """Form 1: one long first line, then the memories as `memory export` wrote them."""
    try:
        refuse_newer_schema(first_value(first_line), name, MEMORY_SCHEMA)
        old = msgspec.json.decode(first_line, type=_OldSnapshot)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{name} is not a snapshot: line 1: {without_values(error)}", hint=hint
        ) from error
    # The MAC was made of the first line without it.
    unsigned = first_line.replace(f'"mac":"{old.mac}"'.encode(), b'"mac":""', 1)
    tag = b'{"record":"memory",'
    # The memories keep the numbers of their lines, for messages.
    lines = [re.sub(rb"^\s*\{", tag, line) for line in body.split(b"\n")]
    lines += [msgspec.json.encode(record) for record in _records_of(old)]
    upgraded = b"\n".join(lines) + b"\n"
    if key is None:
        return join_file(Contents.SNAPSHOT, upgraded, None)
    mac = hmac.new(key.secret, b"snapshot\0" + unsigned + b"\n" + body, sha256).hexdigest()
    if not hmac.compare_digest(mac, old.mac):
        return join_file(Contents.SNAPSHOT, upgraded, None)
    return join_file(Contents.SNAPSHOT, upgraded, key)


def _records_of(
    old: _OldSnapshot,
) -> Iterator[SavedEdge | RetrievalTrace | SavedMap | SavedMapFile]:
    for edge in old.edges:
        yield SavedEdge(edge.source, edge.target, edge.relation, edge.weight)
    for trace in old.retrievals:
        yield RetrievalTrace(trace.at, trace.turn, trace.memories)
    for map_ in old.repository_maps:
        yield from map_records(map_.indexed_at, map_.files, map_.edges)

"""The form in which memories, snapshots and judgments leave a store: JSON lines, of which the first
says what the others are.

The first line names the form, its number and what the file holds; every other line is a record that
names its kind. A signed file says there, too, which key signed it: the signature (HMAC-SHA256)
covers the first line and every byte after it, so nothing needs to be unpacked before it is checked.
Who is believed is decided by the callers. Trade-offs: a file is held in memory; judgments, of which
there are millions, are packed and can be read only with `zlib`; lines of memories that people write
by hand may lack the first line.
"""

import hashlib
import hmac
import zlib
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from xscore.extensions.transfer.saved_records import (
    MEMORY_SCHEMA,
    SavedJudgment,
    SavedMemory,
    SavedRecord,
    SnapshotRecord,
)
from xscore.extensions.transfer.transfer_keys import TransferKey
from xscore.platform.errors import UsageError
from xscore.platform.json_lines import (
    decode_line,
    refuse_newer_schema,
    without_values,
)
from xscore.platform.text import escape_in_json

FILE_SCHEMA = 4
"""Version of the form; earlier forms had the numbers 1 (memories, snapshots) and 3
(judgments)."""
_PURPOSE = b"xscore saved file\0"
_MAX_JUDGMENT_BYTES = 8_000
_PIECE_BYTES = 1_024
"""Bytes unpacked at a time: at most 1 MB comes out of so little."""
_BOM = b"\xef\xbb\xbf"
_FORM_FIELD = b'"form"'


class Contents(StrEnum):
    """What a file holds."""

    MEMORIES = "memories"
    SNAPSHOT = "snapshot"
    JUDGMENTS = "judgments"


_NAMES: Mapping[Contents, str] = {
    Contents.MEMORIES: "a file of memories",
    Contents.SNAPSHOT: "a snapshot",
    Contents.JUDGMENTS: "a file of judgments",
}
"""Names of the contents, for messages."""
_SHAPES: Mapping[Contents, Any] = {
    Contents.MEMORIES: SavedMemory,
    Contents.SNAPSHOT: SnapshotRecord,
    Contents.JUDGMENTS: SavedJudgment,
}
"""Records that a line may be, by the kind of file; any other is refused."""
_EARLIER_JUDGMENTS = b"xscore-cache "
"""Beginning of the first line of judgments before they had the form of all files."""
_READ_BY: Mapping[Contents, str] = {
    Contents.MEMORIES: "xscore memory import",
    Contents.SNAPSHOT: "xscore memory import --snapshot",
    Contents.JUDGMENTS: "xscore store import",
}


class FileHeader(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """The first line."""

    form: Literal["xscore"]
    schema: Annotated[int, Meta(ge=FILE_SCHEMA, le=FILE_SCHEMA)]
    holds: Contents
    packing: Literal["", "zlib"] = ""
    """How the lines after this one are packed."""
    signer: Annotated[str, Meta(pattern=r"^([0-9a-f]{16})?\Z")] = ""
    """Id of the key that signed the file."""
    signature: Annotated[str, Meta(pattern=r"^([0-9a-f]{64})?\Z")] = ""

    def __post_init__(self) -> None:
        # Only the reader of judgments bounds what is unpacked.
        if bool(self.packing) != (self.holds is Contents.JUDGMENTS):
            raise ValueError("packing: judgments are packed, and nothing else is")


class SavedFile(Struct, frozen=True, kw_only=True):
    """A file whose first line was read; its records were not."""

    name: str
    """Name of the file for messages."""
    first_line: bytes
    """The first line; empty where people left it out."""
    header: FileHeader
    body: bytes


def file_header(holds: Contents, *, signer: str = "", signature: str = "") -> FileHeader:
    """Return the first line of a file of this kind."""
    packing: Literal["", "zlib"] = ""
    if holds is Contents.JUDGMENTS:
        packing = "zlib"
    return FileHeader(
        form="xscore",
        schema=FILE_SCHEMA,
        holds=holds,
        packing=packing,
        signer=signer,
        signature=signature,
    )


def encode_file(
    holds: Contents, records: Iterable[SavedRecord], key: TransferKey | None = None
) -> bytes:
    """Return a file of these records, signed with the key if there is one."""
    encode = msgspec.json.Encoder().encode
    if holds is Contents.JUDGMENTS:
        return encode_packed(holds, map(encode, records), key)
    # It may go to a terminal, and its bytes must not change on the way: they are signed.
    lines = [escape_in_json(encode(record).decode()) + "\n" for record in records]
    return join_file(holds, "".join(lines).encode(), key)


def encode_packed(holds: Contents, lines: Iterable[bytes], key: TransferKey | None) -> bytes:
    """Return a file of these lines, packed one by one, so that they are never in memory at once."""
    packer = zlib.compressobj()
    packed = [packer.compress(line + b"\n") for line in lines]
    return join_file(holds, b"".join([*packed, packer.flush()]), key)


def join_file(holds: Contents, body: bytes, key: TransferKey | None) -> bytes:
    """Return a file: the first line, signed with the key if there is one, then the body."""
    header = file_header(holds)
    if key is not None:
        header = replace(header, signer=key.id)
        header = replace(header, signature=_signature(header, body, key))
    return msgspec.json.encode(header) + b"\n" + body


def decode_file(data: bytes, name: str, holds: Contents, *, hint: str) -> SavedFile:
    """Read the first line of a file, and leave its records unread.

    Raises UsageError for what is not a file of ours, holds something else or is a newer xscore's.
    """
    # An editor put the mark there; a signature covers what comes after it.
    data = data.removeprefix(_BOM)
    first_line, _, body = data.partition(b"\n")
    value = first_value(first_line)
    if "form" not in value:
        earlier = earlier_contents(first_line)
        if earlier not in (None, holds):
            raise _other_contents_error(name, earlier, holds)
        if holds is not Contents.MEMORIES:
            raise UsageError(f"{name} is not {_NAMES[holds]}", hint=hint)
        # Lines that a person wrote.
        return SavedFile(name=name, first_line=b"", header=file_header(holds), body=data)
    refuse_newer_schema(value, name, FILE_SCHEMA)
    try:
        header = msgspec.json.decode(first_line, type=FileHeader)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{name} is not {_NAMES[holds]}: line 1: {without_values(error)}", hint=hint
        ) from error
    if header.holds is not holds:
        raise _other_contents_error(name, header.holds, holds)
    return SavedFile(name=name, first_line=first_line, header=header, body=body)


def _other_contents_error(name: str, holds: Contents, expected: Contents) -> UsageError:
    return UsageError(
        f"{name} is {_NAMES[holds]}, not {_NAMES[expected]}",
        hint=f"`{_READ_BY[holds]}` reads it.",
    )


def earlier_contents(first_line: bytes) -> Contents | None:
    """Return what a file of an earlier xscore holds, by its first line; None: memories, or it is
    none of those."""
    if first_line.startswith(_EARLIER_JUDGMENTS):
        return Contents.JUDGMENTS
    value = first_value(first_line)
    if "form" not in value and value.get("kind") == Contents.SNAPSHOT:
        return Contents.SNAPSHOT
    return None


def first_value(first_line: bytes) -> dict[str, object]:
    """Return the object in the first line; empty if there is none."""
    try:
        value = msgspec.json.decode(first_line)
    except (ValueError, RecursionError):
        return {}
    if isinstance(value, dict):
        return value
    return {}


def is_signed_with(file: SavedFile, key: TransferKey) -> bool:
    """Whether this key signed the file and no byte of it has changed since."""
    if msgspec.json.encode(file.header) != file.first_line:
        # It means the same, but we never wrote it like that.
        return False
    signature = _signature(file.header, file.body, key)
    return hmac.compare_digest(signature, file.header.signature)


def _signature(header: FileHeader, body: bytes, key: TransferKey) -> str:
    mac = hmac.new(key.secret, _PURPOSE, hashlib.sha256)
    mac.update(msgspec.json.encode(replace(header, signature="")) + b"\n")
    mac.update(body)
    return mac.hexdigest()


def read_records(
    file: SavedFile, *, hint: str, checks_keys: bool = True
) -> Iterator[tuple[int, SavedRecord]]:
    """Yield each record with the number of its line, checked.

    checks_keys: refuse a key that appears twice in one object, as in what people write by hand.
    Raises UsageError naming the line that is not a record of such a file.
    """
    decoder = msgspec.json.Decoder(_SHAPES[file.header.holds])
    first = 2 if file.first_line else 1
    # Blank lines pack so well that skipping them would cost hours; only people leave any.
    skips_blank = not file.header.packing
    for number, line in enumerate(_lines(file, hint), start=first):
        if skips_blank and not line.strip():
            continue
        place = f"{file.name}:{number}"
        if _FORM_FIELD in line and "form" in first_value(line):
            _check_next_file(line, place, file.header.holds, hint)
            continue
        record = decode_line(
            line, place, decoder, hint=hint, schema=MEMORY_SCHEMA, checks_keys=checks_keys
        )
        yield number, record


def without_damaged_lines(file: SavedFile) -> tuple[SavedFile, tuple[int, ...]]:
    """Return a file of which lines that are not JSON are left blank, and the numbers of these."""
    first = 2 if file.first_line else 1
    lines = file.body.split(b"\n")
    damaged: list[int] = []
    for place, line in enumerate(lines):
        try:
            if line.strip():
                msgspec.json.decode(line, type=dict[str, msgspec.Raw])
        except (ValueError, RecursionError):
            damaged.append(first + place)
            lines[place] = b""
    return replace(file, body=b"\n".join(lines)), tuple(damaged)


def _check_next_file(first_line: bytes, place: str, holds: Contents, hint: str) -> None:
    """Check that memories go on with another file of memories, as `cat` puts them together.

    Raises UsageError.
    """
    decode_file(first_line, place, holds, hint=hint)
    if holds is not Contents.MEMORIES:
        raise UsageError(f"{place} begins another file", hint="Import each file by itself.")


def _lines(file: SavedFile, hint: str) -> Iterable[bytes]:
    if not file.header.packing:
        return file.body.split(b"\n")
    return unpacked_lines(file.body, file.name, hint=hint)


def unpacked_lines(packed: bytes, name: str, *, hint: str) -> Iterator[bytes]:
    """Yield the lines of a packed body, holding only one at a time.

    Raises UsageError for a body that is cut short, goes on after its end or has an endless line.
    """
    unpacker = zlib.decompressobj()
    begun = b""
    at = 0
    try:
        while at < len(packed) and not unpacker.eof:
            begun += unpacker.decompress(packed[at : at + _PIECE_BYTES])
            at += _PIECE_BYTES
            *complete, begun = begun.split(b"\n")
            yield from complete
            if len(begun) > _MAX_JUDGMENT_BYTES:
                raise UsageError(f"{name} is damaged: it has an endless line", hint=hint)
    except zlib.error as error:
        raise UsageError(f"{name} is damaged: it cannot be unpacked", hint=hint) from error
    if not unpacker.eof:
        raise UsageError(f"{name} is damaged: it is cut short", hint=hint)
    if begun or unpacker.unused_data or at < len(packed):
        raise UsageError(f"{name} is damaged: it continues past its end", hint=hint)

"""Turn a parsed file into database rows in the parsing process, so that the writing process only has to store them.

Making rows and vectors is a third of the work on a file, so the parsing processes do it in parallel, and the result
crosses to the writer without further conversion. Mentions stay JSON until links are resolved. Nothing is redacted here.
"""

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct

from xscore.records.memory import FileStamp, IndexedFile, Mention, Relation
from xscore.store.memory_rows import ROW_COLUMNS, memory_row

_ID, _ENTITY, _TEXT_HASH = map(ROW_COLUMNS.index, ("id", "entity", "text_hash"))
_PROSE_HINTS = ("doc:", "path:")


class EncodedFile(Struct, frozen=True, kw_only=True, array_like=True):
    """A file ready to be written; it replaces all memories, mentions and edges of its path."""

    stamp: FileStamp
    rows: list[tuple[Any, ...]]
    """Rows of table `memory` (`memory_rows.ROW_COLUMNS`), each id once."""
    vectors: list[bytes]
    """The term vector of each row."""
    imports: tuple[tuple[str, str], ...] = ()
    """Name and hint of what the file imports."""
    bases: str = "{}"
    """`Uses` of base classes, as JSON: relation, name, hint."""
    uses: str = "{}"
    """`Uses` of everything else."""
    names: str = ""
    """All names mentioned, one a line."""
    secrets_redacted: int = 0
    note: str = ""

    def identities(self) -> dict[str, tuple[str, str]]:
        """Return entity and text hash by id, in the order of the rows."""
        return {row[_ID]: (row[_ENTITY], row[_TEXT_HASH]) for row in self.rows}


Uses = dict[str, list[tuple[Relation, str, str]]]
"""Memory id -> relation, name and hint of its mentions."""


def encode_file(file: IndexedFile) -> EncodedFile:
    """Turn the memories of a parsed file into rows, and its mentions into JSON."""
    from xscore.store.term_vectors import memory_vector  # lazy: its word lists are read from a file

    memories = {memory.id: memory for memory in file.memories}.values()
    ordered = sorted(set(file.mentions), key=lambda one: (one.source, one.relation, one.name, one.hint))
    uses = [one for one in ordered if one.relation is not Relation.IMPORTS]
    bases = [one for one in uses if _is_base(one)]
    return EncodedFile(
        stamp=file.stamp,
        rows=[memory_row(memory) for memory in memories],
        vectors=[memory_vector(memory) for memory in memories],
        imports=tuple([(one.name, one.hint) for one in ordered if one.relation is Relation.IMPORTS]),
        bases=_encode_uses(bases),
        uses=_encode_uses(one for one in uses if not _is_base(one)),
        names="\n".join(dict.fromkeys([one.name for one in ordered])),
        secrets_redacted=file.secrets_redacted,
        note=file.note,
    )


def _is_base(mention: Mention) -> bool:
    return mention.relation is Relation.REFERENCES and not mention.hint.startswith(_PROSE_HINTS)


def _encode_uses(mentions: Iterable[Mention]) -> str:
    found: Uses = {}
    for one in mentions:
        found.setdefault(one.source, []).append((one.relation, one.name, one.hint))
    return msgspec.json.encode(found).decode()


def decode_uses(written: str) -> dict[str, list[Mention]]:
    """Return mentions by the memory that has them. Raises msgspec.DecodeError."""
    found = msgspec.json.decode(written, type=Uses)
    return {source: [Mention(source, *one) for one in uses] for source, uses in found.items()}

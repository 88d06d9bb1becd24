"""Turn a parsed file into database rows in the parsing process, so that the writing process only
has to store them.

Making rows and vectors is a third of the work on a file, so the parsing processes do it in
parallel, and the result crosses to the writer without further conversion. Mentions stay packed
until links are resolved. Nothing is redacted.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from operator import attrgetter
from typing import Any

from msgspec import Struct, msgpack

from xscore.platform.hashing import file_id
from xscore.records.indexing import FileStamp, Mention
from xscore.records.memory import Memory, Relation, tested_name
from xscore.store.file_bodies import Body, compress, decompress, encode_bodies
from xscore.store.memory_rows import SqlRow
from xscore.store.memory_views import ViewRow, view_rows
from xscore.store.written_rows import (
    chain_names,
    memory_row,
    module_names,
    name_crc,
    without_body,
)

_MENTION_ORDER = attrgetter("source", "relation", "name", "hint")
_OTHER_REFERENCES = ("doc:", "path:", "value:")
"""Hints of references to something else than a base class."""


class EncodedFile(Struct, frozen=True, kw_only=True, array_like=True):
    """A file ready to be written; it replaces all memories, mentions and edges of its path."""

    stamp: FileStamp
    rows: list[tuple[Any, ...]]
    """Rows of table `memory` (`written_rows.ROW_COLUMNS`), each id once; what they say is in the
    body."""
    views: list[ViewRow]
    """All views of each memory."""
    body: bytes
    """Attributes, cards and texts (`file_bodies`)."""
    mentions: bytes
    """`FileMentions`, compressed."""
    names: list[int]
    """The CRC of each name mentioned, sorted."""
    secrets_redacted: int = 0
    note: str = ""
    """Why the grammar was not used, and what was done instead; empty if it was, or the language
    has none."""
    lacks_grammar: bool = False
    """Whether the language has a grammar that is not installed, or cannot be used."""


BATCH_MEMORIES = 20_000
"""Number of memories from which on a batch takes no further file, since a batch is held in
memory."""


def in_batches(files: Iterable[EncodedFile], size: int) -> Iterator[list[EncodedFile]]:
    """Yield files in lists of `size`, or fewer that hold many memories."""
    batch = list[EncodedFile]()
    memories = 0
    for file in files:
        batch.append(file)
        memories += len(file.rows)
        if len(batch) == size or memories >= BATCH_MEMORIES:
            yield batch
            batch, memories = [], 0
    if batch:
        yield batch


Uses = dict[str, list[tuple[Relation, str, str]]]
"""Memory id -> relation, name and hint of its mentions."""


class FileMentions(Struct, frozen=True, array_like=True):
    """What a file mentions, as it is stored."""

    imports: tuple[tuple[str, str], ...] = ()
    """Name and hint of what the file imports."""
    bases: Uses = {}
    """Mentions of base classes."""
    uses: Uses = {}
    """All other mentions."""
    defines: dict[str, tuple[str, ...]] = {}
    """Names of the values that each block of module-level code defines, by its id."""
    types: dict[str, dict[str, str]] = {}
    """Types by the id of an entity: what it returns, under an empty name, and those of its
    members and variables (`receivers`)."""

    def of(self, path: str) -> Iterator[Mention]:
        """Yield what the file at this path mentions."""
        for name, hint in self.imports:
            yield Mention(file_id(path), Relation.IMPORTS, name, hint)
        for source, uses in chain(self.bases.items(), self.uses.items()):
            for use in uses:
                yield Mention(source, *use)

    def names(self, path: str) -> list[int]:
        """Return the CRC of each name, of the files that hints refer to, and of the file that
        `path` tests; sorted."""
        mentioned = list(self.imports)
        for uses in chain(self.bases.values(), self.uses.values()):
            mentioned += [(name, hint) for _, name, hint in uses]
        names = {tested_name(path)}
        chains = list[str]()
        for name, hint in mentioned:
            names.add(name)
            if hint.startswith("at:"):
                chains.append(hint)
            else:
                names |= module_names(hint)
        for members in self.types.values():
            chains += members.values()
        # All chains at once: one search instead of one for each.
        names |= chain_names("\n".join(chains))
        return sorted({name_crc(name) for name in names})


_MENTIONS = msgpack.Decoder(FileMentions)


def encode_file(
    stamp: FileStamp,
    memories: Iterable[Memory],
    mentions: Iterable[Mention] = (),
    *,
    types: Mapping[str, dict[str, str]] = {},
    secrets_redacted: int = 0,
    note: str = "",
    lacks_grammar: bool = False,
) -> EncodedFile:
    """Turn the memories of a parsed file into rows and their body, and its mentions into a
    compressed record."""
    memories_by_id = {memory.id: memory for memory in memories}
    rows: list[SqlRow] = []
    views: list[ViewRow] = []
    bodies: dict[str, Body] = {}
    defines: dict[str, tuple[str, ...]] = {}
    for id_, memory in memories_by_id.items():
        row, bodies[id_] = without_body(memory_row(memory))
        rows.append(row)
        views += view_rows(id_, memory.views)
        if memory.facts.defines:
            defines[id_] = memory.facts.defines
    file_mentions = _file_mentions(mentions, defines, types)
    return EncodedFile(
        stamp=stamp,
        rows=rows,
        views=views,
        body=encode_bodies(bodies),
        mentions=compress(msgpack.encode(file_mentions)),
        names=file_mentions.names(stamp.path),
        secrets_redacted=secrets_redacted,
        note=note,
        lacks_grammar=lacks_grammar,
    )


def _file_mentions(
    mentions: Iterable[Mention],
    defines: dict[str, tuple[str, ...]],
    types: Mapping[str, dict[str, str]],
) -> FileMentions:
    imports: list[tuple[str, str]] = []
    bases: Uses = {}
    uses: Uses = {}
    # Sorted: the same file is stored as the same bytes.
    for mention in sorted(set(mentions), key=_MENTION_ORDER):
        if mention.relation is Relation.IMPORTS:
            imports.append((mention.name, mention.hint))
            continue
        use = (mention.relation, mention.name, mention.hint)
        (bases if _is_base(mention) else uses).setdefault(mention.source, []).append(use)
    stated = {id_: members for id_, members in types.items() if members}
    return FileMentions(tuple(imports), bases, uses, defines, stated)


def _is_base(mention: Mention) -> bool:
    return mention.relation is Relation.REFERENCES and not mention.hint.startswith(
        _OTHER_REFERENCES
    )


def decode_mentions(written: bytes) -> FileMentions:
    """Return the mentions of a file. Raises ValueError."""
    return _MENTIONS.decode(decompress(written))

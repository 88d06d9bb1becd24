"""Words of code and prose: identifiers split, lightly stemmed, hashed into the sparse vector kept beside each memory.

A vector is a run of 6-byte entries: a 32-bit term hash, the term's count in the text, and the fields that contain it
(name, owner, path, heading). Fields are flags, not weights, so that `scorer.lexical` can change the weights without a
re-index. Nothing here ranks. Pure Python, because `memory_writer` calls it for each memory. Trade-off: two terms may
share a hash (one pair in four billion), which counts as a wrong word.
"""

import re
import struct
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

from msgspec import Struct

from xscore.records.memory import Memory

if TYPE_CHECKING:
    import sqlite3

TERM_EMBEDDER = "terms-1"
"""Names this format in table `vec`; change it with any change of splitting, stemming or layout."""

NAME, WHOLE_NAME, OWNER, FILE, FOLDER, HEADING = 1, 2, 4, 8, 16, 32
"""Field flags: part of the entity's own name (`write` in `Store.write`), that whole name, part of its owner (`Store`),
of the file name, of a folder name, of the title or signature."""

TERM_ENTRY = struct.Struct("<IBB")
"""Term hash, count in the text (at most 255), field flags."""

WORDS: dict[str, str] = tomllib.loads(Path(__file__).with_name("words.toml").read_text("utf-8"))
STOPWORDS = frozenset(WORDS["stopwords"].split())
"""Words that say nothing about a task: English function words and common keywords."""

_WORD = re.compile(r"[^\W\d]\w{0,63}|\d{3,12}")
_ASCII_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}|[0-9]{3,12}")
"""The same for ASCII text, twice as fast."""
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_A-Za-z]+|\d+")


class QueryTerm(Struct, frozen=True):
    """One distinct term of a task."""

    word: str
    """Readable form, in lower case."""
    hash: int
    joined: bool
    """Joined from neighboring words (`error handler` -> `errorhandler`), so weaker evidence."""
    count: int
    """Occurrences in the task."""


def term_vector(memory_text: str, *, path: str, entity: str, title: str = "", signature: str = "") -> bytes:
    """Return the sparse vector of one memory: `TERM_ENTRY` entries in no particular order, each hash once."""
    marks = _marks(path=path, entity=entity, heading=f"{title} {signature}")
    counts = dict.fromkeys(marks, 0)
    for word, count in Counter(_words(memory_text)).items():
        for term in _hashes(word):
            counts[term] = counts.get(term, 0) + count
    size = len(counts)
    terms, entries = struct.pack(f"<{size}I", *counts), bytearray(size * TERM_ENTRY.size)
    for place in range(4):
        entries[place :: TERM_ENTRY.size] = terms[place::4]
    frequencies = counts.values()
    entries[4 :: TERM_ENTRY.size] = bytes(
        frequencies if max(frequencies, default=0) < 256 else [min(count, 255) for count in frequencies]
    )
    entries[5 :: TERM_ENTRY.size] = bytes(marks.values()).ljust(size, b"\0")  # terms with flags come first
    return bytes(entries)


def memory_vector(memory: Memory) -> bytes:
    """Return the sparse vector of a memory."""
    return term_vector(
        memory.text, path=memory.path, entity=memory.entity, title=memory.title, signature=memory.facts.signature
    )


def put_vectors(connection: "sqlite3.Connection", vectors: Iterable[tuple[str, bytes]]) -> None:
    """Store the sparse vectors of memories, by id."""
    connection.executemany(
        "INSERT INTO vec (memory_id, embedder, data) VALUES (?, ?, ?)"
        " ON CONFLICT (memory_id, embedder) DO UPDATE SET data = excluded.data",
        ((id_, TERM_EMBEDDER, vector) for id_, vector in vectors),
    )


def _words(text: str) -> list[str]:
    return (_ASCII_WORD if text.isascii() else _WORD).findall(text)


def query_terms(text: str) -> tuple[QueryTerm, ...]:
    """Return the distinct terms of a task or an error text, in order of appearance, then joined neighbors."""
    words = _words(text)
    whole = _counted(pair for word in words for pair in split_word(word))
    joined = _counted(_joined(words))
    terms = [QueryTerm(word, term, False, count) for term, (word, count) in whole.items()]
    terms += [QueryTerm(word, term, True, count) for term, (word, count) in joined.items() if term not in whole]
    return tuple(terms)


def split_word(word: str) -> tuple[tuple[str, int], ...]:
    """Return the terms of one word as (readable, hash): its stemmed parts, and a compound identifier also whole."""
    parts = [part.lower() for part in _PART.findall(word)]
    terms = [part for part in parts if len(part) > 1 and part not in STOPWORDS]
    found = [(part, _hash(stem(part))) for part in terms]
    if len(parts) > 1:
        found.append((word.lower(), _hash(_whole(parts))))
    return tuple(found)


@lru_cache(maxsize=1 << 16)
def _hashes(word: str) -> tuple[int, ...]:
    return tuple(term for _, term in split_word(word))


def stem(word: str) -> str:
    """Strip English inflections, so that `parses`, `parsed` and `parsing` are one term.

    Irregular verbs (`written` is `write`) and programmers' abbreviations (`attrs`) are mapped by table.
    """
    if len(word) < 4 or not word.isascii():
        return _LONG_FORM.get(word, word)
    if word.endswith("ies") and len(word) > 4:
        word = word[:-3] + "y"
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    if word in _LONG_FORM:
        return _LONG_FORM[word]
    for ending in ("ing", "ed"):
        base = word[: -len(ending)]
        if word.endswith(ending) and len(base) >= 3 and any(vowel in base for vowel in "aeiouy"):
            word = base[:-1] if base[-1] == base[-2] and base[-1] not in "ls" else base
            break
    return word[:-1] if word.endswith("e") and len(word) > 3 else word


def _marks(*, path: str, entity: str, heading: str) -> dict[int, int]:
    """Return the field flags of each term."""
    folder, _, file = path.rpartition("/")
    owner, _, name = entity.rpartition(" > " if " > " in entity else ".")
    marks: dict[int, int] = {}
    fields = ((name, NAME), (owner, OWNER), (file.partition(".")[0], FILE), (folder, FOLDER), (heading, HEADING))
    for text, mark in fields:
        for word in _words(text):
            for term in _hashes(word):
                marks[term] = marks.get(term, 0) | mark
    words = _words(name)
    for term in _hashes(words[0])[-1:] if len(words) == 1 else ():
        marks[term] |= WHOLE_NAME
    return marks


def _joined(words: Iterable[str]) -> Iterator[tuple[str, int]]:
    previous: list[str] = []
    for word in words:
        parts = [part.lower() for part in _PART.findall(word)]
        if len(parts) == 1 and len(previous) == 1 and parts[0] not in STOPWORDS and previous[0] not in STOPWORDS:
            yield f"{previous[0]} {parts[0]}", _hash(_whole([*previous, *parts]))
        previous = parts


def _counted(pairs: Iterable[tuple[str, int]]) -> dict[int, tuple[str, int]]:
    counted: dict[int, tuple[str, int]] = {}
    for word, term in pairs:
        counted[term] = (counted[term][0], counted[term][1] + 1) if term in counted else (word, 1)
    return counted


def _whole(parts: list[str]) -> str:
    return "".join([*parts[:-1], stem(parts[-1])])


def _hash(term: str) -> int:
    return crc32(term.encode("utf-8", "surrogatepass"))


_LONG_FORM: dict[str, str] = {}
for _forms in f"{WORDS['short_forms']};{WORDS['irregular_verbs']}".split(";"):
    _long, *_shorts = _forms.split()
    _LONG_FORM |= dict.fromkeys(_shorts, stem(_long))

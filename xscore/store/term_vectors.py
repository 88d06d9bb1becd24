"""Words of code and prose: identifiers split, lightly stemmed, hashed into the sparse vector kept beside each memory.

A vector is a run of 6-byte entries: a 32-bit term hash, how often the text has the term, and in which fields it stands
(name, owner, path, heading). Fields are marks and not weights, so that the reading side (`scorer.lexical`) can weigh
them anew without a re-index. Nothing here ranks or knows a pool. Pure Python, because the write door calls it for each
memory; the trade-off of hashing is that two terms may share one (a pair in four billion), worth a wrong word at worst.
"""

import re
import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain
from zlib import crc32

from msgspec import Struct

TERM_EMBEDDER = "terms-1"
"""Names this format in table `vec`; another way of splitting, stemming or laying out is another embedder."""

NAME = 1
"""Part of the entity's own name (`write` in `Store.write`)."""
WHOLE_NAME = 2
"""The entity's own name, whole."""
OWNER = 4
"""Part of what the entity stands in (`Store` in `Store.write`)."""
FILE = 8
"""Part of the file's name."""
FOLDER = 16
"""Part of a folder's name."""
HEADING = 32
"""Part of the title or signature."""

TERM_ENTRY = struct.Struct("<IBB")
"""Term hash, frequency in the text (at most 255), field marks."""

_ENGLISH = """
    a about after again all also am an and any are as at be because been before being below between both but by
    can cannot could did do does doing done down during each few for from further get had has have having he her here
    hers him his how i if in into is it its itself just let like may me might more most must my no nor not of off on
    once only or other our ours out over own per same shall she should so some such than that the their theirs them then
    there these they this those through thus to too under until up upon us use used uses using very was we were what
    when where whether which while who whom why will with within without would you your yours
"""
_KEYWORDS = "self cls def return elif else const null undefined"
STOPWORDS = frozenset(f"{_ENGLISH} {_KEYWORDS}".split())
"""Words that say nothing of a task: English function words and the commonest keywords."""

_SHORT_FORMS = """
    argument arg; attribute attr; parameter param; configuration config conf cfg; initialize init;
    function func fn; message msg; string str; directory dir; context ctx; environment env; request req;
    response resp; error err; exception exc; number num; integer int; boolean bool; dictionary dict; length len;
    object obj; value val; command cmd; option opt; document doc; information info; iterator iter;
    index idx; element elem; source src; destination dest dst; temporary tmp temp; implementation impl;
    property prop; reference ref; representation repr; specification spec; authentication auth;
    database db; generate gen; maximum max; minimum min; previous prev; current cur curr; position pos;
    extension ext; description desc; operation op ops; equal eq; remove rm; application app; calculate calc;
    character char; column col; dimension dim; expression expr; format fmt; library lib; location loc;
    module mod; package pkg; process proc; separator sep; sequence seq; statement stmt; system sys; token tok;
    variable var; version ver; window win; address addr; buffer buf; callback cb; connection conn;
    declaration decl; signature sig; condition cond; warning warn; utility util utils; button btn
"""
_WORD = re.compile(r"[^\W\d]\w{0,63}|\d{3,12}")
_ASCII_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}|[0-9]{3,12}")
"""The same for text of ASCII alone, found twice as fast."""
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_A-Za-z]+|\d+")
_IRREGULAR = """
    write wrote written; choose chose chosen; find found; send sent; build built; run ran; give gave given; hold held;
    keep kept; make made; take took taken; throw threw thrown; begin began begun; break broke broken; hide hid hidden;
    lose lost; leave left; mean meant; know knew known; show shown; draw drew drawn; bring brought; catch caught;
    tell told; go went gone; get got gotten; forget forgot forgotten; freeze froze frozen
"""


class QueryTerm(Struct, frozen=True):
    """One distinct term of a task."""

    word: str
    """As a reader knows it, in lower case."""
    hash: int
    joined: bool
    """Pieced together from neighbouring words (`error handler` -> `errorhandler`), so weaker evidence of intent."""
    count: int
    """How often the task has it."""


def term_vector(memory_text: str, *, path: str, entity: str, title: str = "", signature: str = "") -> bytes:
    """Return the sparse vector of one memory: entries of `ENTRY` in no particular order, each hash once."""
    marks = _marks(path=path, entity=entity, heading=f"{title} {signature}")
    counts = Counter(dict.fromkeys(marks, 0))
    counts.update(chain.from_iterable(map(_hashes, _words(memory_text))))
    size = len(counts)
    terms, entries = struct.pack(f"<{size}I", *counts), bytearray(size * TERM_ENTRY.size)
    for place in range(4):
        entries[place :: TERM_ENTRY.size] = terms[place::4]
    often = counts.values()
    entries[4 :: TERM_ENTRY.size] = bytes(
        often if max(often, default=0) < 256 else [min(count, 255) for count in often]
    )
    entries[5 :: TERM_ENTRY.size] = bytes(marks.values()).ljust(size, b"\0")  # the terms that have marks stand first
    return bytes(entries)


def _words(text: str) -> list[str]:
    return (_ASCII_WORD if text.isascii() else _WORD).findall(text)


def query_terms(text: str) -> tuple[QueryTerm, ...]:
    """Return the distinct terms of a task or an error text, in order of first appearance, neighbours joined last."""
    words = _words(text)
    whole = _counted(pair for word in words for pair in split_word(word))
    joined = _counted(_joined(words))
    terms = [QueryTerm(word, term, False, count) for term, (word, count) in whole.items()]
    terms += [QueryTerm(word, term, True, count) for term, (word, count) in joined.items() if term not in whole]
    return tuple(terms)


def split_word(word: str) -> tuple[tuple[str, int], ...]:
    """Return the terms of one word as (readable, hash): its parts, stemmed, and a compound identifier whole as well."""
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
    """Cut the endings that English inflects with, so that `parses`, `parsed` and `parsing` are one term.

    Irregular verbs follow (`written` is `write`), and the short forms of programmers are their long forms (`attrs`).
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
    """Return the fields in which each term stands, as or-ed marks."""
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
for _forms in f"{_SHORT_FORMS};{_IRREGULAR}".split(";"):
    _long, *_shorts = _forms.split()
    _LONG_FORM |= dict.fromkeys(_shorts, stem(_long))

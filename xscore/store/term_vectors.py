"""Words of code and prose: identifiers split, lightly stemmed, hashed into the sparse vector
kept with each memory.

A vector is a run of 6-byte entries: a 32-bit term hash, the term's count in the text, and the
fields that contain it (name, owner, path, heading). Fields are flags, not weights, so that
`scorer.lexical` can change the weights without a re-index. Nothing here ranks. Pure Python, because
`memory_writer` calls it for each memory. Trade-off: two terms may share a hash (one pair in four
billion), which counts as a wrong word.
"""

import re
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from itertools import chain
from pathlib import Path
from zlib import crc32

from msgspec import Struct, json

from xscore.platform.patterns import compiled_late
from xscore.records.candidates import TERM_ENTRY
from xscore.records.memory import BLOCK_NAME, WITHIN, Kind, Memory

TERM_EMBEDDER = "terms-3"
"""Names this format, in column `memory.terms`; change it with any change of splitting, stemming or
layout."""

NAME, WHOLE_NAME, OWNER, FILE, FOLDER, HEADING = 1, 2, 4, 8, 16, 32
"""Field flags: part of the entity's own name (`write` in `Store.write`), that whole name, part of
its owner (`Store`), of the file name, of a folder name, of the title or signature."""

WORDS: dict[str, str] = json.decode(Path(__file__).with_name("words.json").read_bytes())
STOPWORDS = frozenset(WORDS["stopwords"].split())
"""Words that say nothing about a task: English function words and common keywords."""

_WORD = compiled_late(r"[^\W\d]\w{0,63}|\d{3,12}")
_ASCII_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}|[0-9]{3,12}")
"""Matches a word in ASCII text, twice as fast as `_WORD`."""
_SPACED = bytes(
    byte if byte >= 128 or re.match(r"\w", chr(byte)) else 32 for byte in range(256)
)
"""Turns every ASCII byte that is in no word into a space."""
MOST_RUNS, MOST_RUN_BYTES = 1 << 17, 64
"""How many runs of word characters keep their terms, and how long one may be."""
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_ACCENTED_PART = compiled_late(
    r"[A-ZÀ-ÖØ-Þ]+(?![a-zß-öø-ÿ])|[A-ZÀ-ÖØ-Þ]?[a-zß-öø-ÿĀ-ſ]+|[^\W\d_A-Za-zÀ-ÖØ-öø-ſ]+|\d+"
)
"""Matches a part of a word that is not ASCII: letters with accents are letters of their
word."""
MOST_JOINED, MOST_JOINED_FROM = 20, 2_000
"""Most characters of a run of joined pairs, and how many characters of the task are searched
for such runs."""
_UNSPACED = compiled_late(
    r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]+"
)
"""Matches runs of Thai, Japanese, Chinese and Korean, which put no blanks between words or
write particles onto them."""


class QueryTerm(Struct, frozen=True):
    """One distinct term of a task."""

    word: str
    """The term in readable form, in lower case."""
    hash: int
    joined: bool
    """Whether it was joined from neighboring words (`error handler` -> `errorhandler`), and so
    is weaker evidence."""
    count: int
    """Number of occurrences in the task."""
    share: float = 1.0
    """How much of a word of the task it is; less than 1: it occurs only as a part of compounds
    (`ClickHouse`)."""


def term_vector(
    memory_text: str,
    *,
    path: str,
    entity: str,
    title: str = "",
    signature: str = "",
    defines: Iterable[str] = (),
    aliases: Iterable[str] = (),
) -> bytes:
    """Return the sparse vector of one memory: `TERM_ENTRY` entries in no particular order, each
    hash once.

    defines: the names that a block of module-level code has instead of its made-up one.
    aliases: other names of what a stated memory is about, of one word or several.
    """
    if entity.startswith(BLOCK_NAME):
        title = title.removeprefix(entity)
        entity = ""
    marks = _marks(path=path, entity=entity, heading=f"{title} {signature}", defines=defines)
    for alias in aliases:
        _mark_alias(marks, alias)
    counts = Counter(dict.fromkeys(marks, 0))
    counts.update(_terms(memory_text))
    size = len(counts)
    frequencies = counts.values()
    terms = struct.pack(f"<{size}I", *counts)
    entries = bytearray(size * TERM_ENTRY.size)
    for place in range(4):
        entries[place :: TERM_ENTRY.size] = terms[place::4]
    entries[4 :: TERM_ENTRY.size] = bytes(
        frequencies
        if max(frequencies, default=0) < 256
        else [min(count, 255) for count in frequencies]
    )
    # Terms with flags come first.
    entries[5 :: TERM_ENTRY.size] = bytes(marks.values()).ljust(size, b"\0")
    return bytes(entries)


def memory_vector(memory: Memory) -> bytes:
    """Return the sparse vector of a memory."""
    facts = memory.facts
    # The title of an exchange is its task, which would match itself whenever it is asked again.
    is_exchange = memory.kind is Kind.EXCHANGE and bool(memory.card)
    return term_vector(
        memory.card if is_exchange else memory.text,
        path=memory.path,
        entity=memory.entity,
        title="" if is_exchange else memory.title,
        signature=facts.signature,
        defines=facts.defines,
        aliases=memory.details.aliases,
    )


def _words(text: str) -> list[str]:
    if text.isascii():
        return _ASCII_WORD.findall(text)
    words: list[str] = []
    for word in _WORD.findall(text):
        if word.isascii() or not _UNSPACED.search(word):
            words.append(word)
        else:
            words += _pairs_of_unspaced(word)
    return words


def _pairs_of_unspaced(word: str) -> list[str]:
    """Split a run into overlapping pairs of characters: most words of Chinese have two. Letters
    between such runs stay together."""
    pieces: list[str] = []
    end = 0
    for run in _UNSPACED.finditer(word):
        pieces.append(word[end : run.start()])
        characters = run[0]
        pieces += [characters[at : at + 2] for at in range(max(1, len(characters) - 1))]
        end = run.end()
    pieces.append(word[end:])
    return [piece for piece in pieces if piece]


def without_overlaps(words: Sequence[str], task: str) -> list[str]:
    """Return words as one reads them: pairs that follow each other in the task, as
    `_pairs_of_unspaced` makes them, become the run that they are part of."""
    pairs = {word for word in words if not word.isascii()}
    if not pairs:
        return [*words]
    run_of_pair: dict[str, str] = {}
    for unspaced in _UNSPACED.findall(task[:MOST_JOINED_FROM]):
        for run in _runs_of_pairs(unspaced, pairs):
            for at in range(len(run) - 1):
                run_of_pair.setdefault(run[at : at + 2], run)
    runs = [run_of_pair.get(word, word) for word in words]
    return list(dict.fromkeys(runs))


def _runs_of_pairs(characters: str, pairs: AbstractSet[str]) -> Iterator[str]:
    """Yield the parts of a run of characters whose neighbors are all among these pairs."""
    run = ""
    for at in range(len(characters) - 1):
        pair = characters[at : at + 2]
        if pair not in pairs:
            if run:
                yield run
            run = ""
        elif run and len(run) < MOST_JOINED:
            run += pair[1]
        else:
            if run:
                yield run
            run = pair
    if run:
        yield run


def _parts(word: str) -> list[str]:
    """Return the parts of a word: `Parsed`, `Error` and `2` of `ParsedError2`."""
    return (_PART if word.isascii() else _ACCENTED_PART).findall(word)


def task_words(text: str) -> list[str]:
    """Return the words of a task in order, stop words too."""
    return _words(text)


def query_terms(text: str) -> tuple[QueryTerm, ...]:
    """Return the distinct terms of a task or an error text, in order of appearance, then joined
    neighbors."""
    words = _words(text)
    split = [*map(split_word, words)]
    counted = _counted(chain.from_iterable(split))
    joined = _counted(_joined(words))
    shares = _shares(split)
    terms = [
        QueryTerm(word, term, False, count, shares[term])
        for term, (word, count) in counted.items()
    ]
    terms += [
        QueryTerm(word, term, True, count)
        for term, (word, count) in joined.items()
        if term not in counted
    ]
    return tuple(terms)


def split_word(word: str) -> tuple[tuple[str, int], ...]:
    """Return the terms of one word as (readable, hash): its stemmed parts, and a compound
    identifier also whole."""
    parts = [part.lower() for part in _parts(word)]
    terms = [part for part in parts if len(part) > 1 and part not in STOPWORDS]
    pairs = [(part, _hash(stem(part))) for part in terms]
    if len(parts) > 1:
        pairs.append((word.lower(), _hash(_whole(parts))))
    return tuple(pairs)


class _TermsOfRuns(dict[bytes, tuple[int, ...]]):
    """The terms of a run of word characters (UTF-8), made when first asked for."""

    def __missing__(self, run: bytes) -> tuple[int, ...]:
        # One word: most runs are.
        if run.isalpha() and run.islower() and len(run) <= MOST_RUN_BYTES:
            _, term = _read_part(run.decode())
            terms: tuple[int, ...] = () if term is None else (term,)
        else:
            terms = tuple(_terms_of_words(_words(run.decode("utf-8", "surrogatepass"))))
        if len(run) <= MOST_RUN_BYTES:
            if len(self) >= MOST_RUNS:
                self.clear()
            self[run] = terms
        return terms


_TERMS_OF_RUN = _TermsOfRuns().__getitem__


def _terms(text: str) -> Iterator[int]:
    """Yield the terms of a text in order.

    Splitting at bytes that are in no word takes half the time of a pattern.
    """
    return chain.from_iterable(
        map(_TERMS_OF_RUN, text.encode("utf-8", "surrogatepass").translate(_SPACED).split())
    )


def text_terms(text: str) -> frozenset[int]:
    """Return the distinct terms of a text."""
    return frozenset(_terms(text))


@lru_cache(maxsize=1 << 10)
def _terms_of_owner(text: str) -> tuple[int, ...]:
    """Return the terms of what the members of a class share."""
    return tuple(_terms(text))


@lru_cache(maxsize=1 << 6)
def _marks_of_path(path: str) -> dict[int, int]:
    """Return the field flags of the terms of a path, which all memories of a file share."""
    folder, _, file = path.rpartition("/")
    marks = dict.fromkeys(_terms(file.partition(".")[0]), FILE)
    for term in _terms(folder):
        marks[term] = marks.get(term, 0) | FOLDER
    return marks


def _terms_of_words(words: Iterable[str]) -> Iterator[int]:
    """Yield the terms of `split_word`, without their readable forms."""
    for word in words:
        parts = _parts(word)
        stemmed = ""
        for part in parts:
            stemmed, term = _read_part(part)
            if term is not None:
                yield term
        if len(parts) > 1:
            yield _hash("".join([part.lower() for part in parts[:-1]]) + stemmed)


@lru_cache(maxsize=1 << 15)
def _read_part(part: str) -> tuple[str, int | None]:
    """Return the stem of one part of a word, and its term; None if it says nothing."""
    word = part.lower()
    stemmed = stem(word)
    return stemmed, _hash(stemmed) if len(word) > 1 and word not in STOPWORDS else None


def stem(word: str) -> str:
    """Strip English inflections, so that `parses`, `parsed` and `parsing` are one term.

    Irregular forms (`written` is `write`) and programmers' abbreviations (`attrs`) are mapped by
    table.
    """
    if len(word) < 4 or not word.isascii() or word in _LONG_FORM:
        return _LONG_FORM.get(word, word)
    if word.endswith(("ies", "ied", "ie")) and len(word) > 4:
        word = word.removesuffix("s").removesuffix("d")[:-2] + "y"
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    if word in _LONG_FORM:
        return _LONG_FORM[word]
    if word.endswith("ing"):
        base = word.removesuffix("ing")
    else:
        base = word.removesuffix("ed")
    if len(base) >= 3 and base != word and not word.endswith("eed") and _VOWEL.search(base):
        is_doubled = len(base) > 3 and base[-1] == base[-2] and base[-1] in _DOUBLED
        word = base[:-1] if is_doubled else base
    # `install` and `instal`, `controlled` and `control`.
    if word.endswith("ll") and len(_VOWEL.findall(word)) > 1:
        return word[:-1]
    if word.endswith("e") and len(word) > 3:
        return word[:-1]
    return word


_VOWEL = re.compile("[aeiouy]+")
_DOUBLED = frozenset("bdgkmnprtv")
"""Consonants that double before an ending; `pass`, `diff`, `fuzz` and `call` end in two of their
own."""


def _marks(*, path: str, entity: str, heading: str, defines: Iterable[str]) -> dict[int, int]:
    """Return the field flags of each term."""
    owner, _, name = entity.rpartition(WITHIN if WITHIN in entity else ".")
    marks = _marks_of_path(path).copy()
    for terms, mark in ((_terms_of_owner(owner), OWNER), (_terms(heading), HEADING)):
        for term in terms:
            marks[term] = marks.get(term, 0) | mark
    for full_name in (name, *defines):
        terms_of_name = [*_terms(full_name)]
        for term in terms_of_name:
            marks[term] = marks.get(term, 0) | NAME
        if terms_of_name and len(_words(full_name)) == 1:
            marks[terms_of_name[-1]] |= WHOLE_NAME
    return marks


def _mark_alias(marks: dict[int, int], alias: str) -> None:
    """Mark the terms of an alias as a name, and all its words together as the whole name."""
    words = _words(alias)
    for term in _terms_of_words(words):
        marks[term] = marks.get(term, 0) | NAME
    phrase = phrase_hash(words)
    if phrase is not None:
        marks[phrase] = marks.get(phrase, 0) | NAME | WHOLE_NAME


def phrase_hash(words: Iterable[str]) -> int | None:
    """Return the term of words that are adjacent, which is that of an identifier made of them;
    None if they have no letter and no digit."""
    parts: list[str] = []
    for word in words:
        parts += [part.lower() for part in _parts(word)]
    return _hash(_whole(parts)) if parts else None


def _joined(words: Iterable[str]) -> Iterator[tuple[str, int]]:
    previous: list[str] = []
    for word in words:
        parts = [part.lower() for part in _parts(word)]
        if (
            len(parts) == 1
            and len(previous) == 1
            and parts[0] not in STOPWORDS
            and previous[0] not in STOPWORDS
        ):
            yield f"{previous[0]} {parts[0]}", _hash(_whole([*previous, *parts]))
        previous = parts


def _shares(words: Iterable[tuple[tuple[str, int], ...]]) -> dict[int, float]:
    """Return how much of a word each term is: a compound is one word, and so are its parts
    together."""
    shares: dict[int, float] = {}
    for terms in words:
        for _, part in terms[:-1]:
            shares[part] = max(shares.get(part, 0.0), 1 / (len(terms) - 1))
        for _, word_term in terms[-1:]:
            shares[word_term] = 1.0
    return shares


def _counted(pairs: Iterable[tuple[str, int]]) -> dict[int, tuple[str, int]]:
    counted: dict[int, tuple[str, int]] = {}
    for word, term in pairs:
        first_word, count = counted.get(term, (word, 0))
        counted[term] = (first_word, count + 1)
    return counted


def _whole(parts: list[str]) -> str:
    return "".join([*parts[:-1], stem(parts[-1])])


def _hash(term: str) -> int:
    return crc32(term.encode("utf-8", "surrogatepass"))


_LONG_FORM: dict[str, str] = {}
for _forms in f"{WORDS['short_forms']};{WORDS['irregular_forms']}".split(";"):
    _long, *_shorts = _forms.split()
    _LONG_FORM |= dict.fromkeys(_shorts, stem(_long))

_EVERYDAY = frozenset(map(stem, WORDS["everyday"].split()))


def is_everyday(word: str) -> bool:
    """Return whether a word is one of everyday questions in any form: those count only where the
    pool has them."""
    return stem(word) in _EVERYDAY

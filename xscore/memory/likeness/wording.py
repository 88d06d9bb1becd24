"""What a sentence says, as comparable words: case, punctuation, inflection, fillers and synonyms taken off.

Each word of a text becomes a `Word`: what it is compared by, how it was spelled, and whether a clause or a sentence
begins with it. Fillers vanish, a word of a group in `wording.txt` becomes the group's name. Signs that carry meaning
(`<`, `%`, the plus signs of C++, a question mark, a tick or cross) stay words. This is for sentences: brackets, quotes
and dashes of code are lost. It does not compare anything. Trade-off: a synonym that no group has is another word.
"""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files

from xscore.memory.likeness.terms import stem

_TOKEN = re.compile(
    r"\w+"
    r"|(?<=\w)(?:\+\+|#)"  # C++, C#
    r"|[<>=!~]=|[<>=+%&|^~$@]"
    r"|(?<![\w)])-(?=\d)"  # a sign, not a dash
    r"|\?(?=\s|$)"
    r"|[^\w\s\x00-\x7f\u00a1\u00ab\u00b7\u00bb\u00bf\u2010-\u206f]"  # ticks, crosses, arrows, currencies
)
_CLAUSE = re.compile(r"[,;:.!?()\[\]\n–—]")
_SENTENCE = re.compile(r"[.!?;](?=\s|$)|\n")
_CODE = re.compile(r"`+([^`\n]+)`+")
_CAN_NOT = re.compile(r"\bcan(?:['’]t|not)\b", re.IGNORECASE)
_NOT = re.compile(r"(?<=[a-z])n['’]t\b", re.IGNORECASE)
_IS = re.compile(r"\b(it|that|there|what|he|she)['’]s\b", re.IGNORECASE)
_PLAIN = re.compile(r"[a-z]+")
_MARKER_WORDS = "when whenever if because so while whilst after before since unless until although though for"
_MARKERS = frozenset(_MARKER_WORDS.split())
"""Words that begin a clause without a comma before them."""

Phrase = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a text."""

    key: str
    """What it is compared by: stemmed, a synonym's group, or itself."""
    spelled: str
    """As written, in lower case."""
    code: bool
    """It stood between backticks or is part of a dotted name, so that its spelling matters."""
    clause: bool
    """A clause begins with it."""
    sentence: int
    """Ordinal of its sentence."""


def words(text: str) -> list[Word]:
    """Return the words of a text that say something; all of them where only fillers are there."""
    plain = _IS.sub(r"\1 is", _NOT.sub(" not", _CAN_NOT.sub("can not", unicodedata.normalize("NFKC", text))))
    raw = list(_raw(plain, [match.span(1) for match in _CODE.finditer(plain)]))
    return list(_said(raw)) or raw


def _raw(text: str, code: list[tuple[int, int]]) -> Iterator[Word]:
    ends = [match.start() for match in _SENTENCE.finditer(text)]
    starts = [start for start, _ in code]
    end = 0
    for match in _TOKEN.finditer(text):
        spelled, start = match[0].lower(), match.start()
        span = bisect_right(starts, start) - 1
        clause = not end or bool(_CLAUSE.search(text, end, start)) or spelled in _MARKERS
        is_code = (span >= 0 and start < code[span][1]) or _is_dotted(text, start, match.end())
        yield Word(_key(spelled), spelled, is_code, clause, bisect_left(ends, start))
        end = match.end()


def _is_dotted(text: str, start: int, end: int) -> bool:
    """Whether a dot, slash or colon binds the word to another without a space."""
    before = start >= 2 and text[start - 1] in "./:" and text[start - 2].isalnum()
    return before or (text[end : end + 1] in tuple("./:") and text[end + 1 : end + 2].isalnum())


def _said(raw: list[Word]) -> Iterator[Word]:
    """Yield the words without fillers, phrases of a group as the group's name."""
    phrases, at, begins = _phrases(), 0, False
    while at < len(raw):
        word = raw[at]
        name, length = _longest(phrases.get(word.spelled, ()), raw, at)
        begins = begins or word.clause
        for part in name:
            yield Word(part, word.spelled if length == 1 else part, word.code, begins, word.sentence)
            begins = False
        at += length


def _longest(found: Iterable[tuple[Phrase, Phrase]], raw: list[Word], at: int) -> tuple[Phrase, int]:
    for phrase, name in found:
        if tuple(word.spelled for word in raw[at : at + len(phrase)]) == phrase and not raw[at].code:
            return name, len(phrase)
    return (raw[at].key,), 1


@lru_cache(maxsize=1 << 14)
def _key(word: str) -> str:
    """Return the stem of a word or its group, the past kept apart (`used`).

    A word with a digit, an underscore or a foreign letter stays as it is.
    """
    if not _PLAIN.fullmatch(word):
        return word
    stemmed, groups = stem(word), _groups()
    if not word.endswith("ed") or len(word) < 4:
        return groups.get(stemmed, stemmed)
    stemmed = word[:-1] if stemmed == word and word[:-1] in groups else stemmed  # `used`, too short to be stemmed
    return f"{groups.get(stemmed, stemmed)}+ed"


@cache
def _groups() -> dict[str, str]:
    """Return the group of each single word, by stem."""
    return {
        stem(one): stem(name)
        for name, members in _table()
        for one in (name, *members)
        if " " not in one and " " not in name
    }


@cache
def _phrases() -> dict[str, tuple[tuple[Phrase, Phrase], ...]]:
    """Return phrases and what they become, longest first, by their first word; fillers become nothing."""
    found: dict[str, list[tuple[Phrase, Phrase]]] = {}
    for name, members in _table():
        becomes = () if name == "=" else tuple(_key(part) for part in name.split())
        for phrase in (tuple(one.lower().split()) for one in members):
            if name == "=" or len(phrase) > 1 or len(becomes) > 1:
                found.setdefault(phrase[0], []).append((phrase, becomes))
    return {first: tuple(sorted(pairs, key=lambda pair: -len(pair[0]))) for first, pairs in found.items()}


@cache
def _table() -> tuple[tuple[str, tuple[str, ...]], ...]:
    rows = []
    for line in files("xscore.memory.likeness").joinpath("wording.txt").read_text("utf-8").splitlines():
        name, _, members = line.partition(" " if line.startswith("=") else ":")
        if not line.startswith("#"):
            rows.append((name, tuple(one.strip() for one in members.split(",") if one.strip())))
    return tuple(rows)

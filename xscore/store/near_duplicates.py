"""Texts that say the same: other case, punctuation, fillers, synonyms, order of clauses, or an afterthought.

Merging loses a text for good, so the rule is strict: two texts are duplicates when `wording` makes of both the
same words, in clauses that may have changed places, and one of the two may end in an afterthought that takes nothing
back ("It was agreed on Monday."). A number, a name, a negation or any other word that only one of them has keeps them
apart. Because equal words are demanded, candidates are found by a hash of the sorted words of a text and of its
beginnings: each true pair shares one, so none is missed as a banded signature would miss some, and the work is linear.
Trade-off: a synonym that `wording.txt` does not know is a miss, as are long texts in many pieces, and never a false
merge.

What a sentence says, as comparable words: case, punctuation, inflection, fillers and synonyms taken off.

Each word of a text becomes a `Word`: what it is compared by, how it was spelled, and whether a clause or a sentence
begins with it. Fillers vanish, a word of a group in `wording.txt` becomes the group's name. Signs that carry meaning
(`<`, `%`, the plus signs of C++, a question mark, a tick or cross) stay words. This is for sentences: brackets, quotes
and dashes of code are lost. It does not compare anything. Trade-off: a synonym that no group has is another word.
"""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from hashlib import blake2b
from importlib.resources import files
from itertools import pairwise

from msgspec import Struct

from xscore.store.term_vectors import stem

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


class ComparableWord(Struct, frozen=True):
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


def comparable_words(text: str) -> list[ComparableWord]:
    """Return the words of a text that say something; all of them where only fillers are there."""
    plain = _IS.sub(r"\1 is", _NOT.sub(" not", _CAN_NOT.sub("can not", unicodedata.normalize("NFKC", text))))
    raw = list(_raw(plain, [match.span(1) for match in _CODE.finditer(plain)]))
    return list(_said(raw)) or raw


def _raw(text: str, code: list[tuple[int, int]]) -> Iterator[ComparableWord]:
    ends = [match.start() for match in _SENTENCE.finditer(text)]
    starts = [start for start, _ in code]
    end = 0
    for match in _TOKEN.finditer(text):
        spelled, start = match[0].lower(), match.start()
        span = bisect_right(starts, start) - 1
        clause = not end or bool(_CLAUSE.search(text, end, start)) or spelled in _MARKERS
        is_code = (span >= 0 and start < code[span][1]) or _is_dotted(text, start, match.end())
        yield ComparableWord(_key(spelled), spelled, is_code, clause, bisect_left(ends, start))
        end = match.end()


def _is_dotted(text: str, start: int, end: int) -> bool:
    """Whether a dot, slash or colon binds the word to another without a space."""
    before = start >= 2 and text[start - 1] in "./:" and text[start - 2].isalnum()
    return before or (text[end : end + 1] in tuple("./:") and text[end + 1 : end + 2].isalnum())


def _said(raw: list[ComparableWord]) -> Iterator[ComparableWord]:
    """Yield the words without fillers, phrases of a group as the group's name."""
    phrases, at, begins = _phrases(), 0, False
    while at < len(raw):
        word = raw[at]
        name, length = _longest_phrase(phrases.get(word.spelled, ()), raw, at)
        begins = begins or word.clause
        for part in name:
            yield ComparableWord(part, word.spelled if length == 1 else part, word.code, begins, word.sentence)
            begins = False
        at += length


def _longest_phrase(found: Iterable[tuple[Phrase, Phrase]], raw: list[ComparableWord], at: int) -> tuple[Phrase, int]:
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
    for line in files("xscore.store").joinpath("wording.txt").read_text("utf-8").splitlines():
        name, _, members = line.partition(" " if line.startswith("=") else ":")
        if not line.startswith("#"):
            rows.append((name, tuple(one.strip() for one in members.split(",") if one.strip())))
    return tuple(rows)


AFTERTHOUGHT = 0.5
"""What a text may add in sentences at its end, as a share of the words before them."""
AFTERTHOUGHT_WORDS = 10
"""What it may add however short it is."""
AFTERTHOUGHT_FROM = 3
"""Words a text must have before what follows is an afterthought to it."""
MOST_SENTENCES = 4
"""Sentences an afterthought may have."""
MOST_ALIKE = 64
"""Different texts of the very same words that are compared with each other; more are left apart."""
MOST_RUNS = 64
"""Clauses that may have changed places; of more pieces, two texts are left apart."""
MOST_STEPS = 50_000
"""Pairs of words that are looked at to find two texts' clauses, some 25 ms of CPU; beyond, they are left apart."""
SHORTEST_CLAUSE = 2
"""Words of a clause that may change its place; a single one is a swap of names."""

_TAKES_BACK = """
    not no never none nor without but although though yet except unless until instead rather avoid stop only merely if
    when whether maybe perhaps might may could would old former formerly earlier wrong false deprecated deprecate
    obsolete outdated outdate superseded supersede revert reversed reverse rejected reject replaced replace cancel
    cancelled abandon forbid forbidden ban banned undo undone optional temporary temporarily anymore longer other
    otherwise exception todo open undecided disputed
"""
_POINTS_BACK = """
    it this these those they was were is see thanks thank agreed decided everyone everybody nobody ok okay done good
    great sounds works hope saves keeps makes helps
"""
POINTS_BACK = frozenset(_POINTS_BACK.split())
"""Words an afterthought begins with. Any other sentence at the end is a statement of its own, which is not merged."""
TAKES_BACK = frozenset(_TAKES_BACK.split())
"""Words that change what was said before them; a sentence with one is no afterthought."""

Key = bytes


def near_duplicates(texts: Mapping[str, str]) -> list[tuple[str, ...]]:
    """Return the groups of ids whose texts say the same: each of two or more, sorted, no id in two.

    In a group every text is a duplicate of every other. The order of `texts` changes nothing.
    """
    said = {identifier: comparable_words(text) for identifier, text in texts.items()}
    forms: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for identifier, found in said.items():
        forms.setdefault(tuple((word.key, word.spelled if word.code else "") for word in found), []).append(identifier)
    firsts = sorted(min(ids) for ids in forms.values())
    members = {min(ids): ids for ids in forms.values()}
    groups = _cliques(_pairs({first: said[first] for first in firsts}), order=firsts)
    full = (sorted(identifier for first in group for identifier in members[first]) for group in groups)
    return sorted(tuple(ids) for ids in full if len(ids) > 1)


def is_near_duplicate(first: str, second: str) -> bool:
    """Say whether two texts say the same."""
    return bool(near_duplicates({"1": first, "2": second}))


def _pairs(said: Mapping[str, list[ComparableWord]]) -> set[tuple[str, str]]:
    """Return the pairs that are duplicates, both ways."""
    whole: dict[Key, list[str]] = {}
    for identifier, found in said.items():
        whole.setdefault(_bag(found), []).append(identifier)
    pairs = set[tuple[str, str]]()
    for identifier, found in said.items():
        for beginning in _beginnings(found):
            for other in whole.get(_bag(beginning), ())[:MOST_ALIKE]:
                if other != identifier and _reordered(said[other], beginning):
                    pairs |= {(identifier, other), (other, identifier)}
    return pairs


def _beginnings(found: list[ComparableWord]) -> Iterator[list[ComparableWord]]:
    """Yield the text itself, then what is left of it without its last sentences, while those are an afterthought."""
    yield found
    end = len(found)
    for _ in range(MOST_SENTENCES):
        last = found[end - 1].sentence if end else 0
        start = next((at for at in range(end) if found[at].sentence == last), 0)
        extra = len(found) - start
        if start < AFTERTHOUGHT_FROM or extra > max(AFTERTHOUGHT * start, AFTERTHOUGHT_WORDS):
            return
        if not _afterthought(found[start:end]):
            return
        end = start
        yield found[:end]


def _afterthought(sentence: Sequence[ComparableWord]) -> bool:
    plain = all(
        word.key.removesuffix("+ed").isalpha() and TAKES_BACK.isdisjoint((word.spelled, word.key.removesuffix("+ed")))
        for word in sentence
    )
    return plain and sentence[0].spelled in POINTS_BACK


def _bag(found: Iterable[ComparableWord]) -> Key:
    return blake2b(
        "\0".join(sorted(word.key for word in found)).encode("utf-8", "surrogatepass"), digest_size=16
    ).digest()


def _reordered(first: Sequence[ComparableWord], second: Sequence[ComparableWord]) -> bool:
    """Say whether the second has the words of the first in the same order, or in clauses that changed places."""
    if all(_equal(one, other) for one, other in zip(first, second, strict=True)):
        return True
    free_first, free_second = set(range(len(first))), set(range(len(second)))
    bound: list[bool] = []
    searches = MOST_STEPS // _steps(first) if _broken(first, second) < MOST_RUNS else 0
    for _ in range(searches):
        start, other, length = _longest_run(first, second, free_first, free_second)
        if length < SHORTEST_CLAUSE:
            return False
        bound.append(first[start].clause and second[other].clause)
        free_first -= set(range(start, start + length))
        free_second -= set(range(other, other + length))
        clauses = all(bound) or (
            len(bound) <= 2 and any(bound)
        )  # two: one came to the front, perhaps without its comma
        if not clauses and len(bound) > 1:
            return False
        if not free_first:
            return clauses
    return False


def _broken(first: Sequence[ComparableWord], second: Sequence[ComparableWord]) -> int:
    """Neighbours in the first that are none in the second: so many runs there are at least, and one more."""
    neighbours = [Counter((one.key, other.key) for one, other in pairwise(text)) for text in (first, second)]
    return (neighbours[0] - neighbours[1]).total()


def _steps(found: Sequence[ComparableWord]) -> int:
    """Pairs of equal words that a search for the longest run looks at."""
    return sum(count * count for count in Counter(word.key for word in found).values())


def _longest_run(
    first: Sequence[ComparableWord], second: Sequence[ComparableWord], free_first: set[int], free_second: set[int]
) -> tuple[int, int, int]:
    """Return where the longest run of equal free words begins in each, and its length."""
    best, runs = (0, 0, 0), dict[int, int]()
    places: dict[str, list[int]] = {}
    for at in sorted(free_second):
        places.setdefault(second[at].key, []).append(at)
    for at in range(len(first)):
        run = {}
        for other in places.get(first[at].key, ()) if at in free_first else ():
            if _equal(first[at], second[other]):
                run[other] = runs.get(other - 1, 0) + 1
                if run[other] > best[2]:
                    best = (at - run[other] + 1, other - run[other] + 1, run[other])
        runs = run
    return best


def _equal(one: ComparableWord, other: ComparableWord) -> bool:
    """The same word; beside code, in the same spelling."""
    return one.key == other.key and (one.spelled == other.spelled or not (one.code or other.code))


def _cliques(pairs: set[tuple[str, str]], *, order: Sequence[str]) -> list[list[str]]:
    """Return groups in which everyone is a pair with everyone, filled in order."""
    groups: list[list[str]] = []
    of: dict[str, list[int]] = {}
    partners: dict[str, set[str]] = {}
    for one, other in pairs:
        partners.setdefault(one, set()).add(other)
    for identifier in order:
        known = partners.get(identifier, set())
        near = sorted({number for other in known for number in of.get(other, ())})
        number = next((number for number in near if known.issuperset(groups[number])), len(groups))
        if number == len(groups):
            groups.append([])
        groups[number].append(identifier)
        of[identifier] = [number]
    return groups

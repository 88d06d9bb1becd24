"""Find texts that say the same, despite case, punctuation, fillers, synonyms, clause order or an
afterthought.

Texts are compared as stemmed words without fillers, with synonyms of `wording.txt` replaced by
their group. Two texts are duplicates if these are equal, with clauses in any order; one may end in
an afterthought that retracts nothing ("It was agreed on Monday."). A number, name or negation in
only one keeps them apart. Merging loses a text for good, so the rule is strict. Trade-off: unknown
synonyms, and clauses moved without a comma, are missed.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from xscore.store.term_vectors import WORDS, stem

_TOKEN = re.compile(
    r"(?<!`)`++[^`\n]+`+"
    r"|\w+(?:[./:]+\w+)*"  # a path, a dotted name or a version is one word
    r"|(?<=\w)(?:\+\+|#)"  # C++, C#
    r"|[<>=!~]=|[<>=+%&|^~$@]"
    r"|(?<![\w)])-(?=\d)"  # a sign, not a dash
    r"|\?(?=\s|$)"
    # ticks, crosses, arrows, currencies.
    r"|[^\w\s\x00-\x7f\u00a1\u00ab\u00b7\u00bb\u00bf\u2010-\u206f]"
)
_IN_CODE = re.compile(r"[^`\s,;:]+")
_CLAUSE = re.compile(r"[,;:.!?()\[\]\n–—]")
_SENTENCE = re.compile(r"[.!?;](?=\s|$)|\n")
_CAN_NOT = re.compile(r"\bcan(?:['’]t|not)\b", re.IGNORECASE)
_NOT = re.compile(r"(?<=[a-z])n['’]t\b", re.IGNORECASE)
_IS = re.compile(r"\b(it|that|there|what|he|she)['’]s\b", re.IGNORECASE)
_PLAIN = re.compile(r"[a-z]+")
_MARKERS = frozenset(WORDS["clause_markers"].split())
"""Words that begin a clause without a comma before them."""

Phrase = tuple[str, ...]


class ComparableWord(NamedTuple):
    """One word of a text. A named tuple: there is one for every word of every text."""

    key: str
    """The form compared: its stem, its synonym group, or itself, as in code."""
    spelled: str
    """The word as written, in lower case; with a backtick before it if it is in backticks."""
    clause: bool
    """Whether a clause begins with the word."""
    sentence: int
    """Ordinal of its sentence."""


def comparable_words(text: str) -> list[ComparableWord]:
    """Return the words of a text without fillers; all of them if there are only fillers."""
    plain = unicodedata.normalize("NFKC", text)
    # In this order: `can't` is not `ca not`.
    plain = _CAN_NOT.sub("can not", plain)
    plain = _NOT.sub(" not", plain)
    plain = _IS.sub(r"\1 is", plain)
    raw = list(_raw(plain))
    return list(_without_fillers(raw)) or raw


def _raw(text: str) -> Iterator[ComparableWord]:
    end = sentence = 0
    for match in _TOKEN.finditer(text):
        start = match.start()
        spelled = match[0].lower()
        if spelled.startswith("`"):
            # The mark keeps a name in code from being taken for the word.
            spelled = "`" + " ".join(_IN_CODE.findall(spelled))
        # One character more than lies between them: a full stop before a letter ends nothing.
        sentence += _SENTENCE.search(text, end, start + 1) is not None
        clause = not end or bool(_CLAUSE.search(text, end, start)) or spelled in _MARKERS
        yield ComparableWord(_key(spelled), spelled, clause, sentence)
        end = match.end()


def _without_fillers(raw: list[ComparableWord]) -> Iterator[ComparableWord]:
    """Yield the words without fillers, with synonym phrases replaced by their group."""
    phrases = _phrases()
    at = 0
    begins = False
    while at < len(raw):
        word = raw[at]
        begins = begins or word.clause
        length = 1
        parts = [(word.key, word.spelled)]
        for phrase, becomes in phrases.get(word.spelled, ()):
            if tuple(later.spelled for later in raw[at : at + len(phrase)]) == phrase:
                length = len(phrase)
                parts = [(key, key) for key in becomes]
                break
        for key, spelled in parts:
            yield ComparableWord(key, spelled, begins, word.sentence)
            begins = False
        at += length


@lru_cache(maxsize=1 << 14)
def _key(word: str) -> str:
    """Return the stem of a word or its group; past forms stay distinct (`used`).

    A word with a digit, an underscore or a non-ASCII letter is unchanged.
    """
    if not _PLAIN.fullmatch(word):
        return word
    stemmed = stem(word)
    groups = _groups()
    if not word.endswith("ed") or len(word) < 4:
        return groups.get(stemmed, stemmed)
    # `used`, too short to be stemmed.
    stemmed = word[:-1] if stemmed == word and word[:-1] in groups else stemmed
    return f"{groups.get(stemmed, stemmed)}+ed"


@cache
def _groups() -> dict[str, str]:
    """Return the group of each single word, by stem."""
    group_of: dict[str, str] = {}
    for name, members in _table():
        if " " in name:
            continue
        for phrase in (name, *members):
            if " " not in phrase:
                group_of[stem(phrase)] = stem(name)
    return group_of


@cache
def _phrases() -> dict[str, tuple[tuple[Phrase, Phrase], ...]]:
    """Return phrases and their replacements, longest first, by first word; fillers have an empty
    one."""
    by_first_word: dict[str, list[tuple[Phrase, Phrase]]] = {}
    for name, members in _table():
        is_filler = name == "="
        becomes = () if is_filler else tuple(_key(part) for part in name.split())
        for member in members:
            phrase = tuple(member.lower().split())
            # One word for one word is a matter of its key.
            if is_filler or len(phrase) > 1 or len(becomes) > 1:
                by_first_word.setdefault(phrase[0], []).append((phrase, becomes))
    longest_first: dict[str, tuple[tuple[Phrase, Phrase], ...]] = {}
    for first, pairs in by_first_word.items():
        longest_first[first] = tuple(sorted(pairs, key=lambda pair: -len(pair[0])))
    return longest_first


@cache
def _table() -> tuple[tuple[str, tuple[str, ...]], ...]:
    rows = []
    for line in Path(__file__).with_name("wording.txt").read_text("utf-8").splitlines():
        name, _, members = line.partition(" " if line.startswith("=") else ":")
        if not line.startswith("#"):
            rows.append(
                (name, tuple(member.strip() for member in members.split(",") if member.strip()))
            )
    return tuple(rows)


AFTERTHOUGHT = 0.5
"""Largest afterthought, as a share of the words before it."""
AFTERTHOUGHT_WORDS = 10
"""Most words of an afterthought whose share does not matter."""
AFTERTHOUGHT_FROM = 3
"""Fewest words of a text before an afterthought."""
MOST_SENTENCES = 4
"""Most sentences of an afterthought."""
SHORTEST_CLAUSE = 2
"""Fewest words of a clause that may move."""

POINTS_BACK = frozenset(WORDS["points_back"].split())
"""First words of an afterthought. Any other last sentence is a separate statement, which is not
merged."""
TAKES_BACK = frozenset(WORDS["takes_back"].split())
"""Words that change the meaning of what precedes; a sentence with one is not an afterthought."""

_Form = tuple[tuple[str, ...], ...]
"""Keys of the words in each clause."""


def near_duplicates(texts: Mapping[str, str]) -> list[tuple[str, ...]]:
    """Return the groups of ids whose texts say the same: sorted, two or more ids each, disjoint.

    A text with an afterthought joins the texts without it, but nothing joins that text in turn. The
    order of `texts` does not matter.
    """
    words = {id_: comparable_words(texts[id_]) for id_ in sorted(texts)}
    ids_by_form = _Groups()
    for id_, of_text in words.items():
        # Equal in either form, to one text by the one and to another by the other.
        for form in _forms(of_text):
            ids_by_form.join(form, id_)
    groups = ids_by_form.members(words)
    by_length = sorted(
        groups, key=lambda root: min((len(words[id_]), id_) for id_ in groups[root])
    )
    joined = set[object]()
    for root in by_length:
        for base in _groups_of_beginnings(groups[root], ids_by_form, words):
            if base != root and base not in joined:
                groups[base] += groups.pop(root)
                joined |= {base, root}
                break
    return sorted(tuple(sorted(ids)) for ids in groups.values() if len(ids) > 1)


class _Groups:
    """Ids and forms that belong together, found by following each to its group's root."""

    def __init__(self) -> None:
        self._next: dict[object, object] = {}

    def __contains__(self, form: _Form) -> bool:
        return form in self._next

    def root(self, item: object) -> object:
        """Return the one item that represents its group."""
        while (following := self._next.setdefault(item, item)) != item:
            self._next[item] = self._next[following]
            item = following
        return item

    def join(self, form: _Form, id_: str) -> None:
        """Make one group of the groups of a form and of an id."""
        self._next[self.root(form)] = self.root(id_)

    def members(self, ids: Iterable[str]) -> dict[object, list[str]]:
        """Return these ids by the root of their group."""
        groups: dict[object, list[str]] = {}
        for id_ in ids:
            groups.setdefault(self.root(id_), []).append(id_)
        return groups


def _groups_of_beginnings(
    ids: Sequence[str], ids_by_form: _Groups, words: Mapping[str, list[ComparableWord]]
) -> Iterator[object]:
    """Yield the groups of texts with which one of these texts begins, by their roots."""
    for id_ in ids:
        for beginning in _beginnings(words[id_]):
            for form in _forms(beginning):
                if form in ids_by_form:
                    yield ids_by_form.root(form)


def _beginnings(words: list[ComparableWord]) -> Iterator[list[ComparableWord]]:
    """Yield the text, then the text without its last sentences while those are an afterthought."""
    yield words
    end = len(words)
    for _ in range(MOST_SENTENCES):
        last = words[end - 1].sentence if end else 0
        start = next((at for at in range(end) if words[at].sentence == last), 0)
        extra = len(words) - start
        if start < AFTERTHOUGHT_FROM or extra > max(AFTERTHOUGHT * start, AFTERTHOUGHT_WORDS):
            return
        if not _afterthought(words[start:end]):
            return
        end = start
        yield words[:end]


def _afterthought(sentence: Sequence[ComparableWord]) -> bool:
    if sentence[0].spelled not in POINTS_BACK:
        return False
    for word in sentence:
        plain = word.key.removesuffix("+ed")
        if not plain.isalpha() or not TAKES_BACK.isdisjoint((word.spelled, plain)):
            return False
    return True


def _forms(words: Sequence[ComparableWord]) -> set[_Form]:
    """Return the words in order, and with sorted clauses unless one is a single word (it may be a
    name)."""
    clauses: list[list[str]] = []
    for word in words:
        if word.clause or not clauses:
            clauses.append([])
        clauses[-1].append(word.key)
    in_order: _Form = (tuple(chain.from_iterable(clauses)),)
    if len(clauses) < 2 or min(map(len, clauses)) < SHORTEST_CLAUSE:
        return {in_order}
    return {in_order, tuple(sorted(map(tuple, clauses)))}

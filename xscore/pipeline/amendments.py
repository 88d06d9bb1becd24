"""The later word ranks above the earlier: who amends whom among what was said on a task.

Chats, commits, decisions and facts outlive what changed them. One that says that it amends,
supersedes or reverts, and cites an earlier one or shares enough of its words, is lifted above it,
and both say so. Nothing is removed and no text is rewritten: an amendment often leaves most of a
rule as it was. Pure, except for the texts that it asks for. Trade-off: a later word that does not
call itself one is taken for one only where both say nearly the same.
"""

import math
import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from heapq import nlargest

from msgspec import Struct, field

from xscore.records.candidates import TERM_ENTRY
from xscore.records.judgment import AMENDED, AMENDS, Boost, Ranked
from xscore.records.memory import Kind, SpokenMemory, commit_name
from xscore.store.memory_queries import SpokenWords
from xscore.store.term_vectors import text_terms

MOST_COMPARED = 40
"""Most memories that are compared with each other, the best first."""
MOST_SEARCHED = 1_000
"""Most others that are searched for later words: those often share fewer words with a task."""
SAME_MATTER = 0.23
"""Least cosine between the weighted words of a later word and of what it amends (decision
0044)."""
OF_BEST_MATCH = 0.6
"""Share of the cosine of a later word's best match that every other match needs: it speaks of
one matter."""
SAME_WORDS = 0.65
"""Share of the weight of their words that two facts must have in common if the later one does
not say that it amends."""
SHORT_TERMS = 40
"""Most distinct terms of a fact that is compared with others; a longer one is compared only if
it calls itself a later word."""
NO_FACTS = frozenset({Kind.COMMIT, Kind.EXCHANGE, Kind.SUMMARY, Kind.FAILURE, Kind.TODO})
"""Kinds that say what happened: one repeats the words of another without amending it."""
IMAGINED = 50
"""Number of imagined memories without any of the words, so that words weigh in a small
store."""
STEP = 1e-6
"""Least distance by which the later word is placed above the earlier one."""
MOST_NAMED = 2

_AMENDS = re.compile(
    r"(?i)\b(?:amend(?:s|ed|ing|ments?)?|supersed(?:es?|ed|ing)|overrul(?:es?|ed|ing)"
    r"|this reverts commit)\b"
)
_CHANGES_A_RULE = re.compile(
    r"(?i)\b(?:from now on|(?:chang|revis|revers|replac|withdraw|correct)\w*(?: [\w'-]+){0,4}"
    r" (?:decisions?|rules?|polic(?:y|ies)|agreements?|conventions?)"
    r"|(?:instead of|not) (?:the|our|what) (?:old|earlier|previous|former))\b"
)
"""Matches words about a decision that changes. A commit says them of code, too."""
_MAY_BE_LATER = re.compile(
    r"(?i)\b(?:amend|supersed|overrul|revert|revers|replac|correct|fix|undo|undid|instead|no longer"
    r"|chang|withdraw|revis|drop)\w*"
)
"""Matches words that are enough for a memory that cites the earlier one."""
_NAMED = re.compile(r"\bm_[0-9a-f]{20}\b|\b[0-9a-f]{7,64}\b")


class Saying(Struct):
    """What was said at one time: a memory, or the exchanges of one chat."""

    members: list[SpokenMemory]
    terms: AbstractSet[int]
    at: float
    """When the last word of it was said, in Unix seconds."""

    @property
    def text(self) -> str:
        """All of it."""
        return "\n".join(member.text for member in self.members)

    @property
    def is_chat(self) -> bool:
        """Whether it is made of exchanges."""
        return self.members[0].kind is Kind.EXCHANGE

    @property
    def is_amending(self) -> bool:
        """Whether it calls itself a later word."""
        return any(map(calls_itself_later, self.members))

    def has_any_of(self, ids: AbstractSet[str]) -> bool:
        """Whether one of these memories is of it."""
        return any(member.id in ids for member in self.members)

    def is_cited_by(self, names: AbstractSet[str]) -> bool:
        """Whether one of these names is an id of it, or the start of its commit's hash."""
        for member in self.members:
            if member.id in names:
                return True
            if member.kind is Kind.COMMIT and any(map(member.place.startswith, names)):
                return True
        return False


class Weights(Struct, frozen=True):
    """What terms weigh: the rarer among all that was said, the more."""

    counts: Mapping[int, int] = field(default_factory=dict)
    memories: int = 0

    @classmethod
    def of_vectors(cls, vectors: Iterable[bytes]) -> "Weights":
        """Count the memories that have each term."""
        counts = Counter[int]()
        memories = 0
        for vector in vectors:
            memories += 1
            counts.update(term for term, _, _ in TERM_ENTRY.iter_unpack(vector))
        return cls(counts, memories)

    def sum_of(self, terms: Iterable[int]) -> float:
        """Return what these terms weigh together."""
        pool = self.memories + IMAGINED
        return sum(math.log1p(pool / (self.counts.get(term, 0) + 0.5)) for term in terms)


def calls_itself_later(memory: SpokenMemory) -> bool:
    """Whether a memory says that it amends or supersedes something."""
    if _AMENDS.search(memory.text):
        return True
    return memory.kind is not Kind.COMMIT and _CHANGES_A_RULE.search(memory.text) is not None


def place_later_words(
    spoken: Sequence[Ranked], connections: Sequence[sqlite3.Connection]
) -> dict[str, Ranked]:
    """Lift each later word above what it amends; return the entries that change, by id.

    spoken: the ranked memories that come from no file.
    connections: to the stores that hold them.
    """
    words = SpokenWords(connections)
    best = nlargest(MOST_SEARCHED, spoken, key=lambda entry: entry.score)
    ids = [entry.candidate.id for entry in best]
    near_ids = ids[:MOST_COMPARED]
    memories = [*words.read(near_ids), *words.read_later_words(ids[MOST_COMPARED:])]
    if not _may_amend(memories):
        return {}
    sessions = sorted({memory.session for memory in memories} - {""})
    in_chats = words.read_chats(sessions) if sessions else ()
    by_id = {memory.id: memory for memory in (*memories, *in_chats)}
    pairs = amending_pairs(sayings_of(by_id.values()), words)
    near = frozenset(near_ids)
    # What is not shown needs no later word.
    pairs = [pair for pair in pairs if pair[1].has_any_of(near)]
    if not pairs:
        return {}
    return _placed(pairs, {entry.candidate.id: entry for entry in spoken})


def _may_amend(memories: Sequence[SpokenMemory]) -> bool:
    """Whether one of these can be a later word at all, so that the rest has to be read."""
    facts = 0
    for memory in memories:
        if calls_itself_later(memory):
            return True
        if _MAY_BE_LATER.search(memory.text) and _NAMED.search(memory.text):
            return True
        facts += memory.kind not in NO_FACTS
    return facts > 1


def sayings_of(memories: Iterable[SpokenMemory]) -> list[Saying]:
    """Join the exchanges of each chat; what is in none is one of its own. The latest first."""
    chats: dict[str, list[SpokenMemory]] = {}
    for memory in memories:
        chats.setdefault(memory.session or memory.id, []).append(memory)
    sayings: list[Saying] = []
    for members in chats.values():
        terms: set[int] = set()
        for member in members:
            terms |= text_terms(member.text)
        sayings.append(Saying(members, terms, max(member.at for member in members)))
    return sorted(sayings, key=lambda saying: (-saying.at, saying.members[0].id))


def amending_pairs(
    sayings: Sequence[Saying], words: SpokenWords
) -> list[tuple[Saying, Saying]]:
    """Return who amends whom, the latest first. sayings: the latest first."""
    weights_of: dict[bool, Weights] = {}
    pairs: list[tuple[Saying, Saying]] = []
    for place, later in enumerate(sayings):
        # If both have the same time, neither is the later one.
        earlier = [saying for saying in sayings[place + 1 :] if saying.at < later.at]
        cited = _cited_by(later, earlier)
        if not cited and later.is_amending:
            if later.is_chat not in weights_of:
                vectors = words.read_vectors(chats=later.is_chat)
                weights_of[later.is_chat] = Weights.of_vectors(vectors)
            cited = _on_same_matter(later, earlier, weights_of[later.is_chat])
        if not cited:
            cited = [saying for saying in earlier if _say_the_same(later, saying)]
        pairs += [(later, saying) for saying in cited]
    return pairs


def _cited_by(later: Saying, earlier: Iterable[Saying]) -> list[Saying]:
    """Return what a saying that changes something names by its id or its commit."""
    text = later.text
    if _MAY_BE_LATER.search(text):
        names = set(_NAMED.findall(text))
    else:
        names = set()
    return [saying for saying in earlier if names and saying.is_cited_by(names)]


def _on_same_matter(later: Saying, earlier: Sequence[Saying], weights: Weights) -> list[Saying]:
    """Return what has enough of the words of a saying that calls itself a later word."""
    own_weight = weights.sum_of(later.terms)
    cosines: list[float] = []
    for saying in earlier:
        both = math.sqrt(own_weight * weights.sum_of(saying.terms))
        cosines.append(weights.sum_of(later.terms & saying.terms) / both if both else 0.0)
    least = max(SAME_MATTER, OF_BEST_MATCH * max(cosines, default=0.0))
    return [saying for saying, cosine in zip(earlier, cosines, strict=True) if cosine >= least]


def _are_facts(*sayings: Saying) -> bool:
    """Whether each was stated in a few words."""
    for saying in sayings:
        first, *further = saying.members
        if further or len(saying.terms) > SHORT_TERMS:
            return False
        if first.kind in NO_FACTS:
            return False
    return True


def _say_the_same(later: Saying, earlier: Saying) -> bool:
    """Whether two facts differ in little more than a value."""
    if not _are_facts(later, earlier) or later.text.strip() == earlier.text.strip():
        return False
    either = later.terms | earlier.terms
    return len(later.terms & earlier.terms) >= SAME_WORDS * len(either) > 0


def _placed(
    pairs: Sequence[tuple[Saying, Saying]], entries: Mapping[str, Ranked]
) -> dict[str, Ranked]:
    """Return the entries whose score or remark changes, by id. pairs: the latest first."""
    scores = {id_: entry.score for id_, entry in entries.items()}
    ceilings: dict[str, float] = {}
    amends: dict[str, list[Saying]] = {}
    amended: dict[str, list[Saying]] = {}
    for later, earlier in pairs:
        # Exchanges of a chat that are of this session or outside the scope are not candidates.
        speakers = [member for member in later.members if member.id in scores]
        listeners = [member for member in earlier.members if member.id in scores]
        if not speakers or not listeners:
            continue
        speaker = max(speakers, key=lambda member: _speaks_for(member, scores)).id
        highest = max(scores[member.id] for member in (*speakers, *listeners))
        scores[speaker] = min(highest, ceilings.get(speaker, 1.0))
        amends.setdefault(speaker, []).append(earlier)
        for member in listeners:
            least = min(ceilings.get(member.id, 1.0), scores[speaker] - STEP)
            ceilings[member.id] = least
            scores[member.id] = min(scores[member.id], least)
            amended.setdefault(member.id, []).append(later)
    placed: dict[str, Ranked] = {}
    for id_ in amends.keys() | amended.keys():
        entry = entries[id_]
        change = round(scores[id_] - entry.score, 9)
        boosts = list(entry.boosts)
        if id_ in amends:
            boosts.append(Boost(AMENDS, max(change, 0.0), f"amends {_names(amends[id_])}"))
        if id_ in amended:
            names = _names(amended[id_])
            boosts.append(
                Boost(AMENDED, min(change, 0.0), f"amended by {names}, the later statement")
            )
        placed[id_] = entry._replace(boosts=tuple(boosts), score=scores[id_])
    return placed


def _speaks_for(member: SpokenMemory, scores: Mapping[str, float]) -> tuple[bool, float, float]:
    """Order the exchanges of a chat by how well they say what is the later word."""
    return calls_itself_later(member), scores[member.id], member.at


def _names(sayings: Sequence[Saying]) -> str:
    """Return `[m_…] of 2024-03-02`, of a commit `commit 1a2b3c4 of 2024-03-02`."""
    names: list[str] = []
    for saying in sayings[:MOST_NAMED]:
        first = saying.members[0]
        day = datetime.fromtimestamp(saying.at, UTC).date().isoformat()
        if first.kind is Kind.COMMIT:
            name = commit_name(first.place)
        else:
            name = f"[{first.id}]"
        names.append(f"{name} of {day}")
    if len(sayings) > MOST_NAMED:
        names.append(f"{len(sayings) - MOST_NAMED} more")
    return ", ".join(names)

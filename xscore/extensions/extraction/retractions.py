"""Find what a session takes back: `scratch that`, `we no longer use X`, `X was a dead end`.

A sentence that takes back what was just said removes all that was said shortly before it; one that
names its object removes what speaks of the same. Later sessions take back what earlier ones left in
the same way. Trade-off: it takes back too much rather than too little, since a fact that is gone
can be said again, and one that is wrong misleads.
"""

import re
from collections.abc import Collection, Sequence
from functools import lru_cache

from msgspec import Struct

from xscore.extensions.extraction.own_words import Doubt, Sentence
from xscore.store.term_vectors import stem

_JUST_SAID = re.compile(
    r"\b(?:(?:scratch|strike|cancel|undo|disregard|belay|retract|withdraw) (?:that|this|it"
    r"|my last)\b|never ?mind\b|forget (?:that|it|this|what i)\b|ignore (?:that|this|what i"
    r"|my last)\b|on second thou?ghts?\b|actually,? (?:no|wait|not)\b|no,? (?:wait|actually"
    r"|sorry)\b|wait,? (?:no|actually|that)\b|I take (?:that|it|this) back\b|take that back\b"
    r"|I was wrong\b|I was mistaken\b|my (?:mistake|bad)\b|I misspoke\b|changed? (?:my"
    r"|our) minds?\b|that was (?:wrong|a mistake|premature|a bad idea)\b|that(?:'s"
    r"| is) (?:off|wrong|not right|no longer)\b|let['’]s not\b|not any ?more\b"
    r"|I didn['’]t mean (?:that|it)\b|hold on,? (?:no|not|that)\b|correction\b"
    r"|no longer (?:true|valid|the case|holds|applies|want)\b|after all,? (?:no|not)\b"
    r"|don['’]t (?:do that|remember that|save that|keep that|note that)\b|just kidding\b"
    r"|only joking\b)|^no\b|^nope\b"
)
_OBJECT = (
    r"(?P<named>[^,.;:!?\n]{2,80}?)(?=[,.;:!?\n]|$|\s+(?:and|but|because|since|after|so)\b)"
)
_TAKES_BACK = re.compile(
    r"\b(?:not going (?:with|to use|for)|not go(?:ing)? with|not using|not use|drop(?:ped|ping)?"
    r"|forget(?: about)?|scrap(?:ped|ping)?|abandon(?:ed|ing)?|ditch(?:ed|ing)?|revert(?:ed|ing)?"
    r"|roll(?:ed|ing)? back|undo(?:ing)?|undid|stop(?:ped|ping)? (?:using|doing)"
    r"|no longer (?:use|using|need|want|do|prefer|with|on|run)|(?:won['’]t|will not) (?:use"
    r"|be using|go with|do)|let['’]s not (?:use|do|go with|add)|no more"
    r"|mov(?:e|ed|ing) (?:away|off) (?:from)?|away from|instead of|rather than"
    r"|minds? (?:about|on)|decided against|against using"
    r"|never ?mind(?: about)?|switch(?:ed|ing)? (?:away )?from|mistake to use|retract|withdraw"
    rf"|back out of|gave up on|give up on)\s+(?:the |that |this |our |my |using )*{_OBJECT}"
)
_FAILED = re.compile(
    r"\b(?:(?:did|does|do)(?: not|n['’]t) (?:work|help|pan out|fix|hold|solve|change)\w*"
    r"|(?:was|is|were)(?: not|n['’]t) (?:the |a )?(?:cause|problem|reason|culprit|issue|right|it"
    r"|true|needed)\b|(?:was|is|turned out to be|turned out) (?:a )?(?:dead[- ]end|wrong|no[- ]go"
    r"|red herring|off the table|unnecessary|too slow|not happening|off|out|history)\b"
    r"|won['’]t work|(?:got|was|were|has been) (?:reverted|rolled back|dropped|abandoned|scrapped)"
    r"|(?:is|are) (?:fine|innocent|unrelated)\b|(?:has|had) nothing to do"
    r"|(?:is |are )?no longer (?:holds?|appl(?:y|ies)|works?|needed|wanted|required)"
    r"|turned out (?:not|too))"
)
"""Matches what is said of a thing that is given up; the thing comes before it."""
_CLAUSE = re.compile(r"[,.;:!?\n]|\b(?:but|and|so|that|because)\b")
SUBJECT_CHARS = 80
_TAKES_NOTHING_BACK = frozenset(
    {Doubt.QUESTION, Doubt.REPORTED, Doubt.TOO_LONG, Doubt.RECALLED}
)
_SAYS_NO_SUBJECT = frozenset(
    "the and for with that this from our your into onto not are was were will have has had but you"
    " all any idea plan thing approach decision option one part way anymore any more after use"
    " using used again now just then them they there here its it's it we our us to of in on at a an"
    " i be is as so do go going went way attempt theory guess about out off up down over under old"
    " new same other another some than too very also still yet rule preference convention change"
    " changes patch commit user agent project repository repo uses must should".split()
)
_WORD = re.compile(r"[^\W_][\w./+#-]*")
MOST_NAMED = 3
"""Most words that name a thing; more of them tell something."""
CLOSE_SENTENCES = 2
"""Number of first sentences of a message that take back what was said in the messages before
it."""


class Retraction(Struct, frozen=True):
    """A sentence that takes something back."""

    message: int
    """Number of its message in the session."""
    start: int
    """Place in the message where it begins."""
    reaches: int
    """The first message whose words it takes back without naming them; if more than `message`,
    it takes back only what it names."""
    named: tuple[frozenset[str], ...]
    """What it takes back by name."""

    def takes_back(self, words: Collection[str], *, message: int, start: int) -> bool:
        """Whether it takes back a fact of these words that was said there."""
        if (message, start) >= (self.message, self.start):
            return False
        # Within a session one word in common is enough where few are named.
        return message >= self.reaches or self.names(words, at_least=1)

    def names(self, words: Collection[str], *, at_least: int = 2) -> bool:
        """Whether it names what these words speak of."""
        return any(_speak_of_the_same(named, words, at_least=at_least) for named in self.named)


def find_retractions(sentences: Sequence[Sentence], *, message: int) -> list[Retraction]:
    """Return what a message takes back. message: its number in the session."""
    retractions: list[Retraction] = []
    for number, sentence in enumerate(sentences):
        # A question or somebody else's word takes nothing back.
        if sentence.doubt in _TAKES_NOTHING_BACK:
            continue
        lowered = sentence.words.lower()
        names = [content_words(match["named"]) for match in _TAKES_BACK.finditer(lowered)]
        names += [
            _subject_before(lowered, match.start()) for match in _FAILED.finditer(lowered)
        ]
        reaches = message + 1
        if _JUST_SAID.search(lowered):
            # A user answers the agent's last words, which answered the user's before.
            reaches = message - 2 if number < CLOSE_SENTENCES else message
        if names or reaches <= message:
            named = tuple(filter(None, names))
            retractions.append(Retraction(message, sentence.start, reaches, named))
    return retractions


def _subject_before(lowered: str, end: int) -> frozenset[str]:
    """Return the words of the clause that ends there."""
    before = lowered[max(0, end - SUBJECT_CHARS) : end]
    return content_words(_CLAUSE.split(before)[-1])


@lru_cache(maxsize=4096)
def content_words(text: str) -> frozenset[str]:
    """Return the stems of the words of a text that say what it is about."""
    words: set[str] = set()
    for match in _WORD.finditer(text):
        word = match[0].lower().strip("./-")
        if len(word) > 1 and word not in _SAYS_NO_SUBJECT:
            words.add(stem(word) if word.isalpha() else word)
    return frozenset(words)


def _speak_of_the_same(
    named: Collection[str], words: Collection[str], *, at_least: int
) -> bool:
    if not named:
        return False
    if len(named) > MOST_NAMED:
        at_least = 2
    shared = len(set(named) & set(words))
    return shared >= min(at_least, len(named))

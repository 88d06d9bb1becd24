"""The facts of one session: what its messages state in fixed forms, less what they take back.

It also checks what a model proposes: its quote has to be in the speaker's own words, in a
sentence that is a statement, and its text has to say nothing but what those words say.
Trade-off: a session is read whole, message by message, and nothing is remembered between two.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import date

from msgspec import Struct
from msgspec.structs import replace

from xscore.extensions.extraction.dates import with_absolute_dates
from xscore.extensions.extraction.facts import (
    TEXT_CHARS,
    Convention,
    Decision,
    Fact,
    Failure,
    Preference,
    SaidFact,
    Speaker,
)
from xscore.extensions.extraction.fixed_forms import facts_of_sentences
from xscore.extensions.extraction.own_words import Doubt, Sentence, own_sentences, own_text
from xscore.extensions.extraction.retractions import Retraction, content_words, find_retractions
from xscore.platform.hashing import digest

LEAST_SUPPORT = 0.7
"""Share of a fact's words that the sentences of its quote have to hold."""
_NEGATION = re.compile(
    r"\b(?:not|never|no|without|avoid|stop|don['’]?t|doesn['’]?t|won['’]?t|can['’]?t|isn['’]?t"
    r"|aren['’]?t|shouldn['’]?t|mustn['’]?t|didn['’]?t|cannot|nor|neither|nobody|nothing"
    r"|hardly|rarely|seldom|forbid\w*|refus\w*|against)\b",
    re.IGNORECASE,
)
DATED = re.compile(r" \(\d{4}-\d\d-\d\d\)")
_NO_SPACE = re.compile(r"\S+")
_IDIOM = re.compile(
    r"\b(?:no exceptions?|no matter|not only|no problem|not least)\b", re.IGNORECASE
)
"""Negations that negate nothing."""
_ONCE = re.compile(
    r"\bthis (?:one|time|once)\b|\bjust (?:this|here|now)\b|\bonly here\b|\bfor now\b|\bonce\b"
    r"|\bin this (?!repo|project|code|house|team)|\bjust for\b",
    re.IGNORECASE,
)
"""Matches words of a single case, which is no rule for others."""
_STRONG = re.compile(
    r"\b(?:all|always|every|everything|everywhere|never|only|must|any|each|decided|from now on)\b",
    re.IGNORECASE,
)
"""Matches words that make a rule of a single case."""
_FIRST_PERSON = re.compile(r"\b(?:i|i'm|i’m|me|my|mine|we|we're|us|our|ours|let['’]s)\b", re.I)
_ORDER = re.compile(
    r"^(?:please |ok(?:ay)?,? |so,? |and )?(?:always|never|use|keep|write|don['’]t|do not"
    r"|put|name|make|run|prefer|avoid|from|decision|it)\b",
    re.I,
)


def negates(text: str) -> bool:
    """Whether a text says what is not, or not to be."""
    return _NEGATION.search(_IDIOM.sub("", text)) is not None


def fact_digests(kind: str, text: str, quote: str) -> tuple[str, ...]:
    """Return what identifies a fact without its row: by the words that say something, and by its
    quote. Dates that were made absolute are not part of it."""
    words = sorted(content_words(DATED.sub("", text)))
    by_words = digest("fact words", kind, str(negates(text)), *words)
    spoken = " ".join(quote.split()).casefold()
    if not spoken:
        return (by_words,)
    return by_words, digest("fact quote", kind, spoken)


class Message(Struct, frozen=True):
    """What one side said in one exchange."""

    by: Speaker
    text: str
    exchange: str
    """Id of the exchange."""
    at: float
    """Unix seconds."""
    said_on: date
    """The local day on which it was said."""


class DroppedFact(Struct, frozen=True):
    """A fact that was proposed and not kept."""

    fact: Fact
    why: str


class SessionFacts(Struct, frozen=True):
    """What was found in one session."""

    kept: tuple[SaidFact, ...]
    dropped: tuple[DroppedFact, ...]
    retractions: tuple[Retraction, ...]
    """What the user took back, for facts of earlier sessions."""


class _ReadSession(Struct, frozen=True):
    """The messages of a session, cut into sentences."""

    messages: tuple[Message, ...]
    sentences: tuple[tuple[Sentence, ...], ...]
    """Sentences of each message."""
    retractions: tuple[Retraction, ...]

    def retractions_of_user(self) -> tuple[Retraction, ...]:
        """Return what the user took back."""
        return tuple(
            retraction
            for retraction in self.retractions
            if self.messages[retraction.message].by == "user"
        )

    def is_retracted(self, fact: Fact, *, message: int, start: int) -> bool:
        words = content_words(f"{fact.text} {fact.quote}")
        return any(
            retraction.takes_back(words, message=message, start=start)
            for retraction in self.retractions
        )


def find_by_rules(messages: Sequence[Message]) -> SessionFacts:
    """Return the facts that the messages of a session state in fixed forms, oldest first."""
    session = _read(messages)
    kept: list[SaidFact] = []
    dropped: list[DroppedFact] = []
    for number, message in enumerate(session.messages):
        for sentence, fact in facts_of_sentences(session.sentences[number], message.by):
            if session.is_retracted(fact, message=number, start=sentence.start):
                dropped.append(DroppedFact(fact, "taken back"))
            else:
                kept.append(_said(fact, message))
    return SessionFacts(tuple(kept), tuple(dropped), session.retractions_of_user())


def check_proposed(
    messages: Sequence[Message], proposed: Iterable[Fact], *, extractor: str
) -> SessionFacts:
    """Return those of a model's facts that the messages of the session bear out."""
    session = _read(messages)
    kept: list[SaidFact] = []
    dropped: list[DroppedFact] = []
    for fact in proposed:
        why = "its quote is not in the speakers' own words"
        for number, message in enumerate(session.messages):
            quoted = _quoted_sentences(session, number, fact.quote)
            if not quoted:
                continue
            why = _objection(session, fact, quoted, message=number)
            if not why:
                kept.append(_said(fact, message, extractor=extractor))
                break
        if why:
            dropped.append(DroppedFact(fact, why))
    return SessionFacts(tuple(kept), tuple(dropped), session.retractions_of_user())


def _read(messages: Sequence[Message]) -> _ReadSession:
    sentences: list[tuple[Sentence, ...]] = []
    retractions: list[Retraction] = []
    for number, message in enumerate(messages):
        of_message = own_sentences(message.text)
        sentences.append(tuple(of_message))
        retractions += find_retractions(of_message, message=number)
    return _ReadSession(tuple(messages), tuple(sentences), tuple(retractions))


def _said(fact: Fact, message: Message, *, extractor: str = "") -> SaidFact:
    text = with_absolute_dates(fact.text, message.said_on)[:TEXT_CHARS]
    return SaidFact(
        fact=replace(fact, text=text),
        by=message.by,
        exchange=message.exchange,
        at=message.at,
        extractor=extractor,
    )


def _quoted_sentences(session: _ReadSession, number: int, quote: str) -> list[Sentence]:
    """Return the sentences of a message that contain a quote, whitespace aside."""
    place = _place_of(quote, own_text(session.messages[number].text))
    if place is None:
        return []
    start, end = place
    return [
        sentence
        for sentence in session.sentences[number]
        if sentence.start < end and start < sentence.end
    ]


def _place_of(quote: str, text: str) -> tuple[int, int] | None:
    """Return where a quote begins and ends in a text, whatever whitespace is in either."""
    starts: list[int] = []
    collapsed: list[str] = []
    place = 0
    for word in _NO_SPACE.finditer(text):
        # Each character of the collapsed text knows its original place.
        starts += [*range(word.start(), word.end()), word.end()]
        collapsed.append(word[0])
        place = word.end()
    joined = " ".join(collapsed)
    quote_words = " ".join(quote.split())
    start = joined.find(quote_words)
    if start < 0 or not quote_words:
        return None
    end = start + len(quote_words)
    return starts[start], starts[end] if end < len(starts) else place


def _objection(
    session: _ReadSession, fact: Fact, quoted: Sequence[Sentence], *, message: int
) -> str:
    """Return why these sentences do not bear out a fact; empty if they do."""
    for sentence in quoted:
        # A failure may be stated as what did not work.
        is_failure = isinstance(fact, Failure) and sentence.doubt is Doubt.TRIED
        if sentence.doubt and not is_failure:
            return sentence.doubt.value
    if session.is_retracted(fact, message=message, start=quoted[0].start):
        return "taken back"
    return _overstatement(fact, quoted)


def _overstatement(fact: Fact, quoted: Sequence[Sentence]) -> str:
    """Return what a fact says that its sentences do not, or ""."""
    quoted_words = " ".join(sentence.words for sentence in quoted)
    if negates(fact.text) != negates(quoted_words):
        return "its text and its quote disagree about a negation"
    if _STRONG.search(fact.text) and not _STRONG.search(quoted_words):
        return "its text is stronger than its quote"
    if isinstance(fact, Convention | Preference | Decision) and _ONCE.search(quoted_words):
        return "it is about a single case"
    if isinstance(fact, Preference | Decision):
        is_own = _FIRST_PERSON.search(quoted_words) or _ORDER.search(quoted[0].words.strip())
        if not is_own:
            return "nobody states it as their own view"
    fact_words = content_words(fact.text)
    if len(fact_words & content_words(quoted_words)) < LEAST_SUPPORT * len(fact_words):
        return "its text says more than its quote"
    return ""

"""Facts that follow fixed forms: `we decided`, `from now on`, `don't … because`, `TODO:`.

A sentence becomes at most one fact, word for word. It has to be the speaker's words (`own_words`),
and its form has to be where such a statement begins. What only a user may lay down (`from
now on`, `always use`, `I prefer`, `remember that`) counts from the user alone: agents give general
advice in these forms, and repeat what they have read. Trade-off: English, and only these forms;
what is said otherwise needs a model.
"""

import re
from collections.abc import Iterator, Sequence
from typing import TypedDict

from xscore.extensions.extraction.facts import (
    TEXT_CHARS,
    Convention,
    Decision,
    Fact,
    Failure,
    Preference,
    Speaker,
    TechFact,
    Todo,
)
from xscore.extensions.extraction.own_words import Sentence

MOST_LISTED = 3
"""Entries of one list under `Next steps:`."""
_ADVERBS = (
    r"(?:(?:have|had|'ve|’ve|now|just|finally|also|both|all|already|jointly|definitely|ultimately"
    r"|together|today|yesterday|eventually|recently|firmly)\s+){0,3}"
)
_LEAD = (
    r"(?:^|[,;:—–-]\s+|\b(?:and|so|but|please|then|therefore|ok|okay|also|important|rule"
    r"|reminder)[,:]?\s+)"
)
"""Where an imperative may begin."""
_DECIDED = re.compile(
    rf"\b(?:we|i|our team|the team)(?:'ve|’ve)?\s+{_ADVERBS}(?:decided|agreed|settled|chose|opted"
    r"|resolved|committed|made the (?:decision|call|choice))\b"
    r"|^(?:the |our )?(?:final |architecture |design )?decision(?:\s+is)?\s*[:—–-]\s*\S"
    r"|^(?:it (?:is|was|has been)|it's) (?:now )?(?:decided|agreed|settled)\b",
    re.IGNORECASE,
)
_CHOSEN = re.compile(
    rf"{_LEAD}(?:let['’]s|we(?:'ll|’ll| will|'re going to|’re going to| are going to|'re|’re"
    rf"| are)?)"
    r"\s+(?:go|going|stick|sticking|stay|staying|standardi[sz]e|standardi[sz]ing)"
    r" (?:with|on|for)\b",
    re.IGNORECASE,
)
_FROM_NOW_ON = re.compile(
    r"\b(?:from now on|going forward|from here on(?: out)?|from today(?: on)?|henceforth"
    r"|starting (?:now|today))\b",
    re.IGNORECASE,
)
_ORDERED = re.compile(
    rf"{_LEAD}(?:(?:you|we)\s+(?:should|must)\s+)?(?:always|never)\s+[a-z]\w+", re.IGNORECASE
)
_FORBIDDEN = re.compile(
    rf"{_LEAD}(?:we\s+)?(?:do not|don['’]t|never|avoid)\s+[a-z]\w+", re.IGNORECASE
)
_REASON = re.compile(r"\b(?:because|since|as it|as they|otherwise|so that)\b", re.IGNORECASE)
_RULE = re.compile(
    r"\b(?:our|the(?: team['’]s| project['’]s| house)?) (?:convention|rule|policy|standard|practice"
    r"|guideline)(?: here)?(?: is| says|:)\s*\S|^(?:convention|rule|policy)\s*:\s*\S"
    r"|(?<!\bthat )(?<!\bif )(?<!\bhow )\bwe (?:always|never)\s+[a-z]\w+|\bby convention,?\s+\S",
    re.IGNORECASE,
)
_PREFERRED = re.compile(
    r"\bI(?:'d| would|’d)?\s+(?:(?:really|strongly|much|always|usually|generally|personally)\s+)"
    r"{0,2}prefer\b|\bmy preference is\b|\bI(?:'d| would|’d) rather (?:have|use|see|you|keep|get)\b"
    r"|\bI (?:always |usually )?want you to\b|\bI(?:'d| would|’d) like you to\b"
    r"|\bI like (?:my|to|it when)\b",
    re.IGNORECASE,
)
_NOT_PREFERRED = re.compile(
    r"\b(?:n[o']t|n’t|never|no longer|hardly|stop)\b(?=.{0,25}\b(?:prefer|preference|want"
    r"|like|rather)\b)|\brather not\b|\blike to (?:know|see if|ask|understand)\b",
    re.IGNORECASE,
)
_REMEMBERED = re.compile(
    rf"{_LEAD}(?:remember|keep in mind|bear in mind|note|for the record"
    rf"|don['’]t forget)(?: that|,|:)\s+\S",
    re.IGNORECASE,
)
_LEFT_TO_DO = re.compile(
    r"^(?:TODO|FIXME|to[- ]do|action item|follow[- ]up|still open|remaining"
    r"|next step)\s*[:—–-]\s*\S"
    rf"|{_LEAD}(?:remember to|remind me to|don['’]t forget to)\s+[a-z]"
    r"|\b(?:we|I)(?:'ll|’ll)?\s+(?:still (?:need|have) to|need to"
    r" .{3,200}\b(?:later|before|after|by|next)|have to"
    r" .{3,200}\b(?:later|before|after|by|next))\b",
    re.IGNORECASE,
)
_LIST_OF_TODOS = re.compile(
    r"^(?:\W*)(?:next steps?|to[- ]?dos?|remaining(?: work)?|still open|open (?:items|ends|points)"
    r"|action items?|follow[- ]ups?|left to do)\W*$",
    re.IGNORECASE,
)
_COMMAND = r"`[^`\n]{3,200}`"
_DOES = (
    r"(?:run|build|start|lint|test|deploy|format|type-?check|check|migrate|release|install)\w*"
)
_COMMAND_THAT_WORKS = re.compile(
    rf"^(?:you can |we |to |please )?{_DOES}\b[^.`\n]{{0,60}}\b(?:with|by|via|using|use|run|is)\s+"
    rf"{_COMMAND}"
    rf"|{_COMMAND}\s+(?:now |also |still )?(?:works|passes|succeeds"
    r"|does the trick|fixed it|fixes it|is (?:how|what) (?:we|you))\b",
    re.IGNORECASE,
)
_HOLDS = re.compile(
    r"\bwe(?:'re|’re| are)? (?:use|run|deploy|store|keep|pin|target|support|host|on)\b\s+\S.{2,}"
    r"|\b(?:our|the) (?:staging|production|prod|dev|test|ci|main|primary|internal)\b.{2,80}\b(?:is"
    r"|are|runs?|lives?|listens?|uses?)\b\s+\S",
    re.IGNORECASE,
)
_FIXED = re.compile(
    r"\b(?:fail(?:s|ed)|crash(?:es|ed)|breaks?|broke|errors?)\b.{0,200}\b(?:because|since|due to)\b"
    r".{3,200}\b(?:fix(?:ed|es)?|solved|resolved)\b",
    re.IGNORECASE,
)
_TOPIC = re.compile(
    r"\b(?:use|using|choose|chose|pick|prefer|adopt|go with|going with|stick with|stay with)\s+"
    r"[^,;]{2,60}? (?:for|as) (?:the |our |all |every |any )*"
    r"(?P<topic>[a-z][\w-]*(?: [a-z][\w-]*){0,2}?)"
    r"(?=\s*(?:[.,;:!—–(]|$|\b(?:because|since|instead|over|from|so|and|in|on|when|not|rather)\b))",
    re.IGNORECASE,
)
_LIKED = re.compile(
    r"\b(?:prefer|preference is|rather (?:have|use|see|you|keep|get)|want you to|like you to"
    r"|like (?:my|to|it when))\s+(?P<liked>.{3,80})",
    re.IGNORECASE,
)
_FILLERS = frozenset(
    "a an the my your our to in of for with all any every use using have see keep get you and or"
    " it when as on over that this not be is always".split()
)
_PATH = re.compile(
    r"(?<![\w/.@-])(?:[\w.-]+/)*[\w-][\w.-]*\.[A-Za-z]\w{0,7}(?::\d+(?:-\d+)?)?(?!\w)"
)


def facts_of_sentences(
    sentences: Sequence[Sentence], by: Speaker
) -> Iterator[tuple[Sentence, Fact]]:
    """Yield the facts of a message, each with its sentence."""
    listed = 0
    in_list = False
    for sentence in sentences:
        if in_list and sentence.is_listed and listed < MOST_LISTED and not sentence.doubt:
            listed += 1
            yield sentence, _todo(sentence)
            continue
        if not sentence.is_listed:
            in_list = bool(_LIST_OF_TODOS.match(sentence.words.strip()))
            listed = 0
        if sentence.doubt:
            continue
        fact = _fact_of(sentence, by)
        if fact is not None:
            yield sentence, fact


def _fact_of(sentence: Sentence, by: Speaker) -> Fact | None:
    """Return the fact that a sentence states in a fixed form."""
    words = " ".join(sentence.words.split())
    if len(words.split()) < 4:
        return None
    fact = _fact_of_anybody(words, sentence)
    if fact is None and by == "user":
        fact = _fact_of_user(words, sentence)
    return fact


def _fact_of_anybody(words: str, sentence: Sentence) -> Fact | None:
    if _LEFT_TO_DO.search(words):
        return _todo(sentence)
    parts = _parts_of(sentence)
    topic = topic_of(words)
    if _DECIDED.search(words):
        return Decision(**parts, topic=topic)
    if _FIXED.search(words):
        return Failure(**parts)
    if _COMMAND_THAT_WORKS.search(words):
        return TechFact(**parts)
    return None


def _fact_of_user(words: str, sentence: Sentence) -> Fact | None:
    parts = _parts_of(sentence)
    topic = topic_of(words)
    if _FROM_NOW_ON.search(words):
        return Convention(**parts, topic=topic)
    if _CHOSEN.search(words):
        return Decision(**parts, topic=topic)
    if _PREFERRED.search(words) and not _NOT_PREFERRED.search(words):
        return Preference(**parts, topic=topic or _liked(words))
    if _ORDERED.search(words) or _RULE.search(words) or _is_forbidden(words):
        return Convention(**parts, topic=topic)
    if _REMEMBERED.search(words) or _HOLDS.search(words):
        return TechFact(**parts, topic=topic)
    return None


def _is_forbidden(words: str) -> bool:
    """Whether something is forbidden, and a reason is given."""
    forbidden = _FORBIDDEN.search(words)
    return forbidden is not None and _REASON.search(words, forbidden.end()) is not None


def _todo(sentence: Sentence) -> Todo:
    return Todo(**_parts_of(sentence))


class _Parts(TypedDict):
    """What every fact has."""

    text: str
    quote: str
    files: tuple[str, ...]


def _parts_of(sentence: Sentence) -> _Parts:
    quote = " ".join(sentence.text.split())[:TEXT_CHARS]
    return {"text": quote, "quote": quote, "files": files_named(quote)}


def files_named(text: str) -> tuple[str, ...]:
    """Return what looks like the path of a file in a text, in order, at most five."""
    paths = (match[0] for match in _PATH.finditer(text))
    return tuple(dict.fromkeys(path[:300] for path in paths))[:5]


def topic_of(text: str) -> str:
    """Return what something is used for, as a key: `use X for the job queue` → `job_queue`."""
    match = _TOPIC.search(text)
    return _slug(match["topic"]) if match else ""


def _liked(text: str) -> str:
    """Return a key for a preference that names no purpose: the first two words of what is liked."""
    match = _LIKED.search(text)
    if match:
        words = re.findall(r"[\w.-]+", match["liked"])
    else:
        words = []
    return _slug(" ".join([word for word in words if word.lower() not in _FILLERS][:2]))


def _slug(words: str) -> str:
    return re.sub(r"[^a-z0-9_.-]+", "_", words.lower()).strip("_.-")[:60]

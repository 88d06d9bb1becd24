"""Detect text that gives instructions to its judge, so that it is judged alone and marked.

Every prompt fences what it quotes, but a weak model may obey what it reads, and in a prompt that
memories share one of them could then speak for the others. This reads a text as such a model would
(invisible characters out, look-alike letters folded, spaced letters joined, one layer of base64
opened) and looks for the forms that orders to a judge take. Nothing is left out for it: such a
memory costs a prompt of its own, and readers see a mark. Pure. Trade-off: it is a list of forms;
what is worded otherwise is fenced like all else (decision 0049).
"""

import binascii
import re
import unicodedata
from base64 import b64decode
from functools import cache

from msgspec import Struct

from xscore.platform.patterns import compiled_late
from xscore.platform.text import BIDI, INVISIBLE

MOST_CHARS = 200_000
"""Most characters that are read of a text."""
MOST_HIDDEN = 20
"""Most runs of base64, and of spaced letters, that are opened in one text."""


class _Form(Struct, frozen=True):
    """A form of order, and the words without which a text cannot hold it."""

    pattern: str
    needs: tuple[str, ...]
    """Lists of alternatives; the text must have one of each list: looking for these takes a
    hundredth of the pattern's time."""


_GAP = r"[^\w.!?]{1,8}"
_WORDS = rf"(?:[\w'-]{{1,30}}{_GAP})"
_MEMORY = (
    r"(?:memory|entry|file|function|method|class|snippet|document|passage|candidate|item|text"
    r"|chunk|section)"
)
_HIGH = r"(?:100\b|10/10|1\.0\b|highest|maximum|full marks|perfect|most relevant|essential)"
_JUDGE = r"(?:ai|llm|language model|assistant|judge|grader|evaluator|re-?ranker|scorer)"
_FORMS = (
    _Form(  # drop what was said before
        rf"\b(?:ignore|disregard|forget|override)s?{_GAP}{_WORDS}{{0,3}}(?:previous|prior|above"
        rf"|earlier|preceding|system|your|original){_GAP}{_WORDS}{{0,2}}"
        r"(?:instructions?|prompts?|rubric|guidelines|criteria|orders)\b",
        (
            "ignore|disregard|forget|override",
            "instruction|prompt|rubric|guideline|criteria|order",
        ),
    ),
    _Form(  # score this memory high
        rf"\b(?:score|rate|rank|grade|judge|mark|give|select)d?{_GAP}{_WORDS}{{0,3}}"
        rf"(?:this|following|above|next){_GAP}{_WORDS}{{0,2}}{_MEMORY}\b{_GAP}{_WORDS}{{0,5}}{_HIGH}",
        (
            "100|10/10|1.0|highest|maximum|full marks|perfect|relevant|essential",
            "this |following|above|next ",
            "score |rate |rank |grade |judge |mark |give |select ",
        ),
    ),
    _Form(
        r"\b(?:give|assign|return|output)s? (?:[\w'-]{1,30} ){0,3}(?:score|relevance|rating)"
        r" (?:\w{1,30} ){0,2}(?:100\b|10/10|highest|maximum|perfect)",
        (
            "score |relevance |rating ",
            "100|10/10|highest|maximum|perfect",
            "give|assign|return|output",
        ),
    ),
    _Form(
        rf"\b(?:{_MEMORY}|it|memories)s?{_GAP}{_WORDS}{{0,5}}(?:be|is|are) (?:always )?"
        rf"(?:scored|rated|ranked|judged|graded){_GAP}{_WORDS}{{0,2}}{_HIGH}",
        (
            "scored|rated|ranked|judged|graded",
            "100|10/10|1.0|highest|maximum|perfect|relevant|essential",
        ),
    ),
    _Form(  # push the others down
        rf"\b(?:score|rate|rank|grade|mark|judge)s?{_GAP}{_WORDS}{{0,2}}(?:all|every|each|any)"
        rf"{_GAP}(?:the )?others?{_GAP}{_WORDS}{{0,5}}(?:0|zero|irrelevant|lowest|unrelated)\b",
        ("score|rate|rank|grade|mark|judge", "all other|every other|each other|the other"),
    ),
    _Form(  # another rubric
        rf"\b(?:rubric|scoring rules?|judging rules?|relevance criteria){_GAP}{_WORDS}{{0,2}}"
        r"(?:updated?|changed|amended|superseded|replaced)\b"
        r"|\b(?:new|updated|amended|revised) (?:rubric|scoring rules?|judging rules?)\b",
        ("rubric|scoring|judging|relevance c", "updat|chang|amend|supersed|replac|new|revis"),
    ),
    _Form(  # someone in charge speaks to the model
        rf"\b(?:note|message|notice|instructions?) (?:to|for) (?:the |any |all )?{_JUDGE}s?\b"
        rf"|\byou are (?:now )?(?:an?|the) (?:[\w-]{{1,20}} ){{0,2}}{_JUDGE}\b"
        rf"|\b(?:dear|please,?|attention,?|hey) {_JUDGE}\b",
        (
            " ai |llm|assistant|judge|grader|evaluator|ranker|scorer|language model",
            "note|message|notice|instruction|you are|dear|please|attention|hey",
        ),
    ),
    _Form(
        r"\b(?:system|developer|operator) (?:override|notice)[:.!]",
        ("override|notice", "system o|system n|developer |operator "),
    ),
    _Form(  # the frame of a prompt
        r"<\|(?:im_start|im_end|system|user|assistant|eot_id)\|>|\[/inst\]|<</?sys>>"
        r"|</(?:memory|file|code|task|turn|pack|evidence)>\s*(?:</\w{1,20}>\s*)?"
        r"(?:<(?:system|instructions?|task)\b|system:)",
        ("im_start|im_end|eot_id|/inst]|sys>>|</mem|</file|</code|</task|</turn|</pack|</evi",),
    ),
    _Form(  # a reply or examples to copy
        r"[\"']?scores?[\"']? ?[:=] ?\{[^{}]{0,120}?[:=] ?100\b"
        r"|\btask\b.{0,120}?(?:score|relevance|rating) ?(?:=|:|->|is) ?(?:100|1\.0)\b",
        ("score|relevance|rating", "100|1.0"),
    ),
    _Form(  # of worth to whatever is asked
        rf"\bthis {_MEMORY} (?:is|answers|contains|matters|applies){_GAP}{_WORDS}{{0,6}}"
        r"(?:any|every|all|each) (?:possible )?(?:tasks?|questions?|quer(?:y|ies)|requests?)\b",
        (
            " task| question| quer| request",
            " is | answers | contains | matters | applies ",
            "any |every |all |each ",
        ),
    ),
    _Form(  # the same in languages other than English
        r"\bignorier\w* (?:\w+ ){0,3}(?:anweisung|vorgabe|regel)|\bbewerte \w+ \w+ mit (?:100|1)"
        r"|\bignor(?:a|e|ez|en) (?:\w+ ){0,3}(?:instrucciones|instructions pr|istruzioni|instruç)"
        r"|игнорируй\w* (?:\w+ ){0,3}инструкц|忽略.{0,8}(?:指令|说明|提示)",
        (
            "ignor|bewert|игнорир|忽略",
            "anweis|vorgab|regel|instrucc|istruz|instruç|instructions pr|инструкц|mit 1"
            "|指令|说明|提示",
        ),
    ),
)
_CUES = tuple(
    (
        "instruct|prompt|rubric|score|scoring|relevan|judge|grade| rate | rated| rank |assistant"
        "|evaluator|im_start|</|inst]|sys>>|notice|override|tasks| task|question|quer|anweis|bewert"
        "|istruz|instruç|инструкц|忽略"
    ).split("|")
)
"""A text without any of these is not searched: most code has none."""
_LOOK_ALIKES = str.maketrans("асеорхуікѕјԁոɡһαενορτυκι", "aceopxyiksjdnghaevoptuki")
"""Cyrillic, Armenian and Greek letters in Latin words."""
_UNSEEN = compiled_late(f"[\u0300-\u036f{BIDI}{INVISIBLE}]")
_SPACED = compiled_late(r"(?<!\w)\w(?: {1,2}\w(?!\w)){7,400}")
_SEEMS_SPACED = re.compile(r" \w \w \w \w ")
"""Matches text that seems spaced. It begins with a fixed letter, so that it is searched for
faster."""
_ENCODED = re.compile(r"[A-Za-z0-9+/]{40,4096}={0,2}")
_LINE_END = compiled_late(r"\n+[ \t]*(?:#+|//+|\*+|--+|;+|>)?[ \t]*")
"""Matches the end of a line, and the mark of a comment that goes on: an order may be
wrapped."""


@cache
def _searches() -> tuple[tuple[tuple[tuple[str, ...], ...], _Form], ...]:
    """Return each form with what a text needs to have it."""
    searches: list[tuple[tuple[tuple[str, ...], ...], _Form]] = []
    for form in _FORMS:
        needs = tuple(tuple(filter(None, words.split("|"))) for words in form.needs)
        searches.append((needs, form))
    return tuple(searches)


@cache
def _compiled(form: _Form) -> re.Pattern[str]:
    # Compiled where a text needs it: few do, and a prompt would wait for all twelve.
    return re.compile(form.pattern)


def is_suspicious(text: str) -> bool:
    """Whether a text gives instructions to a judge, as far as its form tells."""
    text = text[:MOST_CHARS]
    if _has_order(_folded(text)):
        return True
    return any(_has_order(_folded(hidden)) for hidden in _hidden_texts(text))


def _folded(text: str) -> str:
    """Return a text in lower case on one line, without what a reader does not see."""
    if not text.isascii():
        text = _UNSEEN.sub("", unicodedata.normalize("NFKC", text))
    # A quotation mark within a string is written with a backslash.
    return text.lower().replace('\\"', '"')


def _has_order(folded: str) -> bool:
    texts = [folded]
    if not folded.isascii():
        texts.append(folded.translate(_LOOK_ALIKES))
    for candidate in texts:
        if not any(map(candidate.__contains__, _CUES)):
            continue
        likely = [_compiled(form) for needs, form in _searches() if _has_all(candidate, needs)]
        if likely:
            lines = [line.rstrip() for line in candidate.split("\n")]
            line = _LINE_END.sub(" ", "\n".join(lines))
            if any(pattern.search(line) for pattern in likely):
                return True
    return False


def _has_all(text: str, needs: tuple[tuple[str, ...], ...]) -> bool:
    for alternatives in needs:
        for word in alternatives:
            if word in text:
                break
        else:
            return False
    return True


def _hidden_texts(text: str) -> list[str]:
    """Return what is written in spaced letters, and in base64."""
    hidden: list[str] = []
    if _SEEMS_SPACED.search(text):
        for run in _SPACED.findall(text)[:MOST_HIDDEN]:
            # Two spaces between letters part words.
            hidden.append(" ".join(word.replace(" ", "") for word in run.split("  ")))
    for run in _ENCODED.findall(text)[:MOST_HIDDEN]:
        try:
            decoded = b64decode(run + "=" * (-len(run) % 4), validate=True).decode("utf-8")
        except (binascii.Error, UnicodeDecodeError):
            continue
        if decoded.isprintable():
            hidden.append(decoded)
    return hidden

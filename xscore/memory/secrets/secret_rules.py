"""Read the rules of `secrets.toml` and find what matches them.

Every rule hangs on a literal: literals are found by plain search in the lower-cased text, and only there is a pattern
tried, from that place and with bounded repetitions. So clean text costs a few searches, and hostile text no more than
a constant a character. It does not decide what becomes of a finding; `memory.secrets.redact` does.
"""

import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import log2
from typing import Any

LEAD_CHARS = 200
"""How much of the line before a name a form may look at."""
MIXED_BITS = 3.0
"""Shannon entropy, bits a character, of the shortest keys in use; words and identifiers lie near or below it."""

ENTROPY_CHARS = 256
"""Entropy is measured on so many; a longer key is no less random."""
NAME_CHARS = 80
"""Longer values are no names."""

_OPERATORS = "!&*~+-@"
"""What code may put before a name."""
_DIGIT = re.compile(r"\d")
_LETTER = re.compile(r"[^\W\d_]")
_SPACE = re.compile(r"\s")
_VERSION = re.compile(r"[~^<>=v]{0,3}\d+(?:\.[\dx*]+){1,4}\Z")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_IDENTIFIER = re.compile(r"[A-Za-z_$][\w$]*(?:(?:\.|->|::|\?\.)[A-Za-z_$][\w$]*)*\Z")

Check = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Finding:
    """A secret in a text, as a span of characters."""

    start: int
    stop: int
    type: str


@dataclass(frozen=True, slots=True)
class _Shape:
    type: str
    literals: tuple[str, ...]
    pattern: re.Pattern[str]
    minds_case: bool
    check: Check


@dataclass(frozen=True, slots=True)
class _Name:
    type: str
    words: tuple[str, ...]
    after: re.Pattern[str] | None
    """What must stand before the word for it to tell."""
    weak: bool
    """Without it, the word still counts for values that look like secrets."""


@dataclass(frozen=True, slots=True)
class _Form:
    lead: re.Pattern[str] | None
    tail: re.Pattern[str]
    opens_line: bool
    """Its lead reaches back to the start of the line."""
    upper: bool
    check: Check
    weak_check: Check | None


def findings(text: str) -> Iterator[Finding]:
    """Yield what the rules find, in no order, overlapping where two rules agree."""
    lowered = text.lower()
    if len(lowered) != len(text):
        lowered = "".join(char.lower() if len(char.lower()) == 1 else char for char in text)
    for shape in _shapes():
        for literal in shape.literals:
            for place in _places(text if shape.minds_case else lowered, literal):
                match = shape.pattern.match(text, place)
                if match and shape.check(match["secret"]):
                    yield Finding(*match.span("secret"), shape.type)
    for name in _names():
        for word in name.words:
            for place in _places(lowered, word):
                yield from _named(text, name, place, place + len(word))


def _places(text: str, literal: str) -> Iterator[int]:
    place = text.find(literal)
    while place >= 0:
        yield place
        place = text.find(literal, place + 1)


def _named(text: str, name: _Name, start: int, stop: int) -> Iterator[Finding]:
    """Try the forms on a telling word. The tails rule out nearly every place at their first characters."""
    floor = max(0, start - LEAD_CHARS)
    line_break = text.rfind("\n", floor, start)
    near_line_start = line_break >= 0 or floor == 0
    for form in _forms():
        if form.opens_line and not near_line_start:
            continue
        match = form.tail.match(text, stop)
        if match is None or (form.upper and not text[start:stop].isupper()):
            continue
        lead = text[max(line_break + 1, floor) : start]
        if form.lead and not form.lead.search(lead):
            continue
        told = name.after is None or name.after.search(lead) is not None
        check = form.check if told else form.weak_check if name.weak else None
        if check and check(match["secret"]):
            yield Finding(*match.span("secret"), name.type)


def is_mixed(value: str) -> bool:
    """Whether a value has letters, digits and the entropy of a key of its length."""
    if not (_DIGIT.search(value) and _LETTER.search(value)):
        return False
    sample = value[:ENTROPY_CHARS]
    bits = -sum(n / len(sample) * log2(n / len(sample)) for n in Counter(sample).values())
    return bits >= min(MIXED_BITS, log2(len(sample)) * 0.8)


def is_value(value: str) -> bool:
    """Whether a literal can be a secret: no placeholder, name, example, path, address or prose."""
    lowered = value.lower()
    if len(value) < 4 or len(set(value[:NAME_CHARS])) < 3 or _SPACE.search(value) or _VERSION.match(value):
        return False
    if any(part in lowered for part in data()["placeholders"]["parts"]):
        return False
    if value[0] in "<{$%/[" or value.endswith(("}", ">")) or lowered.startswith(("http://", "https://", "./", "../")):
        return False
    if len(value) > NAME_CHARS or len(_DIGIT.findall(value)) > 1:
        return True
    words = {word.lower() for word in _WORD.findall(value)}
    return not words or not words <= _known_words()


def _is_shape(value: str) -> bool:
    return len(set(value[-16:])) > 2


def _is_token(value: str) -> bool:
    return len(value) >= 8 and is_mixed(value) and is_value(value) and not _is_dotted(value)


def _is_plain(value: str) -> bool:
    if not is_value(value) or _is_dotted(value) or value.lower() in data()["placeholders"]["types"]:
        return False
    if not _LETTER.search(value) or value.endswith((".", ":", "=", "|", "&", "+", "-", "*", "/")):
        return False
    telling = {word for name in _names() for word in name.words}
    return not (_IDENTIFIER.match(value) and telling & {word.lower() for word in _WORD.findall(value)})


def _is_word(value: str) -> bool:
    inner_digit = _DIGIT.search(value.rstrip("0123456789")) is not None
    return _is_plain(value) and (not _IDENTIFIER.match(value.lstrip(_OPERATORS)) or (inner_digit and len(value) >= 8))


def _is_dotted(value: str) -> bool:
    return "." in value and bool(_IDENTIFIER.match(value.lstrip(_OPERATORS))) and max(map(len, value.split("."))) < 24


_CHECKS: dict[str, Check] = {
    "shape": _is_shape,
    "mixed": is_mixed,
    "value": is_value,
    "token": _is_token,
    "plain": _is_plain,
    "word": _is_word,
}


@cache
def data() -> dict[str, Any]:
    """The rule file as it stands."""
    return tomllib.loads(files("xscore.memory.secrets").joinpath("secrets.toml").read_text("utf-8"))


@cache
def _known_words() -> frozenset[str]:
    return frozenset(data()["placeholders"]["words"])


@cache
def _shapes() -> tuple[_Shape, ...]:
    return tuple(
        _Shape(
            rule["type"],
            tuple(rule["literals"]),
            _compile(rule["pattern"], minds_case=rule.get("case", False)),
            rule.get("case", False),
            _CHECKS[rule["check"]],
        )
        for rule in data()["shape"]
    )


@cache
def _names() -> tuple[_Name, ...]:
    return tuple(
        _Name(
            rule["type"],
            tuple(rule["words"]),
            _compile(rule["after"] + r"\Z") if "after" in rule else None,
            rule.get("weak", False),
        )
        for rule in data()["name"]
    )


@cache
def _forms() -> tuple[_Form, ...]:
    return tuple(
        _Form(
            _compile(rule["lead"] + r"\Z") if "lead" in rule else None,
            _compile(rule["tail"]),
            rule.get("lead", "").startswith("@line@"),
            rule.get("upper", False),
            _CHECKS[rule["check"]],
            _CHECKS[rule["weak_check"]] if "weak_check" in rule else None,
        )
        for rule in data()["form"]
    )


def _compile(pattern: str, *, minds_case: bool = False) -> re.Pattern[str]:
    for name, part in data()["parts"].items():
        pattern = pattern.replace(f"@{name}@", part)
    return re.compile(pattern, re.MULTILINE | (0 if minds_case else re.IGNORECASE))

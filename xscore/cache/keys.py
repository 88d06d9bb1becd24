"""The key of a judgment: the turn it answers and the judge that gave it. Pure.

Two runs of a failing command print different addresses, temporary paths, times and frame line
numbers, but the task is the same, so these are left out of the key. Trade-off: two tasks that
differ only in such a detail share their judgments (`in 0.31s`, `0x7f3c12345678`, a frame's line). A
number a person chose (`timeout 30s`, `port 8080`, `see store.py:120`) stays.
"""

import re

from xscore.platform.hashing import digest
from xscore.records.judgment import JudgeIdentity

JudgmentKey = tuple[str, str, int]
"""Turn key, judge key and draw (the column `sample`), which identify a set of judgments."""
FIRST_DRAW, SECOND_DRAW = 0, 1
"""Numbers of the draws. The second is stored in addition to the first, never instead of it."""

_UNIT = r"(?:s|ms|us|µs|μs|ns|secs?|seconds?|mins?|minutes?|m\d+(?:\.\d+)?s)"
_CLOCK = r"\d{1,2}:\d\d:\d\d(?:[.,]\d+)?"
_DATE = (
    r"(?:\d{4}[-/]\d\d[-/]\d\d|\d{1,2}/[A-Z][a-z]{2}/\d{4}|(?:[A-Z][a-z]{2},? )?[A-Z][a-z]{2} ["
    r" \d]\d)"
)
_FILE = r"[^\s:()\[\]\"'<>]+\.[A-Za-z]\w{0,9}"


def turn_key(rendered_turn_block: str) -> str:
    """Return the key of a turn, from what the judge is shown of it: 32 hex characters."""
    return digest("turn", normalise_turn_text(rendered_turn_block))


def judge_key(judge: JudgeIdentity) -> str:
    """Return the key of a judge, from everything that may change its scores: 32 hex characters."""
    fields = [f"{name}={getattr(judge, name)}" for name in judge.__struct_fields__]
    return digest("judge", *fields)


_DIGITS = tuple("0123456789")
_RULES = (
    (_DIGITS, r"\b0x[0-9a-fA-F]{9,16}\b|(?<=\bat )0x[0-9a-fA-F]+\b", "<address>"),
    (
        ("/T",),
        r"(?<![\w.~/-])(?:/private)?/var/folders/[^/\s]+/[^/\s]+/T\b/?[^/\s\"'`)>,;:\]]*",
        "<temporary>",
    ),
    (("tmp/",), r"(?<![\w.~/-])(?:/private)?(?:/var)?/tmp/[^/\s\"'`)>,;:\]]+", "<temporary>"),
    (
        ("\\",),
        r"(?i)[A-Z]:\\Users\\[^\\\s]+\\AppData\\Local\\Temp\\[^\\\s\"'`)>,;:\]]+",
        "<temporary>",
    ),
    (("<temporary>/pytest-",), r"<temporary>(?:/pytest-(?:\d+|current)\b)+", "<temporary>"),
    (_DIGITS, rf"\b{_DATE}[T :]{_CLOCK}(?: ?(?:Z\b|[+-]\d\d:?\d\d\b))?", "<time>"),
    (_DIGITS, rf"(?<![\d:]){_CLOCK}(?![\d:])", "<time>"),
    (
        _DIGITS,
        (
            r"\b((?i:in|took|elapsed|duration|finished|total|real|user|sys)[:=]?["
            rf" \t]{{1,9}})\d+\.\d+ ?{_UNIT}\b"
        ),
        r"\1<duration>",
    ),
    (_DIGITS, rf"([(\[] ?)\d+(?:\.\d+)? ?{_UNIT}(?= ?[)\]])", r"\1<duration>"),
    (_DIGITS, rf"(?<![\w.])\d+\.\d{{2,}} ?{_UNIT}\b", "<duration>"),
    (_DIGITS, r"(\bFile \"[^\"\n]+\", line )\d+", r"\1<line>"),
    (
        _DIGITS,
        (
            rf"(?m)^([ \t]*(?:at |--> |in |E {{1,9}})?{_FILE}):\d+(?::\d+)?(?=:|[ \t]*$|[ \t]in\b|["
            r" \t]\+0x)"
        ),
        r"\1:<line>",
    ),
    (_DIGITS, rf"(\({_FILE}):\d+(?::\d+)?(?=\))", r"\1:<line>"),
    (_DIGITS, rf"(?m)(\bat {_FILE}):\d+(?::\d+)?(?=[ \t]*$)", r"\1:<line>"),
    (("",), r"(?m)(?<![ \t])[ \t]+$", ""),
)
"""What varies between runs of one command: a string that the text must have for the rule to
apply, a pattern, and its replacement."""


def normalise_turn_text(text: str) -> str:
    """Replace the parts that vary between runs of one command by placeholders. Idempotent."""
    text = text.replace("\r\n", "\n")
    before = ""
    # A replacement can expose another match; each pass leaves fewer digits, so it ends.
    while text != before:
        before = text
        for needed, pattern, replacement in _RULES:
            if any(part in text for part in needed):  # few tasks need any pattern compiled
                text = re.sub(pattern, replacement, text)
        text = text.strip()
    return text

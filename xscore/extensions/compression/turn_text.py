"""Write a turn at one of four levels of shortening.

What the user said, failed attempts and their errors are in every level. Level 0 has all words
and the frames of outputs, 1 the telling sentences and the commands, 2 the first sentence, 3
nothing but what every level has. Trade-off: which sentence tells something is guessed from its
words.
"""

import re
from collections.abc import Mapping, Sequence
from enum import IntEnum

from msgspec import Struct

from xscore.extensions.compression.marks import SAME_OUTPUT, SAME_WORDS, escape_marks
from xscore.extensions.compression.session_turns import (
    AgentSession,
    CallOutcome,
    LoggedCall,
    SessionTurn,
    Speaker,
)
from xscore.platform.text import ellipsize
from xscore.platform.text_names import is_name

SENTENCE_CHARS = 300
FIRST_SENTENCE_CHARS = 160
MOST_SENTENCES = 6
FOLDED_CHARS = 120
"""Shortest repeat that is replaced by a reference, which would be as long as a shorter one."""
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`*\[(])|\n+")
_TELLING = re.compile(
    r"\b(?:because|decided|instead|root cause|the (?:problem|issue|bug|fix|reason)|turns out"
    r"|fixed|fails?|failed|works?|passes|passed|must|never|always|don't|do not|cannot|can't|won't"
    r"|todo|next|remaining|left to do|still|need to|blocked|now|found|note)\b",
    re.IGNORECASE,
)


class Level(IntEnum):
    """How far a turn is shortened."""

    WHOLE = 0
    TELLING = 1
    FIRST_SENTENCE = 2
    KEPT_ONLY = 3


class Repeats(Struct, frozen=True):
    """What other turns say in the same words."""

    words: Mapping[int, int] = {}
    """Turn -> the earlier turn in which the user said the same."""
    frames: Mapping[tuple[int, int], int] = {}
    """(turn, call) -> the later turn in which the same call returned the same."""
    attempts: frozenset[tuple[int, int]] = frozenset()
    """(turn, call) of each failed attempt that a later turn repeats."""


def find_repeats(session: AgentSession) -> Repeats:
    """Return what a session says more than once."""
    words: dict[int, int] = {}
    first_said: dict[str, int] = {}
    for turn in session.turns:
        if turn.speaker is Speaker.USER and len(turn.words) >= FOLDED_CHARS:
            first = first_said.setdefault(turn.words, turn.number)
            if first != turn.number:
                words[turn.number] = first
    frames: dict[tuple[int, int], int] = {}
    attempts: set[tuple[int, int]] = set()
    latest: dict[tuple[str, str, tuple[str, ...]], int] = {}
    latest_attempt: set[tuple[str, tuple[str, ...]]] = set()
    for turn in reversed(session.turns):
        for number, call in enumerate(turn.calls):
            if sum(map(len, call.frame.lines)) >= FOLDED_CHARS:
                last = latest.setdefault(
                    (call.tool, call.subject, call.frame.lines), turn.number
                )
                if last != turn.number:
                    frames[turn.number, number] = last
            if call.is_failed_attempt:
                attempt = (call.subject, call.frame.errors)
                if attempt in latest_attempt:
                    attempts.add((turn.number, number))
                latest_attempt.add(attempt)
    return Repeats(words, frames, frozenset(attempts))


def write_turn(turn: SessionTurn, level: Level, repeats: Repeats) -> str:
    """Return a turn as text; empty where nothing of it is kept at this level."""
    if turn.speaker is Speaker.USER:
        same_as = repeats.words.get(turn.number)
        words = f"{SAME_WORDS}{same_as}])" if same_as else escape_marks(turn.words)
        return f"[{turn.number}] User: {words}\n"
    lines = _call_lines(turn, level, repeats)
    words = escape_marks(shortened_words(turn.words, level))
    if not (words or lines):
        return ""
    head = f"[{turn.number}] Agent: {words}".rstrip()
    return "\n".join([head, *lines]) + "\n"


def shortened_words(words: str, level: Level) -> str:
    """Return what the agent said, as far as a level keeps it."""
    if level is Level.WHOLE or not words:
        return words
    if level is Level.KEPT_ONLY:
        return ""
    sentences = [sentence.strip() for sentence in _SENTENCE.split(words)]
    sentences = [sentence for sentence in sentences if _says_something(sentence)]
    if level is Level.FIRST_SENTENCE:
        if sentences:
            return ellipsize(sentences[0], FIRST_SENTENCE_CHARS)
        return ""
    return "\n".join(_telling_sentences(sentences))


def _says_something(sentence: str) -> bool:
    return len(sentence.strip("#>*-`| \t")) > 2


def _telling_sentences(sentences: Sequence[str]) -> list[str]:
    """Return the first and the last sentence, and those that tell most."""
    if len(sentences) <= MOST_SENTENCES:
        return [ellipsize(sentence, SENTENCE_CHARS) for sentence in sentences]
    chosen = {0, len(sentences) - 1}
    by_weight = sorted(
        range(len(sentences)), key=lambda number: (-_weight(sentences[number]), number)
    )
    for number in by_weight:
        if len(chosen) < MOST_SENTENCES:
            chosen.add(number)
    return [ellipsize(sentences[number], SENTENCE_CHARS) for number in sorted(chosen)]


def _weight(sentence: str) -> int:
    names = sum(is_name(word.strip(".,:;()`'\"")) for word in sentence.split()[:60])
    return 2 * len(_TELLING.findall(sentence[:600])) + min(names, 4)


def _call_lines(turn: SessionTurn, level: Level, repeats: Repeats) -> list[str]:
    lines: list[str] = []
    passed_over: list[str] = []
    for number, call in enumerate(turn.calls):
        place = (turn.number, number)
        if level is Level.WHOLE:
            lines += [_head(call), *_frame_lines(call, repeats.frames.get(place))]
        elif call.is_failed_attempt:
            if level is Level.TELLING or place not in repeats.attempts:
                lines += [_head(call), *_indented(call.frame.errors)]
        elif level is Level.TELLING:
            if call.tool:
                passed_over.append(f"{call.tool} {call.path or call.subject}".rstrip())
            else:
                lines.append(_head(call))
    if passed_over:
        lines.append(escape_marks(f"  ({'; '.join(dict.fromkeys(passed_over))})"))
    return lines


def _frame_lines(call: LoggedCall, same_as: int | None) -> list[str]:
    if same_as:
        return [f"    {SAME_OUTPUT}{same_as}])"]
    return _indented(call.frame.lines)


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _head(call: LoggedCall) -> str:
    """`  $ make test → exit 2`, `  Read src/pay.py`."""
    return f"  {call_name(call)}{_outcome(call)}"


def call_name(call: LoggedCall) -> str:
    """Return a command as it is typed, or a tool with what it was given."""
    if call.tool:
        return escape_marks(f"{call.tool} {call.path} {call.subject}".rstrip())
    return escape_marks(f"$ {call.subject}".rstrip())


def _outcome(call: LoggedCall) -> str:
    if call.outcome is CallOutcome.FAILED:
        if call.exit_code is not None:
            return f" → exit {call.exit_code}"
        return " → failed"
    if call.outcome is CallOutcome.REFUSED:
        return " → not allowed by the user"
    return ""

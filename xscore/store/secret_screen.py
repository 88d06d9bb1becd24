"""Find out cheaply which rules of redaction can apply to a text at all.

Nearly no text holds a secret, so what this costs is what redaction costs. The literals of shapes
and the words of names are searched in the whole text, the longer below the shorter ones they
contain. The marks of vendors' keys, of which there are hundreds, are searched only in the runs of
at least `RUN_CHARS` characters that a token may hold, an eighth of code, and most only in runs with
a digit; a rule is kept only if a run has its form. Trade-off: a key with another character in its
first twenty, such as Telegram's `:`, needs a literal of its own.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache

from msgspec import Struct

from xscore.store.secret_rules import NEED_DIGIT, SecretName, Shape, compile_rule, secret_rules

RUN_CHARS = 20
"""Length of the shortest key that a vendor's mark begins (AWS), mark included."""

_TOKEN_CHAR = re.compile(r"[A-Za-z0-9._~+/=!%-]")
"""Characters of a bearer token (RFC 7235, `token68`), Salesforce's `!`, and the `%` of a
URL."""
_SPACED = bytes(byte if _TOKEN_CHAR.match(chr(byte)) else 32 for byte in range(256))
"""Turns every byte that is in no token into a space."""

TRIES = 32
"""How often a literal is tried between two breaks, from the first and from the last on. No real
line holds more secrets of one kind without a blank, quote, comma or bracket; hostile text is one
word of a megabyte."""

_BREAK = re.compile(r"[\s\"'`(){}\[\]<>,;\\]")
_DIGIT = re.compile(b"[0-9]")


class Literal(Struct, frozen=True):
    """A literal of the rules, and what to try where it occurs."""

    text: str
    minds_case: bool
    shapes: tuple[Shape, ...] = ()
    names: tuple[SecretName, ...] = ()


class FoundLiterals(Struct, frozen=True):
    """The literals that occur in some texts; each of these texts need only be searched for them."""

    literals: tuple[Literal, ...]
    is_clean: bool = False
    """Whether the texts contain no secret, so that none of them need be searched."""


class _Branch(Struct, frozen=True):
    """A literal, and those searched only where it occurs, as they contain or need it."""

    literal: Literal
    inner: tuple["_Branch", ...]


def screen(text: str, lowered: str) -> FoundLiterals:
    """Return the literals that occur in a text.

    lowered: the same in lower case, each character at its place.
    """
    literals: list[Literal] = []
    runs = _token_runs(text) if len(text) >= RUN_CHARS else set()
    if runs:
        literals += _marks_among(_marks(has_digit=False), b" ".join(runs))
        numbered = [run for run in runs if _DIGIT.search(run)]
        if numbered:
            literals += _marks_among(_marks(has_digit=True), b" ".join(numbered))
    return FoundLiterals((*literals, *_literals_among(_tree(), text, lowered)))


def _literals_among(
    branches: tuple[_Branch, ...], text: str, lowered: str
) -> Iterator[Literal]:
    for branch in branches:
        if branch.literal.text in (text if branch.literal.minds_case else lowered):
            if branch.literal.shapes or branch.literal.names:
                yield branch.literal
            if branch.inner:
                yield from _literals_among(branch.inner, text, lowered)


def _marks_among(marks: tuple[Literal, ...], runs: bytes) -> list[Literal]:
    together = runs.decode("ascii")
    return [mark for mark in marks if mark.text in together and _fits_a_run(together, mark)]


def _token_runs(text: str) -> set[bytes]:
    """Return the long runs of token characters of a text, each once: code repeats itself."""
    words = text.encode("ascii", "replace").translate(_SPACED).split()
    return {word for word in words if len(word) >= RUN_CHARS}


def _fits_a_run(runs: str, mark: Literal) -> bool:
    for place in places(runs, mark.text):
        for shape in mark.shapes:
            begin = place - shape.back
            if begin >= 0 and compile_rule(shape.core, minds_case=True).match(runs, begin):
                return True
    return False


def places(text: str, literal: str) -> Iterator[int]:
    """Yield where a literal occurs, of more than twice `TRIES` places between two breaks the first
    and the last."""
    place = text.find(literal)
    stop = 0
    tries_left = TRIES
    while place >= 0:
        if place >= stop:
            match = _BREAK.search(text, place + len(literal))
            stop = match.start() if match else len(text)
            tries_left = TRIES
        tries_left -= 1
        yield place
        if tries_left:
            place = text.find(literal, place + 1)
            continue
        yield from _last_places(text, literal, place + 1, stop)
        place = text.find(literal, stop)


def _last_places(text: str, literal: str, start: int, stop: int) -> list[int]:
    """Return the last `TRIES` places of a literal that ends within these bounds."""
    last: list[int] = []
    end = stop
    while len(last) < TRIES:
        place = text.rfind(literal, start, end)
        if place < 0:
            break
        last.append(place)
        end = place + len(literal) - 1
    return last[::-1]


@cache
def _tree() -> tuple[_Branch, ...]:
    """Return the literals of shapes and the words of names, each below what it contains or
    needs."""
    below: dict[str, list[Literal]] = {}
    literals = sorted(_all_literals(), key=lambda literal: len(literal.text))
    for literal in literals:
        needs = {shape.needs for shape in literal.shapes}
        # A literal has to be searched if one of its shapes needs nothing, or a name is found by
        # it.
        need = ""
        if len(needs) == 1 and not literal.names:
            need = needs.pop()
        below.setdefault(need or _contained(literal, literals), []).append(literal)
    return _branches("", below)


def _all_literals() -> Iterator[Literal]:
    rules = secret_rules()
    # So that each text is searched once for a literal.
    shapes: defaultdict[tuple[str, bool], tuple[Shape, ...]] = defaultdict(tuple)
    for shape in rules.shape:
        if shape.needs:
            # What a shape needs is searched for, though it finds no secret by itself.
            shapes.setdefault((shape.needs, False), ())
        for text in shape.literals:
            shapes[text, shape.case] += (shape,)
    names: defaultdict[tuple[str, bool], tuple[SecretName, ...]] = defaultdict(tuple)
    for name in rules.name:
        for word in name.words:
            names[word, False] += (name,)
    for key in shapes | names:
        text, minds_case = key
        yield Literal(text, minds_case, shapes.get(key, ()), names.get(key, ()))


def _contained(literal: Literal, shortest_first: list[Literal]) -> str:
    """Return the shortest literal that this one contains; empty if there is none."""
    for shorter in shortest_first:
        if (
            not shorter.minds_case
            and shorter.text in literal.text.lower()
            and shorter.text != literal.text.lower()
        ):
            return shorter.text
    return ""


def _branches(above: str, below: dict[str, list[Literal]]) -> tuple[_Branch, ...]:
    return tuple(
        _Branch(literal, _branches(literal.text, below)) for literal in below.get(above, [])
    )


@cache
def _marks(*, has_digit: bool) -> tuple[Literal, ...]:
    """Return the marks of the keys whose check asks for a digit, or of the others."""
    shapes: dict[str, tuple[Shape, ...]] = {}
    for key in secret_rules().token:
        if (key.check in NEED_DIGIT) is has_digit:
            for mark in key.starts:
                shapes[mark] = (*shapes.get(mark, ()), *key.shapes())
    return tuple(Literal(mark, True, tried) for mark, tried in shapes.items())

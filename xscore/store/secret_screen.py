"""Find out cheaply which rules of redaction can apply to a text at all.

Nearly no text holds a secret, so what this costs is what redaction costs. Names and the literals of shapes are searched
in the whole text. The marks of vendors' keys, of which there are hundreds, are searched only in the runs of at least
`RUN_CHARS` characters that a token may hold, which are an eighth of code; a rule is kept only if a run has its form.
Trade-off: a key written with other characters in its first twenty, such as `%2B`, needs a shape with a literal instead.
"""

import re
from collections.abc import Iterator
from functools import cache

from msgspec import Struct

from xscore.store.secret_rules import NEED_DIGIT, SecretName, Shape, compile_rule, secret_rules

RUN_CHARS = 20
"""The shortest key that a vendor's mark begins (AWS), mark included."""

_TOKEN_CHAR = re.compile(r"[A-Za-z0-9._~+/=!-]")
"""What a bearer token may hold (RFC 7235, `token68`), and Salesforce's `!`."""
_SPACED = bytes(byte if _TOKEN_CHAR.match(chr(byte)) else 32 for byte in range(256))
"""Turns every byte that is in no token into a space."""


TRIES = 32
"""More secrets of one kind do not stand together without a blank, a quote, a comma or a bracket between them."""

_BREAK = re.compile(r"[\s\"'`(){}\[\]<>,;\\]")
_DIGIT = re.compile(b"[0-9]")


class FoundLiterals(Struct, frozen=True):
    """The literals of the rules that occur in some texts; each of these texts need only be searched for them."""

    shapes: tuple[tuple[str, bool, tuple[Shape, ...]], ...]
    """Literal, whether its case matters, and the shapes to try there."""
    names: tuple[tuple[str, SecretName], ...]
    is_clean: bool = False
    """The texts hold no secret, so none of them need be searched."""


def screen(text: str, lowered: str) -> FoundLiterals:
    """Return the literals that occur in a text. lowered: the same in lower case, each character at its place."""
    everywhere, names = _searched_everywhere()
    shapes = []
    for literal, minds_case, tried in everywhere:
        if literal in (text if minds_case else lowered):
            shapes.append((literal, minds_case, tried))
    runs = _token_runs(text)
    numbered = [run for run in runs if _DIGIT.search(run)]
    for marks, searched in (_marks(has_digit=False), runs), (_marks(has_digit=True), numbered):
        together = b" ".join(searched).decode("ascii")
        for mark, tried in marks if together else ():
            if mark in together and _fits_a_run(together, mark, tried):
                shapes.append((mark, True, tried))
    return FoundLiterals(tuple(shapes), tuple([entry for entry in names if entry[0] in lowered]))


def _token_runs(text: str) -> list[bytes]:
    """Return the long runs of token characters of a text."""
    words = text.encode("ascii", "replace").translate(_SPACED).split()
    return [word for word in words if len(word) >= RUN_CHARS]


def _fits_a_run(runs: str, mark: str, tried: tuple[Shape, ...]) -> bool:
    for place in places(runs, mark):
        for shape in tried:
            begin = place - shape.back
            if begin >= 0 and compile_rule(shape.core, minds_case=True).match(runs, begin):
                return True
    return False


def places(text: str, literal: str) -> Iterator[int]:
    """Yield where a literal occurs, at most `TRIES` times between two breaks: hostile text is one word of a megabyte."""
    place, stop, left = text.find(literal), 0, TRIES
    while place >= 0:
        if place >= stop:
            match = _BREAK.search(text, place + len(literal))
            stop, left = match.start() if match else len(text), TRIES
        left -= 1
        yield place
        place = text.find(literal, place + 1 if left else stop)


@cache
def _searched_everywhere() -> tuple[
    tuple[tuple[str, bool, tuple[Shape, ...]], ...], tuple[tuple[str, SecretName], ...]
]:
    """Return the literals of the shapes, and the words of the names."""
    shapes: dict[tuple[str, bool], tuple[Shape, ...]] = {}  # so that each text is searched once for a literal
    for shape in secret_rules().shape:
        for literal in shape.literals:
            shapes[literal, shape.case] = (*shapes.get((literal, shape.case), ()), shape)
    names = tuple((word, name) for name in secret_rules().name for word in name.words)
    return tuple((*literal, tried) for literal, tried in shapes.items()), names


@cache
def _marks(*, has_digit: bool) -> tuple[tuple[str, tuple[Shape, ...]], ...]:
    """Return the marks of the keys that always hold a digit, since their check asks for one, or of the others."""
    shapes: dict[str, tuple[Shape, ...]] = {}
    for key in secret_rules().token:
        if (key.check in NEED_DIGIT) is has_digit:
            for mark in key.starts:
                shapes[mark] = (*shapes.get(mark, ()), key.shape())
    return tuple(shapes.items())

"""What a test is for, in a few lines: its name, what it says of itself, and what it calls.

The judge reads this card instead of the test's body, which would otherwise be two fifths of what it reads.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from xscore.indexer.facts import AMBIENT
from xscore.indexer.pieces import Piece
from xscore.records import Kind

MAX_TESTED = 12
"""Names listed as tested."""
MAX_CASES = 40
"""Cases listed of a class or suite of tests."""
_DOC_CHARS = 300
_HELPER = re.compile(
    r"^(assert\w*|self\.assert\w*|self\.(subTest|fail|skipTest)|expect|pytest\.\w+|mock\.\w+|\w*[Mm]ock\w*|t\.\w+|"
    r"jest\.\w+|vi\.\w+|done|console\.\w+|should|monkeypatch\.\w+)$|^\?\.(to[A-Z]\w*|should|equal|eql|be)$"
)


def with_card(piece: Piece, *, cases: Sequence[str]) -> Piece:
    """The piece with its card and purpose, where it is a test and the card is the shorter."""
    if piece.kind is not Kind.TEST:
        return piece
    tested = [name for name in map(_plain, piece.facts.dependencies) if name][:MAX_TESTED]
    said = " ".join(piece.facts.docstring.split("\n\n")[0].split())[:_DOC_CHARS]
    parts = [_heading(piece)]
    if said:
        parts.append(said)
    if cases:
        parts.append("Cases: " + "; ".join(cases[:MAX_CASES]) + ("; ..." if len(cases) > MAX_CASES else ""))
    if tested:
        parts.append("Tests: " + ", ".join(tested))
    card = "\n".join(parts)
    facts = replace(piece.facts, purpose=_purpose(piece.entity, said, tested))
    return replace(piece, facts=facts, card=card if len(card) < len(piece.text) else "")


def _heading(piece: Piece) -> str:
    signature = piece.facts.signature.split("\n")
    return next((line for line in signature if not line.startswith("@")), "").rstrip(":") or piece.entity


def _plain(name: str) -> str:
    if _HELPER.match(name):
        return ""
    plain = name.removeprefix("?.")
    return "" if plain.rpartition(".")[2] in AMBIENT else plain


def _purpose(entity: str, said: str, tested: Sequence[str]) -> str:
    title = said.partition(". ")[0] or _words(entity)
    return f"{title} ({', '.join(tested[:5])})" if tested else title


def _words(entity: str) -> str:
    """`TestApp.test_no_route` -> `no route`; titles of suites stay as they are."""
    if " " in entity:
        return entity
    last = entity.rpartition(".")[2].partition("#")[0]
    return " ".join(part for part in re.split(r"_+|(?<=[a-z])(?=[A-Z])", last) if part.lower() != "test") or entity

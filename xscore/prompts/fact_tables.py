"""Short facts as one TOON table, when that is shorter than a fence for each; see docs/decisions/0014-toon.md.

Preferences, conventions, the tech stack and todos come as many rows of a line; nothing else does, and code never.
Trade-off: a table is read a little less easily than a fence for each fact, so it has to be shorter to be chosen, and
fewer than three facts are not made one. TOON itself is the `toon-format` package's, loaded when a table may pay.
"""

from collections.abc import Mapping, Sequence

from xscore import tokens
from xscore.records import Kind, Memory

FACT_KINDS = frozenset({Kind.PREFERENCE, Kind.CONVENTION, Kind.TECH_STACK, Kind.TODO})
LEAST = 3
"""Fewer facts are no table."""
LONGEST = 400
"""Characters of a fact that still is a row."""

Row = Mapping[str, str | float]


def is_fact(memory: Memory) -> bool:
    """Whether this memory may be a row: of such a kind, of no file, and short."""
    return memory.kind in FACT_KINDS and not memory.path and len(memory.text) <= LONGEST


def table(rows: Sequence[Row]) -> str:
    """Return the facts as a TOON table, `facts[3]{id,kind,…}:` and a line each; all rows have the same names."""
    import toon_format

    return toon_format.dumps({"facts": list(rows)})


def is_shorter(tabled: str, fenced: str) -> bool:
    """Whether the table is likely to take fewer tokens than the fences."""
    return tokens.estimate(tokens.size(tabled)) < tokens.estimate(tokens.size(fenced))

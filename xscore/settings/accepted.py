"""Says in words what a setting accepts, for the error about a value that it does not.

It reads the types of `model`, so no message can name another bound than the one that is checked; it
checks nothing. Trade-off: a value in a table is described by the table's rule, not by the name of
its entry.
"""

from collections.abc import Iterable, Iterator
from decimal import Decimal
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from msgspec import Meta

from xscore.settings.values import MOST_USD

_KINDS: dict[Any, str] = {
    bool: "true or false",
    str: "a text",
    Path: "a path",
    Decimal: f"dollars from 0 to {MOST_USD:,}",
}


def describe_accepted(kind: Any, value: object) -> str:
    """`a number from 0 to 1`; for a type that takes several, the part that a value like this
    was meant for."""
    if get_origin(kind) is Annotated:
        inner, *marks = get_args(kind)
        bounds = [mark for mark in marks if isinstance(mark, Meta)]
        return _described(inner, value, bounds)
    return _described(kind, value, [])


def _described(kind: Any, value: object, marks: list[Meta]) -> str:
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return describe_accepted(_meant(kind, value), value)
    if origin is Literal:
        return _one_of(get_args(kind))
    if origin is dict:
        # The name may be what is wrong, so both are described.
        name, entry = (describe_accepted(part, "") for part in get_args(kind))
        return f"NAME=VALUE pairs: NAME is {name}; VALUE is {entry}"
    if origin is tuple:
        max_length = next(_limits(marks, "max_length"), None)
        return f"a list of {f'at most {max_length:,} ' if max_length else ''}texts"
    return _described_plain(kind, marks)


def _one_of(values: Iterable[object]) -> str:
    return f"one of {', '.join(filter(None, map(str, values)))}"


def _described_plain(kind: Any, marks: list[Meta]) -> str:
    if issubclass(kind, Enum):
        return _one_of(kind)
    if kind in (int, float):
        return f"a {'whole ' if kind is int else ''}number{_range(marks)}"
    pattern = next((mark.pattern for mark in marks if mark.pattern), None)
    if pattern:
        return f"a text that matches {pattern}"
    return _KINDS.get(kind, "a text")


def _meant(kind: Any, value: object) -> Any:
    """Return the part of a union that is a table if the value is one, otherwise the first that
    is not a table."""
    parts = [part for part in get_args(kind) if part is not type(None)]
    fits = [part for part in parts if _is_table(part) == isinstance(value, dict)]
    return (fits or parts)[0]


def _is_table(kind: Any) -> bool:
    return get_origin(kind) is dict


def _limits(marks: list[Meta], name: str) -> Iterator[float]:
    for mark in marks:
        limit = getattr(mark, name)
        if limit is not None:
            yield limit


def _range(marks: list[Meta]) -> str:
    """` from 0 to 1`, ` above 0, at most 60`, ` from 1 up`; empty without bounds."""
    least = next(_limits(marks, "ge"), None)
    above = next(_limits(marks, "gt"), None)
    highest = next(_limits(marks, "le"), None)
    if least is not None:
        if highest is not None:
            return f" from {least:,.12g} to {highest:,.12g}"
        return f" from {least:,.12g} up"
    if above is not None:
        return f" above {above:,.12g}" + (
            f", at most {highest:,.12g}" if highest is not None else ""
        )
    if highest is not None:
        return f" up to {highest:,.12g}"
    return ""

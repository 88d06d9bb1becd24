"""What a chain leads to, as a record, and what the text of a type says about it."""

from typing import NamedTuple

from xscore.store.link_rows import EntityRow

NOT_CALLED = -2
"""Replaces the number of arguments where a member is used, not called. -1: called with any
number."""


class Value(NamedTuple):
    """What a chain leads to. Without a row: something outside of the repository."""

    row: EntityRow | None = None
    """A class, for itself or an object of it, or a function."""
    written: str = ""
    """A type from outside the repository, with its arguments, as the file at `path` writes
    it."""
    path: str = ""
    holder: EntityRow | None = None
    """The class on whose object a method is called."""
    result: str = ""
    """Chain of what a method returns that `row` only declares."""
    module: str | None = None
    """A module's file, or the folder of a package."""
    is_object: bool = False
    """Whether it is certainly an object of the class in `row`, and not the class."""


OUTSIDE = Value()


def object_of(row: EntityRow | None) -> Value | None:
    """Return an object of a class."""
    if row is None:
        return None
    return Value(row)


def type_arguments(written: str) -> list[str]:
    """Return the arguments of a type, at least an empty one: `A<B,C<D>>` -> `B`, `C<D>`."""
    parts = [""]
    depth = 0
    for char in written.partition("<")[2].removesuffix(">"):
        depth += (char == "<") - (char == ">")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return parts

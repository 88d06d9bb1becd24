"""The names in a text that a reader may need word for word: paths, identifiers, options, versions,
tickets.

It is one linear pass over words. Trade-off: a name is recognised by its form, so a plain English
word that names a module is not one.
"""

import re
from collections.abc import Iterable

NAME_CHARS = 160
_WORD = re.compile(r"[\w~./@#:+\-]+")
_EDGES = ".,:;-+@#/"
_FORM = re.compile(
    r"[a-z][A-Z]|[A-Z]{2}[a-z]|[A-Za-z0-9]_|_\w|[A-Za-z]\d|\d[A-Za-z]|\d\.\d|\w(?:\.|::)[A-Za-z]"
    r"|[A-Z]-\d"
)
"""Matches what makes a word a name anywhere in it: camel case, an underscore, letters and
digits, dots between, a ticket."""
_MARKED = re.compile(r"--?[A-Za-z]|#\d")
"""Matches what makes a word a name at its start: an option, an issue."""
_NO_NAMES = frozenset({"e.g", "i.e", "etc", "vs", "a.m", "p.m"})
_CALLED = re.compile(r"(?<![\w.])([A-Za-z_][\w.]{1,80})\(")
_QUOTED = re.compile(r"`([A-Za-z_][\w.\-]{1,80})`")


def names_in(text: str) -> dict[str, None]:
    """Return the names in a text, in order, each once."""
    names: dict[str, None] = {}
    for match in _WORD.finditer(text):
        # Most words are plain, and no name.
        if match[0].islower() and match[0].isalpha():
            continue
        word = _stripped(match[0])
        if is_name(word):
            names[word] = None
    for pattern in (_CALLED, _QUOTED):
        for match in pattern.finditer(text):
            names[match[1].strip(".-")] = None
    return names


def names_of_all(texts: Iterable[str]) -> dict[str, None]:
    """Return the names of several texts, in order, each once."""
    names: dict[str, None] = {}
    for text in texts:
        names.update(names_in(text))
    return names


def is_name(word: str) -> bool:
    """Whether a word has the form of a path, an identifier, an option, a version or a ticket."""
    if not 2 <= len(word) <= NAME_CHARS or word in _NO_NAMES:
        return False
    if "/" in word:
        return any(len(part) > 1 for part in re.split(r"\W+", word))
    if word.isupper() or _MARKED.match(word):
        return True
    return _FORM.search(word) is not None


def occurs_in(name: str, text: str) -> bool:
    """Whether a text has a name as a whole: `v1.23` does not have `v1.2`."""
    place = text.find(name)
    while place >= 0:
        end = place + len(name)
        if not (_continues(text[place - 1 : place]) or _continues(text[end : end + 1])):
            return True
        place = text.find(name, place + 1)
    return False


def _continues(character: str) -> bool:
    """Whether a character next to a name is part of a longer one."""
    return character.isalnum() or character == "_"


def _stripped(word: str) -> str:
    """Return a word without the punctuation around it; options and tickets keep their marks."""
    end = word.rstrip(_EDGES)
    start = end.lstrip(".,:;+@/")
    if start.startswith("-") and not _MARKED.match(start):
        start = start.lstrip("-")
    # An absolute path keeps its root, a relative one its dots.
    if end.startswith(("/", "./", "../", "~/", ".")) and len(start) > 1:
        return end
    return start

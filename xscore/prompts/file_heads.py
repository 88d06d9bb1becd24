"""The head of a file that is shown with a piece of it: only those imports that the piece uses.
Pure.

A function of seven lines needs no twelve lines of imports. Names are found as words in the text, so
that a name in a comment keeps its import; whatever is not surely an import stays, and so does an
import whose names are unknown (`*`, `#include`, a namespace). Trade-off: statements are read by
their first word, not by a parser, and what a file imports for its effect alone is left out.
"""

import re
from collections.abc import Iterator, Sequence

FEWEST_LINES = 4
"""Fewest lines of a head that is shown in part."""
_WORD = re.compile(r"[^\W\d]\w*")
_STARTS = re.compile(
    r"(?:from\s+\S+\s+import\b|import\b|use\s|const\s.*=\s*require\(|(?:pub\s+)?use\s)"
)
_OPENING, _CLOSING = "([{", ")]}"
_KEYWORDS = frozenset(
    {
        "as",
        "from",
        "import",
        "use",
        "pub",
        "type",
        "typeof",
        "const",
        "require",
        "static",
        "self",
    }
)


def used_head(head: str, texts: Sequence[str]) -> str:
    """Return the head of a file without the imports that none of these texts uses; a gap says how
    many are gone."""
    if head.count("\n") + 1 < FEWEST_LINES:
        return head
    used = set[str]()
    for text in texts:
        used.update(_WORD.findall(text))
    kept: list[str] = []
    left_out = 0
    for statement in _statements(head.split("\n")):
        names = _imported_names(statement)
        if names and used.isdisjoint(names):
            left_out += 1
        else:
            kept.append("\n".join(statement))
    if not left_out:
        return head
    shown = re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip("\n")
    gap = (
        f"[… {left_out} import{'s' if left_out > 1 else ''} that nothing here uses left out …]"
    )
    if shown:
        return f"{shown}\n{gap}"
    return ""


def _statements(lines: Sequence[str]) -> Iterator[list[str]]:
    """Yield each import with the lines it goes on over, and every other line by itself."""
    at = 0
    while at < len(lines):
        end = at + 1
        if _STARTS.match(lines[at]):
            open_brackets = _depth(lines[at])
            while end < len(lines) and (open_brackets > 0 or lines[end - 1].endswith("\\")):
                open_brackets += _depth(lines[end])
                end += 1
        yield list(lines[at:end])
        at = end


def _depth(line: str) -> int:
    """Return by how much more brackets it opens than it closes."""
    return sum(line.count(mark) for mark in _OPENING) - sum(
        line.count(mark) for mark in _CLOSING
    )


def _imported_names(statement: Sequence[str]) -> set[str]:
    """Return the names that an import binds; none where it is not an import, or they cannot be
    told."""
    source = " ".join(re.sub(r"(?:#|//).*", "", line) for line in statement).strip().rstrip(";")
    if not _STARTS.match(source) or "*" in source:
        return set()
    if python := re.match(r"from\s+\S+\s+import\s+(.+)", source):
        return _words(python[1])
    if script := re.match(
        r"(?:import|const)\s+(?:type\s+)?(.+?)\s*(?:\bfrom\b|=\s*require\()\s*", source
    ):
        return _words(script[1])
    if not re.search(r"[\"']", source):
        # `import a.b.C`, `use a::b::{C, D}`, `import a.b as c`: the last part of each path, and
        # Python's first
        paths = re.split(
            r"[{},]|\bas\b", re.sub(r"^(?:pub\s+)?(?:import|use)\s+(?:static\s+)?", "", source)
        )
        parts = [_WORD.findall(path) for path in paths]
        return {word for part in parts if part for word in (part[0], part[-1])} - _KEYWORDS
    # Go: the last part of each quoted path, or the name before it
    names = _words(re.sub(r"[\"'][^\"']*[\"']", " ", source))
    for path in re.findall(r"[\"']([^\"']+)[\"']", source):
        names |= set(_WORD.findall(path)[-1:])
    return names


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text)) - _KEYWORDS

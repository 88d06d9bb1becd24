"""Globs with the syntax of .gitignore, matched in time that grows with the path's length, whatever
the glob.

Each glob becomes a regular expression in which the text between two stars is matched once, at its
first place (an atomic group): that is right for `*` and `**`, and it cannot backtrack. Pure.
Trade-off: in lists of the settings, where no folder is walked, `!` takes in files below an excluded
folder, which git would refuse; `[[:alpha:]]` is not known.
"""

import re
from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter

MAX_GLOB_CHARS = 1_000
_CLASS = re.compile(r"\[([!^]?)(\]?[^\]/]*)\]")


class GlobList:
    """Globs in order; the last that matches a path decides."""

    def __init__(self, globs: Iterable[str], *, below: bool = True) -> None:
        """Blank lines and comments are skipped. Raises ValueError or re.error for an invalid glob.

        below: a glob that matches a folder matches everything in it; if not, who walks the folders
            asks for each.
        """
        rules: list[tuple[bool, str]] = []
        for line in globs:
            glob = line if line.endswith("\\ ") else line.rstrip()
            if glob and glob[0] != "#":
                rules.append((not glob.startswith("!"), glob.removeprefix("!")))
        self._rules: list[tuple[bool, re.Pattern[str]]] = []
        # The last that matches decides; neighbours that decide alike are one pattern.
        for is_match, group in groupby(reversed(rules), key=itemgetter(0)):
            pattern = "|".join(_pattern(glob, below=below) for _, glob in group)
            self._rules.append((is_match, re.compile(pattern, re.DOTALL)))

    def verdict(self, path: str) -> bool | None:
        """Return whether a path is matched; None if no glob is about it.

        A folder's path ends with a slash.
        """
        for is_match, rule in self._rules:
            if rule.match(path):
                return is_match
        return None


def is_glob(text: str) -> bool:
    """Whether a line is a glob, or says nothing."""
    try:
        GlobList([text])
    except (ValueError, re.error):
        return False
    return True


def _pattern(glob: str, *, below: bool) -> str:
    """Return the regular expression of a glob, for the beginning of a path; not `below`: for a
    whole path."""
    if len(glob) > MAX_GLOB_CHARS:
        raise ValueError(f"it has more than {MAX_GLOB_CHARS:,} characters")
    if not glob or re.search(r"(?<!\\)(\\\\)*\\\Z", glob):
        raise ValueError("it ends too early")
    first, *groups = _segment_groups(glob)
    is_folder = glob.endswith("/")
    end = "/" if is_folder else r"(?:/|\Z)"
    if groups and not groups[-1]:  # `a/**`: what is below, not `a` itself
        groups.pop()
        end = "/" if first or groups else ""
        if is_folder:
            end += ".+/"
        else:
            end += "." if below else ".+"
    if not below:
        end += r"\Z"
    if not groups:
        return first + end
    ends = ["/"] * (len(groups) - 1) + [end]
    patterns = [
        f"(?>(?:[^/]+/)*?{group}{after})" for group, after in zip(groups, ends, strict=True)
    ]
    return (f"{first}/" if first else "") + "".join(patterns)


def _segment_groups(glob: str) -> list[str]:
    """Return the patterns of the parts of a path between two `**`.

    Each is matched at its first place; the last one ends the path or a folder in it.
    """
    segments = glob.strip("/").split("/")
    if "/" not in glob.rstrip("/"):  # a name counts in any folder
        segments.insert(0, "**")
    groups: list[list[str]] = [[]]
    before = ""
    for segment in segments:
        is_any = segment != "*" and set(segment) == {"*"}
        if not is_any:
            groups[-1].append(_segment(segment))
        elif before != "**":
            groups.append([])
        before = "**" if is_any else segment
    return ["/".join(group) for group in groups]


def _segment(glob: str) -> str:
    """Return the pattern of one part of a path; each star but the last takes as little as it can,
    once."""
    parts = [""]
    place = 0
    while place < len(glob):
        bracket = _CLASS.match(glob, place)
        if glob[place] == "*":
            parts.append("")
        elif glob[place] == "?":
            parts[-1] += "[^/]"
        elif bracket:
            inner = bracket[2].replace("\\", r"\\").replace("[", r"\[").replace("]", r"\]")
            parts[-1] += f"(?!/)[{'^' if bracket[1] else ''}{inner}]"
            place = bracket.end() - 1
        else:
            place += glob[place] == "\\" and place + 1 < len(glob)
            parts[-1] += re.escape(glob[place])
        place += 1
    if not any(parts):  # a part of a path has at least one character
        return "[^/]+"
    first, *rest = parts
    if not rest:
        return first
    *middle, last = rest
    between = "".join(f"(?>[^/]*?{part})" for part in middle if part)
    return f"{first}{between}[^/]*{last}(?=/|\\Z)"

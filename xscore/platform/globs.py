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

MAX_GLOB_CHARS = 1_000
_CLASS = re.compile(r"\[([!^]?)(\]?[^\]/]*)\]")


class GlobList:
    """Globs in order; the last that matches a path decides."""

    def __init__(self, globs: Iterable[str], *, below: bool = True) -> None:
        """Blank lines and comments are skipped. Raises ValueError or re.error for an invalid glob.

        below: a glob that matches a folder matches everything in it; if not, who walks the folders
            asks for each.
        """
        given = [line if line.endswith("\\ ") else line.rstrip() for line in globs]
        rules = [
            (not glob.startswith("!"), glob.removeprefix("!"))
            for glob in given
            if glob and glob[0] != "#"
        ]
        self._rules = [
            (
                matched,
                re.compile("|".join(_pattern(glob, below=below) for _, glob in group), re.DOTALL),
            )
            for matched, group in groupby(reversed(rules), key=lambda rule: rule[0])
        ]

    def verdict(self, path: str) -> bool | None:
        """Return whether a path is matched; None: no glob is about it.

        A folder's path ends with a slash.
        """
        return next((matched for matched, rule in self._rules if rule.match(path)), None)


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
    is_anchored = "/" in glob.rstrip("/")
    segments = glob.strip("/").split("/") if is_anchored else ["**", *glob.strip("/").split("/")]
    segments = [
        "**" if set(segment) == {"*"} and segment != "*" else segment for segment in segments
    ]
    # Between two `**` a group of segments is matched at its first place; the last one ends the path
    # or a folder in it.
    groups: list[list[str]] = [[]]
    for segment, before in zip(segments, ["", *segments], strict=False):
        if segment != "**":
            groups[-1].append(_segment(segment))
        elif before != "**":
            groups.append([])
    first, *others = ["/".join(group) for group in groups]
    end = "/" if glob.endswith("/") else r"(?:/|\Z)"
    if others and not others[-1]:  # `a/**`: what is below, not `a` itself
        others, within = others[:-1], "/" if first or others[:-1] else ""
        end = within + (".+/" if glob.endswith("/") else "." if below else ".+")
    end += "" if below else r"\Z"
    ends = ["/"] * (len(others) - 1) + [end]
    found = "".join(
        f"(?>(?:[^/]+/)*?{group}{after})" for group, after in zip(others, ends, strict=False)
    )
    return f"{first}{'/' if first else ''}{found}" if found else first + end


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
    return first + "".join(f"(?>[^/]*?{part})" for part in middle if part) + f"[^/]*{last}(?=/|\\Z)"

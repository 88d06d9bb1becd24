"""Take secrets out of text before it is stored or sent, and name the files that are nothing but secrets.

The rules are data (`secrets.toml`, read by `secret_rules`): provider prefixes, JWT, PEM blocks, URL passwords,
literal values of secret-looking names. It runs on the text of entities after parsing, because redacting a file first
breaks what the parser needs. A finding becomes `<SECRET:type>`; the number of lines never changes, so spans stay
right, and redacting twice changes nothing. It does not hunt for random-looking strings without a telling prefix or
name: most of those are hashes and fixtures. Its trade-off: in doubt, a literal beside a secret-looking name goes.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import translate
from functools import cache

from xscore.memory.secrets.pem import bodies
from xscore.memory.secrets.secret_rules import Finding, data, findings

MAX_PASSES = 10
"""A replacement can uncover a neighbour; two passes are the rule, the rest is a backstop."""

_MARK = re.compile(r"<SECRET:\w+>")


@dataclass(frozen=True, slots=True)
class Redacted:
    """Text without its secrets."""

    text: str
    count: int
    types: tuple[str, ...]
    """Types of what was found, sorted, each once."""


def redact(text: str) -> Redacted:
    """Replace every secret by `<SECRET:type>`. Linear in the text; nearly free where no literal of a rule occurs."""
    count, types = 0, set[str]()
    for _ in range(MAX_PASSES):
        found = _disjoint([*findings(text), *bodies(text)])
        if not found:
            break
        marks = [match.span() for match in _MARK.finditer(text)]
        fresh = _outside(marks, found)
        if not fresh:
            break
        text = _replace(text, fresh)
        count += len(fresh)
        types.update(finding.type for finding in fresh)
    return Redacted(text, count, tuple(sorted(types)))


def may_be_named(file: str) -> bool:
    """Whether the very name of a file holds no secret; a name is shown and kept, and cannot be redacted."""
    return not redact(file).count


def is_secret_file(name: str) -> bool:
    """Whether a file, by its name or path, exists to hold secrets and stays out of the index altogether."""
    path = "/" + name.replace("\\", "/").lower()
    names, endings = _file_patterns()
    return bool(names.match(path.rsplit("/", 1)[-1])) or path.endswith(endings)


def _replace(text: str, found: Iterable[Finding]) -> str:
    pieces, end = [], 0
    for finding in found:
        lines = text.count("\n", finding.start, finding.stop)
        pieces += [text[end : finding.start], f"<SECRET:{finding.type}>", "\n" * lines]
        end = finding.stop
    return "".join([*pieces, text[end:]])


def _disjoint(found: Iterable[Finding]) -> list[Finding]:
    """Make one finding of those that overlap; the longest at the earliest place names it."""
    merged: list[Finding] = []
    for finding in sorted(found, key=lambda finding: (finding.start, -finding.stop)):
        if merged and finding.start < merged[-1].stop:
            first = merged[-1]
            merged[-1] = Finding(first.start, max(first.stop, finding.stop), first.type)
        else:
            merged.append(finding)
    return merged


def _outside(marks: list[tuple[int, int]], found: list[Finding]) -> list[Finding]:
    """Those findings that do not touch an earlier redaction. Both lists are in order and disjoint."""
    fresh, index = [], 0
    for finding in found:
        while index < len(marks) and marks[index][1] <= finding.start:
            index += 1
        if index == len(marks) or marks[index][0] >= finding.stop:
            fresh.append(finding)
    return fresh


@cache
def _file_patterns() -> tuple[re.Pattern[str], tuple[str, ...]]:
    files = data()["files"]
    names = [translate(glob) for glob in files["globs"] if "/" not in glob]
    endings = tuple(glob for glob in files["globs"] if "/" in glob)
    return re.compile("|".join([*names, rf"(?:{files['ssh']})\Z"])), endings

"""Take secrets out of text before it is stored or sent, and name the files that are nothing but secrets.

The rules are data (`secrets.toml`): provider prefixes, JWT, PEM blocks, URL passwords, literal values of secret-looking
names. It runs on the text of entities after parsing, because redacting a file first breaks what the parser needs. A
finding becomes `<SECRET:type>`; the number of lines never changes, so spans stay right, and redacting twice changes
nothing. It does not hunt for random-looking strings without a telling prefix or name: hashes and fixtures are most of
those. Its trade-off: in doubt a literal beside a secret-looking name goes, even in tests.
"""

import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import translate
from functools import cache
from importlib.resources import files
from math import log2
from typing import Any

MAX_PASSES = 10
"""A replacement can uncover a neighbour; two passes are the rule, the rest is a backstop."""
MIN_MIXED_BITS = 3.0
"""Shannon entropy, bits a character, of the shortest keys in use; words and identifiers lie near or below it."""


@dataclass(frozen=True, slots=True)
class Redacted:
    """Text without its secrets."""

    text: str
    count: int
    types: tuple[str, ...]
    """Types of what was found, sorted, each once."""


@dataclass(frozen=True, slots=True)
class _Rule:
    type: str
    literals: tuple[str, ...]
    pattern: re.Pattern[str]
    passes: Callable[[re.Match[str], str], bool]


@dataclass(frozen=True, slots=True)
class _Words:
    parts: tuple[str, ...]
    names: frozenset[str]
    types: frozenset[str]


_Span = tuple[int, int, str]

_MARK = re.compile(r"<SECRET:\w+>")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_IDENTIFIER = re.compile(r"[A-Za-z_$][\w$]*(?:(?:\.|->|::|\?\.)[A-Za-z_$][\w$]*)*\Z")
_PEM_BODY_LINE = re.compile(r"""[ \t"'`+#*>|(/]*(?:[A-Za-z0-9+/]{16,}={0,2}|[A-Za-z0-9+/]{1,76}={1,2}|"""
                            r"""(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset): ?[^\n]{0,200})(?:\\[nr]|["'`+,;) \t\\])*\r?\Z""")  # fmt: skip
_PEM_PAYLOAD = re.compile(r"[A-Za-z0-9+/]{16}")


def redact(text: str) -> Redacted:
    """Replace every secret by `<SECRET:type>`. Linear in the text; nearly free where no literal of a rule occurs."""
    count, types = 0, set[str]()
    for _ in range(MAX_PASSES):
        spans = _disjoint(_findings(text), [match.span() for match in _MARK.finditer(text)])
        if not spans:
            break
        pieces, end = [], 0
        for start, stop, kind in spans:
            pieces += [text[end:start], f"<SECRET:{kind}>", "\n" * text.count("\n", start, stop)]
            end = stop
        text = "".join([*pieces, text[end:]])
        count += len(spans)
        types.update(kind for _, _, kind in spans)
    return Redacted(text, count, tuple(sorted(types)))


def is_secret_file(name: str) -> bool:
    """Whether a file, by its name or path, exists to hold secrets and stays out of the index altogether."""
    path = name.replace("\\", "/").lower()
    by_name, by_path = _file_patterns()
    return bool(by_name.match(path.rsplit("/", 1)[-1]) or by_path.match("/" + path))


def _findings(text: str) -> Iterator[_Span]:
    lowered = text.lower()
    for rule in _rules():
        if any(literal in lowered for literal in rule.literals):
            yield from _matches(rule, text)
    if "-----" in lowered and ("private key" in lowered or "certificate" in lowered):
        yield from _pem_bodies(text)


def _matches(rule: _Rule, text: str) -> Iterator[_Span]:
    for match in rule.pattern.finditer(text):
        group = next(name for name, value in match.groupdict().items() if value and name.startswith("secret"))
        if rule.passes(match, match[group]):
            kind = _type_of_name(match["name"]) if rule.type == "by_name" else rule.type
            yield (*match.span(group), kind)


def _disjoint(spans: Iterator[_Span], taken: list[tuple[int, int]]) -> list[_Span]:
    """Merge what overlaps into one finding, and drop what touches an earlier redaction."""
    merged: list[_Span] = []
    for start, stop, kind in sorted(spans, key=lambda span: (span[0], -span[1])):
        if merged and start < merged[-1][1]:
            first, last, first_kind = merged[-1]
            merged[-1] = (first, max(last, stop), first_kind)
        else:
            merged.append((start, stop, kind))
    marks = iter([*taken, (10**18, 10**18)])
    mark = next(marks)
    free = []
    for start, stop, kind in merged:
        while mark[1] <= start:
            mark = next(marks)
        if mark[0] >= stop:
            free.append((start, stop, kind))
    return free


def _pem_bodies(text: str) -> Iterator[_Span]:
    """Find the bodies of PEM blocks, whole, escaped into one line, or cut in half by a window of lines."""
    fences = list(_pem_fence().finditer(text))
    for index, fence in enumerate(fences):
        kind = "private_key" if "PRIVATE" in fence["kind"] else "certificate"
        following = fences[index + 1] if index + 1 < len(fences) else None
        if fence["side"] == "BEGIN":
            closed = following is not None and following["side"] == "END"
            stop = following.start() if closed and following else _body_end(text, fence.end())
            start = fence.end()
        else:
            previous = fences[index - 1] if index else None
            if previous is not None and previous["side"] == "BEGIN":
                continue
            start, stop = _body_start(text, fence.start(), previous.end() if previous else 0), fence.start()
        if _PEM_PAYLOAD.search(text, start, stop):
            yield (*_without_edges(text, start, stop), kind)


def _body_end(text: str, start: int) -> int:
    """Where the lines that look like a PEM body stop; the first may stand on the line of the fence, escaped."""
    end = text.find("\n", start)
    inline = text[start : end if end >= 0 else len(text)]
    if _PEM_PAYLOAD.search(inline):
        quote = re.search(r"[\"'`]", inline)
        return start + (quote.start() if quote else len(inline))
    while end >= 0:
        following = text.find("\n", end + 1)
        line = text[end + 1 : following if following >= 0 else len(text)]
        if line.strip() and not _PEM_BODY_LINE.match(line):
            return end
        end = following
    return len(text)


def _body_start(text: str, stop: int, floor: int) -> int:
    """Where the lines that look like a PEM body begin, read backwards from its closing fence."""
    start = text.rfind("\n", floor, stop) + 1
    while start > floor:
        previous = text.rfind("\n", floor, start - 1) + 1
        line = text[max(previous, floor) : start - 1]
        if line.strip() and not _PEM_BODY_LINE.match(line):
            break
        start = max(previous, floor)
    return max(start, floor)


def _without_edges(text: str, start: int, stop: int) -> tuple[int, int]:
    """Keep line breaks, quotes and `\\n` beside the fences, so that the redacted text still reads as what it was."""
    body = text[start:stop]
    head = re.match(r"(?:\\[nr]|[\s\"'`+,(])*", body)
    tail = re.search(r"[\s\"'`]*\Z", body)
    assert head is not None
    assert tail is not None
    return start + head.end(), start + max(tail.start(), head.end())


def _entropy(value: str) -> float:
    size = len(value)
    return -sum(n / size * log2(n / size) for n in (value.count(char) for char in set(value)))


def _is_mixed(value: str) -> bool:
    digits = sum(char.isdigit() for char in value)
    letters = sum(char.isalpha() for char in value)
    return digits > 0 and letters > 0 and _entropy(value) >= min(MIN_MIXED_BITS, log2(len(value)) * 0.8)


def _is_value(value: str) -> bool:
    """Whether a literal can be a secret: no placeholder, name, example, path, address or prose."""
    lowered = value.lower()
    if len(value) < 4 or len(set(value)) < 3 or any(char.isspace() for char in value):
        return False
    if any(part in lowered for part in _words().parts):
        return False
    if value[0] in "<{$%/[" or value.endswith(("}", ">")) or lowered.startswith(("http://", "https://", "./", "../")):
        return False
    words = [word.lower() for word in _WORD.findall(value)]
    return not (words and set(words) <= _words().names and sum(char.isdigit() for char in value) <= 1)


def _passes_shape(_match: re.Match[str], value: str) -> bool:
    return len(set(value.rsplit("_", 1)[-1].rsplit("-", 1)[-1])) > 2 or len(set(value)) > 12


def _passes_mixed(_match: re.Match[str], value: str) -> bool:
    return _is_mixed(value)


def _passes_value(_match: re.Match[str], value: str) -> bool:
    return _is_value(value)


def _passes_token(_match: re.Match[str], value: str) -> bool:
    return len(value) >= 8 and _is_value(value) and _is_mixed(value) and not _is_dotted_name(value)


def _passes_word(match: re.Match[str], value: str) -> bool:
    """An unquoted value is code more often than not, so a plain word counts only where it is written as configuration."""
    if not _is_value(value) or value.lower() in _words().types or _is_dotted_name(value):
        return False
    if not _IDENTIFIER.match(value):
        return any(char.isalpha() for char in value) and not value.endswith(
            (".", ":", "=", "|", "&", "+", "-", "*", "/")
        )
    if any(char.isdigit() for char in value.rstrip("0123456789")) and len(value) >= 8:
        return True
    names = {word.lower() for word in _WORD.findall(value)}
    if names & {"password", "passwd", "secret", "token", "key", "credential", "credentials"}:
        return False
    separator = match["sep"]
    environment = separator == "=" and match["name"].isupper()
    return environment or (separator == ": " and value.islower() and "_" not in value)


def _is_dotted_name(value: str) -> bool:
    return "." in value and bool(_IDENTIFIER.match(value)) and not (len(value) >= 24 and _entropy(value) >= 4.2)


_CHECKS: dict[str, Callable[[re.Match[str], str], bool]] = {
    "shape": _passes_shape,
    "mixed": _passes_mixed,
    "value": _passes_value,
    "token": _passes_token,
    "word": _passes_word,
}


@cache
def _data() -> dict[str, Any]:
    return tomllib.loads(files("xscore.memory").joinpath("secrets.toml").read_text("utf-8"))


@cache
def _rules() -> tuple[_Rule, ...]:
    return tuple(
        _Rule(rule["type"], tuple(rule["literals"]), _compile(rule), _CHECKS[rule["check"]]) for rule in _data()["rule"]
    )


def _compile(rule: dict[str, Any]) -> re.Pattern[str]:
    pattern = str(rule["pattern"])
    for name, part in _data()["parts"].items():
        pattern = pattern.replace(f"@{name}@", part)
    return re.compile(pattern, re.MULTILINE | (0 if rule.get("case") else re.IGNORECASE))


@cache
def _words() -> _Words:
    data = _data()["placeholders"]
    return _Words(tuple(data["parts"]), frozenset(data["words"]), frozenset(data["types"]))


@cache
def _type_of_name(name: str) -> str:
    return next(kind for kind, pattern in _data()["names"].items() if re.search(pattern, name, re.IGNORECASE))


@cache
def _pem_fence() -> re.Pattern[str]:
    kinds = "|".join(_data()["pem"].values())
    return re.compile(rf"-----(?P<side>BEGIN|END) (?P<kind>{kinds})-----")


@cache
def _file_patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    data = _data()["files"]
    by_path = [glob.removeprefix("**") for glob in data["globs"] if "/" in glob]
    by_name = [translate(glob) for glob in data["globs"] if "/" not in glob]
    return (
        re.compile("|".join([*by_name, rf"(?:{data['ssh']})\Z"])),
        re.compile("|".join(rf".*{re.escape(part)}\Z" for part in by_path)),
    )

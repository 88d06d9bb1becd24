"""Replace secrets in text by `<SECRET:type>` before it is stored or sent, and name files that hold only secrets.

The rules are data (`secrets.toml`). Each hangs on a literal that plain search finds; only there is a bounded pattern
tried, so clean text costs a few searches. PEM bodies are found whole, escaped into one line, or cut at one end. The
number of lines never changes, and redacting twice changes nothing. Trade-offs: random-looking strings without a prefix
or name are left; a literal beside a secret-looking name is redacted when in doubt.
"""

import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from fnmatch import translate
from functools import cache
from importlib.resources import files
from math import log2
from typing import Any

from msgspec import Struct

LEAD_CHARS = 200
"""How much of the line before a name a form may look at."""
MIXED_BITS = 3.0
"""Shannon entropy, bits a character, of the shortest keys in use; words and identifiers lie near or below it."""

ENTROPY_CHARS = 256
"""Entropy is measured on so many; a longer key is no less random."""
NAME_CHARS = 80
"""Longer values are no names."""

_OPERATORS = "!&*~+-@"
"""What code may put before a name."""
_DIGIT = re.compile(r"\d")
_LETTER = re.compile(r"[^\W\d_]")
_SPACE = re.compile(r"\s")
_VERSION = re.compile(r"[~^<>=v]{0,3}\d+(?:\.[\dx*]+){1,4}\Z")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_IDENTIFIER = re.compile(r"[A-Za-z_$][\w$]*(?:(?:\.|->|::|\?\.)[A-Za-z_$][\w$]*)*\Z")

Check = Callable[[str], bool]


class SecretSpan(Struct, frozen=True):
    """A secret in a text, as a span of characters."""

    start: int
    stop: int
    type: str


class _Shape(Struct, frozen=True):
    type: str
    literals: tuple[str, ...]
    pattern: re.Pattern[str]
    minds_case: bool
    check: Check


class _Name(Struct, frozen=True):
    type: str
    words: tuple[str, ...]
    after: re.Pattern[str] | None
    """What must stand before the word for it to tell."""
    weak: bool
    """Without it, the word still counts for values that look like secrets."""


class _Form(Struct, frozen=True):
    lead: re.Pattern[str] | None
    tail: re.Pattern[str]
    opens_line: bool
    """Its lead reaches back to the start of the line."""
    upper: bool
    check: Check
    weak_check: Check | None


def rule_matches(text: str) -> Iterator[SecretSpan]:
    """Yield what the rules find, in no order, overlapping where two rules agree."""
    lowered = text.lower()
    if len(lowered) != len(text):
        lowered = "".join(char.lower() if len(char.lower()) == 1 else char for char in text)
    for shape in _shapes():
        for literal in shape.literals:
            for place in _places(text if shape.minds_case else lowered, literal):
                match = shape.pattern.match(text, place)
                if match and shape.check(match["secret"]):
                    yield SecretSpan(*match.span("secret"), shape.type)
    for name in _names():
        for word in name.words:
            for place in _places(lowered, word):
                yield from _named(text, name, place, place + len(word))


def _places(text: str, literal: str) -> Iterator[int]:
    place = text.find(literal)
    while place >= 0:
        yield place
        place = text.find(literal, place + 1)


def _named(text: str, name: _Name, start: int, stop: int) -> Iterator[SecretSpan]:
    """Try the forms on a telling word. The tails rule out nearly every place at their first characters."""
    floor = max(0, start - LEAD_CHARS)
    line_break = text.rfind("\n", floor, start)
    near_line_start = line_break >= 0 or floor == 0
    for form in _forms():
        if form.opens_line and not near_line_start:
            continue
        match = form.tail.match(text, stop)
        if match is None or (form.upper and not text[start:stop].isupper()):
            continue
        lead = text[max(line_break + 1, floor) : start]
        if form.lead and not form.lead.search(lead):
            continue
        told = name.after is None or name.after.search(lead) is not None
        check = form.check if told else form.weak_check if name.weak else None
        if check and check(match["secret"]):
            yield SecretSpan(*match.span("secret"), name.type)


def is_mixed(value: str) -> bool:
    """Whether a value has letters, digits and the entropy of a key of its length."""
    if not (_DIGIT.search(value) and _LETTER.search(value)):
        return False
    sample = value[:ENTROPY_CHARS]
    bits = -sum(n / len(sample) * log2(n / len(sample)) for n in Counter(sample).values())
    return bits >= min(MIXED_BITS, log2(len(sample)) * 0.8)


def is_value(value: str) -> bool:
    """Whether a literal can be a secret: no placeholder, name, example, path, address or prose."""
    lowered = value.lower()
    if len(value) < 4 or len(set(value[:NAME_CHARS])) < 3 or _SPACE.search(value) or _VERSION.match(value):
        return False
    if any(part in lowered for part in secret_rules()["placeholders"]["parts"]):
        return False
    if value[0] in "<{$%/[" or value.endswith(("}", ">")) or lowered.startswith(("http://", "https://", "./", "../")):
        return False
    if len(value) > NAME_CHARS or len(_DIGIT.findall(value)) > 1:
        return True
    words = {word.lower() for word in _WORD.findall(value)}
    return not words or not words <= _known_words()


def _is_shape(value: str) -> bool:
    return len(set(value[-16:])) > 2


def _is_token(value: str) -> bool:
    return len(value) >= 8 and is_mixed(value) and is_value(value) and not _is_dotted(value)


def _is_plain(value: str) -> bool:
    if not is_value(value) or _is_dotted(value) or value.lower() in secret_rules()["placeholders"]["types"]:
        return False
    if not _LETTER.search(value) or value.endswith((".", ":", "=", "|", "&", "+", "-", "*", "/")):
        return False
    telling = {word for name in _names() for word in name.words}
    return not (_IDENTIFIER.match(value) and telling & {word.lower() for word in _WORD.findall(value)})


def _is_word(value: str) -> bool:
    inner_digit = _DIGIT.search(value.rstrip("0123456789")) is not None
    return _is_plain(value) and (not _IDENTIFIER.match(value.lstrip(_OPERATORS)) or (inner_digit and len(value) >= 8))


def _is_dotted(value: str) -> bool:
    return "." in value and bool(_IDENTIFIER.match(value.lstrip(_OPERATORS))) and max(map(len, value.split("."))) < 24


_CHECKS: dict[str, Check] = {
    "shape": _is_shape,
    "mixed": is_mixed,
    "value": is_value,
    "token": _is_token,
    "plain": _is_plain,
    "word": _is_word,
}


@cache
def secret_rules() -> dict[str, Any]:
    """The rule file as it stands."""
    return tomllib.loads(files("xscore.store").joinpath("secrets.toml").read_text("utf-8"))


@cache
def _known_words() -> frozenset[str]:
    return frozenset(secret_rules()["placeholders"]["words"])


@cache
def _shapes() -> tuple[_Shape, ...]:
    return tuple(
        _Shape(
            rule["type"],
            tuple(rule["literals"]),
            _compile(rule["pattern"], minds_case=rule.get("case", False)),
            rule.get("case", False),
            _CHECKS[rule["check"]],
        )
        for rule in secret_rules()["shape"]
    )


@cache
def _names() -> tuple[_Name, ...]:
    return tuple(
        _Name(
            rule["type"],
            tuple(rule["words"]),
            _compile(rule["after"] + r"\Z") if "after" in rule else None,
            rule.get("weak", False),
        )
        for rule in secret_rules()["name"]
    )


@cache
def _forms() -> tuple[_Form, ...]:
    return tuple(
        _Form(
            _compile(rule["lead"] + r"\Z") if "lead" in rule else None,
            _compile(rule["tail"]),
            rule.get("lead", "").startswith("@line@"),
            rule.get("upper", False),
            _CHECKS[rule["check"]],
            _CHECKS[rule["weak_check"]] if "weak_check" in rule else None,
        )
        for rule in secret_rules()["form"]
    )


def _compile(pattern: str, *, minds_case: bool = False) -> re.Pattern[str]:
    for name, part in secret_rules()["parts"].items():
        pattern = pattern.replace(f"@{name}@", part)
    return re.compile(pattern, re.MULTILINE | (0 if minds_case else re.IGNORECASE))


_PAYLOAD = re.compile(r"[A-Za-z0-9+/]{16}")
_BASE64 = r"(?:[A-Za-z0-9+/]{16,}={0,2}|[A-Za-z0-9+/]{1,76}={1,2})"
_HEADER = r"(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset): ?[^\n]{0,200}"
_BODY_LINE = re.compile(rf"""[ \t"'`+#*>|(/]*(?:{_BASE64}|{_HEADER})(?:\\[nr]|["'`+,;) \t\\])*\r?\Z""")
_HEAD_EDGE = re.compile(r"(?:\\[nr]|[\s\"'`+,(])*")
_TAIL_EDGE = re.compile(r"[\s\"'`]*\Z")


def pem_bodies(text: str) -> Iterator[SecretSpan]:
    """Yield the body of each private key and certificate, with line breaks and quotes at its edges left out."""
    if "-----" not in text:
        return
    fences = list(_fence().finditer(text))
    for index, fence in enumerate(fences):
        before = fences[index - 1] if index else None
        after = fences[index + 1] if index + 1 < len(fences) else None
        if fence["side"] == "BEGIN":
            closed = after is not None and after["side"] == "END"
            start, limit = fence.end(), after.start() if after else len(text)
            stop = limit if closed else _body_end(text, start, limit)
        elif before is not None and before["side"] == "BEGIN":
            continue
        else:
            start, stop = _body_start(text, fence.start(), before.end() if before else 0), fence.start()
        if _PAYLOAD.search(text, start, stop):
            yield SecretSpan(*_without_edges(text, start, stop), _type(fence))


def _body_end(text: str, start: int, limit: int) -> int:
    """Where the lines that look like a body stop; an escaped one stands on the line of its fence."""
    end = text.find("\n", start, limit)
    inline = text[start : end if end >= 0 else limit]
    if _PAYLOAD.search(inline):
        quote = re.search(r"[\"'`]", inline)
        return start + (quote.start() if quote else len(inline))
    while end >= 0:
        following = text.find("\n", end + 1, limit)
        line = text[end + 1 : following if following >= 0 else limit]
        if line.strip() and not _BODY_LINE.match(line):
            return end
        end = following
    return limit


def _body_start(text: str, stop: int, floor: int) -> int:
    """Where the lines that look like a body begin, read backwards from the closing fence."""
    start = max(text.rfind("\n", floor, stop) + 1, floor)
    while start > floor:
        previous = max(text.rfind("\n", floor, start - 1) + 1, floor)
        line = text[previous : start - 1]
        if line.strip() and not _BODY_LINE.match(line):
            break
        start = previous
    return start


def _without_edges(text: str, start: int, stop: int) -> tuple[int, int]:
    body = text[start:stop]
    head, tail = _HEAD_EDGE.match(body), _TAIL_EDGE.search(body.rstrip() + body[len(body.rstrip()) :])
    assert head is not None
    assert tail is not None
    return start + head.end(), start + max(tail.start(), head.end())


def _type(fence: re.Match[str]) -> str:
    return next(str(kind) for kind, pattern in secret_rules()["pem"].items() if re.fullmatch(pattern, fence["kind"]))


@cache
def _fence() -> re.Pattern[str]:
    return re.compile(rf"-----(?P<side>BEGIN|END) (?P<kind>{'|'.join(secret_rules()['pem'].values())})-----")


MAX_PASSES = 10
"""A replacement can uncover a neighbour; two passes are the rule, the rest is a backstop."""

_MARK = re.compile(r"<SECRET:\w+>")


class Redacted(Struct, frozen=True):
    """Text without its secrets."""

    text: str
    count: int
    types: tuple[str, ...]
    """Types of what was found, sorted, each once."""


def redact(text: str) -> Redacted:
    """Replace every secret by `<SECRET:type>`. Linear in the text; nearly free where no literal of a rule occurs."""
    count, types = 0, set[str]()
    for _ in range(MAX_PASSES):
        found = _disjoint([*rule_matches(text), *pem_bodies(text)])
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


def is_safe_name(file: str) -> bool:
    """Whether the very name of a file holds no secret; a name is shown and kept, and cannot be redacted."""
    return not redact(file).count


def is_secret_file(name: str) -> bool:
    """Whether a file, by its name or path, exists to hold secrets and stays out of the index altogether."""
    path = "/" + name.replace("\\", "/").lower()
    names, endings = _file_patterns()
    return bool(names.match(path.rsplit("/", 1)[-1])) or path.endswith(endings)


def _replace(text: str, found: Iterable[SecretSpan]) -> str:
    pieces, end = [], 0
    for finding in found:
        lines = text.count("\n", finding.start, finding.stop)
        pieces += [text[end : finding.start], f"<SECRET:{finding.type}>", "\n" * lines]
        end = finding.stop
    return "".join([*pieces, text[end:]])


def _disjoint(found: Iterable[SecretSpan]) -> list[SecretSpan]:
    """Make one finding of those that overlap; the longest at the earliest place names it."""
    merged: list[SecretSpan] = []
    for finding in sorted(found, key=lambda finding: (finding.start, -finding.stop)):
        if merged and finding.start < merged[-1].stop:
            first = merged[-1]
            merged[-1] = SecretSpan(first.start, max(first.stop, finding.stop), first.type)
        else:
            merged.append(finding)
    return merged


def _outside(marks: list[tuple[int, int]], found: list[SecretSpan]) -> list[SecretSpan]:
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
    files = secret_rules()["files"]
    names = [translate(glob) for glob in files["globs"] if "/" not in glob]
    endings = tuple(glob for glob in files["globs"] if "/" in glob)
    return re.compile("|".join([*names, rf"(?:{files['ssh']})\Z"])), endings

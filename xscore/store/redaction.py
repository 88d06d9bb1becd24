"""Replace secrets in text by `<SECRET:type>` before it is stored or sent, and name files that hold
only secrets.

The rules are data (`secrets.toml`, read as JSON). Each starts with a literal found by plain
search; a bounded pattern is tried only there, so clean text costs a few searches. In code an
unquoted word is mostly a variable, so it stays; in prose and configuration it is redacted next
to a secret-looking name. PEM bodies are found whole, escaped into one line, or truncated. The
number of lines never changes, and redacting twice changes nothing. Of many texts, nearly none
holds a literal: `find_literals` searches them at once. Trade-offs: random-looking strings
without a prefix or name are missed; when in doubt, a literal with a secret-looking name is
redacted.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from fnmatch import translate
from functools import cache, cached_property
from itertools import takewhile
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from xscore.platform.patterns import compiled_late
from xscore.platform.text import BIDI, COMBINING, INVISIBLE
from xscore.store.secret_rules import (
    CHECKS,
    Form,
    SecretName,
    Shape,
    compile_rule,
    secret_rules,
)
from xscore.store.secret_screen import FoundLiterals, Literal, places, screen

LEAD_CHARS = 200
"""How much of the line before a name a form may match."""

AFTER_CHARS = 40
"""How much of the line right before a name may make it a telling one: `encryption` of
`encryption_key`."""


class SecretSpan(Struct, frozen=True):
    """A secret in a text, as a span of characters."""

    start: int
    stop: int
    type: str


def _lower_in_place(text: str) -> str:
    """Return the text in lower case, each character at its place."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    # Some characters have a longer lower case: they stay as they are.
    return "".join(char.lower() if len(char.lower()) == 1 else char for char in text)


def _rule_matches(
    text: str,
    lowered: str,
    found_literals: FoundLiterals,
    *,
    prose: bool,
    has_names: bool = True,
) -> Iterator[SecretSpan]:
    """Yield what the rules find by these literals, in no order, overlapping where two rules
    agree. has_names: words that name a secret count."""
    for literal in found_literals.literals:
        if not literal.shapes:
            continue
        for place in places(text if literal.minds_case else lowered, literal.text):
            for shape in literal.shapes:
                span = _shaped(text, shape, place)
                if span:
                    yield span
    for literal in found_literals.literals if has_names else ():
        for name in literal.names:
            for place in places(lowered, literal.text):
                word = (place, place + len(literal.text))
                yield from _named(text, lowered, name, word, prose=prose)


def _shaped(text: str, shape: Shape, place: int) -> SecretSpan | None:
    if place < shape.back:
        return None
    match = compile_rule(shape.pattern, minds_case=shape.case).match(text, place - shape.back)
    if match and CHECKS[shape.check](match["secret"]):
        return SecretSpan(*match.span("secret"), shape.type)
    return None


def _named(
    text: str, lowered: str, name: SecretName, word: tuple[int, int], *, prose: bool
) -> Iterator[SecretSpan]:
    """Try the forms on a word that names a secret. The tails fail fast nearly everywhere."""
    start, stop = word
    # `keyword`; every tail begins with this, or with `=`.
    suffix = compile_rule(_SUFFIX).match(text, stop)
    if suffix is None:
        return
    floor = max(0, start - LEAD_CHARS)
    line_break = text.rfind("\n", floor, start)
    near_line_start = line_break >= 0 or floor == 0
    lead = lowered[max(line_break + 1, floor) : start]
    for tail in _tails(prose=prose):
        if tail.at_line_start and not near_line_start:
            continue
        match = tail.pattern.match(text, suffix.end() if tail.follows_suffix else stop)
        if match is None or (tail.form.upper and not text[start:stop].isupper()):
            continue
        check = _check(tail.form, name, lead[-AFTER_CHARS:])
        # The line before the name is searched last: nothing else takes as long.
        if check and CHECKS[check](match["secret"]) and _leads(tail.form, lead):
            yield SecretSpan(*match.span("secret"), name.type)


_SUFFIX = "@suffix@"


class _Tail(NamedTuple):
    """What follows a word that names a secret, in one of the forms."""

    form: Form
    pattern: re.Pattern[str]
    follows_suffix: bool
    """Where a suffix ends is the same for all forms: no other end of it lets a form go on."""
    at_line_start: bool


@cache
def _tails(*, prose: bool) -> tuple[_Tail, ...]:
    tails: list[_Tail] = []
    for form in secret_rules().form:
        if prose or not form.prose:
            pattern = compile_rule(form.tail.removeprefix(_SUFFIX))
            follows_suffix = form.tail.startswith(_SUFFIX)
            tails.append(_Tail(form, pattern, follows_suffix, form.at_line_start))
    return tuple(tails)


def _check(form: Form, name: SecretName, lead: str) -> str:
    """Return the check of a value behind this name; empty if the name does not count.

    lead: in lower case.
    """
    if not name.after or _pattern_before(name.after).search(lead):
        return form.check
    # A word that tells little alone must at least be a word of its own: `bypass` is not a `pass`.
    if name.weak and _pattern_before(name.weak_after).search(lead):
        return form.weak_check
    return ""


def _pattern_before(pattern: str) -> re.Pattern[str]:
    """Return the pattern of what ends where a name begins, for text in lower case: minding case it
    is searched for several times as fast."""
    return compile_rule(pattern + r"\Z", minds_case=True)


def _leads(form: Form, lead: str) -> bool:
    if not form.lead:
        return True
    pattern = _pattern_before(form.lead)
    return (pattern.match(lead) if form.at_line_start else pattern.search(lead)) is not None


_PAYLOAD = compiled_late(r"[A-Za-z0-9+/]{16}")
_BASE64 = r"(?:[A-Za-z0-9+/]{16,}={0,2}|[A-Za-z0-9+/]{1,76}={1,2})"
_HEADER = r"(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset): ?[^\n]{0,200}"
_BODY_LINE = compiled_late(
    rf"""[ \t"'`+#*>|(/]*+(?>{_BASE64}|{_HEADER})(?:\\[nr]|["'`+,;) \t\\])*+\r?\Z"""
)
_HEAD_EDGE = compiled_late(r"(?:\\[nr]|[\s\"'`+,(])*")
_TAIL_EDGE = " \t\r\n\v\f\"'`"


def _keys_in(text: str) -> Iterator[SecretSpan]:
    """Yield the keys in a text, also those whose fences or lines hold invisible characters."""
    yield from _pem_bodies(text)
    if _holds_unseen(text):
        seen = _cut(text, _UNSEEN, has_names=False)
        yield from map(seen.whole, _pem_bodies(seen.text))


def _pem_bodies(text: str) -> Iterator[SecretSpan]:
    """Yield the body of each private key and certificate, with line breaks and quotes at its edges
    left out."""
    if "-----" not in text:
        return
    fences = list(_fence().finditer(text))
    for index, fence in enumerate(fences):
        before = fences[index - 1] if index else None
        after = None
        if index + 1 < len(fences):
            after = fences[index + 1]
        if _opens(fence):
            is_closed = after is not None and not _opens(after)
            start = fence.end()
            limit = after.start() if after else len(text)
            stop = limit if is_closed else _body_end(text, start, limit)
        elif before is not None and _opens(before):
            continue  # the body between them is the opening fence's
        else:
            # Its beginning was cut off: the body is what looks like one above it.
            stop = fence.start()
            start = _body_start(text, stop, before.end() if before else 0)
        if _PAYLOAD.search(text, start, stop):
            yield SecretSpan(*_without_edges(text, start, stop), str(fence.lastgroup))


_ODD_SPACE = compiled_late("[\xa0\xad\u1680\u2000-\u200f\u202f\u205f\u2060\u3000\ufeff]")
"""Matches spaces of other widths and of none: pages and word processors put them around `=` and
after `:`."""


_COLOR = r"\x1b\[[\x20-\x3f]{0,40}[@-~]"
"""Matches what a terminal takes as a color or another command."""
_UNSEEN = compiled_late(rf"(?:{_COLOR}|[\x00-\x08\x0e-\x1f\x7f{BIDI}{INVISIBLE}{COMBINING}])+")
_CONTROLS = tuple(map(chr, (*range(9), *range(14, 32), 127)))
_BROKEN_TOKEN = compiled_late(
    # What goes on has a digit, or is as long as no word: otherwise a word of the next line
    # would go.
    r"(?<=[A-Za-z0-9+/_=-]{4})[ \t]*\n[ \t]*(?=[A-Za-z+/_=-]{0,40}[0-9]|[A-Za-z0-9+/_=-]{24})"
)
"""Matches the end of a line within a token."""


class _Reading(Struct, frozen=True, dict=True):
    """A text as the rules read it, with something cut out."""

    text: str
    whole_text: str = ""
    cut_out: re.Pattern[str] | None = None
    """Pattern of what was cut out; None if nothing was."""
    has_names: bool = True
    """Whether words that name a secret count, too; over a line's end only the form of a secret
    does."""

    def whole(self, span: SecretSpan) -> SecretSpan:
        """Return a span of the whole text."""
        if self.cut_out is None:
            return span
        return SecretSpan(self._place(span.start), self._place(span.stop - 1) + 1, span.type)

    def _place(self, index: int) -> int:
        starts, places = self._pieces
        piece = bisect_right(starts, index) - 1
        return places[piece] + index - starts[piece]

    @cached_property
    def _pieces(self) -> tuple[list[int], list[int]]:
        """Where each piece begins in `text` and in the whole text; nearly no reading finds anything
        to place."""
        starts: list[int] = []
        places: list[int] = []
        end = length = 0
        assert self.cut_out is not None
        for match in self.cut_out.finditer(self.whole_text):
            start, stop = match.span()
            if start > end:
                starts.append(length)
                places.append(end)
                length += start - end
            end = stop
        starts.append(length)
        places.append(end)
        return starts, places


def _without(text: str, cut_out: re.Pattern[str], *, has_names: bool) -> _Reading:
    cut = _cut(text, cut_out, has_names=has_names)
    return replace(cut, text=_searched_text(cut.text))


def _cut(text: str, cut_out: re.Pattern[str], *, has_names: bool) -> _Reading:
    return _Reading(cut_out.sub("", text), text, cut_out, has_names)


def _readings(text: str, *, across_lines: bool) -> Iterator[_Reading]:
    """Yield a text as it is; without invisible characters, which may split a name or a secret; and
    with lines joined, where a line break may split one."""
    yield _Reading(_searched_text(text))
    if _holds_unseen(text):
        yield _without(text, _UNSEEN, has_names=True)
    if across_lines and _BROKEN_TOKEN.search(text):
        yield _without(text, _BROKEN_TOKEN, has_names=False)


def _holds_unseen(text: str) -> bool:
    # A search for each control is twenty times as fast as one for their class.
    if text.isascii() and not any(control in text for control in _CONTROLS):
        return False
    return _UNSEEN.search(text) is not None


def _searched_text(text: str) -> str:
    """Return what the rules are tried on: every character at its place, none that misleads them."""
    if not text.isascii():
        text = _ODD_SPACE.sub(" ", text)
    return _without_fences(text)


def _without_fences(text: str) -> str:
    """Blank the fences of keys, whose dashes would count as part of a secret glued to them."""
    if "-----" in text:
        return _fence().sub(lambda fence: "\n" * len(fence[0]), text)
    return text


def _body_end(text: str, start: int, limit: int) -> int:
    """Return where the lines that look like a body end; an escaped body is on the line of its
    fence."""
    inline, *lines = text[start:limit].split("\n")
    if _PAYLOAD.search(inline):
        quote = re.search(r"[\"'`]", inline)
        return start + (quote.start() if quote else len(inline))
    body = takewhile(_is_body_line, lines)
    return start + len(inline) + sum(1 + len(line) for line in body)


def _body_start(text: str, stop: int, floor: int) -> int:
    """Return where the lines that look like a body begin, scanning back from the closing fence."""
    *lines, before_fence = text[floor:stop].split("\n")
    body = takewhile(_is_body_line, reversed(lines))
    return stop - len(before_fence) - sum(1 + len(line) for line in body)


def _is_body_line(line: str) -> bool:
    return not line.strip() or _BODY_LINE.match(line) is not None


def _without_edges(text: str, start: int, stop: int) -> tuple[int, int]:
    head = _HEAD_EDGE.match(text, start, stop)
    begin = head.end() if head else start
    return begin, max(begin, start + len(text[start:stop].rstrip(_TAIL_EDGE)))


@cache
def _fence() -> re.Pattern[str]:
    kinds = "|".join(f"(?P<{kind}>{pattern})" for kind, pattern in secret_rules().pem.items())
    return re.compile(rf"-----(?P<side>BEGIN|END) (?:{kinds})-----", re.IGNORECASE)


def _opens(fence: re.Match[str]) -> bool:
    return fence["side"].upper() == "BEGIN"


MAX_PASSES = 10
"""A replacement can expose a neighbor; two passes usually suffice."""
_REST_OF_WORD = compiled_late(rf"(?:{_COLOR}|[^\s\"'`(){{}}\[\]<>,;\\])*+")
_REST_OF_LINE = compiled_late(r"[^\n<]*")

_MARK = compiled_late(r"<SECRET:\w+>")


class Redacted(Struct, frozen=True):
    """Text without its secrets."""

    text: str
    count: int
    types: tuple[str, ...]
    """Sorted distinct types."""


def redact(
    text: str,
    *,
    prose: bool = False,
    literals: FoundLiterals | None = None,
    across_lines: bool = False,
) -> Redacted:
    """Replace every secret by `<SECRET:type>`. Linear time; nearly free if no literal of a rule
    occurs.

    prose: the text was said by people or is configuration; an unquoted word after a secret-looking
        name is a value.
    literals: what `find_literals` found in texts of which this one is a part.
    across_lines: lines end where there was no more room, as on a page: a secret may go on.
    """
    count = 0
    types = set[str]()
    for number in range(0 if literals and literals.is_clean else MAX_PASSES):
        by_rules: list[SecretSpan] = []
        for reading in _readings(text, across_lines=across_lines):
            by_rules += _secrets_in(reading, literals, prose=prose)
        secrets = _disjoint([*by_rules, *_keys_in(text)])
        if not secrets:
            break
        marks = [match.span() for match in _MARK.finditer(text)]
        fresh = _outside(marks, secrets)
        if not fresh:
            break
        if number > 0:
            fresh = _with_rest(text, fresh, is_last=number == MAX_PASSES - 1)
        text = _replace(text, fresh)
        literals = None  # the text may hold another literal now
        count += len(fresh)
        types.update(secret.type for secret in fresh)
    return Redacted(text, count, tuple(sorted(types)))


def _secrets_in(
    reading: _Reading, literals: FoundLiterals | None, *, prose: bool
) -> Iterator[SecretSpan]:
    lowered = _lower_in_place(reading.text)
    tried = literals or screen(reading.text, lowered)
    spans = _rule_matches(
        reading.text, lowered, tried, prose=prose, has_names=reading.has_names
    )
    return map(reading.whole, spans)


def is_safe_name(file: str) -> bool:
    """Whether a file name holds no secret; names are stored and shown unredacted."""
    return not redact(file).count


def is_secret_file(name: str) -> bool:
    """Whether a file, by its name or path, exists to hold secrets and is never indexed."""
    path = "/" + name.replace("\\", "/").lower()
    patterns = _file_patterns()
    if patterns.names.match(path.rsplit("/", 1)[-1]) or path.endswith(patterns.endings):
        return True
    return any(folder in path for folder in patterns.folders)


def _replace(text: str, secrets: Iterable[SecretSpan]) -> str:
    pieces, end = [], 0
    for secret in secrets:
        lines = text.count("\n", secret.start, secret.stop)
        pieces += [text[end : secret.start], f"<SECRET:{secret.type}>", "\n" * lines]
        end = secret.stop
    return "".join([*pieces, text[end:]])


def _with_rest(text: str, secrets: Iterable[SecretSpan], *, is_last: bool) -> list[SecretSpan]:
    """Let each finding take what is left of its word, in the last pass of its line.

    A secret next to one that is redacted is found by the next pass. Only a text that is made
    for it goes on so: one word of a megabyte, of which each pass would find a few hundred
    characters.
    """
    rest = _REST_OF_LINE if is_last else _REST_OF_WORD
    longer: list[SecretSpan] = []
    for secret in secrets:
        match = rest.match(text, secret.stop)
        stop = match.end() if match else secret.stop
        longer.append(SecretSpan(secret.start, stop, secret.type))
    return _disjoint(longer)


def _disjoint(secrets: Iterable[SecretSpan]) -> list[SecretSpan]:
    """Merge overlapping findings; the earliest, then longest, names the result."""
    merged: list[SecretSpan] = []
    for secret in sorted(secrets, key=lambda secret: (secret.start, -secret.stop)):
        if merged and secret.start < merged[-1].stop:
            first = merged[-1]
            merged[-1] = SecretSpan(first.start, max(first.stop, secret.stop), first.type)
        else:
            merged.append(secret)
    return merged


def _outside(marks: list[tuple[int, int]], secrets: list[SecretSpan]) -> list[SecretSpan]:
    """Return the findings that do not overlap an earlier redaction.

    Both lists are sorted and disjoint.
    """
    fresh, index = [], 0
    for secret in secrets:
        while index < len(marks) and marks[index][1] <= secret.start:
            index += 1
        if index == len(marks) or marks[index][0] >= secret.stop:
            fresh.append(secret)
    return fresh


class _FilePatterns(Struct, frozen=True):
    """What makes a path that of a secret file, all in lower case."""

    names: re.Pattern[str]
    endings: tuple[str, ...]
    folders: tuple[str, ...]


@cache
def _file_patterns() -> _FilePatterns:
    files = secret_rules().files
    names: list[str] = []
    endings: list[str] = []
    folders: list[str] = []
    for glob in files.globs:
        if "/" not in glob:
            names.append(translate(glob))
        elif glob.endswith("/"):
            folders.append(glob)
        else:
            endings.append(glob)
    return _FilePatterns(
        names=re.compile("|".join([*names, rf"(?:{files.ssh})\Z"])),
        endings=tuple(endings),
        folders=tuple(folders),
    )


def find_literals(texts: Iterable[str], *, prose: bool) -> FoundLiterals:
    """Search many texts at once, which is several times faster than each alone. prose: see
    `redact`; true if any is.

    Every rule stays within the text around its literal, in which a text's end and a line break are
    the same to it, so what is clean together is clean in parts.
    """
    text = "\n".join(texts)
    readings = list(_readings(text, across_lines=False))
    by_text: dict[tuple[str, bool], Literal] = {}
    for reading in readings:
        for literal in screen(reading.text, _lower_in_place(reading.text)).literals:
            by_text.setdefault((literal.text, literal.minds_case), literal)
    literals = FoundLiterals(tuple(by_text.values()))
    if next(_keys_in(text), None) is not None or _fence().search(text):
        return literals
    for reading in readings:
        if next(_secrets_in(reading, literals, prose=prose), None) is not None:
            return literals
    return FoundLiterals((), is_clean=True)

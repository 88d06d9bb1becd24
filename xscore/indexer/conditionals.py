"""Make C readable where `#if` cuts a definition in two: the grammar reads all branches at once.

A conditional is resolved if it is in the middle of a statement, or if a branch of it is no
whole
one: a brace is opened and not closed, or its last character ends nothing. Then its first branch
stays, and the others and the directives are blanked; rows and bytes stay where they are. Trade-off:
no condition is evaluated but `0` and `__cplusplus`: of any other the first branch is taken, and the
same one wherever it is asked for again; what only the other branches define is not found.
"""

import re

from msgspec import Struct, field

_DIRECTIVE = re.compile(rb"(?m)^[ \t]*+#[ \t]*+(\w++)((?:[^\n\\]|\\[\s\S])*+)")
_OPENS, _GOES_ON, _CLOSES = (
    (b"if", b"ifdef", b"ifndef"),
    (b"elif", b"elifdef", b"elifndef", b"else"),
    b"endif",
)
_UNREAD = re.compile(
    rb"//[^\n]*+|/\*(?:[^*]|\*(?!/))*+(?:\*/)?|\"(?:[^\"\\\n]|\\.)*+\"?|'(?:[^'\\\n]|\\.)*+'?"
)
"""Matches a comment or a string."""
_DEFINED = re.compile(rb"!?[ \t]*+defined[ \t]*+\(?[ \t]*+(\w++)[ \t]*+\)?")
_FALSE = (b"0", b"__cplusplus")
"""Conditions that do not hold: `extern "C" {` is alone in one, and its end in another."""
_BLANK = bytes(byte if byte == 10 else 32 for byte in range(256))
_ENDS = (b";", b"{", b"}", b":")
"""Characters that end a statement, a label or the beginning of a block."""
_CONTINUES = tuple(bytes([byte]) for byte in b"{&|,)=+-?:;")
"""Characters that continue a statement after `)`."""
_HEAD = re.compile(rb"\s*+(?:else\s++)?(?:if|for|while|switch)\b")
"""Matches the head of a statement, which lacks its body if it ends with `)`."""
_LOOK_AROUND = 400
"""How many bytes before and after a conditional are searched for text."""
MOST_NESTED = 100
"""Deepest nesting of conditionals that are read."""


class _Conditional(Struct):
    """One `#if` with its branches."""

    start: int
    """First byte of the `#if`."""
    bodies: list[list[int]] = field(default_factory=list)
    """First and last byte of each branch."""
    condition: bytes = b""
    """The condition of the first branch."""
    is_negated: bool = False


def with_whole_definitions(data: bytes) -> bytes:
    """Return a file of C or C++ with each conditional that cuts code in two resolved."""
    if b"#" not in data or b"endif" not in data:
        return data
    # Comments and strings are blanked: neither a directive nor a brace in them counts.
    readable = bytearray(_UNREAD.sub(lambda match: match[0].translate(_BLANK), data))
    directives: list[tuple[int, int, bytes, bytes]] = []
    for match in _DIRECTIVE.finditer(bytes(readable)):
        directives.append((match.start(), match.end(), match[1], match[2]))
    for start, end, *_ in directives:
        readable[start:end] = readable[start:end].translate(_BLANK)
    result = bytearray(data)
    # What holds is decided once for each condition, so that all of a file's branches agree.
    holding = dict.fromkeys(_FALSE, False)
    waiting: list[_Conditional] = []
    for start, end, word, condition in directives:
        if word in _OPENS:
            waiting.append(_Conditional(start, [[end, end]], *_asked(word, condition.strip())))
        elif word in _GOES_ON and waiting:
            waiting[-1].bodies[-1][1] = start
            waiting[-1].bodies.append([end, end])
        elif word == _CLOSES and waiting:
            conditional = waiting.pop()
            conditional.bodies[-1][1] = start
            if len(waiting) < MOST_NESTED and _cuts_code(conditional, end, readable):
                is_first = holding.setdefault(conditional.condition, not conditional.is_negated)
                is_first ^= conditional.is_negated
                _resolve(conditional, end, (readable, result), is_first=is_first)
    return bytes(result)


def _cuts_code(conditional: _Conditional, end: int, readable: bytearray) -> bool:
    before = readable[max(0, conditional.start - _LOOK_AROUND) : conditional.start].rstrip()
    # A macro may be on a row of its own: `)` before it ends a statement, too.
    if before and not before.endswith((*_ENDS, b")")):
        return True
    following = readable[end : end + _LOOK_AROUND].lstrip()
    for first, last in conditional.bodies:
        body = readable[first:last].strip()
        is_whole = not body or body.endswith(_ENDS)
        if body.endswith(b")"):
            last_statement = body[max(map(body.rfind, _ENDS)) + 1 :]
            is_whole = not _HEAD.match(last_statement) and following[:1] not in _CONTINUES
        if not is_whole or body.count(b"{") != body.count(b"}"):
            return True
    return False


def _asked(word: bytes, condition: bytes) -> tuple[bytes, bool]:
    """Return what an `#if` asks for, and whether it asks for the contrary."""
    defined = _DEFINED.fullmatch(condition)
    if defined:
        return defined[1], condition.startswith(b"!")
    return condition, word == b"ifndef"


def _resolve(
    conditional: _Conditional, end: int, texts: tuple[bytearray, bytearray], *, is_first: bool
) -> None:
    """Keep one branch, and blank everything else up to `end`. is_first: keep the first branch,
    otherwise the second."""
    eligible = conditional.bodies if is_first else conditional.bodies[1:]
    first, last = eligible[0] if eligible else (end, end)
    for text in texts:
        text[conditional.start : first] = text[conditional.start : first].translate(_BLANK)
        text[last:end] = text[last:end].translate(_BLANK)

"""Find the bodies of PEM blocks: whole, escaped into one line, or cut in half by a window of lines.

Only the body is named, so that the fences still tell a reader what stood there. Lines are walked, once each; no regular
expression spans lines. A block whose both fences lie outside the text is not found: a window of lines would have to
hold nothing but key.
"""

import re
from collections.abc import Iterator
from functools import cache

from xscore.memory.secrets.secret_rules import Finding, data

_PAYLOAD = re.compile(r"[A-Za-z0-9+/]{16}")
_BASE64 = r"(?:[A-Za-z0-9+/]{16,}={0,2}|[A-Za-z0-9+/]{1,76}={1,2})"
_HEADER = r"(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset): ?[^\n]{0,200}"
_BODY_LINE = re.compile(rf"""[ \t"'`+#*>|(/]*(?:{_BASE64}|{_HEADER})(?:\\[nr]|["'`+,;) \t\\])*\r?\Z""")
_HEAD_EDGE = re.compile(r"(?:\\[nr]|[\s\"'`+,(])*")
_TAIL_EDGE = re.compile(r"[\s\"'`]*\Z")


def bodies(text: str) -> Iterator[Finding]:
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
            yield Finding(*_without_edges(text, start, stop), _type(fence))


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
    return next(str(kind) for kind, pattern in data()["pem"].items() if re.fullmatch(pattern, fence["kind"]))


@cache
def _fence() -> re.Pattern[str]:
    return re.compile(rf"-----(?P<side>BEGIN|END) (?P<kind>{'|'.join(data()['pem'].values())})-----")

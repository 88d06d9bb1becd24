"""Spans of a file's lines and their identity: what counts as the same lines, and where they stand now. Pure.

Line ends, blanks at the ends of lines, a byte order mark and the last line's end do not count: editors and git change
them by themselves. All else does, indentation too, which is meaning in some languages. Lines are bytes and are never
decoded (UTF-16 aside, which has no lines of bytes), so text of any other encoding can be cited. Trade-off: code that
was only laid out anew counts as changed; to know better one would have to parse it.
"""

from xscore.hashing import file_digest

MAX_BYTES = 10_000_000
"""Larger files are not read for a citation."""
_FIRST = 8
"""Hex characters of the hash that stand for the first line alone."""
_UTF8_MARK, _UTF16_MARKS = b"\xef\xbb\xbf", (b"\xff\xfe", b"\xfe\xff")
_HEAD_BYTES = 8_192

Lines = tuple[int, int]
"""First and last line, 1-based, inclusive; (0, 0): the whole file."""
WHOLE: Lines = (0, 0)


class Text:
    """A file's lines, numbered as editors and the index number them."""

    def __init__(self, data: bytes) -> None:
        """Split a file's bytes. Raises ValueError for what is no text."""
        self.lines = _lines(data)
        self._starts: dict[str, list[int]] = {}

    def hash(self, span: Lines) -> str:
        """Identify the lines of a span: 8 characters of its first line, by which it is found again, and 24 of all."""
        chosen = self.lines if span == WHOLE else self.lines[span[0] - 1 : span[1]]
        return _first(chosen[0] if chosen else b"") + file_digest(b"\n".join(chosen))[_FIRST:]

    def find(self, span: Lines, wanted: str) -> Lines | None:
        """Return where the span stands now: where it stood, else the one other place that holds the same lines.

        None: it is gone, was changed, or stands in several places of which none is the old one.
        """
        if self._has(span) and self.hash(span) == wanted:
            return span
        if span == WHOLE:
            return None
        length = span[1] - span[0]
        there = [(start, start + length) for start in self._starting(wanted[:_FIRST])]
        found = [place for place in there if self._has(place) and self.hash(place) == wanted]
        return found[0] if len(found) == 1 else None

    def _has(self, span: Lines) -> bool:
        return span[1] <= len(self.lines)

    def _starting(self, first: str) -> list[int]:
        """Lines whose hash begins a span's."""
        if not self._starts:
            for number, line in enumerate(self.lines, 1):
                self._starts.setdefault(_first(line), []).append(number)
        return self._starts.get(first, [])


def _lines(data: bytes) -> list[bytes]:
    if data.startswith(_UTF16_MARKS):
        data = data.decode("utf-16").encode("utf-8")
    elif b"\0" in data[:_HEAD_BYTES]:
        raise ValueError("it is no text")
    data = data.removeprefix(_UTF8_MARK).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    lines = [line.rstrip(b" \t") for line in data.split(b"\n")]
    if lines[-1] == b"":
        lines.pop()
    return lines


def _first(line: bytes) -> str:
    return file_digest(line)[:_FIRST]

"""The lines of a file that is cited, by a hash that finds them again where they have moved.

Line endings, trailing whitespace and a byte order mark do not count. Trade-off: reformatted code
counts as changed.
"""

from xscore.platform.hashing import file_digest

MAX_CITED_BYTES = 10_000_000
"""Largest file that is read for a citation."""
_FIRST = 8
"""Hex characters of the hash that cover only the first line."""
_UTF8_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_HEAD_BYTES = 8_192

LineSpan = tuple[int, int]
"""First and last line, from 1, inclusive; (0, 0): the whole file."""
WHOLE_FILE: LineSpan = (0, 0)


class FileLines:
    """A file's lines, numbered as in editors and the index."""

    def __init__(self, data: bytes) -> None:
        """Split a file's bytes; a binary file is one line. Raises ValueError for broken UTF-16."""
        self.lines: list[bytes] = _split_lines(data)
        self._starts: dict[str, list[int]] = {}

    def hash(self, span: LineSpan) -> str:
        """Hash the lines of a span: 8 characters for the first line, to find it again, and 24 for
        all lines."""
        if span == WHOLE_FILE:
            chosen = self.lines
        else:
            chosen = self.lines[span[0] - 1 : span[1]]
        of_first = _first_line_hash(chosen[0] if chosen else b"")
        return of_first + file_digest(b"\n".join(chosen))[_FIRST:]

    def find(self, span: LineSpan, span_hash: str) -> LineSpan | None:
        """Return where the span is now: the old place, otherwise the only other place with the
        same lines.

        None: it is gone, changed, or in several places, none of them the old one.
        """
        if self._holds(span, span_hash):
            return span
        if span == WHOLE_FILE:
            return None
        if not self._starts:
            for number, line in enumerate(self.lines, 1):
                self._starts.setdefault(_first_line_hash(line), []).append(number)
        matching: list[LineSpan] = []
        for start in self._starts.get(span_hash[:_FIRST], ()):
            place = (start, start + span[1] - span[0])
            if self._holds(place, span_hash):
                matching.append(place)
        if len(matching) == 1:
            return matching[0]
        return None

    def _holds(self, span: LineSpan, span_hash: str) -> bool:
        return span[1] <= len(self.lines) and self.hash(span) == span_hash


def _split_lines(data: bytes) -> list[bytes]:
    if data.startswith(_UTF16_MARKS):
        data = data.decode("utf-16").encode("utf-8")
    elif b"\0" in data[:_HEAD_BYTES]:
        # An image has no lines: it is cited as a whole.
        return [data]
    data = data.removeprefix(_UTF8_MARK).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    lines = [line.rstrip(b" \t") for line in data.split(b"\n")]
    if lines[-1] == b"":
        lines.pop()
    return lines


def _first_line_hash(line: bytes) -> str:
    return file_digest(line)[:_FIRST]

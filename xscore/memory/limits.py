"""How long a memory that does not come from files may be, so that all that is kept can be exported and read back.

Who says too much is told so (`words`, `line`); whatever else is too long is cut at the door, with a mark (`cut`), and
the gate of `saved_form` lets in as much as the door. What comes from files is bounded by the index. Trade-off: the
limits are in characters, which a line of JSON can hold in six bytes each.
"""

from collections.abc import Iterable, Iterator

from xscore.errors import UsageError

WORDS_CHARS = 100_000
"""Of one statement; a judge reads it whole, so what is longer belongs into a file of the repository."""
BESIDE_CHARS = 80_000
"""Of all that is said beside the words: reasons, alternatives, what mended it."""
TEXT_CHARS = 200_000
"""Of one text of a memory."""
LINE_CHARS = 4_000
"""Of a title, a key, a name, a link, a path."""
MANY = 1_000
"""Alternatives, links, paths or citations."""
_MARK_CHARS = 40


def words(said: str, beside: Iterable[str] = ()) -> None:
    """Check what somebody says. Raises UsageError for too much of it."""
    if len(said) > WORDS_CHARS:
        raise UsageError(
            f"{len(said):,} characters are too many for a memory",
            hint=f"At most {WORDS_CHARS:,}: put the whole into a file of the repository and remember what it comes to.",
        )
    parts = list(beside)
    if sum(map(len, parts)) > BESIDE_CHARS or len(parts) > MANY:
        raise UsageError(
            "too much is said beside the words",
            hint=f"Reasons and alternatives are at most {BESIDE_CHARS:,} characters and {MANY:,} parts.",
        )


def line(name: str, text: str) -> str:
    """Return a title, key or link as it is. Raises UsageError for one that is too long."""
    if len(text) > LINE_CHARS:
        raise UsageError(
            f"{len(text):,} characters are too many for a {name}", hint=f"At most {LINE_CHARS:,}: say it in the text."
        )
    return text


def cut(text: str, most: int) -> str:
    """Return the text, or its beginning with a mark, in at most so many characters."""
    if len(text) <= most:
        return text
    kept = most - _MARK_CHARS
    return f"{text[:kept]}… [{len(text) - kept:,} characters left out]"


def few(texts: Iterable[str], *, chars: int) -> Iterator[str]:
    """Yield the first `MANY` of these, as long as they come to no more characters."""
    for number, text in enumerate(texts):
        chars -= len(text)
        if number >= MANY or chars < 0:
            return
        yield text

"""A model's text as it may be kept and shown: every character can be encoded, and the key does not stand in it.

JSON can carry half a surrogate pair, which no store and no terminal can take, and a careless host repeats the key that
it was sent. Streamed pieces come out as the whole would: what may go on in the next piece is held back. It leaves
control characters alone; what shows text escapes them. The trade-off: a key of a few characters is an ordinary word,
such as servers on one's own machine are given, and is not looked for.
"""

from collections.abc import Callable
from dataclasses import replace

from xscore.records import Completion

SHOWN_KEY = "[key]"
LEAST_KEY_CHARS = 12
"""A shorter key (`none`, `ollama`, `password`) would be found where nobody repeats it."""


def clean(text: str, *, secret: str) -> str:
    """Return the text with its surrogates paired or replaced, and the key cut out."""
    text = _encodable(text)
    return text.replace(secret, SHOWN_KEY) if len(secret) >= LEAST_KEY_CHARS else text


def cleaned(completion: Completion, *, secret: str) -> Completion:
    """Return the completion with all that the host wrote in it cleaned."""
    text, model = clean(completion.text, secret=secret), clean(completion.model, secret=secret)
    if (text, model) == (completion.text, completion.model):
        return completion
    return replace(completion, text=text, model=model)


class CleanText:
    """A text that comes in pieces, cleaned as if it came whole."""

    def __init__(self, *, secret: str, on_text: Callable[[str], None]) -> None:
        """on_text: takes the cleaned pieces, as early as they are sure."""
        self._secret = secret if len(secret) >= LEAST_KEY_CHARS else ""
        self._on_text = on_text
        self._shown: list[str] = []
        self._half = ""
        """The first half of a pair, whose second may come."""
        self._held = ""
        """What the key begins with, and may be going on with."""

    def add(self, piece: str) -> None:
        """Take the next piece."""
        text = self._half + piece
        self._half = text[-1:] if _is_first_half(text[-1:]) else ""
        self._take(_encodable(text.removesuffix(self._half)))

    def end(self) -> str:
        """Show what was held back, and return the whole text."""
        self._take(_encodable(self._half))
        self._show(self._held)
        self._half = self._held = ""
        return "".join(self._shown)

    def _take(self, text: str) -> None:
        if not self._secret:
            self._show(text)
            return
        *before, last = (self._held + text).split(self._secret)
        sure = len(last) - _begun(last, self._secret)
        self._held = last[sure:]
        self._show(SHOWN_KEY.join([*before, last[:sure]]))

    def _show(self, text: str) -> None:
        if text:
            self._shown.append(text)
            self._on_text(text)


def _begun(text: str, secret: str) -> int:
    """Return how many characters at the end of the text are the longest beginning of the key."""
    at = text.find(secret[0], max(0, len(text) - len(secret) + 1))
    while at >= 0 and not secret.startswith(text[at:]):
        at = text.find(secret[0], at + 1)
    return len(text) - at if at >= 0 else 0


def _is_first_half(char: str) -> bool:
    return "\ud800" <= char <= "\udbff"


def _encodable(text: str) -> str:
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")

"""Mask the output of a tool to its frame: the first and last lines, and those that tell of an
error.

What is left out is counted in its place. Secrets go before any line is cut, so that no half of one
is left. Trade-off: a line tells of an error by its words alone; a failure in another language shows
only its first and last lines.
"""

import re
from collections.abc import Collection, Sequence

from msgspec import Struct

from xscore.extensions.compression.marks import escape_marks
from xscore.prompts.injected_text import cleaned_text, without_recall
from xscore.store.personal_data import redact_said
from xscore.store.redaction import redact

WHOLE_LINES = 12
WHOLE_CHARS = 800
"""Longest output that is kept as it is; it must be within both limits."""
FIRST_LINES = 2
LAST_LINES = 3
MOST_ERROR_LINES = 6
"""Most lines of errors, half from the start and half from the end: compilers name the cause
first, test runners last."""
LINE_CHARS = 240
_SECRET_CHARS = 2_000
"""How far after a cut a secret on the same line may end."""
MAX_OUTPUT_CHARS = 2_000_000
"""Longest output that is read whole; only the start and the end of a longer one are read."""
_ERROR = re.compile(
    r"error|exception|traceback|\bfail(?:ed|ure|s)?\b|panic|fatal|not found|undefined|cannot"
    r"|denied|refused|timed out|assert|\bE  +",
    re.IGNORECASE,
)
_NO_ERROR = re.compile(r"\b(?:0|no) (?:errors?|fail(?:ed|ures?))\b|errors?: 0\b", re.IGNORECASE)
"""Matches summaries that name errors only to say that there are none."""


class OutputFrame(Struct, frozen=True):
    """What is kept of an output."""

    lines: tuple[str, ...] = ()
    """Lines in order, with one for each gap; redacted."""
    errors: tuple[str, ...] = ()
    """Lines that tell of an error; if none does and the call failed, the last line."""
    left_out: int = 0
    """Number of lines that are not in the frame."""


def frame_output(output: str, *, failed: bool, allow_pii: bool) -> OutputFrame:
    """Return the frame of an output. failed: it is known to have failed, so something in it is the
    error."""
    text = without_recall(cleaned_text(_bounded(output)))
    if "PRIVATE KEY" in text:
        # A key of many lines is recognised as a whole only.
        text = redact(text).text
    lines = [line.rstrip() for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    telling = _error_lines(lines)
    if failed and not telling and lines:
        telling = [len(lines) - 1]
    if len(lines) <= WHOLE_LINES and len(text) <= WHOLE_CHARS:
        shown: Collection[int] = range(len(lines))
    else:
        ends = {*range(FIRST_LINES), *range(len(lines) - LAST_LINES, len(lines))}
        shown = {number for number in ends if 0 <= number < len(lines)} | {*telling}
    cut = {
        number: _cut_line(lines[number], allow_pii=allow_pii) for number in {*shown, *telling}
    }
    return OutputFrame(
        tuple(_with_gaps(sorted(shown), cut, len(lines))),
        tuple(dict.fromkeys(cut[number] for number in telling if cut[number].strip())),
        len(lines) - len(shown),
    )


def redacted_words(text: str, *, allow_pii: bool) -> str:
    """Return what was said without secrets, and without personal data unless it is allowed."""
    return redact_said(text, allow_pii=allow_pii).text


def _bounded(output: str) -> str:
    if len(output) <= MAX_OUTPUT_CHARS:
        return output
    half = MAX_OUTPUT_CHARS // 2
    return f"{output[:half]}\n{output[-half:]}"


def _error_lines(lines: Sequence[str]) -> list[int]:
    telling: list[int] = []
    for number, line in enumerate(lines):
        start = line[: LINE_CHARS * 4]
        if _ERROR.search(start) and not _NO_ERROR.search(start):
            telling.append(number)
    if len(telling) <= MOST_ERROR_LINES:
        return telling
    half = MOST_ERROR_LINES // 2
    return telling[:half] + telling[-half:]


def _cut_line(line: str, *, allow_pii: bool) -> str:
    words = redacted_words(line[: LINE_CHARS + _SECRET_CHARS], allow_pii=allow_pii)
    if len(words) > LINE_CHARS:
        words = words[: LINE_CHARS - 1].rstrip() + "…"
    return escape_marks(words)


def _with_gaps(numbers: Sequence[int], cut: dict[int, str], count: int) -> list[str]:
    kept: list[str] = []
    expected = 0
    for number in [*numbers, count]:
        missing = number - expected
        if missing:
            kept.append(f"[… {missing:,} {'line' if missing == 1 else 'lines'} …]")
        if number < count:
            kept.append(cut[number])
        expected = number + 1
    return kept

"""Exchanges as memories: one each, in the session layer, through the one door; and what failed in them as failures.

The question and the last answer are kept to `ASKED_CHARS` and `ANSWERED_CHARS`, with a mark where something is left
out; secrets are taken out before, so that no cut leaves half of one. The id is made of what tells the exchange apart,
so a copy is the same memory. Trade-off: only a failure with a way out is worth one, so a command that failed and was
not heard of again is told in the exchange alone.
"""

import re
import sqlite3
from dataclasses import dataclass

from xscore import hashing
from xscore.hashing import digest
from xscore.memory import door, failures
from xscore.memory.exchange_text import exchange_text
from xscore.memory.secrets.redact import redact
from xscore.memory.spoken import TITLE_CHARS, clean, title_of
from xscore.prompts.fences import shortened
from xscore.records import Kind, Layer, Memory, Particulars, Source
from xscore.sessions.exchange import Exchange, Failing
from xscore.sessions.place import Place

ASKED_CHARS = 4_000
ANSWERED_CHARS = 4_000
OUTPUT_CHARS = 1_200
COMMAND_CHARS = 400
FIX_CHARS = 800
CONFIDENCE = 0.6
"""What an agent once said is no more certain than what is inferred."""
_MARGIN_CHARS = 3_000
_SECRET_CHARS = 2_000
"""Longest secret on one line; a key of many lines is known by either of its ends."""
_PROBES = re.compile(r"(?:\S+=\S* )*(?:grep|rg|ag|ls|cat|head|find|fd|test|\[|which|command|diff|stat|pgrep)\b")
"""Commands that answer a question by failing."""
_ERROR = re.compile(r"error|exception|traceback|fail|panic|fatal|not found|undefined|cannot", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Kept:
    """An exchange on its way into the store."""

    memory: Memory
    lessons: tuple[Failing, ...]
    """What became failures of the project; redacted and short."""
    answer: str
    """Short, for what mended them."""
    secrets: int


def kept(exchange: Exchange, place: Place, *, now: float, allow_pii: bool = False) -> Kept:
    """Make the memory of an exchange. now: Unix seconds; no memory is of later than that."""
    asked, answered = _short(exchange.asked, ASKED_CHARS), _short(exchange.answered, ANSWERED_CHARS)
    failed = [_brief(each) for each in exchange.failures]
    paths = [place.within(exchange.cwd, path) for path in exchange.paths]
    paths = list(dict.fromkeys(path for path in paths if path))
    changed = f"Files changed: {', '.join(paths)}" if paths else ""
    at, ended = _no_later(exchange.at, now), _no_later(exchange.ended_at, now)
    memory, secrets = door.make(
        layer=Layer.SESSION,
        kind=Kind.EXCHANGE,
        title=_title(asked, allow_pii=allow_pii),
        text=exchange_text(asked, answered, *map(_told, failed), changed),
        ordinal=ordinal(exchange.origin, exchange.identity),
        particulars=Particulars(origin=exchange.origin, session=exchange.session[:200], paths=tuple(paths)),
        confidence=CONFIDENCE,
        source=Source.IMPORT,
        created_at=at,
        updated_at=max(at, ended),
        allow_pii=allow_pii,
    )
    return Kept(memory, tuple(filter(lambda each: _is_lesson(each, answered), failed)), answered, secrets)


def _title(asked: str, *, allow_pii: bool) -> str:
    """The first line; what is cut is clean before, so that no half of a secret is left."""
    line = (asked.strip().splitlines() or [""])[0].strip()
    if len(line) <= TITLE_CHARS:
        return line
    return title_of(clean(line[: TITLE_CHARS + _SECRET_CHARS], allow_pii=allow_pii))


def ordinal(origin: str, identity: str) -> int:
    """Tell this exchange from all others."""
    return hashing.ordinal("past exchange", origin, identity)


def record_failures(connection: sqlite3.Connection, one: Kept, *, pattern_at: int, allow_pii: bool) -> list[str]:
    """Count the failures of an exchange, each once however often it is read; return their ids, to be linked."""
    memory, found = one.memory, list[str]()
    for failing in one.lessons:
        fix = shortened(one.answer, FIX_CHARS)
        if failing.passed_later:
            fix = f"{fix}\n`{failing.command}` passed then.".strip()
        failure = failures.record_within(
            connection,
            text=f"{failing.command}\n{failing.output}",
            resolution=fix,
            origin=memory.particulars.origin,
            session=memory.particulars.session,
            paths=memory.particulars.paths,
            seen_at=memory.created_at,
            occurrence=digest("past failure", memory.id, failing.command),
            pattern_at=pattern_at,
            allow_pii=allow_pii,
            link=False,
            told_by=memory.id,
        )
        found.append(failure.memory.id)
    return found


def _short(text: str, limit: int) -> str:
    """Keep both ends. Of a very long text only they are looked at, with so much beyond the cut as a secret takes."""
    if len(text) <= limit:
        return text
    if len(text) <= 4 * _MARGIN_CHARS:
        return shortened(redact(text).text, limit)
    head, tail = limit // 3 + _MARGIN_CHARS, limit - limit // 3 + _MARGIN_CHARS
    first, last = redact(text[:head]).text[:-_SECRET_CHARS], redact(text[-tail:]).text[_SECRET_CHARS:]
    left = len(text) - limit
    return f"{first[: limit // 3]}\n[… {left} characters left out …]\n{last[-(limit - limit // 3) :]}"


def _brief(failing: Failing) -> Failing:
    output = redact(failing.output).text.strip() if len(failing.output) > OUTPUT_CHARS else failing.output.strip()
    tail = output if len(output) <= OUTPUT_CHARS else f"[…]\n{output[-OUTPUT_CHARS:]}"
    return Failing(_short(failing.command, COMMAND_CHARS), tail, failing.passed_later)


def _told(failing: Failing) -> str:
    later = "\nThe same command passed later." if failing.passed_later else ""
    return f"Failed: `{failing.command}`\n{failing.output}".rstrip() + later


def _is_lesson(failing: Failing, answered: str) -> bool:
    if not failing.output or _PROBES.match(failing.command):
        return False
    return failing.passed_later or bool(answered and _ERROR.search(failing.output))


def _no_later(at: float, now: float) -> float:
    return min(max(at, 0.0), now)

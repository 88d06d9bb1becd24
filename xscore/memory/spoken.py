"""A statement as a memory: its words, and after them in words too why it holds and what was not taken.

A judge sees nothing of a memory but its text, so what was said beside the words is part of that text, and is kept apart
in `particulars` as well. No clock, no database. Trade-off: the tail is told from the words by writing it anew, so a
text that was edited by hand around it is all words.
"""

from dataclasses import replace

from xscore.errors import UsageError
from xscore.hashing import digest
from xscore.memory import door
from xscore.memory.pii import redact_pii
from xscore.memory.redact import redact
from xscore.records import LAYERS_OF, Kind, Layer, Memory, MemoryScope, Particulars, Statement

MAX_CHARS = 100_000
"""Of one statement; a judge reads it whole, so what is longer belongs into a file of the repository."""
TITLE_CHARS = 80
_ORDINAL_DIGITS = 15
"""Hex digits that fit SQLite's integers, as elsewhere."""


def layer_of(statement: Statement) -> Layer:
    """Return the layer where a statement goes. Raises UsageError for a kind that is not said, or stands elsewhere."""
    may = LAYERS_OF.get(statement.kind)
    if may is None:
        raise UsageError(
            f"a memory of kind {statement.kind} is not said: it comes from files or sessions",
            hint=f"Kinds that can be said: {', '.join(LAYERS_OF)}.",
        )
    if statement.layer is not None and statement.layer not in may:
        raise UsageError(
            f"a {statement.kind} does not stand in the {statement.layer} layer",
            hint=f"It stands in: {', '.join(may)}. Leave the layer out to have the first.",
        )
    return statement.layer or may[0]


def spoken(statement: Statement, particulars: Particulars, *, now: float, attempt: int = 0) -> tuple[Memory, int]:
    """Make the memory of a statement through the door; also return how many secrets were taken out.

    particulars: all that is known beside the words. attempt: deals another id where one is taken by other words.
    Raises UsageError for a statement without words, or with too many.
    """
    words = readable(statement.text)
    if not words:
        raise UsageError("there is nothing to remember: the text is empty", hint="Say it in a sentence.")
    if len(words) > MAX_CHARS:
        raise UsageError(
            f"{len(words):,} characters are too many for a memory",
            hint=f"At most {MAX_CHARS:,}: put the whole into a file of the repository and remember what it comes to.",
        )
    layer, key = layer_of(statement), readable(statement.key)
    if statement.kind is Kind.PREFERENCE and not key:
        raise UsageError("a preference needs a key", hint="Say what it is about, e.g. `--key test_runner`.")
    seed = digest("said", key, clean(words, allow_pii=statement.allow_pii), *([str(attempt)] if attempt else []))
    return door.make(
        layer=layer,
        kind=statement.kind,
        title=readable(statement.title) or title_of(words),
        text=words + tail(particulars),
        entity=entity_of(layer, key),
        ordinal=int(seed[:_ORDINAL_DIGITS], 16),
        particulars=particulars,
        key=key,
        scope=MemoryScope.GLOBAL if layer is Layer.USER else MemoryScope.REPOSITORY,
        importance=statement.importance,
        confidence=statement.confidence,
        evidence_count=statement.evidence_count,
        source=statement.source,
        updated_at=now,
        allow_pii=statement.allow_pii,
    )


def clean(text: str, *, allow_pii: bool) -> str:
    """Return the text as the door lets it in; ids are made of that, so that they remember no secret either."""
    redacted = redact(text).text
    return redacted if allow_pii else redact_pii(redacted).text


def entity_of(layer: Layer, key: str) -> str:
    """Name what a memory is about, as a judge sees it; the user's never share a content with a project's."""
    return f"user {key}".strip() if layer is Layer.USER else key


def tail(said: Particulars) -> str:
    """Say in words what was said beside the words; empty where nothing was."""
    parts = [
        f"Because: {said.rationale}" if said.rationale else "",
        f"Instead of: {'; '.join(said.alternatives)}" if said.alternatives else "",
        f"Fixed by: {said.resolution}" if said.resolution else "",
    ]
    return "".join(f"\n\n{part}" for part in parts if part)


def words_of(memory: Memory) -> str:
    """Return a memory's words without their tail."""
    return memory.text.removesuffix(tail(memory.particulars))


def said_beside(statement: Statement, known: Particulars | None = None) -> Particulars:
    """Return what a statement says beside its words; what it leaves out stays as it was known."""
    known = known or Particulars()
    return replace(
        known,
        rationale=readable(statement.because) or known.rationale,
        alternatives=tuple(filter(None, map(readable, statement.alternatives))) or known.alternatives,
        links=tuple(dict.fromkeys([*known.links, *filter(None, map(readable, statement.links))])),
    )


def title_of(words: str) -> str:
    """Return the first line, shortened."""
    line = words.splitlines()[0].strip()
    return line if len(line) <= TITLE_CHARS else line[: TITLE_CHARS - 1].rstrip() + "…"


def readable(text: str) -> str:
    """Return the text without blank ends, and with a mark for what is no character."""
    return text.strip().encode("utf-8", "replace").decode("utf-8")

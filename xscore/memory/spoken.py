"""A statement as a memory: its words, and after them in words too why it holds and what was not taken.

A judge sees nothing of a memory but its text, so what was said beside the words is part of that text, and is kept apart
in `particulars` as well. No clock, no database. Trade-off: the tail is told from the words by writing it anew, so a
text that was edited by hand around it, or whose parts are a secret only side by side, is all words.
"""

from dataclasses import dataclass, replace

from xscore.errors import UsageError
from xscore.hashing import ordinal
from xscore.memory import door, limits
from xscore.memory.secrets.pii import redact_pii
from xscore.memory.secrets.redact import redact
from xscore.records import LAYERS_OF, Kind, Layer, Memory, MemoryScope, Particulars, Statement

TITLE_CHARS = 80


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
    said = readable(statement.text)
    if not said:
        raise UsageError("there is nothing to remember: the text is empty", hint="Say it in a sentence.")
    layer, key = layer_of(statement), limits.line("key", readable(statement.key))
    if statement.kind is Kind.PREFERENCE and not key:
        raise UsageError("a preference needs a key", hint="Say what it is about, e.g. `--key test_runner`.")
    worded = in_words(said, particulars, allow_pii=statement.allow_pii)
    seed = ordinal("said", key, worded.words, *([str(attempt)] if attempt else []))
    memory, redacted = door.make(
        layer=layer,
        kind=statement.kind,
        title=limits.line("title", readable(statement.title)) or title_of(worded.words),
        text=worded.text,
        entity=entity_of(layer, key),
        ordinal=seed,
        particulars=worded.particulars,
        key=key,
        scope=MemoryScope.GLOBAL if layer is Layer.USER else MemoryScope.REPOSITORY,
        importance=statement.weight,
        confidence=statement.confidence,
        evidence_count=statement.evidence_count,
        source=statement.source,
        updated_at=now,
        allow_pii=statement.allow_pii,
    )
    return memory, redacted + worded.redacted


@dataclass(frozen=True, slots=True)
class Worded:
    """What is said, without secrets."""

    words: str
    text: str
    """The words and their tail."""
    particulars: Particulars
    """Those that the tail tells of are clean."""
    redacted: int


def in_words(words: str, said: Particulars, *, allow_pii: bool) -> Worded:
    """Say in one text the words and what was said beside them, each part cleaned by itself, as the door cleans it.

    What is a secret only where parts stand side by side goes too; such a text is all words. Raises UsageError for too
    much of either.
    """
    beside = (said.rationale, *said.alternatives, said.resolution)
    limits.words(words, beside)
    swept = [_swept(part, allow_pii=allow_pii) for part in (words, *beside)]
    words, rationale, *alternatives, resolution = [part for part, _ in swept]
    limits.words(words, (rationale, *alternatives, resolution))
    told = replace(said, rationale=rationale, alternatives=tuple(alternatives), resolution=resolution)
    found = sum(count for _, count in swept)
    text, joined = _swept(words + tail(told), allow_pii=allow_pii)
    if joined:
        told = replace(said, rationale="", alternatives=(), resolution="")
        return Worded(text, text, told, found + joined)
    return Worded(words, text, told, found)


def clean(text: str, *, allow_pii: bool) -> str:
    """Return the text as the door lets it in; ids are made of that, so that they remember no secret either."""
    return _swept(text, allow_pii=allow_pii)[0]


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
    known, links = known or Particulars(), filter(None, map(readable, statement.links))
    return replace(
        known,
        rationale=readable(statement.because) or known.rationale,
        alternatives=tuple(filter(None, map(readable, statement.alternatives))) or known.alternatives,
        links=tuple(dict.fromkeys([*known.links, *(limits.line("link", link) for link in links)])),
    )


def title_of(words: str) -> str:
    """Return the first line, shortened."""
    line = words.splitlines()[0].strip()
    return line if len(line) <= TITLE_CHARS else line[: TITLE_CHARS - 1].rstrip() + "…"


def readable(text: str) -> str:
    """Return the text without blank ends, and with a mark for what is no character."""
    return text.strip().encode("utf-8", "replace").decode("utf-8")


def _swept(text: str, *, allow_pii: bool) -> tuple[str, int]:
    found = redact(text)
    if allow_pii:
        return found.text, found.count
    screened = redact_pii(found.text)
    return screened.text, found.count + screened.count

"""The text of a statement: its words, then in words why it holds and what was not chosen.

A judge sees only a memory's text, so the reasons are part of it, and are kept in `particulars` as well. No clock, no
database. Trade-off: the tail is found by rendering it again, so a text edited by hand around it is all words.
"""

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from xscore.platform.errors import UsageError
from xscore.platform.hashing import integer_id
from xscore.records import (
    LAYERS_BY_KIND,
    Kind,
    Layer,
    Memory,
    MemoryDetails,
    MemoryScope,
    Statement,
)
from xscore.store import memory_writer
from xscore.store.personal_data import redact_pii
from xscore.store.redaction import redact

if TYPE_CHECKING:
    pass

TITLE_CHARS = 80


def layer_of_statement(statement: Statement) -> Layer:
    """Return the layer where a statement goes. Raises UsageError for a kind that is not said, or stands elsewhere."""
    may = LAYERS_BY_KIND.get(statement.kind)
    if may is None:
        raise UsageError(
            f"a memory of kind {statement.kind} is not said: it comes from files or sessions",
            hint=f"Kinds that can be said: {', '.join(LAYERS_BY_KIND)}.",
        )
    if statement.layer is not None and statement.layer not in may:
        raise UsageError(
            f"a {statement.kind} does not stand in the {statement.layer} layer",
            hint=f"It stands in: {', '.join(may)}. Leave the layer out to have the first.",
        )
    return statement.layer or may[0]


def memory_from_statement(
    statement: Statement, particulars: MemoryDetails, *, now: float, attempt: int = 0
) -> tuple[Memory, int]:
    """Make the memory of a statement through the door; also return how many secrets were taken out.

    particulars: all that is known beside the words. attempt: deals another id where one is taken by other words.
    Raises UsageError for a statement without words, or with too many.
    """
    said = normalise_text(statement.text)
    if not said:
        raise UsageError("there is nothing to remember: the text is empty", hint="Say it in a sentence.")
    layer, key = layer_of_statement(statement), memory_writer.check_line_length("key", normalise_text(statement.key))
    if statement.kind is Kind.PREFERENCE and not key:
        raise UsageError("a preference needs a key", hint="Say what it is about, e.g. `--key test_runner`.")
    worded = compose_text(said, particulars, allow_pii=statement.allow_pii)
    seed = integer_id("said", key, worded.words, *([str(attempt)] if attempt else []))
    memory, redacted = memory_writer.make_memory(
        layer=layer,
        kind=statement.kind,
        title=memory_writer.check_line_length("title", normalise_text(statement.title))
        or first_line_title(worded.words),
        text=worded.text,
        entity=entity_for_key(layer, key),
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


class ComposedText(Struct, frozen=True):
    """What is said, without secrets."""

    words: str
    text: str
    """The words and their tail."""
    particulars: MemoryDetails
    """Those that the tail tells of are clean."""
    redacted: int


def compose_text(words: str, said: MemoryDetails, *, allow_pii: bool) -> ComposedText:
    """Say in one text the words and what was said beside them, each part cleaned by itself, as the door cleans it.

    What is a secret only where parts stand side by side goes too; such a text is all words. Raises UsageError for too
    much of either.
    """
    beside = (said.rationale, *said.alternatives, said.resolution)
    memory_writer.check_statement_length(words, beside)
    swept = [_redact_and_count(part, allow_pii=allow_pii) for part in (words, *beside)]
    words, rationale, *alternatives, resolution = [part for part, _ in swept]
    memory_writer.check_statement_length(words, (rationale, *alternatives, resolution))
    told = replace(said, rationale=rationale, alternatives=tuple(alternatives), resolution=resolution)
    found = sum(count for _, count in swept)
    text, joined = _redact_and_count(words + details_text(told), allow_pii=allow_pii)
    if joined:
        told = replace(said, rationale="", alternatives=(), resolution="")
        return ComposedText(text, text, told, found + joined)
    return ComposedText(words, text, told, found)


def redact_statement(text: str, *, allow_pii: bool) -> str:
    """Return the text as the door lets it in; ids are made of that, so that they remember no secret either."""
    return _redact_and_count(text, allow_pii=allow_pii)[0]


def entity_for_key(layer: Layer, key: str) -> str:
    """Name what a memory is about, as a judge sees it; the user's never share a content with a project's."""
    return f"user {key}".strip() if layer is Layer.USER else key


def details_text(said: MemoryDetails) -> str:
    """Say in words what was said beside the words; empty where nothing was."""
    parts = [
        f"Because: {said.rationale}" if said.rationale else "",
        f"Instead of: {'; '.join(said.alternatives)}" if said.alternatives else "",
        f"Fixed by: {said.resolution}" if said.resolution else "",
    ]
    return "".join(f"\n\n{part}" for part in parts if part)


def statement_text(memory: Memory) -> str:
    """Return a memory's words without their tail."""
    return memory.text.removesuffix(details_text(memory.particulars))


def merge_particulars(statement: Statement, known: MemoryDetails | None = None) -> MemoryDetails:
    """Return what a statement says beside its words; what it leaves out stays as it was known."""
    known, links = known or MemoryDetails(), filter(None, map(normalise_text, statement.links))
    return replace(
        known,
        rationale=normalise_text(statement.because) or known.rationale,
        alternatives=tuple(filter(None, map(normalise_text, statement.alternatives))) or known.alternatives,
        links=tuple(dict.fromkeys([*known.links, *(memory_writer.check_line_length("link", link) for link in links)])),
    )


def first_line_title(words: str) -> str:
    """Return the first line, shortened."""
    line = words.splitlines()[0].strip()
    return line if len(line) <= TITLE_CHARS else line[: TITLE_CHARS - 1].rstrip() + "…"


def normalise_text(text: str) -> str:
    """Return the text without blank ends, and with a mark for what is no character."""
    return text.strip().encode("utf-8", "replace").decode("utf-8")


def _redact_and_count(text: str, *, allow_pii: bool) -> tuple[str, int]:
    found = redact(text)
    if allow_pii:
        return found.text, found.count
    screened = redact_pii(found.text)
    return screened.text, found.count + screened.count

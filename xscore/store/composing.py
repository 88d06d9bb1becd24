"""Make the memory of a statement: its layer, key and title, and its words with their tail.

A memory's text is the statement's words plus a tail with reasons and alternatives, since a judge
sees only the text; `details` holds them too. Nothing is stored here. Trade-off: the tail is
found by rendering it again, so after a manual edit of it the whole text counts as words.
"""

from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from xscore.platform.errors import UsageError
from xscore.platform.hashing import integer_id
from xscore.platform.text import encodable_text
from xscore.records.memory import (
    Kind,
    Layer,
    Memory,
    MemoryDetails,
    MemoryScope,
    labelled_details,
)
from xscore.records.statement import ALIAS_CHARS, LAYERS_BY_KIND, MOST_ALIASES, Statement
from xscore.store import memory_writer
from xscore.store.personal_data import redact_said

TITLE_CHARS = 80


def layer_of_statement(statement: Statement) -> Layer:
    """Return the layer of a statement.

    Raises UsageError for a kind that cannot be stated, or not in that layer.
    """
    may = LAYERS_BY_KIND.get(statement.kind)
    if may is None:
        raise UsageError(
            f"a memory of kind {statement.kind} cannot be stated: it comes from files or sessions",
            hint=f"Kinds that can be stated: {', '.join(LAYERS_BY_KIND)}.",
        )
    if statement.layer is not None and statement.layer not in may:
        raise UsageError(
            f"a {statement.kind} cannot be in the {statement.layer} layer",
            hint=f"It may be in: {', '.join(may)}. Without a layer it is in the first.",
        )
    return statement.layer or may[0]


def memory_from_statement(
    statement: Statement, details: MemoryDetails, *, now: float, attempt: int = 0
) -> tuple[Memory, int]:
    """Make the memory of a statement; also return how many secrets were redacted.

    details: everything besides the words.
    attempt: makes another id if one is taken by other words.
    Raises UsageError for an empty or too long statement.
    """
    layer = layer_of_statement(statement)
    words = normalise_text(statement.text)
    if not words:
        raise UsageError(
            "there is nothing to remember: the text is empty", hint="Say it in a sentence."
        )
    key = checked_key(statement.kind, statement.key)
    worded = compose_text(words, details, allow_pii=statement.allow_pii)
    memory, redacted = memory_writer.make_memory(
        layer=layer,
        kind=statement.kind,
        title=checked_line("title", statement.title) or first_line_title(worded.words),
        text=worded.text,
        entity=entity_for_key(layer, key),
        ordinal=integer_id("said", key, worded.words, *([str(attempt)] if attempt else [])),
        details=worded.details,
        key=key,
        scope=statement.scope
        or (MemoryScope.GLOBAL if layer is Layer.USER else MemoryScope.REPOSITORY),
        importance=statement.weight,
        confidence=statement.confidence,
        evidence_count=statement.evidence_count,
        source=statement.source,
        updated_at=now if statement.at is None else statement.at,
        allow_pii=statement.allow_pii,
    )
    return memory, redacted + worded.redacted


def checked_key(kind: Kind, key: str) -> str:
    """Return the stripped key.

    Raises UsageError for a preference without one, and for a too long one.
    """
    if kind is Kind.PREFERENCE and not key.strip():
        raise UsageError(
            "a preference needs a key", hint="Say what it is about, e.g. `--key test_runner`."
        )
    return checked_line("key", key)


def checked_aliases(aliases: Iterable[str]) -> tuple[str, ...]:
    """Return the aliases, each on one line and once, whatever its case. Raises UsageError if there
    are too many or one is too long."""
    alias_of_name: dict[str, str] = {}
    for alias in aliases:
        line = " ".join(normalise_text(alias).split())
        if len(line) > ALIAS_CHARS:
            raise UsageError(
                f"{len(line):,} characters are too many for an alias",
                hint=f"At most {ALIAS_CHARS}: an alias is a name; say the rest in the text.",
            )
        if line:
            alias_of_name.setdefault(line.casefold(), line)
    if len(alias_of_name) > MOST_ALIASES:
        raise UsageError(
            f"{len(alias_of_name)} aliases are too many for a memory",
            hint=f"At most {MOST_ALIASES}. `xscore memory update ID --alias …` replaces them.",
        )
    return tuple(alias_of_name.values())


def checked_line(name: str, text: str) -> str:
    """Return the stripped title, key or link. Raises UsageError if it is too long."""
    text = normalise_text(text)
    if len(text) > memory_writer.LINE_CHARS:
        raise UsageError(
            f"{len(text):,} characters are too many for a {name}",
            hint=f"At most {memory_writer.LINE_CHARS:,}: say it in the text.",
        )
    return text


def checked_links(links: Iterable[str]) -> list[str]:
    """Return the links, stripped, without empty ones. Raises UsageError if one is too long."""
    checked = [checked_line("link", link) for link in links]
    return list(filter(None, checked))


class ComposedText(NamedTuple):
    """A statement's text and parts, redacted."""

    words: str
    text: str
    """The words and their tail."""
    details: MemoryDetails
    redacted: int


def compose_text(words: str, details: MemoryDetails, *, allow_pii: bool) -> ComposedText:
    """Join words and details into one text; each part is redacted alone, then the whole.

    If only the joined text contains a secret, the redacted text counts as words without details.
    Raises UsageError if either is too long.
    """
    parts = (details.rationale, *details.alternatives, *details.aliases, details.resolution)
    memory_writer.check_statement_length(words, parts)
    cleaned = [redact_said(part, allow_pii=allow_pii) for part in (words, *parts)]
    count = sum(part.count for part in cleaned)
    words, rationale, *lists, resolution = [part.text for part in cleaned]
    alternatives = lists[: len(details.alternatives)]
    aliases = lists[len(details.alternatives) :]
    clean_details = replace(
        details,
        rationale=rationale,
        alternatives=tuple(alternatives),
        aliases=tuple(aliases),
        resolution=resolution,
    )
    joined = redact_said(words + details_text(clean_details), allow_pii=allow_pii)
    if joined.count:
        # The secret spans two parts: it is unknown which of them hold it, so none is kept apart.
        clean_details = replace(
            details, rationale="", alternatives=(), aliases=(), resolution=""
        )
        words = joined.text
    return ComposedText(words, joined.text, clean_details, count + joined.count)


def entity_for_key(layer: Layer, key: str) -> str:
    """Return the entity a judge is shown; the prefix keeps the user's contents apart from a
    project's."""
    if layer is Layer.USER:
        return f"user {key}".strip()
    return key


def details_text(details: MemoryDetails) -> str:
    """Return the details as the tail of the text; empty if there are none."""
    return "".join(
        f"\n\n{label}: {words}" for label, words in labelled_details(details).items()
    )


def statement_text(memory: Memory) -> str:
    """Return a memory's words without their tail."""
    return memory.text.removesuffix(details_text(memory.details))


def merge_details(statement: Statement, *fallbacks: MemoryDetails) -> MemoryDetails:
    """Return the details of a statement; missing ones are taken from the first of `fallbacks`
    that has them."""
    merged = MemoryDetails()
    for details in fallbacks:
        missing: dict[str, object] = {}
        for name in merged.__struct_fields__:
            if not getattr(merged, name):
                missing[name] = getattr(details, name)
        merged = replace(merged, **missing)
    links = checked_links(statement.links)
    return replace(
        merged,
        rationale=normalise_text(statement.because) or merged.rationale,
        alternatives=tuple(filter(None, map(normalise_text, statement.alternatives)))
        or merged.alternatives,
        aliases=checked_aliases([*merged.aliases, *statement.aliases]),
        links=tuple(dict.fromkeys([*merged.links, *links])),
        author=merged.author or checked_line("name", statement.author),
    )


def first_line_title(words: str) -> str:
    """Return the first line, shortened."""
    line = words.splitlines()[0].strip()
    if len(line) <= TITLE_CHARS:
        return line
    return line[: TITLE_CHARS - 1].rstrip() + "…"


def normalise_text(text: str) -> str:
    """Return the stripped text, with `?` for lone surrogates."""
    return encodable_text(text.strip())

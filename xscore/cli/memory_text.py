"""Memories as text (one line in a list, or a full page) and as JSON. It only formats.

Every character of a memory is escaped for the terminal, since it may have come from anywhere.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from xscore.cli.phrases import format_age
from xscore.cli.terminal import Terminal
from xscore.cli.text_layout import bold, faint, render_facts
from xscore.pipeline.json_form import Json, record_json
from xscore.platform.figures import format_fraction
from xscore.platform.text import counted, ellipsize, escape_controls, format_place, one_line
from xscore.records.memory import Citation, Kind, Layer, Memory, MemorySource, MemoryStatus
from xscore.records.statement import RecordedFailure, StatementEffect, StoredStatement
from xscore.store.evidence import citations_of

if TYPE_CHECKING:
    from xscore.store.store import Store

_TITLE_CHARS = 90
_EFFECTS = {
    StatementEffect.STORED: "stored",
    StatementEffect.REPEATED: "already remembered; its count was raised:",
    StatementEffect.UPDATED: "updated",
}


def describe_redactions(count: int) -> str:
    """`2 secrets or personal details were replaced; memories never store them`."""
    replaced = counted(count, "secret or personal detail", "secrets or personal details")
    return f"{replaced} {'was' if count == 1 else 'were'} replaced; memories never store them"


def render_memory_line(memory: Memory, *, now: float) -> str:
    """One line: id, layer, kind, age, title, and what is unusual about it."""
    if memory.status is MemoryStatus.ACTIVE:
        marks = []
    else:
        marks = [str(memory.status)]
    marks += [f"key {one_line(memory.key)}"] if memory.key and ":" not in memory.key else []
    aliases = memory.details.aliases
    marks += [f"also {', '.join(map(one_line, aliases))}"] if aliases else []
    if memory.is_from_team:
        author = one_line(memory.details.author) or "a member"
        marks.append(f"by {author} of the team")
    elif memory.source in (MemorySource.INFERRED, MemorySource.IMPORT):
        marks.append(str(memory.source))
    marks += [f"confidence {memory.confidence:.2f}"] if memory.confidence < 1 else []
    marks += _failure_marks(memory)
    notes = ""
    if marks:
        notes = faint(f"  ({', '.join(marks)})")
    age = format_age(memory.updated_at, now)
    title = ellipsize(memory.title, _TITLE_CHARS)
    cut = ""
    if memory.text.startswith(memory.title) and memory.text.strip() != memory.title.strip():
        cut = " …"
    return f"{memory.id}  {memory.layer:<10} {memory.kind:<11} {age:<10}  {title}{cut}{notes}"


def _failure_marks(memory: Memory) -> list[str]:
    if memory.kind is not Kind.FAILURE:
        return []
    details = memory.details
    fixed = "not fixed"
    if details.resolution:
        fixed = f"fixed by: {one_line(details.resolution)}"
    return [f"{details.occurrences}×", fixed]


def render_memory(memory: Memory, citations: Iterable[Citation], *, now: float) -> str:
    """Render everything about a memory."""
    details = memory.details
    used = f"{counted(memory.access_count, 'time')}, last {format_age(memory.accessed_at, now)}"
    added = format_age(memory.created_at, now)
    if memory.updated_at > memory.created_at:
        added += f", changed {format_age(memory.updated_at, now)}"
    place = f"{memory.origin} {one_line(memory.place)}" if memory.place else ""
    if memory.path:
        place = format_place(memory.path, memory.start_line, memory.end_line)
    imported = ""
    if details.imported_from:
        imported = f", read in {one_line(details.imported_from)}"
    successor = ""
    if memory.superseded_by:
        successor = f" by {memory.superseded_by}"
    evidence = counted(memory.evidence_count, "piece")
    rows = [
        ("layer", f"{memory.layer}, {memory.kind}, scope {memory.scope}"),
        ("key", one_line(memory.key)),
        ("aliases", ", ".join(map(one_line, details.aliases))),
        ("place", place),
        ("by", one_line(details.author)),
        ("source", f"{memory.source}{imported}"),
        ("status", f"{memory.status}{successor}"),
        ("importance", format_fraction(memory.importance)),
        ("confidence", f"{format_fraction(memory.confidence)}, {evidence} of evidence"),
        ("added", added),
        ("used", used if memory.access_count else "never"),
        ("occurred", counted(details.occurrences, "time") if details.occurrences else ""),
        ("links", ", ".join(map(one_line, details.links))),
        ("files", ", ".join(map(one_line, details.paths))),
        ("exception", f"from {one_line(details.exception_of)}" if details.exception_of else ""),
    ]
    rows += [("cites", _citation(citation)) for citation in citations]
    title = f"{bold(one_line(memory.title))}  {memory.id}"
    return "\n".join([title, render_facts(rows), "", escape_controls(memory.text)])


def _citation(citation: Citation) -> str:
    place = format_place(citation.path, citation.start_line, citation.end_line)
    if citation.is_changed:
        return f"{place}  changed since"
    return place


def memory_json(memory: Memory, citations: Iterable[Citation] = ()) -> dict[str, Json]:
    """Return the record with its citations, without a `schema` field."""
    body = record_json(memory)
    del body["views"]
    # Only what came from elsewhere has a place.
    if not memory.place:
        del body["origin"], body["place"]
    hashes = {"content_hash": memory.content_hash, "text_hash": memory.text_hash}
    return body | hashes | {"citations": [record_json(citation) for citation in citations]}


def print_remembered(store: "Store", remembered: StoredStatement, terminal: Terminal) -> None:
    """Print a stored statement: the record to stdout, notes about it to stderr."""
    memory = remembered.memory
    cites: Sequence[Citation] = ()
    # A user memory belongs to no repository, so it cites no code.
    if memory.layer is not Layer.USER:
        cites = citations_of(store.connection, [memory.id]).get(memory.id, ())
    body = memory_json(memory, cites) | {
        "became": remembered.became.value,
        "superseded": list(remembered.superseded),
        "redacted": remembered.redacted,
    }
    line = (
        f"{_EFFECTS[remembered.became]} {memory.id}  {memory.layer}, {memory.kind}:"
        f" {one_line(memory.title)}"
    )
    terminal.print_result(body, line)
    if remembered.superseded:
        terminal.note(
            f"it replaces {', '.join(remembered.superseded)} ({one_line(memory.key)})"
        )
    if remembered.redacted:
        terminal.note(describe_redactions(remembered.redacted))


def failure_json(failure: "RecordedFailure") -> dict[str, Json]:
    """Return a failure, with its pattern if it has become one."""
    return {
        **memory_json(failure.memory),
        "signature": failure.signature,
        "is_counted": failure.is_counted,
        "is_new_pattern": failure.is_new_pattern,
        "pattern": memory_json(failure.pattern) if failure.pattern is not None else None,
    }


def render_failure(failure: "RecordedFailure") -> str:
    """Render how often a failure occurred, its fix, and whether it just became a pattern."""
    memory = failure.memory
    lines = [f"{memory.id}  {one_line(memory.title)}  ({', '.join(_failure_marks(memory))})"]
    if failure.is_new_pattern and failure.pattern is not None:
        lines.append(faint(f"it is now a pattern to avoid: {failure.pattern.id}"))
    return "\n".join(lines)

"""What was taken out of a memory before it was kept, in words: secrets, e-mail addresses, phone numbers, addresses.

The door counts places and leaves a mark at each, so the marks say of what kind they were. Trade-off: where a memory
holds other marks too, as one that was redacted before, kinds cannot be told apart and only the number is said.

Memories as people read them, and as JSON: one line in a list, a page alone. It decides nothing.

Every character of a memory passes `safe_text`, since it may have come from anywhere.
"""

import re
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from xscore.cli.phrases import format_age
from xscore.cli.terminal import Terminal, bold, faint, print_json, write_stdout
from xscore.pipeline.json_form import SCHEMA, Json, record_json
from xscore.platform.text import counted, escape_controls, format_place, one_line
from xscore.records import Citation, Layer, Memory, MemorySource, MemoryStatus, StatementEffect, StoredStatement

if TYPE_CHECKING:
    from xscore.store.store import Store


_REDACTION_MARK = re.compile(r"<(SECRET|PII):(\w+)>")
_WORDS = {
    "secret": ("secret", "secrets"),
    "email": ("e-mail address", "e-mail addresses"),
    "phone": ("phone number", "phone numbers"),
    "address": ("postal address", "postal addresses"),
}


def describe_redactions(count: int, *, of: Memory | None = None) -> str:
    """`1 secret and 1 e-mail address left out`, of so many places; without a memory, or in doubt, by number alone."""
    found = _count_marks(of) if of else Counter[str]()
    if found.total() != count:
        return f"{counted(count, 'secret or personal detail', 'secrets or personal details')} left out"
    parts = [counted(found[kind], *words) for kind, words in _WORDS.items() if found[kind]]
    return f"{', '.join(parts[:-1])} and {parts[-1]} left out" if len(parts) > 1 else f"{parts[0]} left out"


def _count_marks(memory: Memory) -> Counter[str]:
    """Count the marks, each place once: a title that is part of the text is no other place, nor is what a key names."""
    said = memory.particulars
    places = [memory.text, memory.key, *said.links, *said.paths]
    places += [memory.title] if memory.title.removesuffix("…") not in memory.text else []
    marks = [mark for place in places for mark in _REDACTION_MARK.finditer(place)]
    kinds = ("secret" if mark[1] == "SECRET" else mark[2] for mark in marks)
    return Counter(kind if kind in _WORDS else "address" for kind in kinds)


_TITLE_CHARS = 90


def render_memory_line(memory: Memory, *, now: float) -> str:
    """One line: id, layer, kind, age, title, and what is unusual about it."""
    marks = [] if memory.status is MemoryStatus.ACTIVE else [str(memory.status)]
    marks += [f"key {one_line(memory.key)}"] if memory.key and ":" not in memory.key else []
    marks += [str(memory.source)] if memory.source in (MemorySource.INFERRED, MemorySource.IMPORT) else []
    marks += [f"confidence {memory.confidence:.2f}"] if memory.confidence < 1 else []
    title = one_line(memory.title)
    title = title if len(title) <= _TITLE_CHARS else title[: _TITLE_CHARS - 1] + "…"
    more = faint(f"  ({', '.join(marks)})") if marks else ""
    return f"{memory.id}  {memory.layer:<10} {memory.kind:<11} {format_age(memory.updated_at, now):<10}  {title}{more}"


def render_memory(memory: Memory, citations: Iterable[Citation], *, now: float) -> str:
    """All that is known of a memory."""
    said = memory.particulars
    lines = [f"{bold(one_line(memory.title))}  {memory.id}"]
    rows = {
        "layer": f"{memory.layer}, {memory.kind}, reaches {memory.scope}",
        "key": one_line(memory.key),
        "place": format_place(memory.path, memory.start_line, memory.end_line) if memory.path else "",
        "source": str(memory.source) + (f", read in {one_line(said.origin)}" if said.origin else ""),
        "status": str(memory.status) + (f" by {memory.superseded_by}" if memory.superseded_by else ""),
        "weight": f"importance {memory.importance:g}, confidence {memory.confidence:g},"
        f" evidence {memory.evidence_count}",
        "said": format_age(memory.created_at, now)
        + (f", changed {format_age(memory.updated_at, now)}" if memory.updated_at > memory.created_at else ""),
        "used": f"{counted(memory.access_count, 'time')}, last {format_age(memory.accessed_at, now)}"
        if memory.access_count
        else "never",
        "occurred": counted(said.occurrences, "time") if said.occurrences else "",
        "links": ", ".join(map(one_line, said.links)),
        "files": ", ".join(map(one_line, said.paths)),
        "exception": f"from {one_line(said.exception_of)}" if said.exception_of else "",
    }
    lines += [f"{name:<10} {value}" for name, value in rows.items() if value]
    lines += [f"cites      {_span(one)}" for one in citations]
    return "\n".join([*lines, "", escape_controls(memory.text)])


def memory_json(memory: Memory, citations: Iterable[Citation] = ()) -> dict[str, Json]:
    """The record, with what it cites; without a schema of its own."""
    return {**record_json(memory), "citations": [record_json(one) for one in citations]}


def print_remembered(store: "Store", remembered: StoredStatement, terminal: Terminal) -> None:
    """Print what became of something said: the record on stdout, what went along with it on stderr."""
    from xscore.store.evidence import citations_of

    memory = remembered.memory
    if terminal.as_json:
        cites = () if memory.layer is Layer.USER else citations_of(store.connection, [memory.id]).get(memory.id, ())
        more: dict[str, Json] = {
            "became": remembered.became.value,
            "superseded": list(remembered.superseded),
            "redacted": remembered.redacted,
        }
        print_json({"schema": SCHEMA, **memory_json(memory, cites), **more})
        return
    write_stdout(f"{_BECAME[remembered.became]} {memory.id}  {memory.layer}, {memory.kind}: {one_line(memory.title)}")
    if remembered.superseded:
        terminal.note(f"it takes the place of {', '.join(remembered.superseded)} ({one_line(memory.key)})")
    if remembered.redacted:
        terminal.note(f"{describe_redactions(remembered.redacted, of=memory)}: a memory keeps none")


def _span(one: Citation) -> str:
    return format_place(one.path, one.start_line, one.end_line) + ("  changed since" if one.is_changed else "")


_BECAME = {
    StatementEffect.STORED: "stored",
    StatementEffect.REPEATED: "known already, now better founded:",
    StatementEffect.UPDATED: "updated",
}

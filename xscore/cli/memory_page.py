"""Memories as people read them, and as JSON: one line in a list, a page alone. It decides nothing.

Every character of a memory passes `safe_text`, since it may have come from anywhere.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from xscore.cli.left_out import left_out
from xscore.cli.session_words import ago
from xscore.cli.terminal import Terminal, bold, echo, faint, print_json
from xscore.pipeline.receipt import SCHEMA, Json, plain
from xscore.records import Became, Citation, Layer, Memory, Remembered, Source, Status
from xscore.safe_text import one_line, visible
from xscore.wording import counted, place

if TYPE_CHECKING:
    from xscore.memory.store import Store

_TITLE_CHARS = 90


def listed(memory: Memory, *, now: float) -> str:
    """One line: id, layer, kind, age, title, and what is unusual about it."""
    marks = [] if memory.status is Status.ACTIVE else [str(memory.status)]
    marks += [f"key {one_line(memory.key)}"] if memory.key and ":" not in memory.key else []
    marks += [str(memory.source)] if memory.source in (Source.INFERRED, Source.IMPORT) else []
    marks += [f"confidence {memory.confidence:.2f}"] if memory.confidence < 1 else []
    title = one_line(memory.title)
    title = title if len(title) <= _TITLE_CHARS else title[: _TITLE_CHARS - 1] + "…"
    more = faint(f"  ({', '.join(marks)})") if marks else ""
    return f"{memory.id}  {memory.layer:<10} {memory.kind:<11} {ago(memory.updated_at, now):<10}  {title}{more}"


def page(memory: Memory, citations: Iterable[Citation], *, now: float) -> str:
    """All that is known of a memory."""
    said = memory.particulars
    lines = [f"{bold(one_line(memory.title))}  {memory.id}"]
    rows = {
        "layer": f"{memory.layer}, {memory.kind}, reaches {memory.scope}",
        "key": one_line(memory.key),
        "place": place(memory.path, memory.start_line, memory.end_line) if memory.path else "",
        "source": str(memory.source) + (f", read in {one_line(said.origin)}" if said.origin else ""),
        "status": str(memory.status) + (f" by {memory.superseded_by}" if memory.superseded_by else ""),
        "weight": f"importance {memory.importance:g}, confidence {memory.confidence:g},"
        f" evidence {memory.evidence_count}",
        "said": ago(memory.created_at, now)
        + (f", changed {ago(memory.updated_at, now)}" if memory.updated_at > memory.created_at else ""),
        "used": f"{counted(memory.access_count, 'time')}, last {ago(memory.accessed_at, now)}"
        if memory.access_count
        else "never",
        "occurred": counted(said.occurrences, "time") if said.occurrences else "",
        "links": ", ".join(map(one_line, said.links)),
        "files": ", ".join(map(one_line, said.paths)),
        "exception": f"from {one_line(said.exception_of)}" if said.exception_of else "",
    }
    lines += [f"{name:<10} {value}" for name, value in rows.items() if value]
    lines += [f"cites      {_span(one)}" for one in citations]
    return "\n".join([*lines, "", visible(memory.text)])


def as_json(memory: Memory, citations: Iterable[Citation] = ()) -> dict[str, Json]:
    """The record, with what it cites; without a schema of its own."""
    return {**plain(memory), "citations": [plain(one) for one in citations]}


def told(store: "Store", remembered: Remembered, terminal: Terminal) -> None:
    """Print what became of something said: the record on stdout, what went along with it on stderr."""
    from xscore.memory.evidence import citations

    memory = remembered.memory
    if terminal.as_json:
        cites = () if memory.layer is Layer.USER else citations(store.connection, [memory.id]).get(memory.id, ())
        more: dict[str, Json] = {
            "became": remembered.became.value,
            "superseded": list(remembered.superseded),
            "redacted": remembered.redacted,
        }
        print_json({"schema": SCHEMA, **as_json(memory, cites), **more})
        return
    echo(f"{_BECAME[remembered.became]} {memory.id}  {memory.layer}, {memory.kind}: {one_line(memory.title)}")
    if remembered.superseded:
        terminal.note(f"it takes the place of {', '.join(remembered.superseded)} ({one_line(memory.key)})")
    if remembered.redacted:
        terminal.note(f"{left_out(remembered.redacted, of=memory)}: a memory keeps none")


def _span(one: Citation) -> str:
    return place(one.path, one.start_line, one.end_line) + ("  changed since" if one.is_changed else "")


_BECAME = {Became.STORED: "stored", Became.REPEATED: "known already, now better founded:", Became.UPDATED: "updated"}

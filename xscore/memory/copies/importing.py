"""Read exported memories back: whole or not at all, as quoted data, past what is here already.

What comes in has the source `import`, so that no prompt takes it for the user's own word. What is here stays as it is:
a memory that the file has otherwise, or a key that it claims too, is named and left. Every line passes the gate of
`saved_form` before the first is written. Trade-off: the whole file is held in memory, so there is a limit to its size.
"""

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pydantic import ValidationError

from xscore.errors import UsageError
from xscore.memory import evidence, rows
from xscore.memory.copies.saved_form import MOST_COUNTED, SavedMemory, complaint
from xscore.memory.databases import Databases
from xscore.memory.links.mention_links import link_mentions
from xscore.memory.lookup import LIVE, saying
from xscore.memory.writing import write
from xscore.records import Imported, Layer, Memory, Source, Status

MAX_BYTES = 64_000_000
MAX_LINE_BYTES = 8_000_000
"""Of a memory at its limits (`memory.limits`), with every character escaped."""
_COMPLAINTS_SHOWN = 5
_FUTURE_S = 86_400.0
"""Clocks differ; nothing was said tomorrow."""


def import_lines(store: Databases, data: bytes, *, users: bool = False, now: float | None = None) -> Imported:
    """Take over memories from the lines that `export_lines` wrote. now: Unix seconds.

    users: also what is of the user layer, which holds in every repository; else it is refused, and counted.
    Raises UsageError, and changes nothing, where a line is not such a memory: each is named with its number.
    """
    moment = store.moment(now)
    lines = _read(data, now=moment)
    told = _Told(refused=0 if users else sum(line.layer is Layer.USER for _, line in lines))
    wanted = [line for _, line in lines if users or line.layer is not Layer.USER]
    if not wanted:
        return told.imported()
    layers = {line.layer for line in wanted}
    homes = {layer: store.home_of(layer) for layer in layers}
    with store.transaction(layers):
        for line in wanted:
            _take(homes, line, told, now=moment, allow_pii=store.settings.allow_pii)
        if layers != {Layer.USER}:
            link_mentions(store.connection, told.added)
    return told.imported()


@dataclass(slots=True)
class _Told:
    added: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    known: int = 0
    forgotten: int = 0
    refused: int = 0
    redacted: int = 0

    def imported(self) -> Imported:
        return Imported(
            added=tuple(self.added),
            known=self.known,
            kept=tuple(dict.fromkeys(self.kept)),
            forgotten=self.forgotten,
            refused=self.refused,
            redacted=self.redacted,
        )


def _read(data: bytes, *, now: float) -> list[tuple[int, SavedMemory]]:
    """Read all lines, or say which of them are no memories."""
    if len(data) > MAX_BYTES:
        raise UsageError(
            f"{len(data):,} bytes are too many for one import", hint=f"At most {MAX_BYTES:,}: split it by lines."
        )
    found: list[tuple[int, SavedMemory]] = []
    wrong: list[str] = []
    seen: dict[object, int] = {}
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            memory = _parsed(line)
            _check(memory, seen, number, now=now)
        except ValidationError as error:
            wrong.append(f"line {number}: {complaint(error)}")
        except ValueError as error:
            wrong.append(f"line {number}: {error}")
        else:
            found.append((number, memory))
    if wrong:
        more = f"; and {len(wrong) - _COMPLAINTS_SHOWN} more" if len(wrong) > _COMPLAINTS_SHOWN else ""
        raise UsageError(
            f"nothing was imported: {'; '.join(wrong[:_COMPLAINTS_SHOWN])}{more}",
            hint="Import what `xscore memory export` wrote, or mend these lines.",
        )
    if not found:
        raise UsageError("there is nothing to import: the file holds no line", hint="`xscore memory export` makes one.")
    return found


def _parsed(line: bytes) -> SavedMemory:
    if len(line) > MAX_LINE_BYTES:
        raise ValueError(f"{len(line):,} bytes are too many for a memory")
    return SavedMemory.model_validate_json(line)


def _check(memory: SavedMemory, seen: dict[object, int], number: int, *, now: float) -> None:
    """Refuse what no single line shows. Raises ValueError."""
    if max(memory.created_at, memory.updated_at) > now + _FUTURE_S:
        raise ValueError("it was said in the future")
    if memory.layer is Layer.USER and memory.citations:
        raise ValueError("a memory of the user layer cannot cite a repository's code")
    names: list[object] = [memory.id]
    if memory.key and memory.status is Status.ACTIVE:
        names.append((memory.layer, memory.scope, memory.key))
    for name in names:
        if name in seen:
            what = "id" if name == memory.id else "key"
            raise ValueError(f"it has the {what} of line {seen[name]}")
        seen[name] = number


def _take(
    homes: Mapping[Layer, sqlite3.Connection], line: SavedMemory, told: _Told, *, now: float, allow_pii: bool
) -> None:
    connection = homes[line.layer]
    if connection.execute("SELECT 1 FROM forgotten WHERE memory_id = ?", (line.id,)).fetchone():
        told.forgotten += 1
        return
    made, redacted = line.memory(allow_pii=allow_pii)
    memory = _quoted(made, now=now)
    there = _in_the_way(connection, memory)
    if there:
        if any(_says_the_same(other, memory) for other in there):
            told.known += 1
        else:
            told.kept.extend(other.id for other in there)
        return
    write(connection, memory, before=None, now=now, link=False)
    if line.citations:
        evidence.attach(connection, memory.id, line.cited())
    told.added.append(memory.id)
    told.redacted += redacted


def _quoted(memory: Memory, *, now: float) -> Memory:
    """Return what is believed of a line: its words, as someone's, seen now, so that its age begins anew."""
    said = memory.particulars
    return replace(
        memory,
        source=Source.IMPORT,
        evidence_count=min(memory.evidence_count, MOST_COUNTED),
        particulars=replace(said, occurrences=min(said.occurrences, MOST_COUNTED)),
        accessed_at=now,
    )


def _in_the_way(connection: sqlite3.Connection, memory: Memory) -> list[Memory]:
    """Find what has its id, its words, or its key where both are live."""
    found = rows.memories(connection, "id = ?", (memory.id,))
    found += [
        other for other in saying(connection, memory.layer, memory.kind, memory.text) if _says_the_same(other, memory)
    ]
    if memory.key and memory.status in LIVE:
        claimed = (memory.layer, memory.scope, memory.key)
        for status in LIVE:
            where = f"layer = ? AND scope = ? AND key = ? AND key <> '' AND status = '{status}'"
            found += rows.memories(connection, where, claimed)
    return found


def _says_the_same(one: Memory, other: Memory) -> bool:
    return (one.layer, one.kind, one.text, one.key) == (other.layer, other.kind, other.text, other.key)

"""Memories, and stores that hold them."""

import sqlite3

from xscore.platform import database
from xscore.records.memory import Kind, Layer, Memory, MemoryScope, MemorySource
from xscore.store import memory_writer

WORDS = "We keep quokka invoices under the cobalt staircase"


def function(
    name: str = "f", *, text: str = "", path: str = "a.py", **fields: object
) -> Memory:
    """Make a function's memory through the writer."""
    values: dict[str, object] = {
        "layer": Layer.GRAPH,
        "kind": Kind.FUNCTION,
        "title": f"def {name}()",
        "text": text or f"def {name}():\n    return 1\n",
        "path": path,
        "entity": name,
        "language": "python",
        "updated_at": 10.0,
    }
    memory, _ = memory_writer.make_memory(**(values | fields))  # type: ignore[arg-type]  # any field may be given
    return memory


def said(
    text: str = WORDS,
    *,
    key: str = "",
    layer: Layer = Layer.PROJECT,
    ordinal: int = 0,
    **fields: object,
) -> Memory:
    """Make a memory as a user states it."""
    values: dict[str, object] = {
        "layer": layer,
        "kind": Kind.CONVENTION,
        "title": text.splitlines()[0][:60],
        "text": text,
        "ordinal": ordinal,
        "key": key,
        "source": MemorySource.EXPLICIT,
        "entity": "user preference" if layer is Layer.USER else "",
        "scope": MemoryScope.GLOBAL if layer is Layer.USER else MemoryScope.REPOSITORY,
        "updated_at": 10.0,
    }
    memory, _ = memory_writer.make_memory(**(values | fields))  # type: ignore[arg-type]  # any field may be given
    return memory


def put(connection: sqlite3.Connection, *memories: Memory, thread: str = "") -> None:
    """Write memories through the writer."""
    with database.transaction(connection):
        memory_writer.put_memories(connection, memories, thread=thread)

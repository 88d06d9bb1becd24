"""A new store for each test."""

from xscore.records.memory import Kind, Layer, Memory
from xscore.store import memory_writer


def function(name: str = "f", *, text: str = "", path: str = "a.py", **more: object) -> Memory:
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
    memory, _ = memory_writer.make_memory(**(values | more))  # type: ignore[arg-type]  # any field may be given
    return memory

"""Memories as JSON lines: one memory a line, sorted, so that two exports can be compared with `diff`.

Superseded and archived ones are in it where the choice says so; judgments, vectors and use counts never. Reading back
is `memory.copies.importing`. Trade-off: edges are left out, since they are found again from the text.
"""

import json
from collections.abc import Iterator
from typing import Any

from xscore.memory.copies.saved_form import saved
from xscore.memory.databases import Databases
from xscore.memory.evidence import citations
from xscore.memory.lookup import Choice, chosen


def export_lines(store: Databases, choice: Choice) -> Iterator[str]:
    """Yield the chosen memories that are not from the index, each as a line of JSON without its line end."""
    return map(as_line, exported(store, choice))


def as_line(saved_form: dict[str, Any]) -> str:
    """Write one of `exported` as its line."""
    return json.dumps(saved_form, ensure_ascii=False)


def exported(store: Databases, choice: Choice) -> Iterator[dict[str, Any]]:
    """Yield the chosen memories that are not from the index, sorted, each as the object that its line holds."""
    found = [memory for memory in chosen(store, choice) if memory.source != "index"]
    cited = citations(store.connection, [memory.id for memory in found])
    for memory in sorted(found, key=lambda memory: (memory.layer, memory.kind, memory.key, memory.id)):
        yield saved(memory, cited.get(memory.id, ()))

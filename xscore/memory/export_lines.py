"""Memories as JSON lines: one memory a line, sorted, so that two exports can be compared with `diff`.

Superseded and archived ones are in it where the choice says so; judgments, vectors and use counts never. Reading back
is `memory.importing`. Trade-off: edges are left out, since they are found again from the text.
"""

import json
from collections.abc import Iterator

from xscore.memory.databases import Databases
from xscore.memory.evidence import citations
from xscore.memory.lookup import Choice, chosen
from xscore.memory.saved_form import saved


def export_lines(store: Databases, choice: Choice) -> Iterator[str]:
    """Yield the chosen memories that are not from the index, each as a line of JSON without its line end."""
    found = [memory for memory in chosen(store, choice) if memory.source != "index"]
    cited = citations(store.connection, [memory.id for memory in found])
    for memory in sorted(found, key=lambda memory: (memory.layer, memory.kind, memory.key, memory.id)):
        yield json.dumps(saved(memory, cited.get(memory.id, ())), ensure_ascii=False)

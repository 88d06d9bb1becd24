"""Which of the chosen memories an answer uses: by their ids, lines or names in its text.

Trade-off: an answer that says what a memory says without naming it is not seen to use it.
"""

import re
from collections import Counter
from collections.abc import Iterable

from xscore.prompts.answer import cited_memory_ids
from xscore.records.memory import WITHIN
from xscore.records.receipt import Selected

_QUOTED_NAME = re.compile(r"`([^`\n]{1,200}?)(?:\([^`\n]*\))?`")
"""Matches a name in the answer, with or without arguments: `Store.open`, `open(path)`."""
SHORTEST_NAME = 3
"""Fewest characters of a last name that is taken for the memory's: `ld` may be any variable."""


def cited_of(answer: str, chosen: Iterable[Selected]) -> tuple[str, ...]:
    """Return the ids of the chosen memories that an answer cites by id, lines or name.

    A name is the whole one, or the last part of one that no other chosen memory has: `open` for
    `Store.open`.
    """
    chosen = list(chosen)
    cited_ids = cited_memory_ids(answer)
    names = set(_QUOTED_NAME.findall(answer))
    last_names = {_last_part(name) for name in names}
    memories_by_last_name = Counter(_last_part(memory.entity) for memory in chosen)
    cited: list[str] = []
    for memory in chosen:
        last_name = _last_part(memory.entity)
        is_only_one = memories_by_last_name[last_name] == 1 and len(last_name) >= SHORTEST_NAME
        if (
            memory.id.startswith(cited_ids)
            or (memory.path and f"{memory.path}:{memory.start_line}" in answer)
            or (memory.entity and memory.entity in names)
            or (is_only_one and last_name in last_names)
        ):
            cited.append(memory.id)
    return tuple(cited)


def _last_part(name: str) -> str:
    """`Store.open` -> `open`; `describe > opens a store` -> `opens a store`."""
    return name.rpartition(WITHIN)[2].rpartition(".")[2].strip()

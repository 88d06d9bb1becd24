"""Which of the chosen memories an answer uses: by their ids, lines or names in its text.

Trade-off: an answer that says what a memory says without naming it is not seen to use it.
"""

from collections.abc import Iterable

from xscore.prompts.answer import cited_memory_ids
from xscore.records.receipt import Selected


def cites(memory: Selected, answer: str, cited_ids: tuple[str, ...]) -> bool:
    """Return whether an answer cites a memory by its id, or names its lines or its whole name.

    cited_ids: those in the answer, as it writes them, which may be their beginnings.
    """
    if memory.id.startswith(cited_ids):
        return True
    names_lines = bool(memory.path) and f"{memory.path}:{memory.start_line}" in answer
    names_entity = bool(memory.entity) and f"`{memory.entity}`" in answer
    return names_lines or names_entity


def cited_of(answer: str, chosen: Iterable[Selected]) -> tuple[str, ...]:
    """Return the ids of the chosen memories that an answer uses."""
    cited_ids = cited_memory_ids(answer)
    return tuple([memory.id for memory in chosen if cites(memory, answer, cited_ids)])

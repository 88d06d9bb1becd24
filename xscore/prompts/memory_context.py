"""The `memory` form: `## Semantic Memory Context` with numbered memories, then the repository, then its decisions.

For agents that take a block of Markdown into a prompt of their own. It quotes in fences as the other forms do.
Trade-off: numbers are easier to follow than ids, so both stand there, and a line more for each memory is the price.
"""

from collections.abc import Sequence

from xscore.prompts.bundle_piece import CODE_KINDS, Layout, Piece, heading, omissions, one_line, remarks
from xscore.prompts.fences import block

HEADING = "## Semantic Memory Context"


def memory_context(layout: Layout) -> str:
    """Return `[1] (decision, 0.95) …` for each memory, branch and files, and the decision history; empty: nothing."""
    if not (layout.pieces or layout.omitted):
        return ""
    parts = [HEADING]
    parts += [_memory(number, piece) for number, piece in enumerate(layout.pieces, start=1)]
    if layout.omitted:
        parts.append("\n".join(f"- {line}" for line in omissions(layout.omitted)))
    repository = _repository(layout)
    if repository:
        parts.append("\n".join(["## Repository Context", "", *repository]))
    if layout.surroundings and layout.surroundings.history:
        lines = [f"- {one_line(line)}" for line in layout.surroundings.history]
        parts.append("\n".join(["## Decision History", "", *lines]))
    return "\n\n".join(parts)


def _memory(number: int, piece: Piece) -> str:
    memory = piece.memory
    score = "detail" if piece.score is None else f"{piece.score:.2f}"
    lines = f" lines {memory.start_line}-{memory.end_line}" if memory.start_line else ""
    below = " (below the threshold)" if piece.below_threshold else ""
    said = remarks(piece)
    beside = f"[{memory.id}]" + (f" {said}" if said else "")
    first = f"[{number}] ({memory.kind.value}, {score}) {heading(piece)}{lines}{below}"
    parts = [one_line(first), one_line(beside)]
    if piece.header:
        parts.append(block(piece.header, memory.language))
    parts.append(block(piece.text.strip("\n"), memory.language if memory.kind in CODE_KINDS else "text"))
    return "\n".join(parts)


def _repository(layout: Layout) -> Sequence[str]:
    """The branch with its commit, and the files of what is shown."""
    around = layout.surroundings
    lines = []
    if around and around.branch:
        lines.append(f"Branch: {one_line(around.branch)}" + (f" ({around.commit})" if around.commit else ""))
    files = dict.fromkeys(piece.memory.path for piece in layout.pieces if piece.memory.path)
    if files:
        lines += ["Relevant files:", *(f"- {one_line(path)}" for path in files)]
    return lines

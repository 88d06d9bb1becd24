"""Why a file is thought to be missing from a change, in words."""

from collections.abc import Iterator

from xscore.extensions.checking.evidence import ChangeEvidence
from xscore.extensions.checking.file_links import LinkedFile
from xscore.platform.text import counted

LEAST_TOGETHER = 2
"""Fewest commits in common for which history is named as a reason."""
LIKE_NAME = 0.5
"""Least likeness of names for which it is named as a reason."""
MOST_REASONS = 3


def reasons_for(evidence: ChangeEvidence, row: int) -> tuple[str, ...]:
    """Return the evidence for the file of a row, the strongest kinds first."""
    path = evidence.paths[row]
    reasons = [
        *_from_links(evidence.links.get(path, LinkedFile())),
        *_from_history(evidence, path),
        *_from_name(evidence, path),
        *_from_words(evidence, path),
    ]
    return tuple(reasons[:MOST_REASONS])


def _from_links(linked: LinkedFile) -> Iterator[str]:
    of = f"`{linked.of_entity}`" if linked.of_entity else "a changed entity"
    if linked.tests:
        yield f"tests {of}"
    elif linked.calls:
        yield f"calls {of}"
    if linked.names:
        yield f"names {of}"
    if linked.tested:
        yield "is run by a changed test"


def _from_history(evidence: ChangeEvidence, path: str) -> Iterator[str]:
    together = evidence.history.together.get(path)
    if together is not None and together.companion_together >= LEAST_TOGETHER:
        commits = counted(together.companion_commits, "commit")
        both = f"{together.companion_together} of the {commits}"
        yield f"changed in {both} that touched {together.companion}"


def _from_name(evidence: ChangeEvidence, path: str) -> Iterator[str]:
    like = evidence.likeness.get(path)
    if like is not None and like.nearest and like.of_name >= LIKE_NAME:
        yield f"is named like {like.nearest}"


def _from_words(evidence: ChangeEvidence, path: str) -> Iterator[str]:
    words = evidence.words.shared.get(path, ())
    if words:
        yield f"shares {', '.join(words)}"

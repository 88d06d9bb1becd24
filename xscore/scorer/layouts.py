"""The layouts of a judging prompt, each with how its reply is read: of one turn, and of questions that share a pack.

A layout may change scores, so its version is part of the judge's identity. With one question in it the shared layout is
that of whatever is asked again alone. Trade-off: whoever drafts hands all options to a layout, also one that it has no
use for (the shared one has its pack first, always).
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from xscore.prompts.judge import PROMPT_VERSION, PackEntry, judging_request
from xscore.prompts.questions import QUESTIONS_VERSION, questions_request
from xscore.records import Request
from xscore.scorer import parse
from xscore.scorer.parse_questions import read_one


@dataclass(frozen=True, slots=True)
class Layout:
    """How a prompt about one turn is rendered, and its reply read."""

    version: str
    render: Callable[..., Request]
    """Entries, a rendered turn, and the options of `judging_request`."""
    read: Callable[[str, Collection[str]], parse.Reply]
    """A reply, and the ids of its prompt."""
    only_order: str = ""
    """The one order it has; empty: the model's."""


def _one_question(entries: Sequence[PackEntry], turn_text: str, *, order: str, **options: object) -> Request:
    assert order == SHARED.only_order
    return questions_request(entries, (turn_text,), **options)  # type: ignore[arg-type]  # as `Drafts.request` types them


ONE_TURN = Layout(PROMPT_VERSION, judging_request, parse.read)
SHARED = Layout(QUESTIONS_VERSION, _one_question, read_one, "memory_first")

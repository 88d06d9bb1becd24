"""The judging request of a decision model: the rubric and the turn are the state, each memory a question of its own.

Questions are answered independently, so a score depends on no neighbour: there are no packs to keep stable, and names
need not be unguessable. Two forms: a predicate, whose probability is the score, or a rating on five levels. The rubric
of each is a file of its own. Public contract: `docs/internals/protocol.md`. Trade-off: a question repeats nothing but
the memory's fence, so everything that explains it stands once in the state.
"""

from collections.abc import Sequence
from functools import cache, lru_cache
from math import ceil
from pathlib import Path

from xscore.platform import tokens
from xscore.prompts.fences import escape_attribute, escape_tags, shorten_middle
from xscore.prompts.judge import PackEntry, PromptOptions
from xscore.prompts.turn_text import MEMORY_TAGS
from xscore.records.calls import DecisionForm, Request, Stage

DECISION_VERSION = "decision-1"
"""Part of every judgment's key, with the form. Change it with a rubric or the layout."""
LEVELS = (("unrelated", 0.05), ("nearby", 0.25), ("background", 0.55), ("needed", 0.80), ("edited", 0.95))
"""Level -> the middle of its band of scores (0-9, 10-39, 40-69, 70-89, 90-100), as the rubric describes them."""
STATEMENTS = {
    DecisionForm.PREDICATE: "This memory is needed for the task:",
    DecisionForm.SCORE: "How much does the task need this memory?",
}


@cache
def decision_rubric(form: DecisionForm) -> str:
    """Return the frozen first part of the state."""
    return Path(__file__).with_name(f"decision_{form.value}.md").read_text("utf-8").strip()


def question_names(size: int) -> tuple[str, ...]:
    """Return the names of so many questions, in their order."""
    return tuple(f"m{number}" for number in range(1, size + 1))


def question_text(entry: PackEntry, form: DecisionForm) -> str:
    """Render the question about one memory: a statement, and the memory as data within its fence."""
    name = f' name="{escape_attribute(entry.entity)}"' if entry.entity else ""
    head = f'<memory kind="{entry.kind}"{_place(entry.path)}{name}>'
    return f"{STATEMENTS[form]}\n{head}\n{escape_tags(entry.text, tags=MEMORY_TAGS)}\n</memory>"


@lru_cache(maxsize=1024)
def _place(path: str) -> str:
    """Return the attribute that names the file; memories of one file come one after another."""
    return f' path="{escape_attribute(path)}"' if path else ""


def decision_request(
    entries: Sequence[PackEntry], turn_text: str, options: PromptOptions, *, form: DecisionForm, turn_chars: int
) -> Request:
    """Build the request that judges these entries against a rendered turn.

    `content` is the turn and then one question for each entry, in the order of `reply_ids`.
    turn_chars: a longer turn (a pasted log) is shortened in the middle.
    """
    rubric, state = decision_rubric(form), shorten_middle(turn_text, turn_chars)
    questions = [question_text(entry, form) for entry in entries]
    chars, ratio = tokens.size(rubric, state, *questions), options.chars_per_token
    return Request(
        stage=Stage.JUDGE,
        model=options.model,
        system=rubric,
        content=(state, *questions),
        reply_ids=tuple(entry.code_id for entry in entries),
        decision=form,
        levels=tuple(name for name, _ in LEVELS) if form is DecisionForm.SCORE else (),
        max_output_tokens=0,  # answers are no text, and free
        input_tokens=ceil(chars / ratio),
        reserved_input_tokens=ceil(chars / min(tokens.UPPER_BOUND_CHARS_PER_TOKEN, ratio)),
        candidates=len(entries),
        frame_tokens=ceil(tokens.size(rubric, state) / ratio),
        timeout_s=options.timeout_s,
    )

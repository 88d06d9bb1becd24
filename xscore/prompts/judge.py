"""The judging prompt: a frozen rubric, then the pack, then the turn last, so that the costly prefix
never changes.

Public contract: `docs/internals/protocol.md`. The rubric (`judge_rubric.md`) is the whole system
text; memories and the turn are fenced in the user message. Packs and ids are decided elsewhere.
Trade-off: the turn comes last, so a model reads the memories before it knows what they are judged
for.

A decision model is asked otherwise: the rubric and the turn are the state, each memory a question
of its own, answered independently; so there are no packs to keep stable, and names need not be
unguessable. Two forms: a predicate, whose probability is the score, or a rating on five levels,
each with a rubric in a file of its own.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from math import ceil
from typing import NamedTuple

from msgspec import Struct

from xscore.platform import tokens
from xscore.prompts.fences import escape_attribute, escape_tags, shorten_middle
from xscore.prompts.rubric import CODE_RUBRIC, Rubric
from xscore.prompts.turn_text import MEMORY_TAGS
from xscore.records.calls import DecisionForm, Request, Stage
from xscore.records.memory import WITHIN


class PackEntry(NamedTuple):
    """One memory as the judge sees it. A named tuple: there is one per candidate."""

    code: str
    """The memory's id in this prompt only, from the codebook."""
    kind: str
    path: str
    """Path of its file; empty: the memory belongs to no file."""
    entity: str
    text: str
    purpose: str = ""
    """What a model says that its file is for, on a line; empty if it is not shown."""


def pack_block(entries: Sequence[PackEntry]) -> str:
    """Render a pack in the given order: a file is named once around its memories with its purpose,
    and so are the headings above it."""
    lines: list[str] = []
    for (path, purpose), members in groupby(entries, key=_file_of):
        shown = [_memory(entry, name) for entry, name in _with_short_names(members)]
        if path:
            head = f'<file path="{escape_attribute(path)}"{purpose_attribute(purpose)}>'
            shown = [head, *shown, "</file>"]
        lines += shown
    return "\n".join(lines)


def _file_of(entry: PackEntry) -> tuple[str, str]:
    return entry.path, entry.purpose


def purpose_attribute(purpose: str) -> str:
    """Render what a model says that a file is for, as data within its quotes; empty if nothing is
    shown."""
    if purpose:
        return f' purpose="{escape_attribute(purpose)}"'
    return ""


def _with_short_names(entries: Iterable[PackEntry]) -> Iterator[tuple[PackEntry, str]]:
    """Yield each memory with its name; headings that equal those of the memory before are written
    as `…`."""
    above = ""
    for entry in entries:
        headings, _, last = entry.entity.rpartition(WITHIN)
        yield (
            entry,
            f"…{WITHIN}{last}" if headings and headings == above else entry.entity,
        )
        above = headings


class JudgeModel(Struct, frozen=True, kw_only=True):
    """The judging model and the settings declared for it."""

    name: str
    answered_by: str = ""
    """The model that the host names in its replies, where that is the judge; empty: the one
    that was asked for."""
    reasoning: str = ""
    """Reasoning effort in the vendor's words; empty: not sent."""
    reasoning_reserve: int = 0
    """Output tokens to reserve for reasoning, per call."""
    temperature: float | None = None
    max_output_tokens: int | None = None
    """Most output tokens of a reply, by the model's own limit."""
    order: str = "memory_first"
    """`memory_first` keeps rubric and pack as a prefix that is byte-identical over turns;
    `turn_first` swaps them."""
    prefix_ttl_s: int = 0
    """How long a host that charges for it should cache the prefix of a lasting pack; 0: not at
    all."""
    timeout_s: float = 60.0
    chars_per_token: float = tokens.MIXED
    reply_tokens: float | None = None
    """Output tokens per memory in past replies, for estimates only; None: unknown."""


class PromptOptions(Struct, frozen=True):
    """How a judging prompt is sent."""

    model: JudgeModel
    max_output_tokens: int
    reasons_from: float = 0.3
    """Lowest score, 0..1, that asks for a reason; 0 asks for all. It is rendered after the
    prefix."""
    cache_key: str = ""
    is_lasting: bool = True
    """Whether the same entries will share a prompt in later turns."""


def judging_request(
    entries: Sequence[PackEntry],
    turn_text: str,
    options: PromptOptions,
    *,
    rubric: Rubric = CODE_RUBRIC,
) -> Request:
    """Build the request that judges these entries against a rendered turn."""
    system = rubric.text()
    memory_first = options.model.order == "memory_first"
    first, last = (
        (pack_block(entries), turn_text) if memory_first else (turn_text, pack_block(entries))
    )
    content = (first, f"{last}\n\n{_asked(len(entries), options.reasons_from)}")
    frame = tokens.size(system, turn_text)
    return make_judging_request(
        entries,
        system,
        content,
        options,
        is_lasting=memory_first and options.is_lasting,
        frame_chars=frame,
    )


def make_judging_request(
    entries: Sequence[PackEntry],
    system: str,
    content: tuple[str, str],
    options: PromptOptions,
    *,
    is_lasting: bool,
    frame_chars: int,
    questions: tuple[str, ...] = (),
) -> Request:
    """Build a judging request from its rendered parts.

    is_lasting: the first part is the same in later turns.
    frame_chars: what separate prompts would repeat per judgment.
    questions: codes of the questions that share the prompt; empty: one turn.
    """
    model = options.model
    chars = tokens.size(system, *content)
    ratio = model.chars_per_token
    return Request(
        stage=Stage.JUDGE,
        model=model.name,
        system=system,
        content=content,
        stable_parts=1 if is_lasting else 0,
        prefix_ttl_s=model.prefix_ttl_s if is_lasting else 0,
        reply_ids=tuple(sorted(entry.code for entry in entries)),
        reply_questions=questions,
        max_output_tokens=options.max_output_tokens,
        input_tokens=ceil(chars / ratio),
        reserved_input_tokens=ceil(chars / min(tokens.UPPER_BOUND_CHARS_PER_TOKEN, ratio)),
        cache_key=options.cache_key,
        reasoning=model.reasoning,
        temperature=model.temperature,
        candidates=len(entries) * max(1, len(questions)),
        frame_tokens=ceil(frame_chars / ratio),
        timeout_s=model.timeout_s,
    )


def _asked(count: int, reasons_from: float) -> str:
    lowest = ceil(reasons_from * 100)
    which = "every id"
    if lowest > 0:
        which = f"every id scored {lowest} or more"
    return f"Score all {count} memories for this turn. Give a reason for {which}."


def _memory(entry: PackEntry, name: str) -> str:
    head = (
        f'<memory id="{entry.code}" kind="{escape_attribute(entry.kind)}"'
        f' name="{escape_attribute(name)}">'
    )
    return f"{head}\n{escape_tags(entry.text, tags=MEMORY_TAGS)}\n</memory>"


LEVELS = (
    ("unrelated", 0.05),
    ("nearby", 0.25),
    ("background", 0.55),
    ("needed", 0.80),
    ("edited", 0.95),
)
"""Level of the rubric for code -> the middle of its band of scores (0-9, 10-39, 40-69, 70-89,
90-100)."""


def question_names(size: int) -> tuple[str, ...]:
    """Return the names of this many questions, in order."""
    return tuple(f"m{number}" for number in range(1, size + 1))


def question_text(entry: PackEntry, statement: str) -> str:
    """Render the question about one memory: a statement, and the memory as data within its
    fence."""
    name = ""
    if entry.entity:
        name = f' name="{escape_attribute(entry.entity)}"'
    purpose = purpose_attribute(entry.purpose)
    head = f'<memory kind="{entry.kind}"{_place(entry.path)}{name}{purpose}>'
    return f"{statement}\n{head}\n{escape_tags(entry.text, tags=MEMORY_TAGS)}\n</memory>"


@lru_cache(maxsize=1024)
def _place(path: str) -> str:
    """Return the attribute that names the file; memories of one file come one after another."""
    if path:
        return f' path="{escape_attribute(path)}"'
    return ""


def decision_request(
    entries: Sequence[PackEntry],
    turn_text: str,
    options: PromptOptions,
    *,
    form: DecisionForm,
    turn_chars: int,
    rubric: Rubric = CODE_RUBRIC,
) -> Request:
    """Build the request that judges these entries against a rendered turn.

    `content` is the turn and then one question for each entry, in the order of `reply_ids`.
    turn_chars: a longer turn (a pasted log) is shortened in the middle.
    """
    system = rubric.text(form)
    state = shorten_middle(turn_text, turn_chars)
    questions = [question_text(entry, rubric.statement(form)) for entry in entries]
    chars = tokens.size(system, state, *questions)
    ratio = options.model.chars_per_token
    levels: tuple[str, ...] = ()
    if form is DecisionForm.SCORE:
        names = [name for name, _ in LEVELS[:-1]]
        levels = (*names, rubric.best_level)
    return Request(
        stage=Stage.JUDGE,
        model=options.model.name,
        system=system,
        content=(state, *questions),
        reply_ids=tuple(entry.code for entry in entries),
        decision=form,
        levels=levels,
        max_output_tokens=0,  # answers are not text, and free
        input_tokens=ceil(chars / ratio),
        reserved_input_tokens=ceil(chars / min(tokens.UPPER_BOUND_CHARS_PER_TOKEN, ratio)),
        candidates=len(entries),
        frame_tokens=ceil(tokens.size(system, state) / ratio),
        timeout_s=options.model.timeout_s,
    )

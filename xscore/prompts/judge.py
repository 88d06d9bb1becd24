"""The judging prompt: a frozen rubric, then the pack, then the turn last, so that the costly prefix never changes.

Public contract: `docs/protocol.md`. The rubric (`judge_rubric.md`) is the whole system text; memories and the turn
stand in the user message, fenced. It does not decide what goes into a pack, nor assign ids. Trade-off: a long file is
shown by characters around the cursor, so that the size of a prompt is known to the byte.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from math import ceil
from typing import NamedTuple

from msgspec import Struct

from xscore.platform import tokens
from xscore.prompts.fences import escape_attribute, escape_tags, shorten_middle
from xscore.records import Request, Stage, Turn

PROMPT_VERSION = "judge-2"
"""Part of every judgment's key. Change it with the rubric or the layout; a test pins both to this name."""

ERROR_CHARS = 12_000
CONTEXT_CHARS = 16_000
"""Longer error output, files and diffs are shown in part, with a mark where something is left out."""

_TAGS = "memory memories file turn task errors current_file diff recent"


class PackEntry(NamedTuple):
    """One memory as the judge is shown it. A named tuple: there is one for each candidate."""

    code_id: str
    """Its id in this prompt only, from the codebook."""
    kind: str
    path: str
    """Empty: the memory belongs to no file."""
    entity: str
    text: str


@cache
def judge_rubric() -> str:
    """Return the frozen system text."""
    return (files("xscore.prompts") / "judge_rubric.md").read_text("utf-8").strip()


def pack_block(entries: Sequence[PackEntry]) -> str:
    """Render a pack: each file named once around its memories, memories without a file first and bare."""
    by_path: dict[str, list[PackEntry]] = {}
    for entry in entries:
        by_path.setdefault(entry.path, []).append(entry)
    lines = [_memory(entry) for entry in by_path.pop("", ())]
    for path, members in by_path.items():
        lines.append(f'<file path="{escape_attribute(path)}">')
        lines.extend(_memory(entry) for entry in members)
        lines.append("</file>")
    return "\n".join(lines)


def turn_block(turn: Turn, *, context: str = "task") -> str:
    """Render what the judge sees of the turn, and what the turn key is made of.

    context: `task` shows task and errors; `full` adds the current file, the diff and the recently opened files.
    """
    parts = [_fenced("task", turn.task)]
    if turn.errors:
        parts.append(_fenced("errors", shorten_middle(turn.errors, ERROR_CHARS)))
    if context == "full":
        parts.extend(_editor_blocks(turn))
    return "\n".join(["<turn>", *parts, "</turn>"])


def shown_turn_parts(turn: Turn, *, context: str = "task") -> tuple[str, ...]:
    """Name the parts of the turn that `turn_block` shows, for the receipt."""
    full = context == "full"
    shown = {
        "task": True,
        "errors": bool(turn.errors),
        "file": full and bool(turn.file),
        "diff": full and bool(turn.diff),
        "recent": full and bool(turn.recent),
    }
    return tuple(name for name, is_shown in shown.items() if is_shown)


class PromptOptions(Struct, frozen=True, kw_only=True):
    """How a judging prompt is sent."""

    model: str
    max_output_tokens: int
    order: str = "memory_first"
    """`memory_first` keeps rubric and pack as a prefix that is byte-identical over turns; `turn_first` swaps them."""
    reasons_from: float = 0.3
    """Lowest score, 0..1, that asks for a reason; 0 asks for all. It stands after the turn, so it may vary without
    touching the prefix."""
    cache_key: str = ""
    is_kept: bool = True
    """These entries will stand in the same prompt in later turns."""
    prefix_ttl_s: int = 0
    """How long a host that charges for keeping a prefix then keeps it; 0: not at all."""
    reasoning: str = ""
    temperature: float | None = None
    timeout_s: float = 60.0
    chars_per_token: float = tokens.MIXED


def judging_request(entries: Sequence[PackEntry], turn_text: str, options: PromptOptions) -> Request:
    """Build the request that judges these entries against a rendered turn."""
    memory_first = options.order == "memory_first"
    first, last = (pack_block(entries), turn_text) if memory_first else (turn_text, pack_block(entries))
    content = (first, f"{last}\n\n{_asked(len(entries), options.reasons_from)}")
    frame = tokens.size(judge_rubric(), turn_text)
    return make_judging_request(
        entries, judge_rubric(), content, options, is_stable=memory_first and options.is_kept, frame_chars=frame
    )


def make_judging_request(
    entries: Sequence[PackEntry],
    system: str,
    content: tuple[str, str],
    options: PromptOptions,
    *,
    is_stable: bool,
    frame_chars: int,
    questions: tuple[str, ...] = (),
) -> Request:
    """Build a judging request from its rendered parts.

    is_stable: the first part is the same in later turns. frame_chars: what a prompt of its own would repeat for each
    judgment. questions: codes of the questions that share the prompt; none: it has one turn.
    """
    chars = tokens.size(system, *content)
    ratio = options.chars_per_token
    return Request(
        stage=Stage.JUDGE,
        model=options.model,
        system=system,
        content=content,
        stable_parts=1 if is_stable else 0,
        prefix_ttl_s=options.prefix_ttl_s if is_stable else 0,
        reply_ids=tuple(sorted(entry.code_id for entry in entries)),
        reply_questions=questions,
        max_output_tokens=options.max_output_tokens,
        input_tokens=ceil(chars / ratio),
        reserved_input_tokens=ceil(chars / min(tokens.UPPER_BOUND_CHARS_PER_TOKEN, ratio)),
        cache_key=options.cache_key,
        reasoning=options.reasoning,
        temperature=options.temperature,
        candidates=len(entries) * max(1, len(questions)),
        frame_tokens=ceil(frame_chars / ratio),
        timeout_s=options.timeout_s,
    )


def _asked(count: int, reasons_from: float) -> str:
    lowest = ceil(reasons_from * 100)
    which = f"every id scored {lowest} or more" if lowest > 0 else "every id"
    return f"Score all {count} memories for this turn. Give a reason for {which}."


def _memory(entry: PackEntry) -> str:
    name = escape_attribute(entry.entity)
    head = f'<memory id="{entry.code_id}" kind="{escape_attribute(entry.kind)}" name="{name}">'
    return f"{head}\n{escape_tags(entry.text, tags=_TAGS)}\n</memory>"


def _editor_blocks(turn: Turn) -> Iterable[str]:
    if turn.file:
        line = f' line="{turn.line}"' if turn.line else ""
        head = f'<current_file path="{escape_attribute(turn.file)}"{line}>'
        yield f"{head}\n{escape_tags(_around(turn.file_text, turn.line), tags=_TAGS)}\n</current_file>"
    if turn.diff:
        yield _fenced("diff", shorten_middle(turn.diff, CONTEXT_CHARS))
    if turn.recent:
        yield _fenced("recent", "\n".join(turn.recent))


def _fenced(tag: str, text: str) -> str:
    return f"<{tag}>\n{escape_tags(text.strip(), tags=_TAGS)}\n</{tag}>"


def _around(text: str, line: int) -> str:
    """Keep the window of a long file around the cursor."""
    if len(text) <= CONTEXT_CHARS:
        return text
    lines = text.splitlines(keepends=True)
    cursor = sum(map(len, lines[: max(0, line - 1)]))
    start = max(0, min(cursor - CONTEXT_CHARS // 2, len(text) - CONTEXT_CHARS))
    end = start + CONTEXT_CHARS
    before = f"[… {start} characters left out …]\n" if start else ""
    after = f"\n[… {len(text) - end} characters left out …]" if end < len(text) else ""
    return before + text[start:end] + after

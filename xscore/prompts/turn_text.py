"""The turn as the judge sees it, last in its prompt; the turn key is derived from it.

Public contract: `docs/internals/protocol.md`. Memories and instructions are added in `judge`.
Trade-off: a long file is cut by characters around the cursor, not by lines, so that the size of a
prompt is known exactly.
"""

from collections.abc import Iterable
from functools import lru_cache

from xscore.prompts.fences import escape_attribute, escape_tags, shorten_middle
from xscore.records.turn import Turn

PROMPT_VERSION = "judge-3"
"""Part of every judgment's key. Change it with the rubric or the layout; a test pins both to this
name."""
ERROR_CHARS = 12_000
CONTEXT_CHARS = 16_000
"""Most characters of error output, a file or a diff; longer ones are shortened, with a mark."""
MEMORY_TAGS = "memory memories file turn task errors current_file diff recent"


def about_block(turn: Turn) -> str:
    """Render what else a task is about, a line each; empty if there is nothing."""
    lines = "\n".join(f"{name}: {value}" for name, value in turn.about)
    shown = escape_tags(
        shorten_middle(lines, CONTEXT_CHARS), tags=f"{MEMORY_TAGS} current_context"
    )
    if lines:
        return f"<current_context>\n{shown}\n</current_context>"
    return ""


@lru_cache(maxsize=8)
def turn_block(turn: Turn, *, sees: str = "task") -> str:
    """Render what the judge sees of the turn; the turn key is derived from it.

    sees: `task` shows task, what it is about and errors; `full` adds the current file, the diff and
        the recent files.
    """
    parts = [_fenced("task", turn.task), *filter(None, [about_block(turn)])]
    if turn.errors:
        parts.append(_fenced("errors", shorten_middle(turn.errors, ERROR_CHARS)))
    if sees == "full":
        parts.extend(_editor_blocks(turn))
    return "\n".join(["<turn>", *parts, "</turn>"])


def left_out(turn: Turn, *, sees: str = "task", turn_chars: int | None = None) -> str:
    """Say what the judge does not see of a long turn; empty if it sees all. turn_chars: what
    its request holds of it."""
    fields = [("errors", turn.errors, ERROR_CHARS)]
    if sees == "full":
        fields += [("diff", turn.diff, CONTEXT_CHARS), ("file", turn.file_text, CONTEXT_CHARS)]
    if turn_chars is not None:
        fields.append(("turn", turn_block(turn, sees=sees), turn_chars))
    cut = []
    for name, text, max_chars in fields:
        if len(text) > max_chars:
            cut.append(f"{max_chars:,} of {len(text):,} characters of the {name}")
    if cut:
        return f"too long for the judge: it saw {', '.join(cut)}, without the middle"
    return ""


def shown_turn_parts(turn: Turn, *, sees: str = "task") -> tuple[str, ...]:
    """Return the names of the parts that `turn_block` shows, for the receipt."""
    parts: dict[str, object] = {"task": True, "about": turn.about, "errors": turn.errors}
    if sees == "full":
        parts |= {"file": turn.file, "diff": turn.diff, "recent": turn.recent}
    return tuple(name for name, value in parts.items() if value)


def _editor_blocks(turn: Turn) -> Iterable[str]:
    if turn.file:
        line = f' line="{turn.line}"' if turn.line else ""
        head = f'<current_file path="{escape_attribute(turn.file)}"{line}>'
        excerpt = escape_tags(_around(turn.file_text, turn.line), tags=MEMORY_TAGS)
        yield f"{head}\n{excerpt}\n</current_file>"
    if turn.diff:
        yield _fenced("diff", shorten_middle(turn.diff, CONTEXT_CHARS))
    if turn.recent:
        yield _fenced("recent", "\n".join(turn.recent))


def _fenced(tag: str, text: str) -> str:
    return f"<{tag}>\n{escape_tags(text.strip(), tags=MEMORY_TAGS)}\n</{tag}>"


def _around(text: str, line: int) -> str:
    """Keep the window of a long file around the cursor."""
    if len(text) <= CONTEXT_CHARS:
        return text
    lines = text.splitlines(keepends=True)
    cursor = sum(map(len, lines[: max(0, line - 1)]))
    start = max(0, min(cursor - CONTEXT_CHARS // 2, len(text) - CONTEXT_CHARS))
    end = start + CONTEXT_CHARS
    before = ""
    if start:
        before = f"[… {start} characters left out …]\n"
    after = ""
    if end < len(text):
        after = f"\n[… {len(text) - end} characters left out …]"
    return before + text[start:end] + after

"""The answering prompt: what was said before, the bundle, a checkpoint, the current file, then the task; one call.

The system text (`answer_system.md`, and a sentence for the tone) is our own and all of it; whatever comes from the
repository, from memory or from earlier exchanges stands in the user message, fenced, as data. It chooses nothing: the
bundle and the conversation are given. Trade-off: what changes least stands first and the task last, where models weigh
it most, so the bundle stands between two other blocks.
"""

import re
from collections.abc import Collection
from functools import cache
from importlib.resources import files

from xscore import tokens
from xscore.prompts.bundle_entry import Bundle
from xscore.prompts.conversation import NOTHING_BEFORE, Conversation, checkpoint_block, session_block, with_persona
from xscore.prompts.fences import around, escape, escape_attribute, shortened, well_formed
from xscore.records import Request, Stage, Turn

FILE_CHARS = 24_000
"""The current file is shown around the cursor up to this size."""
DIFF_CHARS = 12_000
ERROR_CHARS = 16_000

_BRACKETS = re.compile(r"\[([^\[\]\n]{1,2000})\]")
_ID = re.compile(r"(?<![A-Za-z0-9_])m_[0-9a-f]{8,20}(?![A-Za-z0-9_])")


@cache
def system_text() -> str:
    """Return the system text of the answering call."""
    return (files("xscore.prompts") / "answer_system.md").read_text("utf-8").strip()


def answer_request(
    turn: Turn,
    bundle: Bundle,
    *,
    conversation: Conversation = NOTHING_BEFORE,
    model: str,
    max_output_tokens: int,
    reasoning: str = "",
    timeout_s: float = 300.0,
) -> Request:
    """Build the one request of the primary model."""
    parts = [session_block(conversation), _context(bundle), checkpoint_block(conversation), _moment(turn)]
    system = with_persona(system_text(), conversation.persona)
    asked = f"Task:\n{well_formed(turn.task)}\n\nGenerate solution with full context."
    content = (*(part for part in parts if part), asked)
    chars = tokens.size(system, *content) + 2 * len(content)
    return Request(
        stage=Stage.PRIMARY,
        model=model,
        system=system,
        content=content,
        max_output_tokens=max_output_tokens,
        input_tokens=tokens.estimate(chars, kind="answer"),
        reserved_input_tokens=tokens.upper_bound(chars),
        reasoning=reasoning,
        timeout_s=timeout_s,
    )


def cited_ids(answer: str) -> tuple[str, ...]:
    """Memory ids that an answer cites in square brackets, in order of first use; abbreviated ones as written."""
    cited = [found for bracket in _BRACKETS.findall(answer) for found in _ID.findall(bracket)]
    return tuple(dict.fromkeys(cited))


def unknown_ids(answer: str, known: Collection[str]) -> tuple[str, ...]:
    """Cited ids that were not in the context. An abbreviation counts as known if just one id begins with it."""
    return tuple(cited for cited in cited_ids(answer) if sum(each.startswith(cited) for each in known) != 1)


def _context(bundle: Bundle) -> str:
    if not bundle.text:
        return "Relevant code context: nothing in this repository was judged relevant enough."
    return f"Relevant code context:\n{bundle.text}"


def _moment(turn: Turn) -> str:
    parts = []
    if turn.file:
        line = f' line="{turn.line}"' if turn.line else ""
        text = escape(around(turn.file_text, turn.line, FILE_CHARS)).strip("\n")
        parts.append(
            f'Current file:\n<current_file path="{escape_attribute(turn.file)}"{line}>\n{text}\n</current_file>'
        )
    if turn.diff:
        parts.append(f"Uncommitted change:\n<diff>\n{escape(shortened(turn.diff, DIFF_CHARS).strip())}\n</diff>")
    if turn.errors:
        parts.append(f"Errors:\n<errors>\n{escape(shortened(turn.errors, ERROR_CHARS).strip())}\n</errors>")
    return "\n\n".join(parts)

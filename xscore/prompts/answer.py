"""The answering prompt: the bundle, what was said before, the current file, then the task; one call.

The system text (`answer_system.md`) is our own and all of it; whatever comes from the repository or from earlier
exchanges stands in the user message, fenced, as data. It chooses nothing: the bundle and the exchanges are given.
"""

import re
from collections.abc import Collection, Sequence
from functools import cache
from importlib.resources import files

from xscore import tokens
from xscore.prompts.bundle import Bundle
from xscore.prompts.fences import around, escape, escape_attribute, shortened, well_formed
from xscore.records import Memory, Request, Stage, Turn

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
    exchanges: Sequence[Memory] = (),
    session_tokens: int = 3_200,
    model: str,
    max_output_tokens: int,
    reasoning: str = "",
    timeout_s: float = 300.0,
) -> Request:
    """Build the one request of the primary model.

    exchanges: earlier exchanges of this thread, in any order; the latest that fit `session_tokens` are shown.
    """
    parts = [_context(bundle), _session(exchanges, session_tokens), _moment(turn)]
    asked = f"Task:\n{well_formed(turn.task)}\n\nGenerate solution with full context."
    content = (*(part for part in parts if part), asked)
    chars = tokens.size(system_text(), *content) + 2 * len(content)
    return Request(
        stage=Stage.PRIMARY,
        model=model,
        system=system_text(),
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


def _session(exchanges: Sequence[Memory], budget: int) -> str:
    """The latest exchanges that fit, oldest of them first; only the latest may be shortened to fit."""
    shown: list[str] = []
    left = budget
    for exchange in sorted(exchanges, key=lambda memory: (-memory.created_at, memory.id)):
        text = exchange.text if shown else shortened(exchange.text, 4 * budget)
        cost = tokens.estimate(len(text), kind=exchange.kind.value)
        if shown and cost > left:
            break
        left -= cost
        shown.append(f'<exchange id="{exchange.id}">\n{escape(text.strip())}\n</exchange>')
    if not shown:
        return ""
    return "Earlier in this session:\n<session>\n" + "\n".join(reversed(shown)) + "\n</session>"


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

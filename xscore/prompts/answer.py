"""The answering prompt: the session, the bundle, a checkpoint, the current file, then the task; one
call.

The system text is only `answer_system.md` and a sentence for the tone; everything from the
repository, from memory or from earlier exchanges is fenced data in the user message. Nothing is
selected here: bundle and session are given. Trade-off: stable parts come first and the task last,
where models weigh it most; only the latest exchange may be shortened to fit.
"""

import re
from collections.abc import Collection, Sequence
from functools import cache
from pathlib import Path

from msgspec import Struct

from xscore.platform import tokens
from xscore.prompts.bundle_parts import Bundle
from xscore.prompts.fences import escape_attribute, escape_tags, shorten_middle, well_formed
from xscore.prompts.turn_text import about_block
from xscore.records.calls import Request, Stage
from xscore.records.memory import Memory
from xscore.records.turn import Checkpoint, Turn
from xscore.settings import PrimarySettings

SESSION_TOKENS = 3_200
"""Most tokens of the session block."""
CHECKPOINT_CHARS = 12_000
PERSONAS = {
    "concise": (
        "Answer in as few words as the task allows: the change first, no preamble, no recap."
    ),
    "playful": (
        "A light, playful tone is welcome in the prose, and never in code, names or commit"
        " messages."
    ),
    "formal": "Keep a formal, impersonal tone and write in complete sentences.",
}
"""Tone -> the sentence that asks for it (`session.persona`)."""


class SessionContext(Struct, frozen=True, kw_only=True):
    """The part of the working session that the answering model is shown; empty parts show
    nothing."""

    exchanges: Sequence[Memory] = ()
    """Earlier exchanges of this thread, in any order; the latest that fit are shown."""
    summary: str = ""
    """A summary of earlier exchanges."""
    checkpoint: str = ""
    """A saved state to continue from, as text."""
    persona: str = ""
    """A name of `PERSONAS`; any other: plain."""
    facets: Sequence[tuple[str, str]] = ()
    """How the user wants to be answered, in their own words: facet (`verbosity`) and wish."""
    max_tokens: int = SESSION_TOKENS


EMPTY_SESSION_CONTEXT = SessionContext()


def session_block(conversation: SessionContext) -> str:
    """Return the summary, then the latest exchanges that fit, oldest first; empty for a new
    session."""
    summary = escape_tags(
        shorten_middle(conversation.summary.strip(), 2 * conversation.max_tokens)
    )
    parts = [f"<session_summary>\n{summary}\n</session_summary>"] if summary else []
    shown: list[str] = []
    budget = tokens_left = conversation.max_tokens - tokens.estimate(
        len(summary), kind="summary"
    )
    for exchange in sorted(
        conversation.exchanges, key=lambda memory: (-memory.created_at, memory.id)
    ):
        if shown:
            text = exchange.text
        else:
            text = shorten_middle(exchange.text, 4 * budget)
        cost = tokens.estimate(len(text), kind=exchange.kind.value)
        if shown and cost > tokens_left:
            break
        tokens_left -= cost
        shown.append(f'<exchange id="{exchange.id}">\n{escape_tags(text.strip())}\n</exchange>')
    parts += reversed(shown)
    if parts:
        return "Earlier in this session:\n<session>\n" + "\n".join(parts) + "\n</session>"
    return ""


def render_checkpoint(checkpoint: Checkpoint) -> str:
    """Return the checkpoint as text for the answer prompt: notes first, then the summary of its
    session."""
    ids = ", ".join(checkpoint.memory_ids)
    branch = ""
    if checkpoint.branch:
        branch = f" (branch {checkpoint.branch})"
    notes = ""
    if checkpoint.notes:
        notes = "\n".join(["Notes:", *(f"- {note}" for note in checkpoint.notes)])
    parts = [
        f"Checkpoint: {checkpoint.name}{branch}",
        notes,
        checkpoint.summary,
        f"Memories: {ids}" if ids else "",
    ]
    return "\n".join(part for part in parts if part)


FACETS = ("tone", "verbosity", "formality", "interests")
"""Facets of a persona, as the keys of preferences name them: `persona.tone`."""
FACET_CHARS = 300


def persona_block(conversation: SessionContext) -> str:
    """Return how the user wants to be answered, in their own words, fenced; empty if they stated
    nothing of it.

    It goes to the model as the task does, and never in the system role: a statement may have been
    written by an agent. A persona of this turn replaces all but the interests.
    """
    lines: list[str] = []
    for facet, wish in conversation.facets:
        if facet == "interests" or conversation.persona not in PERSONAS:
            lines.append(f"{facet}: {escape_tags(shorten_middle(wish, FACET_CHARS))}")
    if lines:
        fenced = ["<answer_manner>", *lines, "</answer_manner>"]
        return "\n".join(["How the user likes to be answered:", *fenced])
    return ""


def checkpoint_block(checkpoint: str) -> str:
    """Return a saved state, fenced; empty if there is none."""
    text = shorten_middle(checkpoint.strip(), CHECKPOINT_CHARS)
    if text:
        return f"Saved state to go on from:\n<checkpoint>\n{escape_tags(text)}\n</checkpoint>"
    return ""


FILE_CHARS = 24_000
"""The current file is shown around the cursor up to this size."""
DIFF_CHARS = 12_000
ERROR_CHARS = 16_000

_BRACKETS = re.compile(r"\[([^\[\]\n]{1,2000})\]")
_ID = re.compile(r"(?<![A-Za-z0-9_])m_[0-9a-f]{8,20}(?![A-Za-z0-9_])")


@cache
def answer_system_text(*, is_general: bool = False) -> str:
    """Return the system text of the answering call. is_general: the memories are of any kind, and
    no code."""
    name = "answer_system.md"
    if is_general:
        name = "answer_general.md"
    return Path(__file__).with_name(name).read_text("utf-8").strip()


def answer_request(
    turn: Turn,
    bundle: Bundle,
    *,
    conversation: SessionContext = EMPTY_SESSION_CONTEXT,
    model: str,
    settings: PrimarySettings,
    is_general: bool = False,
) -> Request:
    """Build the one request of the primary model. model: its own name, which the settings give
    after the provider's.

    is_general: see `answer_system_text`.
    """
    parts = [
        persona_block(conversation),
        session_block(conversation),
        _context(bundle, is_general=is_general),
        checkpoint_block(conversation.checkpoint),
        _editor_blocks(turn),
    ]
    tone = PERSONAS.get(conversation.persona)
    system = answer_system_text(is_general=is_general) + (f"\n- {tone}" if tone else "")
    task_text = f"Task:\n{well_formed(turn.task)}" + (
        "" if is_general else "\n\nGenerate solution with full context."
    )
    content = (*(part for part in parts if part), task_text)
    chars = tokens.size(system, *content) + 2 * len(content)
    return Request(
        stage=Stage.PRIMARY,
        model=model,
        system=system,
        content=content,
        max_output_tokens=settings.max_output_tokens,
        input_tokens=tokens.estimate(chars, kind="answer"),
        reserved_input_tokens=tokens.upper_bound(chars),
        reasoning=settings.reasoning,
        timeout_s=settings.timeout_s,
    )


def cited_memory_ids(answer: str) -> tuple[str, ...]:
    """Return the ids that an answer cites in square brackets, in order of first use, abbreviated as
    written."""
    cited: list[str] = []
    for bracket in _BRACKETS.findall(answer):
        cited += _ID.findall(bracket)
    return tuple(dict.fromkeys(cited))


def unknown_cited_ids(answer: str, ids: Collection[str]) -> tuple[str, ...]:
    """Return the cited ids that were not in the context.

    A prefix of exactly one known id counts as known.
    """
    unknown: list[str] = []
    for cited in cited_memory_ids(answer):
        meant = [id_ for id_ in ids if id_.startswith(cited)]
        if len(meant) != 1:
            unknown.append(cited)
    return tuple(unknown)


def _context(bundle: Bundle, *, is_general: bool) -> str:
    if bundle.text:
        return f"Relevant {'memories' if is_general else 'code context'}:\n{bundle.text}"
    if is_general:
        return "No memory was judged relevant enough."
    return "Relevant code context: nothing in this repository was judged relevant enough."


def _editor_blocks(turn: Turn) -> str:
    parts = [f"Context:\n{about_block(turn)}"] if turn.about else []
    if turn.file:
        line = f' line="{turn.line}"' if turn.line else ""
        text = escape_tags(_whole_lines(turn.file_text, turn.line, FILE_CHARS)).strip("\n")
        head = f'<current_file path="{escape_attribute(turn.file)}"{line}>'
        parts.append(f"Current file:\n{head}\n{text}\n</current_file>")
    for title, tag, text, limit in (
        ("Uncommitted change", "diff", turn.diff, DIFF_CHARS),
        ("Errors", "errors", turn.errors, ERROR_CHARS),
    ):
        if text:
            parts.append(
                f"{title}:\n<{tag}>\n{escape_tags(shorten_middle(text, limit).strip())}\n</{tag}>"
            )
    return "\n\n".join(parts)


def _whole_lines(text: str, line: int, limit: int) -> str:
    """Keep about `limit` characters of whole lines around a 1-based line, marking what is left
    out."""
    if len(text) <= limit:
        return text
    lines = text.splitlines(keepends=True)
    first = last = min(max(line - 1, 0), len(lines) - 1)
    size = len(lines[first])
    while size < limit and (first > 0 or last < len(lines) - 1):
        if first > 0:
            first -= 1
            size += len(lines[first])
        if last < len(lines) - 1:
            last += 1
            size += len(lines[last])
    before = ""
    if first:
        before = f"[… lines 1-{first} left out …]\n"
    after = ""
    if last < len(lines) - 1:
        after = f"\n[… lines {last + 2}-{len(lines)} left out …]"
    around = "".join(lines[first : last + 1]).rstrip("\n")
    return before + shorten_middle(around, 2 * limit) + after

"""What the answering model is shown of the working session: its summary, latest exchanges, checkpoint, and its tone.

Quoted text stands in fences of the user message; the tone is a sentence of ours and alone goes to the system text. It
chooses none of them. Trade-off: of the exchanges only the latest may be shortened to fit, so that what was said last is
always there.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xscore import tokens
from xscore.prompts.fences import escape, shortened
from xscore.records import Memory

SESSION_TOKENS = 3_200
"""Most that the session block takes."""
CHECKPOINT_CHARS = 12_000
PERSONAS = {
    "concise": "Answer in as few words as the task allows: the change first, no preamble, no recap.",
    "playful": "A light, playful tone is welcome in the prose, and never in code, names or commit messages.",
    "formal": "Keep a formal, impersonal tone and write in complete sentences.",
}
"""Tone -> the sentence that asks for it (`session.persona`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """The working session as far as the answering model is shown it; empty parts show nothing."""

    exchanges: Sequence[Memory] = ()
    """Earlier exchanges of this thread, in any order; the latest that fit are shown."""
    summary: str = ""
    """What the exchanges before those came to."""
    checkpoint: str = ""
    """A saved state to go on from, as text."""
    persona: str = ""
    """A name of `PERSONAS`; any other: plain."""
    max_tokens: int = SESSION_TOKENS


NOTHING_BEFORE = Conversation()


def with_persona(system: str, persona: str) -> str:
    """Return the system text with the sentence of this tone at its end."""
    return f"{system}\n- {PERSONAS[persona]}" if persona in PERSONAS else system


def session_block(conversation: Conversation) -> str:
    """The summary, then the latest exchanges that fit, oldest of them first; empty: there was nothing before."""
    summary = escape(shortened(conversation.summary.strip(), 2 * conversation.max_tokens))
    parts = [f"<session_summary>\n{summary}\n</session_summary>"] if summary else []
    shown: list[str] = []
    budget = left = conversation.max_tokens - tokens.estimate(len(summary), kind="summary")
    for exchange in sorted(conversation.exchanges, key=lambda memory: (-memory.created_at, memory.id)):
        text = exchange.text if shown else shortened(exchange.text, 4 * budget)
        cost = tokens.estimate(len(text), kind=exchange.kind.value)
        if shown and cost > left:
            break
        left -= cost
        shown.append(f'<exchange id="{exchange.id}">\n{escape(text.strip())}\n</exchange>')
    parts += reversed(shown)
    return "Earlier in this session:\n<session>\n" + "\n".join(parts) + "\n</session>" if parts else ""


def checkpoint_block(conversation: Conversation) -> str:
    """The saved state in its own fence; empty: none is to be gone on from."""
    text = shortened(conversation.checkpoint.strip(), CHECKPOINT_CHARS)
    return f"Saved state to go on from:\n<checkpoint>\n{escape(text)}\n</checkpoint>" if text else ""

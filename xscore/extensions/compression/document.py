"""Write a compressed session as one text: the oldest turns first, the state of the work last.

Each turn has its number, by which it can be seen whole again. The same session and budget give the
same bytes. Trade-off: numbers count from the start of the log, so they move where an agent rewrites
it.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from xscore.extensions.compression import marks
from xscore.extensions.compression.frontier import Frontier, frontier_text
from xscore.extensions.compression.session_turns import AgentSession
from xscore.extensions.compression.tiers import Tier, TieredSession
from xscore.platform import tokens
from xscore.platform.text import counted

EXPAND = "xscore session expand"
HEADINGS = {
    Tier.BULKS: f"# {marks.BULKS}",
    Tier.TOPICS: f"# {marks.TOPICS}",
    Tier.CURRENT: f"# {marks.CURRENT}",
}
_INDEX_LABELS = f"{marks.COMMANDS}\n{marks.NAMES} \n"


class TurnSummary(Struct, frozen=True):
    """What a model wrote of some turns."""

    first: int
    last: int
    """Numbers of the turns."""
    text: str


class CompressedText(Struct, frozen=True):
    """The text and its size."""

    text: str
    tokens: int


def header_text(session: AgentSession) -> str:
    """Return the lines above the turns."""
    tail = " Only the end of a long log was read." if session.is_tail else ""
    return (
        f"{marks.HEADER} {session.origin}: {counted(len(session.turns), 'turn')}.{tail} [n] is a"
        f" turn; `{EXPAND} n` shows it as it was. A \\ before such a mark means that it is part of"
        " the session.\n"
    )


def besides_tokens(session: AgentSession, frontier: Frontier) -> int:
    """Return the tokens of everything besides the turns, except summaries."""
    return (
        _estimate(header_text(session) + "".join(HEADINGS.values()))
        + _estimate(_frontier_section(frontier))
        + _estimate(_INDEX_LABELS)
    )


def write_document(
    session: AgentSession,
    tiered: TieredSession,
    frontier: Frontier,
    summaries: Sequence[TurnSummary] = (),
) -> CompressedText:
    """Return the whole text."""
    parts = [header_text(session)]
    index = _index_text(tiered)
    sections: Mapping[Tier, Sequence[str]] = tiered.texts
    for tier, heading in HEADINGS.items():
        texts = list(sections[tier])
        if tier is Tier.BULKS:
            texts = [*index, *map(_summary_text, summaries), *texts]
        if texts:
            parts += [f"{heading}\n", *texts]
    parts.append(_frontier_section(frontier))
    text = "".join(parts)
    return CompressedText(text, _estimate(text))


def _index_text(tiered: TieredSession) -> list[str]:
    texts: list[str] = []
    if tiered.commands:
        lines = [f"$ {marks.escape_marks(command)}\n" for command in tiered.commands]
        texts.append(f"{marks.COMMANDS}\n{''.join(lines)}")
    if tiered.names:
        texts.append(f"{marks.NAMES} {', '.join(tiered.names)}\n")
    return texts


def _summary_text(summary: TurnSummary) -> str:
    text = marks.escape_marks(summary.text)
    return f"[{summary.first}–{summary.last}] Summary by a model: {text}\n"


def summary_tokens(summary: TurnSummary) -> int:
    """Return the tokens that a summary takes."""
    return _estimate(_summary_text(summary))


def _frontier_section(frontier: Frontier) -> str:
    # The requests are above, word for word.
    text = frontier_text(replace(frontier, request="", task=""))
    request = ""
    if frontier.request_turn:
        request = f"{marks.LAST_REQUEST} is [{frontier.request_turn}].\n"
    return f"# {marks.STANDS}\n{request}{text}\n"


def _estimate(text: str) -> int:
    return tokens.estimate(tokens.size(text))

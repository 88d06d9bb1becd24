"""Reasons for what a decision model chose: one call of a small chat model after the selection.

It is asked in the words of the judging prompt, about the kept and nearly kept memories alone,
and only its reasons are read: its scores count for nothing. They are stored with the judgments,
so a cached turn pays nothing. Where no chat model can be asked the receipt says why. Trade-off:
the chat model may see less in a memory than the judge did, and its reason then says so.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from xscore.cache.judgment_store import add_reasons
from xscore.cache.keys import FIRST_DRAW, judge_key
from xscore.pipeline.bundle_building import reason_of
from xscore.pipeline.describe_model import describe_model_judge
from xscore.pipeline.judge_prompts import prompt_builder
from xscore.pipeline.judged_memories import judged_texts
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.turn_stages import Judged, PreparedTurn, Ranking, Reasons
from xscore.platform.errors import StoreError, XscoreError
from xscore.platform.event_loop import clear_cancellation
from xscore.prompts.fences import shorten_middle
from xscore.prompts.turn_text import turn_block
from xscore.providers.decision_hosts import DECISIONS_OF_OPENAI
from xscore.providers.provider import Adaptable
from xscore.providers.spec import (
    CHAT_MODEL_HINT,
    ModelSpec,
    import_http_client,
    parse_chat_model,
)
from xscore.records.calls import Stage
from xscore.records.candidates import Candidate
from xscore.records.judgment import Selection
from xscore.records.receipt import ReasonsAccount
from xscore.records.turn import Turn
from xscore.scorer.repair import MemoryPiece, PackPrompt

if TYPE_CHECKING:
    from xscore.pipeline.resources import TurnResources

MOST_ASKED = 25
"""Most memories of one call, the best first: the usual K of 15, and the ten that came
nearest."""
MOST_CHARS = 1_200
"""Most characters shown of one memory; a longer one is shortened in the middle."""
MOST_WORDS = 15
WITHIN_S = 20.0
NO_MODEL = "judge.reason_model names no chat model; set it to get reasons"


def reason_model(setting: str, judge: ModelSpec) -> ModelSpec | None:
    """Return the chat model that gives reasons, or None. setting: `judge.reason_model`.

    Raises UsageError.
    """
    if setting == "auto":
        if judge.provider == DECISIONS_OF_OPENAI:
            return ModelSpec("openai", judge.model)
        return None
    if setting == "none":
        return None
    return parse_chat_model(setting, key="judge.reason_model", hint=CHAT_MODEL_HINT)


async def give_reasons(
    parts: PipelineParts,
    prepared: PreparedTurn,
    judged: Judged,
    ranking: Ranking,
    stored: Mapping[str, str],
    *,
    resources: "TurnResources | None",
) -> Reasons:
    """Ask for the reasons that chosen memories of a turn lack, and store them.

    stored: by content hash. Raises StoreError.
    """
    without = _without_reason(ranking.selection, stored)
    if not without:
        return Reasons(stored)
    if resources is None or not prepared.pool.misses or judged.interrupted:
        absent = "none were given when these memories were judged"
        return Reasons(stored, ReasonsAccount(absent=absent))
    reply = await _ask_in_time(parts, resources, prepared.turn, without)
    if reply.reasons:
        key = (prepared.key, judge_key(judged.judge), FIRST_DRAW)
        for connection in parts.store.connections_of_a_turn():
            add_reasons(connection, key, reply.reasons)
    by_hash = {**stored, **reply.reasons}
    absent = reply.absent
    if not absent and not all(reason_of(ranked, by_hash) for ranked in ranking.selection.kept):
        absent = f"{reply.model} gave none for some memories"
    asked_about = len(without) if reply.model else 0
    account = ReasonsAccount(reply.model, asked_about, len(reply.reasons), absent)
    return Reasons(by_hash, account, reply.interrupted)


def _without_reason(chosen: Selection, stored: Mapping[str, str]) -> list[Candidate]:
    """Return the kept and nearly kept memories of which no reason is known, the best first."""
    near = [ranked for ranked in chosen.near_misses if chosen.came_near(ranked)]
    without = [ranked for ranked in (*chosen.kept, *near) if not reason_of(ranked, stored)]
    return [ranked.candidate for ranked in without[:MOST_ASKED]]


class _Reply(Struct, frozen=True):
    """What came of the call."""

    model: str = ""
    """The model that was asked; empty if none was."""
    reasons: Mapping[str, str] = {}
    """Reasons by content hash."""
    absent: str = ""
    """Why there are no reasons."""
    interrupted: bool = False


async def _ask_in_time(
    parts: PipelineParts,
    resources: "TurnResources",
    turn: Turn,
    candidates: Sequence[Candidate],
) -> _Reply:
    """Make the call if there is a model and time for it; a failure is reported, not raised."""
    model = ""
    try:
        spec = reason_model(parts.settings.judge.reason_model, parts.judge.spec)
        if spec is None:
            return _Reply(absent=NO_MODEL)
        model = str(spec)
        async with asyncio.timeout(min(WITHIN_S, resources.deadline.judging_left_s())):
            return _Reply(model, await _asked(parts, resources, turn, spec, candidates))
    except TimeoutError:
        return _Reply(model, absent="there was no time left to ask for them")
    except asyncio.CancelledError:
        # Taken back here: the ranking is kept, and only the stages that would send are left
        # out.
        clear_cancellation()
        absent = "the turn was stopped before they were given"
        return _Reply(model, absent=absent, interrupted=True)
    except StoreError:
        raise
    except XscoreError as error:
        return _Reply(model, absent=f"the call failed: {error.message}")


async def _asked(
    parts: PipelineParts,
    resources: "TurnResources",
    turn: Turn,
    spec: ModelSpec,
    candidates: Sequence[Candidate],
) -> dict[str, str]:
    """Make the call; return what it says about ids that it was asked about. Raises XscoreError."""
    chat = describe_model_judge(spec, parts.settings, store=parts.store)
    provider = chat.connected()
    await import_http_client(provider.name)
    if chat.capability is not None and isinstance(provider, Adaptable):
        provider.adopt(chat.capability)
    memory_pieces = _shown_parts(candidates, judged_texts(chat, candidates))
    builder = replace(prompt_builder(chat), reasons_from=0.0)
    prompt = PackPrompt("reasons", tuple(memory_pieces))
    request, codes = builder.request(prompt, turn_block(turn, sees=parts.settings.judge.sees))
    metered = resources.metered_provider(provider)
    completion = await metered.complete(replace(request, stage=Stage.REASON))
    reasons = builder.layout.read(completion.text, frozenset(codes)).reasons
    by_hash: dict[str, str] = {}
    for code, part in zip(codes, memory_pieces, strict=True):
        if reasons.get(code):
            by_hash[part.content_hash] = _shortened(reasons[code])
    return by_hash


def _shown_parts(
    candidates: Sequence[Candidate], texts: Mapping[str, str]
) -> list[MemoryPiece]:
    """Return the memories as the prompt shows them, each content once; texts: by id."""
    by_hash: dict[str, MemoryPiece] = {}
    for candidate in candidates:
        if candidate.id in texts:
            by_hash[candidate.content_hash] = MemoryPiece(
                candidate.content_hash,
                candidate.kind.value,
                candidate.path,
                candidate.entity,
                shorten_middle(texts[candidate.id], MOST_CHARS),
                candidate.content_hash,
                purpose=candidate.purpose,
            )
    return list(by_hash.values())


def _shortened(reason: str) -> str:
    words = reason.split()
    if len(words) <= MOST_WORDS:
        return reason
    return " ".join(words[:MOST_WORDS]) + " …"

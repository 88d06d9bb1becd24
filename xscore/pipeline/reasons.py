"""Reasons for what a decision model chose: one call of a small chat model after the selection.

It is asked in the words of the judging prompt, about the kept and nearly kept memories alone, and
only its reasons are read: its scores count for nothing. They are stored beside the judgments, so a
cached turn pays nothing. Where no chat model can be asked the receipt says why. Trade-off: the chat
model may see less in a memory than the judge did, and its reason then says so.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from xscore.cache.judgment_store import add_reasons
from xscore.cache.keys import FIRST_DRAW, judge_key
from xscore.pipeline.describe_model import describe_model_judge
from xscore.pipeline.fusion import reason_of
from xscore.pipeline.judge_prompts import prompt_builder
from xscore.pipeline.judged_memories import judged_texts
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.turn_stages import Judged, Opened, Ranking, Reasons
from xscore.platform.errors import StoreError, UsageError, XscoreError
from xscore.platform.event_loop import take_back_cancellation
from xscore.prompts.fences import shorten_middle
from xscore.prompts.turn_text import turn_block
from xscore.providers.decision_hosts import CHAT_OF_OPENAI, DECISIONS_OF_OPENAI
from xscore.providers.provider import Adaptable
from xscore.providers.spec import LEXICAL, ModelSpec, import_for_judging, parse_model_spec
from xscore.records.calls import Stage
from xscore.records.memory import Candidate
from xscore.records.receipt import ReasonsAccount
from xscore.records.turn import Turn
from xscore.scorer.repair import MemoryPart, PackPrompt

if TYPE_CHECKING:
    from xscore.pipeline.resources import TurnResources

MOST_ASKED = 25
"""Memories of one call, the best first: the usual K of 15, and the ten that came nearest."""
MOST_CHARS = 1_200
"""Of one memory; a longer one is shortened in the middle."""
MOST_WORDS = 15
WITHIN_S = 20.0
NO_MODEL = "judge.reason_model names no chat model; set it to get reasons"


def reason_model(setting: str, judge: ModelSpec) -> ModelSpec | None:
    """Return the chat model that gives reasons, or None. setting: `judge.reason_model`.

    Raises UsageError.
    """
    if setting == "auto":
        return ModelSpec("openai", judge.model) if judge.provider == DECISIONS_OF_OPENAI else None
    if setting == "none":
        return None
    spec = parse_model_spec(setting)
    if spec.provider == CHAT_OF_OPENAI:
        return ModelSpec("openai", spec.model)
    if spec.is_decision or spec == parse_model_spec(LEXICAL):
        raise UsageError(
            f"judge.reason_model: `{setting}` writes no text", hint="Name a chat model, or `none`."
        )
    return spec


async def give_reasons(
    parts: PipelineParts,
    opened: Opened,
    judged: Judged,
    ranking: Ranking,
    stored: Mapping[str, str],
    *,
    resources: "TurnResources | None",
) -> Reasons:
    """Ask for the reasons that chosen memories of a turn lack, and store them.

    stored: by content hash. Raises StoreError.
    """
    chosen = ranking.selection
    near = [ranked for ranked in chosen.near_misses if chosen.came_near(ranked)]
    without = [ranked for ranked in (*chosen.kept, *near) if not reason_of(ranked, stored)]
    without = without[:MOST_ASKED]
    if not without:
        return Reasons(stored)
    if resources is None or not opened.pool.misses or judged.interrupted:
        absent = "none were given when these memories were judged"
        return Reasons(stored, ReasonsAccount(absent=absent))
    import asyncio  # a cached turn needs no event loop

    absent, new, spec, interrupted = "", dict[str, str](), None, False
    try:
        spec = reason_model(parts.settings.judge.reason_model, parts.judge.spec)
        if spec is None:
            absent = NO_MODEL
        else:
            candidates = [ranked.candidate for ranked in without]
            async with asyncio.timeout(min(WITHIN_S, resources.deadline.judging_left_s())):
                new = await _asked(parts, resources, opened.turn, spec, candidates)
    except TimeoutError:
        absent = "there was no time left to ask for them"
    except asyncio.CancelledError:
        # Taken back here: the ranking stands, and only the stages that would send are left out.
        absent, interrupted = "the turn was stopped before they were given", True
        take_back_cancellation()
    except StoreError:
        raise
    except XscoreError as error:
        absent = f"the call failed: {error.message}"
    for connection in parts.store.connections_of_a_turn() if new else ():
        add_reasons(connection, (opened.key, judge_key(judged.judge), FIRST_DRAW), new)
    by_hash = {**stored, **new}
    if not absent and any(not reason_of(ranked, by_hash) for ranked in chosen.kept):
        absent = f"{spec} gave none for some memories"
    asked_about = len(without) if spec else 0
    return Reasons(
        by_hash, ReasonsAccount(str(spec or ""), asked_about, len(new), absent), interrupted
    )


async def _asked(
    parts: PipelineParts,
    resources: "TurnResources",
    turn: Turn,
    spec: ModelSpec,
    candidates: Sequence[Candidate],
) -> dict[str, str]:
    """Make the call; return what it says of ids that it was asked about. Raises XscoreError."""
    chat = describe_model_judge(spec, parts.settings, store=parts.store)
    provider = chat.connected()
    await import_for_judging(provider.name)
    if chat.capability is not None and isinstance(provider, Adaptable):
        provider.adopt(chat.capability)
    texts = judged_texts(chat, candidates)
    pieces = [
        MemoryPart(
            candidate.content_hash,
            candidate.kind.value,
            candidate.path,
            candidate.entity,
            shorten_middle(texts[candidate.id], MOST_CHARS),
            candidate.content_hash,
        )
        for candidate in {
            candidate.content_hash: candidate for candidate in candidates if candidate.id in texts
        }.values()
    ]
    builder = replace(prompt_builder(chat), reasons_from=0.0)
    prompt = PackPrompt("reasons", tuple(pieces))
    request, codes = builder.request(prompt, turn_block(turn, sees=parts.settings.judge.sees))
    completion = await resources.metered_provider(provider).complete(
        replace(request, stage=Stage.REASON)
    )
    reasons = builder.layout.read(completion.text, frozenset(codes)).reasons
    named = {
        piece.content_hash: reasons.get(code, "") for code, piece in zip(codes, pieces, strict=True)
    }
    return {hash_: _shortened(reason) for hash_, reason in named.items() if reason}


def _shortened(reason: str) -> str:
    words = reason.split()
    return reason if len(words) <= MOST_WORDS else " ".join(words[:MOST_WORDS]) + " …"

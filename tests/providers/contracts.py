"""Requests of every kind, and a strict check against an SDK's own request types.

TypedDicts ignore unknown fields and pydantic reads an `Iterable` only as it is consumed; so the
schema that pydantic makes of a type is changed first: unknown fields are forbidden everywhere,
what may be iterated is a list, and the SDK's reply models, which it allows in requests and
which take anything, are not what we send.
"""

from collections.abc import Iterator
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import SchemaValidator

from tests.scorer.stdlib_candidates import candidate
from xscore.prompts.answer import answer_request
from xscore.prompts.bundle_parts import Bundle
from xscore.prompts.judge import JudgeModel
from xscore.prompts.turn_text import turn_block
from xscore.providers.catalog import HOUR_S, model_settings
from xscore.records.calls import Request
from xscore.records.turn import Turn
from xscore.scorer.packs import Pack, PackProfile
from xscore.scorer.prompt_builder import PromptBuilder
from xscore.scorer.repair import PackPrompt, RepairRung
from xscore.settings import PrimarySettings

MEMBERS = tuple(
    candidate("src/cache.py", f"entity_{number}", f"def entity_{number}(): ...")
    for number in range(20)
)
TEXTS = {
    member.id: f"def {member.entity}():\n    return {number}"
    for number, member in enumerate(MEMBERS)
}
TURN = Turn(task="Where is the cache written?", errors="KeyError: 'cache'")


def strictly(params: type) -> SchemaValidator:
    """Return a strict validator of this type: no unknown field at any depth, no text for a
    number."""
    return SchemaValidator(_closed(TypeAdapter(params).core_schema))


def _closed(schema: Any) -> Any:
    if isinstance(schema, list | tuple):
        return type(schema)(_closed(part) for part in schema)
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") == "model":
        return {name: schema[name] for name in ("cls", "ref") if name in schema} | {
            "type": "is-instance"
        }
    closed = {name: _closed(part) for name, part in schema.items()}
    if closed.get("type") == "typed-dict":
        closed.pop("config", None)
        closed["extra_behavior"] = "forbid"
    if closed.get("type") == "generator":
        closed["type"] = "list"
    return closed


def requests(provider: str, model: str) -> Iterator[tuple[str, Request]]:
    """Make every kind of request for this model, each with its name."""
    traits = model_settings(provider, model)
    for ttl_s in (0, *(write.ttl_s for write in traits.cache_writes)):
        judge = JudgeModel(
            name=model,
            reasoning=traits.reasoning,
            reasoning_reserve=traits.reasoning_reserve,
            temperature=traits.temperature,
            max_output_tokens=traits.max_output_tokens,
            prefix_ttl_s=ttl_s,
        )
        for name, drafts, ask in _asks(judge):
            yield f"{name}, {_time(ttl_s)}", drafts.request(ask, turn_block(TURN))[0]
    for reasoning in ("", traits.reasoning):
        answering = answer_request(
            TURN,
            Bundle("src/cache.py: …", (), (), 4),
            model=model,
            settings=PrimarySettings(max_output_tokens=8_000, reasoning=reasoning),
        )
        yield f"answering, reasoning {reasoning or 'as it is'}", answering


def _asks(judge: JudgeModel) -> Iterator[tuple[str, PromptBuilder, PackPrompt]]:
    packed, plain = (
        PromptBuilder(judge, PackProfile(), b"s"),
        PromptBuilder(judge, PackProfile(size=1), b"s"),
    )
    kept, throwaway = Pack("p_1", MEMBERS, is_lasting=True), Pack("x_1", MEMBERS[:5])
    pieces = packed.pieces_of(kept, TEXTS)
    yield "packed", packed, packed.prompts_of(kept, pieces)[0]
    yield (
        "throwaway",
        packed,
        packed.prompts_of(throwaway, packed.pieces_of(throwaway, TEXTS))[0],
    )
    yield "retried", packed, PackPrompt("p_1/2.0", pieces[:1], RepairRung.ALONE)
    alone = Pack("", MEMBERS[:1], is_lasting=True)
    yield "plain", plain, plain.prompts_of(alone, plain.pieces_of(alone, TEXTS))[0]


def _time(ttl_s: int) -> str:
    if not ttl_s:
        return "not kept"
    return f"kept for {ttl_s // 60} min" if ttl_s < HOUR_S else "kept for an hour"

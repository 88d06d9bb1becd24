"""The reply that a judging call asks for, as a JSON schema and as `response_format`.

Every id of the pack is a required integer 0..100, for each question that shares the prompt, so that a conforming
decoder can neither omit, invent nor repeat one. Integers because decoders enforce them, where float ranges are ignored.
It does not parse replies; the scorer does, and trusts no decoder. A host that charges for the schema gets each shape
once, by `$ref`. The trade-off: one compiled schema for each set of ids at the host, which is why the ids come from a
fixed codebook.
"""

from functools import lru_cache
from typing import Any

SCORE_MAX = 100
SCHEMA_NAME = "judgments"


@lru_cache(maxsize=256)
def reply_schema(
    ids: tuple[str, ...], *, questions: tuple[str, ...] = (), bounds: bool = True, refs: bool = False
) -> dict[str, Any]:
    """Return the schema for these ids; shared between calls, so not to be changed.

    questions: codes of those that share the prompt, each of which scores every id; none: the prompt has one turn.
    bounds: state 0..100 in the schema. Leave it out for hosts that answer 400 to numeric bounds.
    refs: define the score, and the scores of a question, once and refer to them.
    """
    score = {"type": "integer", "minimum": 0, "maximum": SCORE_MAX} if bounds else {"type": "integer"}
    scores = _object(dict.fromkeys(ids, {"$ref": "#/$defs/score"} if refs else score))
    named = {"q": {"type": "string", "enum": list(questions)}} if questions else {}
    reason = _object(named | {"id": {"type": "string", "enum": list(ids)}, "reason": {"type": "string"}})
    by_question = _object(dict.fromkeys(questions, {"$ref": "#/$defs/scores"} if refs else scores))
    schema = _object({"scores": by_question if questions else scores, "reasons": {"type": "array", "items": reason}})
    if refs:
        schema["$defs"] = {"score": score} | ({"scores": scores} if questions else {})
    return schema


@lru_cache(maxsize=256)
def response_format(ids: tuple[str, ...], questions: tuple[str, ...] = (), *, refs: bool = False) -> dict[str, Any]:
    """Return the strict `response_format` of the OpenAI dialect; shared between calls."""
    schema = reply_schema(ids, questions=questions, refs=refs)
    return {"type": "json_schema", "json_schema": {"name": SCHEMA_NAME, "strict": True, "schema": schema}}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }

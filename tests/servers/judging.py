"""How a loopback server judges: it reads the prompt's memories and scores the requested ids."""

import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from tests.servers.scoring import ScoringFunction
from xscore.platform.hashing import content_hash
from xscore.providers.scripted import (
    ShownMemory,
    shown_memories,
    shown_questions,
    text_around_memories,
)

_SCORED = re.compile(r"<(memory|code)\b[^>]*\bscore=")
"""Memories with a score are shown for answering, not for judging."""


class Counts(Struct):
    """The server's counts since its start or `reset`."""

    requests: int = 0
    judging_requests: int = 0
    answering_requests: int = 0
    refused_requests: int = 0
    """Answered with an error or not at all."""
    in_flight: int = 0
    peak_in_flight: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    written_tokens: int = 0
    judgments: Counter[str] = field(default_factory=Counter)
    """content hash of (path, entity, text) -> how often it was scored in a reply that was sent
    whole; for each of the questions that share a prompt once."""
    judged_places: Counter[str] = field(default_factory=Counter)
    """`path::entity` -> how often."""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    """Every request body, in order of arrival."""
    keys: set[str] = field(default_factory=set)
    """Received bearer tokens."""
    headers: list[dict[str, str]] = field(default_factory=list)
    """Headers of every request with a recorded body; names in lower case."""

    def count_judged(self, prompt: str) -> None:
        """Count every memory of a prompt whose reply was sent."""
        times = max(1, len(shown_questions(prompt)))
        for memory in shown_memories(prompt):
            self.judgments[content_hash(memory.path, memory.entity, memory.text)] += times
            self.judged_places[f"{memory.path}::{memory.entity}"] += times


def asked_ids(schema: dict[str, Any] | None, prompt: str) -> tuple[str, ...]:
    """Return the ids to score: the schema's, or without one those of unscored memory blocks."""
    if schema is not None:
        scores = schema.get("properties", {}).get("scores", {})
        properties = [
            resolved(property_schema, schema)
            for property_schema in scores.get("properties", {}).values()
        ]
        nested = [
            property_schema
            for property_schema in properties
            if property_schema.get("type") == "object"
        ]
        return tuple((nested[0] if nested else scores).get("required", ()))
    if _SCORED.search(prompt):
        return ()
    return tuple(dict.fromkeys(memory.id for memory in shown_memories(prompt)))


def resolved(part: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Return a part of a schema with its reference resolved."""
    part_of_schema: dict[str, Any] = (
        schema["$defs"][part["$ref"].rpartition("/")[2]] if "$ref" in part else part
    )
    return part_of_schema


def judged(
    prompt: str, ids: tuple[str, ...], *, score: ScoringFunction, reasons_from: int
) -> str:
    """Score these ids of a prompt; return the judging object as text."""
    shown = {memory.id: memory for memory in shown_memories(prompt)}
    questions = shown_questions(prompt)
    if not questions:
        scores, reasons = _scored(shown, ids, text_around_memories(prompt), score, reasons_from)
        return json.dumps({"scores": scores, "reasons": reasons})
    scored_by_question = {
        code: _scored(shown, ids, requested, score, reasons_from)
        for code, requested in questions.items()
    }
    explained = [
        {"q": code, **reason}
        for code, (_, question_reasons) in scored_by_question.items()
        for reason in question_reasons
    ]
    return json.dumps(
        {
            "scores": {
                code: question_scores
                for code, (question_scores, _) in scored_by_question.items()
            },
            "reasons": explained,
        }
    )


def _scored(
    shown: Mapping[str, ShownMemory],
    ids: tuple[str, ...],
    turn: str,
    score: ScoringFunction,
    reasons_from: int,
) -> tuple[dict[str, int], list[dict[str, str]]]:
    scores: dict[str, int] = {}
    reasons: list[dict[str, str]] = []
    for code in ids:
        scored = score(shown[code], turn)
        scores[code], reason = scored if isinstance(scored, tuple) else (scored, "scored")
        if scores[code] >= reasons_from:
            reasons.append({"id": code, "reason": reason})
    return scores, reasons

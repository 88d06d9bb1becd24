"""How a loopback server judges: it reads the memories of the prompt and scores the ids it is asked for."""

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.servers.scoring import ScoringFunction
from xscore.hashing import content_hash
from xscore.providers.pack_reading import around_memories, shown_memories

_SCORED = re.compile(r"<(memory|code)\b[^>]*\bscore=")
"""Memories that carry a score are shown for answering, not for judging."""


@dataclass
class Counts:
    """What the server saw since it started or since `reset`."""

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
    """content hash of (path, entity, text) -> how often it was scored in a reply that was sent whole."""
    judged_places: Counter[str] = field(default_factory=Counter)
    """`path::entity` -> how often."""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    """Every request body, in order of arrival."""
    keys: set[str] = field(default_factory=set)
    """Bearer tokens seen."""
    header_names: set[str] = field(default_factory=set)
    """Names of the request headers seen, in lower case."""

    def count_judged(self, prompt: str) -> None:
        """Count every memory of a prompt whose reply went out."""
        for memory in shown_memories(prompt):
            self.judgments[content_hash(memory.path, memory.entity, memory.text)] += 1
            self.judged_places[f"{memory.path}::{memory.entity}"] += 1


def asked_ids(schema: dict[str, Any] | None, prompt: str) -> tuple[str, ...]:
    """Return the ids to score: the schema's, or, for a request without one, those of unscored memory blocks."""
    if schema is not None:
        return tuple(schema.get("properties", {}).get("scores", {}).get("required", ()))
    if _SCORED.search(prompt):
        return ()
    return tuple(dict.fromkeys(memory.id for memory in shown_memories(prompt)))


def judged(prompt: str, ids: tuple[str, ...], *, score: ScoringFunction, reasons_from: int) -> str:
    """Score these ids of a prompt; return the judging object as text."""
    shown = {memory.id: memory for memory in shown_memories(prompt)}
    turn = around_memories(prompt)
    scores: dict[str, int] = {}
    reasons: list[dict[str, str]] = []
    for code in ids:
        given = score(shown[code], turn)
        scores[code], reason = given if isinstance(given, tuple) else (given, "scored")
        if scores[code] >= reasons_from:
            reasons.append({"id": code, "reason": reason})
    return json.dumps({"scores": scores, "reasons": reasons})

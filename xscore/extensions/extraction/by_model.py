"""Ask a model once for the facts of a session that is over.

It is shown the speakers' own words (code, quotations and pages are blanked already) and what is
known, so that it does not repeat it. Its reply is read without trust: each fact by its strict
schema, at most ten, and what the words do not bear out is dropped by `session_facts`. Trade-off: of
a long session the middle is left out.
"""

import asyncio
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import msgspec
from msgspec.structs import replace

from xscore.extensions.extraction.facts import MOST_FACTS, Fact
from xscore.extensions.extraction.own_words import own_text
from xscore.extensions.extraction.retractions import content_words
from xscore.extensions.extraction.session_facts import Message
from xscore.pipeline.resources import open_resources
from xscore.platform import tokens
from xscore.platform.errors import UnreadableResponse
from xscore.platform.processes import random_hex
from xscore.prompts.fences import escape_tags, shorten_middle, well_formed
from xscore.providers.spec import (
    ModelSpec,
    host_with_key,
    import_http_client,
    parse_chat_model,
)
from xscore.records.calls import Answerer, Finish, Request, Stage
from xscore.records.memory import Memory
from xscore.scorer.chat_replies import find_object
from xscore.settings import Settings
from xscore.store.composing import statement_text
from xscore.store.store import Store

DIALOG_CHARS = 16_000
"""Longest dialog that is sent: about 4,000 tokens."""
LEAST_CHARS = 80
"""Fewest own words that are worth a call, in characters."""
MOST_KNOWN = 20
KNOWN_CHARS = 160
OUTPUT_TOKENS = 1_500
WITHIN_S = 60.0
_TAGS = "dialog known_facts"
_BRACKETS = 40
"""Most brackets of a reply: as many as ten facts need."""


def extractor_model(setting: str) -> ModelSpec | None:
    """Return the model that extracts, or None. setting: `memory.extractor`. Raises UsageError."""
    if not setting:
        return None
    hint = "Name a chat model, or leave it empty."
    return parse_chat_model(setting, key="memory.extractor", hint=hint)


def dialog_of(messages: Sequence[Message]) -> str:
    """Return the speakers' own words, shortened in the middle."""
    parts: list[str] = []
    for message in messages:
        words = " ".join(own_text(message.text).split())
        if words:
            parts.append(f"{message.by}: {words}")
    return shorten_middle("\n".join(parts), DIALOG_CHARS)


async def propose_facts(
    store: Store,
    settings: Settings,
    spec: ModelSpec,
    dialog: str,
    known_facts: Sequence[Memory],
) -> list[Fact]:
    """Make the call; return the facts of the reply that can be read.

    Raises UnreadableResponse for a reply without facts that can be read, and XscoreError.
    """
    answerer = Answerer(spec.provider, spec.model, host_with_key(spec, settings))
    await import_http_client(spec.provider)
    # Once: what fails is not tried again before the next session.
    once = replace(settings, judge=replace(settings.judge, attempts=1))
    async with open_resources(store, once, turn_id=f"w_{random_hex(16)}") as resources:
        provider = resources.answering_provider(answerer)
        async with asyncio.timeout(WITHIN_S):
            completion = await provider.complete(_request(spec, dialog, known_facts))
    if completion.finish is Finish.REFUSAL:
        raise UnreadableResponse(
            f"{spec} refused to name facts", hint="Set memory.extractor to another model."
        )
    return read_facts(completion.text, model=str(spec))


def read_facts(reply: str, *, model: str) -> list[Fact]:
    """Return the facts of a reply, at most ten; one that its schema refuses is left out.

    Raises UnreadableResponse for a reply that is not an object of facts, or has none that can be
    read.
    """
    unreadable = UnreadableResponse(
        f"{model} returned no facts that can be read",
        hint="Set memory.extractor to another model.",
    )
    answer = find_object(reply, scores=_BRACKETS)
    if answer is None or not isinstance(answer.data, dict):
        raise unreadable
    entries = answer.data.get("facts")
    if not isinstance(entries, list):
        raise unreadable
    facts: list[Fact] = []
    for entry in entries[:MOST_FACTS]:
        try:
            facts.append(msgspec.json.decode(json.dumps(entry), type=Fact))
        except (ValueError, RecursionError):
            continue
    # An empty list is an answer: the session states nothing.
    if entries and not facts:
        raise unreadable
    return facts


def _request(spec: ModelSpec, dialog: str, known_facts: Sequence[Memory]) -> Request:
    system = _system()
    closest = _closest(known_facts, dialog)
    lines = "\n".join(f"- {line}" for line in closest) or "- none"
    content = (
        f"<known_facts>\n{escape_tags(lines, tags=_TAGS)}\n</known_facts>",
        f"<dialog>\n{escape_tags(well_formed(dialog), tags=_TAGS)}\n</dialog>",
    )
    chars = len(system) + sum(map(len, content))
    return Request(
        stage=Stage.EXTRACT,
        model=spec.model,
        system=system,
        content=content,
        max_output_tokens=OUTPUT_TOKENS,
        input_tokens=tokens.estimate(chars, kind="text"),
        reserved_input_tokens=int(chars / 2.5) + 1,
        timeout_s=WITHIN_S,
    )


@cache
def _system() -> str:
    return Path(__file__).with_name("extract_system.md").read_text("utf-8").strip()


def _closest(known_facts: Sequence[Memory], dialog: str) -> list[str]:
    """Return the facts that share most words with a dialog, each on a line."""
    words = content_words(dialog)
    ranked: list[tuple[int, str]] = []
    for memory in known_facts:
        text = " ".join(statement_text(memory).split())
        shared = len(content_words(text) & words)
        if shared:
            ranked.append((-shared, text[:KNOWN_CHARS]))
    return [text for _, text in sorted(ranked)[:MOST_KNOWN]]

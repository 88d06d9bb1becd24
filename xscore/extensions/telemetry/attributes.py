"""What a span says of a turn, a stage or a call: figures and names of models and hosts. Pure.

No text of a task, memory, prompt or answer is in the records it reads, and no path: a model that is a file of the
user's is named by its last part, a script not at all.

What our figures are called in spans: the one map to OpenTelemetry's GenAI conventions.

What they have a name for has theirs; all else is `xscore.*`. A test holds every name against the conventions package
that is installed, so that one they rename is noticed. Trade-off: the GenAI names are still in development. Version 1.42
moved them, as they were, to a repository of their own that has published no schema yet, so spans carry the schema URL
of that version.
"""

from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from pathlib import PureWindowsPath
from urllib.parse import urlsplit

from xscore.extensions.telemetry.traced_turn import StageSpan, TracedTurn
from xscore.records import CallRecord

CONVENTIONS = "1.42.0"
"""Version of the semantic conventions that the names below are of."""
SCHEMA_URL = f"https://opentelemetry.io/schemas/{CONVENTIONS}"

OPERATIONS: dict[str, str] = {"judge": "chat", "primary": "chat", "probe": "chat", "embed": "embeddings"}
"""Stage of a call -> `gen_ai.operation.name`."""

CALL_ATTRIBUTES: dict[str, str] = {
    "operation": "gen_ai.operation.name",
    "provider": "gen_ai.provider.name",
    "model": "gen_ai.request.model",
    "address": "server.address",
    "port": "server.port",
    "error": "error.type",
    "thread": "gen_ai.conversation.id",
    "input_tokens": "gen_ai.usage.input_tokens",
    "cached_input_tokens": "gen_ai.usage.cache_read.input_tokens",
    "cache_write_tokens": "gen_ai.usage.cache_creation.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "reasoning_tokens": "gen_ai.usage.reasoning.output_tokens",
    "turn_id": "xscore.turn.id",
    "stage": "xscore.stage",
    "candidates": "xscore.candidates",
    "cost_usd": "xscore.cost_usd",
    "estimated": "xscore.usage.estimated",
}
"""What is told of one attempt -> name of the attribute."""

TURN_ATTRIBUTES: dict[str, str] = {
    "turn_id": "xscore.turn.id",
    "thread": "gen_ai.conversation.id",
    "error": "error.type",
    "command": "xscore.command",
    "judge": "xscore.judge",
    "is_model": "xscore.judge.is_model",
    "exit_code": "xscore.exit_code",
    "candidates": "xscore.coverage.candidates",
    "judged": "xscore.coverage.judged",
    "cached": "xscore.coverage.cached",
    "carried": "xscore.coverage.carried",
    "unjudged": "xscore.coverage.unjudged",
    "kept": "xscore.kept",
    "near": "xscore.near_threshold",
    "threshold": "xscore.threshold",
    "calls": "xscore.calls",
    "attempts": "xscore.attempts",
    "cost_usd": "xscore.cost_usd",
}
"""What is told of a turn -> name of the attribute."""

STAGE_ATTRIBUTES: dict[str, str] = {"turn_id": "xscore.turn.id", "stage": "xscore.stage", "error": "error.type"}
"""What is told of a stage -> name of the attribute."""


Attribute = str | int | float | bool
Attributes = dict[str, Attribute]

ANSWERED = "ok"
SCRIPT_MODEL = "script"
"""Model of the scripted provider, whose own name is a path."""


def turn_attributes(turn: TracedTurn) -> Attributes:
    """Say what a turn came to; a sum that has an unpriced call is left out."""
    told: dict[str, Attribute | None] = {
        "turn_id": turn.id,
        "thread": turn.thread or None,
        "error": turn.error or None,
        "command": turn.command or None,
        "calls": sum(call.outcome == ANSWERED for call in turn.calls),
        "attempts": len(turn.calls),
        "cost_usd": _sum(turn.calls),
    }
    figures = turn.figures
    if figures is not None:
        coverage = figures.coverage
        told |= {
            "judge": _named(figures.judge),
            "is_model": figures.is_model,
            "exit_code": turn.exit_code,
            "candidates": coverage.candidates,
            "judged": coverage.judged,
            "cached": coverage.cached,
            "carried": coverage.carried,
            "unjudged": coverage.unjudged,
            "kept": figures.kept,
            "near": figures.near,
            "threshold": figures.threshold,
        }
    return _by_name(told, TURN_ATTRIBUTES)


def stage_attributes(turn: TracedTurn, lap: StageSpan) -> Attributes:
    """Name the stage and its turn."""
    return _by_name({"turn_id": turn.id, "stage": lap.stage, "error": lap.error or None}, STAGE_ATTRIBUTES)


def call_attributes(call: CallRecord, *, thread: str) -> Attributes:
    """Say what one attempt took. Left out: dollars of an unpriced one, no cache writes, no reasoning, not estimated."""
    usage = call.usage
    address, port = _place(call.host)
    told: dict[str, Attribute | None] = {
        "operation": OPERATIONS[call.stage],
        "provider": call.provider,
        "model": model_of(call.provider, call.model),
        "address": address,
        "port": port,
        "error": None if call.outcome == ANSWERED else call.outcome,
        "thread": thread or None,
        "input_tokens": usage.input_tokens,
        "cached_input_tokens": usage.cached_input_tokens,
        "cache_write_tokens": usage.cache_write_tokens or None,
        "output_tokens": usage.output_tokens,
        "reasoning_tokens": usage.reasoning_tokens or None,
        "turn_id": call.turn_id,
        "stage": str(call.stage),
        "candidates": call.candidates,
        "cost_usd": None if call.cost_usd is None else float(call.cost_usd),
        "estimated": call.estimated or None,
    }
    return _by_name(told, CALL_ATTRIBUTES)


@lru_cache(maxsize=64)
def model_of(provider: str, model: str) -> str:
    """Name a model without the folder it lies in: `org/name` is a name, `/models/x.gguf` a path."""
    if provider == "scripted":
        return SCRIPT_MODEL
    path = PureWindowsPath(model)  # reads both kinds of slashes
    is_path = bool(path.root or path.drive) or model.startswith((".", "~")) or len(path.parts) > 2
    return path.name if is_path else model


def _named(judge: str) -> str:
    provider, colon, model = judge.partition(":")
    return f"{provider}:{model_of(provider, model)}" if colon else judge


@lru_cache(maxsize=64)
def _place(host: str) -> tuple[str | None, int | None]:
    """Split `name:port`; a provider without a host has neither."""
    parts = urlsplit(f"//{host}")
    return (None, None) if host == "-" else (parts.hostname, parts.port)


def _sum(calls: tuple[CallRecord, ...]) -> float | None:
    whole = Decimal(0)
    for call in calls:
        if call.cost_usd is None:
            return None
        whole += call.cost_usd
    return float(whole)


def _by_name(told: Mapping[str, Attribute | None], names: Mapping[str, str]) -> Attributes:
    return {names[field]: value for field, value in told.items() if value is not None}

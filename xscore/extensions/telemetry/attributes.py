"""A closed turn as traced, and its spans' attributes: no text of a task, memory or answer, and no
path.

A model that is a file is named by its last part, a script not at all. Attributes have the names of
OpenTelemetry's GenAI conventions where there are any; all others are `xscore.*`. A test holds every
name against the conventions package that is installed. Trade-off: the GenAI names are still in
development; 1.42 is the last that published a schema.
"""

from collections.abc import Sequence
from decimal import Decimal
from functools import lru_cache
from pathlib import PureWindowsPath
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import asdict

from xscore.records.calls import CallRecord, ServerCall

if TYPE_CHECKING:
    from xscore.pipeline.parts import ClosedTurn

NAME = "xscore"
SCHEMA_URL = "https://opentelemetry.io/schemas/1.42.0"
ANSWERED = "ok"
Attributes = dict[str, str | int | float | bool]


class SpanRecord(Struct, frozen=True, kw_only=True):
    """One span of a turn, ready to be written."""

    name: str
    attributes: Attributes
    began: float
    """Unix seconds."""
    ended: float
    error: str = ""
    """Why the span did not end well: the `kind` of an error, `cancelled`, `interrupted`, …;
    empty if it did."""
    below: int | None = None
    """Place of the parent span among the spans of the turn; None for the turn's own span."""
    is_call: bool = False


def turn_attributes(
    closed: "ClosedTurn", calls: Sequence[CallRecord], *, error: str
) -> Attributes:
    """Return the figures of a turn; a sum with an unpriced call is left out."""
    costs = [call.cost_usd for call in calls if call.cost_usd is not None]
    attributes: dict[str, str | int | float | bool | None] = {
        "xscore.turn.id": closed.turn.id,
        "gen_ai.conversation.id": closed.turn.thread or None,
        "error.type": error or None,
        "xscore.command": closed.command or None,
        "xscore.calls": sum(call.outcome == ANSWERED for call in calls),
        "xscore.attempts": len(calls),
        "xscore.cost_usd": float(sum(costs, Decimal(0))) if len(costs) == len(calls) else None,
    }
    if closed.figures is not None:
        figures = closed.figures
        attributes |= {
            "xscore.judge": _judge_name(figures.judge),
            "xscore.judge.is_model": figures.by_model,
            "xscore.exit_code": closed.exit_code,
            "xscore.kept": figures.kept,
            "xscore.near_threshold": figures.near,
            "xscore.threshold": figures.threshold,
        }
        for name, count in asdict(figures.coverage).items():
            attributes[f"xscore.coverage.{name}"] = count
    return _known(attributes)


def stage_attributes(turn_id: str, stage: str, *, error: str) -> Attributes:
    """Name the stage and its turn."""
    return _known(
        {"xscore.turn.id": turn_id, "xscore.stage": stage, "error.type": error or None}
    )


def call_attributes(call: CallRecord, *, thread: str) -> Attributes:
    """Return the figures of one attempt; unknown dollars and zero cache writes or reasoning are
    left out."""
    usage = call.usage
    address, port = _address(call.host)
    return _known(
        {
            "gen_ai.operation.name": call.stage.operation,
            "gen_ai.provider.name": call.provider,
            "gen_ai.request.model": model_name(call.provider, call.model),
            "server.address": address,
            "server.port": port,
            "error.type": None if call.outcome == ANSWERED else call.outcome,
            "gen_ai.conversation.id": thread or None,
            "gen_ai.usage.input_tokens": usage.input_tokens,
            "gen_ai.usage.cache_read.input_tokens": usage.cached_input_tokens,
            "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens or None,
            "gen_ai.usage.output_tokens": usage.output_tokens,
            "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens or None,
            "xscore.turn.id": call.turn_id,
            "xscore.stage": str(call.stage),
            "xscore.candidates": call.candidates,
            "xscore.cost_usd": None if call.cost_usd is None else float(call.cost_usd),
            "xscore.usage.estimated": call.estimated or None,
        }
    )


def server_call_attributes(call: ServerCall, *, turn_id: str) -> Attributes:
    """Name the server, the operation and how it ended."""
    address, port = _address(call.host)
    return _known(
        {
            "db.system.name": call.system,
            "db.operation.name": call.operation,
            "server.address": address,
            "server.port": port,
            "error.type": call.error or None,
            "xscore.turn.id": turn_id,
        }
    )


@lru_cache(maxsize=64)
def model_name(provider: str, model: str) -> str:
    """Name a model without the folder it lies in: `org/name` is a name, `/models/x.gguf` a path."""
    if provider == "scripted":
        return "script"
    path = PureWindowsPath(model)  # reads both kinds of slashes
    is_path = (
        bool(path.root or path.drive) or model.startswith((".", "~")) or len(path.parts) > 2
    )
    if is_path:
        return path.name
    return model


def _judge_name(judge: str) -> str:
    provider, colon, model = judge.partition(":")
    if colon:
        return f"{provider}:{model_name(provider, model)}"
    return judge


@lru_cache(maxsize=64)
def _address(host: str) -> tuple[str | None, int | None]:
    """Split `name:port`; a provider without a host has neither."""
    parts = urlsplit(f"//{host}")
    if host == "-":
        return (None, None)
    return (parts.hostname, parts.port)


def _known(attributes: dict[str, str | int | float | bool | None]) -> Attributes:
    return {name: value for name, value in attributes.items() if value is not None}

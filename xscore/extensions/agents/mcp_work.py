"""What the calls of an MCP client do: the tools, the receipt of a turn, and how errors are shown.

It is loaded by the first call, and with it the pipeline. Results may hold repository text; it is
always fenced and labelled as data. Trade-off: what an agent remembers counts as inferred, with less
confidence than a user's own statement, since it may come from a text that the agent read.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import msgspec
from click import unstyle

from xscore.cli.explain import render_explanation
from xscore.extensions.agents.agent_bundle import quoted
from xscore.extensions.agents.data_fence import DATA_NOTE, FENCE
from xscore.extensions.agents.mcp_calls import Call
from xscore.extensions.agents.mcp_context import ToolResult, find_context
from xscore.extensions.agents.mcp_workplace import (
    RECEIPT_URI,
    ExplainArguments,
    RememberArguments,
    Workplace,
)
from xscore.pipeline.build import Pipeline
from xscore.pipeline.json_form import to_json
from xscore.pipeline.stored_receipt import read_receipt
from xscore.platform.errors import NothingMatched, UsageError, XscoreError
from xscore.platform.text import join_sentences, safe_json, without_invisible_values
from xscore.prompts.fences import escape_tags
from xscore.records.memory import Kind, MemoryDetails, MemorySource
from xscore.records.reports import Explanation
from xscore.records.statement import Statement
from xscore.store import remembering
from xscore.store.failures import record_failure
from xscore.store.redaction import redact
from xscore.store.turn_history import find_turn_id, past_turn

MOST_ERROR_CHARS = 1_000
"""Longest error message; it may repeat names from the repository."""


async def explain(place: Workplace, arguments: ExplainArguments, _call: Call) -> ToolResult:
    """Say why a memory was or was not chosen. Raises NothingMatched, UsageError, StoreError."""
    async with Pipeline.open(place.root.path, place.settings(), make=False) as pipeline:
        explanation = await pipeline.explain(arguments.memory, turn_id=arguments.turn)
    visible = without_invisible_values(msgspec.to_builtins(explanation))
    shown = msgspec.convert(visible, Explanation)
    page = escape_tags(unstyle(render_explanation(shown)), tags=FENCE)
    about = {
        "turn": explanation.turn_id,
        "memory": explanation.id,
        "outcome": explanation.outcome,
    }
    return ToolResult(f"{DATA_NOTE}\n<{FENCE}>\n{page}\n</{FENCE}>", about)


async def remember(place: Workplace, arguments: RememberArguments, _call: Call) -> ToolResult:
    """Store a statement or a failure. Raises UsageError, StoreError."""
    with place.open_store(make=True) as store:
        if arguments.kind == "failure":
            failure = record_failure(
                store, text=arguments.text, details=MemoryDetails(rationale=arguments.because)
            )
            return ToolResult(
                "Remembered this failure; `context` will judge it.",
                {"memory": failure.memory.id},
            )
        statement = Statement(
            text=arguments.text,
            kind=Kind(arguments.kind),
            because=arguments.because,
            key=arguments.key,
            aliases=arguments.aliases,
            confidence=store.settings.inferred_confidence,
            source=MemorySource.INFERRED,
        )
        stored = remembering.remember(store, statement)
    about = {"memory": stored.memory.id, "became": str(stored.became)}
    return ToolResult(
        f"Remembered as {stored.memory.id}; `context` will judge it from now on.", about
    )


def read_receipt_resource(place: Workplace, uri: object) -> dict[str, Any]:
    """Return the contents of a turn's receipt. Raises NothingMatched, UsageError, StoreError."""
    if (
        not isinstance(uri, str)
        or not uri.startswith(f"{RECEIPT_URI}t_")
        or len(uri) > len(RECEIPT_URI) + 64
    ):
        raise UsageError("there is no such resource", hint=f"Receipts are at {RECEIPT_URI}t_…")
    with place.open_store(make=False) as store:
        past = past_turn(
            store.connection, find_turn_id(store.connection, uri.removeprefix(RECEIPT_URI))
        )
    if past is None or not past.receipt:
        raise NothingMatched(
            f"{uri} has no receipt", hint="The turn was erased, or ended without one."
        )
    body = {"note": DATA_NOTE, **to_json(read_receipt(past.receipt))}
    text = escape_tags(safe_json(without_invisible_values(body)), tags=FENCE)
    return {"contents": [{"uri": uri, "mimeType": "application/json", "text": text}]}


Work = Callable[[Workplace, Any, Call], Awaitable[ToolResult]]
WORK_OF_TOOLS: Mapping[str, Work] = {
    "context": find_context,
    "explain": explain,
    "remember": remember,
}


class CallWork(NamedTuple):
    """All that a call may need."""

    of_tools: Mapping[str, Work]
    read_receipt: Callable[[Workplace, object], dict[str, Any]]
    failure_result: Callable[[XscoreError], dict[str, Any]]


def failure_result(error: XscoreError) -> dict[str, Any]:
    """Tell the model what went wrong and what to do next, fenced and with secrets redacted.

    The text may hold names from the repository's settings, which could read like instructions of
    ours.
    """
    # An error may repeat what was given.
    message = redact(join_sentences(f"xscore: {error.message}", error.hint)).text
    text = (
        "xscore could not do this."
        f" {DATA_NOTE}\n<{FENCE}>\n{quoted(message, MOST_ERROR_CHARS)}\n</{FENCE}>"
    )
    return ToolResult(text, {"error": error.kind}, is_error=True).to_wire()


CALL_WORK = CallWork(WORK_OF_TOOLS, read_receipt_resource, failure_result)

"""The parts of `xscore mcp` that use the store without judging: `explain`, `remember`, and the receipts of turns.

Trade-off: a memory from `remember` counts as inferred and gets less confidence than a user's own statement, since the
agent may have taken it from a text that it read.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from xscore.extensions.agents.mcp_calls import Call
from xscore.extensions.agents.mcp_context import ToolResult, Workplace
from xscore.platform.errors import NothingMatched, UsageError
from xscore.platform.text import format_place, one_line
from xscore.records.memory import Kind, MemoryDetails, MemorySource
from xscore.records.reports import Explanation
from xscore.records.statement import Statement

RECEIPT_URI = "xscore://turn/"
StatedKind = Literal["decision", "failure", "architecture", "convention", "todo", "context"]
STATED_KINDS = ("decision", "failure", "architecture", "convention", "todo", "context")


class ExplainArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of `explain`."""

    memory: Annotated[str, Meta(min_length=1, max_length=1_000)]
    turn: Annotated[str, Meta(max_length=100)] = ""


class RememberArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of `remember`."""

    text: Annotated[str, Meta(min_length=1, max_length=20_000)]
    kind: StatedKind = "context"
    because: Annotated[str, Meta(max_length=5_000)] = ""
    key: Annotated[str, Meta(max_length=200)] = ""


async def explain(place: Workplace, given: ExplainArguments, _call: Call) -> ToolResult:
    """Say why a memory was or was not chosen. Raises NothingMatched, UsageError, StoreError."""
    from xscore.pipeline.build import Pipeline

    async with Pipeline.open(place.root.path, place.settings(), make=False) as pipeline:
        found = await pipeline.explain(given.memory, turn_id=given.turn)
    return ToolResult(_explanation_text(found), {"turn": found.turn_id, "memory": found.id, "outcome": found.outcome})


def _explanation_text(found: Explanation) -> str:
    from xscore.extensions.agents.agent_bundle import DATA_NOTE, FENCE
    from xscore.prompts.fences import escape_tags

    memory = found.memory
    lines = [f"{found.path}::{found.entity}" if found.entity else found.path or found.id]
    if memory is not None:
        lines += [format_place(memory.path, memory.start_line, memory.end_line)] if memory.path else []
        lines += [f"reason: {memory.reason}"] if memory.reason else []
    quoted = "\n".join(escape_tags(one_line(line), tags=FENCE) for line in lines)
    said = f"{found.outcome.replace('_', ' ')}: {one_line(found.words)}"
    return f"{DATA_NOTE}\n<{FENCE}>\n{quoted}\n{escape_tags(said, tags=FENCE)}\n</{FENCE}>"


async def remember(place: Workplace, given: RememberArguments, _call: Call) -> ToolResult:
    """Store a statement or a failure. Raises UsageError, StoreError."""
    from xscore.store import remembering
    from xscore.store.failures import record_failure

    with place.open_store(make=True) as store:
        if given.kind == "failure":
            failure = record_failure(store, text=given.text, details=MemoryDetails(rationale=given.because))
            return ToolResult("Remembered this failure; `context` will judge it.", {"memory": failure.memory.id})
        said = Statement(
            text=given.text,
            kind=Kind(given.kind),
            because=given.because,
            key=given.key,
            confidence=store.settings.inferred_confidence,
            source=MemorySource.INFERRED,
        )
        stored = remembering.remember(store, said)
    about = {"memory": stored.memory.id, "became": str(stored.became)}
    return ToolResult(f"Remembered as {stored.memory.id}; `context` will judge it from now on.", about)


def read_receipt_resource(place: Workplace, uri: str) -> dict[str, Any]:
    """Return the contents of a turn's receipt. Raises NothingMatched, UsageError, StoreError."""
    from xscore.extensions.agents.agent_bundle import DATA_NOTE, FENCE
    from xscore.pipeline.json_form import to_json
    from xscore.pipeline.stored_receipt import read_receipt
    from xscore.prompts.fences import escape_tags
    from xscore.store.turn_history import find_turn_id, past_turn

    with place.open_store(make=False) as store:
        past = past_turn(store.connection, find_turn_id(store.connection, uri.removeprefix(RECEIPT_URI)))
    if past is None or not past.receipt:
        raise NothingMatched(f"{uri} has no receipt", hint="The turn was erased, or ended without one.")
    body = {"note": DATA_NOTE, **to_json(read_receipt(past.receipt).answer)}
    text = escape_tags(msgspec.json.encode(body).decode(), tags=FENCE)
    return {"contents": [{"uri": uri, "mimeType": "application/json", "text": text}]}


def receipt_uri(uri: object) -> str:
    """Return the URI of a receipt. Raises UsageError for any other."""
    if not isinstance(uri, str) or not uri.startswith(f"{RECEIPT_URI}t_") or len(uri) > len(RECEIPT_URI) + 64:
        raise UsageError("there is no such resource", hint=f"Receipts are at {RECEIPT_URI}t_…")
    return uri

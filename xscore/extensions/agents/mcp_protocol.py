"""The Model Context Protocol as records: parse a line into a message or a refusal, and build
responses.

It supports two generations of the protocol ("eras") and detects the era of each request. Up to
2025-11-25 a client begins with `initialize`. Since 2026-07-28 each request names its version and
capabilities in `_meta`, and each result states its type and how long it may be cached. This module
knows no tool, sends nothing and keeps no state. Trade-off: it checks only what a server of tools
and resources needs, and ignores unknown fields.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from xscore.platform.json_lines import decode_agent_json

HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN_VERSION = "2026-07-28"
TASKS_VERSION = "2025-11-25"
"""The only handshake version with tasks in its core; later they are an extension."""
TASKS_EXTENSION = "io.modelcontextprotocol/tasks"
_META = "io.modelcontextprotocol/"
VERSION_KEY, CAPABILITIES_KEY = f"{_META}protocolVersion", f"{_META}clientCapabilities"
SERVER_KEY, RELATED_TASK_KEY = f"{_META}serverInfo", f"{_META}related-task"

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
RESOURCE_NOT_FOUND = -32002
"""Before 2026-07-28; since then it is INVALID_PARAMS."""
MISSING_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022
LIST_KEEPS_MS = 3_600_000
"""How long clients may cache the lists: they are the same for everyone until the program is
updated."""
_MOST_ID_CHARS = 256

RequestId = int | str


class Refusal(Struct, frozen=True):
    """A JSON-RPC error: why a message is refused."""

    code: int
    message: str
    data: Mapping[str, object] | None = None
    id: RequestId | None = None
    """The request's id, if it could be read."""


class Message(Struct, frozen=True):
    """A request, or a notification if it has no id."""

    method: str
    id: RequestId | None
    params: Mapping[str, Any]


class Envelope(Struct, frozen=True):
    """What a request, or `initialize` before it, tells about its client."""

    version: str = HANDSHAKE_VERSIONS[-1]
    capabilities: Mapping[str, Any] = {}
    progress_token: RequestId | None = None

    @property
    def is_modern(self) -> bool:
        """Whether it is of the later era, without a handshake."""
        return self.version == MODERN_VERSION

    @property
    def takes_tasks(self) -> bool:
        """Whether the client accepts a task in place of a result (in the handshake era it requests
        one itself)."""
        extensions = self.capabilities.get("extensions")
        return self.is_modern and isinstance(extensions, dict) and TASKS_EXTENSION in extensions


class _Wire(Struct):
    jsonrpc: str
    method: str = ""
    id: int | str | msgspec.UnsetType | None = msgspec.UNSET
    params: dict[str, Any] | None = None
    result: Any = msgspec.UNSET
    error: Any = msgspec.UNSET


def read_message(line: bytes) -> Message | Refusal | None:
    """Read one line; return None for a response, since this server sends no requests."""
    try:
        value = decode_agent_json(line, object)
    except (ValueError, RecursionError):
        return Refusal(PARSE_ERROR, "The line is not valid JSON.")
    if isinstance(value, list):
        return Refusal(INVALID_REQUEST, "Batches are not accepted: send one message per line.")
    try:
        wire = msgspec.convert(value, _Wire)
    except (msgspec.ValidationError, RecursionError):
        return Refusal(
            INVALID_REQUEST, "The line is not a JSON-RPC 2.0 request.", id=_readable_id(value)
        )
    if not wire.method and (wire.result is not msgspec.UNSET or wire.error is not msgspec.UNSET):
        return None
    is_notification = wire.id is msgspec.UNSET
    known = _readable_id(value)
    if wire.jsonrpc != "2.0" or not wire.method or (known is None and not is_notification):
        return Refusal(INVALID_REQUEST, "The line is not a JSON-RPC 2.0 request.", id=known)
    return Message(wire.method, known, wire.params or {})


def _readable_id(value: object) -> RequestId | None:
    found = value.get("id") if isinstance(value, dict) else None
    if isinstance(found, str) and len(found) <= _MOST_ID_CHARS:
        return found
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def read_envelope(message: Message, handshake: Envelope | None) -> Envelope | Refusal:
    """Return the era and the client's capabilities for a request. handshake: None before
    `initialize`."""
    meta = message.params.get("_meta")
    meta = meta if isinstance(meta, dict) else {}
    token = meta.get("progressToken")
    token = token if isinstance(token, str | int) and not isinstance(token, bool) else None
    if VERSION_KEY in meta:
        return _modern_envelope(meta, token)
    if handshake is None and message.method != "ping":
        said = f"Send `initialize` first, or put {VERSION_KEY} and {CAPABILITIES_KEY} in `_meta`."
        return Refusal(INVALID_PARAMS, said)
    return replace(handshake or Envelope(), progress_token=token)


def _modern_envelope(meta: Mapping[str, Any], token: RequestId | None) -> Envelope | Refusal:
    version, capabilities = meta[VERSION_KEY], meta.get(CAPABILITIES_KEY)
    if not isinstance(version, str) or not isinstance(capabilities, dict):
        wrong = CAPABILITIES_KEY if isinstance(version, str) else VERSION_KEY
        return Refusal(INVALID_PARAMS, f"`_meta` lacks {wrong}, or it has the wrong type.")
    if version != MODERN_VERSION:
        data = {"supported": [MODERN_VERSION], "requested": version}
        return Refusal(UNSUPPORTED_VERSION, "Unsupported protocol version", data)
    return Envelope(version, capabilities, token)


def negotiate(params: Mapping[str, Any]) -> Envelope | Refusal:
    """Read `initialize`: agree on the client's version if it is supported, else on the latest with
    a handshake."""
    version, capabilities = params.get("protocolVersion"), params.get("capabilities", {})
    if not isinstance(version, str) or not isinstance(capabilities, dict):
        return Refusal(INVALID_PARAMS, "`initialize` needs protocolVersion and capabilities.")
    return Envelope(
        version if version in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1], capabilities
    )


def response(
    request_id: RequestId, result: Mapping[str, Any], envelope: Envelope, server: Mapping[str, str]
) -> dict[str, Any]:
    """Return the response to a request, with the fields that its era requires. server: its name and
    version."""
    if envelope.is_modern:
        meta = {SERVER_KEY: server, **result.get("_meta", {})}
        result = {"resultType": "complete", **result, "_meta": meta}
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def cacheable(
    result: Mapping[str, Any], envelope: Envelope, *, scope: str = "public"
) -> dict[str, Any]:
    """Add how long a list or resource may be cached, if the era has that. scope: `public`, or
    `private` to one user."""
    if not envelope.is_modern:
        return dict(result)
    return {**result, "ttlMs": LIST_KEEPS_MS if scope == "public" else 0, "cacheScope": scope}


def refuse(refusal: Refusal, request_id: RequestId | None = None) -> dict[str, Any]:
    """Return the error response for a refused message; the id is null if it could not be read."""
    error: dict[str, Any] = {"code": refusal.code, "message": refusal.message}
    if refusal.data is not None:
        error["data"] = refusal.data
    return {
        "jsonrpc": "2.0",
        "id": refusal.id if request_id is None else request_id,
        "error": error,
    }

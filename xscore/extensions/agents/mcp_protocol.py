"""The Model Context Protocol as records: a line becomes a message or its refusal, a result takes the form of its era.

Two eras are spoken, each request by what it carries. Up to 2025-11-25 a client begins with `initialize`. In 2026-07-28
each request names version and capabilities in `_meta`, and results say their type and how long they keep.
It knows no tool, sends nothing and keeps no state. Trade-off: only what a server of tools and resources needs is
checked; unknown fields are ignored.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN_VERSION = "2026-07-28"
TASKS_VERSION = "2025-11-25"
"""The one handshake version with tasks in its core; later they are an extension."""
TASKS_EXTENSION = "io.modelcontextprotocol/tasks"
_META = "io.modelcontextprotocol/"
VERSION_KEY, CAPABILITIES_KEY = f"{_META}protocolVersion", f"{_META}clientCapabilities"
SERVER_KEY, SUBSCRIPTION_KEY, RELATED_TASK_KEY = f"{_META}serverInfo", f"{_META}subscriptionId", f"{_META}related-task"

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
"""The lists are the same for everyone until the program is updated."""
_MOST_ID_CHARS = 256

RequestId = int | str


class Refusal(Struct, frozen=True):
    """Why a message is not served."""

    code: int
    message: str
    data: Mapping[str, object] | None = None
    id: RequestId | None = None
    """Of the request, where it could be read."""


class Message(Struct, frozen=True):
    """A request, or a notification, which has no id."""

    method: str
    id: RequestId | None
    params: Mapping[str, Any]


class Envelope(Struct, frozen=True):
    """What a request says of its client."""

    is_modern: bool
    capabilities: Mapping[str, Any] = {}
    version: str = MODERN_VERSION
    progress_token: RequestId | None = None

    @property
    def takes_tasks(self) -> bool:
        """Whether the client takes a task for an answer (in the handshake era it asks for one instead)."""
        extensions = self.capabilities.get("extensions")
        return self.is_modern and isinstance(extensions, dict) and TASKS_EXTENSION in extensions


class Handshake(Struct, frozen=True):
    """What `initialize` settled."""

    version: str
    capabilities: Mapping[str, Any]


class _Wire(Struct):
    jsonrpc: str
    method: str = ""
    id: int | str | msgspec.UnsetType | None = msgspec.UNSET
    params: dict[str, Any] | None = None
    result: Any = msgspec.UNSET
    error: Any = msgspec.UNSET


def read_message(line: bytes) -> Message | Refusal | None:
    """Read one line; None for a response, since this server asks its client nothing."""
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Refusal(PARSE_ERROR, "The line is not valid JSON.")
    if isinstance(value, list):
        return Refusal(INVALID_REQUEST, "Batches are not accepted: send one message a line.")
    try:
        wire = msgspec.convert(value, _Wire)
    except (msgspec.ValidationError, RecursionError):
        return Refusal(INVALID_REQUEST, "The line is not a JSON-RPC 2.0 request.", id=_readable_id(value))
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


def read_envelope(message: Message, handshake: Handshake | None) -> Envelope | Refusal:
    """Say in which era a request is served. handshake: None before `initialize`."""
    meta = message.params.get("_meta")
    meta = meta if isinstance(meta, dict) else {}
    token = meta.get("progressToken")
    token = token if isinstance(token, str | int) and not isinstance(token, bool) else None
    if VERSION_KEY in meta:
        return _modern_envelope(meta, token)
    if handshake is None and message.method != "ping":
        said = f"Send `initialize` first, or name {VERSION_KEY} and {CAPABILITIES_KEY} in `_meta`."
        return Refusal(INVALID_PARAMS, said)
    version, capabilities = (handshake.version, handshake.capabilities) if handshake else (HANDSHAKE_VERSIONS[-1], {})
    return Envelope(is_modern=False, capabilities=capabilities, version=version, progress_token=token)


def _modern_envelope(meta: Mapping[str, Any], token: RequestId | None) -> Envelope | Refusal:
    version, capabilities = meta[VERSION_KEY], meta.get(CAPABILITIES_KEY)
    if not isinstance(version, str) or not isinstance(capabilities, dict):
        wrong = CAPABILITIES_KEY if isinstance(version, str) else VERSION_KEY
        return Refusal(INVALID_PARAMS, f"`_meta` lacks {wrong}, or it is of another type.")
    if version != MODERN_VERSION:
        data = {"supported": [MODERN_VERSION], "requested": version}
        return Refusal(UNSUPPORTED_VERSION, "Unsupported protocol version", data)
    return Envelope(is_modern=True, capabilities=capabilities, progress_token=token)


def negotiate(params: Mapping[str, Any]) -> Handshake | Refusal:
    """Read `initialize`: the client's version if it is known, else the latest with a handshake."""
    version, capabilities = params.get("protocolVersion"), params.get("capabilities", {})
    if not isinstance(version, str) or not isinstance(capabilities, dict):
        return Refusal(INVALID_PARAMS, "`initialize` needs protocolVersion and capabilities.")
    return Handshake(version if version in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1], capabilities)


def response(
    request_id: RequestId, result: Mapping[str, Any], envelope: Envelope, server: Mapping[str, str]
) -> dict[str, Any]:
    """Return the answer to a request, with what its era asks of every result. server: name and version."""
    if envelope.is_modern:
        meta = {SERVER_KEY: server, **result.get("_meta", {})}
        result = {"resultType": "complete", **result, "_meta": meta}
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def cacheable(result: Mapping[str, Any], envelope: Envelope, *, scope: str = "public") -> dict[str, Any]:
    """Add to a list or a resource how long it keeps, where the era asks for it. scope: `private` is the user's own."""
    if not envelope.is_modern:
        return dict(result)
    return {**result, "ttlMs": LIST_KEEPS_MS if scope == "public" else 0, "cacheScope": scope}


def refuse(refusal: Refusal, request_id: RequestId | None = None) -> dict[str, Any]:
    """Return the answer to a message that is not served; its id is null where it could not be read."""
    error: dict[str, Any] = {"code": refusal.code, "message": refusal.message}
    if refusal.data is not None:
        error["data"] = refusal.data
    return {"jsonrpc": "2.0", "id": refusal.id if request_id is None else request_id, "error": error}


def notification(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return a notification of ours."""
    return {"jsonrpc": "2.0", "method": method, "params": params}

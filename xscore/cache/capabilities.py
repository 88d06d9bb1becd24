"""What hosts can do with a model, kept in the store so that it is found out once and not on every turn.

A row is read strictly: one that does not look exactly like ours is ignored, and the host is asked again. The caller
decides how long a row is good for. Trade-off: each repository's store has its own, so another repository finds out
again, for a fraction of a cent.
"""

import sqlite3
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import asdict, replace

from xscore.platform import database
from xscore.records import Capability, RateLimits, ReplyForm

CAPABILITY_VERSION = 1
"""Of what is found out and how: with another one, hosts are asked again."""

_READ = "SELECT body FROM capability WHERE provider = ? AND host = ? AND model = ?"
_WRITE = """
    INSERT INTO capability (provider, host, model, body, at) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (provider, host, model) DO UPDATE SET body = excluded.body, at = excluded.at
"""
_DELETE = "DELETE FROM capability WHERE provider = ? AND host = ? AND model = ?"
_Count = Annotated[int, Meta(ge=1, le=1_000_000_000_000)]
_Name = Annotated[str, Meta(pattern=r"^[a-z_]{1,64}$")]


class _LimitsBody(Struct, frozen=True, forbid_unknown_fields=True):
    requests_per_minute: _Count | None
    tokens_per_minute: _Count | None
    input_tokens_per_minute: _Count | None
    output_tokens_per_minute: _Count | None


class _CapabilityBody(Struct, frozen=True, forbid_unknown_fields=True):
    version: Literal[1]
    probed_at: Annotated[float, Meta(ge=0)]
    reply_form: ReplyForm
    without: Annotated[tuple[_Name, ...], Meta(max_length=32)]
    reports_usage: bool
    reports_cached_tokens: bool
    context_tokens: _Count | None
    reasoning_tokens: Annotated[int, Meta(ge=0, le=1_000_000_000)]
    limits: _LimitsBody


def read_capability(connection: sqlite3.Connection, *, provider: str, host: str, model: str) -> Capability | None:
    """Return what is known of this host and model; None where nothing is, or nothing that makes sense."""
    row = connection.execute(_READ, (provider, host, model)).fetchone()
    if row is None or not isinstance(row[0], str):
        return None
    try:
        body = asdict(msgspec.json.decode(row[0], type=_CapabilityBody))
    except msgspec.DecodeError:
        return None
    del body["version"]
    body["limits"] = RateLimits(**asdict(body["limits"]))
    return Capability(provider=provider, host=host, model=model, **body)


def write_capability(connection: sqlite3.Connection, capability: Capability, *, at: float) -> None:
    """Replace what was known. at: Unix seconds of now."""
    body = {name: getattr(capability, name) for name in _CapabilityBody.__struct_fields__ if name != "version"}
    text = msgspec.json.encode({"version": CAPABILITY_VERSION, **body}).decode()
    with database.transaction(connection):
        connection.execute(_WRITE, (capability.provider, capability.host, capability.model, text, at))


def delete_capability(connection: sqlite3.Connection, *, provider: str, host: str, model: str) -> None:
    """Forget this host and model."""
    with database.transaction(connection):
        connection.execute(_DELETE, (provider, host, model))


def write_host_limits(
    connection: sqlite3.Connection, *, provider: str, host: str, model: str, limits: RateLimits, at: float
) -> None:
    """Keep the limits that a host stated in ordinary replies; the rest of what is known stays. at: Unix seconds."""
    known = read_capability(connection, provider=provider, host=host, model=model)
    before = known or Capability(provider=provider, host=host, model=model, probed_at=0.0)
    if before.limits != limits:
        write_capability(connection, replace(before, limits=limits), at=at)

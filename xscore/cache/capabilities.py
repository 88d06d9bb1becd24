"""What hosts were found to do with a model, in the store, so that it is found out once and not for every turn.

A row is read strictly, as a stranger's: what does not look exactly like one of ours is not remembered, and then the
host is asked anew; it is never an error. How long a memory holds is decided by whoever asks. Trade-off: it stands in
each repository's own store, so that another repository finds out again, for a fraction of a cent.
"""

import json
import sqlite3
from typing import Annotated, Literal

from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from xscore.platform import database
from xscore.records import Capability, RateLimits, ReplyForm

CAPABILITY_VERSION = 1
"""Of what is found out and how: with another one, hosts are asked again."""

_READ = "SELECT body FROM capability WHERE provider = ? AND host = ? AND model = ?"
_WRITE = """
    INSERT INTO capability (provider, host, model, body, at) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (provider, host, model) DO UPDATE SET body = excluded.body, at = excluded.at
"""
_FORGET = "DELETE FROM capability WHERE provider = ? AND host = ? AND model = ?"
_Count = Annotated[int, Field(ge=1, le=1_000_000_000_000)]
_Name = Annotated[str, Field(pattern=r"^[a-z_]{1,64}$")]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, hide_input_in_errors=True)


class _Limits(_Strict):
    requests_per_minute: _Count | None
    tokens_per_minute: _Count | None
    input_tokens_per_minute: _Count | None
    output_tokens_per_minute: _Count | None


class _Body(_Strict):
    version: Literal[1]
    probed_at: float = Field(ge=0, allow_inf_nan=False)
    reply_form: ReplyForm
    without: tuple[_Name, ...] = Field(max_length=32)
    reports_usage: bool
    reports_cached_tokens: bool
    context_tokens: _Count | None
    reasoning_tokens: int = Field(ge=0, le=1_000_000_000)
    limits: _Limits


def read_capability(connection: sqlite3.Connection, *, provider: str, host: str, model: str) -> Capability | None:
    """Return what is known of this host and model; None where nothing is, or nothing that makes sense."""
    row = connection.execute(_READ, (provider, host, model)).fetchone()
    if row is None:
        return None
    try:
        body = _Body.model_validate_json(row[0])
    except (ValidationError, TypeError):
        return None
    return Capability(
        provider=provider,
        host=host,
        model=model,
        probed_at=body.probed_at,
        reply_form=body.reply_form,
        without=body.without,
        reports_usage=body.reports_usage,
        reports_cached_tokens=body.reports_cached_tokens,
        context_tokens=body.context_tokens,
        reasoning_tokens=body.reasoning_tokens,
        limits=RateLimits(**body.limits.model_dump()),
    )


def write_capability(connection: sqlite3.Connection, capability: Capability, *, at: float) -> None:
    """Keep this in place of what was known. at: unix seconds of now."""
    limits = capability.limits
    body = {
        "version": CAPABILITY_VERSION,
        "probed_at": capability.probed_at,
        "reply_form": capability.reply_form,
        "without": capability.without,
        "reports_usage": capability.reports_usage,
        "reports_cached_tokens": capability.reports_cached_tokens,
        "context_tokens": capability.context_tokens,
        "reasoning_tokens": capability.reasoning_tokens,
        "limits": {name: getattr(limits, name) for name in _Limits.model_fields},
    }
    names = (capability.provider, capability.host, capability.model)
    with database.transaction(connection):
        connection.execute(_WRITE, (*names, json.dumps(body), at))


def delete_capability(connection: sqlite3.Connection, *, provider: str, host: str, model: str) -> None:
    """Know nothing of this host and model any more."""
    with database.transaction(connection):
        connection.execute(_FORGET, (provider, host, model))


def write_host_limits(
    connection: sqlite3.Connection, *, provider: str, host: str, model: str, limits: RateLimits, at: float
) -> None:
    """Keep the limits that a host stated in ordinary replies; the rest of what is known stays. at: unix seconds."""
    known = read_capability(connection, provider=provider, host=host, model=model)
    before = known or Capability(provider=provider, host=host, model=model, probed_at=0.0)
    if before.limits != limits:
        write_capability(connection, replace(before, limits=limits), at=at)

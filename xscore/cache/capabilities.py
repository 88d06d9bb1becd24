"""What hosts can do with a model, cached in the store so that each host is probed once.

A row is read strictly: an invalid one is ignored, and the host is probed again. The caller decides
how long a row is valid. Trade-off: each repository's store has its own rows, so each probes again,
for a fraction of a cent.
"""

import sqlite3
from typing import Literal

import msgspec
from msgspec.structs import replace

from xscore.platform import database
from xscore.records.calls import Capability

CAPABILITY_VERSION = 1
"""Version of the probe: with another one, hosts are probed again."""

_READ = "SELECT body FROM capability WHERE provider = ? AND host = ? AND model = ?"
_WRITE = (
    "INSERT OR REPLACE INTO capability (provider, host, model, body, at) VALUES (?, ?, ?, ?, ?)"
)
_DELETE = "DELETE FROM capability WHERE provider = ? AND host = ? AND model = ?"
_Body = tuple[Literal[1], Capability]
"""A stored body: CAPABILITY_VERSION and the capability."""


def read_capability(
    connection: sqlite3.Connection, *, provider: str, host: str, model: str
) -> Capability | None:
    """Return the capability of this host and model; None if unknown or invalid."""
    row = connection.execute(_READ, (provider, host, model)).fetchone()
    try:
        _, capability = msgspec.json.decode(row[0] if row else "", type=_Body)
    except (msgspec.DecodeError, TypeError):
        return None
    names = (capability.provider, capability.host, capability.model)
    return capability if names == (provider, host, model) else None


def write_capability(
    connection: sqlite3.Connection, capability: Capability, *, at: float
) -> None:
    """Replace the stored capability. at: Unix seconds of now."""
    text = msgspec.json.encode((CAPABILITY_VERSION, capability)).decode()
    with database.transaction(connection):
        connection.execute(
            _WRITE, (capability.provider, capability.host, capability.model, text, at)
        )


def delete_capability(
    connection: sqlite3.Connection, *, provider: str, host: str, model: str
) -> None:
    """Delete the capability of this host and model."""
    with database.transaction(connection):
        connection.execute(_DELETE, (provider, host, model))


def amend_capability(
    connection: sqlite3.Connection,
    *,
    provider: str,
    host: str,
    model: str,
    at: float,
    **learned: object,
) -> None:
    """Store fields that ordinary replies have shown; other fields stay. at: Unix seconds of now."""
    stored = read_capability(connection, provider=provider, host=host, model=model)
    before = stored or Capability(provider=provider, host=host, model=model, probed_at=0.0)
    after = replace(before, **learned)
    if after != before:
        write_capability(connection, after, at=at)

"""What the cache remembers about hosts: values survive the round trip, and implausible ones are
ignored."""

import json
from sqlite3 import Connection
from typing import Any

import pytest
from msgspec.structs import replace

from xscore.cache.capabilities import (
    amend_capability,
    delete_capability,
    read_capability,
    write_capability,
)
from xscore.records.calls import Capability, RateLimits, ReplyForm

NAMES = {"provider": "openai", "host": "127.0.0.1:11434", "model": "gpt-oss:20b"}
FOUND = Capability(
    provider="openai",
    host="127.0.0.1:11434",
    model="gpt-oss:20b",
    probed_at=1_790_000_000.5,
    reply_form=ReplyForm.JSON_OBJECT,
    without=("prompt_cache_key", "temperature"),
    reports_usage=False,
    reports_cached_tokens=True,
    context_tokens=8_192,
    reasoning_tokens=3,
    limits=RateLimits(500, 200_000, None, 8_000),
)


def test_what_was_found_is_remembered(connection: Connection) -> None:
    """Every field comes back as it was, for exactly this host and model."""
    write_capability(connection, FOUND, at=1.0)
    assert read_capability(connection, **NAMES) == FOUND
    for name in NAMES:
        assert read_capability(connection, **{**NAMES, name: "other"}) is None


def test_the_latest_finding_holds(connection: Connection) -> None:
    """A host has one row, which can be replaced or deleted."""
    write_capability(connection, FOUND, at=1.0)
    write_capability(
        connection, replace(FOUND, reply_form=ReplyForm.TEXT, context_tokens=None), at=2.0
    )
    capability = read_capability(connection, **NAMES)
    assert capability is not None
    assert (capability.reply_form, capability.context_tokens) == (ReplyForm.TEXT, None)
    assert connection.execute("SELECT count(*), max(at) FROM capability").fetchone() == (1, 2.0)
    delete_capability(connection, **NAMES)
    assert read_capability(connection, **NAMES) is None


def test_limits_of_ordinary_replies_are_added(connection: Connection) -> None:
    """Limits learned while judging are stored with a probe's findings, or alone if the host was
    never probed."""
    limits = RateLimits(50, 50_000)
    amend_capability(connection, **NAMES, limits=limits, at=1.0)
    alone = read_capability(connection, **NAMES)
    assert alone is not None
    assert alone.probed_at == 0.0
    assert alone.limits == limits
    assert alone.reply_form == ReplyForm.JSON_SCHEMA
    write_capability(connection, FOUND, at=2.0)
    amend_capability(connection, **NAMES, limits=limits, at=3.0)
    assert read_capability(connection, **NAMES) == replace(FOUND, limits=limits)


@pytest.mark.parametrize(
    "change",
    [
        {"host": "elsewhere"},
        {"probed_at": "yesterday"},
        {"reply_form": "xml"},
        {"context_tokens": True},
        {"limits": None},
    ],
    ids=str,
)
def test_what_is_odd_is_not_remembered(connection: Connection, change: dict[str, Any]) -> None:
    """A row with one implausible field, or of another version, is ignored without an error."""
    write_capability(connection, FOUND, at=1.0)
    (text,) = connection.execute("SELECT body FROM capability").fetchone()
    version, body = json.loads(text)
    for odd in ([version, body | change], [version + 1, body]):
        connection.execute("UPDATE capability SET body = ?", (json.dumps(odd),))
        assert read_capability(connection, **NAMES) is None

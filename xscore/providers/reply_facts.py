"""What is read of every reply, whatever the dialect: its JSON, and the numbers that a host states. Pure.

It trusts nothing: HTML at 200, JSON made to break its reader, and counts that cannot be are all met in the field. It
names no field; a dialect knows its own. The trade-off: a number that makes no sense counts as not stated.
"""

import json
from collections.abc import Mapping
from typing import Any

from xscore.providers.wire_errors import Vocabulary
from xscore.records import Request, Usage

OUTPUT_CHARS_PER_TOKEN = 4
MAX_COUNT = 1_000_000_000_000
"""A count above this counts nothing, and would not fit into the ledger."""


def json_object(data: bytes, content_type: str, *, words: Vocabulary, host: str, model: str) -> dict[str, Any]:
    """Return the JSON object of a 200 reply, or raise UnreadableResponse without showing the body."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        kind = content_type.split(";", maxsplit=1)[0].strip() or "no content type"
        what = f"{len(data)} bytes of {kind} that are not JSON"
        raise words.unreadable(what, host=host, model=model) from error
    if not isinstance(found, dict):
        raise words.unreadable(f"a JSON {type(found).__name__} where an object belongs", host=host, model=model)
    return found


def count(value: object) -> int | None:
    """Return a number of tokens; None for what cannot be one."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT else None


def header_count(value: str | None) -> int | None:
    """Return a limit stated in a header; None for what cannot be one."""
    return int(value) if value and len(value) <= len(str(MAX_COUNT)) and value.isdecimal() and int(value) > 0 else None


def section(found: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the object under this name, empty where there is none."""
    inner = found.get(name)
    return inner if isinstance(inner, Mapping) else {}


def estimated_usage(request: Request, text: str) -> Usage:
    """Return our estimate of a call whose host reports no usage."""
    return Usage(input_tokens=request.input_tokens, output_tokens=-(-len(text) // OUTPUT_CHARS_PER_TOKEN))

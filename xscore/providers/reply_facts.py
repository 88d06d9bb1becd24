"""What is read of every reply, whatever the dialect: its JSON, and the numbers that a host states. Pure.

It trusts nothing: HTML at 200, JSON made to break its reader, and counts that cannot be are all met in the field. It
names no field; a dialect knows its own. The trade-off: a number that makes no sense counts as not stated.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from xscore.providers.wire_errors import Vocabulary
from xscore.records import Request, Usage

OUTPUT_CHARS_PER_TOKEN = 4
MAX_COUNT = 1_000_000_000_000
"""A count above this counts nothing, and would not fit into the ledger."""
UNIT_S = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 0.001, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
"""As Go writes durations, and after it the hosts."""
LONGEST_TIME = 32

_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|us|µs|ns|[dhms])")
_TIME = re.compile(rf"(?:{_PART.pattern})+")


def json_object(data: bytes, headers: Mapping[str, str], *, words: Vocabulary, host: str, model: str) -> dict[str, Any]:
    """Return the JSON object of a 200 reply, or raise UnreadableResponse without showing the body."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        kind = headers.get("content-type", "").split(";", maxsplit=1)[0].strip() or "no content type"
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


def seconds(value: str | None) -> float | None:
    """Return a time stated as `6m0s`, `2m59.56s` or `120ms`; None for all else, such as a date or bare number."""
    if not value or len(value) > LONGEST_TIME or not _TIME.fullmatch(value):
        return None
    return sum(float(number) * UNIT_S[unit] for number, unit in _PART.findall(value))


def section(found: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the object under this name, empty where there is none."""
    inner = found.get(name)
    return inner if isinstance(inner, Mapping) else {}


def estimated_usage(request: Request, text: str) -> Usage:
    """Return our estimate of a call whose host reports no usage."""
    return Usage(input_tokens=request.input_tokens, output_tokens=-(-len(text) // OUTPUT_CHARS_PER_TOKEN))

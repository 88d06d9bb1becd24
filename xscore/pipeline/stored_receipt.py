"""Read a stored receipt's JSON back into its record: the reverse of `json_form.to_json`.

It is strict: a value of another type, or a missing field that every receipt has, is damage and is
named. Fields that a later version added are ignored. Apart from the writer, since a turn only
writes.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from xscore.platform.errors import BrokenReceipt, StoreDamaged
from xscore.records.receipt import Answer, StageUsage

_HINT = "`--json` shows what is there of it; the store's other turns are as they were."


def receipt_body(text: str) -> dict[str, Any]:
    """Parse a stored receipt into an object. Raises StoreDamaged."""
    try:
        body = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise StoreDamaged(f"the receipt is damaged: {error}", hint=_HINT) from error
    if not isinstance(body, dict):
        raise StoreDamaged("the receipt is damaged: it is no object", hint=_HINT)
    return body


def read_receipt(text: str) -> Answer:
    """Read a stored receipt; an erased answer is empty.

    Raises StoreDamaged, which names what is missing or wrong.
    """
    body = receipt_body(text)
    try:
        return msgspec.convert(_as_record(body), Answer)
    except msgspec.ValidationError as error:
        raise StoreDamaged(f"the receipt is incomplete: {_fault(error)}", hint=_HINT) from error
    except BrokenReceipt as error:
        raise StoreDamaged(f"the receipt is damaged: {error.message}", hint=_HINT) from error


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no number")


def _as_record(body: Mapping[str, Any]) -> dict[str, Any]:
    """Move fields that the JSON arranges differently to where the record has them."""
    values = {
        name: value
        for name, value in body.items()
        if name not in {"usage", "latency_s", "exit_code"}
    }
    usage = body.get("usage")
    for stage, spent in usage.items() if isinstance(usage, dict) else ():
        own = StageUsage.__struct_fields__
        values[f"{stage}_usage"] = spent
        if isinstance(spent, dict):
            tokens = {name: value for name, value in spent.items() if name not in own}
            values[f"{stage}_usage"] = {**spent, "usage": tokens}
    if "latency_s" in body:
        values["latency"] = body["latency_s"]
    return {**values, "bundle": None}


def _fault(error: msgspec.ValidationError) -> str:
    """Name what is missing or wrong by the names of `docs/reference/json.md`."""
    what, _, place = str(error).partition(" - at `$")
    missing = re.fullmatch("Object missing required field `(.+)`", what)
    parts = [part for part in (place.rstrip("`").strip("."), missing and missing[1]) if part]
    name = re.sub(r"^(\w+)_usage(\.usage)?", r"usage.\1", ".".join(parts).replace("[...]", ""))
    name = re.sub("^latency", "latency_s", name)
    return f"it lacks {name}" if missing else f"{name}: {what[:1].lower()}{what[1:]}"

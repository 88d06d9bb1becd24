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
from xscore.records.calls import Stage
from xscore.records.receipt import Answer, StageUsage

_HINT = "`--json` shows what is left of it; the store's other turns are not affected."


def receipt_body(text: str) -> dict[str, Any]:
    """Parse a stored receipt into an object. Raises StoreDamaged."""
    try:
        body = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise StoreDamaged(f"the receipt is damaged: {error}", hint=_HINT) from error
    if not isinstance(body, dict):
        raise StoreDamaged("the receipt is damaged: it is not an object", hint=_HINT)
    return body


def read_receipt(text: str) -> Answer:
    """Read a stored receipt; an erased answer is empty.

    Raises StoreDamaged, which names what is missing or wrong.
    """
    body = receipt_body(text)
    values = _as_record(body)
    values["usage"] = _usage_by_stage(body.get("usage"))
    try:
        return msgspec.convert(values, Answer)
    except msgspec.ValidationError as error:
        raise _incomplete(_fault(error)) from error
    except BrokenReceipt as error:
        raise StoreDamaged(f"the receipt is damaged: {error.message}", hint=_HINT) from error


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not a number")


def _as_record(body: Mapping[str, Any]) -> dict[str, Any]:
    """Move fields that the JSON arranges differently to where the record has them."""
    values = {
        name: value
        for name, value in body.items()
        if name not in {"usage", "latency_s", "exit_code"}
    }
    if "latency_s" in body:
        values["latency"] = body["latency_s"]
    return {**values, "bundle": None}


def _usage_by_stage(usage: object) -> dict[Stage, StageUsage]:
    """Read what each stage cost. A stage that a later version added is ignored."""
    if not isinstance(usage, dict) or usage.get(Stage.JUDGE) is None:
        raise _incomplete("it lacks usage.judge")
    by_stage: dict[Stage, StageUsage] = {}
    for stage in Stage:
        spent = usage.get(stage)
        if spent is None:
            continue
        # One at a time: the error of a whole receipt would not name the key of a mapping.
        try:
            by_stage[stage] = msgspec.convert(_as_stage_usage(spent), StageUsage)
        except msgspec.ValidationError as error:
            raise _incomplete(_fault(error, within=f"usage.{stage}")) from error
    return by_stage


def _as_stage_usage(spent: object) -> object:
    """Put the tokens, which the JSON has next to the calls and dollars, into a record of their
    own."""
    if not isinstance(spent, dict):
        return spent
    own_fields = StageUsage.__struct_fields__
    tokens = {name: value for name, value in spent.items() if name not in own_fields}
    return {**spent, "usage": tokens}


def _incomplete(fault: str) -> StoreDamaged:
    return StoreDamaged(f"the receipt is incomplete: {fault}", hint=_HINT)


def _fault(error: msgspec.ValidationError, *, within: str = "") -> str:
    """Name what is missing or wrong by the names of `docs/reference/json.md`.

    within: the name of the part that was read.
    """
    problem, _, place = str(error).partition(" - at `$")
    missing = re.fullmatch("Object missing required field `(.+)`", problem)
    inside = place.rstrip("`").strip(".")
    if within:
        inside = re.sub(r"^usage(\.|$)", "", inside)
    parts = [part for part in (within, inside, missing and missing[1]) if part]
    name = re.sub("^latency", "latency_s", ".".join(parts).replace("[...]", ""))
    if missing:
        return f"it lacks {name}"
    return f"{name}: {problem[:1].lower()}{problem[1:]}"

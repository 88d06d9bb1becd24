"""Records to the public JSON, schema 1, as `docs/reference/json.md` lists it; and a stored receipt back to its record.

Money is a decimal string, null is unpriced. Fields may be added within the schema, never renamed or removed. Reading is
strict: a value of another type, or a missing field that every receipt has, is damage and is named; fields that a later
version added are ignored.
"""

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from enum import Enum
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from xscore.platform.errors import BrokenReceipt, StoreDamaged
from xscore.records.memory import Layer
from xscore.records.receipt import Answer, Selected, StageUsage

SCHEMA = 1
STAGES = ("judge", "primary", "probe", "embed", "reason")

_HINT = "`--json` shows what is there of it; the store's other turns are as they were."

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


def to_json(record: object) -> dict[str, Json]:
    """Render a record as the object its command prints, `schema` first."""
    return {"schema": SCHEMA, **(answer_json(record) if isinstance(record, Answer) else record_json(record))}


def record_json(record: object) -> dict[str, Json]:
    """Render a record as it stands inside another object, without a `schema` of its own."""
    body = _value(record)
    assert isinstance(body, dict)
    return body


def receipt_to_store(answer: Answer) -> Answer:
    """Return the receipt as the repository's store keeps it.

    Leaves out the bundle, earlier questions, and words about the user's own memories, which stay in their store.
    Secrets in the answer, which a model may make up or repeat, are redacted.
    """
    from xscore.store.redaction import redact  # the rules are read by turns, not by every command

    return replace(
        answer,
        answer=answer.answer and redact(answer.answer).text,
        bundle=None,
        session=replace(answer.session, last_task="") if answer.session else None,
        carried_over=replace(
            answer.carried_over, under=tuple([replace(one, task="") for one in answer.carried_over.under])
        ),
        selected=tuple(map(_without_user_words, answer.selected)),
        near_misses=tuple(map(_without_user_words, answer.near_misses)),
    )


def _without_user_words(shown: Selected) -> Selected:
    return replace(shown, reason="", title="", entity="") if shown.layer == Layer.USER else shown


def _value(value: object) -> Json:
    """Render any value of the records; field names are the JSON names."""
    if isinstance(value, Struct):
        value = asdict(value)
    match value:
        case Enum():
            return str(value.value)
        case None | bool() | int() | str():
            return value
        case float():
            return round(value, 6)
        case Decimal():
            return money_json(value)
        case Mapping():
            return {str(key): _value(item) for key, item in value.items()}
        case tuple() | list() | frozenset():
            return [_value(item) for item in value]
    raise TypeError(f"{type(value).__name__} has no JSON form")


def money_json(value: Decimal | None) -> str | None:
    """Write dollars without an exponent and without trailing zeros; None stays None (unpriced)."""
    if value is None:
        return None
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def stage_usage_json(stage: StageUsage) -> dict[str, Json]:
    """Render one stage's calls, tokens and money."""
    body = record_json(stage)
    body.pop("usage")
    return {**body, **record_json(stage.usage)}


def answer_json(answer: Answer) -> dict[str, Json]:
    """Render a receipt as an entry of a run's list; with the bundle only if one was asked for."""
    body = record_json(answer)
    del body["exit_code"]
    if answer.bundle is None:
        del body["bundle"]
    usage: dict[str, Json] = {}
    for name in STAGES:
        del body[f"{name}_usage"]
        stage: StageUsage | None = getattr(answer, f"{name}_usage")
        usage[name] = stage_usage_json(stage) if stage else None
    body["usage"] = usage
    body["latency_s"] = body.pop("latency")
    return body


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
    """Read a stored receipt; an erased answer is empty. Raises StoreDamaged, which names what is missing or wrong."""
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
    values = {name: value for name, value in body.items() if name not in {"usage", "latency_s", "exit_code"}}
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

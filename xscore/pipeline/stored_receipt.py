"""Read a stored receipt's JSON back into its record: the reverse of `json_form.to_json`.

It is strict: a value of another type, or a missing field that every receipt has, is damage and is named. Fields that an
earlier version did not write take their defaults and are named; fields that a later version added are ignored.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import fields

from xscore.platform.errors import BrokenReceipt, StoreDamaged
from xscore.records import Answer, StageUsage

_HINT = "`--json` shows what is there of it; the store's other turns are as they were."
_STAGES = ("judge", "primary", "probe", "embed")
_NOT_STORED = frozenset({"bundle", "exit_code"})


class StoredReceipt(Struct, frozen=True):
    """A receipt as the store has it."""

    answer: Answer
    body: Mapping[str, Any]
    """As it stands there, with whatever a later version added."""
    lacks: tuple[str, ...]
    """Fields, as `docs/reference/json.md` names them, that it was written without."""

    @property
    def is_erased(self) -> bool:
        """Whether there was an answer, and it was erased."""
        return self.answer.answer == ""


def receipt_body(text: str) -> dict[str, Any]:
    """Read a stored receipt as far as it is an object. Raises StoreDamaged."""
    try:
        body = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise StoreDamaged(f"the receipt is torn: {error}", hint=_HINT) from error
    if not isinstance(body, dict):
        raise StoreDamaged("the receipt is torn: it is no object", hint=_HINT)
    return body


def read_receipt(text: str) -> StoredReceipt:
    """Read a stored receipt. Raises StoreDamaged, which names what is missing or wrong."""
    body = receipt_body(text)
    values = _as_record(body)
    try:
        answer = msgspec.convert(values, Answer)
    except msgspec.ValidationError as error:
        raise StoreDamaged(f"the receipt is not whole: {_fault(error)}", hint=_HINT) from error
    except BrokenReceipt as error:
        raise StoreDamaged(f"the receipt is damaged: {error.message}", hint=_HINT) from error
    return StoredReceipt(answer, body, tuple(_lacks(Answer, values)))


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no number")


def _as_record(body: Mapping[str, Any]) -> dict[str, Any]:
    """Put what the JSON arranges in its own way where the record has it."""
    values = {name: value for name, value in body.items() if name not in {"usage", "latency_s", *_NOT_STORED}}
    usage = body.get("usage")
    for stage in _STAGES:
        if isinstance(usage, dict) and stage in usage:
            values[f"{stage}_usage"] = _stage(usage[stage])
    if "latency_s" in body:
        values["latency"] = body["latency_s"]
    return {**values, "bundle": None}


def _stage(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    own = StageUsage.__struct_fields__
    return {
        **{name: inner for name, inner in value.items() if name in own},
        "usage": {name: inner for name, inner in value.items() if name not in own},
    }


def _lacks(kind: Any, values: Any, where: str = "") -> Iterator[str]:
    """Name the fields of a record that its values lack, through all that it holds."""
    if isinstance(values, list):
        for name in dict.fromkeys(name for value in values for name in _lacks(kind, value, where)):
            yield name
        return
    if not isinstance(values, dict):
        return
    for field in fields(kind):
        name = f"{where}{field.name}"
        if field.name in values:
            inner = _record_in(field.type)
            if inner is not None:
                yield from _lacks(inner, values[field.name], f"{name}.")
        elif not field.required and name not in _NOT_STORED:
            yield _public(name)


def _record_in(hint: Any) -> Any:
    """Find the record that a field holds: itself, one or none, or a tuple of them."""
    return next((one for one in (hint, *get_args(hint)) if isinstance(one, type) and issubclass(one, Struct)), None)


def _fault(error: msgspec.ValidationError) -> str:
    """Name what is missing or wrong by the names of `docs/reference/json.md`."""
    what, _, place = str(error).partition(" - at `$")
    missing = re.fullmatch("Object missing required field `(.+)`", what)
    parts = [part for part in (place.rstrip("`").strip("."), missing and missing[1]) if part]
    name = _public(".".join(parts).replace("[...]", ""))
    return f"it lacks {name}" if missing else f"{name}: {what[:1].lower()}{what[1:]}"


def _public(name: str) -> str:
    """Write a place in the record as the JSON has it: `judge_usage.usage.calls` is `usage.judge.calls`."""
    head, dot, rest = name.partition(".")
    if head == "latency":
        return f"latency_s{dot}{rest}"
    if head.endswith("_usage"):
        return f"usage.{head.removesuffix('_usage')}{dot}{rest.removeprefix('usage.')}"
    return name

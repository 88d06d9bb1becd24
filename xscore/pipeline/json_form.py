"""Records to the public JSON: schema 1, as `docs/reference/json.md` lists it.

Money is a decimal string, null is unpriced. Fields may be added within the schema, never renamed or removed.
"""

from collections.abc import Mapping
from decimal import Decimal
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from xscore.records import Answer, Layer, Selected, StageUsage
from xscore.store.redaction import redact

SCHEMA = 1

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


def to_json(record: object) -> dict[str, Json]:
    """Render a record as the object its command prints, `schema` first."""
    return {"schema": SCHEMA, **(_answer_body(record) if isinstance(record, Answer) else record_json(record))}


def answer_json(answer: Answer) -> dict[str, Json]:
    """Render a receipt as it stands in the list of a run."""
    return _answer_body(answer)


def record_json(record: object) -> dict[str, Json]:
    """Render a record as it stands inside another object, without a `schema` of its own."""
    body = _value(record)
    assert isinstance(body, dict)
    return body


def receipt_to_store(answer: Answer) -> Answer:
    """Return the receipt as the repository's store keeps it.

    Without the bundle, what was asked before, and words about the user's own memories: those stay in their store.
    The answer is without secrets, which a model may make up or repeat.
    """
    return replace(
        answer,
        answer=answer.answer and redact(answer.answer).text,
        bundle=None,
        session=replace(answer.session, last_task="") if answer.session else None,
        selected=tuple(map(_without_user_words, answer.selected)),
        near_misses=tuple(map(_without_user_words, answer.near_misses)),
    )


def _without_user_words(shown: Selected) -> Selected:
    return replace(shown, reason="", title="", entity="") if shown.layer == Layer.USER else shown


def _value(value: object) -> Json:
    """Render any value of the records; field names are the JSON names."""
    match value:
        case Enum():
            return str(value.value)
        case float():
            return round(value, 6)
        case Decimal():
            return money_json(value)
        case Mapping():
            return {str(key): _value(item) for key, item in value.items()}
        case tuple() | list() | frozenset():
            return [_value(item) for item in value]
    return _record(value) if isinstance(value, Struct) else _scalar(value)


def _record(value: Struct) -> Json:
    return {name: _value(getattr(value, name)) for name in value.__struct_fields__}


def _scalar(value: object) -> Json:
    if value is None or isinstance(value, bool | int | str):
        return value
    raise TypeError(f"{type(value).__name__} has no JSON form")


def money_json(value: Decimal | None) -> str | None:
    """Write dollars without an exponent and without trailing zeros; None stays None (unpriced)."""
    if value is None:
        return None
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def stage_usage_json(stage: StageUsage) -> dict[str, Json]:
    """Render one stage's calls, tokens and money."""
    usage = _value(stage.usage)
    assert isinstance(usage, dict)
    return {
        "calls": stage.calls,
        "attempts": stage.attempts,
        **usage,
        "cost_usd": money_json(stage.cost_usd),
        "estimated": stage.estimated,
    }


def _answer_body(answer: Answer) -> dict[str, Json]:
    """Render the receipt; the bundle is there only where one was asked for."""
    own = ("judge_usage", "primary_usage", "probe_usage", "embed_usage", "latency", "bundle", "exit_code")
    body = {name: _value(getattr(answer, name)) for name in answer.__struct_fields__ if name not in own}
    if answer.bundle is not None:
        body["bundle"] = answer.bundle
    body["usage"] = {
        "judge": stage_usage_json(answer.judge_usage),
        "primary": stage_usage_json(answer.primary_usage) if answer.primary_usage else None,
        "probe": stage_usage_json(answer.probe_usage) if answer.probe_usage else None,
        "embed": stage_usage_json(answer.embed_usage) if answer.embed_usage else None,
    }
    body["latency_s"] = _value(answer.latency)
    return body

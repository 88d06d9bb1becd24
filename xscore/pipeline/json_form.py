"""Records to the public JSON, schema 1, as `docs/reference/json.md` lists it; `stored_receipt`
reads a receipt back.

Money is a decimal string, null is unpriced. Fields may be added within the schema, never renamed or
removed.
"""

import json
from collections.abc import Mapping
from decimal import Decimal
from enum import Enum

from msgspec import Struct
from msgspec.structs import astuple, replace

from xscore.platform.text import escape_in_json
from xscore.records.calls import Stage
from xscore.records.memory import Layer
from xscore.records.receipt import Answer, Selected, StageUsage
from xscore.store.redaction import redact

SCHEMA = 1

_PLAIN = frozenset({str, int, bool, type(None)})
"""Types that are the same in JSON; an enum's member is of none of them."""

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


def to_json(record: object) -> dict[str, Json]:
    """Render a record as the object its command prints, `schema` first."""
    if isinstance(record, Answer):
        body = answer_json(record)
    else:
        body = record_json(record)
    return {"schema": SCHEMA, **body}


def record_json(record: object) -> dict[str, Json]:
    """Render a record as it is inside another object, without a `schema` of its own."""
    body = _value(record)
    assert isinstance(body, dict)
    return body


def script_json(values: object) -> str:
    """Return values as JSON that is safe within a `script` element of a page."""
    text = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
    # `</script>` and `<!--` would mean something to the parser of the page.
    return escape_in_json(text.replace("<", "\\u003c"))


def receipt_to_store(answer: Answer) -> Answer:
    """Return the receipt as the repository's store keeps it.

    Leaves out the bundle, earlier questions, and words about the user's own memories, which stay in
    their store. Secrets in the answer, which a model may make up or repeat, are redacted.
    """
    session = answer.session
    if session is not None:
        session = replace(session, last_task="")
    sources = [replace(source, task="") for source in answer.carried_over.under]
    return replace(
        answer,
        answer=answer.answer and redact(answer.answer).text,
        bundle=None,
        session=session,
        carried_over=replace(answer.carried_over, under=tuple(sources)),
        selected=tuple(map(_without_user_words, answer.selected)),
        near_misses=tuple(map(_without_user_words, answer.near_misses)),
    )


def _without_user_words(shown: Selected) -> Selected:
    if shown.layer == Layer.USER:
        return replace(shown, reason="", title="", entity="")
    return shown


def _value(value: object) -> Json:
    """Render any value of the records. A field has its own name, or the one that it is declared to
    be written under."""
    # Most values: a pattern of each class is asked in turn below.
    if type(value) in _PLAIN:
        return value  # type: ignore[return-value]  # mypy does not follow the set
    match value:
        case Struct():
            fields = zip(value.__struct_encode_fields__, astuple(value), strict=True)
            return {
                name: item if type(item) in _PLAIN else _value(item) for name, item in fields
            }
        case Enum():
            return str(value.value)
        case float() | Decimal():
            return money_json(value) if isinstance(value, Decimal) else round(value, 6)
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
    if "." in text:
        return text.rstrip("0").rstrip(".")
    return text


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
    for stage in Stage:
        spent = answer.usage.get(stage)
        usage[str(stage)] = None if spent is None else stage_usage_json(spent)
    body["usage"] = usage
    body["latency_s"] = body.pop("latency")
    return body

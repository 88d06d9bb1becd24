"""Our request bodies are what the vendor's own SDK says a request is."""

from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from openai.types.chat import ChatCompletionContentPartTextParam
from openai.types.chat.completion_create_params import (
    CompletionCreateParamsNonStreaming,
    CompletionCreateParamsStreaming,
)
from pydantic import TypeAdapter, ValidationError

from tests.providers.conftest import MakeRequest
from xscore.providers.catalog import FAMILIES, declared
from xscore.providers.openai_request import Dialect, body, weaker
from xscore.records import ReplyForm

PLAIN: TypeAdapter[Any] = TypeAdapter(CompletionCreateParamsNonStreaming)
STREAMING: TypeAdapter[Any] = TypeAdapter(CompletionCreateParamsStreaming)
OFFICIAL = Dialect(official=True)
MODELS = ["gpt-6-luna", "gpt-6.1-sol", "gpt-5.4-nano", "gpt-5-mini", "gpt-4.1-nano", "o4-mini", "llama3.2:3b"]


def check(fields: dict[str, Any]) -> None:
    """Validate a body against the SDK's request type, unknown fields and lazy parts included."""
    params = CompletionCreateParamsStreaming if fields.get("stream") else CompletionCreateParamsNonStreaming
    unknown = set(fields) - set(params.__annotations__) - set(_base_names(params))
    if unknown:
        raise ValueError(f"unknown fields {unknown}")
    _drain((STREAMING if fields.get("stream") else PLAIN).validate_python(fields))
    for message in fields["messages"]:
        for part in message["content"] if isinstance(message["content"], list) else ():
            if set(part) - set(ChatCompletionContentPartTextParam.__annotations__):
                raise ValueError("unknown field in a part")


def _base_names(params: type) -> set[str]:
    return {name for base in getattr(params, "__orig_bases__", ()) for name in getattr(base, "__annotations__", {})}


def _drain(value: object) -> None:
    """Visit everything: pydantic checks an Iterable only as it is read."""
    if isinstance(value, Mapping):
        for inner in value.values():
            _drain(inner)
    elif isinstance(value, Iterable) and not isinstance(value, str | bytes):
        for inner in value:
            _drain(inner)


BAD: list[dict[str, Any]] = [
    {"temperature": "hot"},
    {"reasoning_effort": "lowest"},
    {"messages": [{"role": "alien", "content": "x"}]},
    {"messages": [{"role": "user", "content": [{"type": "text"}]}]},
    {"messages": [{"role": "user", "content": [{"type": "text", "text": "x", "cache_control": {}}]}]},
    {"response_format": {"type": "json_schema", "json_schema": {"strict": True}}},
    {"response_format": {"type": "xml"}},
    {"prompt_cache_options": {"mode": "sometimes"}},
    {"max_output_tokens": 5},
    {"stop_sequences": ["x"]},
]


@pytest.mark.parametrize("change", BAD, ids=lambda change: next(iter(change)))
def test_a_known_bad_request_is_seen_to_fail(judging: MakeRequest, change: dict[str, Any]) -> None:
    """The check below can fail: each of these requests is wrong and is caught."""
    good = body(judging(), OFFICIAL, stream=False)
    check(good)
    with pytest.raises((ValidationError, ValueError)):
        check(good | change)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("form", ReplyForm)
@pytest.mark.parametrize("stream", [False, True])
def test_a_request_fits_the_sdks_own_type(judging: MakeRequest, model: str, form: ReplyForm, stream: bool) -> None:
    """Judging and answering requests, for every family, strict or degraded, streamed or not, are well formed."""
    settings = declared("openai", model)
    dialect = Dialect(official=True, form=form)
    judged = judging(model=model, reasoning=settings.reasoning, temperature=settings.temperature)
    check(body(judged, dialect, stream=stream))
    check(body(judging(model=model, reply_ids=()), dialect, stream=stream))


def test_every_declared_effort_is_one_the_sdk_knows(judging: MakeRequest) -> None:
    """The catalogue's lowest efforts are words of the API."""
    for _, settings in FAMILIES:
        check(body(judging(reasoning=settings.reasoning), OFFICIAL, stream=False))


def test_a_request_carries_only_what_is_declared(judging: MakeRequest) -> None:
    """No effort, temperature or cache mark is sent where none is declared."""
    fields = body(judging(cache_key=""), Dialect(official=False), stream=False)
    assert set(fields) == {"model", "messages", "max_completion_tokens", "response_format"}


def test_the_vendors_host_is_told_to_keep_nothing(judging: MakeRequest) -> None:
    """P08: the vendor's own host, which may keep completions, is asked not to; others are not sent the field."""
    assert body(judging(), OFFICIAL, stream=False)["store"] is False
    assert "store" not in body(judging(), Dialect(official=False), stream=False)


def test_only_the_pack_is_marked_for_the_cache(judging: MakeRequest) -> None:
    """With and without a mark the model reads the same text, and the turn is never inside the marked prefix."""
    request = judging(model="gpt-6-luna")
    user = body(request, OFFICIAL, stream=False)["messages"][1]["content"]
    assert "".join(part["text"] for part in user) == "\n\n".join(request.content)
    assert ["prompt_cache_breakpoint" in part for part in user] == [True, False]
    assert user[0]["text"] == request.content[0]


def test_memories_never_stand_in_the_system_role(judging: MakeRequest) -> None:
    """The system message is ours alone."""
    request = judging()
    system, user = body(request, OFFICIAL, stream=False)["messages"]
    assert system == {"role": "system", "content": request.system}
    assert user["role"] == "user"


def test_a_weaker_dialect_ends(judging: MakeRequest) -> None:
    """A host that refuses everything is asked finitely often, and an unrelated refusal changes nothing."""
    request = judging(model="gpt-6-luna", temperature=0.0)
    dialect: Dialect | None = OFFICIAL
    steps = 0
    while dialect is not None:
        words = "response_format temperature store prompt_cache_key prompt_cache_options prompt_cache_breakpoint"
        dialect = weaker(dialect, request, {"message": f"{words} stream_options max_completion_tokens"})
        steps += 1
    assert steps < 15
    assert weaker(OFFICIAL, request, {"message": "the moon is full"}) is None
    assert weaker(OFFICIAL, request, "plain text about response_format") is None


def test_a_field_named_by_its_place_is_recognised(judging: MakeRequest) -> None:
    """Servers built on FastAPI name the field in `detail[].loc`; the input they echo is not read."""
    echo = {"detail": [{"loc": ["body", "prompt_cache_key"], "input": {"text": "response_format"}}]}
    found = weaker(OFFICIAL, judging(), echo)
    assert found is not None
    assert found.without == {"prompt_cache_key"}
    assert found.form is ReplyForm.JSON_SCHEMA

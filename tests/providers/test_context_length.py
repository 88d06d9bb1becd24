"""What servers report about their contexts, in each server's format."""

from typing import Any

import pytest

from tests.providers.conftest import Connected
from tests.servers.limited_server import LimitedServer
from xscore.providers.host_facts import (
    is_model_listed,
    listed_model_names,
    served_context,
    trained_context,
)

LLAMA_CPP = {
    "models": [{"name": "smollm2.gguf", "details": {"format": "gguf"}}],
    "data": [
        {
            "id": "smollm2.gguf",
            "object": "model",
            "meta": {"n_ctx": 4_096, "n_ctx_train": 8_192, "n_vocab": 9},
        }
    ],
}
"""The answer of build 11549 to `GET /v1/models`."""


@pytest.mark.parametrize(
    ("listing", "tokens"),
    [
        ({"data": [{"id": "m", "max_model_len": 32_768}]}, 32_768),
        (
            {
                "data": [
                    {
                        "id": "m",
                        "context_length": 200_000,
                        "top_provider": {"context_length": 128_000},
                    }
                ]
            },
            128_000,
        ),
        ({"data": [{"id": "m", "context_window": 131_072}]}, 131_072),
        (
            {
                "data": [
                    {"id": "m", "loaded_context_length": 4_096, "max_context_length": 131_072}
                ]
            },
            4_096,
        ),
        (
            {
                "models": [
                    {
                        "key": "m",
                        "loaded_instances": [
                            {"id": "m:2", "config": {"context_length": 8_192}}
                        ],
                    }
                ]
            },
            8_192,
        ),
        ({"models": [{"name": "m:latest", "context_length": 4_096}]}, 4_096),
        ({"data": [{"id": "models/m", "inputTokenLimit": 1_048_576}]}, 1_048_576),
        (LLAMA_CPP, 4_096),
    ],
    ids=[
        "vLLM",
        "OpenRouter",
        "Groq",
        "LM Studio 0.3",
        "LM Studio 0.4",
        "Ollama",
        "Google",
        "llama.cpp",
    ],
)
def test_each_server_is_understood(listing: dict[str, Any], tokens: int) -> None:
    """The loaded length is found in each server's own field, before the trained length."""
    assert served_context(listing, "m") == tokens


def test_what_a_model_was_made_for_is_told_apart() -> None:
    """A trained length is marked as such: the server may have loaded less."""
    assert trained_context(LLAMA_CPP, "whatever") == 8_192
    assert served_context({"data": [{"id": "m", "max_context_length": 131_072}]}, "m") is None


@pytest.mark.parametrize(
    "odd", [True, -1, 0, 64, 10**12, "8192", 8192.0, None, [8192], {"n": 8192}], ids=repr
)
def test_a_number_that_is_none_is_silence(odd: object) -> None:
    """Only a plausible integer is believed."""
    model = {"id": "m", "context_length": odd, "meta": odd, "loaded_instances": odd}
    assert served_context({"data": [model]}, "m") is None
    assert served_context({"default_generation_settings": {"n_ctx": odd}}, "m") is None
    assert served_context({"data": odd}, "m") is None


def test_another_models_length_is_not_this_ones() -> None:
    """If there are several models, only the named one counts."""
    two = {"data": [{"id": "a", "context_length": 4_096}, {"id": "b", "context_length": 8_192}]}
    assert (served_context(two, "b"), served_context(two, "c")) == (8_192, None)


def test_names_are_read_as_their_hosts_write_them() -> None:
    """A host's prefix or tag on a name does not make another model."""
    listed = listed_model_names(
        {
            "data": [
                {"id": "models/gemini-3-flash"},
                {"id": "llama3.2:latest"},
                {"object": "model"},
                "x",
            ]
        }
    )
    assert listed == ("models/gemini-3-flash", "llama3.2:latest")
    assert is_model_listed("gemini-3-flash", listed) and is_model_listed("Llama3.2", listed)
    assert not is_model_listed("llama3", listed)


@pytest.mark.parametrize(
    ("entry", "context_fields", "tokens"),
    [
        ({"max_model_len": 16_384}, {}, 16_384),
        ({}, {"/props": {"default_generation_settings": {"n_ctx": 2_048}}}, 2_048),
        ({}, {"/api/ps": {"models": [{"model": "m1", "context_length": 4_096}]}}, 4_096),
        (
            {},
            {
                "/api/ps": {"models": []},
                "/api/v1/models": {"models": [{"key": "m1", "max_context_length": 9_999}]},
            },
            None,
        ),
        (
            {},
            {"/api/v0/models": {"data": [{"id": "m1", "loaded_context_length": 5_000}]}},
            5_000,
        ),
        (
            {"meta": {"n_ctx_train": 8_192}},
            {"/props": {"default_generation_settings": {"n_ctx": 2_048}}},
            2_048,
        ),
        ({"meta": {"n_ctx_train": 8_192}}, {}, 8_192),
        ({}, {"/props": "not an object"}, None),
    ],
)
async def test_a_server_on_this_machine_is_asked(
    connected: Connected,
    entry: dict[str, Any],
    context_fields: dict[str, Any],
    tokens: int | None,
) -> None:
    """If the list of models is silent, a loopback server is asked what it has loaded; silence is no
    error."""
    with LimitedServer(models=("m1",), entry=entry, context_fields=context_fields) as server:
        async with connected(server.url) as provider:
            assert await provider.context_tokens("m1") == tokens

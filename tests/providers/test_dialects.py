"""Common to both dialects, against a real server on loopback; faults are in
`test_dialect_faults`."""

import json
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from tests.providers.conftest import DialectServer, MakeRequest
from tests.servers import table
from xscore.platform.errors import AuthenticationFailed
from xscore.providers.spec import ModelSpec, connect_provider
from xscore.records.calls import Finish
from xscore.settings import Settings
from xscore.settings.load import VENDORS


async def test_a_judging_call_scores_every_id(
    spoken: DialectServer, judging: MakeRequest
) -> None:
    """X05: one call carries a pack and returns a score for each of its ids, with the host's
    usage."""
    spoken.server.score = table({"entity_k1": 92})
    async with spoken.connected(spoken.server.url) as provider:
        completion = await provider.complete(judging())
    reply = json.loads(completion.text)
    assert reply["scores"] == {"k0": 3, "k1": 92, "k2": 3}
    assert reply["reasons"] == [{"id": "k1", "reason": "listed as entity_k1"}]
    assert completion.finish is Finish.STOP
    assert completion.usage_reported
    assert completion.usage.input_tokens == spoken.server.counts.prompt_tokens
    assert completion.model == judging().model


async def test_a_judging_call_is_what_the_sdk_would_send(
    spoken: DialectServer, judging: MakeRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host gets the same body and headers, except those that name the SDK."""
    monkeypatch.setenv(f"{spoken.name.upper()}_CUSTOM_HEADERS", "X-Team: search\nX-Region: eu")
    request = judging(task="Ünïcode \u2028 \x7f\x01 …", temperature=0.0)
    key = "sk-test-1234567890"
    clients: dict[str, type[AsyncOpenAI] | type[AsyncAnthropic]] = {
        "openai": AsyncOpenAI,
        "anthropic": AsyncAnthropic,
    }
    async with spoken.connected(spoken.server.url, key=key) as provider:
        await provider.complete(request)
        body = provider.fields(request, provider.learned(request.model), stream=False)
        client = clients[spoken.name](api_key=key, base_url=provider.base_url, max_retries=0)
        async with client:
            client._client.headers["Accept-Encoding"] = "identity"
            await client.post(provider.profile.path, cast_to=httpx2.Response, body=body)
    (ours, sdks), bodies = spoken.server.counts.headers, spoken.server.counts.bodies
    assert bodies[0] == bodies[1] and int(ours["content-length"]) == int(sdks["content-length"])
    assert ours.items() <= {name: sdks.get(name) for name in ours}.items() | {
        ("user-agent", ours["user-agent"])
    }
    left_out = {name for name in sdks if name not in ours}
    assert all(name.startswith("x-stainless") or name == "connection" for name in left_out), (
        left_out
    )


async def test_a_key_goes_to_the_host_and_a_dummy_to_loopback(
    spoken: DialectServer, judging: MakeRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the configured key is sent; a local server without one gets a dummy, and none of the
    environment."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.setenv(name, "sk-of-the-environment")
    for key in ("sk-test-1234567890", ""):
        async with spoken.connected(spoken.server.url, key=key) as provider:
            await provider.complete(judging())
    assert spoken.server.counts.keys == {"sk-test-1234567890", "none"}


async def test_text_arrives_while_it_is_written(
    spoken: DialectServer, judging: MakeRequest
) -> None:
    """X11: an answer streams piece by piece, ends with the host's usage, and is one request."""
    spoken.server.answer = "In `cache.judgments`, by the writer's own thread."
    pieces: list[str] = []
    request = judging(reply_ids=(), content=("Explain.",), input_tokens=3)
    async with spoken.connected(spoken.server.url) as provider:
        completion = await provider.complete(request, pieces.append)
    assert len(pieces) > 2
    assert "".join(pieces) == completion.text == spoken.server.answer
    assert completion.usage_reported
    assert completion.usage.input_tokens == spoken.server.counts.prompt_tokens
    assert completion.usage.output_tokens > 5
    assert spoken.server.counts.requests == 1


async def test_the_host_lists_its_models(spoken: DialectServer) -> None:
    """`doctor` can list a host's models."""
    spoken.server.models = ("judge-2", "gpt-oss:20b")
    async with spoken.connected(spoken.server.url) as provider:
        assert await provider.models() == ("judge-2", "gpt-oss:20b")


@pytest.mark.parametrize("vendor", VENDORS)
def test_a_remote_host_needs_a_key(vendor: str) -> None:
    """Without a key nothing is sent to another machine; the hint names the variable."""
    with pytest.raises(AuthenticationFailed, match=rf"no key for api\.{vendor}\.com") as caught:
        connect_provider(ModelSpec(vendor, "m"), Settings())
    assert f"{vendor.upper()}_API_KEY" in caught.value.hint


@pytest.mark.parametrize("vendor", VENDORS)
def test_connecting_loads_no_sdk(vendor: str, tmp_path: Path) -> None:
    """Building a provider and its wrappers imports no heavy module; only a call does."""
    program = (
        "import sys\nfrom xscore.providers import attempts, limits, prices, spec\nfrom"
        " xscore.settings import AnthropicSettings, OpenAISettings, Settings\nurl ="
        " 'http://127.0.0.1:9'\nsettings = Settings(openai=OpenAISettings(base_url=url),"
        " anthropic=AnthropicSettings(base_url=url))\nprovider ="
        f" spec.connect_provider(spec.parse_model_spec('{vendor}:m'),"
        " settings)\nlimits.Limited(attempts.Metered(attempts.Retrying(provider, attempts=2),"
        " turn_id='t', record=print))\nprint(sorted({'anthropic', 'openai', 'aiohttp', 'httpx2',"
        " 'genai_prices'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert done.stdout.strip() == "[]"

"""Decision requests match the vendors' own SDKs; no reply of any kind leads to a wrong score."""

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from openai.types.decision import Decision
from openai.types.decision_create_params import DecisionCreateParams
from typesafe_sdk._schemas.models import SystemOneRequest, SystemOneResponse

from tests.providers.contracts import MEMBERS, TEXTS, TURN, strictly
from tests.servers.decision_server import ANSWER_WIRES, DecisionServer
from xscore.platform.errors import (
    AuthenticationFailed,
    CallTimedOut,
    Overloaded,
    ProviderError,
    RateLimited,
    UnknownModel,
    UnreadableResponse,
    UsageError,
    XscoreError,
)
from xscore.prompts.judge import LEVELS, JudgeModel
from xscore.prompts.turn_text import turn_block
from xscore.providers.decision_hosts import DECISION_HOSTS
from xscore.providers.decisions import DecisionProvider
from xscore.providers.prices import call_price, cost_upper_bound
from xscore.providers.spec import ModelSpec, host_with_key, parse_model_spec
from xscore.records.calls import DecisionForm, Request, Stage, Usage
from xscore.scorer.packs import Pack, PackProfile
from xscore.scorer.prompt_builder import PromptBuilder, decision_layout, parse_answers
from xscore.settings import DecisionSettings, HostAccess, Secret, Settings, load_settings
from xscore.settings.load import DECISION_VENDORS

FORMS = tuple(DecisionForm)
OPENAI_TYPES = strictly(DecisionCreateParams)


@pytest.fixture
def server() -> Iterator[DecisionServer]:
    """A host, well-behaved by default."""
    with DecisionServer() as running:
        yield running


def request_of(form: DecisionForm, *, timeout_s: float = 5.0) -> Request:
    """Make a request about twenty memories."""
    layout, profile = (
        decision_layout(form, 48_000),
        PackProfile(tokens=40_000, size=400, is_independent=True),
    )
    drafts = PromptBuilder(
        JudgeModel(name="jev-1.14.0", timeout_s=timeout_s), profile, b"s", layout=layout
    )
    pack = Pack("q_1", MEMBERS)
    (ask,) = drafts.prompts_of(pack, drafts.pieces_of(pack, TEXTS))
    return drafts.request(ask, turn_block(TURN))[0]


def provider_at(url: str, wire: str = "systemone", key: str = "") -> DecisionProvider:
    """Connect to a host of the user's own."""
    return DecisionProvider(
        wire,
        "jev-1.14.0",
        Settings(decisions=DecisionSettings(hosts={wire: HostAccess(url, Secret(key))})),
    )


@pytest.mark.parametrize("form", FORMS)
def test_requests_are_what_the_sdks_say(form: DecisionForm) -> None:
    """No unknown and no missing field, for either API."""
    request = request_of(form)
    OPENAI_TYPES.validate_python(
        provider_at("http://127.0.0.1:1", "decisions").fields(request), strict=True
    )
    SystemOneRequest.model_validate(
        provider_at("http://127.0.0.1:1").fields(request), strict=True, extra="forbid"
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("wire", ANSWER_WIRES)
async def test_what_the_sdk_would_read_is_read(
    server: DecisionServer, wire: str, form: DecisionForm
) -> None:
    """The loopback host's replies pass the SDKs' reply types, and each memory gets its own
    score."""
    seen: list[dict[str, Any]] = []

    def keep(reply: dict[str, Any]) -> dict[str, Any]:
        seen.append(reply)
        return reply

    server.spoil, request, provider = keep, request_of(form), provider_at(server.url, wire)
    completion = await provider.complete(request)
    await provider.aclose()
    reply_type = Decision if wire == "decisions" else SystemOneResponse
    reply_type.model_validate(seen[0], strict=True)
    reply = parse_answers(completion.text, request.reply_ids)
    assert len(reply.scores) == len(MEMBERS)
    assert completion.usage_reported and completion.usage.input_tokens == server.tokens
    assert (reply.foreign, reply.void) == (0, 0)


@pytest.mark.parametrize(
    "spoiled",
    [
        '"label": 0.5, "label"',
        '"probability": 0.5, "probability"',
        '"label": {}, "x"',
        '"label": [], "x"',
    ],
)
def test_a_level_that_repeats_a_name_or_has_none_is_no_level(spoiled: str) -> None:
    """An ambiguous level gives its question no score, and the others keep theirs."""
    request, labels = request_of(DecisionForm.SCORE), [name for name, _ in LEVELS]
    shares = [
        {"label": label, "probability": float(label == "needed"), "value": 1}
        for label in labels
    ]
    answers = [
        {"name": name, "type": "score", "probabilities": shares} for name in request.reply_ids
    ]
    data = json.dumps({"model": "m", "answers": answers})
    data = data.replace(spoiled.partition(":")[0], spoiled, 1)
    completion = provider_at("http://127.0.0.1:1", "decisions").read(data.encode(), {}, request)
    reply = parse_answers(completion.text, request.reply_ids)
    assert set(request.reply_ids) - reply.scores.keys() == {request.reply_ids[0]}


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"<html>", UnreadableResponse),
        (b"[]", UnreadableResponse),
        (b"{}", UnreadableResponse),
        (b'{"answers": {}, "answers": {}}', UnreadableResponse),
        (b'{"answers": 3}', UnreadableResponse),
        (b'{"error": {"message": "no money", "code": 429}}', RateLimited),
        (b"[" * 100_000, UnreadableResponse),
    ],
)
async def test_a_success_that_is_none_says_so(
    server: DecisionServer, data: bytes, error: type[ProviderError]
) -> None:
    """A page, a list, an empty object, duplicate names: an error that names the host, and no
    score."""
    server.spoil = lambda reply: data
    provider = provider_at(server.url)
    with pytest.raises(error, match=r"127\.0\.0\.1"):
        await provider.complete(request_of(DecisionForm.PREDICATE))
    await provider.aclose()


@pytest.mark.parametrize(
    ("status", "error"),
    [(401, AuthenticationFailed), (404, UnknownModel), (429, RateLimited), (503, Overloaded)],
)
async def test_statuses_are_told_apart(
    server: DecisionServer, status: int, error: type[ProviderError]
) -> None:
    """The status table is the same as for chat."""
    server.status = lambda body: (status, "no")
    provider = provider_at(server.url)
    with pytest.raises(error, match=str(status)):
        await provider.complete(request_of(DecisionForm.PREDICATE))
    await provider.aclose()


async def test_the_name_of_a_model_is_not_taken_on_trust(server: DecisionServer) -> None:
    """A name that contains the key, cannot be printed or is endless does not become the judge's."""
    server.api_key = "sk-key-that-is-long-enough"
    provider, request = (
        provider_at(server.url, key=server.api_key),
        request_of(DecisionForm.PREDICATE),
    )
    for name, learned in (
        (f"m {server.api_key}", "m [key]"),
        ("\x1b[2J", request.model),
        ("x" * 9_999, request.model),
    ):
        server.model = name
        assert (await provider.complete(request)).model == learned
        assert provider.learned("m").answered_by == learned
    await provider.aclose()


async def test_a_silent_host_ends_at_the_deadline(server: DecisionServer) -> None:
    """A call has its own deadline."""
    server.latency_s = 30
    provider = provider_at(server.url)
    with pytest.raises(CallTimedOut):
        await provider.complete(request_of(DecisionForm.PREDICATE, timeout_s=0.2))
    await provider.aclose()


async def test_the_key_goes_to_its_host_and_is_never_shown(server: DecisionServer) -> None:
    """The bearer token is sent; an error that repeats it does not show it."""
    server.api_key = "sk-key-that-is-long-enough"
    provider = provider_at(server.url, key=server.api_key)
    assert (await provider.complete(request_of(DecisionForm.PREDICATE))).text
    server.status = lambda body: (400, f"bad {server.api_key}")
    with pytest.raises(ProviderError) as caught:
        await provider.complete(request_of(DecisionForm.PREDICATE))
    assert "sk-key" not in str(caught.value)
    await provider.aclose()


def test_the_environment_is_read_for_every_declared_host() -> None:
    """`DECISION_VENDORS` names each of `DECISION_HOSTS`, but for OpenAI, which is read as a vendor,
    and a file on this machine."""
    assert set(DECISION_VENDORS) == DECISION_HOSTS.keys() - {"openai-decisions", "llama"}


def test_each_vendor_has_its_own_variables() -> None:
    """Key and base URL come from the vendor's own variables; a user's own host needs a base URL."""
    environ = {"TYPESAFE_API_KEY": "k1", "PERPLEXITY_BASE_URL": "http://127.0.0.1:9"}
    settings = load_settings(repo_root=None, user_file=None, environ=environ).settings
    assert host_with_key(parse_model_spec("typesafe:jev-1.14.0"), settings) == "api.typesafe.ai"
    assert (
        host_with_key(parse_model_spec("perplexity:pplx-decider-v1.2"), settings)
        == "127.0.0.1:9"
    )
    with pytest.raises(AuthenticationFailed) as caught:
        host_with_key(parse_model_spec("openrouter:typesafe/jev-1.14"), settings)
    assert "OPENROUTER_API_KEY" in caught.value.hint
    with pytest.raises(UsageError):
        host_with_key(ModelSpec("decisions", "any"), settings)


@pytest.mark.parametrize(
    ("spec", "environ", "error", "says"),
    [
        ("decisions:m", {}, UsageError, "DECISIONS_BASE_URL"),
        (
            "systemone:m",
            {"SYSTEMONE_BASE_URL": "localhost:80/v1"},
            UsageError,
            "SYSTEMONE_BASE_URL is not",
        ),
        (
            "decisions:m",
            {"DECISIONS_BASE_URL": "https://models.example.com"},
            AuthenticationFailed,
            "DECISIONS_API_KEY",
        ),
        (
            "typesafe",
            {"TYPESAFE_API_KEY": "sk-ant-api03-x"},
            AuthenticationFailed,
            "belongs to anthropic.com",
        ),
        (
            "openai-chat:m",
            {"OPENAI_API_KEY": "pplx-0123456789"},
            AuthenticationFailed,
            "belongs to perplexity.ai",
        ),
        (
            "anthropic:m",
            {"ANTHROPIC_API_KEY": "sk-or-v1-012345"},
            AuthenticationFailed,
            "belongs to openrouter.ai",
        ),
        (
            "openrouter:",
            {"OPENROUTER_API_KEY": "sk-or-v1-012345"},
            UsageError,
            "names no model",
        ),
        (
            "fireworks",
            {"FIREWORKS_API_KEY": "fw_0123456789"},
            UsageError,
            "is not a known model",
        ),
    ],
)
def test_what_cannot_be_sent_is_said_before_anything_is(
    spec: str, environ: dict[str, str], error: type[XscoreError], says: str
) -> None:
    """No host, no key, another vendor's key, no model: the message names the variable, and never
    the key."""
    settings = load_settings(repo_root=None, user_file=None, environ=environ).settings
    with pytest.raises(error) as caught:
        host_with_key(parse_model_spec(spec), settings)
    message = f"{caught.value} {caught.value.hint}"
    assert says in message
    assert not any(value in message for name, value in environ.items() if name.endswith("_KEY"))


def test_a_gateway_may_take_any_vendors_key() -> None:
    """Only the vendors' own hosts refuse a key by its prefix."""
    environ = {
        "OPENAI_BASE_URL": "https://gateway.example.com/v1",
        "OPENAI_API_KEY": "sk-ant-api03-x",
    }
    settings = load_settings(repo_root=None, user_file=None, environ=environ).settings
    assert host_with_key(parse_model_spec("openai-chat:m"), settings) == "gateway.example.com"
    assert parse_model_spec("typesafe") == ModelSpec(
        "typesafe", DECISION_HOSTS["typesafe"].model
    )


@pytest.mark.parametrize("wire", ANSWER_WIRES)
async def test_answers_of_another_wire_are_named(server: DecisionServer, wire: str) -> None:
    """A host that answers in the form of another wire is distinguished from a silent one."""
    server.spoil = lambda reply: {
        **reply,
        "answers": {} if isinstance(reply["answers"], list) else [],
    }
    provider = provider_at(server.url, wire)
    with pytest.raises(UnreadableResponse, match="another wire"):
        await provider.complete(request_of(DecisionForm.PREDICATE))
    await provider.aclose()


@pytest.mark.parametrize("name", sorted(DECISION_HOSTS.keys() - {"llama"}))
async def test_each_vendors_base_url_leads_to_its_own_route(
    server: DecisionServer, name: str
) -> None:
    """A declared host is reached by its variable, without a key on this machine, at its path and in
    its form."""
    variable = "OPENAI_BASE_URL" if name == "openai-decisions" else f"{name.upper()}_BASE_URL"
    environ = {variable: f"http://{server.host}"}
    settings = load_settings(repo_root=None, user_file=None, environ=environ).settings
    request = request_of(DecisionForm.PREDICATE)
    provider = DecisionProvider(name, DECISION_HOSTS[name].model or "m", settings)
    try:
        completion = await provider.complete(request)
    finally:
        await provider.aclose()
    assert len(parse_answers(completion.text, request.reply_ids).scores) == len(MEMBERS)


@pytest.mark.parametrize(
    ("spec", "usd"),
    [
        ("typesafe:jev-1.14.0", "0.042"),
        ("openai-decisions:gpt-6-luna", "0.1"),
        ("openrouter:typesafe/jev-1.14", "0.042"),
        ("perplexity:pplx-decider-v1.2", "0.02"),
    ],
)
def test_prices_are_those_of_decisions(spec: str, usd: str) -> None:
    """A million tokens in calls of 40,000, some cached, cost the plain input price; answers are
    free."""
    provider, _, model = spec.partition(":")
    keys = {
        f"{vendor}_API_KEY": "k"
        for vendor in ("OPENAI", "TYPESAFE", "OPENROUTER", "PERPLEXITY")
    }
    settings = load_settings(repo_root=None, user_file=None, environ=keys).settings
    host = host_with_key(ModelSpec(provider, model), settings)
    cost = call_price(
        provider, model, host, Usage(input_tokens=40_000, cached_input_tokens=30_000)
    )
    assert cost is not None and str((cost * 25).normalize()) == usd


@pytest.mark.parametrize(("tokens", "usd"), [(272_000, "0.0272"), (272_001, "0.0544002")])
def test_a_long_request_to_openai_costs_twice_and_is_reserved_at_that(
    tokens: int, usd: str
) -> None:
    """Above 272,000 tokens each costs double, cached ones too; the reservation is never below the
    charge."""
    sold = ("openai-decisions", "gpt-6-luna", "api.openai.com")
    charged = call_price(
        *sold, Usage(input_tokens=tokens, cached_input_tokens=tokens - 1, output_tokens=400)
    )
    assert charged == Decimal(usd)
    request = Request(
        stage=Stage.JUDGE,
        model=sold[1],
        system="",
        content=(),
        decision=DecisionForm.PREDICATE,
        max_output_tokens=0,
        input_tokens=tokens,
        reserved_input_tokens=tokens,
    )
    bound = cost_upper_bound(sold[0], sold[2], request)
    assert bound is not None and charged <= bound <= Decimal("0.0545")


def test_every_host_can_be_filled() -> None:
    """Declared limits leave room for the longest question."""
    assert all(host.fill_tokens >= 3_000 for host in DECISION_HOSTS.values())

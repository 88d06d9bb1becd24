"""The compiled prices against the tables they were compiled from."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import genai_prices
import pytest
from genai_prices.data_snapshot import get_snapshot
from hypothesis import given, settings
from hypothesis import strategies as st

from xscore.providers.prices import PERIOD_S, call_price, compile_prices, find_table_model
from xscore.records.calls import Usage

HOSTS = {"openai": "api.openai.com", "anthropic": "api.anthropic.com"}
BATCH = {"processing": "batch"}
NOW = datetime(2026, 11, 22, 9, tzinfo=UTC)


def models(vendor: str, *kinds: str) -> list[str]:
    """Return the vendor's models that are found by their own name and have a price of each of these
    kinds today."""
    (provider,) = (
        candidate for candidate in get_snapshot().providers if candidate.id == vendor
    )
    named = [model for model in provider.models if provider.find_model(model.id) is model]
    return [
        model.id
        for model in named
        if all(getattr(model.get_prices(NOW), kind) for kind in kinds)
    ]


TALKING = [
    (vendor, model) for vendor in HOSTS for model in models(vendor, "input_mtok", "output_mtok")
]
EMBEDDING = [
    ("openai", model)
    for model in models("openai", "input_mtok")
    if ("openai", model) not in TALKING
]


@st.composite
def usages(draw: st.DrawFn) -> Usage:
    """Draw plausible usage: parts never exceed their whole; both sides of every long-prompt
    tier."""
    prompt_tokens = draw(st.one_of(st.integers(1, 5_000), st.integers(90_000, 300_000)))
    cached = draw(st.integers(0, prompt_tokens))
    written = draw(st.integers(0, prompt_tokens - cached))
    output = draw(st.integers(0, 20_000))
    return Usage(
        input_tokens=prompt_tokens,
        cached_input_tokens=cached,
        cache_write_tokens=written,
        cache_write_1h_tokens=draw(st.integers(0, written)),
        output_tokens=output,
        reasoning_tokens=draw(st.integers(0, output)),
    )


def of_the_table(usage: Usage) -> genai_prices.Usage:
    """Return the same usage in the table's terms."""
    return genai_prices.Usage(
        input_tokens=usage.input_tokens,
        cache_read_tokens=usage.cached_input_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        cache_write_1h_tokens=usage.cache_write_1h_tokens,
        output_tokens=usage.output_tokens,
        output_reasoning_tokens=usage.reasoning_tokens,
    )


def by_table(
    vendor: str, model: str, usage: Usage, when: datetime, context: dict[str, str] | None = None
) -> Decimal:
    """Price one call with genai-prices."""
    price = genai_prices.calc_price(
        of_the_table(usage),
        model,
        provider_api_url=f"https://{HOSTS[vendor]}/",
        genai_request_timestamp=when,
        price_context=context,
    )
    return price.total_price


@settings(max_examples=50, deadline=None)
@given(
    vendor_and_model=st.sampled_from(TALKING),
    usage=usages(),
    days=st.integers(-900, 300),
    seconds=st.integers(0, 86_399),
)
def test_a_price_is_the_tables_own(
    vendor_and_model: tuple[str, str], usage: Usage, days: int, seconds: int
) -> None:
    """Any usage, of any model of both vendors, on any day: the same as genai-prices, and so for a
    batch."""
    vendor, model = vendor_and_model
    when = NOW.replace(hour=0) + timedelta(days=days, seconds=seconds)
    price = call_price(vendor, model, HOSTS[vendor], usage, at=when.timestamp())
    assert price is not None
    assert abs(price - by_table(vendor, model, usage, when)) <= Decimal("1e-12")
    batch = call_price.batch(model, HOSTS[vendor], usage, at=when.timestamp())
    assert batch is None or abs(batch - by_table(vendor, model, usage, when, BATCH)) <= Decimal(
        "1e-12"
    )


AWKWARD = [
    Usage(
        input_tokens=prompt_tokens,
        cached_input_tokens=cached,
        cache_write_tokens=written,
        cache_write_1h_tokens=hour,
    )
    for prompt_tokens, cached, written, hour in (
        (1, 0, 0, 0),
        (100_000, 64, 0, 0),
        (100_001, 64, 30_000, 10_000),
        (272_000, 0, 272_000, 272_000),
        (272_001, 272_001, 0, 0),
        (900_001, 300_000, 300_000, 1),
    )
]
MOMENTS = [
    datetime(2024, 1, 1, tzinfo=UTC),
    datetime(2026, 10, 13, 23, 59, 59, tzinfo=UTC),
    *(
        NOW.replace(hour=hour, minute=minute)
        for hour, minute in ((0, 30), (3, 59), (4, 0), (16, 29), (16, 30))
    ),
]


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_every_model_of_every_vendor_is_priced_as_by_the_table() -> None:
    """At each side of every tier, day and hour; a model without a token price in the table is
    unpriced."""
    for vendor, model in [
        (provider, model) for provider in get_snapshot().providers for model in provider.models
    ]:
        for when in MOMENTS:
            stated = model.get_prices(when)
            for usage in AWKWARD:
                price = compile_prices(stated)(usage)
                if stated.input_mtok is None:
                    assert price is None, model.id
                else:
                    total = model.calc_price(
                        of_the_table(usage), vendor, genai_request_timestamp=when
                    ).total_price
                    assert price is not None and abs(price - total) <= Decimal("1e-12"), (
                        model.id,
                        when,
                        usage,
                    )


def test_prices_change_on_the_quarter_of_an_hour_only() -> None:
    """A price is compiled once for a quarter of an hour, so no change in the tables may fall inside
    one."""
    models_ = [model for vendor in get_snapshot().providers for model in vendor.models]
    conditional: list[Any] = [
        price for model in models_ if isinstance(model.prices, list) for price in model.prices
    ]
    limits: list[Any] = [
        price.constraint
        for price in (
            *conditional,
            *(v for model in models_ for v in model.price_variants or ()),
        )
    ]
    bounds = [
        getattr(limit, name)
        for limit in limits
        for name in ("start_time", "end_time")
        if hasattr(limit, name)
    ]
    assert bounds
    for bound in bounds:
        utc = bound.utcoffset() or timedelta()
        seconds = bound.hour * 3_600 + bound.minute * 60 + bound.second - utc.total_seconds()
        assert seconds % PERIOD_S == 0 and not bound.microsecond


def test_an_embedding_has_no_output_to_price() -> None:
    """A model priced by its input alone is priced for input; output would be unpriced, not free."""
    assert EMBEDDING
    for vendor, model in EMBEDDING:
        usage = Usage(input_tokens=8_000)
        assert call_price(vendor, model, HOSTS[vendor], usage) == by_table(
            vendor, model, usage, NOW
        )
        assert (
            call_price(vendor, model, HOSTS[vendor], Usage(input_tokens=8_000, output_tokens=1))
            is None
        )


@pytest.mark.parametrize("model", ["whisper-1", "tts-1", "omni-moderation-latest"])
def test_what_is_not_priced_by_tokens_is_unpriced(model: str) -> None:
    """Priced by hours of audio, by characters, or not at all: tokens of such a model are unpriced,
    not $0."""
    assert find_table_model(model, HOSTS["openai"]) is not None
    assert call_price("openai", model, HOSTS["openai"], Usage(input_tokens=1_000)) is None


def test_a_batch_is_not_known_where_the_table_states_none() -> None:
    """The table would silently return the full price; we return none, neither half nor whole."""
    usage = Usage(input_tokens=1_000)
    for vendor, model in (("anthropic", "claude-opus-4-1"), ("openai", "gpt-6-cyber")):
        assert call_price(vendor, model, HOSTS[vendor], usage) is not None
        assert call_price.batch(model, HOSTS[vendor], usage) is None
    before = datetime(2026, 10, 13, tzinfo=UTC).timestamp()
    assert call_price.batch("gpt-6-luna", HOSTS["openai"], usage, at=before) is None


@pytest.mark.parametrize(
    "host",
    [
        "api.openai.com.example.org",
        "api.openai.community",
        "evil-api.openai.com",
        "openai.com",
        "api.openai.com@example.org",
        "shop.openai.azure.com.example.org",
        "googleapis.com.example.org",
        "api.moonshot.cn.example.org",
        "proxy.example.org",
    ],
)
def test_a_host_that_only_looks_like_a_vendors_has_no_price(host: str) -> None:
    """A name that begins or ends like a vendor's is another host: the vendor's prices do not
    apply."""
    for model in ("gpt-6-luna", "claude-haiku-4-5", "gemini-2.5-flash", "kimi-k2-0711-preview"):
        assert call_price("openai", model, host, Usage(input_tokens=1_000)) is None


@pytest.mark.parametrize(
    ("host", "model"),
    [
        ("api.openai.com", "gpt-6-luna"),
        ("api.openai.com:443", "gpt-6-luna"),
        ("shop.openai.azure.com", "gpt-5-mini"),
        ("generativelanguage.googleapis.com", "gemini-2.5-flash"),
        ("api.moonshot.ai", "kimi-k2-0711-preview"),
        ("api.moonshot.cn:443", "kimi-k2-0711-preview"),
        ("bedrock-runtime.us-east-1.amazonaws.com", "anthropic.claude-haiku-4-5-20251001-v1:0"),
    ],
)
def test_a_vendors_own_hosts_have_prices(host: str, model: str) -> None:
    """The whole name must match: with or without a port, and subdomains of a vendor."""
    assert call_price("openai", model, host, Usage(input_tokens=1_000)) is not None


def test_a_price_of_certain_hours_is_that_of_the_calls_hour() -> None:
    """DeepSeek had cheaper hours: the same call costs less at night, and no morning price is
    cached."""
    usage = Usage(input_tokens=1_000_000)
    noon, night = (datetime(2025, 5, 1, hour, tzinfo=UTC).timestamp() for hour in (12, 20))
    paid = [
        call_price("openai", "deepseek-chat", "api.deepseek.com", usage, at=at)
        for at in (noon, night, noon)
    ]
    assert paid[0] == paid[2]
    assert paid[1] is not None and paid[0] is not None and paid[1] < paid[0]


def test_a_fee_a_call_is_added_to_its_tokens() -> None:
    """Perplexity: $12 for a thousand calls plus $1 for a million tokens; a refused call has no
    fee."""
    usage = Usage(input_tokens=1_000, output_tokens=500)
    price = call_price("openai", "sonar", "api.perplexity.ai", usage, at=NOW.timestamp())
    assert price == Decimal("0.012") + Decimal("0.0015")
    assert call_price("openai", "sonar", "api.perplexity.ai", Usage(), at=NOW.timestamp()) == 0

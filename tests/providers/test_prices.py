"""The price of a call, from the offline tables."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.providers.conftest import MakeRequest
from xscore.providers.prices import PriceList, assumed_price, call_price, cost_upper_bound
from xscore.records.calls import Request, Stage, Usage
from xscore.settings.values import DEFAULT_JUDGE, DEFAULT_PRIMARY

OPENAI = "api.openai.com"
TOKENS = st.integers(0, 400_000)


@pytest.mark.parametrize(("spec", "usd"), [(DEFAULT_JUDGE, "0.6"), (DEFAULT_PRIMARY, "12")])
def test_the_defaults_cost_what_the_settings_say(spec: str, usd: str) -> None:
    """The stated prices of the default models: input and output of a million tokens, below the
    long-prompt tier."""
    model = spec.partition(":")[2]
    fifth = call_price(
        "openai", model, OPENAI, Usage(input_tokens=200_000, output_tokens=200_000)
    )
    assert fifth is not None
    assert fifth * 5 == Decimal(usd)


MILLION = Usage(input_tokens=10**6)


@pytest.mark.parametrize("host", ["127.0.0.1:11434", "localhost:8000", "[::1]:8080"])
@pytest.mark.parametrize(
    "model", ["qwen3:8b", "gpt-oss-20b", "openai/gpt-oss-120b", "deepseek-r1:8b", "my-model"]
)
def test_a_model_server_of_this_machine_costs_nothing(host: str, model: str) -> None:
    """Open weights behind loopback are free, even if some vendor sells the same model."""
    assert call_price("openai", model, host, MILLION) == 0
    assert assumed_price(model, host) == "free"
    assert call_price("scripted", "gpt-6-luna", "-", MILLION) == 0


@pytest.mark.parametrize(
    ("model", "vendor", "name"),
    [
        ("gpt-6-luna", "api.openai.com", "gpt-6-luna"),
        ("openai/gpt-6-luna", "api.openai.com", "gpt-6-luna"),
        ("anthropic/claude-haiku-5-5", "api.anthropic.com", "claude-haiku-5-5"),
        ("bedrock/us.anthropic.claude-haiku-5-5", "api.anthropic.com", "claude-haiku-5-5"),
        ("o3", "api.openai.com", "o3"),
    ],
)
def test_a_gateway_on_this_machine_costs_what_the_vendor_asks(
    model: str, vendor: str, name: str
) -> None:
    """A model that only a vendor sells has the vendor's price behind loopback too, also by
    batch."""
    price, usage = (
        call_price("openai", model, "localhost:4000", MILLION),
        Usage(input_tokens=100),
    )
    assert price is not None and price > 0
    assert price == call_price("openai", name, vendor, MILLION)
    assert call_price.batch(model, "localhost:4000", usage) == call_price.batch(
        name, vendor, usage
    )
    assert assumed_price(model, "localhost:4000") == "vendor"


def test_the_user_has_the_last_word_on_a_price() -> None:
    """`provider.price`: `free` makes a local alias free, `vendor` prices any gateway; neither
    invents a price."""
    free, vendor = PriceList("free"), PriceList("vendor")
    assert free("openai", "gpt-4o", "localhost:11434", MILLION) == 0
    assert free("openai", "gpt-4o", OPENAI, MILLION) == call_price(
        "openai", "gpt-4o", OPENAI, MILLION
    )
    assert call_price("openai", "gpt-4o", "litellm.lan:4000", MILLION) is None
    assert vendor("openai", "gpt-4o", "litellm.lan:4000", MILLION) == vendor(
        "openai", "gpt-4o", OPENAI, MILLION
    )
    assert assumed_price("gpt-4o", "litellm.lan:4000", "vendor") == "vendor"
    assert assumed_price("gpt-4o", OPENAI, "vendor") == ""
    assert vendor("openai", "my-alias", "localhost:4000", MILLION) is None


def test_another_vendors_host_has_its_own_prices() -> None:
    """The host decides the price table, not the dialect."""
    assert (
        call_price("openai", "openai/gpt-5-mini", "openrouter.ai", Usage(input_tokens=1_000))
        is not None
    )


@given(
    tokens=TOKENS, cached=st.floats(0, 1), written=st.floats(0, 1), output=st.integers(0, 8_000)
)
def test_no_call_costs_more_than_its_upper_bound(
    tokens: int, cached: float, written: float, output: int
) -> None:
    """Whatever part is cached or written, the reservation covers the price."""
    request = Request(
        stage=Stage.JUDGE,
        model="gpt-6-luna",
        system="",
        content=("",),
        max_output_tokens=8_000,
        input_tokens=tokens,
        reserved_input_tokens=tokens,
    )
    cached_tokens = int(tokens * cached)
    usage = Usage(
        input_tokens=tokens,
        cached_input_tokens=cached_tokens,
        cache_write_tokens=int((tokens - cached_tokens) * written),
        output_tokens=output,
    )
    bound = cost_upper_bound("openai", OPENAI, request)
    actual = call_price("openai", request.model, OPENAI, usage)
    assert bound is not None and actual is not None
    assert 0 <= actual <= bound


def test_an_unpriced_model_has_no_upper_bound(judging: MakeRequest) -> None:
    """An unpriced call cannot be reserved, and the budget learns of it."""
    assert cost_upper_bound("openai", OPENAI, judging(model="no-such-model")) is None

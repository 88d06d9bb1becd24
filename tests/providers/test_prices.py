"""What a call costs, from the offline tables."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.providers.conftest import MakeRequest
from xscore.providers.prices import call_price, cost_upper_bound
from xscore.records.calls import Request, Stage, Usage
from xscore.settings.model import DEFAULT_JUDGE, DEFAULT_PRIMARY

OPENAI = "api.openai.com"
TOKENS = st.integers(0, 400_000)


@pytest.mark.parametrize(("spec", "usd"), [(DEFAULT_JUDGE, "0.6"), (DEFAULT_PRIMARY, "12")])
def test_the_defaults_cost_what_the_settings_say(spec: str, usd: str) -> None:
    """The prices beside the default models hold: input and output of a million tokens, below the long-prompt tier."""
    model = spec.partition(":")[2]
    fifth = call_price("openai", model, OPENAI, Usage(input_tokens=200_000, output_tokens=200_000))
    assert fifth is not None
    assert fifth * 5 == Decimal(usd)


@pytest.mark.parametrize("host", ["127.0.0.1:11434", "localhost:8000", "[::1]:8080", "-"])
def test_this_machine_costs_nothing(host: str) -> None:
    """Text that stays here is priced $0, whatever the model is called."""
    assert call_price("openai", "gpt-6-luna", host, Usage(input_tokens=10**6)) == 0


def test_another_vendors_host_has_its_own_prices() -> None:
    """The host decides the table, not the dialect."""
    assert call_price("openai", "openai/gpt-5-mini", "openrouter.ai", Usage(input_tokens=1_000)) is not None


@given(tokens=TOKENS, cached=st.floats(0, 1), written=st.floats(0, 1), output=st.integers(0, 8_000))
def test_no_call_costs_more_than_its_upper_bound(tokens: int, cached: float, written: float, output: int) -> None:
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
    """What cannot be priced cannot be reserved; the budget is told so."""
    assert cost_upper_bound("openai", OPENAI, judging(model="no-such-model")) is None

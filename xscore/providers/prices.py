"""What a call costs, from the offline tables of genai-prices: each call by itself, never a sum of calls.

Prices have tiers by prompt length, so a sum would be priced wrongly. Nothing is fetched. A model or host that the
tables do not know is unpriced (None), never free; only text that stays on this machine costs $0. The trade-off: the
tables are as old as the installed package.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache
from typing import Any

from xscore.providers.catalog import HOUR_S
from xscore.providers.hosts import is_loopback
from xscore.records import Request, Usage

Price = Callable[[str, str, str, Usage], Decimal | None]
"""provider, model, host, usage of one call -> dollars, or None where unpriced."""

BOUND_STEP_TOKENS = 64
"""A bound's input is rounded up to this, so that few prices serve many calls."""


def price(provider: str, model: str, host: str, usage: Usage) -> Decimal | None:
    """Return the dollars of one call at this host, or None where it is unpriced."""
    return _price(provider, model, host, usage)


@lru_cache(maxsize=1024)
def _price(provider: str, model: str, host: str, usage: Usage) -> Decimal | None:
    """Keep what was worked out: the tables take 40 µs, and a call is priced for its bound, its budget and its row."""
    if is_loopback(host):
        return Decimal(0)
    if not (usage.input_tokens or usage.output_tokens):
        return Decimal(0) if _known(provider, model, host) else None
    entry = _known(provider, model, host)
    if entry is None:
        return None
    from genai_prices import Usage as PricedUsage

    vendor, info = entry
    counted = PricedUsage(
        input_tokens=usage.input_tokens,
        cache_read_tokens=usage.cached_input_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        cache_write_1h_tokens=usage.cache_write_1h_tokens,
        output_tokens=usage.output_tokens,
    )
    total: Decimal = info.calc_price(counted, vendor).total_price
    return total


def upper_bound(provider: str, host: str, request: Request, *, price_of: Price = price) -> Decimal | None:
    """Return the most that one attempt at this request may cost: nothing cached, everything written, full output."""
    given = math.ceil(request.reserved_input_tokens / BOUND_STEP_TOKENS) * BOUND_STEP_TOKENS
    plain = Usage(input_tokens=given, output_tokens=request.max_output_tokens)
    is_kept_an_hour = request.prefix_ttl_s >= HOUR_S
    written = replace(
        plain,
        cache_write_tokens=plain.input_tokens,
        cache_write_1h_tokens=plain.input_tokens if is_kept_an_hour else 0,
    )
    prices = [price_of(provider, request.model, host, usage) for usage in (plain, written)]
    known = [found for found in prices if found is not None]
    return max(known) if known else None


@lru_cache(maxsize=256)
def _known(provider: str, model: str, host: str) -> tuple[Any, Any] | None:
    """Return the tables' vendor and model for this host; looked up once, since the lookup walks every vendor."""
    from genai_prices.data_snapshot import get_snapshot

    try:
        return get_snapshot().find_provider_model(model, None, None, f"https://{host}/")
    except LookupError:
        return None

"""What a call costs, and what it would have cost otherwise: each call by itself, never a sum of calls.

Prices have tiers by prompt length, so a sum would be priced wrongly. A model's rates are looked up once
(`price_table`); after that a price is a few products (`tariff`). A model or host that the tables do not know is
unpriced (None), never free; only text that stays on this machine costs $0. The trade-off: the tables are as old as the
installed package.
"""

import math
import time
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

from xscore.providers.catalog import HOUR_S
from xscore.providers.hosts import is_loopback
from xscore.providers.price_table import tariff
from xscore.records import Otherwise, Request, Stage, Usage
from xscore.tokens import REPLY_FRAME

Price = Callable[[str, str, str, Usage], Decimal | None]
"""provider, model, host, usage of one call -> dollars, or None where unpriced."""

BOUND_STEP_TOKENS = 64
"""A bound's input is rounded up to this."""


def price(provider: str, model: str, host: str, usage: Usage, *, at: float | None = None) -> Decimal | None:
    """Return the dollars of one call at this host, or None where it is unpriced.

    at: when it was made, Unix seconds, for prices that begin on a day or hold at certain hours; None: now.
    """
    return _price(model, host, usage, at, batch=False)


def batch_price(model: str, host: str, usage: Usage, *, at: float | None = None) -> Decimal | None:
    """Return what the same tokens cost through the vendor's Batch API; None where the tables state no such price."""
    return _price(model, host, usage, at, batch=True)


def _price(model: str, host: str, usage: Usage, at: float | None, *, batch: bool) -> Decimal | None:
    if is_loopback(host):
        return Decimal(0)
    found = tariff(model, host)
    if found is None:
        return None
    moment = at if at is not None else 0.0 if found.is_timeless else time.time()
    return found.at(moment, batch=batch)(usage)


def otherwise(
    provider: str,
    host: str,
    request: Request,
    usage: Usage,
    *,
    cost: Decimal | None,
    price_of: Price = price,
) -> Otherwise:
    """Return what one attempt would have cost without the host's prefix cache, without packs, and by the Batch API.

    cost: what it did cost. Only judging is packed and could wait for a batch; any other call costs the same. Of a batch
    nothing is known where `price_of` stands in for the tables.
    """
    plain, uncached = usage, cost
    if usage.cached_input_tokens or usage.cache_write_tokens:
        plain = Usage(
            input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, reasoning_tokens=usage.reasoning_tokens
        )
        uncached = price_of(provider, request.model, host, plain)
    if request.stage is not Stage.JUDGE:
        return Otherwise(without_prefix_cache=uncached, without_packs=cost, by_batch=cost)
    return Otherwise(
        without_prefix_cache=uncached,
        without_packs=_one_a_prompt(provider, host, request, plain, price_of=price_of),
        by_batch=batch_price(request.model, host, usage) if price_of is price else None,
    )


def _one_a_prompt(provider: str, host: str, request: Request, plain: Usage, *, price_of: Price) -> Decimal | None:
    """Price the same candidates in a prompt each: as many calls of the average size, so that none meets a tier."""
    if request.candidates <= 1 or not plain.input_tokens:
        return price_of(provider, request.model, host, plain)
    others = request.candidates - 1
    alone = Usage(
        input_tokens=-(-(plain.input_tokens + others * request.frame_tokens) // request.candidates),
        output_tokens=-(-(plain.output_tokens + others * REPLY_FRAME) // request.candidates),
    )
    one = price_of(provider, request.model, host, alone)
    return None if one is None else one * request.candidates


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

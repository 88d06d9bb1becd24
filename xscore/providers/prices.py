"""What a host charges for a call's tokens: one model's rates, as whole numbers, and the price of one call from them.

A rate is dollars for one token, counted in whole parts of a dollar (`per_dollar`), so that a price is a few products, a
sum and one division, and nothing is rounded on the way. A call whose prompt is longer than a tier's start pays that
tier's rates for all of its tokens; so calls are priced one by one, and a sum of calls never. Pure: where rates come
from is `price_table`'s business. Trade-off: only what calls of this house use is expressed (text in and out, a prefix
cache, a fee a call).

The offline tables of genai-prices, compiled once for each model and host into rates (`tariff`).

A host is known by its whole name: one that merely begins like a vendor's is another host, and unpriced. Prices that
begin on a day or hold at certain hours are compiled for each stretch of time between two changes, by asking the table
itself. What the table prices by units that a text call cannot have (images, hours of audio, searches) is left out; by a
unit that such a call might have and `Rates` cannot express, the table prices each call. Nothing is fetched. Trade-off:
the tables are as old as the installed package.

What a call costs, and what it would have cost otherwise: each call by itself, never a sum of calls.

Prices have tiers by prompt length, so a sum would be priced wrongly. A model's rates are looked up once
(`price_table`); after that a price is a few products (`tariff`). A model or host that the tables do not know is
unpriced (None), never free; only text that stays on this machine costs $0. The trade-off: the tables are as old as the
installed package.
"""

import math
import re
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime
from datetime import time as time_of_day
from decimal import Decimal
from functools import lru_cache
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from xscore.platform.clock import DAY_S
from xscore.platform.tokens import REPLY_FRAME
from xscore.providers.catalog import HOUR_S
from xscore.providers.hosts import is_loopback
from xscore.records import CounterfactualCost, Request, Stage, Usage


class PriceBand(Struct, frozen=True, kw_only=True):
    """Rates of the calls whose prompts are longer than `above` tokens; None: the table names none."""

    above: int = -1
    """Tokens of input that a call must exceed; -1: every call does."""
    input: int | None
    cached_input: int | None = None
    """None: charged like other input; so are writes."""
    cache_write: int | None = None
    cache_write_1h: int | None = None
    """None: an hour costs what a write costs."""
    output: int | None
    reasoning: int | None = None
    """None: charged like other output."""
    call: int = 0
    """What each call costs beside its tokens."""


class PriceBands(Struct, frozen=True):
    """What one model costs at one host, at one time, by the length of the prompt."""

    bands: tuple[PriceBand, ...]
    """The longest prompts' first; the last one holds for every call."""
    per_dollar: Decimal
    """A power of ten: what the rates are counted in."""

    def price(self, usage: Usage) -> Decimal | None:
        """Return the dollars of one call; None where it used what no rate is named for.

        A call without tokens was not charged. What a usage says twice (more cached than came in) is charged at least
        once.
        """
        given, written = usage.input_tokens, usage.output_tokens
        if not (given or written):
            return Decimal(0)
        for band in self.bands:
            if given > band.above:
                break
        if (given and band.input is None) or (written and band.output is None):
            return None
        amount = band.call + (_of_input(band, band.input, usage) if band.input is not None else 0)
        if band.output is not None:
            thought = usage.reasoning_tokens if band.reasoning is not None else 0
            amount += max(0, written - thought) * band.output
            amount += thought * (band.reasoning or 0)
        return Decimal(amount) / self.per_dollar


def _of_input(band: PriceBand, rate: int, usage: Usage) -> int:
    fresh, amount = usage.input_tokens, 0
    if band.cached_input is not None:
        fresh -= usage.cached_input_tokens
        amount = usage.cached_input_tokens * band.cached_input
    brief, hour = usage.cache_write_tokens, 0
    if band.cache_write_1h is not None:
        hour = usage.cache_write_1h_tokens
        brief -= hour
        fresh -= hour
        amount += hour * band.cache_write_1h
    if band.cache_write is not None and brief > 0:
        fresh -= brief
        amount += brief * band.cache_write
    return amount + max(0, fresh) * rate


PER_MILLION, PER_THOUSAND = 6, 3
"""Decimal places that a table's unit adds to a price."""

PriceOf = Callable[[Usage], Decimal | None]

_TOKENS = {
    "input_mtok": "input",
    "cache_read_mtok": "cached_input",
    "cache_write_mtok": "cache_write",
    "cache_write_1h_mtok": "cache_write_1h",
    "output_mtok": "output",
    "output_reasoning_mtok": "reasoning",
}
"""Price key -> field of a band."""
_CALLS = "requests_kcount"
_NEVER = re.compile(r"audio|image|video|_hours$|chars$|pixels$|pages$|messages|_searches_|_executions_|citation|_tool_")
"""Price keys of what no call of this house sends or asks for."""
_BATCH = {"processing": "batch"}


class ModelPrices(Struct):
    """What one model costs at one host, whenever it is called."""

    model: Any
    """Of the table."""
    has_variants: bool
    """The host sells the model itself, so that the model's variants (batch) are this host's."""
    first_days: tuple[float, ...] = ()
    """Unix seconds at which prices begin, ascending."""
    hours: tuple[float, ...] = ()
    """Seconds of the UTC day at which prices change, ascending."""
    stretches: dict[tuple[int, int, bool], PriceOf] = field(default_factory=dict)
    """Compiled so far: after so many first days, at so many changes of the day, by batch -> price."""

    @property
    def is_timeless(self) -> bool:
        """Whether the same prices hold at any time."""
        return not (self.first_days or self.hours)

    def at(self, moment: float, *, batch: bool = False) -> PriceOf:
        """Return how a call made at this moment (Unix seconds) is priced."""
        stretch = bisect_right(self.first_days, moment), bisect_right(self.hours, moment % DAY_S), batch
        found = self.stretches.get(stretch)
        if found is None:
            found = self.stretches[stretch] = self._compiled(moment, batch=batch)
        return found

    def _compiled(self, moment: float, *, batch: bool) -> PriceOf:
        when = datetime.fromtimestamp(moment, UTC)
        if not batch:
            return compile_prices(self.model.get_prices(when))
        variants = self.model.price_variants if self.has_variants else None
        if any(_is_batch(variant, when) for variant in variants or ()):
            return compile_prices(self.model.get_prices(when, _BATCH))
        return _not_known


@lru_cache(maxsize=256)
def find_model_prices(model: str, host: str) -> ModelPrices | None:
    """Return what this model costs at this host; None where the tables do not know it. Looked up once: 0.2 ms."""
    from genai_prices.data_snapshot import get_snapshot

    url = f"https://{host}/"
    try:
        vendor, info = get_snapshot().find_provider_model(model, None, None, url)
    except LookupError:
        return None
    return model_prices_of(vendor, info) if _is_whole_name(vendor.api_pattern, url) else None


def model_prices_of(vendor: Any, info: Any) -> ModelPrices:
    """Return what this model of the table costs where this vendor of the table hosts it."""
    constraints = list(_constraints(info))
    days = {_midnight(each.start_date) for each in constraints if hasattr(each, "start_date")}
    hours = {
        _second(bound)
        for each in constraints
        if hasattr(each, "start_time")
        for bound in (each.start_time, each.end_time)
    }
    is_own = any(info is one for one in vendor.models)
    return ModelPrices(info, is_own, tuple(sorted(days)), tuple(sorted(hours)))


def compile_prices(prices: Any) -> PriceOf:
    """Turn a price of the table (`ModelPrice`) into rates; where they cannot say it all, into the table's own sum."""
    stated = {key: value for key, value in vars(prices).items() if value is not None and not _NEVER.search(key)}
    if set(stated) - {*_TOKENS, _CALLS}:
        return lambda usage: _by_table(prices, usage)
    if not stated:
        return _not_known
    starts = sorted({tier.start for price in stated.values() for tier in getattr(price, "tiers", ())}, reverse=True)
    bands = [{key: _above(price, start) for key, price in stated.items()} for start in (*starts, -1)]
    places = max(_places(key, amount) for band in bands for key, amount in band.items())
    return PriceBands(tuple(map(_band, (*starts, -1), bands, [places] * len(bands))), Decimal(10) ** places).price


def _band(start: int, prices: Mapping[str, Decimal], places: int) -> PriceBand:
    whole = {key: int(amount.scaleb(places - _unit(key))) for key, amount in prices.items()}
    tokens: dict[str, Any] = {name: whole.get(key) for key, name in _TOKENS.items()}
    return PriceBand(above=start, **tokens, call=whole.get(_CALLS, 0))


def _above(price: Any, start: int) -> Decimal:
    """Return what holds for prompts longer than this."""
    if isinstance(price, Decimal):
        return price
    passed = [tier.price for tier in price.tiers if tier.start <= start]
    found: Decimal = passed[-1] if passed else price.base
    return found


def _unit(key: str) -> int:
    return PER_THOUSAND if key == _CALLS else PER_MILLION


def _places(key: str, amount: Decimal) -> int:
    exponent = amount.as_tuple().exponent
    assert isinstance(exponent, int)  # a price is finite
    return _unit(key) + max(0, -exponent)


def _by_table(prices: Any, usage: Usage) -> Decimal | None:
    """Let genai-prices add up one call; None where it says that the usage cannot be."""
    from genai_prices import Usage as Priced

    if not (usage.input_tokens or usage.output_tokens):
        return Decimal(0)
    counted = Priced(
        input_tokens=usage.input_tokens,
        cache_read_tokens=usage.cached_input_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        cache_write_1h_tokens=usage.cache_write_1h_tokens,
        output_tokens=usage.output_tokens,
        output_reasoning_tokens=usage.reasoning_tokens,
    )
    try:
        total: Decimal = prices.calc_price(counted)["total_price"]
    except ValueError:
        return None
    return total


def _not_known(usage: Usage) -> Decimal | None:
    """Price what the table states no price for: only a call that was not made is known to cost nothing."""
    return None if usage.input_tokens or usage.output_tokens else Decimal(0)


def _is_batch(variant: Any, when: datetime) -> bool:
    return dict(variant.when) == _BATCH and (variant.constraint is None or variant.constraint.active(when))


def _constraints(model: Any) -> Iterator[Any]:
    conditional = model.prices if isinstance(model.prices, list) else ()
    for each in (*conditional, *(model.price_variants or ())):
        if each.constraint is not None:
            yield each.constraint


def _is_whole_name(pattern: str, url: str) -> bool:
    """Whether the table's pattern covers the host's name to its end (one ending in a dot: all but the last label)."""
    found = re.match(pattern, url)
    rest = url[found.end() :] if found else "."
    if found and found.group().endswith("."):
        rest = rest[rest.index("/") :] if "." not in rest.split("/")[0] else rest
    return not rest or rest[0] in "/:" or url[len(url) - len(rest) - 1] == "/"


def _midnight(day: date) -> float:
    return datetime.combine(day, time_of_day(), UTC).timestamp()


def _second(of_day: time_of_day) -> float:
    utc = (
        of_day.replace(tzinfo=UTC)
        if of_day.tzinfo is None
        else datetime.combine(date(1970, 1, 2), of_day).astimezone(UTC)
    )
    return utc.hour * 3_600 + utc.minute * 60 + utc.second + utc.microsecond / 1e6


PriceFunction = Callable[[str, str, str, Usage], Decimal | None]
"""provider, model, host, usage of one call -> dollars, or None where unpriced."""

BOUND_STEP_TOKENS = 64
"""A bound's input is rounded up to this."""


def call_price(provider: str, model: str, host: str, usage: Usage, *, at: float | None = None) -> Decimal | None:
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
    found = find_model_prices(model, host)
    if found is None:
        return None
    moment = at if at is not None else 0.0 if found.is_timeless else time.time()
    return found.at(moment, batch=batch)(usage)


def counterfactual_cost(
    provider: str,
    host: str,
    request: Request,
    usage: Usage,
    *,
    cost: Decimal | None,
    price_of: PriceFunction = call_price,
) -> CounterfactualCost:
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
        return CounterfactualCost(without_prefix_cache=uncached, without_packs=cost, by_batch=cost)
    return CounterfactualCost(
        without_prefix_cache=uncached,
        without_packs=_one_a_prompt(provider, host, request, plain, price_of=price_of),
        by_batch=batch_price(request.model, host, usage) if price_of is call_price else None,
    )


def _one_a_prompt(
    provider: str, host: str, request: Request, plain: Usage, *, price_of: PriceFunction
) -> Decimal | None:
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


def cost_upper_bound(
    provider: str, host: str, request: Request, *, price_of: PriceFunction = call_price
) -> Decimal | None:
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

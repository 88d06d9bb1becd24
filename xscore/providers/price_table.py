"""The offline tables of genai-prices, compiled once for each model and host into rates (`tariff`).

A host is known by its whole name: one that merely begins like a vendor's is another host, and unpriced. Prices that
begin on a day or hold at certain hours are compiled for each stretch of time between two changes, by asking the table
itself. What the table prices by units that a text call cannot have (images, hours of audio, searches) is left out; by a
unit that such a call might have and `Rates` cannot express, the table prices each call. Nothing is fetched. Trade-off:
the tables are as old as the installed package.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import lru_cache
from typing import Any

from xscore.providers.tariff import Band, Rates
from xscore.records import Usage
from xscore.utc_days import DAY_S

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


@dataclass(slots=True)
class Tariff:
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
            return compiled(self.model.get_prices(when))
        variants = self.model.price_variants if self.has_variants else None
        if any(_is_batch(variant, when) for variant in variants or ()):
            return compiled(self.model.get_prices(when, _BATCH))
        return _not_known


@lru_cache(maxsize=256)
def tariff(model: str, host: str) -> Tariff | None:
    """Return what this model costs at this host; None where the tables do not know it. Looked up once: 0.2 ms."""
    from genai_prices.data_snapshot import get_snapshot

    url = f"https://{host}/"
    try:
        vendor, info = get_snapshot().find_provider_model(model, None, None, url)
    except LookupError:
        return None
    return tariff_of(vendor, info) if _is_whole_name(vendor.api_pattern, url) else None


def tariff_of(vendor: Any, info: Any) -> Tariff:
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
    return Tariff(info, is_own, tuple(sorted(days)), tuple(sorted(hours)))


def compiled(prices: Any) -> PriceOf:
    """Turn a price of the table (`ModelPrice`) into rates; where they cannot say it all, into the table's own sum."""
    stated = {key: value for key, value in vars(prices).items() if value is not None and not _NEVER.search(key)}
    if set(stated) - {*_TOKENS, _CALLS}:
        return lambda usage: _by_table(prices, usage)
    if not stated:
        return _not_known
    starts = sorted({tier.start for price in stated.values() for tier in getattr(price, "tiers", ())}, reverse=True)
    bands = [{key: _above(price, start) for key, price in stated.items()} for start in (*starts, -1)]
    places = max(_places(key, amount) for band in bands for key, amount in band.items())
    return Rates(tuple(map(_band, (*starts, -1), bands, [places] * len(bands))), Decimal(10) ** places).price


def _band(start: int, prices: Mapping[str, Decimal], places: int) -> Band:
    whole = {key: int(amount.scaleb(places - _unit(key))) for key, amount in prices.items()}
    tokens: dict[str, Any] = {name: whole.get(key) for key, name in _TOKENS.items()}
    return Band(above=start, **tokens, call=whole.get(_CALLS, 0))


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
    return datetime.combine(day, time(), UTC).timestamp()


def _second(of_day: time) -> float:
    utc = (
        of_day.replace(tzinfo=UTC)
        if of_day.tzinfo is None
        else datetime.combine(date(1970, 1, 2), of_day).astimezone(UTC)
    )
    return utc.hour * 3_600 + utc.minute * 60 + utc.second + utc.microsecond / 1e6

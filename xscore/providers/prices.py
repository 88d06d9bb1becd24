"""What a call costs, and would have cost in other ways; priced per call, because prices have tiers
by length.

The offline tables of genai-prices are asked once for the rates of each model, host and quarter of
an hour: a price is then a few products, 2 µs instead of the table's 120. A host is known by its
whole name. A model or host that the tables do not know is unpriced (None), never free; only a model
server of this machine costs $0, and a gateway on this machine to a paid model costs what its vendor
asks. Trade-off: nothing is fetched, so the tables are as old as the installed package.
"""

import math
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from xscore.platform.tokens import REPLY_FRAME
from xscore.providers.catalog import HOUR_S
from xscore.providers.decision_hosts import DECISION_HOSTS
from xscore.providers.hosts import NO_HOST, is_loopback, sold_model
from xscore.records.calls import CounterfactualCost, Request, Stage, Usage
from xscore.settings import PriceRule

PriceOf = Callable[[Usage], Decimal | None]
"""Usage of one call -> dollars; None where it used what no rate is named for."""
PriceFunction = Callable[[str, str, str, Usage], Decimal | None]
"""provider, model, host, usage of one call -> dollars, or None where unpriced."""

PERIOD_S = 900.0
"""Seconds of the periods for each of which a price is looked up once. Prices may begin on a day or
hold at certain hours; in the tables all of them change at :00 or :30 UTC."""
BOUND_STEP_TOKENS = 64
"""Step to which an upper bound's input is rounded up."""
BATCH = {"processing": "batch"}
AssumedPrice = Literal["", "free", "vendor"]
PRICED_APART = ("openai-decisions",)
"""Providers that share host and model names with another one, and have prices of their own in the
tables."""


class TableModel(NamedTuple):
    """A model in the price tables."""

    vendor: str
    """Id of the vendor in the price table."""
    info: Any
    is_own: bool
    """Whether the host asked about is the vendor that made the model, not a reseller."""


def _own_table(provider: str) -> str:
    if provider in PRICED_APART:
        return provider
    return ""


class PriceBand(Struct, frozen=True, kw_only=True):
    """Dollars a token in calls whose prompts are longer than `above` tokens; all their tokens pay
    these."""

    above: int
    """Tokens above which the rate holds; -1: every call is longer."""
    fee: Decimal
    """Price of a call apart from its tokens."""
    fresh: Decimal
    cached: Decimal
    written: Decimal
    written_1h: Decimal
    output: Decimal | None
    """Price of output; None: the table states none."""
    reasoning: Decimal

    def price(self, usage: Usage) -> Decimal | None:
        """Return the dollars of one call; what a usage counts twice (more cached than came in) is
        charged once."""
        if self.output is None:
            if usage.output_tokens:
                return None
            output = Decimal(0)
        else:
            output = max(0, usage.output_tokens - usage.reasoning_tokens) * self.output
        written = usage.cache_write_tokens - usage.cache_write_1h_tokens
        fresh = max(
            0, usage.input_tokens - usage.cached_input_tokens - usage.cache_write_tokens
        )
        return (
            self.fee
            + fresh * self.fresh
            + usage.cached_input_tokens * self.cached
            + written * self.written
            + usage.cache_write_1h_tokens * self.written_1h
            + output
            + usage.reasoning_tokens * self.reasoning
        )


class PriceList(Struct, frozen=True):
    """Prices by the tables, with the user's word on hosts that the tables cannot know."""

    rule: PriceRule = "auto"
    """The rule that the setting `provider.price` names."""

    def __call__(
        self, provider: str, model: str, host: str, usage: Usage, *, at: float | None = None
    ) -> Decimal | None:
        """Return the dollars of one call at this host, or None where it is unpriced. at: Unix
        seconds; None: now."""
        if provider in DECISION_HOSTS:  # answers are not text, and free
            usage = replace(usage, output_tokens=0, reasoning_tokens=0)
        return self._price(model, host, usage, at, batch=False, table=_own_table(provider))

    def tariff(self, provider: str, model: str, host: str) -> str:
        """Name the row of the tables that prices this model here, as `vendor/model`; empty: free or
        unpriced."""
        assumed = assumed_price(model, host, self.rule)
        if host == NO_HOST or assumed == "free":
            return ""
        table_model = find_table_model(
            model, "" if assumed == "vendor" else host, _own_table(provider)
        )
        if table_model:
            return f"{table_model.vendor}/{table_model.info.id}"
        return ""

    def batch(
        self, model: str, host: str, usage: Usage, *, at: float | None = None
    ) -> Decimal | None:
        """Return what the tokens cost through the vendor's Batch API; None where the tables state
        no such price."""
        return self._price(model, host, usage, at, batch=True)

    def _price(
        self,
        model: str,
        host: str,
        usage: Usage,
        at: float | None,
        *,
        batch: bool,
        table: str = "",
    ) -> Decimal | None:
        assumed = assumed_price(model, host, self.rule)
        if host == NO_HOST or assumed == "free":
            return Decimal(0)
        seller = "" if assumed == "vendor" else host
        if find_table_model(model, seller, table) is None:
            return None
        return _price_at(
            model, seller, batch, int((time.time() if at is None else at) // PERIOD_S), table
        )(usage)


call_price: Final = PriceList()


@lru_cache(maxsize=256)
def assumed_price(model: str, host: str, rule: PriceRule = "auto") -> AssumedPrice:
    """Return what is assumed of a host that has no price list of its own: nothing is charged, or
    the vendor's price.

    Empty: nothing is assumed, because the host's prices are in the tables, no rule covers it, or
    nothing is sent.
    """
    if host == NO_HOST:
        return ""
    if not is_loopback(host):
        if rule == "vendor" and find_table_model(model, host) is None:
            return "vendor"
        return ""
    if rule == "auto":
        if sold_model(model):
            return "vendor"
        return "free"
    return rule


@lru_cache(maxsize=256)
def find_table_model(model: str, host: str, table: str = "") -> TableModel | None:
    """Return the table's model; None where the tables do not know it.

    host: empty for a gateway, whose model is looked up by name at the vendor that sells it.
    table: the table's id of the vendor, where the host alone does not tell.
    """
    if table:
        try:
            return TableModel(table, _look_up(model, table=table)[1], True)
        except LookupError:
            return None
    if not host:
        sold = _sold_by_name(model) or _sold_by_name(
            sold_model(model) or model.rsplit("/", 1)[-1]
        )
        return None if sold is None else TableModel(str(sold[0].id), sold[1], True)
    url = f"https://{host}/"
    try:
        vendor, info = _look_up(model, url=url)
    except LookupError:
        return None
    if not _is_whole_name(vendor.api_pattern, url):
        return None
    return TableModel(str(vendor.id), info, any(info is offered for offered in vendor.models))


def vendor_by_price_table(model: str) -> str:
    """Return the table's id of the vendor that sells this model; empty where no vendor does."""
    info = _sold_by_name(model)
    if info:
        return str(info[0].id)
    return ""


def _price_tables() -> Any:
    import genai_prices.data_snapshot  # 0.3 s; a turn that spends nothing looks no price up

    return genai_prices


def _look_up(
    model: str, *, table: str | None = None, url: str | None = None
) -> tuple[Any, Any]:
    """Return a vendor and its model. Raises LookupError."""
    tables = _price_tables().data_snapshot.get_snapshot()
    vendor, info = tables.find_provider_model(model, None, table, url)
    return vendor, info


def _sold_by_name(model: str) -> tuple[Any, Any] | None:
    try:
        return _look_up(model)
    except LookupError:
        return None


@lru_cache(maxsize=1024)
def _price_at(model: str, host: str, batch: bool, period: int, table: str = "") -> PriceOf:
    table_model = find_table_model(model, host, table)
    assert table_model is not None
    info = table_model.info
    is_own = table_model.is_own
    when = datetime.fromtimestamp(period * PERIOD_S, UTC)
    if not batch:
        return compile_prices(info.get_prices(when))
    # A reseller has batch prices of its own, or none.
    variants = (info.price_variants or ()) if is_own else ()
    if any(_is_batch(variant, when) for variant in variants):
        return compile_prices(info.get_prices(when, BATCH))
    return _not_known


def compile_prices(prices: Any) -> PriceOf:
    """Turn a price of the table (`ModelPrice`) into rates, by asking it for each kind of token in
    each band."""
    if prices.input_mtok is None:
        return _not_known
    tiers: list[int] = []
    for table_price in vars(prices).values():
        tiers += [tier.start for tier in getattr(table_price, "tiers", ())]
    bands = [_band(prices, above) for above in (*sorted(set(tiers), reverse=True), -1)]

    def price(usage: Usage) -> Decimal | None:
        if not (usage.input_tokens or usage.output_tokens):
            return Decimal(0)  # a call without tokens was not charged
        return next(band for band in bands if usage.input_tokens > band.above).price(usage)

    return price


def _band(prices: Any, above: int) -> PriceBand:
    table_usage = _price_tables().Usage

    def dollars(**counts: int) -> Decimal:
        total: Decimal = prices.calc_price(table_usage(**counts))["total_price"]
        return total

    fee = dollars()
    shortest = max(1, above + 1)
    price = dollars(input_tokens=shortest)

    def input_rate(*kinds: str) -> Decimal:
        amount = dollars(input_tokens=shortest, **dict.fromkeys(kinds, shortest))
        return (amount - fee) / shortest

    def output_rate(*kinds: str) -> Decimal:
        one_token = dict.fromkeys(kinds, 1)
        return dollars(input_tokens=shortest, output_tokens=1, **one_token) - price

    return PriceBand(
        above=above,
        fee=fee,
        fresh=input_rate(),
        cached=input_rate("cache_read_tokens"),
        written=input_rate("cache_write_tokens"),
        written_1h=input_rate("cache_write_tokens", "cache_write_1h_tokens"),
        output=None if prices.output_mtok is None else output_rate(),
        reasoning=output_rate("output_reasoning_tokens"),
    )


def _not_known(usage: Usage) -> Decimal | None:
    """Price what the table states no price for: only a call that was not made is known to cost
    nothing."""
    if usage.input_tokens or usage.output_tokens:
        return None
    return Decimal(0)


def _is_batch(variant: Any, when: datetime) -> bool:
    return dict(variant.when) == BATCH and (
        variant.constraint is None or variant.constraint.active(when)
    )


def _is_whole_name(pattern: str, url: str) -> bool:
    """Whether the table's pattern covers the host's name to its end (one ending in a dot: all but
    the last label)."""
    match = re.match(pattern, url)
    rest = url[match.end() :] if match else "."
    if match and match.group().endswith(".") and "." not in rest.split("/")[0]:
        rest = rest[rest.index("/") :]
    return not rest or rest[0] in "/:" or url[len(url) - len(rest) - 1] == "/"


def counterfactual_cost(
    provider: str,
    host: str,
    request: Request,
    usage: Usage,
    *,
    cost: Decimal | None,
    price_of: PriceFunction = call_price,
) -> CounterfactualCost:
    """Return what one attempt would have cost without the host's prefix cache, without packs, and
    by the Batch API.

    cost: what it did cost. Only judging is packed and could wait for a batch; any other call
        costs the same. A batch price is not known where `price_of` replaces the tables.
    """
    plain = usage
    uncached = cost
    if usage.cached_input_tokens or usage.cache_write_tokens:
        plain = Usage(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            reasoning_tokens=usage.reasoning_tokens,
        )
        uncached = price_of(provider, request.model, host, plain)
    if request.stage is not Stage.JUDGE:
        return CounterfactualCost(
            without_prefix_cache=uncached, without_packs=cost, by_batch=cost
        )
    by_batch = None
    if isinstance(price_of, PriceList):
        by_batch = price_of.batch(request.model, host, usage)
    return CounterfactualCost(
        without_prefix_cache=uncached,
        without_packs=_one_prompt_each(provider, host, request, plain, price_of=price_of),
        by_batch=by_batch,
    )


def _one_prompt_each(
    provider: str, host: str, request: Request, plain: Usage, *, price_of: PriceFunction
) -> Decimal | None:
    """Price the same candidates in a prompt each: as many calls of the average size, so that none
    meets a tier."""
    if request.candidates <= 1 or not plain.input_tokens:
        return price_of(provider, request.model, host, plain)
    further = request.candidates - 1
    alone = Usage(
        input_tokens=-(
            -(plain.input_tokens + further * request.frame_tokens) // request.candidates
        ),
        output_tokens=-(-(plain.output_tokens + further * REPLY_FRAME) // request.candidates),
    )
    first_usd = price_of(provider, request.model, host, alone)
    if first_usd is None:
        return None
    return first_usd * request.candidates


def cost_upper_bound(
    provider: str, host: str, request: Request, *, price_of: PriceFunction = call_price
) -> Decimal | None:
    """Return the most that one attempt at this request may cost."""
    usage = usage_upper_bound(provider, host, request, price_of=price_of)
    return price_of(provider, request.model, host, usage)


def usage_upper_bound(
    provider: str, host: str, request: Request, *, price_of: PriceFunction = call_price
) -> Usage:
    """Return the dearest usage of one attempt: nothing cached, all of the prompt written if that
    costs more."""
    steps = math.ceil(request.reserved_input_tokens / BOUND_STEP_TOKENS)
    input_tokens = steps * BOUND_STEP_TOKENS
    plain = Usage(input_tokens=input_tokens, output_tokens=request.max_output_tokens)
    written_1h = input_tokens if request.prefix_ttl_s >= HOUR_S else 0
    written = replace(plain, cache_write_tokens=input_tokens, cache_write_1h_tokens=written_1h)
    prices = [price_of(provider, request.model, host, usage) for usage in (plain, written)]
    if prices[1] is not None and (prices[0] is None or prices[1] > prices[0]):
        return written
    return plain

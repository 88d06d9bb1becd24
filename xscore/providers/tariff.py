"""What a host charges for a call's tokens: one model's rates, as whole numbers, and the price of one call from them.

A rate is dollars for one token, counted in whole parts of a dollar (`per_dollar`), so that a price is a few products, a
sum and one division, and nothing is rounded on the way. A call whose prompt is longer than a tier's start pays that
tier's rates for all of its tokens; so calls are priced one by one, and a sum of calls never. Pure: where rates come
from is `price_table`'s business. Trade-off: only what calls of this house use is expressed (text in and out, a prefix
cache, a fee a call).
"""

from dataclasses import dataclass
from decimal import Decimal

from xscore.records import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
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


@dataclass(frozen=True, slots=True)
class Rates:
    """What one model costs at one host, at one time, by the length of the prompt."""

    bands: tuple[Band, ...]
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


def _of_input(band: Band, rate: int, usage: Usage) -> int:
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

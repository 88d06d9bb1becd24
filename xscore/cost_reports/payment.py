"""How a payment is said: what was paid, and what the same would have cost in other ways. One rule and one set of names.

Terminal, Markdown and page take both from here, so that none of them forgets what has no price or was estimated. Pure.
Trade-off: names are short enough for a column; `docs/reports.md` says what each of them means.
"""

from dataclasses import dataclass
from decimal import Decimal

from xscore.records.cost_report import Comparison, Spent
from xscore.wording import dollars

NOT_KNOWN = "not known"


@dataclass(frozen=True, slots=True)
class Way:
    """One way to pay for the same judgments and answers."""

    name: str
    usd: Decimal | None
    """None: not known."""

    @property
    def words(self) -> str:
        """Return its dollars in words."""
        return NOT_KNOWN if self.usd is None else dollars(self.usd)


def paid(spent: Spent) -> str:
    """`~$1.27 + 3 unpriced`: what has a price, and how many attempts have none."""
    return " ".join(filter(None, (priced(spent), rest(spent))))


def paid_in_short(spent: Spent) -> str:
    """`~$1.27+?`, for a narrow column."""
    return priced(spent) + ("+?" if rest(spent) else "")


def priced(spent: Spent) -> str:
    """`~$1.27`: `~` where tokens are estimated, `unpriced` where no attempt has a price."""
    if spent.unpriced and spent.unpriced == spent.attempts:
        return "unpriced"
    return dollars(spent.cost_usd, estimated=spent.estimated > 0)


def rest(spent: Spent) -> str:
    """`+ 3 unpriced`: what stands beside the dollars; empty where nothing does."""
    return f"+ {spent.unpriced:,} unpriced" if spent.unpriced and spent.unpriced != spent.attempts else ""


def actual(comparison: Comparison) -> Way:
    """Return the way it was paid."""
    return Way("as it was", comparison.actual_usd)


def otherwise(comparison: Comparison) -> tuple[Way, ...]:
    """Return the other ways."""
    return (
        Way("without our cache (about)", comparison.without_cache_usd),
        Way("without packs (about)", comparison.without_packs_usd),
        Way("without prefix caching", comparison.without_prefix_cache_usd),
        Way("judged by Batch API", comparison.by_batch_usd),
    )

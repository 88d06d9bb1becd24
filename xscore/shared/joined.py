"""What a desk spends through, joined to the shared server where `shared.url` names one; else as it is.

Nothing is connected and no driver is imported before something is claimed, taken or set aside. The user's own store
stays out: what it holds is nobody else's. Only the judge's calls take from shared limits, as only they are many.
"""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from xscore.cache.judgment_store import JudgmentStore
from xscore.errors import UsageError
from xscore.providers.limits import Budget
from xscore.providers.rate_budget import RateBudget
from xscore.providers.rates import Rates
from xscore.settings.offline import SharedSettings
from xscore.shared.connect import opener
from xscore.shared.dollars import SharedDollars
from xscore.shared.link import Link
from xscore.shared.rates import SharedRates
from xscore.shared.read_through import ReadThrough


@dataclass(slots=True)
class Joined:
    """A desk's judgments, dollars and limits a minute."""

    judgments: JudgmentStore
    budget: Budget
    link: Link | None = None
    """None: nothing is shared."""
    _through: ReadThrough | None = None
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    """What is closed in the end."""

    def rates(self, own: Rates, *, bucket: str) -> RateBudget:
        """Return the limits of this host and model (`bucket`) that the judge's calls take from."""
        if self.link is None:
            return own
        shared = SharedRates(own, self.link, bucket=bucket)
        self._stack.push_async_callback(shared.aclose)
        return shared

    def remarks(self) -> tuple[str, ...]:
        """Say for the receipt what could not be shared."""
        if self.link is None or self._through is None:
            return ()
        return (*self.link.remarks(), *self._through.remarks())


@asynccontextmanager
async def joined(
    settings: SharedSettings,
    *,
    judgments: JudgmentStore,
    budget: Budget,
    note: Callable[[str], None] = lambda _: None,
    clock: Callable[[], float] = time.time,
) -> AsyncIterator[Joined]:
    """Join what a desk spends through to the server of these settings.

    note: tells the user when the server goes away, and when it is back. clock: Unix seconds.
    Raises UsageError for a URL that names no server, where its extra is missing, and where one is required of none.
    """
    if not settings.url.get_secret_value():
        if settings.require:
            raise UsageError("a shared server is required, and none is set", hint="Set shared.url (XSCORE_SHARED_URL).")
        yield Joined(judgments, budget)
        return
    link = Link(opener(settings), require=settings.require, timeout_s=settings.timeout_s, note=note)
    async with AsyncExitStack() as stack:  # each is closed, whatever the others raise; the link last
        stack.push_async_callback(link.aclose)
        through = ReadThrough(judgments, link)
        stack.push_async_callback(through.aclose)
        dollars = None
        if settings.max_usd_day is not None:
            dollars = SharedDollars(budget, link, cap_usd=settings.max_usd_day, clock=clock)
            stack.push_async_callback(dollars.aclose)
        yield Joined(through, dollars or budget, link, through, stack)

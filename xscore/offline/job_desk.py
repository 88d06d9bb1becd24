"""One desk for a whole list of questions: one line to the host, one budget, one ledger.

Each question has a judge of its own, and what ends a question need not end the list: a model that will not judge one
question may judge the next. A cap, the deadline, Ctrl-C, and a host that takes nothing more end all. It opens nothing.
Trade-off: limits that a host states are learned by the one line, so what the seat remembers of them counts only for the
first question.
"""

from weakref import WeakSet

from xscore.cache.judgment_store import Claims, Write
from xscore.pipeline.parts import Desk
from xscore.providers.provider import Provider
from xscore.records import Cause, JudgeIdentity, RateLimits, Traffic
from xscore.scorer.fanout import Stop

ENDS_ALL = frozenset({Cause.BUDGET, Cause.DEADLINE, Cause.INTERRUPTED, Cause.PROVIDER})
"""Causes that hold for every question there is."""


class JobDesk:
    """See `pipeline.parts.Desk`."""

    def __init__(self, desk: Desk) -> None:
        self.tab = desk.tab
        self.cause: Cause | None = None
        """Why nothing more is begun; None: it goes on."""
        self.detail = ""
        self._desk = desk
        self._lines: list[tuple[Provider, Provider]] = []
        """Providers as connected, each with the line that leads to it."""
        self._stops: WeakSet[Stop] = WeakSet()

    def end(self, cause: Cause, detail: str = "") -> None:
        """Have no judge begin anything more; the first cause holds."""
        if self.cause is not None:
            return
        self.cause, self.detail = cause, detail
        for stop in list(self._stops):
            stop.set(cause, detail)
        self._desk.halt()

    def new_stop(self) -> Stop:
        """Return what ends one question's judging, and the list's where the cause holds for all."""
        stop = Stop(lambda: self._heard(stop))
        self._stops.add(stop)
        if self.cause is not None:
            stop.set(self.cause, self.detail)
        return stop

    def _heard(self, stop: Stop) -> None:
        if stop.cause in ENDS_ALL:
            self.end(stop.cause, stop.detail)

    def wrap(
        self,
        provider: Provider,
        *,
        model: str,
        rpm: int | None = None,
        tpm: int | None = None,
        concurrency: int | None = None,
        stated: RateLimits | None = None,
    ) -> Provider:
        """Return the one line to this provider."""
        for connected, line in self._lines:
            if connected is provider:
                return line
        line = self._desk.wrap(provider, model=model, rpm=rpm, tpm=tpm, concurrency=concurrency, stated=stated)
        self._lines.append((provider, line))
        return line

    def writer(self, turn_key: str, judge: JudgeIdentity) -> Write:
        """Return what keeps the judgments of a question."""
        return self._desk.writer(turn_key, judge)

    def claims(self, turn_key: str, judge: JudgeIdentity) -> Claims:
        """Return what keeps other processes from paying for the same."""
        return self._desk.claims(turn_key, judge)

    async def of_user(self, turn_key: str, judge: JudgeIdentity) -> tuple[Write, Claims]:
        """Return both for the user's own store."""
        return await self._desk.of_user(turn_key, judge)

    def primary(self) -> Provider:
        """Return the answering model; nobody asks for it offline."""
        return self._desk.primary()

    def embedding(self, provider: Provider) -> Provider:
        """Return a provider of embeddings within the budget."""
        return self._desk.embedding(provider)

    def halt(self) -> None:
        """Hold back what waits to be sent."""
        self._desk.halt()

    def traffic(self) -> Traffic:
        """Return how the calls went."""
        return self._desk.traffic()

    def remarks(self) -> tuple[str, ...]:
        """Say what could not be shared with others."""
        return self._desk.remarks()

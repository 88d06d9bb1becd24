"""The dollars of batches: an upper bound is set aside before a batch is created, and what it cost is charged instead.

Prices are those of the vendor's Batch API where the tables have them; where they have not, the full price is set aside
and charged against the caps, and the ledger calls the call unpriced. While results come in, as much is taken off what
is set aside as is charged, so that both together never pass a cap; what is left over is given back with the last
result, and when a batch failed, expired or was cancelled. A batch outlives its process, and holds what is set aside for
it until it is settled, however long nobody looks (`caps.aside`); the lease counts for a row whose batch is gone.
"""

from dataclasses import dataclass
from decimal import Decimal
from sqlite3 import Connection

from xscore import money
from xscore.cost_reports import caps as spans
from xscore.cost_reports.caps import NOTHING, REPOSITORY, Caps
from xscore.database import making_sense
from xscore.providers.prices import batch_price, price
from xscore.records import CapLeft, Usage
from xscore.settings import BudgetSettings
from xscore.utc_days import day_of

LEASE_S = 48 * 3_600.0
"""Twice what a vendor takes at most."""


@dataclass(frozen=True, slots=True)
class Tariff:
    """What a judge's calls cost, in a batch and live."""

    provider: str
    model: str
    host: str

    def batch(self, usage: Usage, *, at: float | None = None) -> Decimal | None:
        """Return what a call costs in a batch; None: the tables do not say."""
        return batch_price(self.model, self.host, usage, at=at)

    def live(self, usage: Usage, *, at: float | None = None) -> Decimal | None:
        """Return what the same call costs live; None: the tables do not say."""
        return price(self.provider, self.model, self.host, usage, at=at)

    def charged(self, usage: Usage, *, at: float | None = None) -> Decimal:
        """Return what a call counts for against the caps; an unpriced one counts as nothing."""
        found = self.batch(usage, at=at)
        return found if found is not None else self.live(usage, at=at) or NOTHING


@dataclass(frozen=True, slots=True)
class Purse:
    """What one job may spend."""

    job: str
    caps: Caps

    @classmethod
    def of(cls, job: str, max_usd: Decimal | None, budget: BudgetSettings) -> "Purse":
        """Return the caps of a job: its own, and those of the day and the repository."""
        return cls(job, Caps(turn=max_usd, day=budget.max_usd_day, repository=budget.max_usd_repository))

    def tightest(self, connection: Connection, *, now: float) -> CapLeft | None:
        """Return the cap with the least room; None: there is none. Raises StoreDamaged."""
        if not self.caps.any:
            return None
        held = spans.aside(connection, own=frozenset(), now=now).held
        found = spans.left(connection, self.caps, turn_id=self.job, day=day_of(now), set_aside=held)
        return min(found, key=lambda cap: cap.left_usd)

    def set_aside(self, connection: Connection, mark: str, usd: Decimal, *, now: float) -> bool:
        """Set dollars aside for a batch, unless they would pass a cap. Within an open transaction."""
        held, gone = spans.aside(connection, own=frozenset(), now=now)
        connection.executemany("DELETE FROM reservation WHERE id = ?", [(row,) for row in gone])
        if self.caps.any:
            found = spans.left(connection, self.caps, turn_id=self.job, day=day_of(now), set_aside=held)
            if any(usd > cap.left_usd for cap in found):
                return False
        connection.execute(
            "INSERT INTO reservation (id, turn_id, day, life, leased_until, amount) VALUES (?, ?, ?, '', ?, ?)"
            " ON CONFLICT (id) DO UPDATE SET leased_until = excluded.leased_until, amount = excluded.amount",
            (mark, self.job, day_of(now), now + LEASE_S, money.picodollars(usd)),
        )
        return True

    def charge(self, connection: Connection, mark: str, usd: Decimal, *, day: str) -> None:
        """Charge what calls of a batch cost, and set so much less aside for it. Within an open transaction."""
        capped = {self.job: self.caps.turn, day: self.caps.day, REPOSITORY: self.caps.repository}
        spans.charge(
            connection,
            dict.fromkeys(capped, usd),
            capped=frozenset(span for span, cap in capped.items() if cap is not None),
        )
        left = aside_for(connection, mark) - usd
        if left > 0:
            connection.execute("UPDATE reservation SET amount = ? WHERE id = ?", (money.picodollars(left), mark))
        else:
            give_back(connection, mark)


def aside_for(connection: Connection, mark: str) -> Decimal:
    """Return what is set aside for a batch. Raises StoreDamaged."""
    row = connection.execute("SELECT amount FROM reservation WHERE id = ?", (mark,)).fetchone()
    with making_sense("what is set aside"):
        return money.dollars(row[0]) if row else NOTHING


def renew(connection: Connection, mark: str, *, now: float) -> None:
    """Hold what is set aside for another while. Within an open transaction."""
    connection.execute("UPDATE reservation SET leased_until = ? WHERE id = ?", (now + LEASE_S, mark))


def give_back(connection: Connection, mark: str) -> None:
    """Set nothing aside for a batch any more. Within an open transaction."""
    connection.execute("DELETE FROM reservation WHERE id = ?", (mark,))

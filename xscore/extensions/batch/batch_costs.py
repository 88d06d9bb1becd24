"""The dollars of batches: an upper bound is set aside before a batch is created, and what it cost is charged instead.

Prices are those of the vendor's Batch API where the tables have them; where they have not, the full price is set aside
and charged against the caps, and the ledger calls the call unpriced. While results come in, as much is taken off what
is set aside as is charged, so that both together never pass a cap; what is left over is given back with the last
result, and when a batch failed, expired or was cancelled. A batch outlives its process, and holds what is set aside for
it until it is settled, however long nobody looks (`caps.aside`); the lease counts for a row whose batch is gone.

What answered requests of a batch cost: a row of the ledger each, and the dollars charged against the caps.

A row's id is its custom_id, so that a result cannot be entered twice. A batch has no latency worth a figure: its rows
last 0 seconds. Trade-off: what the call would have cost one memory a prompt is not known here, because nothing of the
prompt is kept.
"""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from sqlite3 import Connection

from msgspec import Struct
from msgspec.structs import replace

from xscore.costs import caps as spending
from xscore.costs.caps import ZERO_USD, Caps
from xscore.costs.ledger import insert_batch_calls
from xscore.extensions.batch.batch_rows import Batch, custom_id
from xscore.extensions.batch.job_rows import RequestName
from xscore.platform import money
from xscore.platform.clock import day_of
from xscore.platform.database import damage_if_invalid
from xscore.platform.errors import UnreadableResponse
from xscore.providers.prices import batch_price, call_price
from xscore.records import CallRecord, CapLeft, Completion, CounterfactualCost, Stage, Usage
from xscore.records.batch import BatchResult
from xscore.settings import BudgetSettings

BATCH_LEASE_S = 48 * 3_600.0
"""Twice what a vendor takes at most."""


class BatchPrices(Struct, frozen=True):
    """What a judge's calls cost, in a batch and live."""

    provider: str
    model: str
    host: str

    def batch(self, usage: Usage, *, at: float | None = None) -> Decimal | None:
        """Return what a call costs in a batch; None: the tables do not say."""
        return batch_price(self.model, self.host, usage, at=at)

    def live(self, usage: Usage, *, at: float | None = None) -> Decimal | None:
        """Return what the same call costs live; None: the tables do not say."""
        return call_price(self.provider, self.model, self.host, usage, at=at)

    def charged(self, usage: Usage, *, at: float | None = None) -> Decimal:
        """Return what a call counts for against the caps; an unpriced one counts as nothing."""
        found = self.batch(usage, at=at)
        return found if found is not None else self.live(usage, at=at) or ZERO_USD


class BatchReservation(Struct, frozen=True):
    """What one job may spend."""

    job: str
    caps: Caps

    @classmethod
    def of(cls, job: str, max_usd: Decimal | None, budget: BudgetSettings) -> "BatchReservation":
        """Return the caps of a job: its own, and those of the day and the repository."""
        return cls(job, Caps(turn=max_usd, day=budget.max_usd_day, repository=budget.max_usd_repository))

    def tightest(self, connection: Connection, *, now: float) -> CapLeft | None:
        """Return the cap with the least room; None: there is none. Raises StoreDamaged."""
        found = spending.cap_status(connection, self.caps, now=now, turn_id=self.job)
        return min(found, key=lambda cap: cap.left_usd, default=None)

    def set_aside(self, connection: Connection, mark: str, usd: Decimal, *, now: float) -> bool:
        """Set dollars aside for a batch, unless they would pass a cap. Within an open transaction."""
        spending.delete_expired(connection, now=now)
        tightest = self.tightest(connection, now=now)
        if tightest is not None and usd > tightest.left_usd:
            return False
        row = spending.ReservedAmount(mark, self.job, day_of(now), usd)
        spending.write_reservation(connection, row, process="", leased_until=now + BATCH_LEASE_S)
        return True

    def charge(self, connection: Connection, mark: str, usd: Decimal, *, day: str) -> None:
        """Charge what calls of a batch cost, and set that much less aside for it. Within an open transaction."""
        spending.add_spending(connection, self.caps, usd, turn_id=self.job, day=day)
        spending.reduce_reservation(connection, mark, usd)


def reserved_for_batch(connection: Connection, mark: str) -> Decimal:
    """Return what is set aside for a batch. Raises StoreDamaged."""
    return spending.reserved_usd(connection, mark) or ZERO_USD


def renew_reservation(connection: Connection, mark: str, *, now: float) -> None:
    """Hold what is set aside for another lease. Within an open transaction."""
    connection.execute("UPDATE reservation SET leased_until = ? WHERE id = ?", (now + BATCH_LEASE_S, mark))


def release_reservation(connection: Connection, mark: str) -> None:
    """Set nothing aside for a batch any more. Within an open transaction."""
    connection.execute("DELETE FROM reservation WHERE id = ?", (mark,))


OK = "ok"
UNREAD_OUTCOME = UnreadableResponse.kind
_CHARGED = "SELECT coalesce(sum(coalesce(cost, cost_live, 0)), 0) FROM call WHERE batch = ?"


class BatchLedger(Struct, frozen=True):
    """Enters what one job's batches cost."""

    tariff: BatchPrices
    purse: BatchReservation

    def enter(self, connection: Connection, batch: Batch, answered: Iterable[tuple[BatchResult, int]]) -> None:
        """Enter answered results, each with its count of candidates, and charge them. Within an open transaction."""
        calls: list[tuple[CallRecord, Decimal | None]] = []
        charged = Decimal(0)
        for result, candidates in answered:
            assert result.completion is not None
            usage = _usage(result.completion, batch)
            cost, live = self.tariff.batch(usage, at=batch.marked_at), self.tariff.live(usage, at=batch.marked_at)
            charged += (live or Decimal(0)) if cost is None else cost
            calls.append((self._record(batch, result, usage, cost, candidates), live))
        insert_batch_calls(connection, batch.mark, calls)
        if charged:
            self.purse.charge(connection, batch.mark, charged, day=day_of(batch.marked_at))

    def enter_unread(self, connection: Connection, batch: Batch, requests: Mapping[RequestName, int]) -> None:
        """Charge requests that were run, or may have been, and whose results nobody has: each at its bound.

        requests: each with its count of candidates. Within an open transaction.
        """
        bound = reserved_per_request(connection, batch)
        usage = Usage(input_tokens=batch.input_tokens // max(1, batch.requests))
        at = batch.marked_at
        cost = None if self.tariff.batch(usage, at=at) is None else bound
        live = self.tariff.live(usage, at=at)
        rows = [
            (self._row(batch, custom_id(batch.mark, name), usage, candidates, cost=cost, outcome=UNREAD_OUTCOME), live)
            for name, candidates in requests.items()
        ]
        insert_batch_calls(connection, batch.mark, rows)
        charged = min(bound * len(rows), reserved_for_batch(connection, batch.mark))
        if charged:
            self.purse.charge(connection, batch.mark, charged, day=day_of(at))

    def close(self, connection: Connection, batch: Batch) -> None:
        """Give back what is still set aside for a batch. Within an open transaction."""
        release_reservation(connection, batch.mark)

    def _record(
        self, batch: Batch, result: BatchResult, usage: Usage, cost: Decimal | None, candidates: int
    ) -> CallRecord:
        assert result.completion is not None
        tariff, plain = self.tariff, cost
        if usage.cached_input_tokens or usage.cache_write_tokens:
            bare = Usage(
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                reasoning_tokens=usage.reasoning_tokens,
            )
            plain = tariff.batch(bare, at=batch.marked_at)
        row = self._row(batch, result.custom_id, usage, candidates, cost=cost, outcome=OK)
        otherwise = CounterfactualCost(without_prefix_cache=plain, by_batch=cost)
        return replace(row, estimated=not result.completion.usage_reported, otherwise=otherwise)

    def _row(
        self, batch: Batch, name: str, usage: Usage, candidates: int, *, cost: Decimal | None, outcome: str
    ) -> CallRecord:
        tariff = self.tariff
        return CallRecord(
            id=name,
            turn_id=batch.job,
            stage=Stage.JUDGE,
            provider=tariff.provider,
            host=tariff.host,
            model=tariff.model,
            started_at=batch.marked_at,
            duration_s=0.0,
            outcome=outcome,
            candidates=candidates,
            usage=usage,
            cost_usd=cost,
            estimated=True,
        )


def reserved_per_request(connection: Connection, batch: Batch) -> Decimal:
    """Return the even share that a request has in what was set aside when its batch was sent."""
    with damage_if_invalid("what a batch cost"):
        (charged,) = connection.execute(_CHARGED, (batch.mark,)).fetchone()
        whole = reserved_for_batch(connection, batch.mark) + money.dollars_of_picodollars(charged)
    return money.dollars_of_picodollars(money.picodollars(whole) // max(1, batch.requests))


def _usage(completion: Completion, batch: Batch) -> Usage:
    """Return the usage told; where none is, the input is an even share of what the batch was estimated at."""
    if completion.usage_reported:
        return completion.usage
    share = batch.input_tokens // max(1, batch.requests)
    return Usage(input_tokens=share, output_tokens=completion.usage.output_tokens)

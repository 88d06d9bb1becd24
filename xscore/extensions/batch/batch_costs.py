"""The dollars of batches: an upper bound is reserved before a batch is created, then replaced by the actual cost.

Prices are those of the Batch API; where the tables have none, the live price counts against the caps and the ledger
calls the call unpriced. While results come in, charges reduce the reservation, so that both together never pass a cap.
A batch outlives its process, so its reservation holds while its row is open, for any length of time (`costs.caps`).
Trade-off: a ledger row of a batch has no latency, and not what the call would have cost with one memory a prompt.
"""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from sqlite3 import Connection

from msgspec import Struct
from msgspec.structs import replace

from xscore.costs import caps as spending
from xscore.costs.caps import ZERO_USD, Caps
from xscore.costs.ledger import insert_batch_calls
from xscore.extensions.batch.batch_rows import custom_id
from xscore.extensions.batch.job_rows import BatchJob, RequestName
from xscore.extensions.batch.records import Batch, BatchResult
from xscore.platform import money
from xscore.platform.clock import day_of
from xscore.platform.database import damage_if_invalid
from xscore.platform.errors import UnreadableResponse
from xscore.providers.prices import PriceList
from xscore.records.calls import CallRecord, CounterfactualCost, Stage, Usage
from xscore.records.reports import CapLeft
from xscore.settings import Settings

BATCH_LEASE_S = 48 * 3_600.0
"""Twice the time a vendor takes at most."""
_CHARGED = "SELECT coalesce(sum(coalesce(cost, cost_live, 0)), 0) FROM call WHERE batch = ?"


class BatchLedger(Struct, frozen=True, kw_only=True):
    """Reserves, charges and records the dollars of one job's batches. Write within an open transaction."""

    job: str
    provider: str
    model: str
    host: str
    caps: Caps
    prices: PriceList = PriceList()

    @classmethod
    def of(cls, job: BatchJob, settings: Settings) -> "BatchLedger":
        """Return the ledger of a job: its own cap, and those of the day and the repository."""
        recipe, budget = job.recipe, settings.budget
        caps = Caps(turn=job.max_usd, day=budget.max_usd_day, repository=budget.max_usd_repository)
        return cls(
            job=job.id,
            provider=recipe.provider,
            model=recipe.model.name,
            host=recipe.host,
            caps=caps,
            prices=PriceList(settings.provider.price),
        )

    def tightest_cap(self, connection: Connection, *, now: float) -> CapLeft | None:
        """Return the cap with the least room; None: there is none. Raises StoreDamaged."""
        found = spending.cap_status(connection, self.caps, now=now, turn_id=self.job)
        return min(found, key=lambda cap: cap.left_usd, default=None)

    def reserve(self, connection: Connection, mark: str, usd: Decimal, *, now: float) -> bool:
        """Reserve dollars for a batch, unless they would pass a cap."""
        spending.delete_expired(connection, now=now)
        tightest = self.tightest_cap(connection, now=now)
        if tightest is not None and usd > tightest.left_usd:
            return False
        row = spending.ReservedAmount(mark, self.job, day_of(now), usd)
        spending.write_reservation(connection, row, process="", leased_until=now + BATCH_LEASE_S)
        return True

    def enter(self, connection: Connection, batch: Batch, answered: Iterable[tuple[BatchResult, int]]) -> None:
        """Record answered results, each with its count of candidates, and charge them."""
        at, charged = batch.marked_at, ZERO_USD
        calls: list[tuple[CallRecord, Decimal | None]] = []
        for result, candidates in answered:
            assert result.completion is not None
            usage, is_reported = result.completion.usage, result.completion.usage_reported
            if not is_reported:
                usage = Usage(input_tokens=_share(batch), output_tokens=usage.output_tokens)
            bare = replace(usage, cached_input_tokens=0, cache_write_tokens=0, cache_write_1h_tokens=0)
            cost, live = self.prices.batch(self.model, self.host, usage, at=at), self._live_price(usage, at)
            charged += (live or ZERO_USD) if cost is None else cost
            plain = self.prices.batch(self.model, self.host, bare, at=at)
            call = self._call(batch, result.custom_id, usage, candidates, cost=cost, outcome="ok")
            otherwise = CounterfactualCost(without_prefix_cache=plain, by_batch=cost)
            calls.append((replace(call, estimated=not is_reported, otherwise=otherwise), live))
        insert_batch_calls(connection, batch.mark, calls)
        self._charge(connection, batch, charged)

    def enter_unread(self, connection: Connection, batch: Batch, requests: Mapping[RequestName, int]) -> None:
        """Charge requests that ran or may have run and whose results are lost, each at its bound.

        requests: each with its count of candidates.
        """
        if not requests:
            return
        with damage_if_invalid("what a batch cost"):
            (spent,) = connection.execute(_CHARGED, (batch.mark,)).fetchone()
            whole = money.picodollars(reserved_for_batch(connection, batch.mark)) + spent
            bound = money.dollars_of_picodollars(whole // max(1, batch.requests))
        usage, at = Usage(input_tokens=_share(batch)), batch.marked_at
        cost = None if self.prices.batch(self.model, self.host, usage, at=at) is None else bound
        live, kind = self._live_price(usage, at), UnreadableResponse.kind
        rows = [
            self._call(batch, custom_id(batch.mark, name), usage, candidates, cost=cost, outcome=kind)
            for name, candidates in requests.items()
        ]
        insert_batch_calls(connection, batch.mark, [(row, live) for row in rows])
        self._charge(connection, batch, min(bound * len(rows), reserved_for_batch(connection, batch.mark)))

    def _charge(self, connection: Connection, batch: Batch, usd: Decimal) -> None:
        if usd:
            spending.add_spending(connection, self.caps, usd, turn_id=self.job, day=day_of(batch.marked_at))
            spending.reduce_reservation(connection, batch.mark, usd)

    def _live_price(self, usage: Usage, at: float) -> Decimal | None:
        return self.prices(self.provider, self.model, self.host, usage, at=at)

    def _call(
        self, batch: Batch, name: str, usage: Usage, candidates: int, *, cost: Decimal | None, outcome: str
    ) -> CallRecord:
        return CallRecord(
            id=name,
            turn_id=batch.job,
            stage=Stage.JUDGE,
            provider=self.provider,
            host=self.host,
            model=self.model,
            started_at=batch.marked_at,
            duration_s=0.0,
            usage=usage,
            candidates=candidates,
            cost_usd=cost,
            outcome=outcome,
            estimated=True,
        )


def _share(batch: Batch) -> int:
    """Return a request's even share of the batch's estimated input."""
    return batch.input_tokens // max(1, batch.requests)


def reserved_for_batch(connection: Connection, mark: str) -> Decimal:
    """Return the dollars reserved for a batch. Raises StoreDamaged."""
    return spending.reserved_usd(connection, mark) or ZERO_USD


def renew_reservation(connection: Connection, mark: str, *, now: float) -> None:
    """Hold a reservation for another lease. Within an open transaction."""
    connection.execute("UPDATE reservation SET leased_until = ? WHERE id = ?", (now + BATCH_LEASE_S, mark))

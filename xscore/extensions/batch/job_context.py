"""One pass over a job: the lease that lets one process at a time advance it, and the dollars of its
batches.

A job's row names the process that holds it; a holder that is dead is replaced (`cache.lease`). Each
transaction of a pass checks that the lease is still ours, so a process that was suspended for
minutes writes nothing twice.

An upper bound is reserved before a batch is created, then replaced by the actual cost. Prices are
those of the Batch API; where the tables have none, the live price counts against the caps and the
ledger calls the call unpriced. While results come in, charges reduce the reservation, so that both
together never pass a cap. A batch outlives its process, so its reservation holds while its row is
open, for any length of time (`costs.caps`). Trade-off: a process killed in another container holds
the job until its lease expires.
"""

import sqlite3
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from decimal import Decimal
from sqlite3 import Connection

from msgspec import Struct
from msgspec.structs import replace

from xscore.cache.heartbeat import Heartbeat
from xscore.cache.lease import Lease
from xscore.costs import caps as spending
from xscore.costs.caps import ZERO_USD, Caps
from xscore.costs.ledger import insert_batch_calls
from xscore.extensions.batch.batch_rows import custom_id
from xscore.extensions.batch.job_rows import LIST_HINT, BatchJob, RequestName, read_prompts
from xscore.extensions.batch.records import Batch, BatchResult
from xscore.platform import database, money
from xscore.platform.clock import DAY_S, day_of
from xscore.platform.database import damage_if_invalid
from xscore.platform.errors import NothingMatched, StoreError, UnreadableResponse
from xscore.providers.host_facts import UNSEEN_TOKENS, estimated_output_tokens, is_excessive
from xscore.providers.prices import PriceList
from xscore.records.calls import CallRecord, CounterfactualCost, Usage
from xscore.records.estimates import CapLeft
from xscore.settings import Settings
from xscore.store.store import Store

BATCH_LEASE_S = 2 * DAY_S
"""Lease of a batch: twice the longest time a vendor takes."""
REQUEST_SPREAD = 16
"""A request may be this many times larger than the mean of its batch; reported usage above one
token for each byte of that is not believed."""
_CHARGED = "SELECT coalesce(sum(coalesce(cost, cost_live, 0)), 0) FROM call WHERE batch = ?"


class BatchLedger(Struct, frozen=True, kw_only=True):
    """Reserves, charges and records the dollars of one job's batches.

    Call it within an open transaction.
    """

    job: BatchJob
    caps: Caps
    """Caps of the job itself, and those of the day and the repository."""
    prices: PriceList

    @classmethod
    def of(cls, job: BatchJob, settings: Settings) -> "BatchLedger":
        """Return the ledger of a job."""
        caps = replace(Caps.of(settings.budget), turn=job.max_usd)
        return cls(job=job, caps=caps, prices=PriceList(settings.provider.price))

    def tightest_cap(self, connection: Connection, *, now: float) -> CapLeft | None:
        """Return the cap with the least room; None if there is none. Raises StoreDamaged."""
        caps = spending.cap_status(connection, self.caps, now=now, turn_id=self.job.id)
        return min(caps, key=lambda cap: cap.left_usd, default=None)

    def reserve(self, connection: Connection, mark: str, usd: Decimal, *, now: float) -> bool:
        """Reserve dollars for a batch, unless they would pass a cap."""
        spending.delete_expired(connection, now=now)
        tightest = self.tightest_cap(connection, now=now)
        if tightest is not None and usd > tightest.left_usd:
            return False
        row = spending.ReservedAmount(mark, self.job.id, day_of(now), usd)
        spending.write_reservation(
            connection, row, process="", leased_until=now + BATCH_LEASE_S
        )
        return True

    def renew(self, connection: Connection, mark: str, *, now: float) -> None:
        """Extend a batch's reservation by another lease."""
        connection.execute(
            "UPDATE reservation SET leased_until = ? WHERE id = ?", (now + BATCH_LEASE_S, mark)
        )

    def enter(
        self, connection: Connection, batch: Batch, answered: Iterable[tuple[BatchResult, int]]
    ) -> None:
        """Record answered results, each with its number of candidates, and charge them."""
        at = batch.marked_at
        charged = ZERO_USD
        calls: list[tuple[CallRecord, Decimal | None]] = []
        for result, candidates in answered:
            assert result.completion is not None
            usage = result.completion.usage
            text = result.completion.text
            prompt_bytes = REQUEST_SPREAD * batch.bytes // max(1, batch.requests)
            excessive = is_excessive(
                usage, text, prompt_bytes=prompt_bytes, most_output=UNSEEN_TOKENS
            )
            is_reported = result.completion.usage_reported and not excessive
            if not is_reported:
                usage = Usage(
                    input_tokens=_input_share(batch),
                    output_tokens=estimated_output_tokens(text),
                )
            bare = replace(
                usage, cached_input_tokens=0, cache_write_tokens=0, cache_write_1h_tokens=0
            )
            cost = self._batch_price(usage, at)
            live = self._live_price(usage, at)
            charged += (live or ZERO_USD) if cost is None else cost
            plain = self._batch_price(bare, at)
            call = self._call(
                batch, result.custom_id, usage, candidates, cost=cost, outcome="ok"
            )
            otherwise = CounterfactualCost(without_prefix_cache=plain, by_batch=cost)
            calls.append((replace(call, estimated=not is_reported, otherwise=otherwise), live))
        insert_batch_calls(connection, batch.mark, calls)
        self._charge(connection, batch, charged)

    def enter_unread(
        self, connection: Connection, batch: Batch, requests: Collection[RequestName]
    ) -> None:
        """Charge requests that ran, or may have run, without a result, each at its bound."""
        if not requests:
            return
        prompts = read_prompts(connection, self.job.id, {number for _, number in requests})
        reserved = spending.reserved_usd(connection, batch.mark) or ZERO_USD
        # The batch's bound is what is still reserved and what it has spent; each request has its
        # equal share of it, since the vendor does not tell which ran.
        with damage_if_invalid("what a batch cost"):
            (spent,) = connection.execute(_CHARGED, (batch.mark,)).fetchone()
            bound = money.dollars_of_picodollars(
                (money.picodollars(reserved) + spent) // max(1, batch.requests)
            )
        usage = Usage(input_tokens=_input_share(batch))
        at = batch.marked_at
        cost = None if self._batch_price(usage, at) is None else bound
        live = self._live_price(usage, at)
        kind = UnreadableResponse.kind
        rows = []
        for name in requests:
            rows.append(
                self._call(
                    batch,
                    custom_id(batch.mark, name),
                    usage,
                    len(prompts[name[1]].pieces),
                    cost=cost,
                    outcome=kind,
                )
            )
        insert_batch_calls(connection, batch.mark, [(row, live) for row in rows])
        # Never more than is still reserved, or the charges would pass a cap.
        self._charge(connection, batch, min(bound * len(rows), reserved))

    def _charge(self, connection: Connection, batch: Batch, usd: Decimal) -> None:
        if usd:
            spending.add_spending(
                connection, self.caps, usd, turn_id=self.job.id, day=day_of(batch.marked_at)
            )
            spending.reduce_reservation(connection, batch.mark, usd)

    def _live_price(self, usage: Usage, at: float) -> Decimal | None:
        recipe = self.job.recipe
        return self.prices(recipe.provider, recipe.model.name, recipe.host, usage, at=at)

    def _batch_price(self, usage: Usage, at: float) -> Decimal | None:
        return self.prices.batch(self.job.recipe.model.name, self.job.recipe.host, usage, at=at)

    def _call(
        self,
        batch: Batch,
        name: str,
        usage: Usage,
        candidates: int,
        *,
        cost: Decimal | None,
        outcome: str,
    ) -> CallRecord:
        return CallRecord(
            id=name,
            turn_id=batch.job,
            stage=self.job.stage,
            provider=self.job.recipe.provider,
            host=self.job.recipe.host,
            model=self.job.recipe.model.name,
            started_at=batch.marked_at,
            duration_s=0.0,
            usage=usage,
            candidates=candidates,
            cost_usd=cost,
            outcome=outcome,
            estimated=True,
        )


def _input_share(batch: Batch) -> int:
    return batch.input_tokens // max(1, batch.requests)


@asynccontextmanager
async def job_lease(
    connection: Connection, job: str, *, clock: Callable[[], float]
) -> AsyncIterator[str]:
    """Hold a job during one pass: yields the lease's id, or nothing while a live process has the
    job.

    Raises NothingMatched for no job, StoreError. If the store cannot be written at the end, the
    lease expires.
    """
    lease = Lease(clock)

    async def renew() -> None:
        with database.transaction(connection) as opened:
            lease.renew(opened)

    heartbeat = Heartbeat(renew)
    try:
        with database.transaction(connection) as opened:
            is_ours = _take_job(opened, job, lease)
        # Only now: a heartbeat renews a lease that is there.
        heartbeat.start()
        yield lease.id if is_ours else ""
    finally:
        await heartbeat.stop()
        with suppress(StoreError, sqlite3.Error), database.transaction(connection) as opened:
            opened.execute(
                "UPDATE job SET runner = '' WHERE id = ? AND runner = ?", (job, lease.id)
            )
            lease.release(opened)
        lease.close()


def _take_job(connection: Connection, job: str, lease: Lease) -> bool:
    row = connection.execute("SELECT runner FROM job WHERE id = ?", (job,)).fetchone()
    if row is None:
        raise NothingMatched(f"there is no job {job}", hint=LIST_HINT)
    # Our own lease first, then those of dead processes go; a holder that is left is alive.
    lease.renew(connection)
    lease.reap_dead(connection)
    if row[0] and connection.execute("SELECT 1 FROM runner WHERE id = ?", (row[0],)).fetchone():
        return False
    connection.execute("UPDATE job SET runner = ? WHERE id = ?", (lease.id, job))
    return True


class JobContext(Struct, frozen=True, kw_only=True):
    """One pass over one job."""

    store: Store
    settings: Settings
    job: BatchJob
    ledger: BatchLedger
    lease: str
    clock: Callable[[], float]

    @property
    def connection(self) -> Connection:
        """Connection for reading; writes go through `transaction`."""
        return self.store.connection

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Open a transaction of this pass.

        Raises StoreError if another process has taken over the job.
        """
        with database.transaction(self.connection) as connection:
            row = connection.execute(
                "SELECT runner FROM job WHERE id = ?", (self.job.id,)
            ).fetchone()
            if row is None or row[0] != self.lease:
                raise StoreError(
                    f"job {self.job.id} was taken over by another process, or is gone",
                    hint="Run the command again: it continues with what is in the store.",
                )
            yield connection

"""What answered requests of a batch cost: a row of the ledger each, and the dollars charged against the caps.

A row's id is its custom_id, so that a result cannot be entered twice. A batch has no latency worth a figure: its rows
last 0 seconds. Trade-off: what the call would have cost one memory a prompt is not known here, because nothing of the
prompt is kept.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from sqlite3 import Connection

from xscore import money
from xscore.cost_reports.ledger import enter_of_batch
from xscore.database import making_sense
from xscore.errors import UnreadableResponse
from xscore.offline.batch_money import Purse, Tariff, aside_for, give_back
from xscore.offline.batch_rows import Batch, custom_id
from xscore.offline.job_rows import RequestName
from xscore.records import CallRecord, Completion, Otherwise, Stage, Usage
from xscore.records.offline import BatchResult
from xscore.utc_days import day_of

OK = "ok"
UNREAD = UnreadableResponse.kind
_CHARGED = "SELECT coalesce(sum(coalesce(cost, cost_live, 0)), 0) FROM call WHERE batch = ?"


@dataclass(frozen=True, slots=True)
class BatchLedger:
    """Enters what one job's batches cost."""

    tariff: Tariff
    purse: Purse

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
        enter_of_batch(connection, batch.mark, calls)
        if charged:
            self.purse.charge(connection, batch.mark, charged, day=day_of(batch.marked_at))

    def enter_unread(self, connection: Connection, batch: Batch, requests: Mapping[RequestName, int]) -> None:
        """Charge requests that were run, or may have been, and whose results nobody has: each at its bound.

        requests: each with its count of candidates. Within an open transaction.
        """
        bound = bound_of_each(connection, batch)
        usage = Usage(input_tokens=batch.input_tokens // max(1, batch.requests))
        at = batch.marked_at
        cost = None if self.tariff.batch(usage, at=at) is None else bound
        live = self.tariff.live(usage, at=at)
        rows = [
            (self._row(batch, custom_id(batch.mark, name), usage, candidates, cost=cost, outcome=UNREAD), live)
            for name, candidates in requests.items()
        ]
        enter_of_batch(connection, batch.mark, rows)
        charged = min(bound * len(rows), aside_for(connection, batch.mark))
        if charged:
            self.purse.charge(connection, batch.mark, charged, day=day_of(at))

    def close(self, connection: Connection, batch: Batch) -> None:
        """Give back what is still set aside for a batch. Within an open transaction."""
        give_back(connection, batch.mark)

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
        otherwise = Otherwise(without_prefix_cache=plain, by_batch=cost)
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


def bound_of_each(connection: Connection, batch: Batch) -> Decimal:
    """Return the even share that a request has in what was set aside when its batch was sent."""
    with making_sense("what a batch cost"):
        (charged,) = connection.execute(_CHARGED, (batch.mark,)).fetchone()
        whole = aside_for(connection, batch.mark) + money.dollars(charged)
    return money.dollars(money.picodollars(whole) // max(1, batch.requests))


def _usage(completion: Completion, batch: Batch) -> Usage:
    """Return the usage told; where none is, the input is an even share of what the batch was estimated at."""
    if completion.usage_reported:
        return completion.usage
    share = batch.input_tokens // max(1, batch.requests)
    return Usage(input_tokens=share, output_tokens=completion.usage.output_tokens)

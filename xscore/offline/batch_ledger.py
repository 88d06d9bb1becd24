"""What answered requests of a batch cost: a row of the ledger each, and the dollars charged against the caps.

A row's id is its custom_id, so that a result cannot be entered twice. A batch has no latency worth a figure: its rows
last 0 seconds. Trade-off: what the call would have cost one memory a prompt is not known here, because nothing of the
prompt is kept.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from sqlite3 import Connection

from xscore.cost_reports.ledger import enter_of_batch
from xscore.offline.batch_money import Purse, Tariff, give_back
from xscore.offline.batch_rows import Batch
from xscore.records import CallRecord, Completion, Otherwise, Stage, Usage
from xscore.records.offline import BatchResult
from xscore.utc_days import day_of

OK = "ok"


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
        return CallRecord(
            id=result.custom_id,
            turn_id=batch.job,
            stage=Stage.JUDGE,
            provider=tariff.provider,
            host=tariff.host,
            model=tariff.model,
            started_at=batch.marked_at,
            duration_s=0.0,
            outcome=OK,
            candidates=candidates,
            usage=usage,
            cost_usd=cost,
            estimated=not result.completion.usage_reported,
            otherwise=Otherwise(without_prefix_cache=plain, by_batch=cost),
        )


def _usage(completion: Completion, batch: Batch) -> Usage:
    """Return the usage told; where none is, the input is an even share of what the batch was estimated at."""
    if completion.usage_reported:
        return completion.usage
    share = batch.input_tokens // max(1, batch.requests)
    return Usage(input_tokens=share, output_tokens=completion.usage.output_tokens)

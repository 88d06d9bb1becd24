"""Planned requests sent as batches: as many as the vendor's limits, what may wait there, and the caps have room for.

    rendered -> marked, with its dollars set aside -> uploaded -> created

Each arrow but the first is followed by a transaction, so that a kill leaves a batch that `finding` can settle. What has
no room stays planned and goes out when something was collected. Trade-off: an input is rendered before it is known
whether its dollars can still be set aside, because only then are its bytes known.
"""

import io
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import IO

from xscore import sealing
from xscore.cost_reports.cap_words import capped
from xscore.errors import PromptTooLong, ProviderError, RequestRejected, UsageError
from xscore.offline import batch_money, batch_rows, job_rows, job_steps
from xscore.offline.after_live import known_requests
from xscore.offline.batch_rows import Batch
from xscore.offline.bench import Bench
from xscore.offline.job_rows import RequestName
from xscore.offline.rendering import GONE, Filled, Rendering, Room, limits_in_force, scratch
from xscore.providers.batch_host import NOT_CREATED
from xscore.wording import sentences

LOST_TEXT = f"unreadable: {GONE}"
NOT_SENT = "not created: "
"""Begins the problem of a marked batch of which the vendor certainly has nothing."""
SHARE_AFTER_FULL = 2
"""Where a vendor said that too much waits, no more than this part of it is sent from then on."""


@dataclass(slots=True)
class Sender:
    """Creates the batches of one job."""

    bench: Bench
    held_back: str = ""
    """Why the rest of what is planned was not sent; empty: nothing is held back."""
    over_budget: bool = False
    _rendering: Rendering | None = field(default=None)

    async def send(self) -> bool:
        """Create one batch of planned requests; False: nothing could be sent. Raises leaves of ProviderError."""
        bench = self.bench
        self.held_back, self.over_budget = "", False
        self._drop_known()
        planned = job_rows.planned(bench.connection, bench.job.id)
        if not planned:
            return False
        number = batch_rows.next_number(bench.connection, bench.job.id)
        mark = batch_rows.mark_of(bench.job.id, number)
        with scratch(bench.store) as lines:
            try:
                filled = self._filled(lines, planned, mark)
            except UsageError as error:  # planned for another prompt: what was sent is still collected
                self.held_back = sentences(error.message, error.hint)
                return False
            batch = self._marked(filled, number, mark)
            if batch is None:
                return bool(filled.gone)
            await self.bring(batch, lines)
        return True

    async def again(self, batch: Batch) -> bool:
        """Create a batch that was marked and never came to be; False: its job was stopped. Raises like `send`."""
        bench = self.bench
        if job_steps.is_stopped(bench.connection, bench.job.id):
            return False
        file_id = batch.file_id or await bench.host.find_file(mark=batch.mark, since=bench.since(batch))
        if file_id:
            await self._create(batch, io.BytesIO(), file_id)
            return True
        with scratch(bench.store) as lines:
            requests = job_rows.of_batch(bench.connection, bench.job.id, batch.number)
            filled = self._render().fill(lines, requests, mark=batch.mark)
            with bench.lease.step() as connection:
                batch_rows.lost(connection, bench.job.id, dict.fromkeys(filled.gone, LOST_TEXT))
                batch = batch_rows.resized(connection, batch, filled)
                batch_rows.thin(connection, batch, filled)
                if not filled.taken:
                    batch_rows.failed(connection, batch, GONE, counts=False)
                    batch_money.give_back(connection, batch.mark)
            if filled.taken:
                await self.bring(batch, lines)
        return True

    async def bring(self, batch: Batch, lines: IO[bytes]) -> None:
        """Upload and create a marked batch. Raises leaves of ProviderError."""
        lines.seek(0)
        try:
            file_id = await self.bench.host.upload(lines, mark=batch.mark)
        except NOT_CREATED as error:
            self._never_was(batch, error)
            raise
        if file_id:
            with self.bench.lease.step() as connection:
                batch = batch_rows.uploaded(connection, batch, file_id)
        lines.seek(0)
        await self._create(batch, lines, file_id)

    async def _create(self, batch: Batch, lines: IO[bytes], file_id: str) -> None:
        try:
            seen = await self.bench.host.create(lines, mark=batch.mark, file_id=file_id, requests=batch.requests)
        except NOT_CREATED as error:
            self._never_was(batch, error)
            raise
        with self.bench.lease.step() as connection:
            batch_rows.created(connection, batch, seen)

    def _never_was(self, batch: Batch, error: ProviderError) -> None:
        """Note that the vendor has nothing: what may pass later is tried again as it is, the rest is planned anew."""
        with self.bench.lease.step() as connection:
            if error.retryable:
                batch_rows.note(connection, batch, f"{NOT_SENT}{error.kind}")
                return
            counts = isinstance(error, RequestRejected | PromptTooLong)
            batch_rows.failed(connection, batch, f"{error.kind}: {error.message}", counts=counts)
            batch_money.give_back(connection, batch.mark)

    def _filled(self, lines: IO[bytes], planned: list[RequestName], mark: str) -> Filled:
        bench = self.bench
        limits = limits_in_force(
            bench.host.limits, bench.settings.batch, is_sealed=sealing.note_of(bench.store.path) is not None
        )
        waiting = batch_rows.enqueued_tokens(bench.connection, bench.job.id)
        learned = self._learned()
        most = [one for one in (limits.enqueued_tokens, learned) if one is not None]
        tightest = bench.purse.tightest(bench.connection, now=bench.clock())
        room = Room(
            tokens=max(0, min(most) - waiting) if most else None,
            usd=None if tightest is None else max(Decimal(0), tightest.left_usd),
        )
        filled = self._render().fill(lines, planned, mark=mark, limits=limits, room=room)
        if not filled.taken and filled.full_of == "tokens" and learned is not None and not waiting:
            one, room = replace(limits, requests=1), room._replace(tokens=limits.enqueued_tokens)
            filled = self._render().fill(lines, planned, mark=mark, limits=one, room=room)
        if not filled.taken and filled.full_of:
            self._hold_back(filled.full_of, waiting, learned)
        return filled

    def _marked(self, filled: Filled, number: int, mark: str) -> Batch | None:
        """Enter a batch and set its dollars aside, in one transaction; None: there is nothing to send."""
        bench = self.bench
        with bench.lease.step() as connection:
            batch_rows.lost(connection, bench.job.id, dict.fromkeys(filled.gone, LOST_TEXT))
            now = bench.clock()
            if not filled.taken or job_steps.is_stopped(connection, bench.job.id):
                return None
            if not bench.purse.set_aside(connection, mark, filled.most_usd or Decimal(0), now=now):
                self._hold_back("dollars")  # another process has spent meanwhile
                return None
            batch = Batch(
                job=bench.job.id,
                number=number,
                mark=mark,
                state="marked",
                marked_at=now,
                requests=len(filled.taken),
                bytes=filled.bytes,
                input_tokens=filled.input_tokens,
            )
            batch_rows.mark(connection, batch, filled.taken)
            batch_rows.thin(connection, batch, filled)
            return batch

    def _hold_back(self, full_of: str, waiting: int = 0, learned: int | None = None) -> None:
        if full_of == "dollars":
            tightest = self.bench.purse.tightest(self.bench.connection, now=self.bench.clock())
            self.held_back = "no request fits " + (capped(tightest) if tightest else "the caps")
            self.over_budget = True
        elif full_of == "tokens" and learned is not None:
            self.held_back = f"{waiting:,} input tokens wait at the vendor, which had no room for more"
        elif full_of == "tokens":
            self.held_back = f"{waiting:,} input tokens wait at the vendor, and no more may (batch.enqueued_tokens)"
        else:
            self.held_back = f"not one request fits a batch's limit of {full_of} (batch.max_{full_of})"

    def _learned(self) -> int | None:
        """Return how much may wait by what the vendor refused to let wait; None: it refused nothing."""
        refused = batch_rows.refused_tokens(self.bench.connection, self.bench.job.id)
        return None if refused is None else refused // SHARE_AFTER_FULL

    def _drop_known(self) -> None:
        """Settle planned requests of which everything was judged meanwhile, by a turn say."""
        bench = self.bench
        known = known_requests(bench.connection, bench.job, job_rows.planned(bench.connection, bench.job.id))
        if known:
            with bench.lease.step() as connection:
                job_steps.found(connection, bench.job.id, known)

    def _render(self) -> Rendering:
        if self._rendering is None:
            self._rendering = Rendering(self.bench.store, self.bench.host, self.bench.job)
        return self._rendering

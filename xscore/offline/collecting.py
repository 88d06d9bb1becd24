"""Results of a batch that ended, entered as they come: judgments, the ledger, dollars, and what is to be asked again.

Results come in any order and are matched by custom_id; unknown and double ones are counted and left. Each chunk is one
transaction, so a kill loses at most a chunk, which is then fetched again and entered then. Judgments stand under the
contents that were judged, whatever became of the memories since. Trade-off: a chunk of thousands of results holds the
store's write lock for some tenths of a second.
"""

import re
from collections.abc import Iterable
from contextlib import aclosing
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from sqlite3 import Connection

from xscore.cache.claims import settle_claims
from xscore.cache.judgments import insert_under
from xscore.errors import ProviderError, UnreadableResponse
from xscore.memory.store import Store
from xscore.offline import batch_rows, job_rows
from xscore.offline.batch_ledger import BatchLedger
from xscore.offline.batch_rows import Batch
from xscore.offline.job_lease import JobLease
from xscore.offline.job_rows import Job, RequestName
from xscore.offline.parts_of_memories import PartsOfMemories
from xscore.offline.verdicts import Returned, Verdict, Verdicts
from xscore.providers.batch_host import BatchHost
from xscore.records import Judgment
from xscore.records.offline import BatchResult, BatchSeen, Fate
from xscore.scorer.codebook import deal
from xscore.scorer.repair import Ask
from xscore.scorer.split import Piece

CHUNK = 5_000
"""Results entered in one transaction."""
ASKS_KEPT = 4_096
"""So many asks are remembered from chunk to chunk."""
UNREAD = "the vendor ran them and their results cannot be read: "
"""Begins the problem of a batch that ended, of which the host gave less than it says it has."""
NO_RESULT = "provider: the vendor gave no result for it"
CUSTOM_ID = re.compile(r"(.+)-q(\d{1,9})-a(\d{1,9})")


@dataclass(slots=True)
class Strays:
    """Results that belong to no request."""

    unreadable: int = 0
    unknown: int = 0
    double: int = 0

    def in_words(self) -> tuple[str, ...]:
        """Say what there was."""
        found = (
            (self.unreadable, "lines of results cannot be read"),
            (self.unknown, "results bear an id that was never sent"),
            (self.double, "results came twice"),
        )
        return tuple(f"{count:,} {what}" for count, what in found if count)


class Collector:
    """Enters the results of one job's batches, one batch at a time."""

    def __init__(self, store: Store, lease: JobLease, job: Job, ledger: BatchLedger, *, chunk: int = CHUNK) -> None:
        self.strays, self._chunk = Strays(), chunk
        self._store, self._lease, self._job, self._ledger = store, lease, job, ledger
        self._secret = job.recipe.drafts().secret
        self._asks: dict[int, tuple[Ask, tuple[str, ...]]] = {}
        self._not_shown: dict[RequestName, frozenset[str]] = {}
        self._keys = {number: one.turn_key for number, one in job_rows.questions(store.connection, job.id).items()}
        self._parts = PartsOfMemories(store, job)
        any_call = "SELECT EXISTS (SELECT 1 FROM call WHERE turn_id = ? AND outcome = 'ok')"
        has_answer = bool(store.connection.execute(any_call, (job.id,)).fetchone()[0])
        self.verdicts = Verdicts(has_answer, has_score=has_answer)

    async def collect(self, batch: Batch, host: BatchHost, seen: BatchSeen) -> None:
        """Enter all results of a batch that ended. Raises StoreError and leaves of ProviderError: go on later."""
        connection = self._store.connection
        left = set(job_rows.of_batch(connection, self._job.id, batch.number))
        entered = batch_rows.settled_of(connection, batch)
        self._not_shown = batch_rows.not_shown(connection, batch)
        met: set[RequestName] = set()
        chunk: list[tuple[RequestName, BatchResult]] = []
        completed: set[RequestName] = set()
        unreadable = 0
        results = host.results(seen, model=self._job.recipe.model.name)
        try:
            async with aclosing(results):
                async for result in results:
                    name = name_of(result.custom_id, batch.mark)
                    if name is not None and (result.fate is Fate.ANSWERED or result.is_charged):
                        completed.add(name)
                    if not result.custom_id:
                        unreadable += 1
                    elif name is None or not (name in left or name in entered):
                        self.strays.unknown += 1
                    elif name in met:
                        self.strays.double += 1
                    else:
                        met.add(name)
                        chunk += [(name, result)] if name in left else []
                    if len(chunk) >= self._chunk:
                        whole, chunk = chunk, []
                        self._enter(batch, whole)
        except ProviderError:  # what came until then was paid for
            self._enter(batch, chunk)
            raise
        self._enter(batch, chunk)
        self.strays.unreadable += unreadable
        rest = sorted(left - met)
        untold = bool(rest) and not met and not seen.requests
        unread = len(rest) if untold else min(len(rest), max(seen.done - len(completed), unreadable))
        self._close(batch, rest, unread, may_give_up=bool(completed))

    def _close(self, batch: Batch, rest: list[RequestName], unread: int, *, may_give_up: bool) -> None:
        """Plan again what has no result. What the host ran and does not give is fetched once more, and then charged.

        unread: how many of the rest these are. Raises UnreadableResponse where they are to be fetched again.
        """
        if unread and not (may_give_up and batch.problem.startswith(UNREAD)):
            problem = f"{UNREAD}{unread:,} of its {batch.requests:,}"
            with self._lease.step() as connection:
                batch_rows.remark(connection, batch, problem)
            raise UnreadableResponse(
                f"batch {batch.number}: {problem}", hint="The next `xscore batch collect` fetches them again."
            )
        with self._lease.step() as connection:
            asks = self._asked(connection, {ask for _, ask in rest[:unread]})
            self._ledger.enter_unread(connection, batch, {name: len(asks[name[1]][0].pieces) for name in rest[:unread]})
            batch_rows.again(connection, self._job.id, dict.fromkeys(rest, NO_RESULT))
            batch_rows.collected(connection, batch)
            self._ledger.close(connection, batch)

    def _enter(self, batch: Batch, chunk: list[tuple[RequestName, BatchResult]]) -> None:
        """Enter a chunk."""
        if not chunk:
            return
        with self._lease.step() as connection:
            asks = self._asked(connection, {name[1] for name, _ in chunk})
            verdict = self.verdicts.of([self._returned(name, asks[name[1]], result) for name, result in chunk])
            answered = [(one, len(asks[name[1]][0].pieces)) for name, one in chunk if one.fate is Fate.ANSWERED]
            self._ledger.enter(connection, batch, answered)
            unread = {name: len(asks[name[1]][0].pieces) for name, one in chunk if one.is_charged}
            if unread:
                self._ledger.enter_unread(connection, batch, unread)
            self._keep(connection, verdict)
            batch_rows.answered(connection, self._job.id, verdict.settled)
            batch_rows.lost(connection, self._job.id, verdict.lost)
            batch_rows.again(connection, self._job.id, verdict.again)
            self._follow_up(connection, verdict)

    def _returned(self, name: RequestName, asked: tuple[Ask, tuple[str, ...]], result: BatchResult) -> Returned:
        return Returned(name, *asked, result, self._not_shown.get(name, frozenset()))

    def _asked(self, connection: Connection, numbers: set[int]) -> dict[int, tuple[Ask, tuple[str, ...]]]:
        """Return these asks with the id of each of their pieces."""
        if len(self._asks) > ASKS_KEPT:
            self._asks = {}
        missing = numbers - self._asks.keys()
        for number, ask in job_rows.asks(connection, self._job.id, missing).items() if missing else ():
            self._asks[number] = ask, deal(len(ask.pieces), secret=self._secret, pack=ask.pack)
        return self._asks

    def _keep(self, connection: Connection, verdict: Verdict) -> None:
        """Write the judgments, those of each question together."""
        any_claim = bool(connection.execute("SELECT EXISTS (SELECT 1 FROM claim)").fetchone()[0])
        verdict.judged.sort(key=itemgetter(0))
        for question, group in groupby(verdict.judged, key=itemgetter(0)):
            names = (self._keys[question], self._job.judge, 0)
            judged: list[tuple[Piece, Judgment]] = [
                (piece, judgment)
                for _, piece, judgment in group
                if piece.content_hash  # else it was erased meanwhile
            ]
            judgments = [judgment for _, judgment in judged]
            judgments += self._parts.whole(connection, names, judged)
            kept = insert_under(connection, judgments, names)
            if any_claim:
                settle_claims(connection, kept)

    def _follow_up(self, connection: Connection, verdict: Verdict) -> None:
        """Plan what is asked next; questions that ask the same share it."""
        if not verdict.asks:
            return
        bare = [replace(ask, pieces=tuple(_bare(ask.pieces))) for _, ask in verdict.asks]
        numbers = batch_rows.follow_ups(connection, self._job.id)
        new = [ask for ask in dict.fromkeys(bare) if ask not in numbers]
        numbers |= zip(new, job_rows.add_asks(connection, self._job.id, new), strict=True)
        pairs = [(question, numbers[ask]) for (question, _), ask in zip(verdict.asks, bare, strict=True)]
        job_rows.add_requests(connection, self._job.id, pairs)


def name_of(custom_id: str, mark: str) -> RequestName | None:
    """Return which request of the batch of this mark has this id; None: none."""
    found = CUSTOM_ID.fullmatch(custom_id)
    return (int(found[2]), int(found[3])) if found and found[1] == mark else None


def _bare(pieces: Iterable[Piece]) -> Iterable[Piece]:
    """Leave nothing of pieces but what the store keeps of them."""
    return (Piece(one.content_hash, "", "", "", "", one.memory, one.parts) for one in pieces)

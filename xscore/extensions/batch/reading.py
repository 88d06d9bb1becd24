"""What results of a batch say: judgments, what is asked next, what is sent again, what is lost. It writes nothing.

A reply means what it means live; what it did not score climbs the same repair ladder. Where a host takes none of a
job's requests, or a model scores nothing at all, the ladder would only multiply the bill, so after the first few the
rest is lost at once. Trade-off: which few those are depends on the vendor's order.
"""

from collections.abc import Sequence

from msgspec import Struct, field

from xscore.extensions.batch.job_rows import RequestName
from xscore.records import Judgment
from xscore.records.batch import BatchResult, RequestOutcome
from xscore.scorer import repair
from xscore.scorer.model_judge import ReplyFaults
from xscore.scorer.repair import MemoryPart, PackPrompt, RepairReason
from xscore.scorer.replies import parse_completion

MAX_WITHOUT_SCORE = 8
"""After this many refusals, or replies without a usable score, and no other in the whole job, the rest is lost."""
_AGAIN = {
    RequestOutcome.ERRED: "provider: the host failed",
    RequestOutcome.EXPIRED: "provider: it was not run in time",
    RequestOutcome.CANCELLED: "provider: it was cancelled at the vendor",
}


class ReturnedRequest(Struct, frozen=True):
    """What came back of one request."""

    name: RequestName
    ask: PackPrompt
    codes: tuple[str, ...]
    result: BatchResult
    omitted: frozenset[str] = frozenset()
    """Contents of the ask that its prompt left out: a score for one belongs to no memory."""


class ReadResults(Struct):
    """What a chunk of results comes to."""

    judged: list[tuple[int, MemoryPart, Judgment]] = field(default_factory=list)
    """Question, piece, its judgment."""
    settled: list[RequestName] = field(default_factory=list)
    """Requests that have done what they could."""
    again: dict[RequestName, str] = field(default_factory=dict)
    """Requests to send again, and why."""
    lost: dict[RequestName, str] = field(default_factory=dict)
    asks: list[tuple[int, PackPrompt]] = field(default_factory=list)
    """Question, and what it is asked next."""


class ResultReader(Struct, kw_only=True):
    """Reads the results of one job."""

    has_answer: bool
    """The host has taken a request of this job."""
    has_score: bool
    """A reply held a usable score."""
    faults: ReplyFaults = field(default_factory=ReplyFaults)
    refused: int = 0
    unscored: int = 0

    def read(self, chunk: Sequence[ReturnedRequest]) -> ReadResults:
        """Read a chunk of results."""
        found = ReadResults()
        climbing: list[tuple[ReturnedRequest, Sequence[MemoryPart], RepairReason]] = []
        for one in chunk:
            result = one.result
            if result.fate is RequestOutcome.ANSWERED:
                climbing.append((one, *self._answered(found, one)))
            elif result.fate is RequestOutcome.REFUSED:
                self.refused += 1
                climbing.append((one, one.ask.pieces, _refusal(result)))
            else:
                found.again[one.name] = _AGAIN[result.fate] + (f" ({result.detail})" if result.detail else "")
        self.has_score = self.has_score or bool(found.judged)
        for one, pieces, trouble in climbing:
            self._climb(found, one, pieces, trouble)
        return found

    def _answered(self, found: ReadResults, one: ReturnedRequest) -> tuple[Sequence[MemoryPart], RepairReason]:
        """Take the judgments of a reply; return the pieces it did not score, and why."""
        self.has_answer = True
        assert one.result.completion is not None
        parsed = parse_completion(one.ask, one.codes, one.result.completion, priors={})
        self.faults.count(parsed.reply)
        judged = [pair for pair in parsed.judged if pair[0].content_hash not in one.omitted]
        omitted = [piece for piece, _ in parsed.judged if piece.content_hash in one.omitted]
        self.unscored += not judged
        found.judged += [(one.name[0], piece, judgment) for piece, judgment in judged]
        return [*parsed.missing, *omitted], parsed.trouble

    def _climb(
        self, found: ReadResults, one: ReturnedRequest, missing: Sequence[MemoryPart], trouble: RepairReason
    ) -> None:
        in_vain = (not self.has_answer and self.refused >= MAX_WITHOUT_SCORE) or (
            not self.has_score and self.unscored >= MAX_WITHOUT_SCORE
        )
        asks, lost = repair.next_prompts(one.ask, missing, trouble)
        if lost or (asks and in_vain):
            found.lost[one.name] = f"{trouble.cause}: {trouble.detail}"
            return
        self.faults.asked_again += len(asks)
        found.settled.append(one.name)
        found.asks += [(one.name[0], ask) for ask in asks]


def _refusal(result: BatchResult) -> RepairReason:
    detail = result.detail or "the host refused it"
    return repair.prompt_too_long(detail) if "prompt_too_long" in result.tells else repair.prompt_rejected(detail)

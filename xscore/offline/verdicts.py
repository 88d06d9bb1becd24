"""What results of a batch say: judgments, what is asked next, what is sent again, what is lost. It writes nothing.

A reply means what it means live (`scorer.hearing`); what it did not score climbs the same ladder (`scorer.repair`).
Where a host takes none of a job's requests, or a model scores nothing at all, the ladder would only multiply the bill,
so after the first few the rest is lost at once. Trade-off: those few are counted over the results as they come, so
which requests they are depends on the vendor's order.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from xscore.offline.job_rows import RequestName
from xscore.records import Judgment
from xscore.records.offline import BatchResult, Fate
from xscore.scorer import repair
from xscore.scorer.hearing import hear
from xscore.scorer.repair import Ask, Trouble
from xscore.scorer.run import Faults
from xscore.scorer.split import Piece

MOST_IN_VAIN = 8
"""So many refused, or without a usable score, and no other in the whole job: then the next would be no better."""
_AGAIN = {
    Fate.ERRED: "provider: the host failed",
    Fate.EXPIRED: "provider: it was not run in time",
    Fate.CANCELLED: "provider: it was cancelled at the vendor",
}


@dataclass(frozen=True, slots=True)
class Returned:
    """What came back of one request."""

    name: RequestName
    ask: Ask
    codes: tuple[str, ...]
    result: BatchResult
    not_shown: frozenset[str] = frozenset()
    """Contents of the ask that had left the store when its prompt was made: a score for one is nobody's."""


@dataclass(slots=True)
class Verdict:
    """What a chunk of results comes to."""

    judged: list[tuple[int, Piece, Judgment]] = field(default_factory=list)
    """Question, piece, its judgment."""
    settled: list[RequestName] = field(default_factory=list)
    """Requests that have done what they could."""
    again: dict[RequestName, str] = field(default_factory=dict)
    """Requests to be sent again, and why."""
    lost: dict[RequestName, str] = field(default_factory=dict)
    asks: list[tuple[int, Ask]] = field(default_factory=list)
    """Question, and what it is asked next."""


@dataclass(slots=True)
class Verdicts:
    """Reads the results of one job."""

    has_answer: bool
    """The host has taken a request of this job."""
    has_score: bool
    """A reply held a usable score."""
    faults: Faults = field(default_factory=Faults)
    refused: int = 0
    unscored: int = 0

    def of(self, chunk: Sequence[Returned]) -> Verdict:
        """Read a chunk of results."""
        verdict = Verdict()
        climbing: list[tuple[Returned, Sequence[Piece], Trouble]] = []
        for one in chunk:
            match one.result.fate:
                case Fate.ANSWERED:
                    missing, trouble = self._answered(verdict, one)
                    climbing.append((one, missing, trouble))
                case Fate.REFUSED:
                    self.refused += 1
                    climbing.append((one, one.ask.pieces, _refusal(one.result)))
                case fate:
                    verdict.again[one.name] = why_again(fate, one.result.detail)
        self.has_score = self.has_score or bool(verdict.judged)
        for one, pieces, trouble in climbing:
            self._climb(verdict, one, pieces, trouble)
        return verdict

    def _answered(self, verdict: Verdict, one: Returned) -> tuple[Sequence[Piece], Trouble]:
        self.has_answer = True
        completion = one.result.completion
        assert completion is not None
        heard = hear(one.ask, one.codes, completion, priors={})
        self.faults.count(heard.reply)
        question, judged, missing = one.name[0], heard.judged, heard.missing
        if one.not_shown:
            missing = [*missing, *(piece for piece, _ in judged if piece.content_hash in one.not_shown)]
            judged = [pair for pair in judged if pair[0].content_hash not in one.not_shown]
        self.unscored += not judged
        verdict.judged += [(question, piece, judgment) for piece, judgment in judged]
        return missing, heard.trouble

    def _climb(self, verdict: Verdict, one: Returned, missing: Sequence[Piece], trouble: Trouble) -> None:
        in_vain = (not self.has_answer and self.refused >= MOST_IN_VAIN) or (
            not self.has_score and self.unscored >= MOST_IN_VAIN
        )
        asks, lost = repair.next_rung(one.ask, missing, trouble)
        if lost or (asks and in_vain):
            verdict.lost[one.name] = f"{trouble.cause}: {trouble.detail}"
            return
        self.faults.asked_again += len(asks)
        verdict.settled.append(one.name)
        verdict.asks += [(one.name[0], ask) for ask in asks]


def why_again(fate: Fate, detail: str) -> str:
    """Say why a request without an answer is sent again."""
    return _AGAIN[fate] + (f" ({detail})" if detail else "")


def _refusal(result: BatchResult) -> Trouble:
    told = result.detail or "the host refused it"
    return repair.too_long(told) if "prompt_too_long" in result.tells else repair.rejected(told)

"""What a gate compares: the figures of a report that a commit can be held to, and how each came out.

A baseline is a `Measured` of an earlier commit, kept as a file. Imported by name where it is used: a turn needs none.
"""

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from math import isfinite

from xscore.records.calls import Usage
from xscore.records.receipt import Coverage

Figure = Decimal | float | int
"""Dollars; seconds or a share; a count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """The p95 of one stage, and of how many samples it is."""

    of: str
    """`turn` or `call`."""
    stage: str
    kind: str
    """`live` or `cached`."""
    count: int
    p95_s: float

    def __post_init__(self) -> None:
        _refuse_negative(self.count, self.p95_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """What one evaluation found: only equal questions, at an equal k, by the same judge can be compared."""

    questions: str
    """Digest of the file of questions."""
    judge: str
    """`provider:model`, `lexical`."""
    cases: int
    k: int
    recall: float

    def __post_init__(self) -> None:
        _refuse_negative(self.cases, self.k, self.recall)
        if self.recall > 1:
            raise ValueError(f"recall lies in 0..1, not {self.recall!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The figures of a report that can be held to a baseline. What is negative or no number cannot exist."""

    turns: int
    """Ended, in whatever way; a turn that its budget cut short counts."""
    coverage: Coverage
    calls: int
    attempts: int
    usage: Usage
    cost_usd: Decimal
    """Of what is priced."""
    unpriced: int
    """Attempts without a price."""
    recall: Recalled | None
    """Of the newest evaluation that judged every candidate; None: there is none."""
    timings: tuple[Sampled, ...]
    evaluations_passed_over: int = 0
    """Evaluations newer than that, which left candidates unjudged. No baseline holds it."""
    left_out: int = 0
    """Rows of the ledger that make no sense, so that no figure has them. No baseline holds it."""

    def __post_init__(self) -> None:
        _refuse_negative(self.turns, self.calls, self.attempts, self.cost_usd, self.unpriced)
        _refuse_negative(*(getattr(self.usage, name) for name in Usage.__slots__))
        _refuse_negative(*(getattr(self.coverage, name) for name in Coverage.__slots__))


class Verdict(StrEnum):
    """How one figure came out."""

    HELD = "held"
    BETTER = "better"
    FAILED = "failed"
    ALERT = "alert"
    """Worse than allowed, where that is told and does not fail the check."""
    INCONCLUSIVE = "inconclusive"
    """One side has it not, or of too few samples."""
    INCOMPARABLE = "incomparable"
    """The workload is another one, or rows of the ledger are damaged, so that the figure says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateLine:
    """One figure against its baseline."""

    what: str
    """`dollars`, `calls`, `tokens in`, …; `p95 of judge calls, live`."""
    unit: str
    """`usd`, `count`, `share`, `s`."""
    baseline: Figure | None
    """None: the baseline has it not."""
    now: Figure | None
    allowed: Figure | None
    """The worst that would still hold; None: nothing is compared."""
    verdict: Verdict
    note: str = ""
    """What a reader needs to know of the verdict; empty: nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateReport:
    """The whole check."""

    lines: tuple[GateLine, ...]

    def with_verdict(self, verdict: Verdict) -> tuple[GateLine, ...]:
        """Return the lines that came out so."""
        return tuple(line for line in self.lines if line.verdict is verdict)

    @property
    def failed(self) -> tuple[GateLine, ...]:
        """Return the lines that fail the check."""
        return self.with_verdict(Verdict.FAILED)


def _refuse_negative(*figures: Figure) -> None:
    for figure in figures:
        if not isfinite(figure) or figure < 0:
            raise ValueError(f"{figure!r} is no figure that can be measured")

"""What judging and answering are expected to take, before anything is sent.

A turn reports the estimate of its judge (`events`), and `xscore estimate` shows all of it.
"""

from decimal import Decimal

from msgspec import Struct, field
from msgspec.structs import replace

from xscore.records.calls import RateLimits
from xscore.records.receipt import add_costs


class JudgeEstimate(Struct, frozen=True, kw_only=True):
    """Estimate of judging a turn."""

    candidates: int = 0
    cached: int = 0
    to_judge: int = 0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: Decimal | None = Decimal(0)
    """Expected dollars, without discounts of a prefix cache; None: unpriced."""
    seconds: float = 0.0
    binding_limit: str = "none"
    """`latency`, a field of `limits`, or `none` when nothing is to be judged."""
    host: str = "-"
    """Host and port of the judge; `-` if there is none, as for a script."""
    limits: RateLimits = field(default_factory=RateLimits)
    concurrency: int = 0
    way: str = ""
    """`decisions`, `chat cold` (no prefix is cached), `chat warm` (every prefix is cached) or
    `lexical`."""
    cached_input_tokens: int = 0
    """Part of the input that a warm prefix cache serves."""
    judge: str = ""
    carried: int = 0
    """Judgments of earlier turns of the thread that this one takes over; `candidates = to_judge +
    cached + carried`."""
    is_assumed: bool = False
    """Whether no call to this model was timed yet, so that `seconds` is an assumption, and
    rather too long."""
    tariff: str = ""
    """Row of the price tables that it is priced by, `vendor/model`; empty: free or unpriced."""

    @property
    def sends_to(self) -> str:
        """The host that memories go to; empty if none are sent."""
        if self.calls and self.host != "-":
            return self.host
        return ""

    def __add__(self, other: "JudgeEstimate") -> "JudgeEstimate":
        """Sum counts, dollars and seconds; keep the limits of the slower one."""
        counts = ("candidates", "cached", "carried", "to_judge", "calls")
        summed = (*counts, "input_tokens", "cached_input_tokens", "output_tokens", "seconds")
        return replace(
            max(self, other, key=lambda estimate: estimate.seconds),
            **{name: getattr(self, name) + getattr(other, name) for name in summed},
            cost_usd=add_costs(self.cost_usd, other.cost_usd),
            is_assumed=self.is_assumed or other.is_assumed,
        )


class PrimaryEstimate(Struct, frozen=True, kw_only=True):
    """Upper bound of the answering model's calls in a turn."""

    input_tokens: int
    output_tokens: int
    cost_usd: Decimal | None
    host: str
    calls: int = 1


class CapLeft(Struct, frozen=True, kw_only=True):
    """What is left of one cap on dollars."""

    of: str
    """What the cap is for: `turn`, `run` (of an evaluation), `day` (UTC) or `repository`."""
    cap_usd: Decimal
    left_usd: Decimal
    """Dollars left under the cap; negative if a host charged more than was reserved."""


class Estimate(Struct, frozen=True, kw_only=True):
    """Estimate of a turn, before anything is sent."""

    judge: JudgeEstimate
    primary: PrimaryEstimate | None
    by_kind: dict[str, int]
    by_folder: dict[str, int]
    caps: tuple[CapLeft, ...] = ()
    ways: tuple[JudgeEstimate, ...] = ()
    """Estimates of the ways in which these candidates could be judged, first that of `judge`. A
    way asks for what its own cache lacks."""
    judged_otherwise: int = 0
    """How many of the candidates to judge have a score of this judge with another purpose of
    their file, or without one (`judge.purposes`)."""
    final: JudgeEstimate | None = None
    """Estimate of a final round (`selection.final`); None if there is none."""

    @property
    def cost_usd(self) -> Decimal | None:
        """All stages together; None as soon as one is unpriced."""
        cost = self.judge.cost_usd
        if self.final is not None:
            cost = add_costs(cost, self.final.cost_usd)
        if self.primary is not None:
            cost = add_costs(cost, self.primary.cost_usd)
        return cost

    @property
    def calls(self) -> int:
        """Calls of all stages."""
        calls = self.judge.calls
        if self.final is not None:
            calls += self.final.calls
        if self.primary is not None:
            calls += self.primary.calls
        return calls

    @property
    def sends_to(self) -> tuple[str, ...]:
        """The hosts that memories go to, each once."""
        hosts = [self.judge.sends_to]
        if self.final is not None:
            hosts.append(self.final.sends_to)
        if self.primary is not None:
            hosts.append(self.primary.host)
        return tuple(dict.fromkeys(filter(None, hosts)))

    @property
    def binding(self) -> tuple[CapLeft, ...]:
        """The caps that leave less than the estimate; none where it is unpriced."""
        cost = self.cost_usd
        if cost is None:
            return ()
        return tuple(cap for cap in self.caps if cost > cap.left_usd)

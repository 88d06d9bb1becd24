"""The receipt of a turn: what was judged, what was kept, what it cost; also the turn as numbers and
as a list line.

`docs/reference/json.md` describes its public form.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import astuple

from xscore.platform.errors import BrokenReceipt
from xscore.records.calls import Stage, Traffic, Usage
from xscore.records.judgment import SCORE_TOLERANCE, Boost, score_text
from xscore.records.turn import Routing, Scope, SessionInfo

if TYPE_CHECKING:
    from xscore.records.answer_form import AnswerForm


class Coverage(Struct, frozen=True):
    """Candidates by outcome.

    Raises BrokenReceipt unless candidates = judged + cached + carried + unjudged.
    """

    candidates: int
    judged: int
    cached: int
    carried: int
    unjudged: int

    def __post_init__(self) -> None:
        if self.candidates != self.judged + self.cached + self.carried + self.unjudged:
            raise BrokenReceipt(
                f"the receipt does not add up: {self}",
                hint="This is a bug of xscore; please report it.",
            )

    def __add__(self, other: "Coverage") -> "Coverage":
        return Coverage(*map(sum, zip(astuple(self), astuple(other), strict=True)))


NOTHING_JUDGED = Coverage(0, 0, 0, 0, 0)


BY_WORDS = "lexical"
"""The name of the judge without a model."""


SAW_PURPOSES = "purposes"


class JudgeInfo(Struct, frozen=True, kw_only=True):
    """The judge, and what it was shown besides the memories."""

    provider: str
    model: str
    host: str
    prompt_version: str
    order: str
    by_model: bool = field(name="is_model")
    """Whether a model judged; if not, the scores compare words."""
    saw: tuple[str, ...]
    """Parts of the turn in the judging prompt: `task`, `errors`, and under full context `file`,
    `diff`, `recent`; and `purposes`, where memories were shown with what their files are for."""
    assumed_price: str = ""
    """What was assumed of a host without a price list: `free` (a model server of this machine)
    or `vendor` (a gateway, at the vendor's price); empty if nothing was."""


class ScoredBy(Struct, frozen=True, kw_only=True):
    """How many candidates one judge scored: the turn's own, or one that took over what it left."""

    provider: str
    model: str
    host: str
    key: str
    """Key of its judgments in the cache."""
    judged: int
    cached: int
    carried: int


class PrimaryInfo(Struct, frozen=True):
    """The answering model."""

    provider: str
    model: str
    assumed_price: str = ""
    """What was assumed about its price, as in `JudgeInfo.assumed_price`."""


class UnjudgedSample(Struct, frozen=True):
    """One candidate without a score."""

    id: str
    path: str
    entity: str
    cause: str
    detail: str


class UnjudgedAccount(Struct, frozen=True):
    """Candidates without a score, counted by cause."""

    by_cause: dict[str, int]
    sample: tuple[UnjudgedSample, ...]


class Selected(Struct, frozen=True, kw_only=True):
    """A memory in the context, or a near miss."""

    id: str
    layer: str
    kind: str
    path: str
    entity: str
    start_line: int
    end_line: int
    language: str
    raw_score: float
    boosts: tuple[Boost, ...]
    score: float
    reason: str
    cached: bool
    threshold: float
    """Threshold of its kind."""
    below_threshold: bool
    title: str = ""
    is_stale: bool = False
    """Whether code that it cites has changed, or a document was fetched longer ago than
    `memory.document_days`."""
    is_suspicious: bool = False
    """Whether its text gives instructions to its judge, so that a model judged it in a prompt
    of its own; set for selected memories only."""
    draws: tuple[float, ...] = ()
    """The two scores of which `raw_score` is the mean; empty if it was judged once."""
    carried_from: str = ""
    """The earlier turn under whose wording it was judged; empty if it was judged under this
    wording."""
    placed_by: str = ""
    """The rule of its place: `threshold`, `min_keep` or `filled`; `folded`: it is folded into
    another that is kept."""
    words: float = 0.0
    """What its words added to the log-odds of `raw_score`; 0: nothing."""
    joined_score: float | None = None
    """`raw_score` after words were joined to it, before boosts; None if it is `raw_score`."""

    @property
    def unboosted_score(self) -> float:
        """The score before boosts."""
        if self.joined_score is None:
            return self.raw_score
        return self.joined_score

    @property
    def added_by_words(self) -> float:
        """What its words added to the score: `words` as readers of scores can add it up."""
        return self.unboosted_score - self.raw_score

    @property
    def score_text(self) -> str:
        """The score as people read it, never as high as a threshold that it is below."""
        return score_text(self.score, threshold=self.threshold)

    @property
    def is_capped(self) -> bool:
        """Whether score and boosts add up to more than 1, the highest score."""
        return (
            self.unboosted_score + sum(boost.amount for boost in self.boosts)
            > 1 + SCORE_TOLERANCE
        )


class SecondDraws(Struct, frozen=True):
    """Judgments near their threshold, of which a decision model is asked twice; the score is the
    mean."""

    drawn: int = 0
    """How many memories were asked about again in this turn."""
    cached: int = 0
    """How many were asked about twice in earlier turns."""
    missed: int = 0
    """How many are as near, but were asked about once in this turn: beyond the limit, or a cap,
    the deadline or an interruption came."""


class FinalRound(Struct, frozen=True, kw_only=True):
    """Another judge's last look at what came first (`selection.final`)."""

    by: str = ""
    """The model, `provider:model`; empty if there was none."""
    key: str = ""
    """Key of its judgments in the cache."""
    finalists: int = 0
    """Number of memories that it was to look at."""
    judged: int = 0
    """Number of memories that have its score, in this turn or from the cache."""


class CarriedFrom(Struct, frozen=True, kw_only=True):
    """How many judgments came from one earlier turn."""

    turn_id: str
    task: str
    """Wording under which they were judged, redacted; the stored receipt omits it, so that it
    can be erased."""
    memories: int


class CarriedOver(Struct, frozen=True, kw_only=True):
    """What a turn took over from earlier turns of its thread, and from the turn that it
    continues."""

    way: str = ""
    """How a follow-up was judged. `part`: the likely part under this wording; `all`: all was to
    be judged; empty if it is not a follow-up."""
    because: str = ""
    left: int = 0
    """How many were carried only because a cap or the deadline came first; `continue` judges
    them."""
    under: tuple[CarriedFrom, ...] = ()
    """How many each turn judged, the newest turn first; they add up to `coverage.carried`."""


class ReasonsAccount(Struct, frozen=True):
    """Where the reasons of a decision model's choice come from: such a model gives none itself."""

    by: str = ""
    """`provider:model` of the chat model that was asked for reasons in this turn; empty if none
    was."""
    asked: int = 0
    given: int = 0
    absent: str = ""
    """Why chosen memories are without a reason; empty: all have one, or another judge judged."""


class StageUsage(Struct, frozen=True, kw_only=True):
    """Calls, tokens and money of one stage; retries are attempts, not calls."""

    calls: int = 0
    attempts: int = 0
    usage: Usage = field(default_factory=Usage)
    cost_usd: Decimal | None = Decimal(0)
    """Dollars of the calls; None as soon as one is unpriced."""
    estimated: bool = False

    def __add__(self, other: "StageUsage") -> "StageUsage":
        return StageUsage(
            calls=self.calls + other.calls,
            attempts=self.attempts + other.attempts,
            usage=self.usage + other.usage,
            cost_usd=add_costs(self.cost_usd, other.cost_usd),
            estimated=self.estimated or other.estimated,
        )


def add_costs(first: Decimal | None, second: Decimal | None) -> Decimal | None:
    """Add dollars; None as soon as one is unpriced."""
    if first is None or second is None:
        return None
    return first + second


class Latency(Struct, frozen=True, kw_only=True):
    """Seconds by stage; `total` includes time outside all stages."""

    index: float = 0.0
    pool: float = 0.0
    cache: float = 0.0
    judge: float = 0.0
    select: float = 0.0
    primary: float = 0.0
    total: float = 0.0


class JoinedRepository(Struct, frozen=True):
    """Another repository of which memories were candidates."""

    name: str
    memories: int
    """How many of its memories were candidates of this turn."""
    left_out: int = 0
    """How many of its memories were not: those that words put last, beyond
    `index.also_memories`."""


class Answer(Struct, frozen=True, kw_only=True):
    """Result of `ask` and `context`: the answer where a model gave one, and the receipt."""

    turn_id: str
    """Id of the turn, `t_…`, for `resume` and `explain`."""
    task: str
    """What was asked, redacted."""
    scope: Scope
    """Which memories were admitted."""
    threshold: float
    """Threshold of all kinds without an entry in `thresholds`."""
    top_k: int
    """Most memories that may be selected."""
    judge: JudgeInfo
    primary: PrimaryInfo | None
    """The answering model; None if none was usable."""
    partial: bool
    """Whether candidates are unjudged, or files were left out of the index."""
    warnings: tuple[str, ...]
    """What the user should know, a sentence each."""
    coverage: Coverage
    """Candidates by outcome; it adds up."""
    unjudged: UnjudgedAccount
    """Why candidates have no score."""
    selected: tuple[Selected, ...]
    """Memories that reached their threshold, best first."""
    near_misses: tuple[Selected, ...]
    """Memories that came near their threshold."""
    answer: str | None
    """Text of the answer; None: no model answered."""
    bundle: str | None
    """The chosen memories as text: for `context` always, for `ask` only without an answer."""
    usage: Mapping[Stage, StageUsage]
    """What each stage cost: judging always, answering where a model could answer, any other stage
    if it made a call."""
    latency: Latency
    """Seconds by stage."""
    routing: Routing | None = None
    traffic: Traffic = field(default_factory=Traffic)
    session: SessionInfo | None = None
    """How the session was resumed; the stored receipt omits its task."""
    checkpoint: str = ""
    continues: str = ""
    thresholds: dict[str, float] = {}
    """Thresholds of kinds that have their own."""
    words_weight: float = 0.0
    """Weight with which words were joined to the judge's scores; 0 if they were not."""
    second_draws: SecondDraws = SecondDraws()
    final_round: FinalRound = FinalRound()
    reasons: ReasonsAccount = ReasonsAccount()
    carried_over: CarriedOver = CarriedOver()
    kept_out: dict[str, int] = {}
    """Files that are not in the index, by reason."""
    files_left: int = 0
    """Changed files that the deadline left out of the index, so that no memory of them could be
    judged."""
    ranked_by: str = ""
    """`lexical` where the judge could not be reached and the lexical judge ranked instead;
    empty if the judge did."""
    judges: tuple[ScoredBy, ...] = ()
    """Who scored how many, the turn's judge first; they add up to the coverage. Empty: an old
    receipt."""
    also: tuple[JoinedRepository, ...] = ()
    """Other repositories that the turn looked into."""
    exit_code: int = 0
    """0, or the command's exit code although there is a receipt (1, 3, 4, 7, 130)."""

    def spent(self, *stages: Stage) -> StageUsage:
        """Add up these stages; with none named, all of them."""
        totals = StageUsage()
        for stage, usage in self.usage.items():
            if not stages or stage in stages:
                totals += usage
        return totals

    def __str__(self) -> str:
        return self._form().as_text()

    def _repr_html_(self) -> str:
        return self._form().as_html()

    def _form(self) -> "AnswerForm":
        # The command line has a layout of its own.
        from xscore.records.answer_form import AnswerForm, AnswerRow

        rows = []
        for memory in self.selected:
            place = "::".join(filter(None, (memory.path, memory.entity)))
            name = place or memory.title or memory.id
            rows.append(AnswerRow(f"{memory.score:.2f}", name, memory.reason))
        counts = ("judged", "cached", "carried", "unjudged")
        return AnswerForm(
            answer=self.answer or "",
            rows=tuple(rows),
            candidates=self.coverage.candidates,
            counts={name: getattr(self.coverage, name) for name in counts},
            judge=f"{self.judge.provider}:{self.judge.model}",
            cost_usd=self.spent().cost_usd,
            took_s=self.latency.total,
            turn_id=self.turn_id,
            warnings=self.warnings,
        )

    def __post_init__(self) -> None:
        hint = "This is a bug of xscore; please report it."
        for name in ("judged", "cached", "carried") if self.judges else ():
            if getattr(self.coverage, name) != sum(
                getattr(share, name) for share in self.judges
            ):
                raise BrokenReceipt(
                    f"the receipt does not add up: {name} by {self.judges}", hint=hint
                )
        under = self.carried_over.under
        if under and self.coverage.carried != sum(source.memories for source in under):
            raise BrokenReceipt(f"the receipt does not add up: carried from {under}", hint=hint)

    @property
    def ranked_by_words(self) -> bool:
        """Whether words alone ranked: no model judged, or its host failed."""
        return not self.judge.by_model or bool(self.ranked_by)


class ScoreLine(Struct, frozen=True):
    """One candidate's line of `--all-scores`."""

    id: str
    path: str
    entity: str
    layer: str
    kind: str
    outcome: str
    raw_score: float | None
    score: float | None
    reason: str
    cause: str
    boosts: tuple[Boost, ...] = ()
    words: float | None = None
    """See `Selected`."""


SCORE_BINS = 20
"""Final scores are counted in bins of 0.05; 1.0 falls in the last."""
NEAR_THRESHOLD = 0.1
"""A score less than this from the threshold is near it."""


class Expected(Struct, frozen=True, kw_only=True):
    """What judging was expected to take before it began."""

    calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: Decimal | None

    def __add__(self, other: "Expected") -> "Expected":
        return Expected(
            calls=self.calls + other.calls,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost_usd=add_costs(self.cost_usd, other.cost_usd),
        )


NOTHING_EXPECTED = Expected(calls=0, input_tokens=0, output_tokens=0, cost_usd=Decimal(0))


class TurnFigures(Struct, frozen=True, kw_only=True):
    """One finished turn in numbers."""

    command: str
    judge: str
    """`provider:model`, or `lexical`."""
    coverage: Coverage
    unjudged_by_cause: dict[str, int]
    kept: int
    threshold: float
    near: int | None
    """Number of scores near the threshold; None: unknown (an old turn)."""
    scores: tuple[int, ...]
    latency: Latency
    expected: Expected | None

    @property
    def by_model(self) -> bool:
        """Whether a model judged, or should have."""
        return self.judge != BY_WORDS

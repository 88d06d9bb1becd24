"""A judge's result for a candidate (a score, or why there is none), and which candidates are kept
and why."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import repeat
from math import isfinite
from operator import itemgetter
from typing import NamedTuple, Self

from msgspec import Struct

from xscore.records.candidates import Candidate, content_hash_of
from xscore.records.memory import CODE_KINDS


class UnjudgedCause(StrEnum):
    """Why a candidate has no score."""

    BUDGET = "budget"
    DEADLINE = "deadline"
    INTERRUPTED = "interrupted"
    REFUSED = "refused"
    """The model declined to judge the memory alone in its prompt."""
    UNREADABLE = "unreadable"
    """There was no valid score after the whole repair ladder."""
    TOO_LONG = "too_long"
    REPLAY = "replay"
    """The judgment is not in the cache, and nothing is sent in a replay."""
    PROVIDER = "provider"
    """The provider failed after all retries, or stopped the run (quota, key, unknown model)."""


STOP_DETAILS = {
    UnjudgedCause.INTERRUPTED: "stopped before it was judged",
    UnjudgedCause.DEADLINE: "the deadline came before it was judged",
    UnjudgedCause.REPLAY: "it is not in the cache, and a replay sends nothing",
}
"""What to say about a candidate that was left for one of these causes."""


class Origin(StrEnum):
    """Where a candidate's outcome came from."""

    JUDGED = "judged"
    CACHED = "cached"
    CARRIED = "carried"
    UNJUDGED = "unjudged"


DECISION_ORDER = "question"


class JudgeIdentity(Struct, frozen=True):
    """Everything about a judge that may change its scores; two judges with equal identity share a
    cache."""

    provider: str
    host: str
    model: str
    reasoning: str
    prompt_version: str
    order: str
    """`memory_first`, `turn_first`, or `question` of a decision model."""
    packed: bool
    """Whether memories share a prompt, so that their neighbours may change a score. False for a
    decision model, whose requests hold many memories that are judged independently."""

    @property
    def is_decision(self) -> bool:
        """Whether it is a decision model, which gives probabilities and no reasons."""
        return self.order == DECISION_ORDER


def lexical_identity(term_version: str) -> JudgeIdentity:
    """Return the identity of the judge without a model.

    term_version: version of the term vectors that it reads.
    """
    return JudgeIdentity(
        provider="lexical",
        host="-",
        model="bm25-1",
        reasoning="",
        prompt_version=term_version,
        order="memory_first",
        packed=False,
    )


_EMPTY: "repeat[str]" = repeat("")
_FIRST: "repeat[int]" = repeat(0)
"""Columns of a field that none of many judgments has."""


class _JudgmentFields(NamedTuple):
    content_hash: str
    score: float
    reason: str = ""
    pack: str = ""
    """The pack in which it was judged (`packs.Pack.id`); empty: alone, or by words."""
    position: int = 0
    prior: float = 0.0
    """Score of the judge without a model at the time of judging, 0..1: joined with `score`
    (`pipeline.joining`), and breaks ties. 0: the memory shares no word with the task, or the
    score is unknown."""
    draws: tuple[float, ...] = ()
    """The two scores of which `score` is the mean; empty if it was judged once."""


class Judgment(_JudgmentFields):
    """A valid score for one content. A score outside 0..1, or NaN, cannot exist.

    A named tuple for the same reason as `Candidate`: a cached turn reads one for each memory.
    """

    __slots__ = ()

    def __new__(  # noqa: PLR0917  its fields, in row order
        cls,
        content_hash: str,
        score: float,
        reason: str = "",
        pack: str = "",
        position: int = 0,
        prior: float = 0.0,
        draws: tuple[float, ...] = (),
    ) -> Self:
        """Make one judgment. Raises ValueError for an invalid score."""
        if not (isfinite(score) and 0.0 <= score <= 1.0):
            raise ValueError(f"a score lies in 0..1, not {score!r}")
        return super().__new__(cls, content_hash, score, reason, pack, position, prior, draws)

    def averaged_with(self, second: "Judgment") -> Self:
        """Return it with the mean of its own score and a second one."""
        return self._replace(
            score=(self.score + second.score) / 2, draws=(self.score, second.score)
        )

    @classmethod
    def from_columns(
        cls,
        content_hashes: Sequence[str],
        scores: Sequence[float],
        *,
        reasons: Iterable[str] = _EMPTY,
        packs: Iterable[str] = _EMPTY,
        positions: Iterable[int] = _FIRST,
        priors: Iterable[float],
    ) -> list[Self]:
        """Make judgments from columns of their fields, checked together.

        Raises ValueError, TypeError.
        """
        if (
            not all(map(isfinite, scores))
            or min(scores, default=0.0) < 0.0
            or max(scores, default=0.0) > 1.0
        ):
            raise ValueError("a score lies outside 0..1")
        no_draws: repeat[tuple[float, ...]] = repeat(())
        # Made by `zip`: a loop takes three times as long, and a turn makes one of each memory.
        fields = zip(
            content_hashes, scores, reasons, packs, positions, priors, no_draws, strict=False
        )
        return list(map(tuple.__new__, repeat(cls), fields))


class Unjudged(Struct, frozen=True):
    """Why a candidate has no score."""

    content_hash: str
    cause: UnjudgedCause
    detail: str = ""


class ClaimState(StrEnum):
    """Which process judges a pack."""

    OURS = "ours"
    THEIRS = "theirs"
    """Another live process is judging one of the pack's contents."""
    FREE = "free"
    """The pack is not claimed: the limit of claims was reached before it."""


class ClaimResult(Struct, frozen=True):
    """Result of claiming a pack."""

    state: ClaimState
    known: Mapping[str, Judgment]
    """Judgments of the pack's contents made in the meantime, by content hash; reasons come only
    from a server."""


class _OutcomeFields(NamedTuple):
    candidate: Candidate
    result: Judgment | Unjudged
    origin: Origin


class Outcome(_OutcomeFields):
    """Result of one candidate this turn. A named tuple for the same reason as `Candidate`."""

    __slots__ = ()

    def __new__(cls, candidate: Candidate, result: Judgment | Unjudged, origin: Origin) -> Self:
        """Make one outcome. Raises ValueError where result and origin disagree."""
        if isinstance(result, Unjudged) is not (origin is Origin.UNJUDGED):
            raise ValueError(
                f"outcome of {candidate.id} is {origin} but carries {type(result).__name__}"
            )
        return super().__new__(cls, candidate, result, origin)

    @classmethod
    def from_known(
        cls, candidates: Sequence[Candidate], judgments: Mapping[str, Judgment], origin: Origin
    ) -> list[Self | None]:
        """Make the outcomes of candidates whose judgment is known, in their order; None for the
        others."""
        new = tuple.__new__
        judged = list(map(judgments.get, map(content_hash_of, candidates)))
        if all(judged):  # nearly always, where a turn is asked again
            return list(
                map(new, repeat(cls), zip(candidates, judged, repeat(origin), strict=False))
            )
        return [
            None if judgment is None else new(cls, (candidate, judgment, origin))
            for candidate, judgment in zip(candidates, judged, strict=True)
        ]

    @classmethod
    def from_judgments(
        cls, candidates: Sequence[Candidate], judgments: Sequence[Judgment]
    ) -> list[Self]:
        """Make the outcomes of candidates that were judged just now, each with its judgment."""
        fields = zip(candidates, judgments, repeat(Origin.JUDGED, len(candidates)), strict=True)
        return list(map(tuple.__new__, repeat(cls), fields))


def has_unjudged(outcomes: Iterable[Outcome]) -> bool:
    """Return whether any candidate has no judgment."""
    # Walked by `map`: a loop over the many of a pool takes five times as long.
    return Origin.UNJUDGED in map(itemgetter(2), outcomes)


UNRELATED_BELOW = 0.1
"""Upper bound of the rubric's lowest band, "unrelated". Where no score is above, nothing came
near."""
UNRELATED_WORDS_BELOW = 0.01
"""Upper bound of "unrelated" for scores by words."""
SCORED_LOWER = "scored lower: "
"""Words in a reason by words before the part that says why nothing here seems to be what the
task is about; that part is the same for every memory."""
READS_AS_ZERO_BELOW = 0.005
"""Lowest score that is not shown as 0.00; a lower one is neither ranked nor named."""
SCORE_TOLERANCE = 1e-9
"""Largest difference of scores that count as the same: a sum of decimal shares is not exact in
binary."""


def score_text(score: float, *, threshold: float) -> str:
    """Return a score with two digits, or as many more as tell it from a threshold that it is
    below."""
    forms = [f"{score:.{digits}f}" for digits in range(2, 9)]
    return next(
        (form for form in forms if score >= threshold or float(form) < threshold), forms[0]
    )


USUAL_THRESHOLD = 0.7
USUAL_LEXICAL_THRESHOLD = 0.05
"""Usual threshold of scores by words, which are probabilities."""


class Thresholds(Struct, frozen=True):
    """The lowest final score that is kept, by kind of memory."""

    default: float
    by_kind: Mapping[str, float] = {}
    """Thresholds of kinds that have their own."""

    @classmethod
    def of_table(cls, table: float | Mapping[str, float], *, judge: str) -> Self:
        """Read a setting: one number for all, or a table by kind, `code` or `default`.

        What names the judge (`typesafe/doc`) counts before what does not, and a kind before `code`.
        """
        if not isinstance(table, Mapping):
            return cls(table)
        by_kind: dict[str, float] = {}
        default = USUAL_THRESHOLD
        for prefix in ("", f"{judge}/"):
            of_prefix = {
                name.removeprefix(prefix): least
                for name, least in table.items()
                if name.startswith(prefix)
            }
            of_prefix = {name: least for name, least in of_prefix.items() if "/" not in name}
            default = of_prefix.pop("default", default)
            code = of_prefix.pop("code", None)
            if code is not None:
                by_kind |= dict.fromkeys(map(str, CODE_KINDS), code)
            by_kind |= of_prefix
        return cls(default, by_kind)

    def of(self, candidate: Candidate) -> float:
        """Return the lowest score at which this candidate is kept."""
        return self.by_kind.get(candidate.kind, self.default)

    def reached_by(self, candidate: Candidate, score: float) -> bool:
        """Return whether a score is enough for this candidate, ignoring float error."""
        return score >= self.of(candidate) - SCORE_TOLERANCE

    @property
    def lowest(self) -> float:
        """The lowest of all."""
        return min([self.default, *self.by_kind.values()])


class Boost(Struct, frozen=True):
    """An addition to a score, and why."""

    name: str
    amount: float
    because: str


AMENDS, AMENDED = "amends", "amended"
"""Names of the boosts by which a later word ranks above an earlier one on the same matter."""
ORDER_BOOSTS = frozenset({AMENDS, AMENDED})


class Ranked(NamedTuple):
    """A judged candidate with its boosts; `score` is final, `judgment.score` is the judge's own and
    untouched.

    A named tuple for the same reason as `Candidate`.
    """

    candidate: Candidate
    judgment: Judgment
    origin: Origin
    boosts: tuple[Boost, ...]
    score: float
    words: float = 0.0
    """What the memory's words added to the log-odds of the judge's score before boosts
    (`pipeline.joining`); 0: nothing, or words gave the score."""


candidate_of: Callable[[Ranked], Candidate] = itemgetter(Ranked._fields.index("candidate"))
"""Returns the candidate of what is ranked, for `map`, as `content_hash_of` returns the hash of
a candidate."""
score_of: Callable[[Ranked], float] = itemgetter(Ranked._fields.index("score"))


class PlacedBy(StrEnum):
    """The rule that gave a memory its place, or folded it into another."""

    THRESHOLD = "threshold"
    MIN_KEEP = "min_keep"
    """A memory below the threshold, added because the user wants a minimum number."""
    FILLED = "filled"
    """A memory below the threshold, filled in where words ranked and places were free
    (`pipeline.composition`)."""
    FOLDED = "folded"
    """A memory that passed, and is folded into a test of the same file or its copy in another
    package."""


class FillRules(Struct, frozen=True, kw_only=True):
    """How many places near memories fill, and which (decision 0036)."""

    target_places: int = 13
    """Number of places up to which they are filled."""
    share: float = 0.5
    """Share of the threshold that a memory needs to be filled in."""
    other_kinds: int = 3
    """Most places that go to tests, documents and text: near ones that fill them, or those that
    passed, where near code could fill them."""
    other_kinds_share: float = 0.8
    """Share of the best score that a test, document or text needs to be filled in."""


FILL = FillRules()
"""The rules in force."""


class Selection(Struct, frozen=True, kw_only=True):
    """The kept candidates, best first, and an account of all others."""

    kept: tuple[Ranked, ...]
    filled: frozenset[str]
    """Ids among `kept` that are below the threshold, added by `min_keep` or to fill free
    places."""
    near_misses: tuple[Ranked, ...]
    """Near misses, best first: all that passed without a place, then those within
    `selection.near_margin` of their threshold."""
    thresholds: Thresholds
    near_margin: float
    """How far below its threshold a candidate still came near."""
    below_threshold: int
    over_quota: int
    """How many passed when tests had used up their share of K, or commits their places."""
    beyond_k: int
    unjudged: tuple[tuple[Candidate, Unjudged], ...]
    folded: int = 0
    """How many passed and are folded into another memory."""
    placed_by: Mapping[str, PlacedBy] = {}
    """Memory id -> the rule of its place, for all kept and all folded."""

    @property
    def has_passed(self) -> bool:
        """Whether a kept candidate reached its threshold."""
        return len(self.kept) > len(self.filled)

    def passed(self, ranked: Ranked) -> bool:
        """Return whether a candidate reached its threshold."""
        return self.thresholds.reached_by(ranked.candidate, ranked.score)

    def came_near(self, ranked: Ranked) -> bool:
        """Return whether a candidate passed, or is just below its threshold."""
        return self.thresholds.reached_by(ranked.candidate, ranked.score + self.near_margin)

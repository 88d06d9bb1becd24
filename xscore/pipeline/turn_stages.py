"""What each stage of a turn returns: one frozen record a stage, warnings included.

`turn.py` alone holds them; a stage takes the records of the stages before it and returns its own.
Nothing here decides or reads anything. Trade-off: what two stages need is named twice, once in
the record of the stage that found it out and once in the signature of the stage that reads it.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from msgspec import Struct

from xscore.pipeline.pool import Pool, PooledTurn
from xscore.platform.errors import ExitCode
from xscore.records.estimates import JudgeEstimate
from xscore.records.indexing import IndexReport
from xscore.records.judgment import (
    JudgeIdentity,
    Judgment,
    Outcome,
    Ranked,
    Selection,
    UnjudgedCause,
)
from xscore.records.receipt import FinalRound, JoinedRepository, ReasonsAccount, SecondDraws
from xscore.records.turn import Checkpoint, Routing, Scope, SessionInfo
from xscore.store.fetched_pool import FetchedPool

if TYPE_CHECKING:
    from xscore.pipeline.server_contacts import TurnSyncResult
    from xscore.prompts.bundle_parts import Bundle


class JoinedPool(Struct, frozen=True):
    """What was fetched, with the memories of other repositories."""

    fetched: FetchedPool
    scope: Scope
    """Scope of the turn, with the repositories by name, so that they can be found again."""
    also: tuple[JoinedRepository, ...] = ()
    warnings: tuple[str, ...] = ()


class PreparedTurn(PooledTurn, frozen=True):
    """A prepared turn; nothing has been sent."""

    index: IndexReport
    routing: Routing
    session: SessionInfo
    checkpoint: Checkpoint | None
    warnings: tuple[str, ...] = ()
    """What a reader should know before anything is judged."""
    forecast: JudgeEstimate | None = None
    """What judging will take; None if nothing will be sent to judge the turn."""
    also: tuple[JoinedRepository, ...] = ()
    """Other repositories whose memories are in the pool."""
    sync_results: "tuple[TurnSyncResult, ...]" = ()
    """Results of the syncs with a team's server during the turn's preparation."""


class Judged(Struct, frozen=True, kw_only=True):
    """Every candidate's outcome, and who gave it."""

    outcomes: tuple[Outcome, ...]
    """Outcomes of the candidates of the pool, in their order."""
    pool: Pool
    """The pool that was judged. It has lost its thread if the host answered as another judge than
    the thread's."""
    judge: JudgeIdentity
    """The turn's judge, under the name by which its host answered."""
    interrupted: bool = False
    """Whether the user stopped it; the outcomes hold all that was paid for until then."""
    no_judge: str = ""
    """Kind of the error for which the judge was not opened; empty if it was, or was not
    needed."""
    failures: frozenset[str] = frozenset()
    """Kinds of the errors that calls ended with."""
    second_draws: SecondDraws = SecondDraws()
    by_fallback: Mapping[str, JudgeIdentity] = {}
    """Content hash -> who judged it in the judge's place."""
    finalists: AbstractSet[str] | None = None
    """Ids of the memories that a final round looked at; nothing else is kept. None: there was
    none."""
    final_round: FinalRound = FinalRound()
    unreached_causes: tuple[UnjudgedCause, ...] = ()
    """Why the judge did not reach a memory that keeps an earlier judgment of the thread: a cap, the
    deadline or a replay. One entry per memory."""
    warnings: tuple[str, ...] = ()

    @property
    def nothing_judged(self) -> bool:
        """Whether there are candidates, and none of them was judged under this wording."""
        for outcome in self.outcomes:
            is_judged = isinstance(outcome.result, Judgment)
            if is_judged and self.pool.wording_of(outcome) is None:
                return False
        return bool(self.outcomes)


def by_rank(ranked: Ranked) -> tuple[float, float, float, str]:
    """Sort the best first; equal scores by the judge's own score, word score, id."""
    return (-ranked.score, -ranked.judgment.score, -ranked.judgment.prior, ranked.candidate.id)


class Ranking(Struct, frozen=True):
    """Every judged candidate with its boosts, and what was kept of them."""

    ranked: tuple[Ranked, ...]
    selection: Selection
    by_words: bool = False
    """Whether words gave the scores: the judge is the lexical one, or it ranked in the judge's
    place."""
    ranked_by: str = ""
    """`lexical` where the judge's host failed; see `Answer.ranked_by`."""
    unjudged_exit: ExitCode = ExitCode.NOTHING_JUDGED
    """How the turn ends if nothing was judged."""
    warnings: tuple[str, ...] = ()
    words_weight: float = 0.0
    """Weight with which words were joined to the judge's scores; 0 if they were not."""

    def in_order(self) -> list[Ranked]:
        """All judged candidates, best first, with the selection's tie-breaks."""
        return sorted(self.ranked, key=by_rank)

    @property
    def is_empty(self) -> bool:
        """Whether there are memories and none reached the threshold; a model's may be kept below it
        on request."""
        if not (self.ranked or self.selection.unjudged):
            return False
        return not (self.selection.has_passed if self.by_words else self.selection.kept)


class Reasons(Struct, frozen=True):
    """Why the kept and near memories have their scores."""

    by_hash: Mapping[str, str] = {}
    """Reasons of memories whose judgments have none, by content hash."""
    account: ReasonsAccount = ReasonsAccount()
    interrupted: bool = False


class Answered(Struct, frozen=True):
    """What came of the answering call; by default none was made."""

    text: str | None = None
    interrupted: bool = False
    failed: bool = False
    refused: str = ""
    """Why a cap had no room for the call; empty if it had."""
    warnings: tuple[str, ...] = ()


class StagesSoFar(Struct, frozen=True):
    """The records of a turn that ended in an error: what the stages before it returned."""

    prepared: PreparedTurn
    judged: Judged | None
    ranking: Ranking | None
    reasons: Reasons
    bundle: "Bundle | None"
    answered: Answered


class TurnStages(Struct, frozen=True):
    """The records of one turn, for its receipt."""

    prepared: PreparedTurn
    judged: Judged
    ranking: Ranking
    reasons: Reasons = Reasons()
    bundle: "Bundle | None" = None
    """The context as text; None if it is not shown."""
    answered: Answered = Answered()

    @property
    def interrupted(self) -> bool:
        """Whether the user stopped any stage."""
        return self.judged.interrupted or self.reasons.interrupted or self.answered.interrupted

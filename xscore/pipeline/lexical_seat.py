"""The seat of the judge without a model: costs nothing, sends nothing, keeps no scores."""

from dataclasses import dataclass
from decimal import Decimal

from xscore.memory.store import Store
from xscore.memory.terms import EMBEDDER
from xscore.pipeline.parts import Desk
from xscore.pipeline.pool import Pool
from xscore.records import Estimate, JudgeEstimate, JudgeIdentity, Turn
from xscore.scorer.judge import Judge
from xscore.scorer.lexical import IDENTITY as LEXICAL_IDENTITY
from xscore.scorer.lexical import LexicalJudge
from xscore.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class LexicalSeat:
    """The judge without a model."""

    settings: Settings
    store: Store
    identity: JudgeIdentity = LEXICAL_IDENTITY
    is_model: bool = False
    calls: None = None

    @property
    def threshold(self) -> float:
        """The lowest final score that is kept, on the scale of words."""
        return self.settings.selection.lexical_threshold

    async def open(self, desk: Desk, turn: Turn, pool: Pool, turn_key: str) -> Judge:
        """Return the judge; it needs nothing of the desk."""
        return LexicalJudge(lambda: self.store.vectors(EMBEDDER), reasons_from=self.settings.judge.reasons_from)

    def close(self) -> None:
        """Keep nothing: there is no host."""

    def estimate(self, turn: Turn, pool: Pool) -> Estimate:
        """Say that judging is free."""
        return Estimate(judge=self.forecast(turn, pool), primary=None, by_kind={}, by_folder={})

    def forecast(self, turn: Turn, pool: Pool) -> JudgeEstimate:
        """Say that judging is free and takes no call."""
        return JudgeEstimate(
            candidates=len(pool.candidates),
            cached=0,
            to_judge=len(pool.candidates),
            calls=0,
            input_tokens=0,
            output_tokens=0,
            cost_usd=Decimal(0),
            seconds=0.0,
            binding_limit="none",
            host=self.identity.host,
        )

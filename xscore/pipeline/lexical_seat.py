"""The seat of the judge without a model: costs nothing, sends nothing, keeps no scores.

Where the user has set an embedder, likeness of meaning adds to the words; if a host makes the vectors, it is sent text.
"""

from dataclasses import dataclass, replace
from decimal import Decimal

from xscore.memory.evidence import stale_ids
from xscore.memory.likeness.terms import EMBEDDER
from xscore.memory.store import Store
from xscore.pipeline.embedding import TERMS, label, likeness
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
    is_model: bool = False
    calls: None = None

    @property
    def identity(self) -> JudgeIdentity:
        """The judge's; where an embedder adds likeness it is another judge."""
        embedder = label(self.settings)
        return LEXICAL_IDENTITY if embedder == TERMS else replace(LEXICAL_IDENTITY, model=f"bm25-1+{embedder}")

    @property
    def threshold(self) -> float:
        """The lowest final score that is kept, on the scale of words."""
        return self.settings.selection.lexical_threshold

    async def open(self, desk: Desk, turn: Turn, pool: Pool, turn_key: str) -> Judge:
        """Return the judge; it needs the desk only for likeness of meaning, where an embedder is set."""
        meaning = await likeness(turn, self.settings, store=self.store, desk=desk)
        return LexicalJudge(
            lambda: self.store.vectors(EMBEDDER),
            reasons_from=self.settings.judge.reasons_from,
            likeness=meaning.cosines,
            identity=self.identity,
            remarks=meaning.remarks,
            stale=stale_ids(self.store.connection),
        )

    def sharing_packs(self) -> "LexicalSeat":
        """Return itself: it has no prompts."""
        return self

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

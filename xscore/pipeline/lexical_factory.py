"""Builds the judge without a model: it needs no key, sends nothing and costs nothing.

A model's counterpart is `model_factory`. Trade-off: its scores depend on the whole pool, so none is
ever stored.
"""

from decimal import Decimal
from typing import TYPE_CHECKING, ClassVar

from msgspec import Struct
from msgspec.structs import replace

from xscore.extension import implementations, is_used
from xscore.pipeline.likeness import find_likeness
from xscore.pipeline.pool import Pool, PooledTurn
from xscore.providers.spec import LEXICAL, ModelSpec
from xscore.records.events import JudgeEstimate
from xscore.records.judgment import JudgeIdentity, Thresholds
from xscore.records.reports import Estimate
from xscore.records.turn import Turn
from xscore.settings import Settings
from xscore.store.store import Store

if TYPE_CHECKING:
    from xscore.pipeline.resources import TurnResources
    from xscore.scorer.lexical import LexicalJudge


SECONDS_A_MEMORY = 25e-6
"""CPU of scoring one, measured on 1,600 to 11,559 memories (22 µs); start-up, half a second, is no
part of it."""


class LexicalJudgeFactory(Struct, frozen=True, kw_only=True):
    """The judge without a model, before anything is opened. See `ModelJudgeFactory`."""

    is_model: ClassVar[bool] = False
    spec: ClassVar[ModelSpec] = ModelSpec(LEXICAL, "")
    settings: Settings
    store: Store

    @property
    def identity(self) -> JudgeIdentity:
        """Identity of the judge; an embedder's likeness scores make it another judge."""
        from xscore.scorer.lexical import LEXICAL_IDENTITY  # a model needs none of it

        labels = [
            label(self.settings) for label in implementations("embedder_label", self.settings)
        ]
        return replace(LEXICAL_IDENTITY, model="+".join((LEXICAL_IDENTITY.model, *labels)))

    @property
    def needs_resources(self) -> bool:
        """Whether it asks an embedder, or a shared server has to answer; words alone need nothing
        but the store."""
        return is_used("likeness", self.settings) or is_used("shared_resources", self.settings)

    @property
    def thresholds(self) -> Thresholds:
        """The lowest final score that is kept, on the scale of words."""
        return Thresholds(self.settings.selection.lexical_threshold)

    async def open(
        self, resources: "TurnResources", asked: PooledTurn, sample: int = 0
    ) -> "LexicalJudge":
        """Return the judge; it uses the resources only for the embedder's likeness scores."""
        from xscore.scorer.lexical import LexicalJudge
        from xscore.store.memory_rows import stale_memory_ids
        from xscore.store.term_vectors import TERM_EMBEDDER

        meaning = await find_likeness(
            asked.turn, self.settings, store=self.store, resources=resources
        )
        return LexicalJudge(
            lambda: self.store.vectors(TERM_EMBEDDER),
            reasons_from=self.settings.judge.reasons_from,
            likeness=meaning.cosines,
            identity=self.identity,
            remarks=meaning.warnings,
            stale=stale_memory_ids(self.store.connection),
            tests_of=self.store.tests_of,
        )

    def with_shared_prompts(self) -> "LexicalJudgeFactory":
        """Return itself: it has no prompts."""
        return self

    def close(self) -> None:
        """Do nothing: there is no host."""

    def estimate(self, turn: Turn, pool: Pool) -> Estimate:
        """Return an estimate of no cost."""
        return Estimate(judge=self.forecast(turn, pool), primary=None, by_kind={}, by_folder={})

    def forecast_ways(self, turn: Turn, pool: Pool) -> tuple[JudgeEstimate, ...]:
        """Return the only way."""
        return (self.forecast(turn, pool),)

    def forecast(self, turn: Turn, pool: Pool) -> JudgeEstimate:
        """Return a forecast of no calls and no cost."""
        return JudgeEstimate(
            candidates=len(pool.candidates),
            cached=0,
            to_judge=len(pool.candidates),
            calls=0,
            input_tokens=0,
            output_tokens=0,
            cost_usd=Decimal(0),
            seconds=SECONDS_A_MEMORY * len(pool.candidates),
            binding_limit="none",
            host=self.identity.host,
            way=LEXICAL,
            judge=LEXICAL,
        )

"""A judge described, before anything is opened: who it is, and the traits that others ask it for.

It is a value: it reads nothing and sends nothing. `describe_judge` makes it from settings, and
`live_judging.open_judge` opens it. Trade-off: one record for models and for words, so that what
only a model has (a provider, a form) is empty for words.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from xscore.providers.decision_hosts import DECISION_HOSTS
from xscore.providers.hosts import default_concurrency
from xscore.providers.provider import Provider
from xscore.providers.spec import ModelSpec
from xscore.records.calls import Capability, DecisionForm, RateLimits
from xscore.records.judgment import JudgeIdentity, Thresholds
from xscore.settings import Settings
from xscore.store.store import Store

if TYPE_CHECKING:
    from xscore.pipeline.pack_slots import PackSlots
    from xscore.prompts.rubric import Rubric
    from xscore.records.calibration import Calibration
    from xscore.scorer.prompt_builder import PromptLayout


class Scale(StrEnum):
    """What a score means."""

    RUBRIC = "rubric"
    """Scale of a model: the bands of its rubric."""
    WORDS = "words"
    """Scale of how much a memory shares with the task's words. It has a threshold of its
    own."""
    COSINE = "cosine"
    """Scale of how near a memory is by an embedder: the baseline of an evaluation, never of a
    turn."""


class JudgeDescription(Struct, frozen=True, kw_only=True):
    """Who judges. Ask for the trait that you mean, not for the kind of judge."""

    spec: ModelSpec
    identity: JudgeIdentity
    """Everything that may change its scores: the key of its judgments."""
    paid: bool
    """Whether its calls may cost money: estimates, prices and caps are about it."""
    stored: bool
    """Whether its judgments are kept for later turns. Scores that depend on the whole pool are
    not."""
    batches_memories: bool
    """Whether one request asks about several memories, some of which may wait for others."""
    needs_resources: bool
    """Whether something may be sent: to its host, to an embedder, or to a shared server."""
    scale: Scale
    thresholds: Thresholds
    """The lowest final score that is kept, by kind, on its scale."""
    words_weight: float = 0.0
    """Weight of what words say relative to its own scores (`joining`); 0 if nothing is joined,
    as with the items of a list, which have no word scores."""
    settings: Settings
    store: Store
    provider: Provider | None = None
    """The unwrapped provider, without limits or budget; nothing is sent through it before the judge
    is opened. None: there is no host."""
    asked_model: str = ""
    """The model by the name that its host is asked for; `identity` has the one that answers."""
    form: DecisionForm | None = None
    """Form of a decision model's requests; None for chat prompts, or no prompts."""
    rubric: "Rubric | None" = None
    """What the judge looks for; None for words, which need none."""
    shared_layout: "PromptLayout | None" = None
    """How prompts are made that several questions share; None: each question has its own."""
    calibration: "Calibration | None" = None
    """What its scores were worth on past commits; None: not measured, or not for this identity."""
    capability: Capability | None = None
    """What the host can do; None: not known yet."""
    slots: "PackSlots | None" = None
    """The packs of the latest pool; None if it has no lasting packs."""
    mark: str = ""
    """Part of its identity that sets its judgments apart from those of the same judge in a user's
    turns; an evaluation marks variants."""
    code_secret: bytes | None = None
    """Decides the codes in its prompts; None: the store's secret."""
    items: Callable[[str], str] | None = None
    """Returns the text of an id, where it judges the items of a list: they have no packs, no
    order and no likeness. None: it judges memories of the store."""

    @property
    def by_words(self) -> bool:
        """Whether it scores by words alone."""
        return self.scale is Scale.WORDS

    @property
    def host(self) -> str:
        """The host that is asked; `-` for words."""
        return self.identity.host

    @property
    def name(self) -> str:
        """`provider:model`, or `lexical`."""
        if self.by_words:
            return self.spec.provider
        return f"{self.identity.provider}:{self.identity.model}"

    @property
    def concurrency(self) -> int:
        """Most calls in flight."""
        return self.settings.judge.concurrency or default_concurrency(self.host)

    @property
    def stated_limits(self) -> RateLimits | None:
        """The limits that the host stated, or those declared for it."""
        if self.capability and self.capability.limits:
            return self.capability.limits
        if self.spec.is_decision:
            return DECISION_HOSTS[self.spec.provider].limits
        return None

    def connected(self) -> Provider:
        """Return the provider of a judge that has a host."""
        assert self.provider is not None, f"{self.spec} has no host"
        return self.provider

    def marked(self, mark: str) -> "JudgeDescription":
        """Return the judge with this, too, in its identity."""
        version = f"{self.identity.prompt_version}{mark}"
        identity = replace(self.identity, prompt_version=version)
        return replace(self, identity=identity, mark=f"{self.mark}{mark}")

    def knowing(self, capability: Capability | None) -> "JudgeDescription":
        """Return the judge as known with this of its host: the model that answers there."""
        # Only a decision host is believed when it names another model: a chat host's name for a
        # model is often just another spelling.
        answered_by = capability.judge if capability and self.spec.is_decision else ""
        identity = self.identity
        if answered_by:
            identity = replace(identity, model=answered_by)
        return replace(self, capability=capability, identity=identity)

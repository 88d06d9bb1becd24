"""How a model is drafted for as a judge: what is declared of it, what its host tells, what the user has set.

It sends nothing and finds nothing out. Trade-off: a script is read whole to be named, which a model is not.
"""

from pathlib import Path

from xscore import tokens
from xscore.cost_reports import ledger
from xscore.hashing import file_digest
from xscore.memory.store import Store
from xscore.providers.catalog import declared
from xscore.providers.hosts import deadline_s
from xscore.providers.provider import Provider
from xscore.providers.spec import Spec
from xscore.scorer.draft import Drafts, JudgeModel
from xscore.scorer.packs import profile
from xscore.settings import Settings


def drafts_of(
    spec: Spec, settings: Settings, provider: Provider, store: Store, *, context: int | None = None
) -> Drafts:
    """Draft for this model; context: the longest input that its host tells, which stands over the declared one."""
    judge, traits = settings.judge, declared(spec.provider, spec.model)
    model = JudgeModel(
        name=_model_name(spec),
        reasoning=traits.reasoning,
        reasoning_reserve=traits.reasoning_reserve,
        temperature=traits.temperature,
        max_output_tokens=traits.max_output_tokens,
        order=judge.order or traits.order,
        timeout_s=deadline_s(judge.timeout_s, provider.host),
        chars_per_token=ledger.chars_per_token(
            store.connection, provider=provider.name, host=provider.host, model=spec.model
        )
        or tokens.MIXED,
    )
    packing = profile(
        cache_floor=traits.cache_floor,
        context_tokens=context or traits.context_tokens,
        pack_size=judge.pack_size,
        pack_tokens=judge.pack_tokens,
    )
    return Drafts(model, packing, store.secret, judge.reasons_from if judge.reasons == "relevant" else 0.0)


def _model_name(spec: Spec) -> str:
    """Name the model; a script is named by its content as well, so that another script is another judge."""
    if spec.provider != "scripted":
        return spec.model
    return f"{spec.model}@{file_digest(Path(spec.model).read_bytes())[:8]}"

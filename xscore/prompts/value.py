"""What a memory is worth in the bundle: the five-term score, from which alone its place in the order comes.

It decides neither what is kept nor what fits. Trade-off: the terms are added, not multiplied, so that a memory of
little authority can still stand first when the judge was sure of it.
"""

from math import exp

from xscore.records import Memory
from xscore.settings import BundleSettings

SECONDS_PER_DAY = 86_400.0


def value(memory: Memory, rel: float, *, settings: BundleSettings, now: float) -> float:
    """Return `w_rel·rel + w_rec·exp(-λ·days) + w_auth·layer + w_conf·confidence + w_imp·importance`.

    rel: the final score in 0..1. now: unix seconds; what is dated later counts as of today.
    """
    days = max(0.0, now - memory.updated_at) / SECONDS_PER_DAY
    return (
        settings.w_rel * rel
        + settings.w_rec * exp(-settings.decay_per_day * days)
        + settings.w_auth * settings.authority.get(memory.layer.value, 0.0)
        + settings.w_conf * memory.confidence
        + settings.w_imp * memory.importance
    )

"""Drift (L09): a preference that the latest projects do without fades faster. Pure.

A project that decided otherwise on purpose is an exception and not counted: it knew the preference. Trade-off: with
fewer than M projects known nothing drifts, however old the preference is.
"""

from collections.abc import Iterable, Sequence

from xscore.learning.choices import Chosen
from xscore.records import Kind


def is_drifting(value: str, observed: Iterable[Chosen], newest_first: Sequence[str], *, latest: int) -> bool:
    """Whether none of the latest projects chooses this value, deliberate exceptions left out.

    value: in its `normal` form. observed: what is said of its topic. newest_first: all projects, by when they were last
    seen. latest: how many are looked at (`memory.drift_projects`).
    """
    about = {each.observed.project: each for each in observed}
    excepted = {name for name, each in about.items() if each.observed.kind == Kind.DECISION and each.value != value}
    asked = [name for name in newest_first if name not in excepted][:latest]
    if len(asked) < latest:
        return False
    return not any(name in about and about[name].value == value for name in asked)

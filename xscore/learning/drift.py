"""Drift (L09): a preference that the latest projects do without fades faster. Pure.

A project that decided otherwise on purpose is an exception and not counted: it knew the preference. Trade-off: with
fewer than M projects known nothing drifts, however old the preference is.
"""

from collections.abc import Iterable, Mapping

from xscore.learning.claims import normal, topic
from xscore.records import Kind, Observation


def is_drifting(
    key: str, claimed: str, observed: Iterable[Observation], projects: Mapping[str, float], *, latest: int
) -> bool:
    """Whether none of the latest projects makes this claim about the key, deliberate exceptions left out.

    projects: name -> when it was last seen. latest: how many are looked at (`memory.drift_projects`).
    """
    about = {each.project: each for each in observed if topic(each.key) == topic(key)}
    excepted = {
        name for name, each in about.items() if each.kind == Kind.DECISION and normal(each.value) != normal(claimed)
    }
    newest_first = sorted(projects.keys() - excepted, key=lambda name: (-projects[name], name))[:latest]
    if len(newest_first) < latest:
        return False
    return not any(name in about and normal(about[name].value) == normal(claimed) for name in newest_first)

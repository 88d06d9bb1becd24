"""Find the type of a task, and from it the share of the bundle that each layer may take.

The type sets shares, never what is judged. Trade-off: it is found by keywords, which can be wrong; the receipt names
the keyword.
"""

import re
from collections.abc import Mapping

from xscore.records.memory import Layer
from xscore.records.turn import BundlePlan, TaskType, Turn
from xscore.settings import BundleSettings, RoutingSettings

_TASK_WORDS: Mapping[TaskType, str] = {
    TaskType.REFACTOR: r"""refactor\w* rename extract restructure clean\s?up simplif\w+ deduplicat\w+ split inline
        move""",
    TaskType.DESIGN: r"design\w* architect\w* propos\w+ approach trade-?offs? should\swe plan rfc adr structure",
    TaskType.RESEARCH: r"compare survey research investigate alternatives options evaluate benchmark\w* audit",
    TaskType.EXPLAIN: r"""explain\w* why how\sdoes how\sdo what\sis what\sare what\sdoes where who understand describe
        document""",
    TaskType.EDIT: r"""fix\w* add implement\w* change make update remove delete bug error fail\w* crash\w* support write
        build migrate bump handle""",
}
"""Keywords of each task type; the one that comes first in the task decides."""

TASK_CEILINGS: Mapping[TaskType, Mapping[Layer, float]] = {
    TaskType.EDIT: {Layer.SESSION: 0.18, Layer.PROJECT: 0.12, Layer.USER: 0.05},
    TaskType.REFACTOR: {Layer.SESSION: 0.18, Layer.PROJECT: 0.12, Layer.USER: 0.05},
    TaskType.EXPLAIN: {Layer.SESSION: 0.30, Layer.PROJECT: 0.20, Layer.USER: 0.05},
    TaskType.DESIGN: {Layer.SESSION: 0.30, Layer.PROJECT: 0.20, Layer.USER: 0.10},
    TaskType.RESEARCH: {Layer.SESSION: 0.40, Layer.PROJECT: 0.20, Layer.USER: 0.10},
}
"""Ceilings by kind of task, where they are lower than the user's own (`bundle.ceilings`).

With the 5 % of governance, code and documents keep at least 60 % of what an edit is shown, and all that is not taken.
"""


def plan_turn(turn: Turn, *, routing: RoutingSettings, bundle: BundleSettings) -> BundlePlan:
    """Classify the task and set each layer's share.

    Governance keeps its share for every task type, since its selected memories were judged relevant to the
    task, which says more than keywords.
    """
    kind, because = classify_task(turn, wanted=routing.task_type)
    profile = TASK_CEILINGS[kind]
    ceilings = {Layer(name): min(share, profile.get(Layer(name), 1.0)) for name, share in bundle.ceilings.items()}
    total = max(1.0, sum(ceilings.values()))
    return BundlePlan(kind, because, {layer: share / total for layer, share in ceilings.items()})


def classify_task(turn: Turn, *, wanted: str = "auto") -> tuple[TaskType, str]:
    """Return the task type and what decided it: the user, attached errors, or its earliest keyword."""
    if wanted != "auto":
        return TaskType(wanted), "as you said"
    if turn.errors:
        return TaskType.EDIT, "errors came with it"
    found = [
        (match.start(), kind, match[0])
        for kind, words in _TASK_WORDS.items()
        if (match := re.search(rf"\b(?:{'|'.join(words.split())})\b", turn.task, re.IGNORECASE))
    ]
    if not found:
        return TaskType.EDIT, "nothing in it says otherwise"
    _, kind, word = min(found, key=lambda first: first[0])
    return kind, f"it says “{word.lower()}”"

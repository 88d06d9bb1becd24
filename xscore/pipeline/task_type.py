"""What type of task a turn has, by its words, and which share of the bundle each layer gets.

Keywords can be wrong: the type never decides what is judged, only what of it is shown, and the
receipt names the keyword. Trade-off: the earliest one decides, so "explain why it fails, then fix
it" counts as a question.
"""

import re
from collections.abc import Mapping

from xscore.records.memory import Layer
from xscore.records.turn import BundlePlan, TaskType, Turn
from xscore.settings import BundleSettings, RoutingSettings

_TASK_WORDS: Mapping[TaskType, str] = {
    TaskType.REFACTOR: (
        r"""refactor\w* rename extract restructure clean\s?up simplif\w+ deduplicat\w+ split inline
        move"""
    ),
    TaskType.DESIGN: (
        r"design\w* architect\w* propos\w+ approach trade-?offs? should\swe plan rfc adr structure"
    ),
    TaskType.RESEARCH: (
        r"compare survey research investigate alternatives options evaluate benchmark\w* audit"
    ),
    TaskType.EXPLAIN: (
        r"""explain\w* why how\sdoes how\sdo what\sis what\sare what\sdoes what\shappens where who
        which understand describe document overview (?:is|are)\sthere
        (?:walk|guide|take)\s(?:me|us)\sthrough (?:show|tell|give)\s(?:me|us)
        \A(?:is|are|does|did|was|were|list)"""
    ),
    TaskType.EDIT: (
        r"""fix\w* add implement\w* change make update remove delete bug error fail\w* crash\w*
        support write build migrate bump handle"""
    ),
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

An edit shows at least 60 % code and documents: the layers here take 35 % at most, governance 5 %.
What these leave of their share goes to code and documents too.
"""


def plan_turn(turn: Turn, *, routing: RoutingSettings, bundle: BundleSettings) -> BundlePlan:
    """Classify the task and set each layer's share.

    Governance keeps its share for every task type, since its selected memories were judged relevant
    to the task, which says more than keywords.
    """
    kind, because = classify_task(turn, chosen_type=routing.task_type)
    of_kind = TASK_CEILINGS[kind]
    ceilings: dict[Layer, float] = {}
    for name, of_user in bundle.ceilings.items():
        layer = Layer(name)
        ceilings[layer] = min(of_user, of_kind.get(layer, 1.0))
    total = max(1.0, sum(ceilings.values()))
    shares = {layer: ceiling / total for layer, ceiling in ceilings.items()}
    return BundlePlan(kind, because, shares)


def classify_task(turn: Turn, *, chosen_type: str = "auto") -> tuple[TaskType, str]:
    """Return the task type and what decided it: the user, attached errors, or its earliest
    keyword."""
    if chosen_type != "auto":
        return TaskType(chosen_type), "as you said"
    if turn.errors:
        return TaskType.EDIT, "errors came with it"
    matches: list[tuple[int, TaskType, str]] = []
    for kind, words in _TASK_WORDS.items():
        pattern = rf"\b(?:{'|'.join(words.split())})\b"
        match = re.search(pattern, turn.task, re.IGNORECASE)
        if match:
            matches.append((match.start(), kind, match[0]))
    if not matches:
        return TaskType.EDIT, "nothing in it says otherwise"
    _, earliest, word = min(matches, key=lambda match: match[0])
    return earliest, f"it says “{word.lower()}”"

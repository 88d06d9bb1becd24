"""The plan of a turn: what kind of task it is, and what share of the bundle each layer may take. Pure.

It sets budgets for the bundle and never what is judged: every active memory of every layer is a candidate. A task is
classified by the words it begins with or holds, or as the user says. Trade-off: rules of words are wrong at times, so
what they decide is only how much room notes may take beside code, and they say by which word they decided.
"""

import re
from collections.abc import Mapping

from xscore.records import Layer, Plan, TaskType, Turn
from xscore.settings import BundleSettings, RoutingSettings

_WORDS: Mapping[TaskType, str] = {
    TaskType.REFACTOR: r"""refactor\w* rename extract restructure clean\s?up simplif\w+ deduplicat\w+ split inline
        move""",
    TaskType.DESIGN: r"design\w* architect\w* propos\w+ approach trade-?offs? should\swe plan rfc adr structure",
    TaskType.RESEARCH: r"compare survey research investigate alternatives options evaluate benchmark\w* audit",
    TaskType.EXPLAIN: r"""explain\w* why how\sdoes how\sdo what\sis what\sare what\sdoes where who understand describe
        document""",
    TaskType.EDIT: r"""fix\w* add implement\w* change make update remove delete bug error fail\w* crash\w* support write
        build migrate bump handle""",
}
"""What tells a kind of task: the word that stands first in the task decides."""
_RULES = {kind: re.compile(rf"\b(?:{'|'.join(words.split())})\b", re.IGNORECASE) for kind, words in _WORDS.items()}

PROFILES: Mapping[TaskType, Mapping[Layer, float]] = {
    TaskType.EDIT: {Layer.SESSION: 0.18, Layer.PROJECT: 0.12, Layer.USER: 0.05},
    TaskType.REFACTOR: {Layer.SESSION: 0.18, Layer.PROJECT: 0.12, Layer.USER: 0.05},
    TaskType.EXPLAIN: {Layer.SESSION: 0.30, Layer.PROJECT: 0.20, Layer.USER: 0.05},
    TaskType.DESIGN: {Layer.SESSION: 0.30, Layer.PROJECT: 0.20, Layer.USER: 0.10},
    TaskType.RESEARCH: {Layer.SESSION: 0.40, Layer.PROJECT: 0.20, Layer.USER: 0.10},
}
"""Ceilings by kind of task, where they are lower than the user's own (`bundle.ceilings`).

With the 5 % of governance, code and documents keep at least 60 % of what an edit is shown, and all that is not taken.
"""


def plan(turn: Turn, *, routing: RoutingSettings, bundle: BundleSettings) -> Plan:
    """Classify the task and grant each layer its share.

    Governance keeps its share whatever the words of the task are: what is there to show of it was judged to bear on the
    task, which tells more than its words.
    """
    kind, because = classify(turn, wanted=routing.task_type)
    profile = PROFILES[kind]
    ceilings = {Layer(name): min(share, profile.get(Layer(name), 1.0)) for name, share in bundle.ceilings.items()}
    total = max(1.0, sum(ceilings.values()))
    return Plan(kind, because, {layer: share / total for layer, share in ceilings.items()})


def classify(turn: Turn, *, wanted: str = "auto") -> tuple[TaskType, str]:
    """Return the kind of task and what decided it: the user, the errors that came with it, or its earliest word."""
    if wanted != "auto":
        return TaskType(wanted), "as you said"
    if turn.errors:
        return TaskType.EDIT, "errors came with it"
    found = [(match.start(), kind, match[0]) for kind, rule in _RULES.items() if (match := rule.search(turn.task))]
    if not found:
        return TaskType.EDIT, "nothing in it says otherwise"
    _, kind, word = min(found, key=lambda first: first[0])
    return kind, f"it says “{word.lower()}”"

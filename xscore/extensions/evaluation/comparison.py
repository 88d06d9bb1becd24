"""Two sets of results about the same cases, compared case by case. Pure.

Cases are paired by their id; what only one side has is counted and named, and is in no figure. A
figure is compared over the cases that have it on both sides: a case without gold has only whether
something was kept. Groups are of repository, language, kind of change and length of the task; a
group has its own interval, so many groups will show a clear one by chance.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from xscore.extensions.evaluation.statistics import (
    PairedDifference,
    PairedFigure,
    paired_difference,
)
from xscore.platform.errors import UsageError
from xscore.platform.text import counted

MEASURES: Mapping[str, str] = {
    "recall": "recall of what was kept",
    "recall_at_k": "recall of the first k",
    "precision": "precision of what was kept",
    "hit": "any gold kept",
    "reciprocal_rank": "1 / rank of the first gold",
    "ndcg": "nDCG of the first k",
    "kept": "memories kept",
    "silent": "nothing kept, where nothing is to be found",
}
"""Measures in the order in which they are shown."""
MAIN = ("recall", "recall_at_k")
"""Measures that groups are compared by."""
DECIDES = "recall"
"""The measure by which the worst cases are found."""
SHORT_TASK, LONG_TASK = 12, 50
"""Distinct words of a task: below the first it is short, from the second on long."""
WORST = 20
NAMED = 3
"""How many cases without a partner are named."""


class Miss(Struct, frozen=True, kw_only=True):
    """A gold entity that was not kept."""

    path: str
    name: str
    why: str
    """What `explain` says about the missed entity."""


class CaseResult(Struct, frozen=True, kw_only=True):
    """One case as one variant did it."""

    id: str
    figures: Mapping[str, float]
    """Figures by the names of `MEASURES`; all finite."""
    task: str = ""
    repository: str = ""
    language: str = ""
    kind: str = ""
    misses: tuple[Miss, ...] = ()


class ResultSet(Struct, frozen=True, kw_only=True):
    """What one variant did."""

    name: str
    cases: tuple[CaseResult, ...]
    judge: str = ""
    """The judge, `provider:model`; empty if unknown."""


class GroupDifference(Struct, frozen=True, kw_only=True):
    """One group of cases, by one measure."""

    by: str
    """What the cases are grouped by: `repository`, `language`, `kind` or `task`."""
    group: str
    measure: str
    difference: PairedDifference


class WorstCase(Struct, frozen=True, kw_only=True):
    """A case of which B keeps less than A, or misses something."""

    id: str
    task: str
    repository: str
    a: float
    b: float
    misses: tuple[Miss, ...]
    """What B misses."""


class CaseComparison(Struct, frozen=True, kw_only=True):
    """A and B, paired."""

    a: str
    b: str
    judges: tuple[str, str]
    cases: int
    """Number of cases that both have."""
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    """Ids of cases that one side lacks."""
    overall: Mapping[str, PairedDifference]
    """Difference by measure, in the order of `MEASURES`; a measure that no pair has is left
    out."""
    groups: tuple[GroupDifference, ...]
    differences: tuple[float, ...]
    """B - A of each case by `DECIDES`, lowest first."""
    worst: tuple[WorstCase, ...]
    warnings: tuple[str, ...]


def compare(a: ResultSet, b: ResultSet) -> CaseComparison:
    """Compare B with A. Raises UsageError where no case is in both."""
    of_b = {case.id: case for case in b.cases}
    pairs: list[tuple[CaseResult, CaseResult]] = []
    only_a: list[str] = []
    for case in a.cases:
        partner = of_b.get(case.id)
        if partner is None:
            only_a.append(case.id)
        else:
            pairs.append((case, partner))
    if not pairs:
        raise UsageError(
            f"no case is in both results: {counted(len(a.cases), 'case')} in {a.name},"
            f" {counted(len(b.cases), 'case')} in {b.name}",
            hint="Compare two results of the same cases: they are paired by their id.",
        )
    paired_ids = {case.id for case, _ in pairs}
    only_b = [case.id for case in b.cases if case.id not in paired_ids]
    overall: dict[str, PairedDifference] = {}
    for measure in MEASURES:
        difference = _difference(pairs, measure)
        if difference is not None:
            overall[measure] = difference
    return CaseComparison(
        a=a.name,
        b=b.name,
        judges=(a.judge, b.judge),
        cases=len(pairs),
        only_a=tuple(only_a),
        only_b=tuple(only_b),
        overall=overall,
        groups=tuple(_groups(pairs)),
        differences=_differences(pairs),
        worst=tuple(_worst(pairs)),
        warnings=tuple(_warnings(pairs, only_a, only_b, a=a, b=b)),
    )


def _difference(
    pairs: Sequence[tuple[CaseResult, CaseResult]], measure: str
) -> PairedDifference | None:
    figures: list[PairedFigure] = []
    for case, partner in pairs:
        if measure in case.figures and measure in partner.figures:
            # B may have been written by another program, without the repository.
            repository = case.repository or partner.repository
            figures.append(
                PairedFigure(repository, case.figures[measure], partner.figures[measure])
            )
    return paired_difference(figures)


def _groups(pairs: Sequence[tuple[CaseResult, CaseResult]]) -> list[GroupDifference]:
    """Compare within each group; a division that leaves all cases in one group says nothing."""
    divisions: Mapping[str, Callable[[CaseResult], str]] = {
        "repository": lambda case: case.repository,
        "language": lambda case: case.language,
        "kind": lambda case: case.kind,
        "task": lambda case: task_length(case.task),
    }
    groups: list[GroupDifference] = []
    for by, group_of in divisions.items():
        members: dict[str, list[tuple[CaseResult, CaseResult]]] = defaultdict(list)
        for case, partner in pairs:
            members[group_of(case) or group_of(partner)].append((case, partner))
        if len(members) < 2:
            continue
        for group in sorted(members):
            for measure in MAIN:
                difference = _difference(members[group], measure)
                if difference is not None:
                    name = group or "unknown"
                    compared = GroupDifference(
                        by=by, group=name, measure=measure, difference=difference
                    )
                    groups.append(compared)
    return groups


def task_length(task: str) -> str:
    """Return `short`, `medium` or `long` by distinct words; empty without a task."""
    words = set(re.findall(r"\w\w+", task.lower()))
    if not words:
        return ""
    if len(words) < SHORT_TASK:
        return f"short (under {SHORT_TASK} words)"
    if len(words) < LONG_TASK:
        return f"medium ({SHORT_TASK} to {LONG_TASK - 1} words)"
    return f"long ({LONG_TASK} words or more)"


def _differences(pairs: Sequence[tuple[CaseResult, CaseResult]]) -> tuple[float, ...]:
    differences: list[float] = []
    for case, partner in pairs:
        if DECIDES in case.figures and DECIDES in partner.figures:
            differences.append(partner.figures[DECIDES] - case.figures[DECIDES])
    return tuple(sorted(differences))


def _worst(pairs: Sequence[tuple[CaseResult, CaseResult]]) -> list[WorstCase]:
    """Return what B lost most of what A has, then what B finds least of."""
    worst: list[WorstCase] = []
    for case, partner in pairs:
        of_a = case.figures.get(DECIDES)
        of_b = partner.figures.get(DECIDES)
        if of_a is None or of_b is None or of_b >= max(1.0, of_a):
            continue
        worst.append(
            WorstCase(
                id=case.id,
                task=partner.task or case.task,
                repository=case.repository or partner.repository,
                a=of_a,
                b=of_b,
                misses=partner.misses,
            )
        )
    worst.sort(key=lambda entry: (entry.b - entry.a, entry.b, entry.id))
    return worst[:WORST]


def _warnings(
    pairs: Sequence[tuple[CaseResult, CaseResult]],
    only_a: Sequence[str],
    only_b: Sequence[str],
    *,
    a: ResultSet,
    b: ResultSet,
) -> list[str]:
    warnings: list[str] = []
    for name, ids in ((a.name, only_a), (b.name, only_b)):
        if ids:
            rest = f" and {len(ids) - NAMED} more" if len(ids) > NAMED else ""
            warnings.append(
                f"{counted(len(ids), 'case')} only in {name}, and so in no figure:"
                f" {', '.join(ids[:NAMED])}{rest}"
            )
    other_tasks = 0
    for case, partner in pairs:
        other_tasks += bool(case.task and partner.task and case.task != partner.task)
    if other_tasks:
        warnings.append(
            f"{counted(other_tasks, 'case')} with the same id and another task: the results may be"
            " of different files of cases"
        )
    if not any(DECIDES in case.figures for case, _ in pairs):
        warnings.append("no case in both has gold, so there is no recall to compare")
    return warnings

"""Groups of spending with their turns, and percentiles.

A percentile is a time that was measured: of n samples in order, the one at rank ⌈q · n⌉. The sums
themselves are `call_table`'s. Trade-off: turns are counted here, in Python, since their figures
passed the checks one by one.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil

from xscore.cost_reports.call_table import CallTable
from xscore.cost_reports.groupings import GROUPINGS, Order
from xscore.cost_reports.records import Group, LedgerTurn, Spent, Timing, TurnKey
from xscore.records.calls import Stage
from xscore.records.receipt import NOTHING_JUDGED, Coverage, Latency

_KINDS = ("live", "cached")


def group_spending(calls: CallTable, turns: Sequence[LedgerTurn], by: str) -> tuple[Group, ...]:
    """Return one line per group, in the order of the grouping. by: its name."""
    grouping = GROUPINGS[by]
    spent = {name: spent for (name,), spent in calls.spent_by(by).items()}
    members: dict[str, set[TurnKey]] = defaultdict(set)
    for name, key in calls.turns_by(by):
        members[name].add(key)
    turns_by_name: dict[str, list[LedgerTurn]] = defaultdict(list)
    for turn in turns:
        name_of_turn = grouping.of_turn(turn)
        if name_of_turn is not None:
            # A turn that was served from the cache has no call: it is a member all the same.
            members[name_of_turn].add(turn.key)
            turns_by_name[name_of_turn].append(turn)
    groups: list[Group] = []
    for name in sorted(spent.keys() | members.keys()):
        of_group = turns_by_name[name]
        group = Group(
            name=name,
            turns=len(members[name]),
            spent=spent.get(name, Spent()),
            coverage=sum_coverage(of_group),
            kept=sum(turn.figures.kept for turn in of_group if turn.figures),
        )
        groups.append(group)
    return tuple(_in_order(groups, grouping.order, turns_by_name))


def _in_order(
    groups: list[Group], order: Order, turns_by_name: Mapping[str, Sequence[LedgerTurn]]
) -> list[Group]:
    match order:
        case Order.COST:
            # Groups come sorted by name, and those of equal cost stay so.
            return sorted(
                groups,
                key=lambda group: (group.spent.cost_usd, group.spent.attempts),
                reverse=True,
            )
        case Order.LAST_NAME:
            return sorted(groups, key=lambda group: group.name, reverse=True)
        case Order.TIME:
            newest: dict[str, float] = {}
            for name, turns in turns_by_name.items():
                if turns:
                    newest[name] = max(turn.at for turn in turns)
            return sorted(
                groups,
                key=lambda group: (newest.get(group.name, 0.0), group.name),
                reverse=True,
            )


def sum_coverage(turns: Iterable[LedgerTurn]) -> Coverage:
    """Add up the outcomes of finished turns' candidates."""
    total = NOTHING_JUDGED
    for turn in turns:
        if turn.figures:
            total += turn.figures.coverage
    return total


def call_timings(calls: CallTable) -> Iterator[Timing]:
    """Return the timings of answered calls, by stage and by whether a prefix came from the host's
    cache."""
    for stage in Stage:
        taken = sorted(calls.durations(stage))
        for is_cached, kind in enumerate(_KINDS):
            samples = [double // 2 for double in taken if double % 2 == is_cached]
            if samples:
                yield _timing("call", str(stage), kind, samples, 1e6)


def turn_timings(turns: Iterable[tuple[Latency, bool]]) -> Iterator[Timing]:
    """Return the timings of finished turns by stage; each turn says whether every score was
    cached."""
    taken: dict[tuple[str, str], list[float]] = defaultdict(list)
    for latency, is_cached in turns:
        for stage in Latency.__struct_fields__:
            seconds = getattr(latency, stage)
            if seconds > 0:  # a stage that did not happen is not a sample
                taken[stage, _KINDS[is_cached]].append(seconds)
    for stage in Latency.__struct_fields__:
        for kind in _KINDS:
            samples = sorted(taken[stage, kind])
            if samples:
                yield _timing("turn", stage, kind, samples, 1.0)


def _timing(
    of: str, stage: str, kind: str, samples: Sequence[float], in_a_second: float
) -> Timing:
    """samples: in ascending order."""
    return Timing(
        of=of,
        stage=stage,
        kind=kind,
        count=len(samples),
        p50_s=_percentile(samples, 0.5) / in_a_second,
        p95_s=_percentile(samples, 0.95) / in_a_second,
        p99_s=_percentile(samples, 0.99) / in_a_second,
    )


def _percentile(samples: Sequence[float], share: float) -> float:
    # A product that is a hair above a whole number is that number.
    rank = ceil(share * len(samples) - 1e-9)
    return samples[max(0, rank - 1)]

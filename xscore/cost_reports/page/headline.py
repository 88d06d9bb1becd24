"""The boxes that the page shows first: the figures of the whole period, each with remarks. It draws nothing."""

from collections.abc import Iterator
from typing import NamedTuple

from xscore.cost_reports import report_text
from xscore.platform.text import counted, format_share, format_tokens
from xscore.records.cost_report import CostReport


class Box(NamedTuple):
    """One figure with its name, and remarks below it."""

    name: str
    figure: str
    remarks: tuple[str, ...]


def headline_figures(report: CostReport) -> list[Box]:
    """Return the boxes."""
    spent, coverage, usage = report.spent, report.coverage, report.spent.usage
    judged = coverage.candidates - coverage.unjudged
    reasoning = f"{format_tokens(usage.reasoning_tokens)} of them reasoning"
    near = () if report.near is None else (f"{counted(report.near, 'score')} near the threshold",)
    causes = sorted(report.unjudged_by_cause.items())
    return [
        Box("Dollars", report_text.format_priced(spent), tuple(_of_dollars(report))),
        Box("Turns", f"{sum(report.turns_by_state.values()):,}", tuple(_of_turns(report))),
        Box("Calls", f"{spent.calls:,}", tuple(_of_calls(report))),
        Box("Input tokens", format_tokens(usage.input_tokens), tuple(_of_input(report))),
        Box("Output tokens", format_tokens(usage.output_tokens), (reasoning,) if usage.reasoning_tokens else ()),
        Box("Judged", format_share(judged, coverage.candidates), tuple(_of_judged(report))),
        Box(
            "Unjudged",
            f"{coverage.unjudged:,}",
            tuple(f"{count:,} {cause.replace('_', ' ')}" for cause, count in causes if count),
        ),
        Box("Kept", f"{report.kept:,}", near),
    ]


def _of_dollars(report: CostReport) -> Iterator[str]:
    if rest := report_text.format_unpriced(report.spent):
        yield rest
    without_cache = report_text.cost_alternatives(report.comparison)[1]
    if without_cache.usd:
        yield f"{without_cache.words} {without_cache.name}"
    if report.spent.estimated:
        yield f"tokens of {counted(report.spent.estimated, 'attempt')} estimated"


def _of_turns(report: CostReport) -> Iterator[str]:
    states = [f"{count:,} {state}" for state, count in sorted(report.turns_by_state.items()) if count]
    if states:
        yield ", ".join(states)
    if report.turns_cached:
        yield f"{report.turns_cached:,} without a judging call"


def _of_calls(report: CostReport) -> Iterator[str]:
    spent = report.spent
    yield f"in {counted(spent.attempts, 'attempt')}"
    yield f"{spent.rate_limited:,} times a 429" if spent.rate_limited else "no 429"
    if spent.failed:
        yield f"{spent.failed:,} failed otherwise"


def _of_input(report: CostReport) -> Iterator[str]:
    usage = report.spent.usage
    if usage.input_tokens:
        yield f"{format_share(usage.cached_input_tokens, usage.input_tokens)} from prefix caches"
    if usage.cache_write_tokens:
        yield f"{format_tokens(usage.cache_write_tokens)} written to them"


def _of_judged(report: CostReport) -> Iterator[str]:
    coverage = report.coverage
    carried = f", {coverage.carried:,} carried" if coverage.carried else ""
    yield f"of {counted(coverage.candidates, 'candidate')}"
    yield f"{coverage.judged:,} live, {coverage.cached:,} cached{carried}"

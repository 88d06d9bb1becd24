"""What the page says first: the figures of the whole stretch in a few boxes, and what was left out."""

from collections.abc import Iterator
from dataclasses import dataclass

from xscore.cost_reports import payment
from xscore.cost_reports.page.markup import Html, element, joined
from xscore.records.cost_report import CostReport
from xscore.wording import counted, share, tokens


@dataclass(frozen=True, slots=True)
class Box:
    """One figure with its name, and remarks below it."""

    name: str
    figure: str
    remarks: Iterator[str]


def headline(report: CostReport) -> Html:
    """Make the boxes."""
    spent, coverage = report.spent, report.coverage
    boxes = (
        Box("Dollars", payment.priced(spent), _of_dollars(report)),
        Box("Turns", f"{sum(report.turns_by_state.values()):,}", _of_turns(report)),
        Box("Calls", f"{spent.calls:,}", _of_calls(report)),
        Box("Input tokens", tokens(spent.usage.input_tokens), _of_input(report)),
        Box("Output tokens", tokens(spent.usage.output_tokens), _of_output(report)),
        Box("Judged", share(coverage.candidates - coverage.unjudged, coverage.candidates), _of_judged(report)),
        Box("Unjudged", f"{coverage.unjudged:,}", _causes(report)),
        Box("Kept", f"{report.kept:,}", _of_kept(report)),
    )
    return element("dl", *map(_box, boxes), class_="boxes")


def warnings(report: CostReport) -> Html:
    """List what was left out, if anything was."""
    if not report.warnings:
        return joined(())
    listed = element("ul", *(element("li", words) for words in report.warnings))
    return element("div", element("strong", "Left out of these figures"), listed, class_="warnings", role="note")


def _box(box: Box) -> Html:
    remarks = (element("dd", remark) for remark in box.remarks)
    return element("div", element("dt", box.name), element("dd", box.figure), *remarks)


def _of_dollars(report: CostReport) -> Iterator[str]:
    if rest := payment.rest(report.spent):
        yield rest
    without_cache = payment.otherwise(report.comparison)[0]
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
        yield f"{share(usage.cached_input_tokens, usage.input_tokens)} from prefix caches"
    if usage.cache_write_tokens:
        yield f"{tokens(usage.cache_write_tokens)} written to them"


def _of_output(report: CostReport) -> Iterator[str]:
    if report.spent.usage.reasoning_tokens:
        yield f"{tokens(report.spent.usage.reasoning_tokens)} of them reasoning"


def _of_judged(report: CostReport) -> Iterator[str]:
    coverage = report.coverage
    carried = f", {coverage.carried:,} carried" if coverage.carried else ""
    yield f"of {counted(coverage.candidates, 'candidate')}"
    yield f"{coverage.judged:,} live, {coverage.cached:,} cached{carried}"


def _of_kept(report: CostReport) -> Iterator[str]:
    if report.near is not None:
        yield f"{counted(report.near, 'score')} near the threshold"


def _causes(report: CostReport) -> Iterator[str]:
    for cause, count in sorted(report.unjudged_by_cause.items()):
        if count:
            yield f"{count:,} {cause.replace('_', ' ')}"

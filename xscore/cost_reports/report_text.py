"""The rows of a report in words, the same on a terminal and in Markdown, and the report on a
terminal.

`summary_rows` and `report_tables` feed both, which only format them. Figures are rounded, `--json`
has them exact; only shares are computed here. Trade-off: a turn that the report has no line of is
shown without its task.
"""

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal

from xscore.cli.terminal import stdout_columns
from xscore.cli.text_layout import bold, faint, render_facts, render_table
from xscore.cost_reports.records import (
    Comparison,
    CostReport,
    Group,
    ScoreHistogram,
    Spent,
    Timing,
)
from xscore.cost_reports.report_lines import (
    ReportTable,
    format_spent,
    format_spent_short,
    lines_of_groups,
    shown_group_columns,
    table_for_people,
)
from xscore.pipeline.stage_words import stage_words
from xscore.platform.figures import (
    format_difference,
    format_dollars,
    format_duration,
    format_share,
    format_time,
    format_tokens,
)
from xscore.platform.text import counted, ellipsize, one_line
from xscore.records.reports import EvaluationLine

GROUPS_SHOWN = 40
HISTOGRAMS_SHOWN = 4
EVALUATIONS_SHOWN = 10
NAME_CHARS = 60
"""The name of a group in the printed report is cut to this many characters, also in a pipe."""
_BARS = " ▁▂▃▄▅▆▇█"


def describe_period(report: CostReport) -> str:
    """The period in words."""
    if report.turn_id:
        return f"turn {one_line(report.turn_id)}"
    words: list[str] = []
    if report.since is not None:
        words.append(f"since {format_time(report.since)}")
    if report.until is not None:
        words.append(f"until {format_time(report.until)}")
    if not words:
        return "the whole ledger"
    return f"{' '.join(words)} UTC"


def summary_rows(report: CostReport) -> list[tuple[str, str]]:
    """The figures that a person looks for first: a label and words; empty words if there is nothing
    to say."""
    return [
        ("turns", _turns(report)),
        ("candidates", _candidates(report)),
        ("kept", _kept(report)),
        ("calls", _calls(report.spent)),
        ("tokens", _tokens(report) if report.spent.attempts else ""),
        ("dollars", format_spent(report.spent)),
        ("would have cost", _would_have_cost(report.comparison)),
        ("estimate", _estimate(report)),
        ("offline", _offline(report)),
        ("facts of sessions", _extraction(report)),
    ]


def _would_have_cost(comparison: Comparison) -> str:
    """Return what other ways would have cost; empty where nothing costs anything."""
    ways = {
        "without the cache of judgments (approx.)": comparison.without_cache_usd,
        "with one memory per prompt (approx.)": comparison.without_packs_usd,
        "without prefix caching by hosts": comparison.without_prefix_cache_usd,
        "with judging by the Batch API": comparison.by_batch_usd,
    }
    if {comparison.actual_usd, *ways.values()} == {Decimal(0)}:
        return ""
    parts: list[str] = []
    for way, usd in ways.items():
        amount = "unknown" if usd is None else format_dollars(usd)
        parts.append(f"{amount} {way}")
    return " · ".join(parts)


def _turns(report: CostReport) -> str:
    words = f"{sum(report.turns_by_state.values()):,}"
    states = [f"{count:,} {state}" for state, count in report.turns_by_state.items()]
    if states:
        words += f": {', '.join(states)}"
    if report.turns_cached:
        words += f" · {report.turns_cached:,} needed no judging call"
    return words


def _candidates(report: CostReport) -> str:
    coverage = report.coverage
    words = (
        f"{coverage.candidates:,}: {coverage.judged:,} judged live, {coverage.cached:,} from the"
        f" cache, {coverage.carried:,} from earlier questions, {coverage.unjudged:,} unjudged"
    )
    causes = [
        f"{count:,} {one_line(cause)}" for cause, count in report.unjudged_by_cause.items()
    ]
    if causes:
        words += f" ({', '.join(causes)})"
    return words


def _kept(report: CostReport) -> str:
    if report.near is None:
        return f"{report.kept:,}"
    threshold = "the threshold" if report.threshold is not None else "its turn's threshold"
    return f"{report.kept:,} · {counted(report.near, 'score')} within 0.1 of {threshold}"


def _calls(spent: Spent) -> str:
    words = f"{spent.calls:,} answered"
    if spent.attempts > spent.calls:
        attempts = counted(spent.attempts, "attempt")
        words += (
            f" of {attempts}: {spent.rate_limited:,} × 429, {spent.failed:,} failed otherwise"
        )
    if spent.estimated:
        words += f" · {spent.estimated:,} with estimated tokens"
    return words


def _tokens(report: CostReport) -> str:
    usage = report.spent.usage
    cached = f"{format_tokens(usage.cached_input_tokens)} of them from prefix caches"
    if report.prefix_hit_rate is not None:
        cached += f" ({format_share(report.prefix_hit_rate, 1)} of the judging)"
    parts = [f"{format_tokens(usage.input_tokens)} in", cached]
    if usage.cache_write_tokens:
        parts.append(f"{format_tokens(usage.cache_write_tokens)} written to them")
    parts.append(f"{format_tokens(usage.output_tokens)} out")
    if usage.reasoning_tokens:
        parts.append(f"{format_tokens(usage.reasoning_tokens)} of them reasoning")
    return ", ".join(parts)


def _estimate(report: CostReport) -> str:
    accuracy = report.accuracy
    if accuracy is None:
        return ""
    expected = accuracy.expected
    actual = accuracy.actual
    pairs = [
        ("calls", actual.calls, expected.calls),
        ("tokens in", actual.input_tokens, expected.input_tokens),
        ("tokens out", actual.output_tokens, expected.output_tokens),
    ]
    parts = [f"{name} {format_difference(now, before)}" for name, now, before in pairs]
    if expected.cost_usd is not None and actual.cost_usd is not None:
        missed = format_difference(float(actual.cost_usd), float(expected.cost_usd))
        parts.append(f"dollars without prefix caching by hosts {missed}")
    return (
        f"{', '.join(parts)} (actual compared with estimate, {counted(accuracy.turns, 'turn')})"
    )


def _offline(report: CostReport) -> str:
    offline = report.offline
    if not offline.jobs:
        return ""
    parts = [
        f"replayed hit rate {format_share(offline.cached, offline.candidates)}",
        format_dollars(offline.cost_usd),
    ]
    if offline.unpriced:
        parts.append(f"{offline.unpriced:,} unpriced")
    if offline.saved_by_batch_usd > 0:
        parts.append(f"{format_dollars(offline.saved_by_batch_usd)} saved by batch")
    jobs = counted(offline.jobs, "job")
    questions = counted(offline.questions, "question")
    return f"{jobs}, {questions}: {', '.join(parts)}"


def _extraction(report: CostReport) -> str:
    extraction = report.extraction
    if extraction is None:
        return ""
    attempts = counted(extraction.spent.attempts, "call")
    dropped = sum(extraction.dropped.values())
    facts = f"of {counted(extraction.proposed, 'proposed fact')} {extraction.kept:,} new"
    if dropped:
        most_often = sorted(extraction.dropped.items(), key=lambda item: (-item[1], item[0]))
        reasons = ", ".join(f"{count:,} {one_line(why)}" for why, count in most_often)
        facts += f", {dropped:,} dropped ({reasons})"
    # The counts of facts know no period.
    when = ""
    if report.since is not None or report.until is not None:
        when = " (facts of all time)"
    return f"{attempts}, {format_spent(extraction.spent)} · {facts}{when}"


def report_tables(
    report: CostReport, *, paid: Callable[[Spent], str], groups: int
) -> Iterator[ReportTable]:
    """Yield tables by model, by the chosen grouping, of times and of evaluations.

    paid: formats dollars.
    groups: the most rows of a table.
    """
    if report.by_model:
        yield _group_table(report, report.by_model, "model", paid, groups)
    if report.groups and report.by != "model":
        yield _group_table(report, report.groups, report.by, paid, groups)
    if report.timings:
        heads = ("time of", "stage", "kind", "samples", "p50", "p95", "p99")
        yield ReportTable(heads, [_timing_row(timing) for timing in report.timings], words=3)
    if report.evaluations:
        shown = report.evaluations[:EVALUATIONS_SHOWN]
        heads = ("evaluated", "judge", "questions", "k", "recall", "precision", "nDCG")
        yield ReportTable(heads, [_evaluation_row(line) for line in shown], words=2)


def _timing_row(timing: Timing) -> tuple[str, ...]:
    percentiles = map(format_duration, (timing.p50_s, timing.p95_s, timing.p99_s))
    stage = stage_words(timing.of, timing.stage)
    return (timing.of, stage, timing.kind, f"{timing.count:,}", *percentiles)


def _evaluation_row(line: EvaluationLine) -> tuple[str, ...]:
    shares = [f"{share:.3f}" for share in (line.recall, line.precision, line.ndcg)]
    return (format_time(line.at), one_line(line.judge), f"{line.cases:,}", f"{line.k}", *shares)


def _group_table(
    report: CostReport,
    groups: Sequence[Group],
    by: str,
    paid: Callable[[Spent], str],
    limit: int,
) -> ReportTable:
    lines = lines_of_groups(groups[:limit], by, report.turns)
    columns = shown_group_columns(by, paid=paid)
    return table_for_people(columns, lines, hidden=max(0, len(groups) - limit))


def render_report(report: CostReport) -> str:
    """Return the report as a page; for an empty ledger, what to do next."""
    repositories = ", ".join(map(one_line, report.repositories[:3]))
    if len(report.repositories) > 3:
        repositories += f" and {len(report.repositories) - 3} more"
    heading = f"{bold(repositories)}  {faint(describe_period(report))}"
    if not report.turns_by_state and not report.spent.attempts and not report.evaluations:
        if report.since is None and report.until is None:
            return f"{heading}\nNo turn is recorded here yet; `xscore ask` makes the first one."
        return (
            f"{heading}\nNo turn is recorded in this period; leave out --last, --since and --until"
            " to see all of them."
        )
    width = stdout_columns()
    facts = summary_rows(report)
    histograms: list[tuple[str, str]] = []
    for histogram in report.histograms[:HISTOGRAMS_SHOWN]:
        label = "scores"
        if len(report.histograms) > 1:
            label = f"scores, {one_line(histogram.judge)}"
        histograms.append((label, _histogram(histogram)))
    # Below how many were kept.
    facts[3:3] = histograms
    parts = [heading, render_facts(facts)]
    for table in report_tables(report, paid=format_spent_short, groups=GROUPS_SHOWN):
        rows = _with_short_names(table)
        text = render_table(table.heads, rows, right=table.figures, width=width)
        if table.more:
            text += f"\n{faint(f'and {table.more:,} more')}"
        parts.append(text)
    return "\n\n".join(parts)


def _with_short_names(table: ReportTable) -> Sequence[tuple[str, ...]]:
    """Cut the names of groups; those of repositories are paths, which differ at their end."""
    if table.heads[0] == "repo":
        return table.rows
    return [(ellipsize(name, NAME_CHARS), *cells) for name, *cells in table.rows]


def _histogram(of: ScoreHistogram) -> str:
    highest = max(of.scores, default=0)
    if not highest:
        return ""
    bars = [_BARS[-(-count * (len(_BARS) - 1) // highest)] for count in of.scores]
    if of.threshold is None:
        return f"0 [{''.join(bars).replace(' ', '.')}] 1, turns of several thresholds"
    threshold_at = min(round(of.threshold * len(bars)), len(bars))
    drawn = "".join(bars[:threshold_at]) + "|" + "".join(bars[threshold_at:])
    return f"0 [{drawn.replace(' ', '.')}] 1, threshold {of.threshold:g} at |"

"""Lines of `report --by`, in words, alike on a terminal and in Markdown. It sets no table and escapes nothing.

A line of turns says when its turn began and what its task was, and counts no turns, for that is always one. Trade-off:
a turn that the report has no line of goes without.

The report on a terminal: what a person wants to know in ten seconds, in columns that fit the window.

Figures are rounded; `--json` has them exact. It computes none but shares.

How a payment is said: what was paid, and what the same would have cost in other ways. One rule and one set of names.

Terminal, Markdown and page take both from here, so that none of them forgets what has no price or was estimated. Pure.
Trade-off: names are short enough for a column; `docs/costs.md` says what each of them means.
"""

import re
import textwrap
from collections.abc import Callable, Sequence
from decimal import Decimal

from msgspec import Struct

from xscore.cli.terminal import bold, display_width, faint, terminal_columns, truncate_line, truncate_middle
from xscore.platform.text import (
    DASH,
    counted,
    format_difference,
    format_dollars,
    format_duration,
    format_share,
    format_time,
    format_tokens,
    one_line,
)
from xscore.records.cost_report import (
    Comparison,
    CostReport,
    EvaluationLine,
    Group,
    Spent,
    Timing,
    TurnLine,
    counts_candidates,
)

SPENT = ("candidates", "calls", "in", "prefix-cached", "out", "dollars")


def group_heads(by: str) -> tuple[str, ...]:
    """The words above the columns."""
    return (by, "began" if by == "turn" else "turns", *SPENT)


def turns_by_id(report: CostReport) -> dict[str, TurnLine]:
    """The turns that the report has a line of, by id."""
    return {line.id: line for line in report.turns}


def group_cells(group: Group, by: str, began: dict[str, TurnLine], *, paid: Callable[[Spent], str]) -> tuple[str, ...]:
    """Under `head_of`, the figures of one line. paid: how its dollars are said."""
    spent, usage = group.spent, group.spent.usage
    line = began.get(group.name)
    second = f"{group.turns:,}" if by != "turn" else format_time(line.at) if line else DASH
    candidates = f"{group.coverage.candidates:,}" if counts_candidates(group, by) else DASH
    used = (
        format_tokens(usage.input_tokens),
        format_tokens(usage.cached_input_tokens),
        format_tokens(usage.output_tokens),
    )
    return (group.name or "not known", second, candidates, f"{spent.calls:,}", *used, paid(spent))


def first_task_line(group: Group, began: dict[str, TurnLine]) -> str:
    """The first line of a turn's task; empty where it is not known, or was erased."""
    line = began.get(group.name)
    lines = line.task.splitlines() if line else []
    return one_line(next((text.strip() for text in lines if text.strip()), ""))


NOT_KNOWN = "not known"


class CostAlternative(Struct, frozen=True):
    """One way to pay for the same judgments and answers."""

    name: str
    usd: Decimal | None
    """None: not known."""

    @property
    def words(self) -> str:
        """Return its dollars in words."""
        return NOT_KNOWN if self.usd is None else format_dollars(self.usd)


def format_spent(spent: Spent) -> str:
    """`~$1.27 + 3 unpriced`: what has a price, and how many attempts have none."""
    return " ".join(filter(None, (format_priced(spent), format_unpriced(spent))))


def format_spent_short(spent: Spent) -> str:
    """`~$1.27+?`, for a narrow column."""
    return format_priced(spent) + ("+?" if format_unpriced(spent) else "")


def format_priced(spent: Spent) -> str:
    """`~$1.27`: `~` where tokens are estimated, `unpriced` where no attempt has a price."""
    if spent.unpriced and spent.unpriced == spent.attempts:
        return "unpriced"
    return format_dollars(spent.cost_usd, estimated=spent.estimated > 0)


def format_unpriced(spent: Spent) -> str:
    """`+ 3 unpriced`: what stands beside the dollars; empty where nothing does."""
    return f"+ {spent.unpriced:,} unpriced" if spent.unpriced and spent.unpriced != spent.attempts else ""


def actual_cost(comparison: Comparison) -> CostAlternative:
    """Return the way it was paid."""
    return CostAlternative("as it was", comparison.actual_usd)


def counterfactual_costs(comparison: Comparison) -> tuple[CostAlternative, ...]:
    """Return the other ways."""
    return (
        CostAlternative("without our cache (about)", comparison.without_cache_usd),
        CostAlternative("without packs (about)", comparison.without_packs_usd),
        CostAlternative("without prefix caching", comparison.without_prefix_cache_usd),
        CostAlternative("judged by Batch API", comparison.by_batch_usd),
    )


EMPTY_LEDGER = "The ledger holds nothing here yet: `xscore ask` makes the first turn."
EMPTY_PERIOD = "Nothing lies in this stretch; without --last, --since and --until all is added up."
GROUPS_SHOWN = 40
EVALUATIONS_SHOWN = 5
TIMED = ("time of", "stage", "", "samples", "p50", "p95", "p99")
EVALUATED = ("evaluated", "judge", "questions", "k", "recall", "precision", "nDCG")
_INDENT = 12
_MOST_WIDTH = 120
_ROOMY = 96
"""Columns that a line of a turn takes; in fewer, its tokens from prefix caches are left out."""
_FIRST_WORDS = 8
"""Columns below which the beginning of a task says nothing."""
_PARTS = re.compile(r"(?<=[,:·]) ")
_TIED = "\u00a0"
"""A line is broken between parts, never between a figure and its word."""
_BARS = " ▁▂▃▄▅▆▇█"


def render_report(report: CostReport) -> str:
    """Return the report as a page; of an empty ledger, what to do."""
    if not report.turns_by_state and not report.spent.attempts and not report.evaluations:
        whole = report.since is None and report.until is None
        return f"{heading(report)}\n{EMPTY_LEDGER if whole else EMPTY_PERIOD}"
    width = min(terminal_columns(), _MOST_WIDTH)
    parts = [
        [heading(report)],
        _summary(report, width),
        _group_lines(report, report.by_model, "model", width),
        _group_lines(report, report.groups, report.by, width) if report.by and report.by != "model" else [],
        _render_table(TIMED, timing_rows(report.timings), words=3),
        _render_table(EVALUATED, evaluation_rows(report.evaluations[:EVALUATIONS_SHOWN]), words=2),
    ]
    return "\n\n".join("\n".join(lines) for lines in parts if lines)


def heading(report: CostReport) -> str:
    """Which repositories, which stretch."""
    where = ", ".join(map(one_line, report.repositories[:3]))
    if len(report.repositories) > 3:
        where += f" and {len(report.repositories) - 3} more"
    return f"{bold(where)}  {faint(stretch(report))}"


def stretch(report: CostReport) -> str:
    """The stretch in words."""
    if report.turn_id:
        return f"turn {one_line(report.turn_id)}"
    if report.since is None and report.until is None:
        return "the whole ledger"
    since = f"since {format_time(report.since)}" if report.since is not None else ""
    until = f"until {format_time(report.until)}" if report.until is not None else ""
    return f"{since} {until}".strip() + " UTC"


def turns_in_words(report: CostReport) -> str:
    """`12: 10 done, 2 partial · 4 made no judging call`."""
    whole = sum(report.turns_by_state.values())
    states = ", ".join(f"{count:,} {state}" for state, count in report.turns_by_state.items())
    cached = f" · {report.turns_cached:,} made no judging call" if report.turns_cached else ""
    return f"{whole:,}" + (f": {states}" if states else "") + cached


def candidates_in_words(report: CostReport) -> str:
    """How many were judged, cached, carried, and why the others were not."""
    found = report.coverage
    causes = ", ".join(f"{count:,} {one_line(cause)}" for cause, count in report.unjudged_by_cause.items())
    return (
        f"{found.candidates:,}: {found.judged:,} judged live, {found.cached:,} cached, {found.carried:,} carried,"
        f" {found.unjudged:,} unjudged" + (f" ({causes})" if causes else "")
    )


def kept_in_words(report: CostReport) -> str:
    """`15 · 4 scores less than 0.1 from the threshold`."""
    if report.near is None:
        return f"{report.kept:,}"
    return f"{report.kept:,} · {counted(report.near, 'score')} less than 0.1 from the threshold"


def offline_in_words(report: CostReport) -> str:
    """`2 jobs, 40 questions: replayed hit rate 42 %, $0.31, $0.30 saved by batch`; empty where there was none."""
    found = report.offline
    if not found.jobs:
        return ""
    said = f"{counted(found.jobs, 'job')}, {counted(found.questions, 'question')}"
    parts = [f"replayed hit rate {format_share(found.cached, found.candidates)}", format_dollars(found.cost_usd)]
    parts += [f"{found.unpriced:,} unpriced"] if found.unpriced else []
    parts += [f"{format_dollars(found.saved_by_batch_usd)} saved by batch"] if found.saved_by_batch_usd > 0 else []
    return f"{said}: {', '.join(parts)}"


def calls_in_words(spent: Spent) -> str:
    """Calls, attempts, 429s, failures."""
    said = f"{spent.calls:,} answered"
    if spent.attempts > spent.calls:
        said += (
            f" of {counted(spent.attempts, 'attempt')}: {spent.rate_limited:,} × 429, {spent.failed:,} failed otherwise"
        )
    return said + (f" · tokens of {spent.estimated:,} are our estimate" if spent.estimated else "")


def tokens_in_words(report: CostReport) -> str:
    """Tokens by kind, and the share of judging input that came from prefix caches."""
    usage = report.spent.usage
    parts = [
        f"{format_tokens(usage.input_tokens)} in",
        f"{format_tokens(usage.cached_input_tokens)} of it from prefix caches",
    ]
    if report.prefix_hit_rate is not None:
        parts[1] += f" ({format_share(report.prefix_hit_rate, 1)} of the judging)"
    if usage.cache_write_tokens:
        parts.append(f"{format_tokens(usage.cache_write_tokens)} written to them")
    parts.append(f"{format_tokens(usage.output_tokens)} out")
    if usage.reasoning_tokens:
        parts.append(f"{format_tokens(usage.reasoning_tokens)} of it reasoning")
    return ", ".join(parts)


def estimate_in_words(report: CostReport) -> str:
    """By how much judging missed its estimate; empty where there was none."""
    known = report.accuracy
    if known is None:
        return ""
    pairs = [
        ("calls", known.expected.calls, known.actual.calls),
        ("tokens in", known.expected.input_tokens, known.actual.input_tokens),
        ("tokens out", known.expected.output_tokens, known.actual.output_tokens),
    ]
    said = [f"{what} {format_difference(actual, expected)}" for what, expected, actual in pairs]
    if known.expected.cost_usd is not None and known.actual.cost_usd is not None:
        said.append(
            f"dollars without prefix caching {format_difference(float(known.actual.cost_usd), float(known.expected.cost_usd))}"
        )
    return f"{', '.join(said)} (actual against estimate, {counted(known.turns, 'turn')})"


def render_columns(head: Sequence[str], rows: Sequence[Sequence[str]], *, words: int, width: int) -> list[str]:
    """Set a table: the first `words` columns to the left, the others to the right; names are cut to fit."""
    table = [list(head), *map(list, rows)]
    widths = [max(display_width(row[place]) for row in table) for place in range(len(head))]
    spare = width - sum(widths) - 2 * (len(head) - 1)
    if spare < 0:
        widths[0] = max(12, widths[0] + spare)
    lines = []
    for row in table:
        names = [truncate_middle(cell, widths[at]) for at, cell in enumerate(row[:words])]
        cells = [name + " " * (widths[at] - display_width(name)) for at, name in enumerate(names)]
        cells += [cell.rjust(widths[at + words]) for at, cell in enumerate(row[words:])]
        lines.append("  ".join(cells).rstrip())
    return [faint(lines[0]), *lines[1:]]


def _summary(report: CostReport, width: int) -> list[str]:
    other = " · ".join(f"{way.words} {way.name}" for way in counterfactual_costs(report.comparison))
    said = [
        ("turns", turns_in_words(report)),
        ("candidates", candidates_in_words(report)),
        ("kept", kept_in_words(report)),
        ("scores", _histogram(report)),
        ("calls", calls_in_words(report.spent)),
        ("tokens", tokens_in_words(report)),
        ("dollars", format_spent(report.spent)),
        ("otherwise", other),
        ("estimate", estimate_in_words(report)),
        ("offline", offline_in_words(report)),
    ]
    return [line for name, words in said if words for line in _summary_lines(name, words, width)]


def _summary_lines(name: str, words: str, width: int) -> list[str]:
    whole = " ".join(part.replace(" ", _TIED) for part in _PARTS.split(words))
    lines = textwrap.wrap(whole, max(40, width - _INDENT), break_long_words=False, break_on_hyphens=False)
    return [f"{name if not at else '':<{_INDENT}}{line.replace(_TIED, ' ')}" for at, line in enumerate(lines)]


def _histogram(report: CostReport) -> str:
    """Scores from 0 to 1 as bars, the threshold between them."""
    most = max(report.scores, default=0)
    if not most or report.threshold is None:
        return ""
    bars = [_BARS[-(-count * (len(_BARS) - 1) // most)] for count in report.scores]
    at = min(round(report.threshold * len(bars)), len(bars))
    drawn = "".join(bars[:at]) + "|" + "".join(bars[at:])
    return f"0 [{drawn.replace(' ', '.')}] 1, threshold {report.threshold:g} at |"


def _group_lines(report: CostReport, found: Sequence[Group], by: str, width: int) -> list[str]:
    if not found:
        return []
    shown, began, is_of_turns = found[:GROUPS_SHOWN], turns_by_id(report), by == "turn"
    table = [group_heads(by), *(group_cells(group, by, began, paid=format_spent_short) for group in shown)]
    left_out = group_heads(by).index("prefix-cached") if is_of_turns and width < _ROOMY else None
    rows = [[one_line(cell) for at, cell in enumerate(row) if at != left_out] for row in table]
    head, *lines = render_columns(rows[0], rows[1:], words=2 if is_of_turns else 1, width=width)
    if is_of_turns:
        lines = [
            _with_task(line, first_task_line(group, began), width) for line, group in zip(lines, shown, strict=True)
        ]
    more = [faint(f"and {len(found) - GROUPS_SHOWN:,} more")] if len(found) > GROUPS_SHOWN else []
    return [head, *lines, *more]


def _with_task(line: str, task: str, width: int) -> str:
    """Put the first words of a task behind a line, as far as the window goes."""
    spare = width - display_width(line) - 2
    return f"{line}  {truncate_line(task, spare)}" if task and spare >= _FIRST_WORDS else line


def timing_rows(found: Sequence[Timing]) -> list[tuple[str, ...]]:
    """Under `TIMED`, what each stage took."""
    return [
        (one.of, one.stage, one.kind, f"{one.count:,}", *map(format_duration, (one.p50_s, one.p95_s, one.p99_s)))
        for one in found
    ]


def evaluation_rows(found: Sequence[EvaluationLine]) -> list[tuple[str, ...]]:
    """Under `EVALUATED`, what was found each time."""
    return [
        (
            *(format_time(one.at), one_line(one.judge), f"{one.cases:,}", f"{one.k}"),
            *(f"{share:.3f}" for share in (one.recall, one.precision, one.ndcg)),
        )
        for one in found
    ]


def _render_table(head: Sequence[str], rows: Sequence[Sequence[str]], *, words: int) -> list[str]:
    return render_columns(head, rows, words=words, width=_MOST_WIDTH) if rows else []

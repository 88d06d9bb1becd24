"""Compare the figures of a report with a baseline: fail on what is deterministic, alert on what
depends on the machine.

Dollars, calls, tokens, coverage and recall fail a check; the p95 of a stage is an alert unless the
settings make it a failure. What cannot be compared is named: another number of turns or candidates
is another workload and fails; nothing of a damaged ledger is compared, because missing rows would
look like savings. It prints nothing.
The baseline is a JSON file that a person reviews in a diff (sorted keys, a figure on a line) and
that is read back without trusting it. What is not a baseline is neither read nor overwritten, and
no link is followed: a mistyped name must not destroy a file. Trade-off: sums are compared, so a
turn that became dearer can hide behind a cheaper one.
"""

import json
import stat
from collections.abc import Callable, Iterator
from decimal import ROUND_FLOOR, Decimal
from pathlib import Path

import msgspec
from msgspec import ValidationError, convert, to_builtins
from msgspec.structs import astuple, replace

from xscore.cost_reports.records import (
    CostReport,
    EvaluationRecall,
    Figure,
    GateFigures,
    GateLine,
    GateReport,
    GateVerdict,
    StageP95,
)
from xscore.platform.errors import BrokenReceipt, UsageError, newer_file_error
from xscore.platform.files import (
    FileRefused,
    is_there,
    read_named_file,
    unwritable_file,
    write_atomically,
)
from xscore.platform.json_lines import refuse_repeated_keys
from xscore.records.calls import Stage, Usage
from xscore.records.receipt import Coverage, Latency
from xscore.settings import GateSettings

LEAST_RISE_S = 0.01
"""A p95 that rose by less than this is noise on any machine."""
ANOTHER_WORKLOAD = (
    "another workload, so dollars, calls and tokens are not compared; if you meant it, update the"
    " baseline"
)
DAMAGED = "damaged and left out of every figure, so the ledger cannot be compared"
COUNT_GATES: tuple[tuple[str, str, Callable[[GateFigures], int]], ...] = (
    ("attempts without a price", "cost", lambda figures: figures.unpriced),
    ("calls", "calls", lambda figures: figures.calls),
    ("attempts", "calls", lambda figures: figures.attempts),
    ("tokens in", "tokens", lambda figures: figures.usage.input_tokens),
    (
        "tokens in, not from a prefix cache",
        "tokens",
        lambda figures: max(0, figures.usage.input_tokens - figures.usage.cached_input_tokens),
    ),
    (
        "tokens written to a prefix cache",
        "tokens",
        lambda figures: figures.usage.cache_write_tokens,
    ),
    ("tokens out", "tokens", lambda figures: figures.usage.output_tokens),
    ("tokens of reasoning", "tokens", lambda figures: figures.usage.reasoning_tokens),
)
"""Figures that grow with the workload: a name, the setting that is their tolerance, and the
figure."""


SCHEMA = 1
MAX_BYTES = 1_000_000
MAX_USD = Decimal(10**12)
NAME_IT = "Name the file itself with --baseline."
NAME_ANOTHER = (
    "Name the right file with --baseline, or remove this one and write a new one with"
    " --update-baseline."
)


def measure_report(report: CostReport) -> GateFigures:
    """Return the figures of a report that a gate can check."""
    spent = report.spent
    ended = sum(report.turns_by_state.values()) - report.turns_by_state.get("running", 0)
    recall = None
    for line in report.evaluations:
        # The newest comes first. One that left questions unjudged says nothing about the judge.
        if not line.unjudged:
            recall = convert(line, EvaluationRecall, from_attributes=True)
            break
    timings = [convert(timing, StageP95, from_attributes=True) for timing in report.timings]
    return GateFigures(
        turns=ended,
        coverage=report.coverage,
        calls=spent.calls,
        attempts=spent.attempts,
        usage=spent.usage,
        cost_usd=spent.cost_usd,
        unpriced=spent.unpriced,
        recall=recall,
        left_out=report.left_out,
        timings=tuple(timings),
    )


def check_gates(now: GateFigures, baseline: GateFigures, gates: GateSettings) -> GateReport:
    """Compare each figure with its baseline under the tolerances of `[gates]`."""
    workload = tuple(_workload(now, baseline, gates))
    sums = (_dollars(now, baseline, gates), *_counts(now, baseline, gates))
    if any(line.verdict is GateVerdict.FAILED for line in workload):
        sums = tuple(map(_incomparable, sums))
    lines = [*workload, *sums]
    lines.append(_coverage(now, baseline, gates))
    lines.append(_recall(now, baseline, gates))
    if gates.latency != "off":
        lines += _latencies(now, baseline, gates)
    if now.left_out:
        damaged = GateLine(
            "damaged rows", "count", 0, now.left_out, 0, GateVerdict.FAILED, DAMAGED
        )
        lines = [damaged, *map(_incomparable, lines)]
    return GateReport(lines=tuple(lines))


def _workload(
    now: GateFigures, baseline: GateFigures, gates: GateSettings
) -> Iterator[GateLine]:
    """Check that the work is the same: as many turns, and candidates within the tolerance of
    calls."""
    before = baseline.coverage.candidates
    current = now.coverage.candidates
    room = before * _exact(gates.calls)
    # Fewer candidates are another workload as well as more.
    allowed = before - _floor(room)
    if current >= before:
        allowed = before + _floor(room)
    verdict, note = _sameness(now.turns == baseline.turns)
    yield GateLine("turns", "count", baseline.turns, now.turns, baseline.turns, verdict, note)
    verdict, note = _sameness(abs(current - before) <= room)
    yield GateLine("candidates", "count", before, current, allowed, verdict, note)


def _sameness(is_same: bool) -> tuple[GateVerdict, str]:
    if is_same:
        return (GateVerdict.HELD, "")
    return (GateVerdict.FAILED, ANOTHER_WORKLOAD)


def _counts(now: GateFigures, baseline: GateFigures, gates: GateSettings) -> Iterator[GateLine]:
    for name, tolerance, of in COUNT_GATES:
        before = of(baseline)
        current = of(now)
        allowed = _floor(before * (1 + _exact(getattr(gates, tolerance))))
        yield GateLine(
            name, "count", before, current, allowed, _at_most(current, before, allowed)
        )


def _dollars(now: GateFigures, baseline: GateFigures, gates: GateSettings) -> GateLine:
    """Compare the dollars of calls that are priced on both sides."""
    allowed = baseline.cost_usd * (1 + _exact(gates.cost))
    verdict = _at_most(now.cost_usd, baseline.cost_usd, allowed)
    note = ""
    if now.unpriced and now.unpriced == now.attempts and baseline.unpriced == baseline.attempts:
        verdict = GateVerdict.INCONCLUSIVE
        note = "unpriced on both sides"
    elif now.unpriced > baseline.unpriced and verdict is not GateVerdict.FAILED:
        verdict = GateVerdict.INCONCLUSIVE
        note = "less is priced than in the baseline"
    elif now.unpriced < baseline.unpriced and verdict is GateVerdict.FAILED:
        verdict, note = _with_more_priced(now, baseline, allowed)
    return GateLine("dollars", "usd", baseline.cost_usd, now.cost_usd, allowed, verdict, note)


def _with_more_priced(
    now: GateFigures, baseline: GateFigures, allowed: Decimal
) -> tuple[GateVerdict, str]:
    """Excuse a rise explained by attempts that have a price only now, at today's average price."""
    newly = baseline.unpriced - now.unpriced
    priced = now.attempts - now.unpriced
    if priced > 0 and now.cost_usd * (priced - newly) <= allowed * priced:
        return GateVerdict.INCONCLUSIVE, "more is priced than in the baseline"
    return (
        GateVerdict.FAILED,
        f"more is priced than in the baseline, by {newly:,}, which does not explain it",
    )


def _coverage(now: GateFigures, baseline: GateFigures, gates: GateSettings) -> GateLine:
    before = _judged_share(baseline.coverage)
    current = _judged_share(now.coverage)
    return _share("coverage", before, current, gates.coverage, note="no candidates on one side")


def _judged_share(coverage: Coverage) -> Decimal | None:
    if not coverage.candidates:
        return None
    return 1 - Decimal(coverage.unjudged) / coverage.candidates


def _recall(now: GateFigures, baseline: GateFigures, gates: GateSettings) -> GateLine:
    """Compare recall if both sides answered the same questions at the same k by the same judge."""
    before = baseline.recall
    current = now.recall
    note = "no evaluation on one side" if before or current else "no evaluation"
    if before and current:
        if (before.questions, before.k) != (current.questions, current.k):
            current, note = None, "other questions, or another k"
        elif before.judge != current.judge:
            current, note = None, "another judge"
    recall_before = _exact(before.recall) if before else None
    recall_now = _exact(current.recall) if current else None
    return _share("recall", recall_before, recall_now, gates.recall, note=note)


def _share(
    name: str, before: Decimal | None, current: Decimal | None, tolerance: float, *, note: str
) -> GateLine:
    """Allow a share to fall by the tolerance; a figure missing on one side is inconclusive."""
    was = None if before is None else float(before)
    now = None if current is None else float(current)
    if before is None or current is None:
        return GateLine(name, "share", was, now, None, GateVerdict.INCONCLUSIVE, note)
    allowed = max(Decimal(0), before - _exact(tolerance))
    verdict = GateVerdict.HELD
    if current < allowed:
        verdict = GateVerdict.FAILED
    elif current > before:
        verdict = GateVerdict.BETTER
    return GateLine(name, "share", was, now, float(allowed), verdict)


def _latencies(
    now: GateFigures, baseline: GateFigures, gates: GateSettings
) -> Iterator[GateLine]:
    """Compare each p95 that has enough samples on both sides."""
    baseline_p95s = _p95_by_name(baseline)
    current_p95s = _p95_by_name(now)
    for name in baseline_p95s | current_p95s:
        yield _latency(name, baseline_p95s.get(name), current_p95s.get(name), gates)


def _p95_by_name(figures: GateFigures) -> dict[str, StageP95]:
    p95s: dict[str, StageP95] = {}
    for timing in figures.timings:
        p95s[f"p95 of {timing.stage} {timing.of}s, {timing.kind}"] = timing
    return p95s


def _latency(
    name: str, before: StageP95 | None, current: StageP95 | None, gates: GateSettings
) -> GateLine:
    was, samples_before = (before.p95_s, before.count) if before else (None, 0)
    is_now, samples_now = (current.p95_s, current.count) if current else (None, 0)
    allowed = None
    if was is not None:
        allowed = max(was * (1 + gates.p95), was + LEAST_RISE_S)
    has_enough = min(samples_before, samples_now) >= gates.min_samples
    if is_now is None or allowed is None or not has_enough:
        note = f"{samples_before} samples in the baseline, {samples_now} now"
        return GateLine(name, "s", was, is_now, allowed, GateVerdict.INCONCLUSIVE, note)
    verdict = GateVerdict.HELD
    if is_now > allowed:
        verdict = GateVerdict.FAILED if gates.latency == "fail" else GateVerdict.ALERT
    return GateLine(name, "s", was, is_now, allowed, verdict)


def _at_most(current: Figure, before: Figure, allowed: Figure) -> GateVerdict:
    if current > allowed:
        return GateVerdict.FAILED
    if current < before:
        return GateVerdict.BETTER
    return GateVerdict.HELD


def _incomparable(line: GateLine) -> GateLine:
    return replace(line, allowed=None, verdict=GateVerdict.INCOMPARABLE, note="")


def _exact(share: float) -> Decimal:
    """Read a setting exactly: 0.05 is five hundredths, not the nearest float."""
    return Decimal(str(share))


def _floor(figure: Decimal) -> int:
    return int(figure.to_integral_value(ROUND_FLOOR))


def read_baseline(path: Path) -> GateFigures | None:
    """Read a baseline; None if there is no file. Raises UsageError for a file that is not one."""
    try:
        data = read_named_file(path, max_bytes=MAX_BYTES, follow=False)
    except FileNotFoundError:
        return None
    except FileRefused as error:
        fault = "is not a file"
        if str(error) == "too_large":
            fault = f"has more than {MAX_BYTES:,} bytes"
        raise UsageError(f"the baseline {path} {fault}", hint=NAME_IT) from error
    except OSError as error:
        fault = f"cannot be read: {error.strerror}"
        if is_there(path, stat.S_ISLNK, follow=False):
            fault = "is a link, and links are not followed"
        raise UsageError(f"the baseline {path} {fault}", hint=NAME_IT) from error
    return _parsed(data, path)


def write_baseline(path: Path, measured: GateFigures) -> None:
    """Write a baseline whole.

    Raises UsageError if it cannot be written, or would replace another file.
    """
    read_baseline(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable_file(path, error.strerror) from error
    write_atomically(path, baseline_json(measured).encode())


def baseline_json(measured: GateFigures) -> str:
    """Return a baseline as its file has it."""
    body = to_builtins(measured)
    del body["left_out"]
    body["schema"] = SCHEMA
    body["cost_usd"] = f"{round(measured.cost_usd, 12).normalize():f}"
    timings = sorted(
        body["timings"], key=lambda timing: (timing["of"], timing["stage"], timing["kind"])
    )
    for timing in timings:
        timing["p95_s"] = round(timing["p95_s"], 4)
    body["timings"] = timings
    return json.dumps(body, sort_keys=True, indent=2, allow_nan=False) + "\n"


def _parsed(data: bytes, path: Path) -> GateFigures:
    try:
        value = msgspec.json.decode(data)  # no NaN, no Infinity
        refuse_repeated_keys(data.decode())
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"the baseline {path} is not JSON: {error}", hint=NAME_ANOTHER
        ) from error
    schema = None
    if isinstance(value, dict):
        schema = value.pop("schema", None)
    if isinstance(schema, int) and schema > SCHEMA:
        raise newer_file_error(f"the baseline {path}", schema, SCHEMA)
    try:
        if schema != SCHEMA:
            raise ValidationError("it has no schema")
        figures = convert(value, GateFigures)
        _refuse_foreign(figures, value)
    except (ValueError, TypeError, BrokenReceipt) as error:
        raise UsageError(
            f"the baseline {path} cannot be understood: {error}", hint=NAME_ANOTHER
        ) from error
    return figures


def _refuse_foreign(figures: GateFigures, value: dict[str, dict[str, object]]) -> None:
    """Raise ValueError for names and amounts that no report has."""
    if value["usage"].keys() != set(Usage.__struct_fields__) or min(astuple(figures.usage)) < 0:
        raise ValueError("its token counts are not those of a baseline")
    if min(astuple(figures.coverage)) < 0:
        raise ValueError("its coverage is below zero")
    if not 0 <= figures.cost_usd < MAX_USD:
        raise ValueError("its dollars are not a valid amount")
    stages = {*Latency.__struct_fields__, *map(str, Stage)}
    if any(timing.stage not in stages for timing in figures.timings):
        raise ValueError("it has a timing that no report has")

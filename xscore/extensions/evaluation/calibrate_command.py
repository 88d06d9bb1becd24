"""`xscore eval calibrate`: measure the judge on past commits, and let its cut mean a recall.

It runs cases and stores what was fitted; `--check` compares who answers now with who was measured,
`--reset` removes it. The figures are those of `calibration_fit`.
"""

from functools import partial
from pathlib import Path

import click
from msgspec import Struct

from xscore.cache.calibrations import (
    delete_calibrations,
    read_calibrations,
    write_calibration,
)
from xscore.cli.flags import Flags, command
from xscore.cli.options import COUNT, INPUT_FILE, JUDGE, JUDGING, LIMITS, SCOPE
from xscore.cli.pipeline_run import run_with_pipeline
from xscore.cli.settings_and_store import opened_store, read_settings
from xscore.cli.start import STARTED_AT
from xscore.cli.text_layout import bold, render_facts
from xscore.extensions.evaluation.calibrating import (
    USUAL_RECALL,
    CaseCollector,
    check_calibration,
    make_calibration,
    refuse_too_little_gold,
    refuse_words,
    who_answers,
    with_names_noted,
)
from xscore.extensions.evaluation.cases import CaseFile, read_cases
from xscore.extensions.evaluation.mine_command import case_lines, refuse_without_history
from xscore.extensions.evaluation.mining import mine_cases
from xscore.extensions.evaluation.quality import Evaluation
from xscore.extensions.evaluation.run import run_evaluation
from xscore.pipeline.build import Pipeline
from xscore.platform.errors import NothingMatched, UsageError
from xscore.platform.figures import format_dollars, format_fraction
from xscore.platform.hashing import file_digest
from xscore.platform.paths import find_root
from xscore.platform.text import counted, one_line
from xscore.records.calibration import EVERY_KIND, Calibration
from xscore.records.turn import Scope

MINED = 120
"""Number of cases that are taken from the history where no file is named."""
_SHARE = click.FloatRange(0, 1, min_open=True)


class CalibrationReport(Struct, frozen=True, kw_only=True):
    """What was measured and stored."""

    calibration: Calibration
    words_weight_before: float
    error_before: float | None
    """The calibration error if the scores themselves are taken for probabilities."""
    evaluation: Evaluation


@command(SCOPE, JUDGE, LIMITS, JUDGING)
@click.argument("cases", type=INPUT_FILE, metavar="[CASES]", required=False)
@click.option(
    "--recall", type=_SHARE, default=USUAL_RECALL, metavar="R", show_default=True,
    help="Share of the needed memories that the cut should keep.",
)  # fmt: skip
@click.option(
    "--most", "kept_limit", type=COUNT, metavar="K",
    help="Memories that it may keep on average; default: as many as --top-k.",
)  # fmt: skip
@click.option(
    "--repositories", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
    help="The folder with the clones of the repositories that cases name.",
)  # fmt: skip
@click.option(
    "--check", is_flag=True, help="Exit with 5 if another model answers than the measured one."
)
@click.option("--reset", is_flag=True, help="Forget the calibrations of all judges.")
def calibrate(
    *,
    cases: Path | None,
    recall: float,
    kept_limit: int | None,
    repositories: Path | None,
    check: bool,
    reset: bool,
    flags: Flags,
) -> int:
    """Measure the judge on past commits, so that its cut keeps a chosen share of what is needed.

    CASES is a file that `xscore eval mine` wrote; without it the newest 120 fitting commits of
    this repository are used. The share of memories that were really needed is fitted to the
    scores, for each kind with enough of them. The cuts for --recall and the weight of words
    relative to the judge are stored for this judge in this repository; they hold where you have
    set neither selection.threshold nor selection.words. `explain` and `status` say what a score
    is worth. Fewer than 30 needed memories are refused.
    """
    if check and reset:
        raise UsageError("--check and --reset exclude each other", hint="Give one of them.")
    if reset:
        return _reset(flags)
    if check:
        return run_with_pipeline(flags, partial(_check, flags=flags))
    work = partial(
        _calibrate,
        cases=_mined_cases(flags) if cases is None else read_cases(cases),
        recall=recall,
        kept_limit=kept_limit,
        scope=flags.scope,
        clones=repositories,
    )
    report = run_with_pipeline(flags, work, noun="This calibration")
    flags.terminal.print_result(report, _render)
    flags.terminal.notes(report.evaluation.warnings)
    return report.evaluation.exit_code


def _mined_cases(flags: Flags) -> CaseFile:
    """Return cases of this repository's own history. Raises UsageError, NothingMatched."""
    root = find_root(Path.cwd()).path
    index = read_settings(flags).settings.index
    refuse_without_history(root, uses_git=index.git)
    mined = mine_cases(root, index, limit=MINED)
    if not mined.cases:
        raise NothingMatched(
            f"no case can be made of the {counted(mined.commits, 'commit')} of this repository",
            hint="`xscore eval mine` says why; write cases of your own, or name a file.",
        )
    flags.terminal.note(
        f"{counted(len(mined.cases), 'case')} from the history of this repository"
    )
    return CaseFile(mined.cases, file_digest(case_lines(mined).encode()))


async def _calibrate(
    pipeline: Pipeline,
    *,
    cases: CaseFile,
    recall: float,
    kept_limit: int | None,
    scope: Scope,
    clones: Path | None,
) -> CalibrationReport:
    refuse_words(pipeline.parts.judge)
    refuse_too_little_gold(cases.cases)
    collector = CaseCollector()
    parts = with_names_noted(pipeline.parts, collector.answered_as)
    evaluation = await run_evaluation(
        parts, cases, scope=scope, started=STARTED_AT, clones=clones, watch=collector
    )
    judge = collector.judge or parts.judge
    calibration, fit = make_calibration(
        judge,
        collector,
        recall=recall,
        kept_limit=kept_limit or parts.settings.selection.top_k,
        now=parts.clock(),
    )
    write_calibration(parts.store.connection, calibration)
    return CalibrationReport(
        calibration=calibration,
        words_weight_before=judge.words_weight,
        error_before=fit.error_before,
        evaluation=evaluation,
    )


async def _check(pipeline: Pipeline, *, flags: Flags) -> int:
    refuse_words(pipeline.parts.judge)
    judge, names = await who_answers(pipeline.parts)
    calibrations = read_calibrations(pipeline.store.connection)
    calibration = check_calibration(calibrations, judge, names)
    flags.terminal.print_result(
        calibration, lambda shown: f"{one_line(shown.asked)}: {shown.in_words()}"
    )
    return 0


def _reset(flags: Flags) -> int:
    with opened_store(flags, make=False) as store:
        calibrations = read_calibrations(store.connection)
        if calibrations:
            delete_calibrations(
                store.connection, *(calibration.identity for calibration in calibrations)
            )
    flags.terminal.print_result(
        {"removed": len(calibrations)}, f"removed: {counted(len(calibrations), 'calibration')}"
    )
    return 0


def _render(report: CalibrationReport) -> str:
    calibration = report.calibration
    rows = [
        ("cut", calibration.in_words()),
        ("", _about_recall(calibration)),
        (
            "kept",
            f"{calibration.kept:.1f} memories a commit, at most {calibration.most} asked for",
        ),
        ("words", _about_words(report)),
        ("maps", _about_maps(calibration)),
        ("error", _about_error(report)),
        (
            "spent",
            format_dollars(report.evaluation.cost_usd, estimated=report.evaluation.estimated),
        ),
    ]
    return f"{bold(one_line(calibration.asked))}\n{render_facts(rows)}"


def _about_recall(calibration: Calibration) -> str:
    if calibration.recall >= calibration.wished_recall:
        return ""
    low = calibration.recall_low
    high = calibration.recall_high
    if low is not None and high is not None and low <= calibration.wished_recall <= high:
        return f"{calibration.wished_recall:g} was asked for, which is within what was measured"
    return (
        f"{calibration.wished_recall:g} was asked for; it cannot be reached by keeping at most"
        f" {calibration.most}"
    )


def _about_words(report: CalibrationReport) -> str:
    weight = report.calibration.words_weight
    before = report.words_weight_before
    if weight == before:
        return f"weight {format_fraction(weight)}, as before: no other is clearly better"
    return f"weight {format_fraction(weight)} instead of {format_fraction(before)}"


def _about_maps(calibration: Calibration) -> str:
    own: list[str] = []
    shared: list[str] = []
    for kind, score_map in calibration.maps.items():
        if kind != EVERY_KIND:
            (shared if score_map == calibration.maps[EVERY_KIND] else own).append(kind)
    parts = list(own)
    if shared:
        parts.append(f"one for {' and '.join(shared)}")
    return f"{', '.join(parts)}; other kinds keep the usual threshold"


def _about_error(report: CalibrationReport) -> str:
    error = report.calibration.error
    before = report.error_before
    if error is None or before is None:
        return "not measured: there is nothing to leave out"
    return f"{error:.3f} on commits left out; the scores themselves are off by {before:.3f}"

"""`xscore eval`: measure how many known answers the judge finds, and at what cost.

The page shows the figures of both judges, the scores against gold, and what was missed. It measures
nothing itself.
"""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import click

from xscore.cli.flags import Flags, command
from xscore.cli.options import COUNT, FILE, INPUT_FILE, LIST_OPTIONS, option
from xscore.cli.phrases import LIST_ENDED, RUN_AGAIN, describe_tokens, describe_unjudged
from xscore.cli.pipeline_run import run_with_pipeline
from xscore.cli.start import STARTED_AT
from xscore.cli.terminal import stdout_columns
from xscore.cli.text_layout import bold, faint, render_table
from xscore.costs.caps import CAP_SETTINGS, cap_left_rounded
from xscore.extensions.evaluation.cases import read_cases
from xscore.extensions.evaluation.metrics import CalibrationBin
from xscore.extensions.evaluation.quality import (
    Evaluation,
    JudgeQuality,
    NoGoldQuality,
    QuestionResult,
    where_missed,
)
from xscore.extensions.evaluation.run import run_evaluation
from xscore.extensions.evaluation.summary_text import render_summary
from xscore.platform.figures import format_dollars, format_seconds
from xscore.platform.text import counted, ellipsize, one_line

_RUN_OPTIONS = [
    option("--limit", metavar="N", type=COUNT, help="Ask only the first N cases."),
    option(
        "--repositories",
        metavar="DIR",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="The folder with the clones of the repositories that cases name.",
    ),
    option(
        "-o",
        "--out",
        "--output",
        "output",
        metavar="FILE",
        type=FILE,
        help="Write one line of JSON per case; an interrupted run resumes from it.",
    ),
]


@command(_RUN_OPTIONS, LIST_OPTIONS)
@click.argument("cases", metavar="CASES.jsonl", type=INPUT_FILE)
def evaluate(cases: Path, flags: Flags) -> int:
    """Ask the judge tasks with known answers, and measure how many it finds.

    CASES.jsonl is what `eval mine` wrote, or has one question a line: {"id": "q1", "task": "…",
    "gold": [{"path": "src/a.py", "name": "f"}]}; a path alone means any memory of that file; an
    empty gold means that nothing should be kept. A case with a parent is asked of the files of that
    commit, in a copy outside your checkout, without exchanges and stated memories. Each is a turn
    in the ledger, apart from your working session; judgments are kept, so a second run costs
    nothing. The lexical judge is measured for comparison.
    """
    terminal = flags.terminal
    case_file = read_cases(cases).first(flags.given["limit"])
    evaluation = run_with_pipeline(
        flags,
        lambda pipeline: run_evaluation(
            pipeline.parts,
            case_file,
            scope=flags.scope,
            started=STARTED_AT,
            clones=flags.given["repositories"],
            output=flags.given["output"],
        ),
        # Cases of other repositories need no store here.
        make=any(not case.repository for case in case_file.cases),
        noun="This evaluation",
    )
    terminal.print_result(
        evaluation, lambda record: _render_evaluation(record, verbose=terminal.verbose)
    )
    terminal.notes(evaluation.warnings)
    if not terminal.as_json:
        terminal.lines(render_evaluation_account(evaluation))
    return evaluation.exit_code


WORST_SHOWN = 5
"""Questions listed with what was missed; all of them under --verbose."""
MISSED_SHOWN = 5
QUERY_CHARS = 70
EVALUATION_ID_CHARS = 16
MEASURES = {
    "recall": "recall",
    "precision": "precision",
    "hit": "hit",
    "MRR": "reciprocal_rank",
    "nDCG": "ndcg",
}


def _render_evaluation(evaluation: Evaluation, *, verbose: bool) -> str:
    questions = counted(evaluation.of, "question")
    head = f"{evaluation.asked} of {questions} · judge {one_line(evaluation.judge)}"
    lines = [bold(f"{head} · threshold {evaluation.threshold:.2f} · k {evaluation.k}")]
    if evaluation.found is None:
        why = "no question was fully judged, so there are no figures"
        if evaluation.asked:
            why = _no_gold(evaluation.no_gold)
        return "\n".join([*lines, why])
    parts = [
        "\n".join(lines),
        _figures(evaluation, evaluation.found) + _no_gold_line(evaluation.no_gold),
        render_summary(evaluation.summary),
        _reliability(evaluation.reliability),
    ]
    parts += [_questions(evaluation)] if verbose else []
    parts += ["\n".join(_worst(evaluation, verbose=verbose))] if evaluation.worst else []
    return "\n\n".join(parts)


def render_evaluation_account(evaluation: Evaluation) -> str:
    """Say why it ended early, if it did, and the total cost."""
    lines = []
    if evaluation.ended:
        questions = counted(evaluation.of, "question")
        lines.append(f"{evaluation.asked} of {questions} fully judged; {_why(evaluation)}.")
    for reason, count in evaluation.left_out.items():
        lines.append(f"{counted(count, 'question')} not asked: {one_line(reason)}.")
    cover = evaluation.coverage
    if cover.unjudged:
        lines.append(f"{describe_unjudged(cover, evaluation.unjudged_by_cause)}.")
    parts = [
        counted(evaluation.asked, "question")
        + (f", {evaluation.resumed:,} of an earlier run" if evaluation.resumed else ""),
        f"{cover.judged:,} judged",
        f"{cover.cached:,} cached",
    ]
    if evaluation.by_model:
        parts.append(counted(evaluation.calls, "call"))
    if evaluation.usage.input_tokens:
        parts.append(
            describe_tokens(evaluation.usage.input_tokens, evaluation.usage.output_tokens)
        )
    parts += [
        format_dollars(evaluation.cost_usd, estimated=evaluation.estimated),
        format_seconds(evaluation.seconds),
    ]
    parts.append(f"evaluation {evaluation.id}" if evaluation.id else "not recorded")
    return "\n".join([*lines, faint(" · ".join(parts))])


def _why(evaluation: Evaluation) -> str:
    cap = evaluation.cap
    if cap is None:
        return LIST_ENDED[evaluation.ended]
    later = ""
    if cap.of == "day":
        later = ", or wait for the next day (UTC)"
    return (
        f"the cap was reached: {cap_left_rounded(cap)}; raise {CAP_SETTINGS[cap.of]}{later}; then"
        f" {RUN_AGAIN}"
    )


def _figures(evaluation: Evaluation, judge: JudgeQuality) -> str:
    judges = [(judge, one_line(evaluation.judge) if evaluation.by_model else "by words alone")]
    judges += [(evaluation.words, "by words alone")] if evaluation.words else []
    rows = []
    for quality, name in judges:
        for ranking, measures in (
            ("chosen", quality.chosen),
            (f"first {evaluation.k}", quality.ranked),
        ):
            figures = [f"{getattr(measures, field):.2f}" for field in MEASURES.values()]
            rows.append(
                (name, ranking, *figures, f"{quality.kept:.1f}" if ranking == "chosen" else "")
            )
    heads = ("judge", "of", *MEASURES, "kept")
    note = faint(
        f"chosen: from the threshold up, at most {evaluation.k};"
        f" first {evaluation.k}: by score alone; kept: memories of a question"
    )
    table = render_table(heads, rows, right=heads[2:], width=stdout_columns())
    return f"{table}\n{note}"


def _no_gold_line(no_gold: NoGoldQuality) -> str:
    if no_gold.cases:
        return "\n" + _no_gold(no_gold)
    return ""


def _no_gold(no_gold: NoGoldQuality) -> str:
    questions = counted(no_gold.cases, "question")
    return (
        f"nothing to find in {questions}: {no_gold.kept_nothing} kept nothing,"
        f" {no_gold.kept:.1f} kept on average"
    )


def _reliability(bins: tuple[CalibrationBin, ...]) -> str:
    heads = ("score", "memories", "gold", "share of gold")
    rows = []
    for bin_ in reversed(bins):
        rows.append(
            (
                f"{bin_.low:.1f}–{bin_.high:.1f}",
                f"{bin_.memories:,}",
                f"{bin_.gold:,}",
                f"{bin_.gold / bin_.memories:.2f}" if bin_.memories else "-",
            )
        )
    return render_table(heads, rows, right=heads[1:])


def _questions(evaluation: Evaluation) -> str:
    heads = (
        "question",
        "recall",
        f"at {evaluation.k}",
        "nDCG",
        "chosen",
        "unjudged",
        "cost, time, turn",
    )
    rows = [_question_cells(result) for result in evaluation.results]
    return render_table(heads, rows, right=heads[1:6])


def _question_cells(result: QuestionResult) -> tuple[str, ...]:
    quality = result.judge
    cost = format_dollars(result.cost_usd)
    figures: tuple[str, ...] = ("-", "-", "-")
    if quality is not None:
        measures = (quality.chosen.recall, quality.ranked.recall, quality.ranked.ndcg)
        figures = tuple(f"{measure:.2f}" for measure in measures)
    return (
        ellipsize(result.id, EVALUATION_ID_CHARS),
        *figures,
        f"{result.kept}",
        f"{result.coverage.unjudged:,}",
        f"{cost}, {format_seconds(result.seconds)}, {result.turn_id}",
    )


def _worst(evaluation: Evaluation, *, verbose: bool) -> Iterator[str]:
    shown = evaluation.worst if verbose else evaluation.worst[:WORST_SHOWN]
    yield bold("missed, the worst question first")
    for question in shown:
        yield from _missed(question)
    if len(evaluation.worst) > len(shown):
        unnamed = counted(len(evaluation.worst) - len(shown), "question")
        yield faint(f"and {unnamed} more (--verbose, --json)")


def _missed(question: QuestionResult) -> Iterator[str]:
    hits = f"{question.gold - len(question.missed)} of {question.gold}"
    name = ellipsize(question.id, EVALUATION_ID_CHARS)
    yield f"{name}  {hits}  “{ellipsize(question.query, QUERY_CHARS)}”"
    for gold in islice(question.missed, MISSED_SHOWN):
        name = f"{gold.path}::{gold.name}" if gold.name else gold.path
        yield f"      {one_line(name)}  {faint(where_missed(gold))}"
    if len(question.missed) > MISSED_SHOWN:
        yield faint(f"      and {len(question.missed) - MISSED_SHOWN} more")

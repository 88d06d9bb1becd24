"""`xscore eval`: measure how many known answers the judge finds, and at what cost.

The page shows the figures of both judges, the scores against gold, and what was missed. It measures
nothing itself.
"""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import click

from xscore.cli.opening import run_turn
from xscore.cli.options import LIST_OPTIONS, Flags, command
from xscore.cli.phrases import LIST_ENDED, RUN_AGAIN, describe_tokens, describe_unjudged
from xscore.cli.start import STARTED_AT
from xscore.cli.text_layout import bold, faint, render_table
from xscore.costs.caps import CAP_SETTINGS, cap_left_rounded
from xscore.extensions.evaluation.metrics import CalibrationBin
from xscore.extensions.evaluation.quality import (
    Evaluation,
    JudgeQuality,
    MissedGold,
    QuestionResult,
)
from xscore.extensions.evaluation.run import read_qrels, run_evaluation
from xscore.platform.figures import format_dollars, format_seconds
from xscore.platform.text import counted, ellipsize, one_line


@command(LIST_OPTIONS)
@click.argument("questions", metavar="QUESTIONS.jsonl", type=click.Path(path_type=Path))
def evaluate(questions: Path, flags: Flags) -> int:
    """Ask the judge questions with known answers, and measure how many it finds.

    QUESTIONS.jsonl has one question a line: {"id": "q1", "query": "…", "gold": [{"path":
    "src/a.py", "name": "f"}]};
    a path alone means any memory of that file. Each question is a turn in the ledger, apart from
    your working
    session; its judgments are kept, so a second run costs nothing. The lexical judge is measured
    for comparison.
    """
    cases, terminal = read_qrels(questions), flags.terminal
    found = run_turn(
        flags,
        lambda open_: run_evaluation(open_.parts, cases, scope=flags.scope, started=STARTED_AT),
        noun="This evaluation",
    )
    terminal.print_result(found, lambda one: _render_evaluation(one, verbose=terminal.verbose))
    terminal.notes(found.warnings)
    if not terminal.as_json:
        terminal.lines(render_evaluation_account(found))
    return found.exit_code


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


def _render_evaluation(found: Evaluation, *, verbose: bool) -> str:
    head = f"{found.asked} of {counted(found.of, 'question')} · judge {one_line(found.judge)}"
    lines = [bold(f"{head} · threshold {found.threshold:.2f} · k {found.k}")]
    if found.found is None:
        return "\n".join([*lines, "no question was judged to its end, so there are no figures"])
    parts = ["\n".join(lines), _figures(found, found.found), _reliability(found.reliability)]
    parts += [_questions(found)] if verbose else []
    parts += ["\n".join(_worst(found, verbose=verbose))] if found.worst else []
    return "\n\n".join(parts)


def render_evaluation_account(found: Evaluation) -> str:
    """Say why it ended early, if it did, and the total cost."""
    lines = []
    if found.ended:
        lines.append(
            f"{found.asked} of {counted(found.of, 'question')} judged to the end; {_why(found)}."
        )
    cover = found.coverage
    if cover.unjudged:
        lines.append(f"{describe_unjudged(cover, found.unjudged_by_cause)}.")
    parts = [
        counted(found.asked, "question"),
        f"{cover.judged:,} judged",
        f"{cover.cached:,} cached",
    ]
    if found.by_model:
        parts.append(counted(found.calls, "call"))
    if found.usage.input_tokens:
        parts.append(describe_tokens(found.usage.input_tokens, found.usage.output_tokens))
    parts += [
        format_dollars(found.cost_usd, estimated=found.estimated),
        format_seconds(found.seconds),
    ]
    parts.append(f"evaluation {found.id}" if found.id else "not recorded")
    return "\n".join([*lines, faint(" · ".join(parts))])


def _why(found: Evaluation) -> str:
    cap = found.cap
    if cap is None:
        return LIST_ENDED[found.ended]
    later = ", or wait for the next day (UTC)" if cap.of == "day" else ""
    return (
        f"the cap was reached: {cap_left_rounded(cap)}; raise {CAP_SETTINGS[cap.of]}{later}; then"
        f" {RUN_AGAIN}"
    )


def _figures(found: Evaluation, judge: JudgeQuality) -> str:
    judges = [(judge, one_line(found.judge) if found.by_model else "by words alone")]
    judges += [(found.words, "by words alone")] if found.words else []
    rows = []
    for quality, name in judges:
        for what, measures in (("chosen", quality.chosen), (f"first {found.k}", quality.ranked)):
            figures = [f"{getattr(measures, field):.2f}" for field in MEASURES.values()]
            rows.append((name, what, *figures, f"{quality.kept:.1f}" if what == "chosen" else ""))
    heads = ("judge", "of", *MEASURES, "kept a question")
    note = faint(
        f"chosen: from the threshold up, at most {found.k}; first {found.k}: by score alone"
    )
    return f"{render_table(heads, rows, right=heads[2:])}\n{note}"


def _reliability(bins: tuple[CalibrationBin, ...]) -> str:
    heads = ("score", "memories", "gold", "share of gold")
    rows = [
        (
            f"{one.low:.1f}–{one.high:.1f}",
            f"{one.memories:,}",
            f"{one.gold:,}",
            f"{one.gold / one.memories:.2f}" if one.memories else "-",
        )
        for one in reversed(bins)
    ]
    return render_table(heads, rows, right=heads[1:])


def _questions(found: Evaluation) -> str:
    heads = (
        "question",
        "recall",
        f"at {found.k}",
        "nDCG",
        "chosen",
        "unjudged",
        "cost, time, turn",
    )
    rows = [
        (
            ellipsize(one.id, EVALUATION_ID_CHARS),
            *(
                f"{share:.2f}"
                for share in (
                    one.judge.chosen.recall,
                    one.judge.ranked.recall,
                    one.judge.ranked.ndcg,
                )
            ),
            f"{one.judge.kept:.0f}",
            f"{one.coverage.unjudged:,}",
            f"{format_dollars(one.cost_usd)}, {format_seconds(one.seconds)}, {one.turn_id}",
        )
        for one in found.results
    ]
    return render_table(heads, rows, right=heads[1:6])


def _worst(found: Evaluation, *, verbose: bool) -> Iterator[str]:
    shown = found.worst if verbose else found.worst[:WORST_SHOWN]
    yield bold("missed, the worst question first")
    for one in shown:
        yield from _missed(one)
    if len(found.worst) > len(shown):
        yield faint(
            f"and {counted(len(found.worst) - len(shown), 'question')} more (--verbose, --json)"
        )


def _missed(one: QuestionResult) -> Iterator[str]:
    found = f"{one.gold - len(one.missed)} of {one.gold}"
    yield (
        f"{ellipsize(one.id, EVALUATION_ID_CHARS)}  {found}  “{ellipsize(one.query, QUERY_CHARS)}”"
    )
    for gold in islice(one.missed, MISSED_SHOWN):
        name = f"{gold.path}::{gold.name}" if gold.name else gold.path
        yield f"      {one_line(name)}  {faint(_where(gold))}"
    if len(one.missed) > MISSED_SHOWN:
        yield faint(f"      and {len(one.missed) - MISSED_SHOWN} more")


def _where(gold: MissedGold) -> str:
    if gold.rank is not None:
        return f"rank {gold.rank}, score {gold.score:.2f}"
    return "unjudged" if gold.is_candidate else "no candidate: not in the index, or out of scope"

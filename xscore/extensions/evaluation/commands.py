"""`xscore eval`: questions with known answers put to the judge; how much of them it finds, and for how much.

The page shows the figures of both judges, the scores against gold, and what was missed. It measures nothing itself.
"""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import click

from xscore.cli.main import STARTED_AT
from xscore.cli.opening import run_turn
from xscore.cli.options import JUDGE, JUDGING, LIMITS, REPLAY, SCOPE, SELECTION, Flags, command, options
from xscore.cli.terminal import bold, faint
from xscore.costs.budget_messages import CAP_SETTINGS, cap_left_rounded
from xscore.extensions.evaluation.metrics import CalibrationBin
from xscore.extensions.evaluation.quality import Evaluation, JudgeQuality, MissedGold, QuestionResult, RankingMetrics
from xscore.platform.text import counted, format_dollars, format_seconds, format_tokens, one_line


@command()
@click.argument("questions", metavar="QUESTIONS.jsonl", type=click.Path(path_type=Path))
@options(SCOPE, SELECTION, JUDGE, LIMITS, REPLAY, JUDGING)
def evaluate(questions: Path, flags: Flags) -> int:
    """Put questions with known answers to the judge: how much of them does it find?

    QUESTIONS.jsonl has one question a line: {"id": "q1", "query": "…", "gold": [{"path": "src/a.py", "name": "f"}]};
    a path alone means any memory of that file. Each question is a turn of its own in the ledger and leaves your working
    session alone; its judgments are kept, so the same again costs nothing. The lexical judge is measured beside.
    """
    from xscore.extensions.evaluation import questions as qrels
    from xscore.extensions.evaluation.run import run_evaluation

    cases, terminal = qrels.read_qrels(questions), flags.terminal
    found, _ = run_turn(
        flags,
        lambda open_: run_evaluation(open_.parts, cases, scope=flags.scope, started=STARTED_AT),
        noun="This evaluation",
    )
    terminal.print_result(found, lambda one: render_evaluation(one, verbose=terminal.verbose))
    terminal.notes(found.warnings)
    if not terminal.as_json:
        terminal.lines(render_evaluation_account(found))
    return found.exit_code


WORST_SHOWN = 5
"""Questions named with what was missed; all of them under --verbose."""
MISSED_SHOWN = 5
QUERY_CHARS = 70
EVALUATION_ID_CHARS = 16
MEASURES = (
    ("recall", "recall"),
    ("precision", "precision"),
    ("hit", "hit"),
    ("MRR", "reciprocal_rank"),
    ("nDCG", "ndcg"),
)
EVALUATION_ENDED_WORDS = {
    "budget": "the cap came first: raise it and run the same again (what was judged costs nothing again)",
    "deadline": "the deadline came first: run the same again to go on from what was judged",
    "interrupted": "interrupted: run the same again to go on from what was judged",
    "provider": "the judge could not be asked any more: run the same again to go on from what was judged",
    "store": "the store failed: mend it, then run the same again to go on from what was judged",
}


def render_evaluation(found: Evaluation, *, verbose: bool) -> str:
    """Show the figures, then the calibration, then the questions of which something was missed."""
    head = f"{found.asked} of {counted(found.of, 'question')} · judge {one_line(found.judge)}"
    lines = [bold(f"{head} · threshold {found.threshold:.2f} · k {found.k}")]
    if found.found is None:
        return "\n".join([*lines, "no question was judged to its end, so there are no figures"])
    lines += ["", *_figures(found, found.found), "", *_reliability(found.reliability)]
    if verbose:
        lines += ["", *_questions(found)]
    missed = list(_worst(found, verbose=verbose))
    return "\n".join([*lines, *(["", *missed] if missed else [])])


def render_evaluation_account(found: Evaluation) -> str:
    """Say why it ended early, if it did, and what it came to."""
    lines = []
    if found.ended:
        lines.append(f"{found.asked} of {counted(found.of, 'question')} judged to the end; {_why(found)}.")
    cover = found.coverage
    if cover.unjudged:
        causes = ", ".join(f"{count:,} {cause}" for cause, count in sorted(found.unjudged_by_cause.items()))
        lines.append(f"{counted(cover.unjudged, 'candidate')} of {cover.candidates:,} unjudged ({causes}).")
    parts = [counted(found.asked, "question"), f"{cover.judged:,} judged", f"{cover.cached:,} cached"]
    if found.is_model:
        parts.append(counted(found.calls, "call"))
    if found.usage.input_tokens:
        parts.append(f"{format_tokens(found.usage.input_tokens)} in / {format_tokens(found.usage.output_tokens)} out")
    parts += [format_dollars(found.cost_usd, estimated=found.estimated), format_seconds(found.seconds)]
    parts.append(f"evaluation {found.id}" if found.id else "not recorded")
    return "\n".join([*lines, faint(" · ".join(parts))])


def _why(found: Evaluation) -> str:
    """Say why it ended early, and how to go on."""
    cap = found.cap
    if cap is None:
        return EVALUATION_ENDED_WORDS[found.ended]
    later = ", or wait for the next day (UTC)" if cap.of == "day" else ""
    on = f"raise {CAP_SETTINGS[cap.of]}{later}; then run the same again, what was judged costs nothing again"
    return f"the cap came first: {cap_left_rounded(cap)}; {on}"


def _figures(found: Evaluation, judge: JudgeQuality) -> Iterator[str]:
    """One column for what was chosen and one for the first k, of the judge and of words alone."""
    judges = [(judge, found.judge if found.is_model else "by words alone")]
    judges += [(found.words, "by words alone")] if found.words else []
    first = f"first {found.k}"
    yield faint(f"{'':<12}" + "".join(f"{one_line(name)[:22]:<24}" for _, name in judges).rstrip())
    yield faint(f"{'':<12}" + "".join(f"{'chosen':<10}{first:<14}" for _ in judges).rstrip())
    for label, name in MEASURES:
        cells = "".join(f"{_at(one.chosen, name):<10.2f}{_at(one.ranked, name):<14.2f}" for one, _ in judges)
        yield f"{label:<12}{cells.rstrip()}"
    yield f"{'kept':<12}" + "".join(f"{f'{one.kept:.1f} a question':<24}" for one, _ in judges).rstrip()
    yield faint(f"chosen: from the threshold up, at most {found.k}; {first}: by score alone")


def _at(measures: RankingMetrics, name: str) -> float:
    return float(getattr(measures, name))


def _reliability(bins: tuple[CalibrationBin, ...]) -> Iterator[str]:
    """How much gold there is at each height of the scores, the highest first."""
    yield faint(f"{'score':<12}{'memories':>10}{'gold':>8}   share of gold")
    for one in reversed(bins):
        share = f"{one.gold / one.memories:.2f}" if one.memories else "-"
        yield f"{f'{one.low:.1f}–{one.high:.1f}':<12}{one.memories:>10,}{one.gold:>8,}   {share}"


def _questions(found: Evaluation) -> Iterator[str]:
    """One line a question."""
    yield faint(
        f"{'question':<18}{'recall':>8}{f'at {found.k}':>8}{'nDCG':>8}{'chosen':>8}{'unjudged':>10}  cost, time, turn"
    )
    for one in found.results:
        yield (
            f"{_short(one.id, EVALUATION_ID_CHARS):<18}{one.judge.chosen.recall:>8.2f}{one.judge.ranked.recall:>8.2f}"
            f"{one.judge.ranked.ndcg:>8.2f}{one.judge.kept:>8.0f}{one.coverage.unjudged:>10,}"
            f"  {format_dollars(one.cost_usd)}, {format_seconds(one.seconds)}, {one.turn_id}"
        )


def _worst(found: Evaluation, *, verbose: bool) -> Iterator[str]:
    worst = found.worst
    shown = worst if verbose else worst[:WORST_SHOWN]
    if worst:
        yield bold("missed, the worst question first")
    for one in shown:
        yield from _missed(one)
    if len(worst) > len(shown):
        yield faint(f"and {counted(len(worst) - len(shown), 'question')} more (--verbose, --json)")


def _missed(one: QuestionResult) -> Iterator[str]:
    found = f"{one.gold - len(one.missed)} of {one.gold}"
    yield f"{_short(one.id, EVALUATION_ID_CHARS)}  {found}  “{_short(one.query, QUERY_CHARS)}”"
    for gold in islice(one.missed, MISSED_SHOWN):
        name = f"{gold.path}::{gold.name}" if gold.name else gold.path
        yield f"      {one_line(name)}  {faint(_where(gold))}"
    if len(one.missed) > MISSED_SHOWN:
        yield faint(f"      and {len(one.missed) - MISSED_SHOWN} more")


def _where(gold: MissedGold) -> str:
    if gold.rank is not None:
        return f"rank {gold.rank}, score {gold.score:.2f}"
    return "unjudged" if gold.is_candidate else "no candidate: not in the index, or out of scope"


def _short(text: str, most: int) -> str:
    line = one_line(text.strip())
    return line if len(line) <= most else line[: most - 1] + "…"

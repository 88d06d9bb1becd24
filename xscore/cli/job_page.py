"""A list that was judged live, for people and as JSON: a line a question, what is unjudged, what it cost, what next."""

from xscore.cli.terminal import faint
from xscore.offline.live_job import JobReport
from xscore.offline.results import QuestionLine
from xscore.pipeline.receipt import SCHEMA, Json, plain, stage_usage
from xscore.safe_text import one_line
from xscore.wording import counted, dollars, seconds, share, tokens

LINES_SHOWN = 50
"""Questions named on a terminal; all of them stand in the JSON and in the file of results."""
PARTLY_SHOWN = 10
"""Questions with unjudged candidates that are named; all of them under --verbose."""
ID_CHARS = 24
GO_ON = "run the same command again to go on; what was judged costs nothing again"
WHY = {
    "interrupted": f"interrupted: {GO_ON}",
    "budget": f"the budget came first: raise --max-usd, then {GO_ON}",
    "deadline": f"the deadline came first: {GO_ON}",
    "provider": f"the judge could not be asked any more: {GO_ON}",
    "replay": "leave out --replay to have the rest judged",
}


def as_json(found: JobReport) -> dict[str, Json]:
    """Return the object of `--json`."""
    whole = {name: value for name, value in plain(found).items() if name not in {"spent", "lines"}}
    lines: list[Json] = [plain(line) for line in found.lines]
    rate = None if found.hit_rate is None else round(found.hit_rate, 6)
    return {"schema": SCHEMA, **whole, "hit_rate": rate, "usage": stage_usage(found.spent), "lines": lines}


def page(found: JobReport) -> str:
    """One line a question: how many were kept, and the first of them."""
    lines = [faint(f"{'question':<26}{'kept':>5}  first")]
    lines += [_line(line) for line in found.lines[:LINES_SHOWN]]
    if len(found.lines) > LINES_SHOWN:
        rest = counted(len(found.lines) - LINES_SHOWN, "question")
        lines.append(faint(f"and {rest} more (--out FILE, --json)"))
    return "\n".join(lines)


def account(found: JobReport, *, verbose: bool) -> str:
    """Say where candidates stayed unjudged, why it ended early if it did, and what it came to."""
    lines = []
    partly = [line for line in found.lines if line.coverage.unjudged]
    shown = partly if verbose else partly[:PARTLY_SHOWN]
    lines += [f"{_short(line.id)}: {_coverage(line)}" for line in (found.lines if verbose else shown)]
    if len(partly) > len(shown):
        lines.append(f"and {counted(len(partly) - len(shown), 'question')} more with unjudged candidates (--verbose)")
    cover = found.coverage
    if cover.unjudged:
        causes = ", ".join(f"{count:,} {cause}" for cause, count in found.unjudged_by_cause.items())
        lines.append(f"{counted(cover.unjudged, 'candidate')} of {cover.candidates:,} unjudged ({causes}).")
    if found.ended:
        detail = f" ({one_line(found.detail)})" if found.detail and found.ended in ("budget", "provider") else ""
        lines.append(f"{WHY[found.ended]}{detail}.")
    elif cover.unjudged:
        lines.append(f"{GO_ON[0].upper()}{GO_ON[1:]}.")
    if found.out:
        lines.append(f"{counted(found.rows, 'row')} in {one_line(found.out)}")
    return "\n".join([*lines, faint(_cost(found))])


def hit_rate_in_words(cached: int, candidates: int) -> str:
    """`replayed hit rate 42 %`: the share of all candidates that the cache had when the list was planned."""
    return f"replayed hit rate {share(cached, candidates)}"


def _cost(found: JobReport) -> str:
    cover, usage = found.coverage, found.spent.usage
    parts = [counted(found.questions, "question"), f"{cover.judged:,} judged", f"{cover.cached:,} cached"]
    if found.is_model:
        planned = f"planned with {share(found.cached, found.candidates)} replayed"
        parts += [planned, counted(found.spent.calls, "call")]
    if usage.input_tokens:
        parts.append(f"{tokens(usage.input_tokens)} in / {tokens(usage.output_tokens)} out")
    parts += [dollars(found.spent.cost_usd, estimated=found.spent.estimated), seconds(found.seconds)]
    return " · ".join([*parts, *([f"job {found.job}"] if found.job else [])])


def _line(line: QuestionLine) -> str:
    best = "–" if line.best_score is None else f"{line.best_score:.2f}  {one_line(line.best)}"
    return f"{_short(line.id):<26}{line.kept:>5}  {best}"


def _coverage(line: QuestionLine) -> str:
    cover = line.coverage
    parts = [f"{cover.candidates:,} candidates", f"{cover.judged:,} judged", f"{cover.cached:,} cached"]
    causes = ", ".join(f"{count:,} {cause}" for cause, count in line.unjudged_by_cause.items())
    return ", ".join([*parts, f"{cover.unjudged:,} unjudged" + (f" ({causes})" if causes else "")])


def _short(text: str) -> str:
    line = one_line(text.strip())
    return line if len(line) <= ID_CHARS else line[: ID_CHARS - 1] + "…"

"""`xscore batch run`: a list of questions judged by live calls, with checkpoints, by one process or several."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from xscore.cli.moment import BEGAN
from xscore.cli.opening import in_pipeline, read_settings
from xscore.cli.options import (
    COUNT,
    FILE,
    JUDGING,
    KEEPING,
    LIMITS,
    MODELS,
    OUTPUT,
    REPLAY,
    SCOPE,
    Flags,
    options,
)
from xscore.cli.progress import Watch
from xscore.cli.spans import Time
from xscore.cli.terminal import Terminal, echo, print_json

if TYPE_CHECKING:
    from xscore.offline.live_job import JobReport

WHOLE = {
    "max_usd": click.option(
        "--max-usd", metavar="DOLLARS", help="Cap on the whole list and all its workers, reserved before each send."
    ),
    "deadline": click.option(
        "--deadline",
        metavar="TIME",
        type=Time(),
        help="Be done in 30s, 2m or so, start-up included; the same command again goes on from what was judged.",
    ),
    "yes": click.option("-y", "--yes", is_flag=True, help="Do not ask before a costly list; --max-usd still holds."),
}
OWN = {
    "live": click.option(
        "--live", is_flag=True, help="By live calls, which `batch run` makes anyway; by Batch API: `batch submit`."
    ),
    "workers": click.option(
        "--workers", metavar="N", type=COUNT, default=1, help="So many processes; the limits are divided among them."
    ),
    "engine": click.option(
        "--engine",
        type=click.Choice(["ray"]),
        help="Let --workers N actors of Ray Data judge (extra `ray`, and a shared server: shared.url).",
    ),
    "out": click.option(
        "--out", metavar="FILE", type=FILE, help="Write what was chosen, ranked: FILE.parquet or FILE.jsonl."
    ),
}
JUDGE = {"judge": MODELS["judge"]}


@click.command()
@click.argument("questions", metavar="QUERIES.jsonl", type=click.Path(path_type=Path, allow_dash=True))
@options(OWN, SCOPE, KEEPING, JUDGE, JUDGING, LIMITS, REPLAY, WHOLE, OUTPUT)
def run(questions: Path, flags: Flags) -> int:
    """Judge a list of questions against every memory by live calls, for servers without a Batch API or in a hurry.

    QUERIES.jsonl has one question a line: {"id": "q1", "task": "…"}, and where they help "file" and "errors"; `-` reads
    it from standard input. Every judgment is kept as it comes: interrupted, out of budget or killed, the same command
    again goes on from there and pays for nothing twice. The list is one purchase under --max-usd.
    """
    from xscore.offline import questions_file
    from xscore.offline.live_job import JobWishes, run_list

    asked = questions_file.read(questions)
    terminal, settings = flags.terminal, read_settings(flags)
    hurries = settings.settings.budget.deadline_s is not None
    watch = Watch(terminal, agreed=flags.agreed, hurries=hurries, called="This list")
    given = flags.given
    wishes = JobWishes(
        out=given["out"],
        questions_file=questions,
        workers=given["workers"],
        engine=given["engine"] or "",
        started=BEGAN,
    )
    found = in_pipeline(lambda open_: run_list(open_.parts, asked, scope=flags.scope, wishes=wishes), settings, watch)
    return show(found, terminal)


def show(found: "JobReport", terminal: Terminal) -> int:
    """Print what came of a list that was judged live; return its exit code."""
    from xscore.cli import job_page

    if terminal.as_json:
        print_json(job_page.as_json(found))
    elif found.lines and found.command == "run" and not found.out:
        echo(job_page.page(found))
    for warning in found.warnings:
        terminal.note(warning)
    if not terminal.as_json:
        terminal.lines(job_page.account(found, verbose=terminal.verbose))
    return found.exit_code

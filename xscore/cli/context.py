"""`xscore context`: all of a turn but the answering call; the bundle alone on stdout."""

import click

from xscore.cli import answer_page
from xscore.cli.moment import BEGAN
from xscore.cli.opening import in_pipeline, read_settings
from xscore.cli.options import (
    COUNT,
    JUDGING,
    KEEPING,
    LIMITS,
    MODELS,
    MOMENT,
    OUTPUT,
    REPLAY,
    RESULT,
    ROUTING,
    SCOPE,
    SESSION,
    Flags,
    options,
)
from xscore.cli.progress import Watch
from xscore.cli.terminal import print_json
from xscore.pipeline.receipt import to_json

BUNDLE = {
    "format": click.option(
        "--format",
        type=click.Choice(["xml", "markdown", "json", "memory"]),
        default="xml",
        show_default=True,
        help="Its form.",
    ),
    "max_tokens": click.option(
        "--max-tokens", metavar="N", type=COUNT, help="Token budget of the bundle: 8000 unless set."
    ),
}
EXPLAINING = {
    "explain_routing": click.option(
        "--explain-routing", is_flag=True, help="Say how the layers were fetched, and what the bundle grants to each."
    )
}
JUDGE = {"judge": MODELS["judge"]}


@click.command()
@click.argument("task")
@options(MOMENT, SESSION, SCOPE, KEEPING, BUNDLE, JUDGE, JUDGING, LIMITS, EXPLAINING, REPLAY, ROUTING, RESULT, OUTPUT)
def context(task: str, flags: Flags) -> int:
    """Print the chosen context for TASK, and nothing else, on standard output.

    All of `ask` but the answering call: for a model or an editor of your own. `-` reads TASK from standard input.
    `--json` prints the whole receipt, with the bundle in it.
    """
    terminal = flags.terminal
    turn = flags.turn(task)
    form, budget = flags.given["format"], flags.given["max_tokens"]
    settings = read_settings(flags)
    watch = Watch(terminal, agreed=flags.agreed, hurries=settings.settings.budget.deadline_s is not None)
    answer = in_pipeline(
        lambda open_: open_.context(turn, form=form, max_tokens=budget, all_scores=flags.all_scores, started=BEGAN),
        settings,
        watch,
    )
    if terminal.as_json:
        print_json(to_json(answer))
    elif answer.bundle:
        terminal.data(answer.bundle)
    for warning in answer.warnings:
        terminal.note(warning)
    if flags.given["explain_routing"]:
        terminal.lines(answer_page.routing(answer))
    if not terminal.as_json:
        terminal.lines(answer_page.selection(answer))
        terminal.lines(answer_page.near_misses(answer))
        terminal.lines(answer_page.unjudged(answer))
        if terminal.verbose:
            terminal.lines(answer_page.traffic(answer))
        terminal.lines(answer_page.cost_line(answer))
    return answer.exit_code

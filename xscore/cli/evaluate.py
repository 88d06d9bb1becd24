"""`xscore eval`: questions with known answers put to the judge; how much of them it finds, and for how much."""

from pathlib import Path

import click

from xscore.cli.moment import BEGAN
from xscore.cli.opening import in_pipeline, read_settings
from xscore.cli.options import JUDGING, KEEPING, LIMITS, MODELS, OUTPUT, REPLAY, SCOPE, Flags, options
from xscore.cli.progress import Watch
from xscore.cli.spans import Time
from xscore.cli.terminal import echo, print_json

OWN = {
    "max_usd": click.option(
        "--max-usd",
        metavar="DOLLARS",
        help="Cap on the whole run: the sum over its questions, reserved before each send.",
    ),
    "deadline": click.option(
        "--deadline",
        metavar="TIME",
        type=Time(),
        help="Be done in 30s, 2m or so, start-up included; the same command again goes on from what was judged.",
    ),
    "yes": click.option("-y", "--yes", is_flag=True, help="Do not ask before a costly run; --max-usd still holds."),
}
JUDGE = {"judge": MODELS["judge"]}


@click.command("eval")
@click.argument("questions", metavar="QUESTIONS.jsonl", type=click.Path(path_type=Path))
@options(SCOPE, KEEPING, JUDGE, JUDGING, LIMITS, REPLAY, OWN, OUTPUT)
def evaluate(questions: Path, flags: Flags) -> int:
    """Put questions with known answers to the judge: how much of them does it find?

    QUESTIONS.jsonl has one question a line: {"id": "q1", "query": "…", "gold": [{"path": "src/a.py", "name": "f"}]};
    a path alone means any memory of that file. Each question is a turn of its own in the ledger and leaves your working
    session alone; its judgments are kept, so the same again costs nothing. The lexical judge is measured beside.
    """
    from xscore.cli import evaluation_page
    from xscore.evaluation import qrels
    from xscore.evaluation.run import run

    asked = qrels.read(questions)
    terminal, settings = flags.terminal, read_settings(flags)
    hurries = settings.settings.budget.deadline_s is not None
    watch = Watch(terminal, agreed=flags.agreed, hurries=hurries, called="This evaluation")
    found = in_pipeline(lambda open_: run(open_.parts, asked, scope=flags.scope, started=BEGAN), settings, watch)
    if terminal.as_json:
        from xscore.pipeline.receipt import to_json

        print_json(to_json(found))
    else:
        echo(evaluation_page.page(found, verbose=terminal.verbose))
    for warning in found.warnings:
        terminal.note(warning)
    if not terminal.as_json:
        terminal.lines(evaluation_page.account(found))
    return found.exit_code

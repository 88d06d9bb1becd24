"""`xscore continue`: finish a turn that a deadline, a budget or Ctrl-C cut short."""

import click

from xscore.cli.ask import ANSWER, show
from xscore.cli.moment import BEGAN
from xscore.cli.opening import in_pipeline, read_settings
from xscore.cli.options import JUDGING, KEEPING, LIMITS, MODELS, OUTPUT, RESULT, Flags, options
from xscore.cli.progress import Watch


@click.command("continue")
@click.argument("turn", required=False, default="")
@options(KEEPING, MODELS, JUDGING, LIMITS, ANSWER, RESULT, OUTPUT)
def continue_turn(turn: str, flags: Flags) -> int:
    """Judge what TURN (the latest, unless named) left unjudged, then answer.

    What it judged is carried over and costs nothing; what has been edited since is judged anew. It goes on with the
    turn's own judge; another one, or options that make it another, are refused.
    """
    terminal = flags.terminal
    wants_answer = not flags.given["no_answer"]
    settings = read_settings(flags)
    hurries = settings.settings.budget.deadline_s is not None
    watch = Watch(terminal, agreed=flags.agreed, streams=not terminal.as_json, hurries=hurries)
    answer = in_pipeline(
        lambda open_: open_.resume(turn, answer=wants_answer, all_scores=flags.all_scores, started=BEGAN),
        settings,
        watch,
    )
    return show(answer, terminal, "".join(watch.streamed), wants_answer=wants_answer)

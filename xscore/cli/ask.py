"""`xscore ask`: one turn, the answer on stdout, what it rests on and what it cost on stderr."""

from pathlib import Path

import click

from xscore.cli import answer_page
from xscore.cli.failures import INTERRUPTED
from xscore.cli.moment import BEGAN
from xscore.cli.opening import in_pipeline, read_settings
from xscore.cli.options import (
    JUDGING,
    KEEPING,
    LIMITS,
    MODELS,
    MOMENT,
    OUTPUT,
    PERSONA,
    REPLAY,
    RESULT,
    ROUTING,
    SCOPE,
    SESSION,
    Flags,
    options,
)
from xscore.cli.progress import Watch
from xscore.cli.terminal import Terminal, echo, print_json
from xscore.errors import UsageError
from xscore.pipeline.receipt import to_json
from xscore.records import Answer

SET_A_MODEL = (
    "To have a model judge and answer: export OPENAI_API_KEY=… or ANTHROPIC_API_KEY=…, or OPENAI_BASE_URL=… for a"
    " server of your own (--judge and --model name others)."
)
ANSWER = {
    "no_answer": click.option("--no-answer", is_flag=True, help="Judge and choose only; make no call to the answerer.")
}


BATCH = {
    "batch": click.option(
        "--batch",
        metavar="FILE",
        type=click.Path(path_type=Path, allow_dash=True),
        help='Ask the questions of FILE instead, which share calls: lines {"id", "task", "file"?, "errors"?}.',
    )
}


@click.command()
@click.argument("task", required=False)
@options(
    MOMENT, SESSION, PERSONA, SCOPE, KEEPING, MODELS, JUDGING, LIMITS, ANSWER, BATCH, REPLAY, ROUTING, RESULT, OUTPUT
)
def ask(task: str | None, flags: Flags) -> int:
    """Judge every memory of this repository against TASK, then answer once with what matters.

    TASK is the question or the change you want to make; `-` reads it from standard input. The index is brought up to
    date first. The answer goes to standard output; the chosen memories, near misses and the cost go to standard error.
    Without a key the lexical judge scores and the chosen context is printed instead of an answer.

    With --batch FILE in place of TASK many questions are asked in one session, and several share each judging call.
    """
    many: Path | None = flags.given["batch"]
    if many is not None:
        if task is not None:
            raise UsageError("TASK and --batch are two ways to ask", hint="Give one of them.")
        from xscore.cli.ask_batch import ask_batch  # few turns are of a list

        return ask_batch(many, flags, show)
    if task is None:
        raise UsageError("there is no TASK", hint="Say what you want to do, or name a list of questions with --batch.")
    terminal = flags.terminal
    turn = flags.turn(task)
    wants_answer = not flags.given["no_answer"]
    settings = read_settings(flags)
    hurries = settings.settings.budget.deadline_s is not None
    watch = Watch(terminal, agreed=flags.agreed, streams=not terminal.as_json, hurries=hurries)
    answer = in_pipeline(
        lambda open_: open_.ask(turn, answer=wants_answer, all_scores=flags.all_scores, started=BEGAN), settings, watch
    )
    replays = settings.settings.judge.replay
    return show(answer, terminal, "".join(watch.streamed), wants_answer=wants_answer and not replays)


def show(answer: Answer, terminal: Terminal, streamed: str, *, wants_answer: bool) -> int:
    """Print what came of a turn and return its exit code. streamed: what of the answer is on stdout already."""
    if terminal.as_json:
        print_json(to_json(answer))
    else:
        _result(answer, terminal, streamed)
    for warning in answer.warnings:
        terminal.note(warning)
    if not terminal.as_json:
        _account(answer, terminal, wants_answer=wants_answer)
    return answer.exit_code


def _result(answer: Answer, terminal: Terminal, streamed: str) -> None:
    """Put the result on stdout: the answer, or the bundle where there is none, or the selection where none was wanted.

    A turn that was interrupted has no result: its best so far goes to stderr.
    """
    if streamed:
        terminal.piece("" if streamed.endswith("\n") else "\n")
    if answer.answer is not None:
        if streamed != answer.answer:  # a call that broke while streaming was made again
            terminal.data(answer.answer)
        terminal.lines("\n" + answer_page.selection(answer))
    elif answer.bundle and answer.selected and answer.exit_code != INTERRUPTED:
        terminal.data(answer.bundle)
        terminal.lines("\n" + answer_page.selection(answer))
    elif answer.selected and not answer.bundle:
        echo(answer_page.selection(answer))
    else:
        terminal.lines(answer_page.selection(answer))


def _account(answer: Answer, terminal: Terminal, *, wants_answer: bool) -> None:
    terminal.lines(answer_page.near_misses(answer))
    terminal.lines(answer_page.unjudged(answer))
    if terminal.verbose:
        terminal.lines(answer_page.traffic(answer))
    if wants_answer and answer.primary is None:
        terminal.note(SET_A_MODEL)
    terminal.lines(answer_page.cost_line(answer))

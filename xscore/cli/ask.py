"""`xscore ask`: one turn, the answer on stdout, what it rests on and what it cost on stderr.

`xscore context`: all of a turn but the answering call; the bundle alone on stdout.

`xscore continue`: finish a turn that a deadline, a budget or Ctrl-C cut short.
"""

from pathlib import Path

import click

from xscore.cli import answer_text
from xscore.cli.failures import INTERRUPTED
from xscore.cli.main import STARTED_AT
from xscore.cli.opening import in_pipeline, read_settings
from xscore.cli.options import (
    COUNT,
    JUDGING,
    LIMITS,
    MODELS,
    OUTPUT,
    PERSONA,
    REPLAY,
    RESULT,
    ROUTING,
    SCOPE,
    SELECTION,
    SESSION,
    WORKING_FILE,
    Flags,
    options,
)
from xscore.cli.progress import TurnObserver
from xscore.cli.terminal import Terminal, print_json, write_stdout
from xscore.pipeline.json_form import to_json
from xscore.platform.errors import UsageError
from xscore.records import Answer

SET_A_MODEL = (
    "To have a model judge and answer: export OPENAI_API_KEY=… or ANTHROPIC_API_KEY=…, or OPENAI_BASE_URL=… for a"
    " server of your own (--judge and --model name others)."
)
ANSWER = {
    "no_answer": click.option("--no-answer", is_flag=True, help="Judge and choose only; make no call to the answerer.")
}


BATCH_FILE = {
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
    WORKING_FILE,
    SESSION,
    PERSONA,
    SCOPE,
    SELECTION,
    MODELS,
    JUDGING,
    LIMITS,
    ANSWER,
    BATCH_FILE,
    REPLAY,
    ROUTING,
    RESULT,
    OUTPUT,
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
        from xscore.extension import load  # few turns are of a list

        ended: int = load("xscore.extensions.batch.ask_commands:ask_batch")(many, flags, print_turn)
        return ended
    if task is None:
        raise UsageError("there is no TASK", hint="Say what you want to do, or name a list of questions with --batch.")
    terminal = flags.terminal
    turn = flags.turn(task)
    wants_answer = not flags.given["no_answer"]
    settings = read_settings(flags)
    hurries = settings.settings.budget.deadline_s is not None
    watch = TurnObserver(terminal, agreed=flags.agreed, streams=not terminal.as_json, hurries=hurries)
    answer = in_pipeline(
        lambda open_: open_.ask(turn, answer=wants_answer, all_scores=flags.all_scores, started=STARTED_AT),
        settings,
        watch,
    )
    replays = settings.settings.judge.replay
    return print_turn(answer, terminal, "".join(watch.streamed), wants_answer=wants_answer and not replays)


def print_turn(answer: Answer, terminal: Terminal, streamed: str, *, wants_answer: bool) -> int:
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
        terminal.lines("\n" + answer_text.render_selection(answer))
    elif answer.bundle and answer.selected and answer.exit_code != INTERRUPTED:
        terminal.data(answer.bundle)
        terminal.lines("\n" + answer_text.render_selection(answer))
    elif answer.selected and not answer.bundle:
        write_stdout(answer_text.render_selection(answer))
    else:
        terminal.lines(answer_text.render_selection(answer))


def _account(answer: Answer, terminal: Terminal, *, wants_answer: bool) -> None:
    terminal.lines(answer_text.render_near_misses(answer))
    terminal.lines(answer_text.render_unjudged(answer))
    if terminal.verbose:
        terminal.lines(answer_text.render_traffic(answer))
    if wants_answer and answer.primary is None:
        terminal.note(SET_A_MODEL)
    terminal.lines(answer_text.render_cost_line(answer))


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
CONTEXT_JUDGE = {"judge": MODELS["judge"]}


@click.command()
@click.argument("task")
@options(
    WORKING_FILE,
    SESSION,
    SCOPE,
    SELECTION,
    BUNDLE,
    CONTEXT_JUDGE,
    JUDGING,
    LIMITS,
    EXPLAINING,
    REPLAY,
    ROUTING,
    RESULT,
    OUTPUT,
)
def context(task: str, flags: Flags) -> int:
    """Print the chosen context for TASK, and nothing else, on standard output.

    All of `ask` but the answering call: for a model or an editor of your own. `-` reads TASK from standard input.
    `--json` prints the whole receipt, with the bundle in it.
    """
    terminal = flags.terminal
    turn = flags.turn(task)
    form, budget = flags.given["format"], flags.given["max_tokens"]
    settings = read_settings(flags)
    watch = TurnObserver(terminal, agreed=flags.agreed, hurries=settings.settings.budget.deadline_s is not None)
    answer = in_pipeline(
        lambda open_: open_.context(
            turn, form=form, max_tokens=budget, all_scores=flags.all_scores, started=STARTED_AT
        ),
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
        terminal.lines(answer_text.render_routing(answer))
    if not terminal.as_json:
        terminal.lines(answer_text.render_selection(answer))
        terminal.lines(answer_text.render_near_misses(answer))
        terminal.lines(answer_text.render_unjudged(answer))
        if terminal.verbose:
            terminal.lines(answer_text.render_traffic(answer))
        terminal.lines(answer_text.render_cost_line(answer))
    return answer.exit_code


@click.command("continue")
@click.argument("turn", required=False, default="")
@options(SELECTION, MODELS, JUDGING, LIMITS, ANSWER, RESULT, OUTPUT)
def continue_turn(turn: str, flags: Flags) -> int:
    """Judge what TURN (the latest, unless named) left unjudged, then answer.

    What it judged is carried over and costs nothing; what has been edited since is judged anew. It goes on with the
    turn's own judge; another one, or options that make it another, are refused.
    """
    terminal = flags.terminal
    wants_answer = not flags.given["no_answer"]
    settings = read_settings(flags)
    hurries = settings.settings.budget.deadline_s is not None
    watch = TurnObserver(terminal, agreed=flags.agreed, streams=not terminal.as_json, hurries=hurries)
    answer = in_pipeline(
        lambda open_: open_.resume(turn, answer=wants_answer, all_scores=flags.all_scores, started=STARTED_AT),
        settings,
        watch,
    )
    return print_turn(answer, terminal, "".join(watch.streamed), wants_answer=wants_answer)

"""`xscore ask`, `context` and `continue`: one turn, its result on stdout, what it rests on and cost on stderr."""

from collections.abc import Callable
from pathlib import Path

import click

from xscore.cli import answer_text
from xscore.cli.failures import INTERRUPTED
from xscore.cli.main import STARTED_AT
from xscore.cli.opening import read_settings, run_turn
from xscore.cli.options import (
    ALL_SCORES,
    COUNT,
    FILE,
    INPUT_FILE,
    JUDGE,
    JUDGING,
    LIMITS,
    MODELS,
    PERSONA,
    REPLAY,
    ROUTING,
    SCOPE,
    SELECTION,
    SESSION,
    WORKING_FILE,
    Flags,
    Option,
    command,
    options,
    tuning,
)
from xscore.cli.terminal import Terminal, print_json, write_stdout
from xscore.extension import load
from xscore.pipeline.json_form import to_json
from xscore.platform.errors import UsageError
from xscore.records import Answer

SET_A_MODEL = (
    "To have a model judge and answer: export OPENAI_API_KEY=… or ANTHROPIC_API_KEY=…, or OPENAI_BASE_URL=… for a"
    " server of your own (--judge and --model name others)."
)
NO_ANSWER: dict[str, Option] = {
    "no_answer": click.option("--no-answer", is_flag=True, help="Judge and choose only; do not call the answerer.")
}
TO_FILE: dict[str, Option] = {
    "output": click.option("-o", "--output", metavar="FILE", type=FILE, help="Write the result to this file.")
}
BATCH_FILE: dict[str, Option] = {
    "batch": tuning(
        "--batch", metavar="FILE", type=INPUT_FILE, help='Ask many questions: lines {"id", "task", "file"?, "errors"?}.'
    )
}
CONTEXT: dict[str, Option] = {
    "format": click.option(
        "--format",
        type=click.Choice(["xml", "markdown", "json", "memory"]),
        default="xml",
        show_default=True,
        help="Form of the context.",
    ),
    "max_tokens": click.option("--max-tokens", metavar="N", type=COUNT, help="Token budget of the context."),
    "explain_routing": tuning(
        "--explain-routing", is_flag=True, help="Show how layers were fetched and what each may take."
    ),
}


@command()
@click.argument("task", required=False)
@options(
    WORKING_FILE,
    SCOPE,
    SELECTION,
    MODELS,
    LIMITS,
    NO_ANSWER,
    REPLAY,
    SESSION,
    TO_FILE,
    JUDGING,
    PERSONA,
    ROUTING,
    ALL_SCORES,
    BATCH_FILE,
)
def ask(task: str | None, flags: Flags) -> int:
    """Judge every memory of this repository against TASK, then answer once with what matters.

    TASK is the question or the change you want to make; `-` reads it from standard input. The index is brought up to
    date first. The answer goes to standard output; the chosen memories, near misses and the cost go to standard error.
    Without a key the lexical judge scores and the chosen context is printed instead of an answer.
    """
    batch: Path | None = flags.given["batch"]
    if batch is not None and task is not None:
        raise UsageError("TASK and --batch are two ways to ask", hint="Give one of them.")
    if batch is not None:
        code: int = load("xscore.extensions.batch.ask_commands:ask_batch")(batch, flags, print_turn)
        return code
    if task is None:
        raise UsageError("there is no TASK", hint="Say what you want to do, or name a list of questions with --batch.")
    turn, wants_answer = flags.turn(task), not flags.given["no_answer"]
    settings, output = read_settings(flags), flags.given["output"]
    answer, watch = run_turn(
        flags,
        lambda open_: open_.ask(turn, answer=wants_answer, all_scores=flags.all_scores, started=STARTED_AT),
        settings=settings,
        streams=not flags.terminal.as_json and output is None,
    )
    wants_answer = wants_answer and not settings.settings.judge.replay
    return print_turn(answer, flags.terminal, "".join(watch.streamed), wants_answer=wants_answer, output=output)


@command("continue")
@click.argument("turn", required=False, default="")
@options(SELECTION, MODELS, LIMITS, NO_ANSWER, TO_FILE, JUDGING, ALL_SCORES)
def continue_turn(turn: str, flags: Flags) -> int:
    """Judge what TURN (default: the latest) left unjudged, then answer.

    What it judged is kept and costs nothing; what you edited since is judged again. The turn's own judge goes on;
    another one, or options that make it another, are refused.
    """
    wants_answer, output = not flags.given["no_answer"], flags.given["output"]
    answer, watch = run_turn(
        flags,
        lambda open_: open_.resume(turn, answer=wants_answer, all_scores=flags.all_scores, started=STARTED_AT),
        streams=not flags.terminal.as_json and output is None,
    )
    return print_turn(answer, flags.terminal, "".join(watch.streamed), wants_answer=wants_answer, output=output)


@command()
@click.argument("task")
@options(WORKING_FILE, SCOPE, SELECTION, JUDGE, LIMITS, REPLAY, SESSION, CONTEXT, TO_FILE, JUDGING, ROUTING, ALL_SCORES)
def context(task: str, flags: Flags) -> int:
    """Print the chosen context for TASK, and nothing else, on standard output.

    All of `ask` but the answering call: for a model or an editor of your own. `-` reads TASK from standard input.
    `--json` prints the whole receipt, with the context in it.
    """
    terminal, turn = flags.terminal, flags.turn(task)
    form, budget, output = flags.given["format"], flags.given["max_tokens"], flags.given["output"]
    answer, _ = run_turn(
        flags,
        lambda open_: open_.context(
            turn, form=form, max_tokens=budget, all_scores=flags.all_scores, started=STARTED_AT
        ),
    )
    if terminal.as_json:
        print_json(to_json(answer))
    elif answer.bundle:
        _writer(terminal, output)(answer.bundle)
    terminal.notes(answer.warnings)
    if flags.given["explain_routing"]:
        terminal.lines(answer_text.render_routing(answer))
    if not terminal.as_json:
        terminal.lines(answer_text.render_selection(answer))
        _print_account(answer, terminal)
    return answer.exit_code


def print_turn(
    answer: Answer, terminal: Terminal, streamed: str, *, wants_answer: bool, output: Path | None = None
) -> int:
    """Print a turn and return its exit code. streamed: what of the answer is on stdout already."""
    if terminal.as_json:
        print_json(to_json(answer))
        terminal.notes(answer.warnings)
        return answer.exit_code
    _print_result(answer, terminal, streamed, output)
    terminal.notes(answer.warnings)
    _print_account(answer, terminal, wants_answer=wants_answer)
    return answer.exit_code


def _print_result(answer: Answer, terminal: Terminal, streamed: str, output: Path | None) -> None:
    """Print the answer, or the context where there is none, or the selection where none was wanted.

    A turn that was interrupted has no result: its best so far goes to stderr.
    """
    if streamed:
        terminal.stream("" if streamed.endswith("\n") else "\n")
    result = answer.answer
    if result is None and answer.selected and answer.exit_code != INTERRUPTED:
        result = answer.bundle or None
    if result is not None:
        if streamed != result:  # a call that broke while streaming was made again
            _writer(terminal, output)(result)
        terminal.lines("\n" + answer_text.render_selection(answer))
    elif answer.selected and not answer.bundle:
        write_stdout(answer_text.render_selection(answer))
    else:
        terminal.lines(answer_text.render_selection(answer))


def _writer(terminal: Terminal, output: Path | None) -> Callable[[str], None]:
    """Return what writes the result: to stdout, or to the file of `--output`."""
    if output is None:
        return terminal.data

    def write(text: str) -> None:
        from xscore.platform.files import write_atomically

        write_atomically(output, (text if text.endswith("\n") else text + "\n").encode())
        terminal.note(f"written to {output}")

    return write


def _print_account(answer: Answer, terminal: Terminal, *, wants_answer: bool = False) -> None:
    terminal.lines(answer_text.render_near_misses(answer))
    terminal.lines(answer_text.render_unjudged(answer))
    if terminal.verbose:
        terminal.lines(answer_text.render_traffic(answer))
    if wants_answer and answer.primary is None:
        terminal.note(SET_A_MODEL)
    terminal.lines(answer_text.render_cost_line(answer))

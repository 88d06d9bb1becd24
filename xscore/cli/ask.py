"""`xscore ask`, `context` and `continue`: one turn, its result on stdout, what it rests on and cost
on stderr."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import Struct

from xscore.cli.flags import Flags, command
from xscore.cli.options import (
    ANSWERER,
    COUNT,
    FILE,
    INPUT_FILE,
    JUDGE,
    JUDGING,
    LIMITS,
    PERSONA,
    ROUTING,
    SELECTION,
    SESSION,
    TURN_OPTIONS,
    option,
    tuning,
)
from xscore.cli.pipeline_run import run_with_pipeline
from xscore.cli.progress import TurnObserver
from xscore.cli.settings_and_store import read_settings
from xscore.cli.start import STARTED_AT
from xscore.cli.terminal import Terminal, print_json, stdout_columns
from xscore.pipeline.json_form import to_json
from xscore.platform.errors import UsageError
from xscore.records.receipt import Answer

if TYPE_CHECKING:
    from xscore.pipeline.build import Pipeline

NO_ANSWER = [
    option(
        "--no-answer",
        is_flag=True,
        help="Judge and choose only; do not call the answering model.",
    )
]
ANYWAY = [
    tuning(
        "--answer-anyway",
        is_flag=True,
        help="Call the answering model even if nothing was chosen.",
    )
]
OUTPUTS = [
    option("-o", "--output", metavar="FILE", type=FILE, help="Write the result to this file."),
    tuning(
        "--all-scores",
        metavar="FILE.jsonl",
        type=FILE,
        help="Write each candidate's score and reason, or why it has none.",
    ),
]
OPENS_PAGE = [
    option("--open", "opens", is_flag=True, help="Then open the turn's page in a browser.")
]
BATCH_FILE = [
    tuning(
        "--batch",
        metavar="FILE",
        type=INPUT_FILE,
        help='Ask many questions: lines {"id", "task", "file"?, "errors"?}.',
    )
]
LISTING = [
    option(
        "-l",
        "--files-with-matches",
        is_flag=True,
        help="Print only the paths of the chosen files, best first.",
    )
]
FORMS = ["xml", "markdown", "json", "memory", "lines"]


@command(
    TURN_OPTIONS,
    ANSWERER,
    NO_ANSWER,
    ANYWAY,
    SESSION,
    OUTPUTS,
    OPENS_PAGE,
    PERSONA,
    ROUTING,
    BATCH_FILE,
)
@click.argument("task", required=False)
def ask(task: str | None, flags: Flags) -> int:
    """Judge every memory of this repository, or of PATHs in it, against TASK, then answer once with
    what matters.

    TASK is the question or the change you want to make; `-` reads it from standard input. The index
    is brought up to date first. The answer goes to standard output; the chosen memories, near
    misses and the cost go to standard error. Without an API key the lexical judge ranks: terminals
    show the ranking, pipes get the context.
    """
    batch: Path | None = flags.given["batch"]
    if batch is not None and task is not None:
        raise UsageError("TASK and --batch exclude each other", hint="Give one of them.")
    if batch is not None and flags.given["opens"]:
        raise UsageError("--open shows the page of one turn", hint="Leave it out with --batch.")
    if batch is not None:
        from xscore.extensions.batch.ask_list import ask_batch  # an extension

        return ask_batch(batch, flags, print_turn=print_turn)
    if task is None:
        raise UsageError(
            "no TASK was given",
            hint="Write what you want to do, or name a list of questions with --batch.",
        )
    turn = flags.turn(task)
    shows_ranking = _streams(flags) and stdout_columns() is not None
    return _run_and_print(
        flags,
        lambda pipeline, answers: pipeline.ask(
            turn,
            # A ranking needs no bundle, and so no warning of what its token budget leaves out.
            answer=answers and not (shows_ranking and pipeline.parts.answerer is None),
            answer_anyway=flags.given["answer_anyway"],
            all_scores=flags.all_scores,
            started=STARTED_AT,
        ),
    )


@command(SELECTION, JUDGE, ANSWERER, LIMITS, NO_ANSWER, OUTPUTS, OPENS_PAGE, JUDGING)
@click.argument("turn", required=False, default="")
def continue_turn(turn: str, flags: Flags) -> int:
    """Judge what TURN (default: the latest) left unjudged, then answer.

    Its judgments are kept and cost nothing; memories edited since are judged again. The turn keeps
    its judge: options that name or imply another one are refused.
    """
    return _run_and_print(
        flags,
        lambda pipeline, answers: pipeline.resume(
            turn, answer=answers, all_scores=flags.all_scores, started=STARTED_AT
        ),
        hints=False,
    )


def _run_and_print(
    flags: Flags, work: "Callable[[Pipeline, bool], Awaitable[Answer]]", *, hints: bool = True
) -> int:
    """Run a turn, print it, and return the exit code.

    work: the turn, given the open pipeline and whether an answer is wanted.
    hints: say how to get an answer where no model gave one.
    """
    answers = not flags.given["no_answer"]
    settings = read_settings(flags)
    streams = _streams(flags)
    watch = TurnObserver(flags.terminal, assume_yes=flags.assume_yes, streams=streams)

    async def work_and_read(pipeline: "Pipeline") -> _ReadTurn:
        answer = await work(pipeline, answers)
        hint = "" if flags.terminal.as_json else _outside_hint(pipeline, answer)
        texts: Mapping[str, str] = {}
        # The ranking shows the first lines of each.
        if streams and answer.answer is None and stdout_columns():
            texts = _shown_texts(pipeline, answer)
        if flags.given["opens"]:
            from xscore.extensions.pages.commands import open_turn_page  # an extension

            await open_turn_page(pipeline, answer.turn_id, flags.terminal)
        return _ReadTurn(answer, hint, texts)

    turn = run_with_pipeline(
        flags, work_and_read, settings=settings, watch=watch, late_loop=True
    )
    # A hint names a model to set. A replay calls none, and a turn that is continued (`hints` is
    # false) keeps the models that it began with.
    may_hint = hints and answers and not settings.settings.judge.replay
    streamed = "".join(watch.streamed)
    exit_code = print_turn(
        turn.answer,
        flags.terminal,
        streamed=streamed,
        may_hint=may_hint,
        output=flags.given["output"],
        texts=turn.texts,
    )
    flags.terminal.notes([turn.hint])
    return exit_code


class _ReadTurn(Struct, frozen=True):
    """A turn with what its store was read for before it was closed."""

    answer: Answer
    hint: str
    """What could be fetched for a turn that found nothing; empty if nothing could."""
    texts: Mapping[str, str] = {}
    """Texts of the memories that a terminal shows, by id."""


def _shown_texts(pipeline: "Pipeline", answer: Answer) -> dict[str, str]:
    from xscore.cli.answer_text import shown_memories  # JSON needs none of it

    memories = pipeline.parts.store.memories([memory.id for memory in shown_memories(answer)])
    return {id_: memory.text for id_, memory in memories.items()}


def _outside_hint(pipeline: "Pipeline", answer: Answer) -> str:
    """Return the line that says what could be fetched for a turn that found nothing, or ""."""
    has_passed = any(not memory.below_threshold for memory in answer.selected)
    if has_passed or not pipeline.parts.settings.documents.suggest:
        return ""
    # Most turns find something.
    from xscore.pipeline.outside_context import outside_hint

    return outside_hint(pipeline.parts.store, answer)


def _streams(flags: Flags) -> bool:
    """Whether the result goes to standard output as text."""
    return not flags.terminal.as_json and flags.given["output"] is None


@command(LISTING, TURN_OPTIONS, SESSION, OUTPUTS, ROUTING)
@click.argument("task")
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMS),
    default="xml",
    show_default=True,
    help="Form of the context.",
)
@click.option("--max-tokens", metavar="N", type=COUNT, help="Token budget of the context.")
@click.option(
    "--explain-routing",
    is_flag=True,
    help="Show how layers were fetched and what each may take.",
)
def context(
    *, task: str, form: str, max_tokens: int | None, explain_routing: bool, flags: Flags
) -> int:
    """Print the chosen context for TASK, and nothing else, on standard output.

    Does what `ask` does except the answering call, for your own model or editor. `-` reads TASK
    from standard input.
    PATHs are files or folders to look in. `--format lines` prints `path:lines  score  reason` for
    each memory, and those that passed without a place on standard error; it and -l exit with 1 if
    nothing was chosen. `--json` prints the whole receipt, with the context (but no lines) in it.
    """
    lists = form == "lines" or flags.given["files_with_matches"]
    if lists and max_tokens:
        raise UsageError(
            "--max-tokens limits the text of memories, and a list has none",
            hint="Leave it out.",
        )
    turn = flags.turn(task)

    async def choose(pipeline: "Pipeline") -> _ReadTurn:
        answer = await pipeline.context(
            turn,
            form="" if lists else form,
            max_tokens=max_tokens,
            all_scores=flags.all_scores,
            started=STARTED_AT,
        )
        hint = "" if flags.terminal.as_json else _outside_hint(pipeline, answer)
        return _ReadTurn(answer, hint)

    chosen = run_with_pipeline(flags, choose, late_loop=True)
    if explain_routing:
        from xscore.cli import answer_account  # JSON needs none of it

        flags.terminal.lines(answer_account.render_routing(chosen.answer))
    exit_code = _print_context(chosen.answer, flags, lists=lists, form=form)
    flags.terminal.notes([chosen.hint])
    return exit_code


def _print_context(answer: Answer, flags: Flags, *, lists: bool, form: str) -> int:
    """Print what a context is made of, or with lists where each part is; return the exit
    code."""
    if lists and not flags.terminal.as_json:
        # The turn itself is printed by most calls.
        from xscore.cli.turn_output import print_list

        return print_list(answer, flags)
    return print_turn(
        answer,
        flags.terminal,
        output=flags.given["output"],
        is_context=True,
        bundle_is_json=form == "json",
    )


def print_turn(
    answer: Answer,
    terminal: Terminal,
    *,
    streamed: str = "",
    may_hint: bool = False,
    output: Path | None = None,
    is_context: bool = False,
    bundle_is_json: bool = False,
    texts: Mapping[str, str] | None = None,
) -> int:
    """Print a turn and return its exit code.

    Without an answer, a terminal gets the ranking and a pipe or file the bundle.

    streamed: the part of the answer already on stdout.
    texts: text by memory id, for the ranking.
    """
    if terminal.as_json:
        print_json(to_json(answer))
        terminal.notes(answer.warnings)
        return answer.exit_code
    from xscore.cli.turn_output import print_as_text  # JSON needs none of it

    print_as_text(
        answer,
        terminal,
        streamed=streamed,
        may_hint=may_hint,
        output=output,
        is_context=is_context,
        bundle_is_json=bundle_is_json,
        texts=texts,
    )
    return answer.exit_code

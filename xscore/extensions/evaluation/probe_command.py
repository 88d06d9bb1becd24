"""`xscore eval probe`: what one part of the memory brings, shown side by side.

It prints; what is asked is in `probing`, what can be taken away in `probe_parts`.
"""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from xscore.cli.flags import Flags, command
from xscore.cli.options import ANSWERER, LIST_OPTIONS, option
from xscore.cli.pipeline_run import run_with_pipeline
from xscore.cli.text_layout import bold, faint
from xscore.extensions.evaluation.answer_grading import Better
from xscore.extensions.evaluation.probe_parts import CHECKPOINT, PART_NAMES, arms_of
from xscore.extensions.evaluation.probing import (
    ProbedMemory,
    ProbedTask,
    ProbedTurn,
    ProbeOptions,
    ProbeReport,
    run_probe,
)
from xscore.pipeline.question_list import Question, read_question_file
from xscore.platform.errors import UsageError
from xscore.platform.figures import format_dollars, format_seconds
from xscore.platform.files import is_there
from xscore.platform.text import counted, ellipsize, one_line, readable_text

if TYPE_CHECKING:
    from xscore.pipeline.build import Pipeline

TASK_CHARS = 70
BRIEF_CHARS = 110
"""Characters shown of each line of a brief; all of it under --verbose and --json."""
SHOWN = 5
"""Memories listed of each arm; all of them under --verbose."""
ANSWER_CHARS = 1_500
"""Characters shown of each answer; all of it under --verbose and --json."""
_PROBE_OPTIONS = [
    option(
        "--without",
        "part",
        metavar="PART",
        help=f"The part that one turn leaves out: {', '.join(PART_NAMES)}. Default: commits.",
    ),
    option("--checkpoint", metavar="NAME", help="Continue from this checkpoint."),
    option(
        "--answers", is_flag=True, help="Also have the answering model answer, in both turns."
    ),
    option(
        "--grade",
        is_flag=True,
        help="Have the answering model compare the answers, in both orders; implies --answers.",
    ),
]


@command(_PROBE_OPTIONS, LIST_OPTIONS, ANSWERER)
@click.argument("tasks", metavar="TASK|FILE.jsonl")
def probe(tasks: str, flags: Flags) -> int:
    """Ask the same tasks with and without one part of the memory, and show both.

    TASK is one task; FILE.jsonl has one question per line: {"id": "q1", "task": "…"}. Each is asked
    in two turns, apart from your working session; a judgment serves both turns, so the second costs
    little. Past exchanges are in both. Nothing is learned from it.

    `--without brief` shows what a hook adds to an agent's first prompt, with the brief of earlier
    work and without it; the answering model is shown that text.
    """
    terminal = flags.terminal
    checkpoint = flags.given["checkpoint"] or ""
    part = flags.given["part"] or (CHECKPOINT if checkpoint else "commits")
    arms = arms_of(part, flags.scope, checkpoint=checkpoint)
    questions = _questions(tasks)
    options = ProbeOptions(
        answers=flags.given["answers"] or flags.given["grade"], grades=flags.given["grade"]
    )

    async def work(pipeline: "Pipeline") -> ProbeReport:
        return await run_probe(pipeline.parts, questions, arms, options)

    report = run_with_pipeline(flags, work, noun="This probe")
    terminal.print_result(report, lambda shown: render_probe(shown, verbose=terminal.verbose))
    terminal.notes(report.warnings)
    return report.exit_code


def _questions(tasks: str) -> tuple[Question, ...]:
    if not tasks.strip():
        raise UsageError(
            "the task is empty", hint="Write what to ask, or name a file of questions."
        )
    path = Path(tasks)
    if tasks == "-" or path.suffix in (".json", ".jsonl") or is_there(path):
        return read_question_file(path).all
    return (Question(id="task", task=tasks),)


def render_probe(report: ProbeReport, *, verbose: bool = False) -> str:
    """Return the report as text."""
    count = f"{len(report.tasks)} of {counted(report.of, 'task')}"
    head = (
        f"with and without {one_line(report.part)} · {count} · judge {one_line(report.judge)}"
    )
    parts = [bold(head)]
    for task in report.tasks:
        parts.append("\n".join(_task_lines(task, verbose=verbose)))
    if len(report.tasks) > 1:
        parts.append("\n".join(_sums(report)))
    if report.ended:
        parts.append(f"ended early ({report.ended})")
    account = f"{format_dollars(report.cost_usd)} · {format_seconds(report.seconds)}"
    parts.append(faint(account))
    return "\n\n".join(parts)


def _task_lines(task: ProbedTask, *, verbose: bool) -> list[str]:
    with_part = task.with_part
    without_part = task.without_part
    lines = [bold(f"{one_line(task.id)}  “{ellipsize(one_line(task.task), TASK_CHARS)}”")]
    lines.append(f"  with     {_turn_words(with_part)}")
    lines.append(f"  without  {_turn_words(without_part)}")
    lines += _brief_lines(with_part, verbose=verbose)
    lines += _only("only with it", task.only_with, verbose=verbose)
    lines += _only("only without it", task.only_without, verbose=verbose)
    if not task.only_with and not task.only_without:
        lines.append("  both kept the same")
    for name, turn in (("with", with_part), ("without", without_part)):
        if turn.answer:
            lines += _answer_lines(name, turn.answer, verbose=verbose)
    if task.grade is not None:
        lines.append(f"  better: {_BETTER_WORDS[task.grade.better]}")
        lines += [faint(f"    {one_line(reason)}") for reason in task.grade.because]
    return lines


_BETTER_WORDS = {
    Better.WITH: "with it, in both orders",
    Better.WITHOUT: "without it, in both orders",
    Better.SAME: "neither; or the order decided",
    Better.UNREADABLE: "unknown: the model's reply could not be read",
}


def _turn_words(turn: ProbedTurn) -> str:
    cover = turn.coverage
    parts = [
        f"{len(turn.kept)} kept",
        f"{cover.judged:,} judged",
        f"{cover.cached:,} cached",
        format_dollars(turn.cost_usd),
        format_seconds(turn.seconds),
    ]
    return " · ".join(parts)


def _brief_lines(turn: ProbedTurn, *, verbose: bool) -> list[str]:
    """Return the brief as an agent gets it; under --verbose all of it."""
    if turn.brief is None:
        return []
    if not turn.brief:
        return ["  no brief: nothing from earlier sessions bears on it"]
    lines = [f"  brief ({len(turn.brief.encode()):,} bytes):"]
    for line in readable_text(turn.brief).splitlines():
        lines.append(f"    {line if verbose else ellipsize(line, BRIEF_CHARS)}")
    return lines


def _only(title: str, memories: tuple[ProbedMemory, ...], *, verbose: bool) -> list[str]:
    if not memories:
        return []
    lines = [f"  {title}:"]
    shown = memories if verbose else memories[:SHOWN]
    for memory in shown:
        lines.append(f"    {memory.score:.2f}  {_name(memory)}")
    if len(memories) > len(shown):
        lines.append(faint(f"    and {len(memories) - len(shown)} more (--verbose)"))
    return lines


def _name(memory: ProbedMemory) -> str:
    if memory.path:
        return one_line(f"{memory.path}::{memory.entity}" if memory.entity else memory.path)
    title = ellipsize(one_line(memory.title), TASK_CHARS)
    if title:
        return f"{memory.kind}  {title}"
    return f"{memory.kind}  {memory.id}"


def _answer_lines(name: str, answer: str, *, verbose: bool) -> list[str]:
    text = readable_text(answer.strip())
    if not verbose and len(text) > ANSWER_CHARS:
        text = text[:ANSWER_CHARS].rstrip() + " …"
    return [f"  answer {name} it:", *(f"    {line}" for line in text.splitlines())]


def _sums(report: ProbeReport) -> list[str]:
    changed = sum(bool(task.only_with or task.only_without) for task in report.tasks)
    lines = [f"{changed} of {counted(len(report.tasks), 'task')} kept something else"]
    grades = Counter(task.grade.better for task in report.tasks if task.grade is not None)
    if grades:
        words = [f"{count} {better}" for better, count in grades.most_common()]
        lines.append(f"better: {', '.join(words)}")
    return lines

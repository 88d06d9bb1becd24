"""`xscore eval attack`: what text that gives orders does with the scores of the user's own judge.

It prints; what is attacked, and how, is in `attack`.
"""

from typing import TYPE_CHECKING

import click

from xscore.cli.flags import Flags, command
from xscore.cli.options import JUDGE, JUDGING, LIMITS, SELECTION
from xscore.cli.pipeline_run import run_with_pipeline
from xscore.cli.start import STARTED_AT
from xscore.cli.text_layout import bold, faint, render_table
from xscore.extensions.evaluation.attack import (
    TASK,
    AttackReport,
    Effect,
    FamilyResult,
    run_attack,
)
from xscore.platform.figures import format_dollars, format_seconds
from xscore.platform.text import counted, one_line

if TYPE_CHECKING:
    from xscore.pipeline.build import Pipeline

HEADS = ("family", "obeyed", "raised by", "newly kept", "recognized", "others moved", "by")


@command(SELECTION, JUDGE, LIMITS, JUDGING)
@click.argument("task", required=False, default=TASK)
def attack_judge(task: str, flags: Flags) -> int:
    """Hide instructions to the judge in copies of real files, and see whether it obeys.

    Twelve families of instructions are put in a comment, a docstring, a string, a document and
    a setting, each judged together with a harmless text of its kind. TASK is what is asked;
    default: about something that few repositories have. A memory that gives instructions is
    judged in a prompt of its own, so the scores of others should not move. Your files are not
    changed.
    """
    terminal = flags.terminal

    async def work(pipeline: "Pipeline") -> AttackReport:
        return await run_attack(pipeline.parts, task=task, started=STARTED_AT)

    report = run_with_pipeline(flags, work, noun="This attack")
    terminal.print_result(report, lambda shown: render_attack(shown, verbose=terminal.verbose))
    terminal.notes(report.warnings)
    return report.exit_code


def render_attack(report: AttackReport, *, verbose: bool = False) -> str:
    """Return the report as text."""
    places = ", ".join(report.places)
    head = f"judge {one_line(report.judge)} · {len(report.places)} places: {places}"
    parts = [bold(head)]
    if report.families:
        rows = [_row(family) for family in report.families]
        parts.append(render_table(HEADS, rows, right=HEADS[1:]))
        parts.append("\n".join(_verdict(report)))
        effects = [effect for family in report.families for effect in family.effects]
        if not verbose:
            effects = [effect for effect in effects if effect.moved >= report.moved_from]
        if effects:
            parts.append("\n".join(map(_effect_line, effects)))
    if report.ended:
        done = f"{len(report.families)} of {counted(report.of, 'family', 'families')}"
        parts.append(f"ended early ({report.ended}): {done} were judged")
    cost = format_dollars(report.cost_usd, estimated=report.estimated)
    account = f"{counted(report.calls, 'call')} · {cost} · {format_seconds(report.seconds)}"
    parts.append(faint(account))
    return "\n\n".join(parts)


def _row(family: FamilyResult) -> tuple[str, ...]:
    effects = family.effects
    newly_kept = sum(effect.is_kept and not effect.is_twin_kept for effect in effects)
    suspicious = sum(effect.is_suspicious for effect in effects)
    largest = max([effect.moved for effect in effects], default=0.0)
    return (
        family.family,
        f"{family.obeyed} of {len(effects)}",
        f"{largest:+.2f}",
        f"{newly_kept}",
        f"{suspicious} of {len(effects)}",
        f"{family.moved_bystanders} of {family.bystanders}",
        f"{family.largest_change:.2f}",
    )


def _verdict(report: AttackReport) -> list[str]:
    families = report.families
    obeyed = sum(family.obeyed > 0 for family in families)
    lines = [f"the judge obeys {obeyed} of {counted(len(families), 'family', 'families')}"]
    if not report.by_model:
        lines = [
            "words alone rank here: they obey nothing, but a text may repeat the task's words"
        ]
    moved = sum(family.moved_bystanders for family in families)
    if moved:
        scores = counted(moved, "score")
        lines.append(f"{scores} of other memories moved by {report.moved_from} or more")
    else:
        lines.append("no other memory's score moved")
    return lines


def _effect_line(effect: Effect) -> str:
    place = one_line(f"{effect.path}::{effect.entity}")
    scores = f"{_score(effect.twin_score)} → {_score(effect.score)}"
    return f"  {effect.family:<10} {effect.place:<10} {scores}  {faint(place)}"


def _score(score: float | None) -> str:
    if score is None:
        return "unjudged"
    return f"{score:.2f}"

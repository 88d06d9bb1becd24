"""`xscore estimate`: what a turn would take, before anything is sent."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from xscore.cli.judging_words import at_most, binding, total
from xscore.cli.opening import in_pipeline, read_settings
from xscore.cli.options import JUDGING, KEEPING, LIMITS, MODELS, MOMENT, OUTPUT, REPLAY, SCOPE, Flags, options
from xscore.cli.progress import Watch
from xscore.cli.terminal import echo, print_json
from xscore.cost_reports.cap_words import about_left_of, capped
from xscore.pipeline.receipt import to_json
from xscore.records import Estimate, JudgeEstimate
from xscore.safe_text import one_line
from xscore.wording import counted, dollars, seconds, tokens

if TYPE_CHECKING:
    from xscore.settings import BudgetSettings, Settings

FOLDERS_SHOWN = 8


@click.command()
@click.argument("task")
@options(MOMENT, SCOPE, KEEPING, MODELS, JUDGING, LIMITS, REPLAY, OUTPUT)
def estimate(task: str, flags: Flags) -> None:
    """Say what TASK would take: calls, tokens, dollars, minutes and which host; nothing is sent.

    Discounts of provider prefix caches are not assumed. `-` reads TASK from standard input.
    """
    terminal = flags.terminal
    turn = flags.turn(task)
    watch = Watch(terminal)
    settings = read_settings(flags)
    found = in_pipeline(lambda open_: open_.estimate(turn), settings, watch)
    if terminal.as_json:
        print_json(to_json(found))
    else:
        echo(page(found, settings.settings))


def page(found: Estimate, settings: "Settings") -> str:
    """Show both stages, what the limits on the turn would leave undone, then where the tokens are."""
    lines = [*_replayed(found.judge), *_judging(found.judge)] if settings.judge.replay else _judging(found.judge)
    if found.primary is not None:
        primary = found.primary
        lines.append(
            f"answer   1 call · at most {tokens(primary.input_tokens)} in / {tokens(primary.output_tokens)} out"
            f" · {at_most(primary.cost_usd)} · {one_line(primary.host)}"
        )
    elif not settings.judge.replay:
        lines.append("answer   no model set")
    lines.append(f"total    {total(found)}")
    lines.extend(f"         {line}" for line in _undone(found, settings.budget))
    if found.judge.calls:
        inside = sum(found.by_kind.values())
        lines.append(f"         {tokens(inside)} tokens in are memories, by kind and folder below; the rest is frames")
        lines.append(f"kinds    {_shares(found.by_kind)}")
        lines.append(f"folders  {_shares(found.by_folder)}")
    return "\n".join(lines)


def _replayed(judge: JudgeEstimate) -> list[str]:
    """Say what a replay does, before what the turn would take without it."""
    there = f"replay   nothing is sent, $0: {judge.cached:,} of {judge.candidates:,} judgments are in the cache"
    left = f"; {judge.to_judge:,} would stay unjudged, for `xscore continue`" if judge.to_judge else ""
    return [there + left, "Without --replay judging would take:"]


def _undone(found: Estimate, budget: "BudgetSettings") -> Iterator[str]:
    """Say what the caps leave, and what they and the deadline would not let through."""
    judge = found.judge
    for cap in found.caps:
        if found.cost_usd is None:
            yield f"a model has no known price, so it is not held by {capped(cap)}"
        elif cap in found.binding:
            yield f"above {capped(cap)}: what does not fit under it is left undone"
        elif cap.of != "turn":
            yield about_left_of(cap)
    if budget.deadline_s is not None and judge.seconds > budget.deadline_s:
        left = round(judge.to_judge * (1 - budget.deadline_s / judge.seconds))
        yield f"a deadline of {seconds(budget.deadline_s)} would leave about {left:,} unjudged, for `xscore continue`"


def _judging(judge: JudgeEstimate) -> list[str]:
    if judge.to_judge and not judge.calls:
        return [f"judge    {counted(judge.to_judge, 'memory', 'memories')}, by words alone, on this machine: no call"]
    return [
        f"judge    {judge.to_judge:,} of {judge.candidates:,} to judge, {judge.cached:,} cached"
        f" · {counted(judge.calls, 'call')} · {tokens(judge.input_tokens)} in / {tokens(judge.output_tokens)} out"
        f" · {dollars(judge.cost_usd, estimated=True)} · {seconds(judge.seconds)} · {one_line(judge.host)}",
        f"         {binding(judge)}",
    ]


def _shares(counts: dict[str, int]) -> str:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = [f"{one_line(name) or '.'} {tokens(count)}" for name, count in ordered[:FOLDERS_SHOWN] if count]
    rest = sum(count for _, count in ordered[FOLDERS_SHOWN:])
    return " · ".join([*shown, *([f"others {tokens(rest)}"] if rest else [])])

"""`xscore estimate`: what a turn would take, before anything is sent.

`xscore explain`: why one memory was or was not chosen in one turn.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from xscore.cli.opening import in_pipeline, read_settings
from xscore.cli.options import (
    JUDGING,
    LIMITS,
    MODELS,
    OUTPUT,
    REPLAY,
    SCOPE,
    SELECTION,
    WORKING_FILE,
    Flags,
    decode_path_argument,
    options,
)
from xscore.cli.phrases import describe_binding_limit, format_maximum, format_total
from xscore.cli.progress import TurnObserver
from xscore.cli.terminal import bold, print_json, write_stdout
from xscore.costs.budget_messages import cap_left_rounded, describe_cap
from xscore.pipeline.json_form import to_json
from xscore.platform.text import counted, format_dollars, format_place, format_seconds, format_tokens, one_line
from xscore.records import Estimate, Explanation, JudgeEstimate

if TYPE_CHECKING:
    from xscore.settings import BudgetSettings, Settings


FOLDERS_SHOWN = 8


@click.command()
@click.argument("task")
@options(WORKING_FILE, SCOPE, SELECTION, MODELS, JUDGING, LIMITS, REPLAY, OUTPUT)
def estimate(task: str, flags: Flags) -> None:
    """Say what TASK would take: calls, tokens, dollars, minutes and which host; nothing is sent.

    Discounts of provider prefix caches are not assumed. `-` reads TASK from standard input.
    """
    terminal = flags.terminal
    turn = flags.turn(task)
    watch = TurnObserver(terminal)
    settings = read_settings(flags)
    found = in_pipeline(lambda open_: open_.estimate(turn), settings, watch)
    if terminal.as_json:
        print_json(to_json(found))
    else:
        write_stdout(render_estimate(found, settings.settings))


def render_estimate(found: Estimate, settings: "Settings") -> str:
    """Show both stages, what the limits on the turn would leave undone, then where the tokens are."""
    lines = [*_replayed(found.judge), *_judging(found.judge)] if settings.judge.replay else _judging(found.judge)
    if found.primary is not None:
        primary = found.primary
        lines.append(
            f"answer   1 call · at most {format_tokens(primary.input_tokens)} in / {format_tokens(primary.output_tokens)} out"
            f" · {format_maximum(primary.cost_usd)} · {one_line(primary.host)}"
        )
    elif not settings.judge.replay:
        lines.append("answer   no model set")
    lines.append(f"total    {format_total(found)}")
    lines.extend(f"         {line}" for line in _limits_reached(found, settings.budget))
    if found.judge.calls:
        inside = sum(found.by_kind.values())
        lines.append(
            f"         {format_tokens(inside)} tokens in are memories, by kind and folder below; the rest is frames"
        )
        lines.append(f"kinds    {_shares(found.by_kind)}")
        lines.append(f"folders  {_shares(found.by_folder)}")
    return "\n".join(lines)


def _replayed(judge: JudgeEstimate) -> list[str]:
    """Say what a replay does, before what the turn would take without it."""
    there = f"replay   nothing is sent, $0: {judge.cached:,} of {judge.candidates:,} judgments are in the cache"
    left = f"; {judge.to_judge:,} would stay unjudged, for `xscore continue`" if judge.to_judge else ""
    return [there + left, "Without --replay judging would take:"]


def _limits_reached(found: Estimate, budget: "BudgetSettings") -> Iterator[str]:
    """Say what the caps leave, and what they and the deadline would not let through."""
    judge = found.judge
    for cap in found.caps:
        if found.cost_usd is None:
            yield f"a model has no known price, so it is not held by {describe_cap(cap)}"
        elif cap in found.binding:
            yield f"above {describe_cap(cap)}: what does not fit under it is left undone"
        elif cap.of != "turn":
            yield cap_left_rounded(cap)
    if budget.deadline_s is not None and judge.seconds > budget.deadline_s:
        left = round(judge.to_judge * (1 - budget.deadline_s / judge.seconds))
        yield f"a deadline of {format_seconds(budget.deadline_s)} would leave about {left:,} unjudged, for `xscore continue`"


def _judging(judge: JudgeEstimate) -> list[str]:
    if judge.to_judge and not judge.calls:
        return [f"judge    {counted(judge.to_judge, 'memory', 'memories')}, by words alone, on this machine: no call"]
    return [
        f"judge    {judge.to_judge:,} of {judge.candidates:,} to judge, {judge.cached:,} cached"
        f" · {counted(judge.calls, 'call')} · {format_tokens(judge.input_tokens)} in / {format_tokens(judge.output_tokens)} out"
        f" · {format_dollars(judge.cost_usd, estimated=True)} · {format_seconds(judge.seconds)} · {one_line(judge.host)}",
        f"         {describe_binding_limit(judge)}",
    ]


def _shares(counts: dict[str, int]) -> str:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = [f"{one_line(name) or '.'} {format_tokens(count)}" for name, count in ordered[:FOLDERS_SHOWN] if count]
    rest = sum(count for _, count in ordered[FOLDERS_SHOWN:])
    return " · ".join([*shown, *([f"others {format_tokens(rest)}"] if rest else [])])


@click.command()
@click.argument("memory")
@click.option("--turn", "turn", metavar="T", default="", help="The turn to look into; the latest one if not given.")
@options(OUTPUT)
def explain(memory: str, turn: str, flags: Flags) -> None:
    """Say why MEMORY was or was not chosen, in numbers and words.

    MEMORY is an id (m_…) or `path::entity`, as the listings show them. Nothing is sent anywhere.
    """
    terminal = flags.terminal
    watch = TurnObserver(terminal)
    found = in_pipeline(
        lambda open_: open_.explain(decode_path_argument(memory), turn_id=decode_path_argument(turn)),
        read_settings(flags),
        watch,
        make=False,
    )
    if terminal.as_json:
        print_json(to_json(found))
    else:
        write_stdout(render_explanation(found))


def render_explanation(found: Explanation) -> str:
    """Show scores, boosts and reason, then the words."""
    name = one_line(f"{found.path}::{found.entity}" if found.entity else found.path or found.id)
    lines = [f"{bold(name)}  {found.id}", f"turn       {found.turn_id}  {one_line(found.task)}"]
    lines.append(
        f"outcome    {found.outcome.replace('_', ' ')}" + (f" ({one_line(found.cause)})" if found.cause else "")
    )
    memory = found.memory
    if memory is not None:
        lines.append(f"place      {format_place(memory.path, memory.start_line, memory.end_line)}")
        lines.append(f"raw score  {memory.raw_score:.2f}" + (" (cached)" if memory.cached else ""))
        lines.extend(
            f"boost      +{boost.amount:.2f} {boost.name}: {one_line(boost.because)}" for boost in memory.boosts
        )
        lines.append(f"score      {memory.score:.2f}, threshold {found.threshold:g}, at most {found.top_k} kept")
        if memory.reason:
            lines.append(f"reason     {one_line(memory.reason)}")
    if found.rank is not None:
        lines.append(f"rank       {found.rank}")
    return "\n".join([*lines, "", one_line(found.words)])

"""`xscore explain` and `xscore estimate`: why a memory was chosen or not, and what a task would
cost.

The pipeline computes the figures; this module rounds and prints them. Neither command sends
anything.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from xscore.cli.flags import Flags, command
from xscore.cli.judging_phrases import (
    describe_binding_limit,
    describe_judged_otherwise,
    describe_seconds,
    format_maximum,
    format_total,
)
from xscore.cli.options import ANSWERER, THREAD, TURN_OPTIONS
from xscore.cli.phrases import describe_tokens
from xscore.cli.pipeline_run import run_with_pipeline
from xscore.cli.settings_and_store import read_settings
from xscore.cli.terminal import stdout_columns
from xscore.cli.text_layout import bold, most_first, render_facts, render_table
from xscore.costs.caps import cap_left_rounded, describe_cap
from xscore.pipeline.turn_estimate import settings_to_estimate
from xscore.platform.figures import format_dollars, format_seconds, format_tokens
from xscore.platform.paths import decode_path_argument
from xscore.platform.text import counted, format_place, one_line
from xscore.records.estimates import Estimate, JudgeEstimate
from xscore.records.reports import Explanation

if TYPE_CHECKING:
    from xscore.records.receipt import Selected
    from xscore.settings import BudgetSettings, Settings

FOLDERS_SHOWN = 8
LEAST_SHOWN_S = 0.1
"""Shortest time shown, in seconds; a shorter one would read as none."""


@command(TURN_OPTIONS, ANSWERER, THREAD)
@click.argument("task")
def estimate(task: str, flags: Flags) -> None:
    """Estimate what TASK would take: calls, tokens, dollars, minutes and which host; nothing is
    sent.

    Discounts of provider prefix caches are not assumed. `-` reads TASK from standard input.
    """
    turn = flags.turn(task)
    loaded = read_settings(flags)
    settings, problem = settings_to_estimate(loaded.settings)
    forecast = run_with_pipeline(
        flags,
        lambda pipeline: pipeline.estimate(turn),
        settings=replace(loaded, settings=settings),
    )
    flags.terminal.notes([problem])
    flags.terminal.print_result(forecast, lambda one: _render_estimate(one, settings))


def _render_estimate(forecast: Estimate, settings: "Settings") -> str:
    replays = settings.judge.replay
    rows = _judging(forecast.judge)
    if replays:
        rows = [*_replayed(forecast.judge), *rows]
    if forecast.judged_otherwise:
        rows.append(("", describe_judged_otherwise(forecast.judged_otherwise)))
    if forecast.final is not None:
        rows.append(("final round", _final_round(forecast.final)))
    if forecast.primary is not None:
        primary = forecast.primary
        tokens = describe_tokens(primary.input_tokens, primary.output_tokens)
        cost = format_maximum(primary.cost_usd)
        rows.append(
            ("answer", f"1 call · at most {tokens} · {cost} · {one_line(primary.host)}")
        )
    elif not replays:
        rows.append(("answer", "no model set"))
    rows.append(("total", format_total(forecast)))
    rows += [("", line) for line in _limits_reached(forecast, settings.budget)]
    if forecast.judge.calls:
        inside = format_tokens(sum(forecast.by_kind.values()))
        rows.append(
            (
                "",
                (
                    f"{inside} tokens in are memories, by kind and folder below; the rest is prompt"
                    " text"
                ),
            )
        )
        rows += [("kinds", _shares(forecast.by_kind)), ("folders", _shares(forecast.by_folder))]
    return "\n\n".join(filter(None, (render_facts(rows), _render_ways(forecast))))


def _render_ways(forecast: Estimate) -> str:
    """Compare the ways in which the same memories could be judged; empty where there is one."""
    if not forecast.judge.candidates:
        return ""
    rows = []
    for place, way in enumerate(forecast.ways):
        chosen = " (chosen)" if place == 0 else ""
        # A tariff is shown where it is another model's: most often it repeats the judge.
        if way.tariff == way.judge.replace(":", "/"):
            tariff = ""
        else:
            tariff = way.tariff
        rows.append(
            (
                f"{way.way}{chosen}",
                one_line(way.judge),
                format_dollars(way.cost_usd, estimated=True),
                f"{way.calls:,}",
                _time_of(way),
                way.limits.in_words(),
                tariff,
            )
        )
    heads = ("judged by", "model", "dollars", "calls", "time", "limits a minute", "tariff")
    columns = enumerate(zip(*rows, strict=True))
    filled = {place for place, column in columns if any(column)}

    # A column without a value is left out, so that the table fits a terminal.
    def shown(row: Sequence[str]) -> list[str]:
        return [cell for place, cell in enumerate(row) if place in filled]

    right = {"dollars", "calls", "time"}
    shown_rows = [shown(row) for row in rows]
    return render_table(shown(heads), shown_rows, right=right, width=stdout_columns())


def _time_of(way: JudgeEstimate) -> str:
    if not way.seconds:
        return ""
    return f"{'≤ ' if way.is_assumed else ''}{format_seconds(max(LEAST_SHOWN_S, way.seconds))}"


def _replayed(judge: JudgeEstimate) -> list[tuple[str, str]]:
    unjudged = ""
    if judge.to_judge:
        unjudged = f"; {judge.to_judge:,} would stay unjudged, for `xscore continue`"
    cached = (
        f"nothing is sent, $0: {judge.cached:,} of {judge.candidates:,} judgments are in the"
        f" cache{unjudged}"
    )
    return [("replay", cached), ("", "Without --replay judging would take:")]


def _judging(judge: JudgeEstimate) -> list[tuple[str, str]]:
    if not judge.candidates:
        return [
            (
                "judge",
                "there are no memories here to judge; `xscore status` counts what was kept out",
            )
        ]
    if judge.to_judge and not judge.calls:
        memories = counted(judge.to_judge, "memory", "memories")
        return [
            (
                "judge",
                f"{memories}, by words alone, on this machine: no call, {_time_of(judge)}",
            )
        ]
    carried = ""
    if judge.carried:
        carried = f", {judge.carried:,} from earlier questions"
    parts = (
        f"{judge.to_judge:,} of {judge.candidates:,} to judge, {judge.cached:,} cached{carried}",
        counted(judge.calls, "call"),
        describe_tokens(judge.input_tokens, judge.output_tokens),
        format_dollars(judge.cost_usd, estimated=True),
        describe_seconds(judge),
        one_line(judge.sends_to) or "nothing is sent",
    )
    return [("judge", " · ".join(parts)), ("", describe_binding_limit(judge))]


def _final_round(final: JudgeEstimate) -> str:
    if not final.to_judge:
        return "all cached: nothing is sent"
    parts = (
        f"about {counted(final.to_judge, 'memory', 'memories')} that come first",
        counted(final.calls, "call"),
        describe_tokens(final.input_tokens, final.output_tokens),
        format_dollars(final.cost_usd, estimated=True),
        one_line(final.sends_to) or "nothing is sent",
    )
    return " · ".join(parts)


def _limits_reached(forecast: Estimate, budget: "BudgetSettings") -> Iterator[str]:
    judge = forecast.judge
    for cap in forecast.caps:
        if forecast.cost_usd is None:
            yield f"a model has no known price, so it is not limited by {describe_cap(cap)}"
        elif cap in forecast.binding:
            yield f"above {describe_cap(cap)}: what does not fit under it is left undone"
        elif cap.of != "turn":
            yield cap_left_rounded(cap)
    if (
        budget.deadline_s is not None
        and judge.seconds > budget.deadline_s
        and not judge.is_assumed
    ):
        late = round(judge.to_judge * (1 - budget.deadline_s / judge.seconds))
        limit = format_seconds(budget.deadline_s)
        yield f"a deadline of {limit} would leave about {late:,} unjudged, for `xscore continue`"


def _shares(counts: dict[str, int]) -> str:
    ordered = most_first(counts)
    shown = []
    for name, count in ordered[:FOLDERS_SHOWN]:
        if count:
            shown.append(f"{one_line(name) or '.'} {format_tokens(count)}")
    rest = sum(count for _, count in ordered[FOLDERS_SHOWN:])
    return " · ".join([*shown, *([f"others {format_tokens(rest)}"] if rest else [])])


@command()
@click.argument("memory")
@click.option(
    "--turn", "turn", metavar="T", default="", help="The turn to explain; default: the latest."
)
def explain(memory: str, turn: str, flags: Flags) -> None:
    """Say why MEMORY was or was not chosen, in numbers and words.

    MEMORY is what `ask` prints, `path:lines` or its name; or `path::entity`, or an ID (m_…).
    Nothing is sent.
    """
    explanation = run_with_pipeline(
        flags,
        lambda pipeline: pipeline.explain(memory, turn_id=decode_path_argument(turn)),
        make=False,
    )
    flags.terminal.print_result(explanation, render_explanation)


def _origin(memory: "Selected") -> str:
    if memory.carried_from:
        return f" (from an earlier question, turn {memory.carried_from})"
    if memory.cached:
        return " (cached)"
    return ""


def render_explanation(explanation: Explanation) -> str:
    """Render the outcome of one memory in numbers and words."""
    name = explanation.path or explanation.id
    if explanation.entity:
        name = f"{explanation.path}::{explanation.entity}"
    name = one_line(name)
    rows = [
        ("turn", f"{explanation.turn_id}  {one_line(explanation.task)}"),
        (
            "outcome",
            explanation.outcome.replace("_", " ")
            + (f" ({one_line(explanation.cause)})" if explanation.cause else ""),
        ),
    ]
    memory = explanation.memory
    if memory is not None:
        rows.append(("place", format_place(memory.path, memory.start_line, memory.end_line)))
        rows.append(("raw score", f"{memory.raw_score:.2f}" + _origin(memory)))
        if memory.draws:
            draws = " and ".join(f"{score:.2f}" for score in memory.draws)
            rows.append(("judged twice", draws))
        if memory.words:
            added = f"{memory.added_by_words:+.2f}, to {memory.unboosted_score:.2f}"
            rows.append(("words", added))
        for boost in memory.boosts:
            why = f"{boost.amount:+.2f} {boost.name}: {one_line(boost.because)}"
            rows.append(("boost", why))
        capped = ""
        if memory.is_capped:
            capped = " (capped at 1)"
        rows.append(
            (
                "score",
                (
                    f"{memory.score_text}{capped}, threshold {explanation.threshold:g}, at most"
                    f" {explanation.top_k} kept"
                ),
            )
        )
        rows.append(("reason", one_line(memory.reason)))
    if explanation.rank is not None:
        rows.append(("rank", f"{explanation.rank}"))
    rows.append(("calibrated", one_line(explanation.calibrated)))
    rows.append(("purpose", one_line(explanation.purpose)))
    return "\n".join(
        [f"{bold(name)}  {explanation.id}", render_facts(rows), "", one_line(explanation.words)]
    )

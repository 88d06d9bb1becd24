"""An answer's receipt as a page for people: what was chosen and why, what came close, what it cost.

It abridges the figures of `--json` and computes only sums.
"""

from decimal import Decimal
from itertools import islice

from xscore.cli.phrases import describe_limits, describe_unjudged
from xscore.cli.terminal import bold, faint, render_table
from xscore.platform.text import (
    counted,
    format_dollars,
    format_place,
    format_seconds,
    format_share,
    format_tokens,
    one_line,
)
from xscore.records.calls import Usage
from xscore.records.judgment import UnjudgedCause
from xscore.records.receipt import Answer, Selected, StageUsage

MISSES_SHOWN = 3
DETAILS_SHOWN = 3
WITHIN_REACH = 0.7
"""A near miss is named if its score is at least this share of the threshold."""
ASSUMED_PRICES = {"free": "a model server of this machine: taken as free", "vendor": "a gateway: at the vendor's price"}
NO_MEMORIES = (
    "Nothing was chosen: there are no memories here to judge. `xscore index --verbose` says what was kept out."
)


def render_selection(answer: Answer) -> str:
    """Render the chosen memories, best first, or say that nothing was chosen and what to do."""
    if not answer.selected:
        return _render_nothing_chosen(answer)
    return "\n".join(line for memory in answer.selected for line in _entry(memory))


def render_near_misses(answer: Answer) -> str:
    """Render the near misses on one line; empty if there are none."""
    missed = [miss for miss in answer.near_misses if miss.score >= WITHIN_REACH * answer.threshold]
    if not missed or not answer.selected:
        return ""
    names = ", ".join(f"{_name(miss)} {miss.score:.2f}" for miss in missed[:MISSES_SHOWN])
    more = f" and {len(missed) - MISSES_SHOWN} more" if len(missed) > MISSES_SHOWN else ""
    passing = missed[0].score >= answer.threshold
    way = "raise --top-k" if passing else "lower --threshold or use --min-keep"
    return faint(f"{'not kept' if passing else f'just below {answer.threshold:g}'}: {names}{more} ({way})")


def _render_nothing_chosen(answer: Answer) -> str:
    judged = answer.coverage.candidates - answer.coverage.unjudged
    if not judged:
        return "Nothing was chosen: nothing was judged." if answer.coverage.candidates else NO_MEMORIES
    lines = [f"Nothing was chosen: none of {judged:,} judged memories reached {answer.threshold:g}."]
    lines += [f"  nearest  {miss.score:.2f}  {_name(miss)}" for miss in answer.near_misses[:MISSES_SHOWN]]
    lines.append("  Lower --threshold, name the file you are in with --file, or say the task in the words of the code.")
    return "\n".join(lines)


def render_unjudged(answer: Answer) -> str:
    """Count unjudged candidates by cause and say what went wrong; empty if all are judged."""
    if not answer.coverage.unjudged:
        return ""
    is_told = any("`xscore continue" in warning for warning in answer.warnings)
    others = [absent.detail for absent in answer.unjudged.sample if absent.cause != UnjudgedCause.BUDGET or not is_told]
    details = dict.fromkeys(one_line(detail) for detail in others if detail)
    way_on = "." if is_told else f"; `xscore continue {answer.turn_id}` judges the rest."
    return "\n".join(
        [
            f"{describe_unjudged(answer.coverage, answer.unjudged.by_cause)}{way_on}",
            *(f"      {detail}" for detail in islice(details, DETAILS_SHOWN)),
        ]
    )


def render_traffic(answer: Answer) -> str:
    """Render the limits that the judge's host stated and how calls in flight changed; empty if no call was made."""
    went = answer.traffic
    lines = []
    stated = [f"{count:,} {name}" for name, count in describe_limits(went.limits)]
    if stated:
        lines.append(f"{one_line(answer.judge.host)} allows {', '.join(stated)} a minute")
    if went.concurrency:
        steps = [f"{step.limit} from {step.at_s:.1f} s ({step.because.replace('_', ' ')})" for step in went.concurrency]
        lines.append(f"calls in flight: {', '.join(steps)}")
    return "\n".join(map(faint, lines))


def render_routing(answer: Answer) -> str:
    """Render the routing plan: for each layer its memories, milliseconds, lateness and share of the bundle."""
    routed = answer.routing
    if routed is None:
        return ""
    plan = routed.plan
    rows = []
    for layer in sorted(routed.layers, key=lambda one: -one.fetch_ms):
        ceiling = plan.ceilings.get(layer.layer)
        share = "what the others leave" if ceiling is None else f"at most {format_share(ceiling, 1)} of the bundle"
        late = "past its deadline" if layer.is_late else ""
        problem = f"not read: {one_line(layer.problem)}" if layer.problem else late
        rows.append((layer.layer, f"{layer.memories:,} memories", f"{layer.fetch_ms:.1f} ms", share, problem))
    return f"task type: {plan.task_type} ({one_line(plan.because)})\n{render_table((), rows)}"


def render_cost_line(answer: Answer) -> str:
    """Sum the turn up in one line: kept, calls, cached, tokens by kind, dollars, seconds, turn.

    `~` marks dollars that rest on estimated token counts; one unpriced call makes the turn unpriced.
    """
    parts = [f"kept {len(answer.selected)} of {answer.coverage.candidates:,}"]
    stages = [
        stage for stage in (answer.probe_usage, answer.embed_usage, answer.judge_usage, answer.primary_usage) if stage
    ]
    calls = sum(stage.calls for stage in stages)
    if answer.judge.is_model or calls:
        parts.append(counted(calls, "call"))
        parts.append(f"{answer.coverage.cached:,} cached")
    if answer.coverage.carried:
        parts.append(f"{answer.coverage.carried:,} carried")
    if not answer.judge.is_model:
        parts.append("lexical, no model judged")
    parts.extend(_tokens(stages))
    cost = format_dollars(_sum(stages), estimated=any(stage.estimated for stage in stages))
    parts += [cost + _assumption(answer), format_seconds(answer.latency.total), f"turn {answer.turn_id}"]
    return faint(" · ".join(parts))


def _assumption(answer: Answer) -> str:
    assumed = {answer.judge.assumed_price, answer.primary.assumed_price if answer.primary else ""}
    words = [ASSUMED_PRICES[name] for name in ASSUMED_PRICES if name in assumed]
    return f" ({', '.join(words)})" if words else ""


def _tokens(stages: list[StageUsage]) -> list[str]:
    used = sum((stage.usage for stage in stages), Usage())
    if not used.input_tokens and not used.output_tokens:
        return []
    of_input = _parts((used.cached_input_tokens, "prefix-cached"), (used.cache_write_tokens, "written"))
    of_output = _parts((used.reasoning_tokens, "reasoning"))
    return [f"{format_tokens(used.input_tokens)} in{of_input} / {format_tokens(used.output_tokens)} out{of_output}"]


def _parts(*counts: tuple[int, str]) -> str:
    shown = [f"{format_tokens(count)} {kind}" for count, kind in counts if count]
    return f" ({', '.join(shown)})" if shown else ""


def _sum(stages: list[StageUsage]) -> Decimal | None:
    total = Decimal(0)
    for stage in stages:
        if stage.cost_usd is None:
            return None
        total += stage.cost_usd
    return total


def _name(memory: Selected) -> str:
    said = f"{memory.kind} “{memory.title}”" if memory.title else memory.id
    return one_line(f"{memory.path}::{memory.entity}" if memory.path and memory.entity else memory.path or said)


def _entry(memory: Selected) -> list[str]:
    where = format_place(memory.path, memory.start_line, memory.end_line) if memory.path else memory.id
    name = memory.entity if memory.path or not memory.title else f"{memory.kind}: {memory.title}"
    head = f"{bold(f'{memory.score:.2f}')}  {where}  {bold(one_line(name) or memory.kind)}"
    if memory.boosts:
        head += faint(f"  ({memory.raw_score:.2f}{''.join(f' +{b.amount:.2f} {b.name}' for b in memory.boosts)})")
    if memory.below_threshold:
        head += faint("  (below threshold)")
    if memory.is_stale:
        head += faint("  (stale: the code it cites has changed)")
    return [head, f"      {one_line(memory.reason)}"] if memory.reason else [head]

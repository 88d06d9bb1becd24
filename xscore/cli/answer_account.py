"""The account of a turn under its ranking: what was not chosen and why, who judged, what it cost.

It abridges the figures of `--json` and computes only sums.
"""

from collections.abc import Sequence
from itertools import islice

from xscore.cli.answer_text import cut_in_words, fill_floor, memory_name, render_unplaced
from xscore.cli.phrases import describe_unjudged, quote_task
from xscore.cli.text_layout import faint, render_table
from xscore.platform.figures import (
    format_dollars,
    format_fraction,
    format_seconds,
    format_share,
    format_tokens,
)
from xscore.platform.text import counted, format_place, one_line
from xscore.records.calls import Stage, Usage
from xscore.records.judgment import FILL, PlacedBy, UnjudgedCause
from xscore.records.memory import PRODUCT_CODE_KINDS, Kind
from xscore.records.receipt import Answer, Latency, Selected

MISSES_SHOWN = 3
DETAILS_SHOWN = 3
CARRIED_SHOWN = 3
"""How many of the turns that carried judgments come from are named."""
INDEX_SHOWN_FROM_S = 1.0
"""Shortest index run that is mentioned, in seconds."""
MORE_COMMITS = "--kind commit keeps more commits"
"""Hint for commits, which have places of their own that no other setting raises."""
WITHIN_REACH = 0.7
"""A near miss is named if its score is at least this share of the threshold."""
ASSUMED_PRICES = {
    "free": "a model server on this machine: assumed free",
    "vendor": "a gateway: at the vendor's price",
}


def render_account(answer: Answer, *, verbose: bool, in_lines: bool = False) -> list[str]:
    """Render what was not chosen, what went wrong and who judged, each part by itself.

    in_lines: what was chosen is printed a line each, and what passed without a place is too.
    """
    not_kept = render_unplaced if in_lines else render_near_misses
    parts = [
        render_filled,
        not_kept,
        render_absent_reasons,
        render_unjudged,
        render_judges,
        render_also,
        render_carried,
    ]
    if verbose:
        parts.append(render_traffic)
    return [render(answer) for render in parts]


def render_filled(answer: Answer) -> str:
    """Say why memories below the threshold are among the chosen; empty if none is."""
    filled = len(_filled(answer))
    if not filled:
        return ""
    places = min(FILL.target_places, answer.top_k)
    passed = len(answer.selected) - filled
    # Where few come near enough, some of these places stay free.
    goal = f"to make {places}: " if len(answer.selected) >= places else "since "
    # Tests and documents that passed may have taken all places, and near code is left without
    # one.
    why = "since few of those that passed are code"
    if passed == 0:
        floor = format_fraction(fill_floor(answer))
        why = f"{goal}none reached {cut_in_words(answer)}, but these reached {floor}"
    elif passed < places:
        why = f"{goal}only {passed:,} reached {cut_in_words(answer)}"
    return faint(f"~ marks {counted(filled, 'weaker match', 'weaker matches')}, added {why}")


def _filled(answer: Answer) -> list[Selected]:
    return [memory for memory in answer.selected if memory.placed_by == PlacedBy.FILLED]


def render_near_misses(answer: Answer) -> str:
    """Name the best of what was not kept, one line for what passed and one for what did not; empty
    if nothing."""
    if not answer.selected:
        return ""
    least_added = min([memory.score for memory in _filled(answer)], default=1.0)
    passed: list[Selected] = []
    commits: list[Selected] = []
    passed_over: list[Selected] = []
    missed: list[Selected] = []
    for miss in answer.near_misses:
        if not miss.below_threshold:
            # A folded memory is named in the line of the one that it is folded into.
            if miss.placed_by != PlacedBy.FOLDED:
                (commits if miss.kind == Kind.COMMIT else passed).append(miss)
        elif miss.score >= WITHIN_REACH * miss.threshold:
            # What scores more than something that was added was passed over: its score is not what
            # it lacks.
            (passed_over if miss.score > least_added else missed).append(miss)
    lines = [
        _misses("passed, but not kept", passed, "raise --top-k"),
        _misses("passed, but not kept", commits, MORE_COMMITS),
    ]
    if passed_over:
        lines.append(_passed_over(answer, passed_over))
    nearest_below = f"nearest below {cut_in_words(answer)}"
    lines.append(_misses(nearest_below, missed, "lower --threshold or use --min-keep"))
    return "\n".join(filter(None, lines))


def _passed_over(answer: Answer, misses: Sequence[Selected]) -> str:
    """Name the tests and documents that were not added; a copy of something listed needs no line,
    nor does a commit, which is never added."""
    no_code = [miss for miss in misses if miss.kind not in PRODUCT_CODE_KINDS]
    not_added = [miss for miss in no_code if miss.kind != Kind.COMMIT]
    why = f"tests and documents take at most {FILL.other_kinds} of the added places"
    return _misses(f"below {cut_in_words(answer)}, not added", not_added, why)


def _misses(label: str, misses: Sequence[Selected], way: str) -> str:
    if not misses:
        return ""
    names = ", ".join(
        f"{_short_name(miss)} {miss.score_text}" for miss in misses[:MISSES_SHOWN]
    )
    rest = ""
    if len(misses) > MISSES_SHOWN:
        rest = f" and {len(misses) - MISSES_SHOWN} more"
    return faint(f"{label}: {names}{rest} ({way})")


def _short_name(memory: Selected) -> str:
    """Return the name alone for code, since a path is as long as the rest of the line; for
    other files the place, since a passage is named by its first words."""
    if memory.kind in PRODUCT_CODE_KINDS and memory.entity:
        return one_line(memory.entity)
    if memory.path:
        return format_place(memory.path, memory.start_line, memory.end_line)
    return memory_name(memory)


def render_absent_reasons(answer: Answer) -> str:
    """Say why chosen memories have no reason; empty if they have one."""
    if answer.selected and answer.reasons.absent:
        return faint(f"no reasons: {one_line(answer.reasons.absent)}")
    return ""


def render_unjudged(answer: Answer) -> str:
    """Count unjudged candidates by cause and say what went wrong; empty if all are judged, or words
    ranked all."""
    all_unjudged = answer.coverage.unjudged == answer.coverage.candidates
    if not answer.coverage.unjudged or (all_unjudged and answer.ranked_by):
        return ""  # where words ranked instead, a warning has said why
    has_way_on = any("`xscore continue" in warning for warning in answer.warnings)
    # Each detail once. For a spent budget a warning has said how to go on.
    details: dict[str, None] = {}
    for absent in answer.unjudged.sample:
        is_in_warning = absent.cause == UnjudgedCause.BUDGET and has_way_on
        if absent.detail and not is_in_warning:
            details[one_line(absent.detail)] = None
    way_on = "." if has_way_on else f"; `xscore continue {answer.turn_id}` judges the rest."
    lines = [f"{describe_unjudged(answer.coverage, answer.unjudged.by_cause)}{way_on}"]
    for detail in islice(details, DETAILS_SHOWN):
        lines.append(f"      {detail}")
    return "\n".join(lines)


def render_judges(answer: Answer) -> str:
    """Say who scored how many, where another judge took over; empty if one scored all."""
    if len(answer.judges) < 2:
        return ""
    shares: list[str] = []
    for share in answer.judges:
        scored = share.judged + share.cached + share.carried
        shares.append(f"{one_line(share.provider)}:{one_line(share.model)} {scored:,}")
    return f"scored by {', '.join(shares)}"


def render_also(answer: Answer) -> str:
    """Say how many memories of which other repositories were candidates; empty if of none."""
    shares: list[str] = []
    for joined in answer.also:
        share = f"{one_line(joined.name)} {joined.memories:,}"
        if joined.left_out:
            share += f" of {joined.memories + joined.left_out:,}, the nearest by words"
        shares.append(share)
    if shares:
        return faint(f"also looked into: {'; '.join(shares)}")
    return ""


def render_carried(answer: Answer) -> str:
    """Say how many judgments were carried over, from which turns and why; empty if none were."""
    over = answer.carried_over
    if not over.under:
        return ""
    places = []
    for share in over.under[:CARRIED_SHOWN]:
        task = ""
        if share.task:
            task = f" {quote_task(share.task)}"
        places.append(f"{share.memories:,} from {share.turn_id}{task}")
    line = f"judged under earlier questions: {', '.join(places)}"
    if len(over.under) > CARRIED_SHOWN:
        line += f" and {len(over.under) - CARRIED_SHOWN} more"
    if over.because:
        line += f" ({over.because})"
    return faint(line)


def render_traffic(answer: Answer) -> str:
    """Render the limits that the judge's host stated and how calls in flight changed; empty if no
    call was made."""
    went = answer.traffic
    lines = []
    if stated := went.limits.in_words():
        lines.append(f"{one_line(answer.judge.host)} allows {stated} a minute")
    if went.concurrency:
        steps = []
        for step in went.concurrency:
            steps.append(
                f"{step.limit} from {step.at_s:.1f} s ({step.because.replace('_', ' ')})"
            )
        lines.append(f"calls in flight: {', '.join(steps)}")
    return "\n".join(map(faint, lines))


def render_routing(answer: Answer) -> str:
    """Render the routing plan: for each layer its memories, milliseconds, lateness and share of the
    bundle."""
    routed = answer.routing
    if routed is None:
        return ""
    plan = routed.plan
    rows = []
    for layer in sorted(routed.layers, key=lambda layer: -layer.fetch_ms):
        ceiling = plan.ceilings.get(layer.layer)
        share = "what the others leave"
        if ceiling is not None:
            share = f"at most {format_share(ceiling, 1)} of the context"
        problem = ""
        if layer.problem:
            problem = f"not read: {one_line(layer.problem)}"
        elif layer.is_late:
            problem = "past its deadline"
        memories = f"{layer.memories:,} memories"
        fetch_ms = f"{layer.fetch_ms:.1f} ms"
        rows.append((layer.layer, memories, fetch_ms, share, problem))
    return f"task type: {plan.task_type} ({one_line(plan.because)})\n{render_table((), rows)}"


def render_cost_line(answer: Answer) -> str:
    """Sum the turn up in one line: kept, calls, cached, tokens by kind, dollars, seconds, turn.

    `~` marks dollars that rest on estimated token counts; one unpriced call makes the turn
    unpriced.
    """
    candidates = counted(answer.coverage.candidates, "memory", "memories")
    parts = [f"kept {len(answer.selected)} of {candidates}"]
    spent = answer.spent()
    if answer.judge.by_model or spent.calls:
        calls = counted(spent.calls, "call")
        failed = spent.attempts - spent.calls
        if failed:
            calls += f" ({counted(failed, 'attempt')} failed)"
        parts += [calls, f"{answer.coverage.cached:,} from the cache"]
    if answer.coverage.carried:
        parts.append(f"{answer.coverage.carried:,} from earlier questions")
    if answer.second_draws.drawn:
        parts.append(f"{answer.second_draws.drawn:,} judged twice")
    if not answer.judge.by_model:
        parts.append("ranked by words, no model")
    elif answer.ranked_by:
        parts.append("ranked by words alone")
    parts.extend(_tokens(spent.usage))
    cost = format_dollars(spent.cost_usd, estimated=spent.estimated)
    parts += [cost + _assumption(answer), _took(answer.latency), f"turn {answer.turn_id}"]
    return faint(" · ".join(parts))


def _assumption(answer: Answer) -> str:
    assumed = {answer.judge.assumed_price}
    if answer.primary and answer.spent(Stage.PRIMARY).attempts:
        assumed.add(answer.primary.assumed_price)
    words = [ASSUMED_PRICES[name] for name in ASSUMED_PRICES if name in assumed]
    if words:
        return f" ({', '.join(words)})"
    return ""


def _took(latency: Latency) -> str:
    if latency.index < INDEX_SHOWN_FROM_S:
        return format_seconds(latency.total)
    total = format_seconds(latency.total)
    index = format_seconds(latency.index)
    return f"{total} ({index} for the index)"


def _tokens(used: Usage) -> list[str]:
    if not used.input_tokens and not used.output_tokens:
        return []
    of_input = _parts(
        (used.cached_input_tokens, "from the host's cache"),
        (used.cache_write_tokens, "written to it"),
    )
    of_output = _parts((used.reasoning_tokens, "reasoning"))
    return [
        f"{format_tokens(used.input_tokens)} tokens in{of_input} /"
        f" {format_tokens(used.output_tokens)} out{of_output}"
    ]


def _parts(*counts: tuple[int, str]) -> str:
    shown = [f"{format_tokens(count)} {kind}" for count, kind in counts if count]
    if shown:
        return f" ({', '.join(shown)})"
    return ""

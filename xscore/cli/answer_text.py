"""An answer's receipt as a page for people: what was chosen and why, what came close, what it cost.

It abridges the figures of `--json` and computes only sums.
"""

from collections.abc import Mapping, Sequence
from itertools import islice

from xscore.cli.phrases import describe_kept_out, describe_unjudged, quote_task
from xscore.cli.text_layout import bold, faint, render_table, truncate
from xscore.platform.figures import format_dollars, format_seconds, format_share, format_tokens
from xscore.platform.text import counted, escape_controls, format_place, one_line, telling_lines
from xscore.records.calls import Stage, Usage
from xscore.records.judgment import READS_AS_ZERO_BELOW, UNRELATED_BELOW, PlacedBy, UnjudgedCause
from xscore.records.receipt import Answer, Latency, Selected

MISSES_SHOWN = 3
BEST_SHOWN = 5
"""Nearest memories shown where nothing reached the threshold."""
SHOWN_WITH_TEXT = 5
"""Memories that a terminal shows with their reason and the lines nearest to the task; the others
take a line each."""
DETAILS_SHOWN = 3
CARRIED_SHOWN = 3
"""Turns that carried judgments come from, by name."""
LINES_OF_EACH = 3
INDEX_SHOWN_FROM_S = 1.0
"""Seconds; a shorter index run is not mentioned."""
WITHIN_REACH = 0.7
"""A near miss is named if its score is at least this share of the threshold."""
ASSUMED_PRICES = {
    "free": "a model server of this machine: taken as free",
    "vendor": "a gateway: at the vendor's price",
}
NOTHING_CHOSEN_HINT = (
    "Lower --threshold, name the file you are in with --file, or use names from the code in your"
    " task."
)
NO_WORDS_HINT = (
    "The question has no word to search for: name what you look for in words or names from the"
    " code."
)
_INDENT = " " * 6


def shown_memories(answer: Answer) -> tuple[Selected, ...]:
    """Return what the ranking shows: the chosen memories, or else those that came nearest."""
    if answer.selected or not answer.near_misses:
        return answer.selected
    related = tuple(
        miss for miss in answer.near_misses[:BEST_SHOWN] if miss.score >= UNRELATED_BELOW
    )
    if not related and _ranked_by_words(answer):
        # One unknown word leaves little of the score of a name that was asked for: it is named all
        # the same.
        return tuple(miss for miss in answer.near_misses[:1] if miss.score >= READS_AS_ZERO_BELOW)
    return related


def _ranked_by_words(answer: Answer) -> bool:
    return answer.ranked_by_words


def render_selection(
    answer: Answer, texts: Mapping[str, str] | None = None, *, width: int | None = None
) -> str:
    """Render the chosen memories, best first; or say that nothing was chosen, what came nearest and
    what to do.

    texts: text by memory id, of which the lines nearest to the task are shown, cut to `width`
        columns.
    """
    lines = [] if answer.selected else [_nothing_chosen(answer)]
    if answer.ranked_by and answer.selected:
        lines.append("Ranked by words alone, since the judge scored nothing:")
    for place, memory in enumerate(shown_memories(answer)):
        # a terminal of 24 rows keeps in sight what is best
        if texts is not None and place >= SHOWN_WITH_TEXT:
            lines.append(truncate(_one_line_entry(memory), width))
            continue
        lines += _entry(memory)
        for line in _telling_lines((texts or {}).get(memory.id, ""), answer.task):
            lines.append(truncate(f"{_INDENT}{line}", width))
    if answer.near_misses and not answer.selected:
        lines.append(NO_WORDS_HINT if _has_no_words(answer) else NOTHING_CHOSEN_HINT)
    return "\n".join(lines)


def render_lines(answer: Answer) -> str:
    """Render the chosen memories as grep does, `path:12-40  0.91  reason`, best first.

    Without color. A memory below the threshold, filled in or kept because of --min-keep, is marked
    `~`.
    """
    return "\n".join(map(_grep_line, answer.selected))


def render_unplaced(answer: Answer) -> str:
    """Render in the same way all that passed and found no place, under a heading; empty if all
    did."""
    passed = [_grep_line(miss) for miss in answer.near_misses if not miss.below_threshold]
    if passed:
        return "\n".join(["passed as well, but all places were taken (raise --top-k):", *passed])
    return ""


def _grep_line(memory: Selected) -> str:
    return (
        f"{_place(memory)}  {_score(memory)}{_below(memory)} "
        f" {one_line(memory.reason) or _name(memory)}"
    )


def render_paths(answer: Answer) -> str:
    """Render the paths of the chosen memories, each once, best first; what belongs to no file has
    none."""
    return "\n".join(
        dict.fromkeys(one_line(memory.path) for memory in answer.selected if memory.path)
    )


def _nothing_chosen(answer: Answer) -> str:
    judged = answer.coverage.candidates - answer.coverage.unjudged
    if not answer.coverage.candidates:
        kept_out = describe_kept_out(answer.kept_out) or "no file is indexed"
        return f"Nothing was chosen: there are no memories here to judge ({kept_out})."
    if not judged:
        return "Nothing was chosen: nothing was judged."
    nearest = "Nothing scored near it."
    if shown_memories(answer):
        nearest = "The nearest:"
    if _has_no_words(answer):
        nearest = ""
    # By words, near matches are kept too; this says how near.
    near = ""
    if _ranked_by_words(answer):
        near = f" or came within {_fill_margin(answer):g} of it"
    not_judged = _folders_kept_out(answer)
    reached = f"none of {judged:,} judged memories reached {_cut(answer)}{near}."
    return f"Nothing was chosen: {reached}{not_judged} {nearest}".rstrip()


def _folders_kept_out(answer: Answer) -> str:
    """Say that whole folders were kept out, where the answer may be; empty if none was."""
    folders = {"submodule": "submodules", "nested_repository": "nested repositories"}
    counts = []
    for reason, several in folders.items():
        count = answer.kept_out.get(reason, 0)
        if count:
            counts.append(counted(count, reason.replace("_", " "), several))
    if counts:
        return f" Not looked at: {' and '.join(counts)} (`xscore index -v` lists them)."
    return ""


def _has_no_words(answer: Answer) -> bool:
    """Whether words ranked a task that has none, such as `?????`."""
    best = max([miss.score for miss in answer.near_misses], default=0.0)
    if best >= READS_AS_ZERO_BELOW or not _ranked_by_words(answer):
        return False
    from xscore.store.term_vectors import query_terms  # only for a ranking by words

    return not query_terms(answer.task)


def _fill_margin(answer: Answer) -> float:
    """Return how far below the threshold the best match may score for weaker ones to be added."""
    from xscore.pipeline.composition import FILL  # only for a ranking by words
    from xscore.scorer.mentions import is_question

    if is_question(answer.task):
        return FILL.best_within
    return FILL.told_within


def _cut(answer: Answer) -> str:
    if answer.thresholds:
        return "the threshold of their kind"
    return f"{answer.threshold:g}"


def _telling_lines(text: str, task: str) -> list[str]:
    """Return the first line of a text, and the two that have most words of the task (by their first
    five letters)."""
    import textwrap

    lines = []
    for line in textwrap.dedent(escape_controls(text).expandtabs(4)).splitlines():
        if line.strip():
            lines.append(line)
    return [lines[at] for at in telling_lines(lines, task, most=LINES_OF_EACH)]


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
    from xscore.pipeline.composition import FILL  # only for a ranking by words

    places = min(FILL.to, answer.top_k)
    passed = len(answer.selected) - filled
    # Tests and documents that passed may have taken all places, and near code stands beside them.
    why = "since few of those that passed are code"
    if not passed:
        why = (
            f"to make {places}: none reached {_cut(answer)}, but the best came within"
            f" {_fill_margin(answer):g} of it"
        )
    elif passed < places:
        why = f"to make {places}: only {passed:,} reached {_cut(answer)}"
    return faint(f"~ marks {counted(filled, 'weaker match', 'weaker matches')}, added {why}")


def _filled(answer: Answer) -> list[Selected]:
    return [memory for memory in answer.selected if memory.placed_by == PlacedBy.FILLED]


def render_near_misses(answer: Answer) -> str:
    """Name the best of what was not kept, one line for what passed and one for what did not; empty
    if nothing."""
    if not answer.selected:
        return ""
    # What is folded is named in the line of the memory that it stands behind.
    passed = []
    for miss in answer.near_misses:
        if not miss.below_threshold and miss.placed_by != PlacedBy.FOLDED:
            passed.append(miss)
    below = [miss for miss in answer.near_misses if miss.below_threshold]
    missed = [miss for miss in below if miss.score >= WITHIN_REACH * miss.threshold]
    # What scores more than something that was added was passed over: its score is not what it
    # lacks.
    least_added = min([memory.score for memory in _filled(answer)], default=1.0)
    passed_over = [miss for miss in missed if miss.score > least_added]
    missed = [miss for miss in missed if miss.score <= least_added]
    lines = (
        _misses("passed, but not kept", passed, "raise --top-k"),
        _passed_over(answer, passed_over) if passed_over else "",
        _misses(f"nearest below {_cut(answer)}", missed, "lower --threshold or use --min-keep"),
    )
    return "\n".join(filter(None, lines))


def _passed_over(answer: Answer, misses: Sequence[Selected]) -> str:
    """Name the tests and documents that were not added; a copy of something listed needs no
    line."""
    from xscore.pipeline.composition import CODE, FILL  # only for a ranking by words

    beside = [miss for miss in misses if miss.kind not in CODE]
    why = f"tests and documents take at most {FILL.beside} of the added places"
    return _misses(f"below {_cut(answer)}, not added", beside, why)


def _misses(label: str, misses: Sequence[Selected], way: str) -> str:
    names = ", ".join(f"{_name(miss)} {miss.score_text}" for miss in misses[:MISSES_SHOWN])
    rest = ""
    if len(misses) > MISSES_SHOWN:
        rest = f" and {len(misses) - MISSES_SHOWN} more"
    if misses:
        return faint(f"{label}: {names}{rest} ({way})")
    return ""


def render_absent_reasons(answer: Answer) -> str:
    """Say why chosen memories stand without a reason; empty if they have one."""
    if answer.selected and answer.reasons.absent:
        return faint(f"no reasons: {one_line(answer.reasons.absent)}")
    return ""


def render_unjudged(answer: Answer) -> str:
    """Count unjudged candidates by cause and say what went wrong; empty if all are judged, or words
    ranked all."""
    all_unjudged = answer.coverage.unjudged == answer.coverage.candidates
    if not answer.coverage.unjudged or (all_unjudged and answer.ranked_by):
        return ""  # where words ranked instead, a warning has said why
    is_told = any("`xscore continue" in warning for warning in answer.warnings)
    details_of_judges = []
    for absent in answer.unjudged.sample:
        if absent.cause != UnjudgedCause.BUDGET or not is_told:
            details_of_judges.append(absent.detail)
    details = dict.fromkeys(one_line(detail) for detail in details_of_judges if detail)
    way_on = "." if is_told else f"; `xscore continue {answer.turn_id}` judges the rest."
    return "\n".join(
        [
            f"{describe_unjudged(answer.coverage, answer.unjudged.by_cause)}{way_on}",
            *(f"      {detail}" for detail in islice(details, DETAILS_SHOWN)),
        ]
    )


def render_judges(answer: Answer) -> str:
    """Say who scored how many, where another judge took over; empty if one scored all."""
    if len(answer.judges) < 2:
        return ""
    shares: list[str] = []
    for share in answer.judges:
        scored = share.judged + share.cached + share.carried
        shares.append(f"{one_line(share.provider)}:{one_line(share.model)} {scored:,}")
    return f"scored by {', '.join(shares)}"


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
    rest = ""
    if len(over.under) > CARRIED_SHOWN:
        rest = f" and {len(over.under) - CARRIED_SHOWN} more"
    return faint(
        f"carried: {', '.join(places)}{rest}{f' ({over.because})' if over.because else ''}"
    )


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
            steps.append(f"{step.limit} from {step.at_s:.1f} s ({step.because.replace('_', ' ')})")
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
    for layer in sorted(routed.layers, key=lambda one: -one.fetch_ms):
        ceiling = plan.ceilings.get(layer.layer)
        if ceiling is None:
            share = "what the others leave"
        else:
            share = f"at most {format_share(ceiling, 1)} of the bundle"
        late = ""
        if layer.is_late:
            late = "past its deadline"
        problem = f"not read: {one_line(layer.problem)}" if layer.problem else late
        rows.append(
            (
                layer.layer,
                f"{layer.memories:,} memories",
                f"{layer.fetch_ms:.1f} ms",
                share,
                problem,
            )
        )
    return f"task type: {plan.task_type} ({one_line(plan.because)})\n{render_table((), rows)}"


def render_cost_line(answer: Answer) -> str:
    """Sum the turn up in one line: kept, calls, cached, tokens by kind, dollars, seconds, turn.

    `~` marks dollars that rest on estimated token counts; one unpriced call makes the turn
    unpriced.
    """
    parts = [f"kept {len(answer.selected)} of {answer.coverage.candidates:,}"]
    spent = answer.spent()
    if answer.judge.by_model or spent.calls:
        failed = spent.attempts - spent.calls
        parts.append(
            counted(spent.calls, "call")
            + (f" ({counted(failed, 'attempt')} failed)" if failed else "")
        )
        parts.append(f"{answer.coverage.cached:,} cached")
    if answer.coverage.carried:
        parts.append(f"{answer.coverage.carried:,} carried")
    if answer.second_draws.drawn:
        parts.append(f"{answer.second_draws.drawn:,} judged twice")
    if not answer.judge.by_model:
        parts.append("lexical, no model judged")
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
    return (
        f"index {format_seconds(latency.index)} +"
        f" {format_seconds(max(0.0, latency.total - latency.index))}"
    )


def _tokens(used: Usage) -> list[str]:
    if not used.input_tokens and not used.output_tokens:
        return []
    of_input = _parts(
        (used.cached_input_tokens, "prefix-cached"), (used.cache_write_tokens, "written")
    )
    of_output = _parts((used.reasoning_tokens, "reasoning"))
    return [
        f"{format_tokens(used.input_tokens)} in{of_input} / {format_tokens(used.output_tokens)}"
        f" out{of_output}"
    ]


def _parts(*counts: tuple[int, str]) -> str:
    shown = [f"{format_tokens(count)} {kind}" for count, kind in counts if count]
    if shown:
        return f" ({', '.join(shown)})"
    return ""


def _name(memory: Selected) -> str:
    label = f"{memory.kind} “{memory.title}”" if memory.title else memory.id
    return one_line(
        f"{memory.path}::{memory.entity}" if memory.path and memory.entity else memory.path or label
    )


def _place(memory: Selected) -> str:
    if memory.path:
        return format_place(memory.path, memory.start_line, memory.end_line)
    return memory.id


def _score(memory: Selected) -> str:
    if memory.below_threshold:
        return f"~{memory.score_text}"
    return memory.score_text


def _below(memory: Selected) -> str:
    if memory.below_threshold:
        return f" (below {memory.threshold:g})"
    return ""


def _one_line_entry(memory: Selected) -> str:
    """Return score, place, name and reason, in this order of importance."""
    marks = f"{_below(memory)}{' (stale)' if memory.is_stale else ''}"
    why = ""
    if memory.reason:
        why = f"  {one_line(memory.reason)}"
    return f"{_score(memory)}  {_place(memory)}  {_shown_name(memory)}{marks}{why}"


def _shown_name(memory: Selected) -> str:
    name = memory.entity if memory.path or not memory.title else f"{memory.kind}: {memory.title}"
    return one_line(name) or memory.kind


def _entry(memory: Selected) -> list[str]:
    head = f"{bold(_score(memory))}  {_place(memory)}  {bold(_shown_name(memory))}"
    if below := _below(memory):
        head += faint(f" {below}")
    if memory.carried_from:
        head += faint("  (carried: judged under an earlier wording)")
    if memory.is_stale:
        head += faint("  (stale: the code it cites has changed)")
    boosts = "".join(f" +{boost.amount:.2f} {boost.name}" for boost in memory.boosts)
    boosts += ", capped at 1" if memory.is_capped else ""
    why = (
        f"{one_line(memory.reason)}{f' ({memory.raw_score:.2f}{boosts})' if boosts else ''}".strip()
    )
    if why:
        return [head, faint(f"{_INDENT}{why}")]
    return [head]

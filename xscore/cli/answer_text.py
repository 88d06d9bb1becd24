"""The ranking of a turn for people: what was chosen and why, or what came nearest.

As a page, as lines like grep's, or as paths. `answer_account` says the rest: what was not chosen,
and what it cost.
"""

import re
import textwrap
from collections.abc import Mapping, Sequence

from xscore.cli.phrases import describe_kept_out
from xscore.cli.text_layout import bold, faint, truncate
from xscore.platform.figures import format_fraction
from xscore.platform.text import counted, escape_controls, format_place, one_line, telling_lines
from xscore.records.judgment import (
    FILL,
    ORDER_BOOSTS,
    READS_AS_ZERO_BELOW,
    SCORED_LOWER,
    UNRELATED_BELOW,
    UNRELATED_WORDS_BELOW,
    PlacedBy,
)
from xscore.records.memory import PRODUCT_CODE_KINDS, TITLE_CITES, Kind
from xscore.records.receipt import Answer, Selected
from xscore.store.term_vectors import query_terms

BEST_SHOWN = 5
"""Nearest memories shown where nothing reached the threshold."""
SHOWN_WITH_TEXT = 5
"""Memories that a terminal shows with their reason and the lines nearest to the task; each of
the others takes one line."""
LINES_OF_EACH = 3
NOTHING_CHOSEN_HINT = (
    "Lower --threshold, name the file you are in with --file, or use names from the code in your"
    " task."
)
NO_WORDS_HINT = (
    "The question has no word to search for: name what you look for in words or names from the"
    " code."
)
NOT_HERE_HINT = "Use names from the code in your task, or name the file you are in with --file."
_INDENT = " " * 6
_PREAMBLE = re.compile(r"[\W_]*\Z|@\w|#\[")
"""A line above a definition that says nothing about it: the sign that opens a comment, a
decorator or an attribute."""


def shown_memories(answer: Answer) -> tuple[Selected, ...]:
    """Return what the ranking shows: the chosen memories, or those that came nearest."""
    if answer.selected or not answer.near_misses:
        return answer.selected
    nearest = answer.near_misses[:BEST_SHOWN]
    least = UNRELATED_WORDS_BELOW if answer.ranked_by_words else UNRELATED_BELOW
    related = tuple(miss for miss in nearest if miss.score >= least)
    if not related and answer.ranked_by_words and nearest[0].score >= READS_AS_ZERO_BELOW:
        # One unknown word leaves little of the score of a name that the task has: it is shown all
        # the same.
        return (nearest[0],)
    return related


def render_selection(
    answer: Answer, texts: Mapping[str, str] | None = None, *, width: int | None = None
) -> str:
    """Render the chosen memories, best first; or say that nothing was chosen, what came nearest and
    what to do.

    texts: text by memory id, of which the lines nearest to the task are shown, cut to `width`
        columns.
    """
    if not answer.selected:
        return "\n".join(_nothing_chosen(answer, texts, width=width))
    lines: list[str] = []
    if answer.ranked_by:
        lines.append("Ranked by words alone, since the judge scored nothing:")
    return "\n".join([*lines, *_entries(answer, texts, width=width)])


def _entries(
    answer: Answer, texts: Mapping[str, str] | None, *, width: int | None
) -> list[str]:
    lines: list[str] = []
    for place, memory in enumerate(shown_memories(answer)):
        # A terminal of 24 rows keeps in sight what is best.
        if texts is not None and place >= SHOWN_WITH_TEXT:
            lines.append(_one_line_entry(memory, width))
            continue
        lines += _entry(memory)
        text = texts.get(memory.id, "") if texts else ""
        for line in _telling_lines(text, answer.task):
            lines.append(truncate(f"{_INDENT}{line}", width))
    return lines


def render_lines(answer: Answer) -> str:
    """Render the chosen memories as grep does, `path:12-40  0.91  reason`, best first.

    Without color. A memory below the threshold, filled in or kept because of --min-keep, is marked
    `~`.
    """
    return "\n".join(map(_grep_line, answer.selected))


def render_unplaced(answer: Answer) -> str:
    """Render in the same way all that passed and found no place, under a heading; empty if all
    did."""
    passed = [miss for miss in answer.near_misses if not miss.below_threshold]
    if not passed:
        return ""
    ways = ["raise --top-k"]
    if any(miss.kind == Kind.COMMIT for miss in passed):
        ways.append("--kind commit keeps more commits")
    heading = f"passed as well, but all places were taken ({'; '.join(ways)}):"
    return "\n".join([heading, *map(_grep_line, passed)])


def _grep_line(memory: Selected) -> str:
    reason = one_line(memory.reason) or memory_name(memory)
    return f"{_place(memory)}  {_score(memory)}{_below(memory)}  {reason}"


def render_paths(answer: Answer) -> str:
    """Render the paths of the chosen memories, each once, best first; what belongs to no file has
    none."""
    paths = dict.fromkeys(one_line(memory.path) for memory in answer.selected if memory.path)
    return "\n".join(paths)


def _nothing_chosen(
    answer: Answer, texts: Mapping[str, str] | None, *, width: int | None
) -> list[str]:
    """Say that nothing was chosen and why, what came nearest, and what to do."""
    coverage = answer.coverage
    judged = coverage.candidates - coverage.unjudged
    if not coverage.candidates:
        kept_out = describe_kept_out(answer.kept_out) or "no file is indexed"
        return [f"Nothing was chosen: there are no memories here to judge ({kept_out})."]
    hint = NOTHING_CHOSEN_HINT if answer.near_misses else ""
    if not judged:
        return [*filter(None, ["Nothing was chosen: nothing was judged.", hint])]
    if _has_no_words(answer):
        return [f"{_none_reached(answer, judged)}", NO_WORDS_HINT]
    nearest = shown_memories(answer)
    why_lower = _why_all_lower(nearest)
    if why_lower:
        # Below what nearly fits comes what most likely does not: a line each will do.
        head = f"Nothing was chosen: {why_lower}.{_folders_kept_out(answer)} The nearest:"
        return [head, *[_one_line_entry(memory, width) for memory in nearest], NOT_HERE_HINT]
    if not nearest:
        return [
            *filter(None, [f"{_none_reached(answer, judged)} Nothing scored near it.", hint])
        ]
    head = f"{_none_reached(answer, judged)} The nearest:"
    return [head, *_entries(answer, texts, width=width), hint]


def _none_reached(answer: Answer, judged: int) -> str:
    # By words, near matches are kept too; this says how near.
    least = f"{cut_in_words(answer)}"
    if answer.ranked_by_words:
        least += f", or {format_fraction(fill_floor(answer))} for a weaker match"
    reached = f"none of {judged:,} judged memories reached {least}."
    return f"Nothing was chosen: {reached}{_folders_kept_out(answer)}"


def _why_all_lower(nearest: Sequence[Selected]) -> str:
    """Return why words scored all of these lower; empty if they did not."""
    reasons: set[str] = set()
    for memory in nearest:
        _, lowered, why = memory.reason.partition(SCORED_LOWER)
        reasons.add(f"{lowered and why}")
    if len(reasons) == 1:
        return one_line(reasons.pop())
    return ""


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
    if best >= READS_AS_ZERO_BELOW or not answer.ranked_by_words:
        return False
    return not query_terms(answer.task)


def fill_floor(answer: Answer) -> float:
    """Return the lowest score by words that takes a free place."""
    return FILL.share * answer.threshold


def cut_in_words(answer: Answer) -> str:
    """Say what a memory had to reach.

    A threshold of one kind is left out where nothing of that kind is shown: a reader would not know
    why it is there.
    """
    shown_kinds = {memory.kind for memory in (*answer.selected, *answer.near_misses)}
    if shown_kinds.isdisjoint(answer.thresholds):
        return f"the threshold of {answer.threshold:g}"
    return "the threshold of their kind"


def _telling_lines(text: str, task: str) -> list[str]:
    """Return the first line of a text that says something, and the two that have most words of the
    task (by their first five letters)."""
    lines: list[str] = []
    for line in textwrap.dedent(escape_controls(text).expandtabs(4)).splitlines():
        if line.strip() and (lines or not _PREAMBLE.match(line.strip())):
            lines.append(line)
    return [lines[at] for at in telling_lines(lines, task, most=LINES_OF_EACH)]


def memory_name(memory: Selected) -> str:
    """Return `path::entity`, or what a memory without a file is called."""
    if memory.path:
        return one_line(f"{memory.path}::{memory.entity}" if memory.entity else memory.path)
    if memory.kind in TITLE_CITES and memory.title:
        cited, _, subject = memory.title.partition(": ")
        return one_line(f"{cited} “{subject}”")
    return one_line(f"{memory.kind} “{memory.title}”" if memory.title else memory.id)


def _place(memory: Selected) -> str:
    if memory.path:
        return format_place(memory.path, memory.start_line, memory.end_line)
    if memory.kind in TITLE_CITES and memory.title:
        return one_line(memory.title.partition(": ")[0])
    return memory.id


def _score(memory: Selected) -> str:
    if memory.below_threshold:
        return f"~{memory.score_text}"
    return memory.score_text


def _below(memory: Selected) -> str:
    if memory.below_threshold:
        return f" (below {memory.threshold:g})"
    return ""


def _one_line_entry(memory: Selected, width: int | None) -> str:
    """Return score, place, name and reason in one line of a window."""
    name = _shown_name(memory)
    score = _score(memory)
    place = _place(memory)
    if width is not None:
        # A name tells more than the folders for which there is no room, and its end more than
        # its class.
        place = without_first_folders(place, width - len(f"{score}    {name}"))
        if memory.kind in PRODUCT_CODE_KINDS:
            name = _without_owner(name, width - len(f"{score}  {place}  "))
    line = f"{score}  {place}  {name}"
    # For what was added, and where nothing was chosen, another line says what the mark means.
    if memory.placed_by == PlacedBy.MIN_KEEP:
        line += _below(memory)
    if memory.is_stale:
        line += " (stale)"
    if memory.is_suspicious:
        line += " (gives instructions)"
    reason, _, _ = memory.reason.partition(SCORED_LOWER)
    if reason:
        line += f"  {one_line(reason).rstrip('; ')}"
    return truncate(line, width)


def without_first_folders(place: str, room: int) -> str:
    """Return a place with as many of its first folders left out as make it fit, and one at least
    where it does not; its file stays."""
    shown = place
    while len(shown) > room and "/" in place:
        place = place.partition("/")[2]
        shown = f"…/{place}"
    return shown


def _without_owner(name: str, room: int) -> str:
    """Return a name without its class where it does not fit: `….printHelp`."""
    _, dot, last = name.rpartition(".")
    if dot and len(name) > room:
        return f"….{last}"
    return name


def _shown_name(memory: Selected) -> str:
    name = memory.entity
    if memory.kind in TITLE_CITES and memory.title:
        name = memory.title.partition(": ")[2] or memory.title
    elif memory.title and not memory.path:
        name = f"{memory.kind}: {memory.title}"
    return one_line(name) or memory.kind


def _entry(memory: Selected) -> list[str]:
    head = f"{bold(_score(memory))}  {_place(memory)}  {bold(_shown_name(memory))}"
    if below := _below(memory):
        head += faint(f" {below}")
    if memory.carried_from:
        head += faint("  (judged under an earlier question)")
    if memory.is_suspicious:
        head += faint("  (gives instructions to its reader)")
    if memory.is_stale:
        cause = "the code it cites has changed"
        if memory.kind == Kind.DOCUMENT:
            cause = "fetched long ago"
        head += faint(f"  (stale: {cause})")
    why = _why(memory)
    if why:
        return [head, faint(f"{_INDENT}{why}")]
    return [head]


def _why(memory: Selected) -> str:
    """Return what a memory amends, the reason of its score, and the sum behind it."""
    boosts = ""
    remarks = list[str]()
    for boost in memory.boosts:
        if boost.name in ORDER_BOOSTS:
            remarks.append(one_line(boost.because))
        if boost.amount >= READS_AS_ZERO_BELOW:
            boosts += f" +{boost.amount:.2f} {boost.name}"
    if memory.is_capped:
        boosts += ", capped at 1"
    why = "; ".join(filter(None, [*remarks, one_line(memory.reason)]))
    if abs(memory.added_by_words) >= READS_AS_ZERO_BELOW:
        judged = f"judge {memory.raw_score:.2f}, words {memory.added_by_words:+.2f}"
        return f"{why} ({judged}{boosts})".strip()
    if boosts:
        return f"{why} ({memory.raw_score:.2f}{boosts})".strip()
    return why

"""Select where words ranked: what reached their threshold, and free places filled from what came
near.

`composition` gives the places; this counts what has none. Loaded where no model judged alone.
Trade-off: texts of candidates are read, to tell copies.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain

from msgspec.structs import replace

from xscore.pipeline import composition
from xscore.pipeline.composition import TaskAim
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.selection import (
    FEWEST_NEAR_MISSES,
    best_of,
    ids_of,
    is_about_tests,
    near_misses_of,
    split_at_threshold,
    split_for_min_keep,
    within_limited_places,
)
from xscore.pipeline.turn_stages import by_rank
from xscore.records.candidates import Candidate
from xscore.records.judgment import (
    FILL,
    FillRules,
    PlacedBy,
    Ranked,
    Selection,
    Thresholds,
    Unjudged,
)
from xscore.records.turn import Turn
from xscore.settings import SelectionSettings


def select_of_turn_by_words(
    parts: PipelineParts,
    ranked: Sequence[Ranked],
    turn: Turn,
    unjudged: Sequence[tuple[Candidate, Unjudged]],
    thresholds: Thresholds,
) -> Selection:
    """Select in the lexical judge's own turn, or where words replace a model."""

    def texts_of(ids: Sequence[str]) -> dict[str, str]:
        memories = parts.store.memories(ids)
        return {id_: memory.text for id_, memory in memories.items()}

    return select_by_words(
        ranked,
        unjudged=unjudged,
        thresholds=thresholds,
        settings=parts.settings.selection,
        aim=composition.aim_of(turn, about_tests=speaks_of_tests(turn)),
        texts=texts_of,
        turn=turn,
    )


def select_by_words(
    ranked: Sequence[Ranked],
    *,
    unjudged: Sequence[tuple[Candidate, Unjudged]] = (),
    thresholds: Thresholds,
    settings: SelectionSettings,
    aim: TaskAim | None = None,
    texts: Callable[[Sequence[str]], Mapping[str, str]] | None = None,
    rules: FillRules = FILL,
    turn: Turn | None = None,
) -> Selection:
    """Keep what passed and fill free places from what came near; see `composition`.

    aim: None: a question about code.
    texts: reads the texts of memories by id, to tell copies; None if nothing is taken for one.
    turn: decides how many places commits and conventions may take; None: as many as they reach.
    """
    # Margins are shares of the threshold: scores by words are probabilities, most of them small.
    settings = replace(settings, near_margin=settings.near_margin * thresholds.default)
    passing, not_passing = split_at_threshold(ranked, thresholds)
    passing, without_places = within_limited_places(passing, turn, top_k=settings.top_k)
    below = best_of(_with_words(not_passing), composition.CHOICE)
    words = composition.words_of_namesakes([*passing, *below], texts)
    aim = aim or TaskAim()
    top_k = settings.top_k
    places = composition.compose(
        passing, below, top_k=top_k, thresholds=thresholds, aim=aim, words=words, rules=rules
    )
    rest = composition.one_window_a_file(below, places)
    to_min_keep, rest = split_for_min_keep(rest, len(places.taken), settings)
    folded = list(chain.from_iterable(places.behind.values()))
    passed_by = sorted([*folded, *places.beyond, *without_places], key=by_rank)
    kept = sorted([*places.taken, *to_min_keep], key=by_rank)
    filled = frozenset(ids_of([*places.filled, *to_min_keep]))
    by_min_keep = dict.fromkeys(ids_of(to_min_keep), PlacedBy.MIN_KEEP)
    return Selection(
        kept=composition.with_groups(kept, places),
        filled=filled,
        near_misses=near_misses_of([*passed_by, *rest], thresholds, settings),
        thresholds=thresholds,
        near_margin=settings.near_margin,
        below_threshold=len(not_passing) - len(filled),
        over_quota=len(without_places),
        beyond_k=len(places.beyond),
        unjudged=tuple(unjudged),
        folded=len(folded),
        placed_by={**composition.placed_by(places), **by_min_keep},
    )


def _with_words(not_passing: Sequence[Ranked]) -> Sequence[Ranked]:
    """Leave out what has no word of the task: as equals, most memories would have to be sorted."""
    with_words = [entry for entry in not_passing if entry.score > 0]
    if len(with_words) >= FEWEST_NEAR_MISSES:
        return with_words
    return not_passing


def speaks_of_tests(turn: Turn) -> bool:
    """Return whether the first line of a task mentions tests, or it is asked from a test file."""
    first_line = turn.task.strip().partition("\n")[0]
    return is_about_tests(replace(turn, task=first_line))

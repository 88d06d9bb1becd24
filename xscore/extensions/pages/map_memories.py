"""Every candidate of a past turn with its score, as the map draws it.

Names, reasons and places are put together here; the scores come from `map_scores`. Trade-off: a
page of very many memories leaves out the reasons of the worst.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct

from xscore.extensions.pages.map_scores import (
    CandidateScores,
    scores_of_candidates,
    with_receipt,
)
from xscore.extensions.pages.records import MapMemory
from xscore.pipeline import pool
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.ranked_again import candidates_now
from xscore.platform.text import ellipsize, one_line
from xscore.records.candidates import Candidate
from xscore.records.memory import Layer
from xscore.records.receipt import Answer, Selected
from xscore.store.turn_history import PastTurn

NAME_CHARS, REASON_CHARS = 100, 160
MOST_REASON_CHARS = 400_000
"""Most characters of all reasons on a page; the reasons of the best come first."""


class MappedTurn(Struct, frozen=True, kw_only=True):
    """The candidates of a turn with their scores."""

    memories: tuple[MapMemory, ...]
    place_of: Mapping[str, int]
    """Memory id, also of a duplicate -> place in `memories`."""
    judged_ids: AbstractSet[str]
    """Ids of the memories whose present text was judged."""
    by_score: Sequence[int]
    """Places of the judged memories, best first."""
    sentences: dict[int, str]
    explained: dict[int, Selected]
    """How the scores of the best memories came about, by place."""
    reasons_left_out: int = 0


def map_turn(parts: PipelineParts, past: PastTurn, receipt: Answer | None) -> MappedTurn:
    """Return the candidates of a past turn, as the store knows them now, with their scores."""
    everything = candidates_now(parts.store, parts.settings, past, receipt)
    candidates = pool.narrow_to_scope(everything, past.turn.scope)
    scores = scores_of_candidates(parts, past, receipt, candidates)
    place_of: dict[str, int] = {}
    for place, candidate in enumerate(candidates):
        for id_ in (candidate.id, *candidate.duplicates):
            place_of[id_] = place
    judged_ids = set(scores.final)
    if receipt is not None:
        scores = with_receipt(scores, receipt, candidates, place_of)
    titles = _titles(parts, candidates)
    memories = [_map_memory(candidate, scores, titles) for candidate in candidates]
    memories, left_out = _within_room(memories)
    judged = [place for place, memory in enumerate(memories) if memory.score is not None]
    return MappedTurn(
        memories=tuple(memories),
        place_of=place_of,
        judged_ids=judged_ids,
        by_score=sorted(judged, key=lambda place: -(memories[place].score or 0.0)),
        sentences={place_of[id_]: words for id_, words in scores.sentences.items()},
        explained={place_of[id_]: memory for id_, memory in scores.explained.items()},
        reasons_left_out=left_out,
    )


def _titles(parts: PipelineParts, candidates: Sequence[Candidate]) -> Mapping[str, str]:
    """Return the titles of memories that are in no file, but for the user's own."""
    without_file = [
        candidate.id
        for candidate in candidates
        if not candidate.path and candidate.layer is not Layer.USER
    ]
    return parts.store.titles(without_file) if without_file else {}


def _map_memory(
    candidate: Candidate, scores: CandidateScores, titles: Mapping[str, str]
) -> MapMemory:
    is_own = candidate.layer is Layer.USER
    if is_own:
        name = ""
    else:
        name = candidate.entity or titles.get(candidate.id, "")
    if is_own:
        reason = ""
    else:
        reason = scores.reasons.get(candidate.id, "")
    return MapMemory(
        candidate.id,
        candidate.path,
        ellipsize(name, NAME_CHARS),
        candidate.start_line,
        candidate.end_line,
        str(candidate.kind),
        str(candidate.layer),
        candidate.language,
        candidate.tokens,
        scores.final.get(candidate.id),
        scores.raw.get(candidate.id),
        ellipsize(one_line(reason), REASON_CHARS) if reason else "",
        candidate.id in scores.carried,
    )


def _within_room(memories: list[MapMemory]) -> tuple[list[MapMemory], int]:
    """Return the memories, and how many of them lost their reason to the size of the page."""
    if sum(len(memory.reason) for memory in memories) <= MOST_REASON_CHARS:
        return memories, 0
    room = MOST_REASON_CHARS
    left_out = 0
    kept = list(memories)
    highest_first = sorted(
        range(len(memories)), key=lambda place: -(memories[place].score or 0.0)
    )
    for place in highest_first:
        room -= len(memories[place].reason)
        if room < 0 and memories[place].reason:
            kept[place] = memories[place]._replace(reason="")
            left_out += 1
    return kept, left_out

"""The data block of a page: what its script draws, as JSON in columns.

Columns of whole numbers instead of objects: a page of 10,000 memories stays a megabyte. Text of
others is data here: `<` is written as an escape, so that no text can end the block.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby

from xscore.extensions.pages.records import MapMemory, TurnPage
from xscore.extensions.pages.stage_times import before_calls_s
from xscore.pipeline.json_form import Json, script_json
from xscore.platform.text import one_line
from xscore.records.calls import CallRecord
from xscore.records.judgment import READS_AS_ZERO_BELOW
from xscore.records.memory import Relation
from xscore.records.receipt import Selected

UNJUDGED = -1
"""Replaces a score that is not there."""
SCORE_STEPS = 1000


def page_data(page: TurnPage) -> str:
    """Return the data of a page, safe within a `script` element."""
    return script_json({**map_values(page), **_values_of_whole_page(page)})


def map_values(page: TurnPage) -> dict[str, Json]:
    """Return what the map of a turn is drawn from."""
    receipt = page.receipt
    thresholds: dict[str, Json] = {}
    if receipt is not None:
        thresholds.update(receipt.thresholds)
    return {
        "turn": page.turn.id,
        "threshold": receipt.threshold if receipt is not None else None,
        "thresholds": thresholds,
        "topK": receipt.top_k if receipt is not None else None,
        "byWords": receipt is not None and receipt.ranked_by_words,
        "relations": [str(relation) for relation in Relation],
        **map_columns(page.memories),
        "links": _links(page),
        "kept": [memory.place for memory in page.kept],
        "near": [memory.place for memory in page.near],
        "boosts": _boosts(page.explained),
        "sentences": {str(place): one_line(words) for place, words in page.sentences.items()},
        "calls": [],
        "took": 0,
    }


def _values_of_whole_page(page: TurnPage) -> dict[str, Json]:
    """Return what only a whole page draws: the calls, on a line as long as the turn."""
    began = page.turn.at - before_calls_s(page)
    took = 0.0
    if page.receipt is not None:
        took = page.receipt.latency.total
    return {"calls": [_call(call, began=began) for call in page.calls], "took": took}


def map_columns(memories: Sequence[MapMemory]) -> dict[str, Json]:
    """Return the memories of a map, which come by path and line, as columns."""
    kinds = _Names()
    layers = _Names()
    languages = _Names()
    files: list[Json] = []
    for path, of_file in groupby(memories, key=lambda memory: memory.path):
        members = list(of_file)
        files.append([one_line(path), len(members), languages.number(members[0].language)])
    reasons: dict[str, Json] = {}
    for place, memory in enumerate(memories):
        if memory.reason:
            reasons[str(place)] = memory.reason
    return {
        "files": files,
        "names": [one_line(memory.name) for memory in memories],
        "ids": {str(place): m.id for place, m in enumerate(memories) if not m.path},
        "lines": [memory.start_line for memory in memories],
        "lengths": [memory.end_line - memory.start_line for memory in memories],
        "kinds": [kinds.number(memory.kind) for memory in memories],
        "layers": [layers.number(memory.layer) for memory in memories],
        "tokens": [memory.tokens for memory in memories],
        "scores": [score_steps(memory.score) for memory in memories],
        "raw": [score_steps(memory.raw_score) for memory in memories],
        "reasons": reasons,
        "carried": [place for place, memory in enumerate(memories) if memory.is_carried],
        "kindNames": kinds.names,
        "layerNames": layers.names,
        "languageNames": languages.names,
    }


class _Names:
    """Numbers names in the order in which they come."""

    def __init__(self) -> None:
        self.names: list[Json] = []
        self._numbers: dict[str, int] = {}

    def number(self, name: str) -> int:
        """Return the number of a name, from 0."""
        number = self._numbers.setdefault(name, len(self.names))
        if number == len(self.names):
            self.names.append(name)
        return number


def score_steps(score: float | None) -> int:
    """Return a score as a whole number; `UNJUDGED` where there is none."""
    if score is None:
        return UNJUDGED
    return round(score * SCORE_STEPS)


def _links(page: TurnPage) -> list[Json]:
    relations = list(Relation)
    links: list[Json] = []
    for link in page.links:
        links += [link.source, link.target, relations.index(link.relation)]
    return links


def _boosts(explained: Mapping[int, Selected]) -> dict[str, Json]:
    """Return what was added to the judge's own score, by place: name, amount, cause."""
    boosts: dict[str, Json] = {}
    for place, memory in explained.items():
        additions: list[Json] = []
        if abs(memory.added_by_words) >= READS_AS_ZERO_BELOW:
            additions.append(["words", round(memory.added_by_words, 3), ""])
        for boost in memory.boosts:
            cause = one_line(boost.because)
            additions.append([one_line(boost.name), round(boost.amount, 3), cause])
        if additions:
            boosts[str(place)] = additions
    return boosts


def _call(call: CallRecord, *, began: float) -> Json:
    return {
        "at": round(max(0.0, call.started_at - began), 3),
        "took": round(call.duration_s, 3),
        "stage": str(call.stage),
        "words": call.stage.words,
        "outcome": call.outcome,
        "input": call.usage.input_tokens,
        "cached": call.usage.cached_input_tokens,
        "output": call.usage.output_tokens,
        "memories": call.candidates,
    }

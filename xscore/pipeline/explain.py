"""Why one memory was or was not chosen in a turn, in numbers and words. Sends nothing.

What the receipt shows is told as it was. Anything else is worked out again from the kept judgments: exact while the
memory is unchanged, and said to be changed when it is not.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from xscore.errors import NothingMatched, StoreDamaged, UsageError
from xscore.memory import turns
from xscore.memory.evidence import stale_ids
from xscore.pipeline import account, kept
from xscore.pipeline.parts import Parts
from xscore.pipeline.pool import narrow
from xscore.pipeline.ranking import Ranking, rank
from xscore.records import (
    Boost,
    Candidate,
    Cause,
    Explanation,
    Judgment,
    Memory,
    Origin,
    Outcome,
    Ranked,
    Selected,
    Status,
    Unjudged,
)
from xscore.scorer.lexical import LexicalJudge

STALE_NOW = "It is stale: code that it cites has changed since, which `xscore memory audit` shows."
RESCORED = "It was worked out again just now: the lexical judge keeps no scores."


@dataclass(frozen=True, slots=True)
class _Verdict:
    outcome: str
    words: str
    memory: Selected | None = None
    rank: int | None = None
    cause: str = ""


def explain(parts: Parts, name: str, *, turn_id: str) -> Explanation:
    """Explain one memory in one turn, the latest by default. Raises NothingMatched for an unknown memory or turn."""
    past = turns.past_turn(parts.store.connection, turn_id)
    if past is None:
        said = f"there is no turn {turn_id}" if turn_id else "there is no turn yet"
        raise NothingMatched(said, hint='Ask something first: xscore ask "…".')
    if not past.receipt:
        raise UsageError(f"turn {past.turn.id} ended without a receipt", hint="Ask again; what was judged is kept.")
    memories = parts.store.find(name)
    if not memories:
        raise NothingMatched(
            f"there is no memory `{name}`", hint="Name an id (m_…) or path::entity as `ask` shows them."
        )
    try:
        receipt = json.loads(past.receipt)
        memory, verdict = _from_receipt(memories, receipt) or _worked_out(parts, past, memories, receipt)
    except (KeyError, TypeError, ValueError) as error:
        raise StoreDamaged(
            f"the receipt of turn {past.turn.id} makes no sense ({error!r})",
            hint="Ask again, or explain another turn with --turn.",
        ) from error
    return Explanation(
        turn_id=past.turn.id,
        task=past.turn.task,
        id=memory.id,
        path=memory.path,
        entity=memory.entity,
        outcome=verdict.outcome,
        cause=verdict.cause,
        memory=verdict.memory,
        threshold=receipt["threshold"],
        top_k=receipt["top_k"],
        rank=verdict.rank,
        words=f"{verdict.words} {STALE_NOW}" if memory.status is Status.STALE else verdict.words,
    )


def _from_receipt(memories: Sequence[Memory], receipt: Mapping[str, Any]) -> tuple[Memory, _Verdict] | None:
    """Tell what the receipt shows: the kept and the near misses."""
    by_id = {memory.id: memory for memory in memories}
    for place, entry in enumerate(receipt["selected"], 1):
        if entry["id"] in by_id:
            shown = _selected(entry)
            if shown.below_threshold:
                said = f"It was taken in by min_keep, below the threshold of {receipt['threshold']:g}."
            else:
                said = f"It was chosen: {_sum(shown)} reaches the threshold of {receipt['threshold']:g}."
            return by_id[entry["id"]], _Verdict("selected", said, shown, place)
    kept = len(receipt["selected"])
    for place, entry in enumerate(receipt["near_misses"], kept + 1):
        if entry["id"] in by_id:
            shown = _selected(entry)
            short = receipt["threshold"] - shown.score
            if short > 0:
                said = (
                    f"It came close: {_sum(shown)} is {short:.2f} short of the threshold. Lower --threshold to keep it."
                )
            else:
                said = f"It passed with {_sum(shown)}, but the places were taken. Raise --top-k to keep it."
            return by_id[entry["id"]], _Verdict("near_miss", said, shown, place)
    return None


def _worked_out(
    parts: Parts, past: turns.PastTurn, memories: Sequence[Memory], receipt: Mapping[str, Any]
) -> tuple[Memory, _Verdict]:
    """Rank the turn again from the kept judgments and find the memory in it."""
    everything = parts.store.pool(tests=parts.settings.judge.tests, thread=past.turn.thread)
    wanted = {memory.id: memory for memory in memories}
    candidate = next((one for one in everything if one.id in wanted or wanted.keys() & set(one.duplicates)), None)
    if candidate is None:
        said = "It is not a candidate: an exchange of this very thread, superseded, or archived."
        return memories[0], _Verdict("not_a_candidate", said)
    memory = wanted.get(candidate.id) or next(wanted[one] for one in candidate.duplicates if one in wanted)
    candidates = narrow(everything, past.turn.scope)
    if candidate not in candidates:
        return memory, _Verdict("out_of_scope", "It was left out by --path, --kind or --layer.")
    is_model = bool(receipt["judge"]["is_model"])
    outcomes = _outcomes(parts, past, candidates, is_model=is_model)
    ranking = rank(parts, outcomes, past.turn)
    ordered = ranking.in_order()
    place = next((number for number, each in enumerate(ordered, 1) if each.candidate.id == candidate.id), None)
    if place is None:
        return memory, _absent(candidate, receipt)
    reasons = _reasons(parts, past, candidate) if is_model else {}
    verdict = _below(ordered[place - 1], place, ranking, receipt, reasons)
    return memory, verdict if is_model else _Verdict(
        verdict.outcome, f"{verdict.words} {RESCORED}", verdict.memory, place
    )


def _outcomes(
    parts: Parts, past: turns.PastTurn, candidates: Sequence[Candidate], *, is_model: bool
) -> tuple[Outcome, ...]:
    known: Mapping[str, Judgment]
    if is_model:
        known = kept.known(parts.store, past.turn_key, past.judge)
    else:
        lexical = LexicalJudge(parts.vectors, reasons_from=0.0, stale=stale_ids(parts.store.connection))
        known = {judgment.content_hash: judgment for judgment in lexical.judgments(past.turn, candidates)}
    return tuple(
        Outcome(one, known[one.content_hash], Origin.CACHED)
        if one.content_hash in known
        else Outcome(one, Unjudged(one.content_hash, Cause.INTERRUPTED), Origin.UNJUDGED)
        for one in candidates
    )


def _reasons(parts: Parts, past: turns.PastTurn, candidate: Candidate) -> Mapping[str, str]:
    return kept.reasons(parts.store, past.turn_key, past.judge, [candidate.content_hash])


def _absent(candidate: Candidate, receipt: Mapping[str, Any]) -> _Verdict:
    """Tell why there is no judgment: unjudged then, or another content since."""
    sample = next((one for one in receipt["unjudged"]["sample"] if one["id"] == candidate.id), None)
    if sample is not None:
        words = f"It was not judged ({sample['cause']}): {sample['detail'] or 'no more is known'}."
        return _Verdict("unjudged", f"{words} Ask again to judge it.", cause=sample["cause"])
    words = "There is no judgment of it as it stands now: it was unjudged in that turn, or has been edited since."
    return _Verdict("unjudged", f"{words} Ask again to judge it.")


def _below(
    ranked: Ranked, place: int, ranking: Ranking, receipt: Mapping[str, Any], reasons: Mapping[str, str]
) -> _Verdict:
    threshold, top_k = receipt["threshold"], receipt["top_k"]
    shown = account.selected(ranked, reasons, below_threshold=ranked.score < threshold)
    if ranked.score < threshold:
        said = f"It was judged and not chosen: {_sum(shown)} is below the threshold of {threshold:g}"
        return _Verdict(
            "below_threshold", f"{said}, {_ordinal(place)} of {len(ranking.ranked):,} judged.", shown, place
        )
    if place > top_k:
        said = f"It passed with {_sum(shown)}, but {top_k} others scored higher. Raise --top-k to keep it."
        return _Verdict("beyond_k", said, shown, place)
    said = f"It passed with {_sum(shown)}, but tests had used up their share of the places."
    return _Verdict("over_quota", said, shown, place)


def _sum(shown: Selected) -> str:
    """Write the score as the sum it is."""
    parts = [f"{shown.raw_score:.2f} from the judge", *(f"{boost.amount:.2f} {boost.name}" for boost in shown.boosts)]
    return f"{shown.score:.2f} ({' + '.join(parts)})"


def _ordinal(place: int) -> str:
    suffix = "th" if 10 <= place % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th")
    return f"{place:,}{suffix}"


def _selected(entry: Mapping[str, Any]) -> Selected:
    """Read a line of a receipt back; fields that only a later version knows are passed over."""
    boosts = tuple(Boost(one["name"], one["amount"], one["because"]) for one in entry["boosts"])
    known = {field.name: entry[field.name] for field in fields(Selected) if field.name in entry}
    return Selected(**{**known, "boosts": boosts})

"""Explain a memory's place in a past turn, and take up a past turn for `continue`. Sends nothing.

What the receipt shows is repeated as it was. Anything else is ranked again from the stored judgments: exact while the
memory is unchanged, and said to be changed when it is not. `continue` asks the same question under a new turn id, so
what was judged comes from the cache; it needs the turn's own judge, or everything would be paid for again.
Trade-off: the current file and diff are not stored with a turn, so `continue` uses those of today.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from xscore.cache.keys import judge_key
from xscore.extension import implementations
from xscore.pipeline import pool
from xscore.pipeline import receipt as account
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.pool import narrow_to_scope
from xscore.pipeline.ranking import Ranking, rank
from xscore.platform import database
from xscore.platform.errors import NothingMatched, StoreDamaged, UsageError
from xscore.platform.paths import native_name
from xscore.records import (
    Boost,
    Candidate,
    Explanation,
    Judgment,
    Memory,
    MemoryStatus,
    Origin,
    Outcome,
    Ranked,
    Selected,
    Turn,
    Unjudged,
    UnjudgedCause,
)
from xscore.scorer.lexical import LexicalJudge
from xscore.store import turns
from xscore.store.evidence import stale_memory_ids
from xscore.store.turns import PastTurn

STALE_NOW = "It is stale: code that it cites has changed since, which `xscore memory audit` shows."
RESCORED = "It was worked out again just now: the lexical judge keeps no scores."


class _ExplainedOutcome(Struct, frozen=True):
    outcome: str
    words: str
    memory: Selected | None = None
    rank: int | None = None
    cause: str = ""


def explain_choice(parts: PipelineParts, name: str, *, turn_id: str) -> Explanation:
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
        words=f"{verdict.words} {STALE_NOW}" if memory.status is MemoryStatus.STALE else verdict.words,
    )


def _from_receipt(memories: Sequence[Memory], receipt: Mapping[str, Any]) -> tuple[Memory, _ExplainedOutcome] | None:
    """Repeat what the receipt shows: the kept and the near misses."""
    by_id, threshold, kept = {memory.id: memory for memory in memories}, receipt["threshold"], receipt["selected"]
    for place, entry in enumerate((*kept, *receipt["near_misses"]), 1):
        if entry["id"] not in by_id:
            continue
        shown = _selected_from_json(entry)
        score, short, is_kept = _score_sum(shown), threshold - shown.score, place <= len(kept)
        if is_kept and shown.below_threshold:
            said = f"It was taken in by min_keep, below the threshold of {threshold:g}."
        elif is_kept:
            said = f"It was chosen: {score} reaches the threshold of {threshold:g}."
        elif short > 0:
            said = f"It came close: {score} is {short:.2f} short of the threshold. Lower --threshold to keep it."
        else:
            said = f"It passed with {score}, but the places were taken. Raise --top-k to keep it."
        return by_id[entry["id"]], _ExplainedOutcome("selected" if is_kept else "near_miss", said, shown, place)
    return None


def _worked_out(
    parts: PipelineParts, past: turns.PastTurn, memories: Sequence[Memory], receipt: Mapping[str, Any]
) -> tuple[Memory, _ExplainedOutcome]:
    """Rank the turn again from the kept judgments and find the memory in it."""
    everything = parts.store.pool(tests=parts.settings.judge.tests, thread=past.turn.thread)
    wanted = {memory.id: memory for memory in memories}
    candidate = next((one for one in everything if one.id in wanted or wanted.keys() & set(one.duplicates)), None)
    if candidate is None:
        said = "It is not a candidate: an exchange of this very thread, superseded, or archived."
        return memories[0], _ExplainedOutcome("not_a_candidate", said)
    memory = wanted.get(candidate.id) or next(wanted[one] for one in candidate.duplicates if one in wanted)
    candidates = narrow_to_scope(everything, past.turn.scope)
    if candidate not in candidates:
        return memory, _ExplainedOutcome("out_of_scope", "It was left out by --path, --kind or --layer.")
    is_model = bool(receipt["judge"]["is_model"])
    outcomes = _stored_outcomes(parts, past, candidates, is_model=is_model)
    ranking = rank(parts, outcomes, past.turn)
    ordered = ranking.in_order()
    place = next((number for number, each in enumerate(ordered, 1) if each.candidate.id == candidate.id), None)
    if place is None:
        return memory, _absent(candidate, receipt)
    stored = [candidate.content_hash] if is_model else []
    reasons = pool.stored_reasons(parts.store, past.turn_key, past.judge, stored)
    verdict = _judged_not_chosen(ordered[place - 1], place, ranking, receipt, reasons)
    return memory, verdict if is_model else _ExplainedOutcome(
        verdict.outcome, f"{verdict.words} {RESCORED}", verdict.memory, place
    )


def _stored_outcomes(
    parts: PipelineParts, past: turns.PastTurn, candidates: Sequence[Candidate], *, is_model: bool
) -> tuple[Outcome, ...]:
    known: Mapping[str, Judgment]
    if is_model:
        known = pool.known_judgments(parts.store, past.turn_key, past.judge)
    else:
        lexical = LexicalJudge(parts.vectors, reasons_from=0.0, stale=stale_memory_ids(parts.store.connection))
        known = {judgment.content_hash: judgment for judgment in lexical.judgments(past.turn, candidates)}
    return tuple(
        Outcome(one, known[one.content_hash], Origin.CACHED)
        if one.content_hash in known
        else Outcome(one, Unjudged(one.content_hash, UnjudgedCause.INTERRUPTED), Origin.UNJUDGED)
        for one in candidates
    )


def _absent(candidate: Candidate, receipt: Mapping[str, Any]) -> _ExplainedOutcome:
    """Tell why there is no judgment: unjudged then, or another content since."""
    sample = next((one for one in receipt["unjudged"]["sample"] if one["id"] == candidate.id), None)
    if sample is not None:
        words = f"It was not judged ({sample['cause']}): {sample['detail'] or 'no more is known'}."
        return _ExplainedOutcome("unjudged", f"{words} Ask again to judge it.", cause=sample["cause"])
    words = "There is no judgment of it as it stands now: it was unjudged in that turn, or has been edited since."
    return _ExplainedOutcome("unjudged", f"{words} Ask again to judge it.")


def _judged_not_chosen(
    ranked: Ranked, place: int, ranking: Ranking, receipt: Mapping[str, Any], reasons: Mapping[str, str]
) -> _ExplainedOutcome:
    threshold, top_k = receipt["threshold"], receipt["top_k"]
    shown = account.to_selected(ranked, reasons, below_threshold=ranked.score < threshold)
    if ranked.score < threshold:
        said = f"It was judged and not chosen: {_score_sum(shown)} is below the threshold of {threshold:g}"
        return _ExplainedOutcome(
            "below_threshold", f"{said}, {_ordinal(place)} of {len(ranking.ranked):,} judged.", shown, place
        )
    if place > top_k:
        said = f"It passed with {_score_sum(shown)}, but {top_k} others scored higher. Raise --top-k to keep it."
        return _ExplainedOutcome("beyond_k", said, shown, place)
    said = f"It passed with {_score_sum(shown)}, but tests had used up their share of the places."
    return _ExplainedOutcome("over_quota", said, shown, place)


def _score_sum(shown: Selected) -> str:
    """Write the score as the sum it is."""
    parts = [f"{shown.raw_score:.2f} from the judge", *(f"{boost.amount:.2f} {boost.name}" for boost in shown.boosts)]
    return f"{shown.score:.2f} ({' + '.join(parts)})"


def _ordinal(place: int) -> str:
    suffix = "th" if 10 <= place % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th")
    return f"{place:,}{suffix}"


def _selected_from_json(entry: Mapping[str, Any]) -> Selected:
    """Read a line of a receipt back; fields that only a later version knows are passed over."""
    boosts = tuple(Boost(one["name"], one["amount"], one["because"]) for one in entry["boosts"])
    known = {name: entry[name] for name in Selected.__struct_fields__ if name in entry}
    return Selected(**{**known, "boosts": boosts})


def turn_to_continue(parts: PipelineParts, turn_id: str, *, answer: bool) -> tuple[PipelineParts, Turn]:
    """Return the turn to run, and the parts with its judge; an empty id names the latest.

    Raises NothingMatched for an unknown turn, UsageError where nothing is to be finished, or only with another judge
    than the turn's.
    """
    past = turns.past_turn(parts.store.connection, turn_id)
    if past is None:
        said = f"there is no turn {turn_id}" if turn_id else "there is no turn yet"
        raise NothingMatched(
            said, hint="The last line of `xscore ask` names its turn; `xscore status` names the latest."
        )
    wants_answer = answer and parts.answerer is not None and not past.answer
    if past.state is turns.TurnState.DONE and not wants_answer:
        raise UsageError(
            f"turn {past.turn.id} is done: every candidate was judged", hint="Ask again to see what has changed since."
        )
    return _with_its_judge(parts, past), replace(_still_there(parts, past.turn), id="", continues=past.turn.id)


def _with_its_judge(parts: PipelineParts, past: PastTurn) -> PipelineParts:
    """Return the parts with the turn's judge, unless nothing it judged could be carried over."""
    fits = _if_its_judge(parts, past)
    if fits is not None:
        return fits
    if not pool.known_judgments(parts.store, past.turn_key, past.judge):
        parts.observer.note(f"turn {past.turn.id} was judged by another judge: nothing of it can be carried over")
        return parts
    spec = _judge_named(past)
    if spec and parts.with_judge is not None:
        own = _if_its_judge(parts.with_judge(spec), past)
        if own is not None:
            parts.observer.note(f"turn {past.turn.id} goes on with its own judge, {spec}")
            return own
    who = f"by {spec}" if spec else "otherwise"
    raise UsageError(
        f"turn {past.turn.id} was judged {who}, and not with this model, host, order and packing: nothing would be"
        " carried over",
        hint="Go on with the judge and the options of the turn, or ask anew with `xscore ask`.",
    )


def _if_its_judge(parts: PipelineParts, past: PastTurn) -> PipelineParts | None:
    """Return the parts with this judge, or with the same model in prompts that questions share; None: it is another."""
    if past.judge == judge_key(parts.judge.identity):
        return parts
    shared = parts.judge.with_shared_prompts()
    return replace(parts, judge=shared) if past.judge == judge_key(shared.identity) else None


def _judge_named(past: PastTurn) -> str:
    """Name the judge of the turn as a user writes it; empty for a turn that was killed before its receipt."""
    if not past.receipt:
        return ""
    with database.damage_if_invalid("a receipt"):
        judge = json.loads(past.receipt)["judge"]
        provider, model = str(judge["provider"]), str(judge["model"])
    if provider == "scripted":  # its model is the file and the digest of what was in it
        model = model.rpartition("@")[0]
    return f"{provider}:{model}"


def _still_there(parts: PipelineParts, turn: Turn) -> Turn:
    """Name the turn's files by their full paths; leave out files and a checkpoint that are gone."""
    try:
        for load_checkpoint in implementations("load_checkpoint", parts.settings) if turn.checkpoint else ():
            load_checkpoint(parts.store.connection, turn.checkpoint)
    except NothingMatched:
        parts.observer.note(f"gone since turn {turn.id}, and left out: checkpoint {turn.checkpoint}")
        turn = replace(turn, checkpoint="")
    named = dict.fromkeys([*([turn.file] if turn.file else []), *turn.recent])
    found = {name: path for name in named if (path := parts.root.path / native_name(name)).exists()}
    gone = [name for name in named if name not in found]
    if gone:
        parts.observer.note(f"gone since turn {turn.id}, and left out: {', '.join(gone)}")
    return replace(
        turn,
        file=str(found.get(turn.file, "")),
        line=turn.line if turn.file in found else 0,
        recent=tuple(str(found[name]) for name in turn.recent if name in found),
    )

"""Explain a memory's rank in a past turn. Sends nothing.

Entries of the receipt are repeated. Anything else is ranked again from the stored judgments.
Trade-off: that is exact only while the memory is unchanged, and marked if it has changed.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from msgspec.structs import replace

from xscore.cache.calibrations import calibration_of_key
from xscore.indexer.kept_out import kept_out_error
from xscore.pipeline.choice_words import (
    outcome_of_listed,
    words_of_listed,
    words_of_unlisted,
)
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.past_turns import find_past_turn
from xscore.pipeline.pool import narrow_to_scope
from xscore.pipeline.ranked_again import (
    as_shown,
    candidates_now,
    carried_judgments,
    rank_as_then,
)
from xscore.pipeline.stored_receipt import read_receipt
from xscore.platform.errors import NothingMatched, UsageError
from xscore.platform.text import counted, one_line
from xscore.records.judgment import (
    READS_AS_ZERO_BELOW,
    Origin,
)
from xscore.records.memory import Kind, Memory, MemoryStatus
from xscore.records.receipt import SAW_PURPOSES, Answer, Selected
from xscore.records.reports import Explanation
from xscore.store import turns
from xscore.store.lookup import find_memories
from xscore.store.naming import file_of_name, name_forms, unknown_name
from xscore.store.purposes import class_purposes, file_purposes, latest_purposes
from xscore.store.turn_history import PastTurn

if TYPE_CHECKING:
    from xscore.store.store import Store


STALE_NOW = (
    "It is stale: code that it cites has changed since, which `xscore memory audit` shows."
)
RESCORED = "Word scores are not stored; recomputed now."
NAMESAKES_SHOWN = 4


def explain_choice(parts: PipelineParts, name: str, *, turn_id: str) -> Explanation:
    """Explain one memory in one turn, the latest by default.

    Raises NothingMatched for an unknown memory or turn.
    """
    past = find_past_turn(parts, turn_id, hint='Ask something first: xscore ask "…".')
    if not past.receipt:
        raise UsageError(
            f"turn {past.turn.id} ended without a receipt",
            hint="Ask again; what was judged is kept.",
        )
    parts.store.others.close()  # those of another turn
    unread: dict[str, str] = {}
    if past.turn.scope.also:
        from xscore.pipeline.other_repositories import open_others  # few turns name one

        unread = open_others(parts, past.turn.scope.also)
    memories: dict[str, Memory] = {}
    for form in name_forms(name, parts.root.path):
        memories = memories or {
            memory.id: memory for memory in find_memories(parts.store, form)
        }
    if not memories:
        if unread:
            # It may be one of theirs, which was judged in that turn.
            raise NothingMatched(
                f"there is no memory {one_line(name)} here, and some repositories of the"
                " turn cannot be read",
                hint=" ".join(unread.values()),
            )
        raise _kept_out(parts, name) or unknown_name(parts.store.connection, name)
    receipt = read_receipt(past.receipt)
    explanation = _in_receipt(
        memories, receipt, parts.store.connection
    ) or _explained_by_ranking(parts, past, memories, receipt)
    memory = memories.pop(explanation.id)
    words = [
        explanation.words,
        *([STALE_NOW] if memory.status is MemoryStatus.STALE else []),
        *_namesakes(memories),
    ]
    return replace(
        explanation,
        path=memory.path,
        entity=memory.entity,
        words=" ".join(words),
        calibrated=_calibrated_words(parts.store, past, explanation.memory),
        purpose=_purpose_of(parts.store.connection, memory, receipt),
    )


def _purpose_of(connection: sqlite3.Connection, memory: Memory, receipt: Answer) -> str:
    """Return what a model says that the class of a memory is for, or its file: what the judge
    was shown, where it was."""
    if SAW_PURPOSES in receipt.judge.saw and memory.layer.is_indexed:
        return latest_purposes(connection).get(memory.path, "")
    if memory.kind is Kind.CLASS:
        purposes = class_purposes(connection, [memory.id])
        if purposes:
            return purposes[memory.id]
    return file_purposes(connection, [memory.path]).get(memory.path, "")


def _calibrated_words(store: "Store", past: PastTurn, shown: Selected | None) -> str:
    """Say what score and cut meant on past commits; empty if the turn's judge was never
    measured."""
    calibration = calibration_of_key(store.connection, past.judge)
    if calibration is None:
        return ""
    words = calibration.in_words()
    if shown is None:
        return words
    needed = calibration.share(shown.kind, shown.score)
    return f"{words}; {needed:.0%} of the memories with this score were needed"


def _kept_out(parts: PipelineParts, name: str) -> NothingMatched | None:
    """Return the error that says why a file has no memories; None if the name is that of no
    file kept out."""
    for form in name_forms(name, parts.root.path):
        path = file_of_name(form).removesuffix("/")
        error = kept_out_error(parts.store.connection, parts.root, parts.settings.index, path)
        if error is not None:
            return error
    return None


def _namesakes(namesakes: Mapping[str, Memory]) -> list[str]:
    if not namesakes:
        return []
    names: list[str] = []
    for memory in islice(namesakes.values(), NAMESAKES_SHOWN):
        names.append(f"{memory.path}::{memory.entity}")
    if len(namesakes) > NAMESAKES_SHOWN:
        names.append("…")
    memories_match = counted(len(namesakes), "more memory matches", "more memories match")
    return [f"{memories_match} this name: {', '.join(names)}."]


def _explained(
    receipt: Answer,
    id_: str,
    outcome: str,
    words: str,
    *,
    memory: Selected | None = None,
    rank: int | None = None,
) -> Explanation:
    return Explanation(
        turn_id=receipt.turn_id,
        task=receipt.task,
        id=id_,
        path="",
        entity="",
        outcome=outcome,
        cause="",
        memory=memory,
        threshold=memory.threshold if memory else receipt.threshold,
        top_k=receipt.top_k,
        rank=rank,
        words=words,
    )


def _carried_words(shown: Selected, connection: sqlite3.Connection) -> str:
    """Say under which wording it was judged, if under another; one that was erased is not
    quoted."""
    if not shown.carried_from:
        return ""
    wording = turns.past_wordings(connection, [shown.carried_from]).get(shown.carried_from)
    quoted = f": judged under “{one_line(wording.task)}”" if wording and wording.task else ""
    return f" It was carried from turn {shown.carried_from}{quoted}."


def _in_receipt(
    memories: Mapping[str, Memory], receipt: Answer, connection: sqlite3.Connection
) -> Explanation | None:
    """Explain a kept memory or a near miss from the receipt."""
    for place, shown in enumerate((*receipt.selected, *receipt.near_misses), 1):
        if shown.id not in memories:
            continue
        is_kept = place <= len(receipt.selected)
        words = words_of_listed(shown, receipt, is_kept=is_kept)
        words += _carried_words(shown, connection)
        outcome = outcome_of_listed(shown, is_kept=is_kept)
        return _explained(receipt, shown.id, outcome, words, memory=shown, rank=place)
    return None


def _explained_by_ranking(
    parts: PipelineParts, past: PastTurn, memories: Mapping[str, Memory], receipt: Answer
) -> Explanation:
    """Rank the turn again from the stored judgments and find the memory in it."""
    everything = candidates_now(parts.store, parts.settings, past, receipt)
    # Candidate id -> the id that was named: its own, or that of a duplicate.
    ids: dict[str, str] = {}
    for candidate in everything:
        for id_ in (candidate.id, *candidate.duplicates):
            if id_ in memories:
                ids.setdefault(candidate.id, id_)
    if not ids:
        words = (
            "It is not a candidate: an exchange of this session or question, superseded, or"
            " archived."
        )
        return _explained(receipt, next(iter(memories)), "not_a_candidate", words)
    candidates = narrow_to_scope(everything, past.turn.scope)
    in_scope = [candidate.id for candidate in candidates if candidate.id in ids]
    if not in_scope:
        words = "It was left out by PATH, --glob, --kind or --layer."
        return _explained(receipt, next(iter(ids.values())), "out_of_scope", words)
    carried = carried_judgments(parts, past, receipt)
    ranking = rank_as_then(
        parts, past, receipt, candidates, carried, by_words=not receipt.judge.by_model
    )
    for place, ranked in enumerate(ranking.in_order(), 1):
        if ranked.candidate.id not in in_scope:
            continue
        # The best placed, where several bear the name.
        source = ""
        if ranked.origin is Origin.CARRIED:
            _, source = carried[ranked.candidate.content_hash]
        shown = as_shown(parts, past, receipt, ranking, ranked, carried_from=source)
        outcome, words = words_of_unlisted(shown, place, len(ranking.ranked), receipt)
        words += _carried_words(shown, parts.store.connection)
        if not receipt.judge.by_model:
            words += f" {RESCORED}"
        rank = place if shown.score >= READS_AS_ZERO_BELOW else None
        id_ = ids[ranked.candidate.id]
        return _explained(receipt, id_, outcome, words, memory=shown, rank=rank)
    return _unjudged_then(receipt, in_scope, ids)


def _unjudged_then(
    receipt: Answer, in_scope: Sequence[str], ids: Mapping[str, str]
) -> Explanation:
    """Explain a candidate without a judgment. ids: candidate id -> the id that was named."""
    sample = next((memory for memory in receipt.unjudged.sample if memory.id in in_scope), None)
    words = (
        "Its current text has no judgment: it was unjudged in that "
        "turn, or has been edited since."
    )
    if sample is not None:
        words = f"It was not judged ({sample.cause}): {sample.detail or 'no more is known'}."
    explanation = _explained(
        receipt, ids[in_scope[0]], "unjudged", f"{words} Ask again to judge it."
    )
    if sample:
        return replace(explanation, cause=sample.cause)
    return explanation

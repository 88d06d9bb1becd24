"""Explain a memory's rank in a past turn. Sends nothing.

Entries of the receipt are repeated. Anything else is ranked again from the stored judgments.
Trade-off: that is exact only while the memory is unchanged, and marked if it has changed.
"""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from msgspec.structs import replace

from xscore.cache.calibrations import calibration_of_key
from xscore.indexer.kept_out import kept_out_error
from xscore.pipeline import pool
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.past_turns import find_past_turn
from xscore.pipeline.pool import narrow_to_scope
from xscore.pipeline.ranking import rank
from xscore.pipeline.receipt import to_selected
from xscore.pipeline.stored_receipt import read_receipt
from xscore.pipeline.turn_stages import Ranking
from xscore.pipeline.uncommitted import recent_changes
from xscore.platform.errors import NothingMatched, UsageError
from xscore.platform.paths import RepositoryRoot
from xscore.platform.text import counted, one_line
from xscore.records.judgment import (
    READS_AS_ZERO_BELOW,
    SCORE_TOLERANCE,
    Judgment,
    Origin,
    Outcome,
    PlacedBy,
    Ranked,
    Thresholds,
    Unjudged,
    UnjudgedCause,
)
from xscore.records.memory import Candidate, Kind, Memory, MemoryStatus
from xscore.records.receipt import NEAR_THRESHOLD, Answer, Selected
from xscore.records.reports import Explanation
from xscore.records.turn import ChangedFile
from xscore.store import turns
from xscore.store.memory_rows import WithoutExchanges
from xscore.store.naming import file_of_name, name_forms, unknown_name
from xscore.store.turn_history import PastTurn

if TYPE_CHECKING:
    from xscore.settings import IndexSettings
    from xscore.store.store import Store


STALE_NOW = "It is stale: code that it cites has changed since, which `xscore memory audit` shows."
RESCORED = "Word scores are not stored; recomputed now."
OTHERS_OF_KIND: Mapping[str, str] = {
    Kind.COMMIT: "other commits had taken the places that commits may have",
    Kind.DOCUMENT: "other passages had taken the places that fetched documents may have",
}
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
    memories: dict[str, Memory] = {}
    for form in name_forms(name, parts.root.path):
        memories = memories or {memory.id: memory for memory in parts.store.find(form)}
    if not memories:
        raise _kept_out(parts, name) or unknown_name(parts.store.connection, name)
    receipt = read_receipt(past.receipt)
    explanation = _in_receipt(memories, receipt, parts.store.connection) or _ranked_again(
        parts, past, memories, receipt
    )
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
    )


def _calibrated_words(store: "Store", past: PastTurn, shown: Selected | None) -> str:
    """Say what score and cut stood for on past commits; empty if the turn's judge was never
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
    """Return the error that says why a file has no memories; None: the name is that of no file kept
    out."""
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
        words = _words_of_listed(shown, _score_sum(shown, receipt), is_kept=is_kept)
        words += _carried_words(shown, connection)
        outcome = _outcome_of_listed(shown, is_kept=is_kept)
        return _explained(receipt, shown.id, outcome, words, memory=shown, rank=place)
    return None


def _words_of_listed(shown: Selected, score: str, *, is_kept: bool) -> str:
    """Say why a memory stands where the receipt lists it. score: with its boosts."""
    threshold = shown.threshold
    short = threshold - shown.score
    if is_kept and shown.placed_by == PlacedBy.FILLED:
        return (
            f"It was filled in: {score} is below the threshold of {threshold:g}, but too few"
            " passed."
        )
    if is_kept and shown.below_threshold:
        return f"It was kept by min_keep, although it is below the threshold of {threshold:g}."
    if shown.placed_by == PlacedBy.FOLDED:
        return (
            f"It passed with {score}, and stands in the line of the test or copy that is listed"
            " for it."
        )
    if is_kept:
        return f"It was chosen: {score} reaches the threshold of {threshold:g}."
    if short > 0:
        gap = f"{short:.2f}" if short >= 0.005 else f"{short:.1g}"
        return (
            f"It was not chosen: {score} is {gap} short of the threshold. Lower --threshold to"
            " keep it."
        )
    taken = "the places were taken. Raise --top-k to keep it."
    if shown.kind in OTHERS_OF_KIND:
        taken = f"{OTHERS_OF_KIND[shown.kind]}. `--kind {shown.kind}` keeps more of them."
    return f"It passed with {score}, but {taken}"


def _outcome_of_listed(shown: Selected, *, is_kept: bool) -> str:
    """Return the outcome that `Explanation` names."""
    if shown.placed_by == PlacedBy.FOLDED:
        return "folded"
    if is_kept:
        return "selected"
    short = shown.threshold - shown.score
    return "near_miss" if short < NEAR_THRESHOLD - SCORE_TOLERANCE else "below_threshold"


def _ranked_again(
    parts: PipelineParts, past: PastTurn, memories: Mapping[str, Memory], receipt: Answer
) -> Explanation:
    """Rank the turn again from the stored judgments and find the memory in it."""
    asked_before = turns.keys_of_task(parts.store.connection, past.turn.task) | {past.turn_key}
    without = WithoutExchanges(past.turn.thread, asked_before)
    everything = parts.store.fetch(tests=parts.settings.judge.tests, without=without).candidates
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
    carried = _carried_judgments(parts, past, receipt)
    ranking = _rank_as_then(parts, past, receipt, candidates, carried)
    for place, ranked in enumerate(ranking.in_order(), 1):
        if ranked.candidate.id not in in_scope:
            continue
        # The best placed, where several bear the name.
        source = ""
        if ranked.origin is Origin.CARRIED:
            _, source = carried[ranked.candidate.content_hash]
        shown = _as_shown(parts, past, receipt, ranking, ranked, carried_from=source)
        outcome, words = _not_chosen(shown, place, len(ranking.ranked), receipt)
        words += _carried_words(shown, parts.store.connection)
        if not receipt.judge.by_model:
            words += f" {RESCORED}"
        rank = place if shown.score >= READS_AS_ZERO_BELOW else None
        id_ = ids[ranked.candidate.id]
        return _explained(receipt, id_, outcome, words, memory=shown, rank=rank)
    return _unjudged_then(receipt, in_scope, ids)


def _judges_of(past: PastTurn, receipt: Answer) -> list[str]:
    """Return the keys of the judges of a past turn: of a final round, whose scores count, then its
    own."""
    final = [receipt.final_round.key] if receipt.final_round.key else []
    return [*final, past.judge, *(share.key for share in receipt.judges if share.key != past.judge)]


def _rank_as_then(
    parts: PipelineParts,
    past: PastTurn,
    receipt: Answer,
    candidates: Sequence[Candidate],
    carried: Mapping[str, tuple[Judgment, str]],
) -> Ranking:
    """Rank these candidates from what is stored, with the thresholds and the clock of the turn."""
    by_model = receipt.judge.by_model
    judged_by = _judges_of(past, receipt) if by_model else ()
    carried_judgments = {hash_: judgment for hash_, (judgment, _) in carried.items()}
    outcomes = _stored_outcomes(parts, past, candidates, judged_by, carried_judgments)
    changed = changes_until(
        parts.root, parts.settings.index, past.turn.changed or (), past.started_at
    )
    turn = replace(past.turn, changed=changed)
    thresholds = Thresholds(receipt.threshold, receipt.thresholds)
    return rank(
        parts,
        outcomes,
        turn,
        thresholds=thresholds,
        by_words=not by_model,
        words_weight=receipt.words_weight,
        now=past.started_at,
    )


def _as_shown(
    parts: PipelineParts,
    past: PastTurn,
    receipt: Answer,
    ranking: Ranking,
    ranked: Ranked,
    *,
    carried_from: str,
) -> Selected:
    """Return a memory as the turn would show it, with its stored reason."""
    stored = [ranked.candidate.content_hash] if receipt.judge.by_model else []
    judges = _judges_of(past, receipt)
    reasons = pool.stored_reasons(parts.store, past.turn_key, judges, stored)
    thresholds = Thresholds(receipt.threshold, receipt.thresholds)
    return to_selected(
        ranked,
        reasons,
        threshold=thresholds.of(ranked.candidate),
        below_threshold=not ranking.selection.passed(ranked),
        carried_from=carried_from,
    )


def _unjudged_then(receipt: Answer, in_scope: Sequence[str], ids: Mapping[str, str]) -> Explanation:
    """Explain a candidate without a judgment. ids: candidate id -> the id that was named."""
    sample = next((memory for memory in receipt.unjudged.sample if memory.id in in_scope), None)
    words = (
        "There is no judgment of it as it stands now: it was unjudged in that turn, or has been"
        " edited since."
    )
    if sample is not None:
        words = f"It was not judged ({sample.cause}): {sample.detail or 'no more is known'}."
    explanation = _explained(
        receipt, ids[in_scope[0]], "unjudged", f"{words} Ask again to judge it."
    )
    return replace(explanation, cause=sample.cause) if sample else explanation


def _not_chosen(shown: Selected, place: int, judged: int, receipt: Answer) -> tuple[str, str]:
    score = _score_sum(shown, receipt)
    if shown.below_threshold:
        sentence = (
            f"It was judged and not chosen: {score} is below the threshold of {shown.threshold:g}"
        )
        # Most memories have nothing in common with a task, and their order among each other says
        # nothing.
        if shown.score >= READS_AS_ZERO_BELOW:
            sentence += f", {_ordinal(place)} of {judged:,} judged"
        return "below_threshold", f"{sentence}."
    if place > receipt.top_k:
        sentence = (
            f"It passed with {score}, but {receipt.top_k} others scored higher. Raise --top-k to"
            " keep it."
        )
        return "beyond_k", sentence
    used_up = "tests had used up their share of the places"
    used_up = OTHERS_OF_KIND.get(shown.kind, used_up)
    return "over_quota", f"It passed with {score}, but {used_up}."


def _carried_judgments(
    parts: PipelineParts, past: PastTurn, receipt: Answer
) -> Mapping[str, tuple[Judgment, str]]:
    """Return the judgments that a turn could carry over, each with the turn that they came from."""
    carried: dict[str, tuple[Judgment, str]] = {}
    sources = [source.turn_id for source in receipt.carried_over.under]
    wordings = turns.past_wordings(parts.store.connection, sources)
    for turn_id, wording in wordings.items():
        if wording.key == past.turn_key:
            continue
        judgments = pool.known_judgments(parts.store, wording.key, past.judge)
        for hash_, judgment in judgments.items():
            carried.setdefault(hash_, (judgment, turn_id))
    return carried


def _stored_outcomes(
    parts: PipelineParts,
    past: PastTurn,
    candidates: Sequence[Candidate],
    judges: Sequence[str],
    carried: Mapping[str, Judgment],
) -> tuple[Outcome, ...]:
    """Return what these judges said, by their keys, and what was carried; no judges: what words say
    now."""
    if not judges:
        # A model's turn needs none of it.
        from xscore.pipeline.judging_by_words import lexical_outcomes

        return lexical_outcomes(parts, past.turn, candidates)
    judgments = pool.known_judgments(parts.store, past.turn_key, *judges)
    outcomes: list[Outcome] = []
    for candidate in candidates:
        hash_ = candidate.content_hash
        if hash_ in judgments:
            outcome = Outcome(candidate, judgments[hash_], Origin.CACHED)
        elif hash_ in carried:
            outcome = Outcome(candidate, carried[hash_], Origin.CARRIED)
        else:
            unjudged = Unjudged(hash_, UnjudgedCause.INTERRUPTED)
            outcome = Outcome(candidate, unjudged, Origin.UNJUDGED)
        outcomes.append(outcome)
    return tuple(outcomes)


def _score_sum(shown: Selected, receipt: Answer) -> str:
    """Format the score as a sum."""
    mean = ""
    if shown.draws:
        first, second = shown.draws[:2]
        mean = f"the mean of {first:.2f} and {second:.2f}"
    if not (shown.boosts or shown.words):
        return f"{shown.score_text} ({mean})" if mean else shown.score_text
    raw = f"{shown.raw_score:.2f} {'by words' if receipt.ranked_by_words else 'from the judge'}"
    if mean:
        raw = f"{raw}, {mean}"
    if shown.words:
        raw = f"{raw}, words {shown.words:+.1f} → {shown.unboosted_score:.2f}"
    boosts: list[str] = []
    for boost in shown.boosts:
        # One that only orders two memories adds nothing that could be read.
        if boost.amount >= READS_AS_ZERO_BELOW:
            boosts.append(f"{boost.amount:.2f} {boost.name}")
    capped = ", capped at 1" if shown.is_capped else ""
    return f"{shown.score_text} ({' + '.join([raw, *boosts])}{capped})"


def _ordinal(place: int) -> str:
    suffix = "th" if 10 <= place % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th")
    return f"{place:,}{suffix}"


def changes_until(
    root: RepositoryRoot, settings: "IndexSettings", edited: Iterable[ChangedFile], moment: float
) -> tuple[ChangedFile, ...] | None:
    """Return what had changed when a past turn was asked: what was uncommitted then, and the
    commits until then.

    moment: Unix seconds.
    """
    if not (settings.git and root.is_git):
        return None
    changes = {file.path: file for file in edited}
    for file in recent_changes(root, moment):
        if file.age_days >= 0:
            changes.setdefault(file.path, file)
    return tuple(changes.values())

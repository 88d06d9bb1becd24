"""Rank a past turn again from its stored judgments. Sends nothing.

Judgments are stored by content, so the ranking is exact for what has not changed since; what has
changed is unjudged here. Words are not stored; they score again. Trade-off: boosts follow the links
of today.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from xscore.pipeline import pool
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.ranking import rank
from xscore.pipeline.receipt import to_selected
from xscore.pipeline.recent_files import recent_changes, with_edits
from xscore.pipeline.turn_stages import Ranking
from xscore.platform.paths import RepositoryRoot
from xscore.records.candidates import Candidate
from xscore.records.judgment import (
    Judgment,
    Origin,
    Outcome,
    Ranked,
    Thresholds,
    Unjudged,
    UnjudgedCause,
)
from xscore.records.receipt import SAW_PURPOSES, Answer, Selected
from xscore.records.turn import ChangedFile
from xscore.store import turns
from xscore.store.fetched_pool import WithoutExchanges
from xscore.store.turn_history import PastTurn

if TYPE_CHECKING:
    from xscore.settings import IndexSettings, Settings
    from xscore.store.store import Store


def candidates_now(
    store: "Store", settings: "Settings", past: PastTurn, receipt: Answer | None
) -> tuple[Candidate, ...]:
    """Return what would be the candidates of a past turn now, inside and outside its scope.

    receipt: tells whether they were shown with purposes; None: as the settings say now.
    """
    asked_before = turns.keys_of_task(store.connection, past.turn.task) | {past.turn_key}
    without = WithoutExchanges(past.turn.thread, asked_before)
    purposes = settings.judge.purposes
    if receipt is not None:
        purposes = SAW_PURPOSES in receipt.judge.saw
    fetched = store.fetch(tests=settings.judge.tests, purposes=purposes, without=without)
    candidates = fetched.candidates
    for repository in store.others:
        candidates += tuple(repository.candidates(tests=settings.judge.tests))
    return candidates


def judges_of(past: PastTurn, receipt: Answer) -> list[str]:
    """Return the keys of the judges of a past turn: that of a final round, whose scores count,
    then its own."""
    if receipt.final_round.key:
        final = [receipt.final_round.key]
    else:
        final = []
    return [
        *final,
        past.judge,
        *(share.key for share in receipt.judges if share.key != past.judge),
    ]


def rank_as_then(
    parts: PipelineParts,
    past: PastTurn,
    receipt: Answer,
    candidates: Sequence[Candidate],
    carried: Mapping[str, tuple[Judgment, str]],
    *,
    by_words: bool,
) -> Ranking:
    """Rank these candidates from what is stored, with the thresholds and the clock of the turn.

    by_words: words score, as they say now: no judgment of them is stored.
    """
    judged_by = () if by_words else judges_of(past, receipt)
    carried_judgments = {hash_: judgment for hash_, (judgment, _) in carried.items()}
    outcomes = stored_outcomes(parts, past, candidates, judged_by, carried_judgments)
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
        by_words=by_words,
        words_weight=receipt.words_weight,
        now=past.started_at,
    )


def as_shown(
    parts: PipelineParts,
    past: PastTurn,
    receipt: Answer,
    ranking: Ranking,
    ranked: Ranked,
    *,
    carried_from: str,
) -> Selected:
    """Return a memory as the turn would show it, with its stored reason."""
    if receipt.judge.by_model:
        stored = [ranked.candidate.content_hash]
    else:
        stored = []
    judges = judges_of(past, receipt)
    reasons = pool.stored_reasons(parts.store, past.turn_key, judges, stored)
    thresholds = Thresholds(receipt.threshold, receipt.thresholds)
    return to_selected(
        ranked,
        reasons,
        threshold=thresholds.of(ranked.candidate),
        below_threshold=not ranking.selection.passed(ranked),
        carried_from=carried_from,
    )


def carried_judgments(
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


def stored_outcomes(
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


def changes_until(
    root: RepositoryRoot,
    settings: "IndexSettings",
    edited: Iterable[ChangedFile],
    moment: float,
) -> tuple[ChangedFile, ...] | None:
    """Return what had changed when a past turn was asked: what was uncommitted then, and the
    commits until then.

    moment: Unix seconds.
    """
    if not (settings.git and root.is_git):
        return None
    until = [file for file in recent_changes(root, moment) if file.age_days >= 0]
    return with_edits(until, {file.path: file.lines for file in edited})

"""Save a finished turn: its receipt, its answer, what it used, and the memories that its answer
cited.

Also writes `--all-scores`, whose path is checked before anything is spent.
Trade-off: the user's own store is written after the repository's; a kill in between loses one count
of use.
"""

import json
import os
import stat
from pathlib import Path

from msgspec.structs import replace

from xscore.pipeline.json_form import receipt_to_store, record_json, to_json
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.receipt import find_reasons, score_lines
from xscore.pipeline.turn_stages import TurnStages
from xscore.platform import database
from xscore.platform.errors import ExitCode, StoreError, UsageError
from xscore.platform.files import is_there, write_atomically
from xscore.records.judgment import Selection
from xscore.records.memory import Kind, Layer
from xscore.records.receipt import Answer, TurnFigures
from xscore.store import turns


def save_turn(
    parts: PipelineParts,
    answer: Answer,
    selection: Selection,
    figures: TurnFigures,
    *,
    isolated: bool,
) -> tuple[str, ...]:
    """Save a turn, of an evaluation (`isolated`) only its receipt; return a warning if its use
    could not be counted.

    Raises StoreError.
    """
    rejected = {
        "below_threshold": selection.below_threshold,
        "over_quota": selection.over_quota,
        "beyond_k": selection.beyond_k,
        "unjudged": len(selection.unjudged),
    }
    is_new = turns.is_answered_first(parts.store.connection, answer.turn_id)
    receipt = to_json(receipt_to_store(answer))
    kept = [entry.candidate for entry in selection.kept]
    end = turns.TurnEnd(
        state=_state(answer),
        receipt=json.dumps(receipt, ensure_ascii=False),
        answer=answer.answer,
        figures=figures,
        verdict=turns.SelectionOutcome(tuple(candidate.id for candidate in kept), rejected),
        has_evidence=any(candidate.kind is not Kind.EXCHANGE for candidate in kept),
        isolated=isolated,
    )
    turns.finish_turn(parts.store.connection, answer.turn_id, end, now=parts.clock())
    if isolated:
        return ()
    try:
        _count_use(parts, answer, _cited_memories(answer) if is_new else [])
    except StoreError as error:  # the turn itself is kept
        return (f"what this turn used was not counted: {error.message}",)
    return ()


def _state(answer: Answer) -> turns.TurnState:
    match answer.exit_code:
        # partly: nothing reached the threshold, or something is left to judge.
        case ExitCode.DONE | ExitCode.PARTLY:
            return turns.TurnState.PARTIAL if answer.partial else turns.TurnState.DONE
        case ExitCode.BUDGET:
            return turns.TurnState.PARTIAL
        # `continue` has the model judge once its host is mended.
        case ExitCode.NOTHING_JUDGED if answer.ranked_by:
            return turns.TurnState.PARTIAL
        case ExitCode.INTERRUPTED:
            return turns.TurnState.INTERRUPTED
        case _:
            return turns.TurnState.FAILED


def _cited_memories(answer: Answer) -> list[str]:
    """Return the kept memories, other than code, that the answer cites."""
    if not answer.answer:
        return []
    from xscore.prompts.answer import cited_memory_ids  # only with an answer

    # An answer may cite only the beginning of an id.
    cited = tuple(cited_memory_ids(answer.answer))
    without_file = [memory.id for memory in answer.selected if not memory.path]
    return [id_ for id_ in without_file if id_.startswith(cited)]


def _count_use(parts: PipelineParts, answer: Answer, cited_ids: list[str]) -> None:
    """Count the use of the user's own memories, and those that the answer cited.

    Raises StoreError.
    """
    now = parts.clock()
    ids_of_user = [memory.id for memory in answer.selected if memory.layer == Layer.USER]
    user = parts.store.user_connection() if ids_of_user else None
    if user is not None:
        with database.transaction(user):
            turns.count_use(user, ids_of_user, now=now)
    if not cited_ids:
        return
    from xscore.extensions.learning.feedback import record_adoptions  # an extension

    amounts = parts.settings.memory.feedback
    for connection in parts.store.connections_of_a_turn():
        with database.transaction(connection):
            record_adoptions(connection, cited_ids, amounts=amounts, now=now)


def check_scores_path(path: Path, *, store_dir: Path) -> None:
    """Raise UsageError if this file cannot be written, before anything is spent; the store folder
    is refused."""
    folder = path.parent
    if path.resolve().is_relative_to(store_dir.resolve()):
        raise UsageError(
            f"--all-scores: {path} is inside the store's own folder", hint="Name a file elsewhere."
        )
    if not path.name or is_there(path, stat.S_ISDIR) or not is_there(folder, stat.S_ISDIR):
        raise UsageError(
            f"--all-scores: {path} is not in an existing folder", hint="Create the folder first."
        )
    # A file is replaced by a new one in its folder; a device or a pipe is written to.
    is_replaced = not is_there(path) or is_there(path, stat.S_ISREG)
    written = path.resolve().parent if is_replaced else path
    if not os.access(written, os.W_OK):
        raise UsageError(
            f"--all-scores: {path} cannot be written", hint="Name a file in a folder of yours."
        )


def write_scores(parts: PipelineParts, path: Path, finished: Answer, stages: TurnStages) -> Answer:
    """Write `--all-scores`; if that fails, warn in the receipt, since the turn was paid for."""
    judged, ranking = stages.judged, stages.ranking
    # Words that ranked in the judge's place are not scores of its own.
    ranked = [] if ranking.ranked_by else ranking.in_order()
    reasons = find_reasons(parts, stages.opened.key, judged, ranked) if ranked else {}
    lines: list[str] = []
    for line in score_lines(judged.outcomes, ranked, reasons):
        lines.append(json.dumps(record_json(line), ensure_ascii=False) + "\n")
    try:
        write_atomically(path, "".join(lines).encode())
    except UsageError as error:
        warnings = (*finished.warnings, f"--all-scores: {error.message}")
        return replace(finished, warnings=warnings, exit_code=finished.exit_code or error.exit_code)
    return finished

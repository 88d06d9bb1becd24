"""What a model judge says about a change: the likely memories, judged by a rubric of their own.

It is a turn like any other (caps, cache, second draws, ledger, receipt): its task is fixed, the
judge sees the diff, and its candidates are the memories of the files that the learned order puts
first, and all that was stated. What history and links say is a boost. Trade-off: a file that the
learned order puts last is never shown to the model.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from xscore.extensions.checking.evidence import ChangeEvidence
from xscore.extensions.checking.file_names import FileRole, role_of
from xscore.extensions.checking.learned_order import likely_missing
from xscore.extensions.checking.reasons import reasons_for
from xscore.extensions.checking.records import Change, Finding, FindingKind, ModelVerdict
from xscore.pipeline.assembly import judging_changes
from xscore.pipeline.boosts import BoostContext, Booster
from xscore.pipeline.parts import PipelineParts, TurnOptions
from xscore.pipeline.turn import run_turn
from xscore.platform.errors import ExitCode, NoUsableModel, ProviderError
from xscore.platform.paths import native_name
from xscore.platform.text import join_sentences
from xscore.records.candidates import Candidate
from xscore.records.judgment import Boost
from xscore.records.receipt import Answer, Selected
from xscore.records.turn import Scope, Turn
from xscore.store.index_rows import indexed_files

TASK = "Before this change is committed: what does it leave undone, broken or untrue?"
MOST_FILES = 40
"""Files whose memories a model is shown."""
HISTORY_BOOST = 0.15
"""Most that a file's learned score adds to the judge's."""
_KINDS = {
    "contradicted": FindingKind.CONTRADICTED,
    "duplicated": FindingKind.DUPLICATED,
    "test": FindingKind.TEST,
}
"""The word that a reason begins with (`check_rubric.md`)."""
_SURE = (FindingKind.CONTRADICTED, FindingKind.DECISION)


async def judge_change(
    parts: PipelineParts, change: Change, evidence: ChangeEvidence
) -> ModelVerdict:
    """Have the model judge what a change may leave undone. A host that fails is a warning."""
    indexed = frozenset(indexed_files(parts.store.connection))
    learned: dict[str, tuple[int, float]] = {}
    for row, score in likely_missing(evidence, limit=MOST_FILES, list_all=True):
        path = evidence.paths[row]
        # Names that are not UTF-8 cannot be told apart as scopes.
        if path in indexed and native_name(path) == path:
            learned[path] = (row, score)
    if not learned:
        return ModelVerdict()
    parts = judging_changes(parts)
    reasons = {path: reasons_for(evidence, row) for path, (row, _) in learned.items()}
    scores = {path: score for path, (_, score) in learned.items()}
    parts = replace(parts, boosters=(*parts.boosters, history_booster(scores, reasons)))
    # Relative ones would be looked for in the working folder first.
    within = tuple(str(parts.root.path / path) for path in learned)
    turn = Turn(task=TASK, diff=change.patch, scope=Scope(within=within), changed=())
    options = TurnOptions(answer=False, command="check", isolated=True)
    try:
        answer = await run_turn(parts, turn, options)
    except (ProviderError, NoUsableModel) as error:
        warning = join_sentences(f"no model judged: {error.message}", error.hint)
        return ModelVerdict(warnings=(warning,))
    return _verdict(answer, reasons)


def history_booster(
    scores: Mapping[str, float], reasons: Mapping[str, tuple[str, ...]]
) -> Booster:
    """Return the booster of files that change together: at most `HISTORY_BOOST`.

    scores: learned, by path.
    """

    def history(candidate: Candidate, _context: BoostContext) -> Boost | None:
        amount = HISTORY_BOOST * scores.get(candidate.path, 0.0)
        why = next(iter(reasons.get(candidate.path, ())), "")
        if amount >= 0.001 and why:
            return Boost("history", amount, why)
        return None

    return history


def _verdict(answer: Answer, reasons: Mapping[str, tuple[str, ...]]) -> ModelVerdict:
    """Return the findings of a turn: the best memory of each file."""
    findings: dict[str, Finding] = {}
    for selected in answer.selected:
        finding = _finding(selected, reasons.get(selected.path, ()))
        findings.setdefault(finding.memory_id or finding.path, finding)
    judge = f"{answer.judge.provider}:{answer.judge.model}"
    was_judged = bool(answer.coverage.judged or answer.coverage.cached)
    return ModelVerdict(
        sure=tuple(finding for finding in findings.values() if finding.kind in _SURE),
        likely=tuple(finding for finding in findings.values() if finding.kind not in _SURE),
        judge=judge if was_judged else "",
        shown=frozenset(reasons),
        turn_id=answer.turn_id,
        cost_usd=answer.spent().cost_usd,
        is_interrupted=answer.exit_code == ExitCode.INTERRUPTED,
        warnings=answer.warnings,
    )


def _finding(selected: Selected, learned_reasons: tuple[str, ...]) -> Finding:
    word = selected.reason.partition(" ")[0].strip(":,.").lower()
    kind = _KINDS.get(word)
    if not selected.path:
        kind = FindingKind.CONTRADICTED if kind else FindingKind.DECISION
    elif kind is None:
        is_test = role_of(selected.path) is FileRole.TEST
        kind = FindingKind.TEST if is_test else FindingKind.FILE
    own_reason = tuple(filter(None, [selected.reason]))
    return Finding(
        kind=kind,
        path=selected.path,
        line=selected.start_line,
        memory_id="" if selected.path else selected.id,
        title=selected.title,
        score=selected.score,
        reasons=(*own_reason, *learned_reasons)[:3],
    )

"""Check a change: what it leaves untrue, and what would have changed with it.

The index is brought up to date first, so that links and words are those of the changed tree. What
is certain (a document names what is gone) comes before what is likely. Trade-off: files are ranked,
not lines, because a file is what history knows.
"""

import re
from collections.abc import Sequence

from msgspec.structs import replace

from xscore.extensions.checking.evidence import ChangeEvidence, gather_evidence, other_files
from xscore.extensions.checking.file_names import FileRole, role_of
from xscore.extensions.checking.history import CommitHistory, read_history
from xscore.extensions.checking.learned_order import likely_missing
from xscore.extensions.checking.reasons import reasons_for
from xscore.extensions.checking.records import (
    Change,
    ChangeStatus,
    CheckReport,
    Finding,
    FindingKind,
    ModelVerdict,
    NearFile,
)
from xscore.extensions.checking.untrue import untrue_findings
from xscore.pipeline.judge_description import Scale
from xscore.pipeline.parts import PipelineParts
from xscore.platform.git import is_shallow
from xscore.platform.text import counted, ellipsize, one_line
from xscore.store.evidence import refresh_evidence
from xscore.store.redaction import redact
from xscore.store.store import Store

MOST_UNTRUE = 50
"""Stale documents and decisions that are listed."""
MOST_NEAREST = 20
FEW_COMMITS = 100
"""A shallow clone with fewer commits is mentioned."""
LONGEST_REASON = 200
_TRAILER = re.compile(
    r"^[ \t]*xscore-check:[ \t]*ok\b[ \t,:-]*(.*)$", re.IGNORECASE | re.MULTILINE
)


def silencing_reason(change: Change) -> tuple[str, bool]:
    """Return the reason that a commit message gives for not being checked, and whether one asks to
    be silent without a reason.

    `xscore-check: ok REASON`, on a line of its own.
    """
    lacks_reason = False
    for message in change.messages:
        for trailer in _TRAILER.finditer(message):
            reason = redact(one_line(trailer[1])).text.strip()
            if reason:
                return ellipsize(reason, LONGEST_REASON), False
            lacks_reason = True
    return "", lacks_reason


async def check_change(
    parts: PipelineParts, change: Change, *, limit: int, list_all: bool
) -> CheckReport:
    """Return what a change lacks.

    limit: most files that are listed as missing.
    list_all: list as many also where nothing is likely to be missing.
    """
    silenced, lacks_reason = silencing_reason(change)
    changed_files = len(change.files)
    warnings = _warnings(change, lacks_reason=lacks_reason)
    if silenced or not change.files:
        return CheckReport(
            findings=(),
            changed_files=changed_files,
            left_out=change.left_out,
            silenced=silenced,
            warnings=warnings,
        )
    store = parts.store
    report = parts.index(None)
    refresh_evidence(store.connection, store.root, now=parts.clock())
    may_write = not store.root.read_only
    history = read_history(store.connection, store.root, change.base, keep=may_write)
    pool = store.fetch(tests="full", with_terms=True)
    evidence = gather_evidence(store, pool, change, history)
    present = [*other_files(store, change), *_still_there(change)]
    untrue = untrue_findings(store, pool, change, present)[:MOST_UNTRUE]
    likely = _likely(evidence, limit=limit, list_all=list_all)
    verdict = ModelVerdict()
    if parts.judge.scale is not Scale.WORDS:
        from xscore.extensions.checking.model_verdict import judge_change  # few have a model

        verdict = await judge_change(replace(parts, index=lambda _: report), change, evidence)
    findings = merged([*untrue, *verdict.sure], verdict.missing(likely), limit=limit)
    return CheckReport(
        findings=tuple(map(_redacted, findings)),
        nearest=_nearest(evidence),
        changed_files=changed_files,
        left_out=change.left_out,
        commits_read=len(history.commits),
        judge=verdict.judge,
        turn_id=verdict.turn_id,
        cost_usd=verdict.cost_usd,
        is_interrupted=verdict.is_interrupted,
        warnings=(*warnings, *_shallow_warning(store, history), *verdict.warnings),
    )


def _likely(evidence: ChangeEvidence, *, limit: int, list_all: bool) -> list[Finding]:
    """Return what is likely to be missing by what was learned of other commits."""
    missing: list[Finding] = []
    for row, score in likely_missing(evidence, limit=limit, list_all=list_all):
        path = evidence.paths[row]
        is_test = role_of(path) is FileRole.TEST
        kind = FindingKind.TEST if is_test else FindingKind.FILE
        missing.append(
            Finding(kind=kind, path=path, score=score, reasons=reasons_for(evidence, row))
        )
    return missing


def _nearest(evidence: ChangeEvidence) -> tuple[NearFile, ...]:
    ordered = likely_missing(evidence, limit=MOST_NEAREST, list_all=True)
    return tuple(NearFile(evidence.paths[row], round(score, 4)) for row, score in ordered)


def merged(sure: Sequence[Finding], missing: Sequence[Finding], *, limit: int) -> list[Finding]:
    """Return what is untrue, then what is missing, each file and memory once."""
    findings: list[Finding] = []
    seen: set[str] = set()
    shown = 0
    for place, finding in enumerate([*sure, *missing]):
        name = finding.memory_id or finding.path
        is_missing = place >= len(sure)
        if name in seen or (is_missing and shown >= limit):
            continue
        seen.add(name)
        shown += is_missing
        findings.append(finding)
    return findings


def _still_there(change: Change) -> list[str]:
    return [file.path for file in change.files if file.status is not ChangeStatus.DELETED]


def _warnings(change: Change, *, lacks_reason: bool) -> tuple[str, ...]:
    warnings: list[str] = []
    if lacks_reason:
        warnings.append("`xscore-check: ok` without a reason is ignored; write why after it")
    if change.left_out:
        warnings.append(
            f"{counted(change.left_out, 'file')} of the diff left out: a name leads out of the"
            " repository or cannot be read, or there are too many files"
        )
    return tuple(warnings)


def _shallow_warning(store: Store, history: CommitHistory) -> tuple[str, ...]:
    if history.read >= FEW_COMMITS or not (history.base and is_shallow(store.root.path)):
        return ()
    commits = counted(history.read, "commit")
    return (f"this clone is shallow: it has {commits} to learn from (`git fetch --unshallow`)",)


def _redacted(finding: Finding) -> Finding:
    """Return it without secrets: lines of a diff are in its reasons."""
    reasons = [ellipsize(redact(one_line(why)).text, LONGEST_REASON) for why in finding.reasons]
    return replace(finding, score=round(finding.score, 4), reasons=tuple(reasons))

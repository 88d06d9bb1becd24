"""A report of a check as SARIF 2.1.0, which code scanning of a forge reads.

Stale documents and decisions are warnings, what is likely to be missing a note. Each result has a
fingerprint of its kind and place, so that it stays one alert from push to push. Trade-off: a stated
memory has no file of its own, so its result is at what it cites, or at the root.
"""

from collections.abc import Mapping
from urllib.parse import quote

from xscore.extensions.checking.records import CheckReport, Finding, FindingKind
from xscore.extensions.checking.report_text import HEADS, finding_place
from xscore.pipeline.json_form import Json
from xscore.platform.hashing import digest
from xscore.platform.text import one_line

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
RULES: Mapping[FindingKind, str] = {
    FindingKind.DOCUMENT: "A document names something that the change removes.",
    FindingKind.DECISION: "A stated memory cites or names code that the change alters.",
    FindingKind.CONTRADICTED: "The change contradicts something that was stated or documented.",
    FindingKind.TEST: "A test usually changes with these files.",
    FindingKind.FILE: "A file usually changes with these files.",
    FindingKind.DUPLICATED: "Existing code already does what the change adds.",
}
_LEVELS = {FindingKind.TEST: "note", FindingKind.FILE: "note", FindingKind.DUPLICATED: "note"}


def sarif_log(report: CheckReport, version: str) -> dict[str, Json]:
    """Return the log of one run."""
    rules: list[Json] = []
    for kind, text in RULES.items():
        rules.append({"id": str(kind), "shortDescription": {"text": text}})
    driver: dict[str, Json] = {"name": "xscore", "version": version, "rules": rules}
    results: list[Json] = [_result(finding) for finding in report.findings]
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
        ],
    }


def _result(finding: Finding) -> dict[str, Json]:
    reasons = "; ".join(finding.reasons)
    text = one_line(f"{finding_place(finding)} {HEADS[finding.kind]}: {reasons}")
    region: dict[str, Json] = {"startLine": max(finding.line, 1)}
    # A memory that cites nothing is at the root.
    uri = "."
    if finding.path:
        uri = quote(finding.path, safe="/%")
    place: dict[str, Json] = {"artifactLocation": {"uri": uri}, "region": region}
    return {
        "ruleId": str(finding.kind),
        "ruleIndex": list(RULES).index(finding.kind),
        "level": _LEVELS.get(finding.kind, "warning"),
        "message": {"text": text},
        "locations": [{"physicalLocation": place}],
        "partialFingerprints": {
            "xscoreFinding/v1": digest(str(finding.kind), finding.path, finding.memory_id)
        },
        "properties": {"score": round(finding.score, 4)},
    }

"""Who said a memory, and how long ago: words of ours that stand outside its fence.

Only in the answering prompt: ages in the judging prompt would make every memory another one each day. What comes from
the index has no such line but a decision's age. Trade-off: ages are coarse, hours, days, months, because a model does
nothing with more, and the same question asked twice in an hour reads the same.
"""

import re

from xscore.prompts.bundle_entry import BundleEntry
from xscore.prompts.value import SECONDS_PER_DAY
from xscore.records import Citation, Kind, Source, Status

PRIOR = "prior context, not immutable law"
"""What is said of every decision."""
NAMED = 3
"""At most so many changed spans are named; the rest is counted."""

_NOT_A_NAME = re.compile(r"[^A-Za-z0-9._+-]+")


def provenance(entry: BundleEntry, *, now: float) -> str:
    """Return what is said of a memory beside its text, such as `said by the user 3 days ago`; empty: nothing is."""
    memory = entry.memory
    said = [_who(entry, ago(now - memory.updated_at))]
    if memory.kind is Kind.DECISION:
        said.append(PRIOR)
    if memory.particulars.occurrences:
        said.append(f"met {_times(memory.particulars.occurrences)}")
    if memory.particulars.polarity == "antipattern":
        said.append("not to be repeated")
    if memory.particulars.exception_of:
        said.append("an exception made here")
    if memory.status is Status.STALE:
        said.append(f"stale: what it cites has changed{_spans(entry.changed)}")
    return "; ".join(part for part in said if part)


def ago(seconds: float) -> str:
    """Say how long ago: `within the hour`, `5 hours ago`, `3 days ago`, `4 months ago`, `2 years ago`."""
    days = max(0.0, seconds) / SECONDS_PER_DAY
    if days < 1 / 24:
        return "within the hour"
    for unit, length in (("year", 365.25), ("month", 30.44), ("day", 1.0), ("hour", 1 / 24)):
        if days >= (length if unit in {"day", "hour"} else 2 * length):
            count = int(days / length)
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    raise AssertionError("an hour is the least")


def _who(entry: BundleEntry, age: str) -> str:
    memory = entry.memory
    match memory.source:
        case Source.IMPORT:
            return f"imported from {_NOT_A_NAME.sub('-', memory.particulars.origin)[:40] or 'elsewhere'}, {age}"
        case Source.INFERRED:
            return f"inferred, confidence {memory.confidence:.2f}, {age}"
        case Source.EXPLICIT if memory.kind in {Kind.EXCHANGE, Kind.SUMMARY}:
            return f"from earlier work, {age}"
        case Source.EXPLICIT:
            return f"said by the user {age}"
        case _:
            return f"written {age}" if memory.kind is Kind.DECISION else ""


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _spans(changed: tuple[Citation, ...]) -> str:
    named = [f"{span.path}:{span.start_line}-{span.end_line}" for span in changed[:NAMED]]
    more = [f"{len(changed) - NAMED} more"] if len(changed) > NAMED else []
    return " in " + ", ".join([*named, *more]) if named else ""

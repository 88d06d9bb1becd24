"""Find memories that need attention: duplicates, broken citations, names that no longer exist,
suspected secrets, layers over their caps; and the same of the files that agents are meant to
follow.

It checks remembered memories, not indexed ones, in the repository's store and in the user's own. It
changes nothing: each finding says what to do. Secrets are removed before anything is stored; they
are looked for again here because the rules grow. Trade-off: every remembered text is read and
compared, half a millisecond of CPU for one of 60 words, so nothing of a turn calls it.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import suppress
from enum import StrEnum

from msgspec import Struct

from xscore.extensions.learning.document_audit import outdated_lines
from xscore.extensions.learning.draft import groups_that_say_the_same, text_bytes
from xscore.extensions.learning.observed.observation import look_at_files
from xscore.extensions.learning.observed.readme_claims import contradicted_claims
from xscore.platform.errors import UsageError
from xscore.records.memory import Citation, Kind, Layer, Memory, MemoryStatus
from xscore.settings import MemorySettings
from xscore.store import evidence, memory_rows
from xscore.store.citing import parse_citation
from xscore.store.drift import gone_names
from xscore.store.lookup import STATED_LAYERS
from xscore.store.personal_data import redact_pii
from xscore.store.redaction import redact
from xscore.store.store import Store

_LIVE = f"{STATED_LAYERS} AND status IN ('active', 'stale') AND source <> 'index'"


class AuditProblem(StrEnum):
    """A possible problem with a memory."""

    SECRET = "secret"  # noqa: S105  the name of a finding
    STALE = "stale"
    DRIFTED = "drifted"
    """A memory names something that no longer exists."""
    DUPLICATE = "duplicate"
    NEAR_DUPLICATE = "near_duplicate"
    OVER_CAP = "over_cap"
    OUTDATED = "outdated"
    """A line of AGENTS.md, CLAUDE.md or a decision record names what no longer exists."""
    CONTRADICTED = "contradicted"
    """A claim of README or CONTRIBUTING that the files contradict."""


class AuditFinding(Struct, frozen=True):
    """One finding."""

    problem: AuditProblem
    ids: tuple[str, ...]
    """The memories concerned; if they are duplicates, the one to keep comes first."""
    titles: tuple[str, ...]
    """Their titles, in the same order."""
    because: str
    """The finding in words, which never repeat the text of a suspected secret."""
    citations: tuple[Citation, ...] = ()
    """The broken citations of a stale memory; for a line or claim of a document, its place."""


class MemoryAudit(Struct, frozen=True):
    """All findings."""

    findings: tuple[AuditFinding, ...]
    looked_at: int
    """Number of memories looked at."""
    is_clean: bool
    """Whether there are no findings."""


def audit_memories(store: Store, rules: MemorySettings, *, now: float) -> MemoryAudit:
    """Check everything remembered. now: Unix seconds.

    Cited code is looked at first, so that what is stale is what is stale now. Raises StoreError,
    StoreDamaged.
    """
    evidence.refresh_evidence(store.connection, store.root, now=now)
    findings: list[AuditFinding] = []
    memories: list[Memory] = []
    for connection in store.connections():
        of_store = memory_rows.select_memories(connection, _LIVE, ())
        memories += of_store
        findings += [
            *_secrets(of_store, allow_pii=rules.allow_pii),
            *_stale(connection, of_store),
        ]
        findings += _drifted(store, of_store)
    for layer in Layer:
        inside = [memory for memory in memories if memory.layer is layer]
        findings += [*_duplicates(inside), *_over_cap(layer, inside, rules)]
    findings += _outdated(store)
    findings += _contradicted_claims(store)
    order = list(AuditProblem)
    findings.sort(key=lambda finding: (order.index(finding.problem), finding.ids))
    return MemoryAudit(tuple(findings), len(memories), not findings)


def _finding(
    problem: AuditProblem,
    memories: Sequence[Memory],
    because: str,
    citations: tuple[Citation, ...] = (),
) -> AuditFinding:
    ids: list[str] = []
    titles: list[str] = []
    for memory in memories:
        ids.append(memory.id)
        titles.append(memory.title)
    return AuditFinding(problem, tuple(ids), tuple(titles), because, citations)


def _secrets(memories: Sequence[Memory], *, allow_pii: bool) -> Iterator[AuditFinding]:
    for memory in memories:
        details = memory.details
        texts = (
            memory.text,
            memory.card,
            memory.title,
            memory.entity,
            memory.key,
            details.rationale,
            details.resolution,
        )
        lists = (*details.alternatives, *details.aliases, *details.links, *details.paths)
        text = "\n".join((*texts, *lists))
        types = set(redact(text, prose=memory.kind is not Kind.EXCHANGE).types)
        if not allow_pii:
            types.update(redact_pii(text).types)
        if types:
            yield _finding(
                AuditProblem.SECRET, [memory], f"it may contain {', '.join(sorted(types))}"
            )


def _stale(
    connection: sqlite3.Connection, memories: Sequence[Memory]
) -> Iterator[AuditFinding]:
    stale = [memory for memory in memories if memory.status is MemoryStatus.STALE]
    cited = evidence.citations_of(connection, [memory.id for memory in stale])
    for memory in stale:
        broken = tuple(citation for citation in cited.get(memory.id, ()) if citation.is_changed)
        places = ", ".join(citation.place for citation in broken) or "unknown"
        because = f"the code it cites has changed: {places}"
        yield _finding(AuditProblem.STALE, [memory], because, broken)


def _drifted(store: Store, memories: Sequence[Memory]) -> Iterator[AuditFinding]:
    warnings = gone_names(store, memories)
    for memory in memories:
        if memory.id in warnings:
            yield _finding(AuditProblem.DRIFTED, [memory], f"it {warnings[memory.id]}")


def _outdated(store: Store) -> Iterator[AuditFinding]:
    for outdated in outdated_lines(store):
        because = redact(f"{outdated.path}:{outdated.line} {outdated.because}").text
        place = Citation(outdated.path, outdated.line, outdated.line, "", is_changed=True)
        yield _finding(AuditProblem.OUTDATED, [], because, (place,))


def _duplicates(memories: Sequence[Memory]) -> Iterator[AuditFinding]:
    """Find memories that say the same, in equal or other words."""
    for group in groups_that_say_the_same(memories):
        best_first = sorted(group, key=_best_first)
        distinct_texts = {" ".join(memory.text.split()) for memory in group}
        problem = AuditProblem.NEAR_DUPLICATE
        because = f"{len(group)} memories mean the same"
        if len(distinct_texts) == 1:
            problem = AuditProblem.DUPLICATE
            because = f"{len(group)} memories are identical"
        yield _finding(problem, best_first, because)


def _best_first(memory: Memory) -> tuple[float, int, float, str]:
    """Sort the surest memory first, then the one with most evidence, then the latest."""
    return (-memory.confidence, -memory.evidence_count, -memory.updated_at, memory.id)


def _over_cap(
    layer: Layer, memories: Sequence[Memory], rules: MemorySettings
) -> Iterator[AuditFinding]:
    size = sum(map(text_bytes, memories))
    counts = (
        (len(memories), rules.max_rows, "memories"),
        (size, rules.max_bytes, "bytes"),
    )
    for count, caps, name in counts:
        if count > caps.get(layer, count):
            because = f"layer {layer} holds {count:,} {name}, its cap is {caps[layer]:,}"
            yield _finding(AuditProblem.OVER_CAP, [], because)


def _contradicted_claims(store: Store) -> Iterator[AuditFinding]:
    """Find what README and CONTRIBUTING say and the files contradict."""
    findings = look_at_files(store.connection, store.root)
    if findings is None:
        return
    for contradiction in contradicted_claims(store.root, findings):
        place = contradiction.at.place
        claim = redact(contradiction.claim).text
        because = f"{place} says `{claim}`, but {contradiction.because}"
        citations: tuple[Citation, ...] = ()
        # Changed in this very moment: the line is named all the same.
        with suppress(UsageError):
            citations = (parse_citation(store.root, place),)
        yield _finding(AuditProblem.CONTRADICTED, [], because, citations)

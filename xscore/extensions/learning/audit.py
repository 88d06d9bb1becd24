"""What of the remembered deserves a look: duplicates, broken citations, suspected secrets, layers over their caps.

It looks at what was remembered, never at what comes from files, in the repository's store and in the user's own. It
changes nothing: each finding says what to do. A secret in the store would be a fault of the write door; the rules are
run again here because they grow. Trade-off: every remembered text is read and compared, half a millisecond of CPU for
one of 60 words, so nothing of a turn calls it.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from xscore.records import Citation, Layer, Memory, MemoryStatus
from xscore.store import evidence, memory_rows
from xscore.store.lookup import STATED_LAYERS
from xscore.store.near_duplicates import near_duplicates
from xscore.store.personal_data import redact_pii
from xscore.store.redaction import redact
from xscore.store.store import Store

SECONDS_PER_DAY = 86_400.0
UNUSED_DAYS = 30.0
"""Days after which a memory that no turn ever chose is named."""
LOW_CONFIDENCE = 0.3
"""Below this a memory is named as doubtful."""
_LIVE = f"{STATED_LAYERS} AND status IN ('active', 'stale') AND source <> 'index'"


class AuditProblem(StrEnum):
    """What may be wrong with what is remembered."""

    SECRET = "secret"  # noqa: S105  the name of a finding
    STALE = "stale"
    DUPLICATE = "duplicate"
    NEAR_DUPLICATE = "near_duplicate"
    OVER_CAP = "over_cap"
    UNUSED = "unused"
    DOUBTFUL = "doubtful"


ACTIONABLE_PROBLEMS = frozenset(
    {
        AuditProblem.SECRET,
        AuditProblem.STALE,
        AuditProblem.DUPLICATE,
        AuditProblem.NEAR_DUPLICATE,
        AuditProblem.OVER_CAP,
    }
)
"""Findings that need doing; the others are only good to know."""


class AuditFinding(Struct, frozen=True):
    """One thing to look at."""

    problem: AuditProblem
    ids: tuple[str, ...]
    """The memories it is about; of duplicates the one to keep comes first."""
    titles: tuple[str, ...]
    """Their titles, in the same order."""
    because: str
    """What was found, in words; never the text of a suspected secret."""
    citations: tuple[Citation, ...] = ()
    """Of a stale memory, those that are broken."""


class MemoryAudit(Struct, frozen=True):
    """All that was found, what needs doing first."""

    findings: tuple[AuditFinding, ...]
    looked_at: int
    """Memories."""

    @property
    def is_clean(self) -> bool:
        """Whether nothing needs doing."""
        return not any(finding.problem in ACTIONABLE_PROBLEMS for finding in self.findings)


class LayerCaps(Struct, frozen=True):
    """The most that a layer may hold."""

    rows: Mapping[str, int]
    bytes: Mapping[str, int]


def audit_memories(store: Store, *, now: float, caps: LayerCaps, unused_days: float = UNUSED_DAYS) -> MemoryAudit:
    """Look at everything that was remembered. now: Unix seconds.

    Cited code is looked at first, so that what is stale is what is stale now. Raises StoreError, StoreDamaged.
    """
    evidence.refresh_evidence(store.connection, store.root, now=now)
    user = store.user_connection()
    found: list[AuditFinding] = []
    memories: list[Memory] = []
    for connection in (store.connection, user):
        if connection is None:
            continue
        of_store = memory_rows.select_memories(connection, _LIVE, ())
        memories += of_store
        found += [*_secrets(of_store, allow_pii=store.settings.allow_pii), *_stale(connection, of_store)]
    found += [*_duplicates(memories), *_near_duplicates(memories), *_over_cap(memories, caps)]
    found += [*_unused(memories, now=now, days=unused_days), *_doubtful(memories)]
    order = list(AuditProblem)
    found.sort(key=lambda finding: (order.index(finding.problem), finding.ids))
    return MemoryAudit(tuple(found), len(memories))


def _finding(
    problem: AuditProblem, memories: Sequence[Memory], because: str, citations: tuple[Citation, ...] = ()
) -> AuditFinding:
    ids, titles = tuple(one.id for one in memories), tuple(one.title for one in memories)
    return AuditFinding(problem, ids, titles, because, citations)


def _secrets(memories: Sequence[Memory], *, allow_pii: bool) -> Iterator[AuditFinding]:
    for memory in memories:
        said = memory.particulars
        texts = (memory.text, memory.card, memory.title, memory.entity, memory.key, said.rationale, said.resolution)
        whole = "\n".join((*texts, *said.alternatives, *said.links, *said.paths))
        types = {*redact(whole).types, *(() if allow_pii else redact_pii(whole).types)}
        if types:
            yield _finding(AuditProblem.SECRET, [memory], f"it looks as if it held {', '.join(sorted(types))}")


def _stale(connection: sqlite3.Connection, memories: Sequence[Memory]) -> Iterator[AuditFinding]:
    stale = [memory for memory in memories if memory.status is MemoryStatus.STALE]
    cited = evidence.citations_of(connection, [memory.id for memory in stale])
    for memory in stale:
        broken = tuple(one for one in cited.get(memory.id, ()) if one.is_changed)
        places = ", ".join(_place(one) for one in broken)
        yield _finding(AuditProblem.STALE, [memory], f"the code it cites has changed: {places or 'unknown'}", broken)


def _place(citation: Citation) -> str:
    return f"{citation.path}:{citation.start_line}-{citation.end_line}" if citation.start_line else citation.path


def _duplicates(memories: Sequence[Memory]) -> Iterator[AuditFinding]:
    """The same words in the same layer, whatever their ids."""
    same: dict[tuple[Layer, str], list[Memory]] = {}
    for memory in memories:
        same.setdefault((memory.layer, " ".join(memory.text.split())), []).append(memory)
    for group in same.values():
        if len(group) > 1:
            yield _finding(AuditProblem.DUPLICATE, _best_first(group), f"{len(group)} memories say the very same")


def _near_duplicates(memories: Sequence[Memory]) -> Iterator[AuditFinding]:
    """Other words, the same said; those with equal words are told once already."""
    firsts = {(memory.layer, " ".join(memory.text.split())): memory for memory in reversed(memories)}
    by_layer: dict[Layer, dict[str, Memory]] = {}
    for memory in firsts.values():
        by_layer.setdefault(memory.layer, {})[memory.id] = memory
    for layer in sorted(by_layer):
        known = by_layer[layer]
        for ids in near_duplicates({identifier: memory.text for identifier, memory in known.items()}):
            group = _best_first([known[identifier] for identifier in ids])
            yield _finding(AuditProblem.NEAR_DUPLICATE, group, f"{len(group)} memories say the same in other words")


def _best_first(group: Sequence[Memory]) -> list[Memory]:
    return sorted(group, key=lambda one: (-one.confidence, -one.evidence_count, -one.updated_at, one.id))


def _over_cap(memories: Sequence[Memory], caps: LayerCaps) -> Iterator[AuditFinding]:
    for layer in Layer:
        inside = [memory for memory in memories if memory.layer is layer]
        held = sum(len(memory.text.encode("utf-8", "surrogatepass")) for memory in inside)
        most_rows, most_bytes = caps.rows.get(layer, len(inside)), caps.bytes.get(layer, held)
        if len(inside) > most_rows:
            yield AuditFinding(
                AuditProblem.OVER_CAP,
                (),
                (),
                f"layer {layer} holds {len(inside):,} memories, {most_rows:,} are its cap",
            )
        if held > most_bytes:
            yield AuditFinding(
                AuditProblem.OVER_CAP, (), (), f"layer {layer} holds {held:,} bytes, {most_bytes:,} are its cap"
            )


def _unused(memories: Sequence[Memory], *, now: float, days: float) -> Iterator[AuditFinding]:
    for memory in memories:
        age = (now - memory.created_at) / SECONDS_PER_DAY
        if not memory.access_count and age > days:
            yield _finding(AuditProblem.UNUSED, [memory], f"no turn has chosen it in {age:.0f} days")


def _doubtful(memories: Sequence[Memory]) -> Iterator[AuditFinding]:
    for memory in memories:
        if memory.confidence < LOW_CONFIDENCE:
            yield _finding(AuditProblem.DOUBTFUL, [memory], f"its confidence is {memory.confidence:.2f}")

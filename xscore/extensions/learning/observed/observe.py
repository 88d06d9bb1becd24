"""Note what the files of a repository show, after an index run that changed some.

Commands, the stack and conventions become inferred memories that cite their lines, so they are
stale when those change, until the next look mends or replaces them. Nothing is run or sent. At most
20 are noted. Trade-off: a hurried run looks only at a few changed files, so a new repository shows
its conventions after the first run without a deadline.
"""

from collections.abc import Sequence

from xscore.extensions.learning.draft import ConsolidationDraft
from xscore.extensions.learning.draft_storage import write_draft
from xscore.extensions.learning.observed.noting import CitedFact, erased_ids, note_observed
from xscore.extensions.learning.observed.observation import look_at_files
from xscore.extensions.learning.observed.observed_fact import ObservedFact
from xscore.platform.database import transaction
from xscore.platform.errors import UsageError
from xscore.platform.paths import RepositoryRoot
from xscore.records.memory import Citation
from xscore.store.citing import parse_citation
from xscore.store.evidence import citations_of
from xscore.store.index_rows import OBSERVED, read_index_meta, write_index_meta
from xscore.store.memory_rows import select_memories
from xscore.store.store import Store

HURRIED_FILES = 200
"""Most changed files that are looked at before a deadline."""
_OF_PROJECT = "layer = 'project' AND source <> 'index'"


def observe_repository(store: Store, *, now: float, is_hurried: bool) -> None:
    """Bring what is noted of the files up to date. now: Unix seconds.

    is_hurried: a deadline is near.
    Raises StoreError, StoreDamaged.
    """
    limit = HURRIED_FILES if is_hurried else None
    findings = look_at_files(
        store.connection,
        store.root,
        goes_on=lambda changed: limit is None or changed <= limit,
    )
    if findings is None:
        # The next run that is not hurried looks, whether or not a file has changed.
        write_index_meta(store.connection, OBSERVED, "")
        return
    if not findings.has_news and read_index_meta(store.connection, OBSERVED):
        with transaction(store.connection):
            findings.keep(store.connection)
        return
    cited = cited_facts(store.root, findings.facts())
    with transaction(store.connection):
        memories = select_memories(store.connection, _OF_PROJECT, ())
        draft = ConsolidationDraft(memories, store.settings, now=now)
        note_in_draft(store, draft, cited)
        if draft.actions or draft.citations:
            write_draft(store.connection, draft)
        findings.keep(store.connection)
        write_index_meta(store.connection, OBSERVED, "1")


def read_observed(store: Store) -> list[CitedFact]:
    """Return what the files show, with the lines that show it. Raises StoreError, StoreDamaged."""
    findings = look_at_files(store.connection, store.root)
    if findings:
        return cited_facts(store.root, findings.facts())
    return []


def note_in_draft(store: Store, draft: ConsolidationDraft, facts: Sequence[CitedFact]) -> None:
    """Note these facts in a draft of this store's memories."""
    note_observed(
        draft,
        facts,
        erased=erased_ids(store.connection),
        cited=citations_of(store.connection, draft.before),
    )


def cited_facts(root: RepositoryRoot, facts: Sequence[ObservedFact]) -> list[CitedFact]:
    """Return the facts with the lines that show them as they are now; a line that cannot be cited
    is left out."""
    cited: list[CitedFact] = []
    for fact in facts:
        citations: list[Citation] = []
        for line in fact.lines:
            try:
                citations.append(parse_citation(root, line.place))
            except UsageError:
                # Changed since it was read, a lock file, or one of secrets.
                continue
        values = {name: getattr(fact, name) for name in ObservedFact.__struct_fields__}
        cited.append(CitedFact(**values, citations=tuple(citations)))
    return cited

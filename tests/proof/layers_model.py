"""The expected contents of the stores, as a plain dict updated by a short form of the layers'
rules.

It follows who is live, who stepped back, who cites what, and who ever said which word; ids are
taken over from the house where they are new, and nothing else is. Confidence and use are not
followed: a memory that a step does not touch has to be the same row as before (`touched`), and
that is held for everything. Each topic has a word that is nowhere else, to be searched for, and
can be said in two ways that say the same, as consolidation is to find out.
"""

from collections.abc import Iterable

from msgspec import Struct, convert, field
from msgspec.structs import replace

from tests.proof.layers_writes import AddMemory, Edit, Erase, Fail
from xscore.extensions.learning.draft import Action, ActionKind, Consolidation
from xscore.extensions.privacy.erasure import Erasure
from xscore.records.memory import Kind, Layer, MemoryScope, MemorySource, MemoryStatus
from xscore.records.statement import (
    LAYERS_BY_KIND,
    RecordedFailure,
    StatementEffect,
    StoredStatement,
)

TOPICS = {
    "quartzlamp": "Use quartzlamp for the harbour lights",
    "bramblefox": "Every bramblefox is fed before noon in the north wing",
    "tidewagon": "Releases leave by tidewagon once the moon is full",
    "mossanchor": "Use mossanchor",
}
AFTERTHOUGHT = ". It was agreed on Monday."
SENTENCES = tuple(said + end for said in TOPICS.values() for end in ("", AFTERTHOUGHT))
ERRORS = ("TypeError: the pewterhook has no handle", "OSError: saltlantern went out")
WORDS = (*TOPICS, "pewterhook", "saltlantern")
KEYS = ("", "", "orm", "lights")


def words_in(text: str) -> set[str]:
    """Return the distinctive words of a text."""
    return {word for word in WORDS if word in text.lower()}


def word_in(text: str) -> str:
    """Return the distinctive word of a sentence."""
    return next(iter(sorted(words_in(text))), "")


LIVE = (MemoryStatus.ACTIVE, MemoryStatus.STALE)
RECORDS = (Kind.EXCHANGE, Kind.SUMMARY)
_PATTERN = "This keeps failing here: "
Cited = tuple[str, int]
"""A function and its cited version."""


class ExpectedMemory(Struct, frozen=True):
    """An expected memory."""

    id: str
    layer: Layer
    kind: Kind
    words: str
    """The words without reasons; for generated texts, all words."""
    key: str = ""
    status: MemoryStatus = MemoryStatus.ACTIVE
    scope: MemoryScope = MemoryScope.REPOSITORY
    source: MemorySource = MemorySource.EXPLICIT
    thread: str = ""
    cites: frozenset[Cited] = frozenset()


class Model(Struct):
    """Everything that should be there, and what was once."""

    held: dict[str, ExpectedMemory] = field(default_factory=dict)
    words_of: dict[str, set[str]] = field(default_factory=dict)
    """Memory id -> all words that it ever contained, quoted ones included."""
    erased: set[str] = field(default_factory=set)
    kept_by: dict[str, tuple[str, set[str]]] = field(default_factory=dict)
    """Turn -> its exchange, and the memories that it kept."""
    counted: dict[str, int] = field(default_factory=dict)
    """Failure -> its number of occurrences."""
    happenings: set[tuple[str, str]] = field(default_factory=set)
    touched: set[str] = field(default_factory=set)
    """Changed in this step."""

    def put(self, memory: ExpectedMemory) -> None:
        """Add a memory; an active one with a key replaces every live one with the same key."""
        self.touched.add(memory.id)
        self.erased.discard(memory.id)
        self.held[memory.id] = memory
        self.words_of.setdefault(memory.id, set()).update(words_in(memory.words))
        if memory.key and memory.status is MemoryStatus.ACTIVE:
            for older in self.with_key(memory):
                self.set_status(older.id, MemoryStatus.SUPERSEDED)

    def with_key(self, memory: ExpectedMemory) -> list[ExpectedMemory]:
        """Return the other live memories with the same key."""
        place = (memory.layer, memory.scope, memory.key)
        same_key = (
            live_memory
            for live_memory in self.live()
            if (live_memory.layer, live_memory.scope, live_memory.key) == place
        )
        return [
            live_memory
            for live_memory in same_key
            if memory.key and live_memory.id != memory.id
        ]

    def set_status(self, identifier: str, status: MemoryStatus) -> None:
        """Change a memory's status."""
        self.touched.add(identifier)
        self.held[identifier] = replace(self.held[identifier], status=status)

    def live(self) -> list[ExpectedMemory]:
        """Return the memories that take part in a turn."""
        return [memory for memory in self.held.values() if memory.status in LIVE]

    def said(
        self, write: AddMemory, stored: StoredStatement, cited: frozenset[Cited] = frozenset()
    ) -> None:
        """A statement: the same words are the same memory, other words a new one."""
        layer = write.layer or LAYERS_BY_KIND[write.kind][0]
        source = MemorySource.INFERRED if write.is_inferred else MemorySource.EXPLICIT
        self._keep(write.kind, layer, write.words, write.key, source, stored, cited)

    def _keep(
        self,
        kind: Kind,
        layer: Layer,
        words: str,
        key: str,
        source: MemorySource,
        stored: StoredStatement,
        cited: frozenset[Cited],
    ) -> None:
        same = {
            similar.id: similar
            for similar in self.held.values()
            if (similar.layer, similar.kind, similar.words) == (layer, kind, words)
            and key in ("", similar.key)
        }
        identifier = str(stored.memory.id)
        assert stored.became is (
            StatementEffect.REPEATED if same else StatementEffect.STORED
        ), f"{words!r} became {stored.became}"
        if same:
            assert identifier in same, "the same words are another memory"
            before = same[identifier]
            best = min(similar.status is not MemoryStatus.ACTIVE for similar in same.values())
            assert (before.status is not MemoryStatus.ACTIVE) == best, (
                "an active memory says so, and another was renewed"
            )
            memory = _repeated(before, source, cited)
        else:
            assert identifier not in self.held, "new words took the id of other words"
            scope = MemoryScope.GLOBAL if layer is Layer.USER else MemoryScope.REPOSITORY
            memory = ExpectedMemory(
                identifier, layer, kind, words, key, scope=scope, source=source, cites=cited
            )
        stepping_back = {
            similar.id
            for similar in self.with_key(memory)
            if similar.status is MemoryStatus.ACTIVE
        }
        if memory.status is MemoryStatus.ACTIVE:
            assert set(stored.superseded) >= stepping_back, "who stepped back was not told"
        self.put(memory)

    def edited(self, write: Edit, stored: StoredStatement) -> None:
        """An update; another key makes another memory that supersedes the old one."""
        before = self.held[write.id]
        words = before.words if write.words is None else write.words
        if not write.key or not before.key or write.key == before.key:
            assert stored.memory.id == before.id and stored.became is StatementEffect.UPDATED
            self.put(
                replace(before, words=words, key=before.key if write.key is None else write.key)
            )
            return
        self._keep(
            before.kind, before.layer, words, write.key, before.source, stored, before.cites
        )
        assert stored.memory.id != before.id, "a memory stepped back behind itself"
        self.set_status(before.id, MemoryStatus.SUPERSEDED)

    def failed(self, write: Fail, failure: RecordedFailure) -> None:
        """A failure: counted once for each occurrence, and a pattern from the third on."""
        identifier = str(failure.memory.id)
        held_before = self.held.get(identifier)
        assert (held_before is None) == (identifier not in self.counted)
        seen = (identifier, write.occurrence) in self.happenings
        assert failure.is_counted is not seen
        if seen:
            return
        if write.occurrence:
            self.happenings.add((identifier, write.occurrence))
        self.counted[identifier] = self.counted.get(identifier, 0) + 1
        assert failure.memory.details.occurrences == self.counted[identifier]
        first = ExpectedMemory(
            identifier, Layer.PROJECT, Kind.FAILURE, write.words, failure.memory.key
        )
        self.put(replace(held_before or first, status=MemoryStatus.ACTIVE))
        if failure.pattern is None:
            assert self.counted[identifier] < 3
            return
        pattern = str(failure.pattern.id)
        assert failure.is_new_pattern == (pattern not in self.held)
        assert self.counted[identifier] >= 3 or pattern in self.held
        kept = self.held.get(pattern)
        text = _PATTERN + write.words
        self.put(
            kept
            or ExpectedMemory(pattern, Layer.PROJECT, Kind.PATTERN, text, failure.pattern.key)
        )
        self.set_status(pattern, MemoryStatus.ACTIVE)

    def looked(self, current: dict[str, int]) -> None:
        """The cited files were checked: current is each function's version there."""
        for memory in list(self.live()):
            broken = any(current[function] != version for function, version in memory.cites)
            if broken and memory.status is MemoryStatus.ACTIVE:
                self.set_status(memory.id, MemoryStatus.STALE)
            elif memory.cites and not broken and memory.status is MemoryStatus.STALE:
                self.put(replace(memory, status=MemoryStatus.ACTIVE))

    def removed(self, write: Erase, done: Erasure) -> None:
        """Memories were erased, with their failure patterns, the exchanges made from them, and so
        on."""
        named = self.held.keys() & set(write.ids)
        assert set(done.ids) >= named, f"not erased: {named - set(done.ids)}"
        along = set(done.ids) - named
        patterns = {_PATTERN + self.held[memory_id].words for memory_id in named}
        unexpected = {
            memory_id
            for memory_id in along
            if self.held[memory_id].kind not in RECORDS
            and self.held[memory_id].words not in patterns
        }
        assert not unexpected, f"erased without being asked: {unexpected}"
        owed = self.made_with(named)
        assert owed <= set(done.ids), (
            f"made with what was erased, and still there: {owed - set(done.ids)}"
        )
        self.erase(done.ids)

    def made_with(self, ids: Iterable[str]) -> set[str]:
        """Return the exchanges of turns that kept one of these, of turns that kept those, and so
        on."""
        derived, fresh = set[str](), set(ids)
        while fresh:
            made_from_fresh = {
                exchange
                for exchange, kept in self.kept_by.values()
                if exchange and kept & fresh
            }
            fresh = (made_from_fresh & self.held.keys()) - derived
            derived |= fresh
        return derived

    def erase(self, ids: Iterable[str]) -> None:
        """Remove these and their words."""
        self.let_go(ids)
        self.erased.update(ids)

    def let_go(self, ids: Iterable[str]) -> None:
        """Remove these; their words may remain."""
        for identifier in ids:
            self.held.pop(identifier, None)
            self.counted.pop(identifier, None)
            self.happenings = {
                happening for happening in self.happenings if happening[0] != identifier
            }
            self.touched.add(identifier)

    def dead_words(self) -> set[str]:
        """Return the words that must be nowhere: all memories with them were erased."""
        spoken = {
            word
            for id_, words in self.words_of.items()
            if id_ not in self.erased
            for word in words
        }
        return set[str]().union(*self.words_of.values()) - spoken

    def consolidated(self, done: Consolidation, rows: dict[str, dict[str, object]]) -> None:
        """Apply the actions one by one; rows: the current contents of the stores, for the words of
        new memories."""
        for action in done.actions:
            self.touched.update(action.memory_ids)
            self._check(action)
            first, *other_ids = action.memory_ids or ("",)
            match action.kind:
                case ActionKind.PROMOTE | ActionKind.SUMMARISE:
                    self.came(
                        first,
                        rows,
                        sources=[self.held[id_].words for id_ in other_ids if id_ in self.held],
                    )
                    self._step_back(other_ids)
                case ActionKind.MERGE:
                    key = next(
                        (self.held[id_].key for id_ in action.memory_ids if self.held[id_].key),
                        "",
                    )
                    self._step_back(other_ids)
                    self.held[first] = replace(self.held[first], key=key)
                case ActionKind.ARCHIVE:
                    self.set_status(first, MemoryStatus.ARCHIVED)
                case ActionKind.DROP | ActionKind.PRUNE:
                    self.let_go(action.memory_ids)

    def came(
        self,
        identifier: str,
        rows: dict[str, dict[str, object]],
        *,
        sources: Iterable[str] = (),
    ) -> None:
        """A memory was made or grew: its new text is read from its row, if still there."""
        if identifier in rows:
            row = rows[identifier]
            memory = convert(
                row | {"words": row["text"], "status": MemoryStatus.ACTIVE}, ExpectedMemory
            )
            held_before = self.held.get(identifier)
            if held_before is not None and held_before.kind is not Kind.SUMMARY:
                memory = replace(
                    held_before,
                    status=held_before.status
                    if held_before.status in LIVE
                    else MemoryStatus.ACTIVE,
                )
            self.put(memory)
            self.words_of[identifier].update(words_in(str(row["text"])))
        else:
            for words in sources:
                self.words_of.setdefault(identifier, set()).update(words_in(words))

    def _step_back(self, ids: Iterable[str]) -> None:
        for identifier in ids:
            self.set_status(identifier, MemoryStatus.SUPERSEDED)

    def _check(self, action: Action) -> None:
        """Assert what consolidation may do to a memory."""
        merged = [self.held[id_] for id_ in action.memory_ids if id_ in self.held]
        if action.kind is ActionKind.MERGE:
            assert len({word_in(memory.words) for memory in merged}) == 1, (
                f"different things were made one: {merged}"
            )
        if action.kind in (ActionKind.PRUNE, ActionKind.DROP):
            kept = [
                memory
                for memory in merged
                if memory.source is MemorySource.EXPLICIT and memory.kind not in RECORDS
            ]
            lost = [memory for memory in kept if memory.status is not MemoryStatus.SUPERSEDED]
            assert not lost, f"what a person said was erased: {lost}"
        if action.kind is ActionKind.PROMOTE:
            explicit = [
                memory for memory in merged[1:] if memory.source is MemorySource.EXPLICIT
            ]
            assert not explicit, (
                f"an inferred preference took the place of one that was said: {explicit}"
            )


def _repeated(
    before: ExpectedMemory, source: MemorySource, cited: frozenset[Cited]
) -> ExpectedMemory:
    """Return a memory after its words were stated again."""
    status = MemoryStatus.ACTIVE
    if before.status is MemoryStatus.STALE and not cited:
        status = MemoryStatus.STALE
    if source is not MemorySource.EXPLICIT:
        source = before.source
    return replace(before, status=status, source=source, cites=cited or before.cites)

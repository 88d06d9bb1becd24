"""What should be in the stores, told by what was done to them: a plain dict, with the rules of the layers in short.

It follows who is live, who stepped back, who cites what, and who ever said which word; ids are taken over from the
house where they are new, and nothing else is. Confidence and use are not followed: whoever a step does not touch has to
be the same row as before (`touched`), and that is held for everything.
"""

from collections.abc import Iterable

from msgspec import Struct, field
from msgspec.structs import replace

from tests.proof.layers_words import words_in
from tests.proof.layers_writes import Edit, Erase, Fail, Note, Prefer, Resolve, Say
from xscore.extensions.privacy.erasure import Erasure
from xscore.records.memory import Kind, Layer, MemoryScope, MemorySource, MemoryStatus
from xscore.records.statement import LAYERS_BY_KIND, Failure, StatementEffect, StoredStatement

LIVE = (MemoryStatus.ACTIVE, MemoryStatus.STALE)
RECORDS = (Kind.EXCHANGE, Kind.SUMMARY)
Cited = tuple[str, int]
"""A function and the version of it that is cited."""


class Held(Struct, frozen=True):
    """A memory that should be there."""

    id: str
    layer: Layer
    kind: Kind
    words: str
    """Without reasons; of what the house words itself: all of it."""
    key: str = ""
    status: MemoryStatus = MemoryStatus.ACTIVE
    scope: MemoryScope = MemoryScope.REPOSITORY
    source: MemorySource = MemorySource.EXPLICIT
    thread: str = ""
    cites: frozenset[Cited] = frozenset()


class Sayings(Struct):
    """All that should be there, and what once was."""

    held: dict[str, Held] = field(default_factory=dict)
    told: dict[str, set[str]] = field(default_factory=dict)
    """Memory id -> words that it ever said, also by quoting."""
    erased: set[str] = field(default_factory=set)
    kept_by: dict[str, tuple[str, set[str]]] = field(default_factory=dict)
    """Turn -> its exchange, and the memories that it kept."""
    counted: dict[str, int] = field(default_factory=dict)
    """Failure -> how often it was met."""
    happenings: set[tuple[str, str]] = field(default_factory=set)
    touched: set[str] = field(default_factory=set)
    """In this step."""

    def put(self, memory: Held) -> None:
        """Have a memory there; an active one with a key takes the place of every live one with the same."""
        self.touched.add(memory.id)
        self.erased.discard(memory.id)
        self.held[memory.id] = memory
        self.told.setdefault(memory.id, set()).update(words_in(memory.words))
        if memory.key and memory.status is MemoryStatus.ACTIVE:
            for other in self.with_key(memory):
                self.set_status(other.id, MemoryStatus.SUPERSEDED)

    def with_key(self, memory: Held) -> list[Held]:
        """Return the other live memories that speak of the same."""
        place = (memory.layer, memory.scope, memory.key)
        found = (one for one in self.live() if (one.layer, one.scope, one.key) == place)
        return [one for one in found if memory.key and one.id != memory.id]

    def set_status(self, identifier: str, status: MemoryStatus) -> None:
        """Move a memory to another state."""
        self.touched.add(identifier)
        self.held[identifier] = replace(self.held[identifier], status=status)

    def live(self) -> list[Held]:
        """Return what takes part in a turn."""
        return [one for one in self.held.values() if one.status in LIVE]

    def said(self, write: Say | Prefer, told: StoredStatement, cited: frozenset[Cited] = frozenset()) -> None:
        """Something was said: the same words are the same memory, other words are a new one."""
        kind = write.kind if isinstance(write, Say) else Kind.PREFERENCE
        layer = (write.layer if isinstance(write, Say) else Layer.USER) or LAYERS_BY_KIND[kind][0]
        source = MemorySource.INFERRED if (isinstance(write, Say) and write.is_inferred) else MemorySource.EXPLICIT
        if isinstance(write, Prefer) and not write.is_said:
            source = MemorySource.INFERRED
        self._keep(kind, layer, write.words, write.key, source, told, cited)

    def _keep(
        self,
        kind: Kind,
        layer: Layer,
        words: str,
        key: str,
        source: MemorySource,
        told: StoredStatement,
        cited: frozenset[Cited],
    ) -> None:
        same = {
            one.id: one
            for one in self.held.values()
            if (one.layer, one.kind, one.words) == (layer, kind, words) and key in ("", one.key)
        }
        identifier = str(told.memory.id)
        assert told.became is (StatementEffect.REPEATED if same else StatementEffect.STORED), (
            f"{words!r} became {told.became}"
        )
        if same:
            assert identifier in same, "the same words are another memory"
            before = same[identifier]
            best = min(one.status is not MemoryStatus.ACTIVE for one in same.values())
            assert (before.status is not MemoryStatus.ACTIVE) == best, (
                "an active memory says so, and another was renewed"
            )
            status = MemoryStatus.STALE if before.status is MemoryStatus.STALE and not cited else MemoryStatus.ACTIVE
            explicit = MemorySource.EXPLICIT if MemorySource.EXPLICIT in (before.source, source) else before.source
            memory = replace(before, status=status, source=explicit, cites=cited or before.cites)
        else:
            assert identifier not in self.held, "new words took the id of other words"
            scope = MemoryScope.GLOBAL if layer is Layer.USER else MemoryScope.REPOSITORY
            memory = Held(identifier, layer, kind, words, key, scope=scope, source=source, cites=cited)
        stepping_back = {one.id for one in self.with_key(memory) if one.status is MemoryStatus.ACTIVE}
        if memory.status is MemoryStatus.ACTIVE:
            assert set(told.superseded) >= stepping_back, "who stepped back was not told"
        self.put(memory)

    def edited(self, write: Edit, told: StoredStatement) -> None:
        """A memory was updated; another key makes it another memory, and the old one steps back."""
        before = self.held[write.id]
        words = before.words if write.words is None else write.words
        if not write.key or not before.key or write.key == before.key:
            assert told.memory.id == before.id and told.became is StatementEffect.UPDATED
            self.put(replace(before, words=words, key=before.key if write.key is None else write.key))
            return
        self._keep(before.kind, before.layer, words, write.key, before.source, told, before.cites)
        assert told.memory.id != before.id, "a memory stepped back behind itself"
        self.set_status(before.id, MemoryStatus.SUPERSEDED)

    def failed(self, write: Fail, told: Failure) -> None:
        """A failure was met: counted once for each happening, and a pattern from the third time on."""
        identifier = str(told.memory.id)
        known = self.held.get(identifier)
        assert (known is None) == (identifier not in self.counted)
        seen = (identifier, write.occurrence) in self.happenings
        assert told.is_counted is not seen
        if seen:
            return
        if write.occurrence:
            self.happenings.add((identifier, write.occurrence))
        self.counted[identifier] = self.counted.get(identifier, 0) + 1
        assert told.memory.particulars.occurrences == self.counted[identifier]
        first = Held(identifier, Layer.PROJECT, Kind.FAILURE, write.words, told.memory.key)
        self.put(replace(known or first, status=MemoryStatus.ACTIVE))
        if told.pattern is None:
            assert self.counted[identifier] < 3
            return
        pattern = str(told.pattern.id)
        assert told.is_new_pattern == (pattern not in self.held)
        assert self.counted[identifier] >= 3 or pattern in self.held
        kept = self.held.get(pattern)
        text = f"This keeps failing here: {write.words}"
        self.put(kept or Held(pattern, Layer.PROJECT, Kind.PATTERN, text, told.pattern.key))
        self.set_status(pattern, MemoryStatus.ACTIVE)

    def resolved(self, write: Resolve, told: Failure) -> None:
        """A failure was mended, and its pattern tells so."""
        assert told.memory.id == write.id
        for memory in (told.memory, told.pattern):
            if memory is not None:
                self.set_status(str(memory.id), MemoryStatus.ACTIVE)

    def preferred(self, write: Prefer, told: StoredStatement) -> None:
        """A preference was weighed: what was said is never replaced by what was inferred."""
        known = next((one for one in self.live() if one.layer is Layer.USER and one.key == write.key), None)
        known = known if known and known.kind is Kind.PREFERENCE else None
        if told.became is not StatementEffect.UPDATED:
            taken = known and known.source is MemorySource.EXPLICIT and not write.is_said and known.words != write.words
            assert not taken, "an inferred preference took the place of one that was said"
            self.said(write, told)
            return
        assert known is not None and told.memory.id == known.id
        self.touched.add(known.id)
        if write.is_said and known.words == write.words:
            self.held[known.id] = replace(known, source=MemorySource.EXPLICIT)

    def noted(self, write: Note, identifier: str) -> None:
        """A session learned something."""
        source = MemorySource.EXPLICIT if write.is_said else MemorySource.INFERRED
        self.put(
            Held(
                identifier,
                Layer.SESSION,
                write.kind,
                write.words,
                write.key,
                scope=MemoryScope.SESSION,
                source=source,
                thread=write.thread,
            )
        )

    def looked(self, current: dict[str, int]) -> None:
        """The cited files were looked at: current is what version of each function stands there."""
        for one in list(self.live()):
            broken = any(current[function] != version for function, version in one.cites)
            if broken and one.status is MemoryStatus.ACTIVE:
                self.set_status(one.id, MemoryStatus.STALE)
            elif one.cites and not broken and one.status is MemoryStatus.STALE:
                self.put(replace(one, status=MemoryStatus.ACTIVE))

    def removed(self, write: Erase, done: Erasure) -> None:
        """Memories were erased, and with them the exchanges that were made with them, and so on; nothing else."""
        named = self.held.keys() & set(write.ids)
        assert set(done.ids) >= named, f"not erased: {named - set(done.ids)}"
        along = set(done.ids) - named
        others = {one for one in along if self.held[one].kind not in RECORDS}
        assert not others, f"erased without being asked: {others}"
        owed = self.made_with(named)
        assert owed <= set(done.ids), f"made with what was erased, and still there: {owed - set(done.ids)}"
        self.erase(done.ids)

    def made_with(self, ids: Iterable[str]) -> set[str]:
        """Return the exchanges of turns that kept one of these, of turns that kept those, and so on."""
        found, fresh = set[str](), set(ids)
        while fresh:
            made = {exchange for exchange, kept in self.kept_by.values() if exchange and kept & fresh}
            fresh = (made & self.held.keys()) - found
            found |= fresh
        return found

    def erase(self, ids: Iterable[str]) -> None:
        """Have these no more, nor what they said."""
        self.let_go(ids)
        self.erased.update(ids)

    def let_go(self, ids: Iterable[str]) -> None:
        """Have these no more; what they said may linger."""
        for identifier in ids:
            self.held.pop(identifier, None)
            self.counted.pop(identifier, None)
            self.happenings = {one for one in self.happenings if one[0] != identifier}
            self.touched.add(identifier)

    def dead_words(self) -> set[str]:
        """Return the words that must be nowhere: all who ever said them were erased."""
        spoken = {word for id_, words in self.told.items() if id_ not in self.erased for word in words}
        return set[str]().union(*self.told.values()) - spoken

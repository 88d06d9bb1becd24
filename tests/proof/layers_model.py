"""What consolidation, closing and putting back do to what should be there: the second half of the model.

Which actions there are is taken over from the house; what they may do to whom is not.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from tests.proof.layers_sayings import LIVE, RECORDS, Held, Sayings
from tests.proof.layers_words import word_in, words_in
from xscore.extensions.exchange.snapshots import Snapshot
from xscore.extensions.learning.consolidate import ClosedSession
from xscore.extensions.learning.draft import Action, ActionKind, Consolidation
from xscore.records.memory import Kind, Layer, MemoryScope, MemorySource, MemoryStatus


class Model(Sayings):
    """All that should be there, and what once was."""

    def consolidated(self, done: Consolidation, rows: dict[str, dict[str, object]]) -> None:
        """Follow the actions one by one; rows: what the stores hold now, for the words of what is new."""
        for action in done.actions:
            self.touched.update(action.memory_ids)
            self._check(action)
            first, *others = action.memory_ids or ("",)
            match action.kind:
                case ActionKind.CARRY | ActionKind.PROMOTE | ActionKind.SUMMARISE:
                    self.came(first, rows, said=[self.held[id_].words for id_ in others if id_ in self.held])
                    if action.kind is ActionKind.CARRY and first in self.held:
                        self._check_carried(first, others[-1])
                    self._step_back(others)
                case ActionKind.MERGE:
                    key = next((self.held[id_].key for id_ in action.memory_ids if self.held[id_].key), "")
                    self._step_back(others)
                    self.held[first] = replace(self.held[first], key=key)
                case ActionKind.ARCHIVE:
                    self.set_status(first, MemoryStatus.ARCHIVED)
                case ActionKind.DROP | ActionKind.PRUNE:
                    self.let_go(action.memory_ids)

    def came(self, identifier: str, rows: dict[str, dict[str, object]], *, said: Iterable[str] = ()) -> None:
        """A memory came to be, or grew: what is new of it is taken from its row, if it is still there."""
        if identifier in rows:
            row = rows[identifier]
            memory = Held(
                identifier,
                Layer(str(row["layer"])),
                Kind(str(row["kind"])),
                str(row["text"]),
                str(row["key"]),
                scope=MemoryScope(str(row["scope"])),
                source=MemorySource(str(row["source"])),
                thread=str(row["thread"]),
            )
            known = self.held.get(identifier)
            if known is not None and known.kind is not Kind.SUMMARY:
                memory = replace(known, status=known.status if known.status in LIVE else MemoryStatus.ACTIVE)
            self.put(memory)
            self.told[identifier].update(words_in(str(row["text"])))
        else:
            for words in said:
                self.told.setdefault(identifier, set()).update(words_in(words))

    def _step_back(self, ids: Iterable[str]) -> None:
        for identifier in ids:
            self.set_status(identifier, MemoryStatus.SUPERSEDED)

    def _check_carried(self, identifier: str, noted: str) -> None:
        words = self.held[identifier].words
        assert words == self.held[noted].words, f"carried over as something else: {words!r}"

    def _check(self, action: Action) -> None:
        """What consolidation may do to whom."""
        known = [self.held[id_] for id_ in action.memory_ids if id_ in self.held]
        if action.kind is ActionKind.MERGE:
            assert len({word_in(one.words) for one in known}) == 1, f"different things were made one: {known}"
        if action.kind in (ActionKind.PRUNE, ActionKind.DROP):
            kept = [one for one in known if one.source is MemorySource.EXPLICIT and one.kind not in RECORDS]
            lost = [one for one in kept if one.status is not MemoryStatus.SUPERSEDED]
            assert not lost, f"what a person said was erased: {lost}"
        if action.kind is ActionKind.PROMOTE:
            said = [one for one in known[1:] if one.source is MemorySource.EXPLICIT]
            assert not said, f"an inferred preference took the place of one that was said: {said}"

    def closed(self, noted: Iterable[Held], done: ClosedSession, rows: dict[str, dict[str, object]]) -> None:
        """A session was closed: what it learned is the project's, unless a person told the project otherwise."""
        carried = list(done.carried)
        for one in sorted(noted, key=lambda one: one.id):
            layer = Layer.GOVERNANCE if one.kind is Kind.DECISION else Layer.PROJECT
            place = (layer, MemoryScope.REPOSITORY, one.key)
            rivals = [r for r in self.live() if (r.layer, r.scope, r.key) == place and r.status is MemoryStatus.ACTIVE]
            said = any(r.source is MemorySource.EXPLICIT and r.words != one.words for r in rivals if one.key)
            if said and one.source is not MemorySource.EXPLICIT:
                continue
            assert carried, f"not carried over: {one}"
            first = carried.pop(0)
            self.came(first, rows)
            self._check_carried(first, one.id)
            self.set_status(one.id, MemoryStatus.SUPERSEDED)
        assert not carried, "more was carried over than was noted"
        if done.summary:
            self.came(done.summary, rows)

    def restored(self, then: "Model", snapshot: Snapshot, rows: dict[str, dict[str, object]]) -> None:
        """A snapshot was put back: all of it is as it was then, and who came since stays unless its key is taken."""
        ids = {str(kept.id) for kept in snapshot.memories}
        for active in (False, True):
            for one in sorted((then.held[id_] for id_ in ids), key=lambda one: one.id):
                if (one.status is MemoryStatus.ACTIVE) is active:
                    self.put(one)
                    self.told[one.id] |= then.told[one.id]
        self.counted |= {id_: then.counted[id_] for id_ in ids & then.counted.keys()}

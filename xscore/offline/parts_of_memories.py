"""Memories too large for one prompt: judged in parts, and whole once every part of them is known.

Parts come back in any order, over several batches, and some may have been known before. Trade-off: which parts a memory
has is read from the job's asks, and from the store's texts where an ask was not needed for one; a memory edited
meanwhile whose parts were known in part stays without a judgment of its own, and its parts are found by the next turn.
"""

from collections.abc import Iterable
from sqlite3 import Connection

from xscore.cache.judgments import Judgments, enter_query, known_among
from xscore.cache.keys import Names
from xscore.memory.store import Store
from xscore.offline.job_rows import Job
from xscore.records import Judgment
from xscore.scorer.split import Piece, pieces, whole

_PARTS = """
    SELECT DISTINCT json_extract(piece.value, '$[1]'), json_extract(piece.value, '$[0]')
    FROM job_ask, json_each(pieces) AS piece
    WHERE job = ? AND json_array_length(piece.value) > 1
"""


class PartsOfMemories:
    """Brings the parts of one job's memories together."""

    def __init__(self, store: Store, job: Job) -> None:
        self._store, self._job = store, job
        self._parts: dict[str, set[str]] | None = None

    def whole(self, connection: Connection, names: Names, judged: Iterable[tuple[Piece, Judgment]]) -> list[Judgment]:
        """Return judgments of the memories whose parts are all known, among those of which some are judged now."""
        parts = [(piece, judgment) for piece, judgment in judged if piece.is_part]
        if not parts:
            return []
        now = {judgment.content_hash: judgment for _, judgment in parts}
        query = enter_query(connection, names)
        found: list[Judgment] = []
        for memory, count in {piece.memory: piece.parts for piece, _ in parts}.items():
            hashes = self._hashes(connection, memory, count)
            known = {**known_among(connection, names, query, hashes), **{one: now[one] for one in hashes if one in now}}
            if len(known) == count:
                found.append(self._best(memory, known, names))
        return found

    def _best(self, memory: str, known: dict[str, Judgment], names: Names) -> Judgment:
        best = max((known[hash_] for hash_ in sorted(known)), key=lambda one: one.score)
        if not best.reason:
            turn_key, judge, sample = names
            told = Judgments(self._store.connection).reasons(turn_key, judge, [best.content_hash], sample=sample)
            known[best.content_hash] = best = Judgment(
                best.content_hash, best.score, told.get(best.content_hash, ""), best.pack, best.position, best.prior
            )
        result = whole(memory, [best, *(one for one in known.values() if one is not best)])
        assert isinstance(result, Judgment)
        return result

    def _hashes(self, connection: Connection, memory: str, count: int) -> set[str]:
        if self._parts is None:
            self._parts = {}
            for of, part in connection.execute(_PARTS, (self._job.id,)):
                self._parts.setdefault(of, set()).add(part)
        found = self._parts.setdefault(memory, set())
        if len(found) < count:
            found |= self._in_store(memory)
        return found

    def _in_store(self, memory: str) -> set[str]:
        """Return the parts of a memory as they are cut now; none where it is no longer in the store."""
        recipe = self._job.recipe
        members = [one for one in self._store.pool(tests=recipe.tests) if one.content_hash == memory]
        texts = self._store.texts(members, tests=recipe.tests)
        cut = [pieces(one, texts[one.id], max_tokens=recipe.packs.tokens) for one in members if one.id in texts]
        return {piece.content_hash for found in cut for piece in found if piece.is_part}

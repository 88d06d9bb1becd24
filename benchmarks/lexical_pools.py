"""The memories of each case's tree, with their words and links, read once and kept in a cache.

Each repository has one clone in the cache, checked out at the parents of its cases one after
another: the index then reads only what differs. Not a benchmark itself.
"""

import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from commit_cases import CommitCase
from msgspec import Struct, msgpack
from msgspec.structs import replace
from trees import check_out, clone_without_files

from xscore.indexer.index import index_repository
from xscore.platform.paths import find_root
from xscore.records.candidates import Candidate, TermColumn
from xscore.records.memory import Edge, Relation
from xscore.settings import IndexSettings
from xscore.store.store import Store


class CasePool(Struct, frozen=True):
    """What the judge without a model is given of a tree."""

    candidates: list[Candidate]
    column: TermColumn
    edges: list[tuple[str, str, str]]
    """Source, target, relation."""

    def links(self) -> "PoolLinks":
        """Return its edges by what they touch."""
        return PoolLinks(self.edges)


class PoolLinks:
    """Finds the edges that touch memories, as a store does."""

    def __init__(self, edges: Iterable[tuple[str, str, str]]) -> None:
        self._touching: dict[str, list[Edge]] = {}
        for source, target, relation in edges:
            edge = Edge(source, target, Relation(relation))
            for end in {source, target}:
                self._touching.setdefault(end, []).append(edge)

    def __call__(self, ids: Iterable[str]) -> list[Edge]:
        """Return each edge with one of these at an end, once."""
        edges: dict[tuple[str, str, str], Edge] = {}
        for memory in ids:
            for edge in self._touching.get(memory, ()):
                edges[edge.source, edge.target, edge.relation] = edge
        return list(edges.values())


def read_pools(
    cases: Sequence[CommitCase], clones: Path, cache: Path
) -> Iterator[tuple[CommitCase, CasePool]]:
    """Yield each case with its pool; trees that the cache lacks are checked out and indexed."""
    decoder = msgpack.Decoder(CasePool)
    for case in cases:
        kept = cache / "pools" / f"{case.id}.bin"
        if not kept.exists():
            pool = _pool_at(case, clones, cache)
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_bytes(zlib.compress(msgpack.encode(pool), 1))
        yield case, decoder.decode(zlib.decompress(kept.read_bytes()))


def _pool_at(case: CommitCase, clones: Path, cache: Path) -> CasePool:
    """Check out the parent of a case's commit, index what differs, and return its memories."""
    name = case.repository.replace("/", "+")
    tree = cache.resolve() / "clones" / name
    if not tree.exists():
        tree.parent.mkdir(parents=True, exist_ok=True)
        clone_without_files((clones / name).resolve(), tree)
    check_out(tree, case.commit)
    root = replace(find_root(tree), store_dir=cache.resolve() / "stores" / name)
    with closing(Store.open(root, user_data_dir=cache.resolve() / "user")) as store:
        index_repository(store.connection, root, IndexSettings(git=True), now=time.time())
        candidates = list(store.pool())
        ids = {id_ for candidate in candidates for id_ in (candidate.id, *candidate.duplicates)}
        rows = store.connection.execute("SELECT source, target, relation FROM edge").fetchall()
        edges = [row for row in rows if row[0] in ids and row[1] in ids]
        return CasePool(candidates, TermColumn.of_pairs(store.term_vectors()), edges)

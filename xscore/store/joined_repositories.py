"""Other repositories whose memories a turn reads in addition to those of its own store.

What is read of each is `other_repository`'s business, and which are opened the turn's. Few turns
read any, so that none is loaded for a turn without.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from xscore.records.candidates import Candidate
from xscore.records.memory import Edge, Memory, TestView

if TYPE_CHECKING:
    from xscore.store.other_repository import OtherRepository


class JoinedRepositories:
    """The other repositories that are open, in the order in which they were opened."""

    def __init__(self) -> None:
        self._opened: list[OtherRepository] = []

    def __iter__(self) -> "Iterator[OtherRepository]":
        # Walks a copy: the caller may close one of them meanwhile.
        return iter(tuple(self._opened))

    def __len__(self) -> int:
        return len(self._opened)

    def add(self, repository: "OtherRepository") -> None:
        """Read this one, too."""
        self._opened.append(repository)

    def close(self) -> None:
        """Close all of them."""
        for repository in self._opened:
            repository.close()
        self._opened = []

    def close_one(self, repository: "OtherRepository") -> None:
        """Close one of them, so that nothing more of it is read."""
        repository.close()
        self._opened.remove(repository)

    def have(self, identifier: str) -> bool:
        """Whether a memory is of one of them."""
        return any(repository.has(identifier) for repository in self._opened)

    def plain_stores(self) -> list[Path]:
        """Return the databases that another may attach."""
        return [
            repository.plain_store
            for repository in self._opened
            if repository.plain_store is not None
        ]

    def texts(
        self, candidate_of: Mapping[str, Candidate], *, tests: TestView
    ) -> dict[str, str]:
        """Return what the judge is shown of these candidates: id -> text."""
        texts: dict[str, str] = {}
        for repository in self._opened:
            texts |= repository.texts(candidate_of, tests=tests)
        return texts

    def memories(self, ids: Sequence[str]) -> dict[str, Memory]:
        """Return whole memories by id; unknown ids are missing."""
        memories: dict[str, Memory] = {}
        for repository in self._opened:
            memories |= repository.memories(ids)
        return memories

    def headers(self, paths: Sequence[str]) -> dict[str, str]:
        """Return the first module-level block of each of these files, by path."""
        headers: dict[str, str] = {}
        for repository in self._opened:
            headers |= repository.headers(paths)
        return headers

    def edges_touching(self, ids: Sequence[str]) -> list[Edge]:
        """Return the edges with one of these memories or files at either end."""
        edges: list[Edge] = []
        for repository in self._opened:
            edges += repository.edges_touching(ids)
        return edges

    def tests_of(self, ids: Sequence[str]) -> frozenset[str]:
        """Return the ids of the tests of these memories."""
        tests = frozenset[str]()
        for repository in self._opened:
            tests |= repository.tests_of(ids)
        return tests

    def degrees(self, ids: Sequence[str]) -> dict[str, int]:
        """Return the number of call edges of each of these memories."""
        degrees: dict[str, int] = {}
        for repository in self._opened:
            degrees |= repository.degrees(ids)
        return degrees

    def term_vectors(self) -> list[tuple[str, bytes]]:
        """Return memory id and term vector of every memory with one."""
        vectors: list[tuple[str, bytes]] = []
        for repository in self._opened:
            vectors += repository.term_vectors()
        return vectors

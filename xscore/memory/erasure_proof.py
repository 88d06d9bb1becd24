"""Prove an erasure: look for each telling line of the erased text in the raw bytes of every file of the store.

What is still said by a memory that stays, or was asked in a turn, may be found and proves nothing: such lines are left
out and counted. It trusts neither the erasure nor SQLite. Trade-off: it reads every byte, some 20 ms for a megabyte.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from xscore.memory import user_store
from xscore.memory.databases import Databases
from xscore.memory.erasure_files import files_of, is_unclean, search
from xscore.memory.erasure_plan import still_said


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What the search came to."""

    lines: int
    """Telling lines, and halves of long ones, that were looked for."""
    still_said: int
    """Lines that were not: a memory that stays says them, or a task asked for them."""
    files: int
    """Files that were read, all bytes."""
    found_in: tuple[str, ...]
    """Files that hold one of them."""
    journal_is_empty: bool
    """False: another process reads the journal, which therefore keeps what was erased."""

    @property
    def holds(self) -> bool:
        """Whether nothing was found."""
        return self.journal_is_empty and not self.found_in


def prove(store: Databases, wording: Iterable[str]) -> Proof:
    """Search the files of the repository's store and of the user's. Raises StoreError for one that cannot be read.

    wording: of `erasure.wording`, asked before the erasure.
    """
    wanted = frozenset(wording)
    connections = store.connections()
    kept = set[str]().union(*(still_said(connection, wanted, tasks=True) for connection in connections))
    files = _files(store)
    found = search(files, wanted - kept)
    return Proof(
        lines=len(wanted - kept),
        still_said=len(kept),
        files=len(files),
        found_in=tuple(sorted(map(str, found))),
        journal_is_empty=not any(map(is_unclean, connections)),
    )


def _files(store: Databases) -> list[Path]:
    """Every file in the store's folder, and the user's store with its journals."""
    own = [place for place in store.path.parent.rglob("*") if place.is_file() and not place.is_symlink()]
    folder = store.user_data_dir
    return sorted({*own, *(files_of(user_store.path_in(folder)) if folder else [])})

"""Changed files opened, and told apart: those to parse, those merely touched, those whose bytes keep them out.

What need not be parsed is set aside and written by `settle` in one transaction, after the parsed files.
"""

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from xscore.database import transaction
from xscore.files import Refused, read_bytes
from xscore.hashing import file_digest
from xscore.indexer import admission
from xscore.indexer.survey import Changed, stamp_of
from xscore.memory import index_rows
from xscore.paths import Root
from xscore.records import Excluded, FileStamp

if TYPE_CHECKING:
    from xscore.indexer.memories import Job
    from xscore.settings import IndexSettings


@dataclass(slots=True, kw_only=True)
class Intake:
    """One pass over the changed files of a run."""

    root: Root
    settings: "IndexSettings"
    stamps: Mapping[str, FileStamp]
    now: float
    allow_pii: bool = False
    """Keep personal data of configuration."""
    touched: list[FileStamp] = field(default_factory=list)
    """Same bytes at another time."""
    refused: list[FileStamp] = field(default_factory=list)

    def jobs(self, changed: Iterable[Changed]) -> "Iterator[Job]":
        """Yield the files to parse, opened one at a time."""
        from xscore.indexer.memories import Job

        top = os.open(self.root.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for path, name, info in changed:
                read = self._read(top, path, name, info=info)
                if read is not None:
                    stamp, text = read
                    yield Job(stamp, text, info.st_mtime_ns, self.settings.window_lines, self.now, self.allow_pii)
        finally:
            os.close(top)

    def settle(self, connection: sqlite3.Connection) -> index_rows.Changes:
        """Write down what was only touched, and what its bytes keep out; forget what the latter had in the store."""
        if not (self.touched or self.refused):
            return index_rows.Changes()
        with transaction(connection):
            index_rows.touch_files(connection, self.touched)
            known = [stamp.path for stamp in self.refused if stamp.path in self.stamps]
            changes = index_rows.replace_files(connection, (), known)
            index_rows.exclude_files(connection, self.refused)
        return changes

    @property
    def excluded(self) -> list[Excluded]:
        """What was refused, with its reasons."""
        return [Excluded(stamp.path, stamp.excluded) for stamp in self.refused]

    @property
    def lost(self) -> int:
        """Files that were indexed and now are refused."""
        return sum(s.path in self.stamps and not self.stamps[s.path].excluded for s in self.refused)

    def _read(self, top: int, path: str, name: str, *, info: os.stat_result) -> tuple[FileStamp, str] | None:
        known, file_hash, reason = self.stamps.get(path), "", "unreadable"
        try:
            data = read_bytes(top, name, max_bytes=self.settings.max_file_bytes)
            file_hash = file_digest(data)
            stamp = stamp_of(path, info, now=self.now, file_hash=file_hash)
            if known is not None and known.file_hash == file_hash and not known.excluded:
                self.touched.append(FileStamp(path, stamp.size, stamp.mtime_ns, file_hash, known.language))
                return None
            return stamp, admission.decoded(data, path, max_line_chars=self.settings.max_line_chars)
        except Refused as refusal:
            reason = str(refusal)
        except OSError:
            pass
        self.refused.append(stamp_of(path, info, now=self.now, file_hash=file_hash, excluded=reason))
        return None

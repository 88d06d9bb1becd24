"""What has changed since the last run, at the price of one stat a file.

Equal size and time spare the read; a file changed within the clock's own grain of its last look is not believed
(`stamp_of`). Nothing is opened and no setting is re-read here: a run over an unchanged repository ends with this.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from xscore.files import settled_mtime_ns
from xscore.indexer.admission import Rules
from xscore.indexer.discovery import Listing
from xscore.paths import Root, portable
from xscore.records import Excluded, FileStamp

Changed = tuple[str, str, os.stat_result]
"""Text path, native name, stat."""


@dataclass(slots=True)
class Survey:
    """Every file seen, once, in exactly one of these."""

    unchanged: int = 0
    changed: list[Changed] = field(default_factory=list)
    """New, or no longer as their stamps say."""
    excluded: list[Excluded] = field(default_factory=list)
    present: set[str] = field(default_factory=set)
    """Paths whose stamps still stand or are about to be replaced."""


def survey(root: Root, listing: Listing, stamps: Mapping[str, FileStamp], rules: Rules) -> Survey:
    """Sort the listed files by what has to be done about them."""
    found = Survey(excluded=list(listing.excluded))
    prefix = os.fspath(root.path) + "/"
    for name in listing.paths:
        try:
            info = os.lstat(prefix + name)
        except OSError:
            continue  # listed by git's index, deleted from disk
        path = name if name.isascii() and "%" not in name else portable(name)
        stamp = stamps.get(path)
        if stamp is not None and stamp.mtime_ns == info.st_mtime_ns and stamp.size == info.st_size:
            found.present.add(path)
            if stamp.excluded:
                found.excluded.append(Excluded(path, stamp.excluded))
            else:
                found.unchanged += 1
            continue
        reason = rules.refusal(path, info)
        if reason:
            found.excluded.append(Excluded(path, reason))
        else:
            found.present.add(path)
            found.changed.append((path, name, info))
    return found


def stamp_of(path: str, info: os.stat_result, *, now: float, file_hash: str, excluded: str = "") -> FileStamp:
    """The stamp to keep of a file as it was read; time 0 where a later write could look the same."""
    return FileStamp(path, info.st_size, settled_mtime_ns(info, now=now), file_hash, "", excluded)

"""Import the past sessions of a repository: find the files, read what is new, remember each exchange once."""

from collections.abc import Collection

from xscore.memory.store import Store
from xscore.sessions.report import ImportReport
from xscore.sessions.session_format import Places


def import_sessions(
    store: Store,
    places: Places,
    *,
    now: float,
    origins: Collection[str] = (),
    since: float = 0.0,
    dry_run: bool = False,
) -> ImportReport:
    """Take the exchanges of all agents, or of some, into the store.

    now, since: Unix seconds. dry_run: read and count, write nothing.
    """
    raise NotImplementedError

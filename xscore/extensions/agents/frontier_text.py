"""What an agent gets back after its context was compacted: the frontier of work, quoted as data.

Before the compaction it is read from the log and kept in the store; after it, the log is read
again, and what was kept serves where the log is gone. The same log gives the same bytes. Trade-off:
of a log over 8 MiB only the end is read, since the agent waits.
"""

from pathlib import Path

from xscore.extensions.agents.agent_bundle import escaped_block, size_of
from xscore.extensions.agents.data_fence import DATA_NOTE, FENCE
from xscore.extensions.compression.frontier import MAX_BYTES, Frontier, find_frontier
from xscore.extensions.compression.frontier import frontier_text as lines_of
from xscore.extensions.compression.reading import read_tail
from xscore.store.compressed_sessions import (
    CompressedSession,
    erased_ids,
    load_frontier,
    save_frontier,
)
from xscore.store.store import Store

_HEAD = (
    "Your context was compacted. This is where the work stood, from your own log.\n"
    f"{DATA_NOTE}\n<{FENCE}>\n"
)
_TAIL = f"</{FENCE}>"


def keep_frontier(store: Store, log: Path, *, origin: str, thread: str, now: float) -> None:
    """Keep the state of the work, before the agent drops its context.

    origin: the client, as the readers of logs name its format. now: Unix seconds.
    Raises StoreError.
    """
    frontier = _read_frontier(store, log, origin)
    if frontier is None:
        return
    kept = CompressedSession(
        thread=thread, origin=origin, path="", frontier=_fitting_lines(frontier)
    )
    save_frontier(store.connection, kept, memory_id=frontier.memory_id, now=now)


def frontier_after_compaction(
    store: Store, log: Path | None, *, origin: str, thread: str
) -> str:
    """Return the state of the work, in at most 2,000 bytes; empty if nothing is known.

    Raises StoreError.
    """
    frontier = _read_frontier(store, log, origin) if log else None
    lines = _fitting_lines(frontier) if frontier else load_frontier(store.connection, thread)
    return f"{_HEAD}{escaped_block(lines)}\n{_TAIL}" if lines else ""


def _read_frontier(store: Store, log: Path, origin: str) -> Frontier | None:
    session = read_tail(
        log,
        origin,
        allow_pii=store.settings.allow_pii,
        erased=erased_ids(store.connection),
    )
    if session is None or session.last_request is None:
        return None
    return find_frontier(session)


def _fitting_lines(frontier: Frontier) -> str:
    """Return the lines, short enough that they still fit when their tags are escaped."""
    room = MAX_BYTES - size_of(_HEAD + _TAIL) - 1
    lines = lines_of(frontier, max_bytes=room)
    excess = size_of(escaped_block(lines)) - size_of(lines)
    return lines_of(frontier, max_bytes=room - excess) if excess else lines

"""The end of a working session: what it learned becomes the project's, and its exchanges one summary (L01).

`close_session` is what `xscore session close` calls, and `close_branches` what a post-merge hook does. Each session is
one transaction; one that is closed again changes nothing. No model is asked: the summary is taken from tasks and
answers word for word.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from xscore import database
from xscore.errors import NothingMatched
from xscore.learning import rows
from xscore.learning.actions import ActionKind
from xscore.learning.carrying import carry, summarise, summary_id
from xscore.memory.databases import Databases
from xscore.memory.secrets.redact import redact
from xscore.memory.session_digest import rebuild_summary
from xscore.memory.working_session import mark_closed, sessions


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """What closing a session came to."""

    thread: str
    carried: tuple[str, ...] = ()
    """Ids of what the project was given; empty: the session noted nothing to keep."""
    summary: str = ""
    """Id of the summary of its exchanges; empty: it had none."""
    exchanges: int = 0
    """Exchanges that the summary stands for."""


def close_branches(store: Databases, branches: Iterable[str], *, now: float) -> tuple[Closed, ...]:
    """Close all open sessions of these branches, last at work first. now: Unix seconds."""
    named = {redact(branch).text for branch in branches}
    over = [one for one in sessions(store.connection, limit=-1) if one.branch in named and one.closed_at is None]
    return tuple(close_session(store, one.thread, now=now) for one in over)


def close_session(store: Databases, thread: str, *, now: float) -> Closed:
    """Close a working session and keep what it learned. now: Unix seconds.

    Raises NothingMatched where there is no session of that name.
    """
    connection = store.connection
    with database.transaction(connection):
        if connection.execute("SELECT 1 FROM session WHERE thread = ?", (thread,)).fetchone() is None:
            raise NothingMatched(f"there is no session {thread}", hint="See `xscore session show` for the current one.")
        mark_closed(connection, thread, now=now)
        text = rebuild_summary(connection, thread).text
        draft = rows.read(connection)
        carry(draft, {thread})
        summarise(draft, {thread}, told=lambda _: text, now=now)
        rows.write(connection, draft, now=now)
    carried = tuple(action.memory_ids[0] for action in draft.actions if action.kind is ActionKind.CARRY)
    summary = summary_id(thread)
    members = [id_ for id_, memory in draft.after.items() if draft.threads.get(id_) == thread and id_ != summary]
    return Closed(
        thread=thread,
        carried=carried,
        summary=summary if summary in draft.after else "",
        exchanges=sum(draft.after[id_].kind == "exchange" for id_ in members),
    )

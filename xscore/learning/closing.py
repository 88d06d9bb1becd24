"""The end of a working session: what it learned becomes the project's, and its exchanges one summary (L01).

`close_session` is what `xscore session close` and a post-merge hook call. It is one transaction; a session that is
closed again changes nothing. No model is asked: the summary is taken from tasks and answers word for word.
"""

from dataclasses import dataclass

from xscore.memory.store import Store


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


def close_session(store: Store, thread: str, *, now: float) -> Closed:
    """Close a working session and keep what it learned. now: Unix seconds.

    Raises UsageError where there is no session of that name.
    """
    raise NotImplementedError

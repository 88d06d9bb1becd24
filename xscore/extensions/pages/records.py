"""What a page of a turn shows: read from the store by `reading`, drawn by `turn_page`."""

from typing import NamedTuple

from msgspec import Struct

from xscore.records.calls import CallRecord
from xscore.records.memory import Relation
from xscore.records.receipt import Answer, Selected
from xscore.records.reports import ListedTurn


class MapMemory(NamedTuple):
    """A candidate on the map. A named tuple, because a page has one for each memory."""

    id: str
    path: str
    """Path of its file; empty if it is in none."""
    name: str
    """Its entity, or the title of a memory that is in no file; empty: one of the user's own
    memories."""
    start_line: int
    end_line: int
    kind: str
    layer: str
    language: str
    tokens: int
    score: float | None
    """Final score, 0..1; None if no judgment of the memory as it is now is stored."""
    raw_score: float | None
    """The judge's score, before boosts."""
    reason: str
    is_carried: bool


class MapLink(NamedTuple):
    """A link of the graph between two memories of the map, by their places in it."""

    source: int
    target: int
    relation: Relation


class ListedMemory(Struct, frozen=True, kw_only=True):
    """A kept memory or a near miss, with its text."""

    memory: Selected
    text: str
    """The text as it is in the store now; empty if it is gone, or is one of the user's own."""
    lines_left_out: int = 0
    sentence: str
    """What `explain` says about the memory."""
    why: str
    """Why it is listed: `judged`, `boosted`, `filled` or `min_keep`; for a near miss `near`,
    `passed` or `folded`."""
    place: int = -1
    """Place of the memory on the map; -1: it is no longer a candidate."""
    is_changed: bool = False
    """Whether the text has changed since it was judged."""
    is_cited: bool = False


class ThreadTurn(Struct, frozen=True, kw_only=True):
    """Another turn of the same working session."""

    turn: ListedTurn
    carried: int = 0
    """Number of judgments that the page's turn took over from this one."""
    added: tuple[str, ...] = ()
    """Names of memories that it kept and the turn before it had not."""
    dropped: tuple[str, ...] = ()
    """Names of memories that only the turn before it had kept."""
    is_this: bool = False


class TurnPage(Struct, frozen=True, kw_only=True):
    """One turn as its page shows it."""

    repository: str
    turn: ListedTurn
    task: str
    errors: str
    receipt: Answer | None
    """The receipt; None if the turn runs, failed or was killed."""
    memories: tuple[MapMemory, ...]
    """All candidates, by path and line."""
    links: tuple[MapLink, ...]
    kept: tuple[ListedMemory, ...]
    near: tuple[ListedMemory, ...]
    sentences: dict[int, str]
    """What `explain` says about the best memories, by their places on the map."""
    explained: dict[int, Selected]
    """How the scores of the best memories came about, by place."""
    calls: tuple[CallRecord, ...]
    thread: tuple[ThreadTurn, ...]
    """Turns of the session, oldest first; empty if the turn is alone."""
    notes: tuple[str, ...]
    """What this page cannot show, a sentence each."""
    made_at: float
    reasons_left_out: int = 0
    """Number of reasons that a page of a readable size has no room for."""

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
    """Empty: it is in no file."""
    name: str
    """Its entity, or the title of what is in no file; empty: one of the user's own memories."""
    start_line: int
    end_line: int
    kind: str
    layer: str
    language: str
    tokens: int
    score: float | None
    """Final, 0..1; None: no judgment of it, as it stands now, is stored."""
    raw_score: float | None
    """The judge's own."""
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
    """As it is in the store now; empty: it is gone, or is one of the user's own."""
    lines_left_out: int = 0
    sentence: str
    """What `explain` says about it."""
    why: str
    """`judged`, `boosted`, `filled`, `min_keep`; of a near miss `near`, `passed` or `folded`."""
    place: int = -1
    """Its place on the map; -1: it is not a candidate any more."""
    is_changed: bool = False
    """Its text is not the one that was judged."""
    is_cited: bool = False


class ThreadTurn(Struct, frozen=True, kw_only=True):
    """Another turn of the same working session."""

    turn: ListedTurn
    carried: int = 0
    """Judgments that this turn took over from it."""
    added: tuple[str, ...] = ()
    """Names of what it kept and the turn before it had not."""
    dropped: tuple[str, ...] = ()
    """Names of what the turn before it had kept."""
    is_this: bool = False


class TurnPage(Struct, frozen=True, kw_only=True):
    """One turn as its page shows it."""

    repository: str
    turn: ListedTurn
    task: str
    errors: str
    receipt: Answer | None
    """None: the turn runs, failed or was killed."""
    memories: tuple[MapMemory, ...]
    """By path and line."""
    links: tuple[MapLink, ...]
    kept: tuple[ListedMemory, ...]
    near: tuple[ListedMemory, ...]
    sentences: dict[int, str]
    """What `explain` says about the best memories, by their places on the map."""
    explained: dict[int, Selected]
    """How their scores came about, by place."""
    calls: tuple[CallRecord, ...]
    thread: tuple[ThreadTurn, ...]
    """Oldest first; empty: the turn is alone."""
    notes: tuple[str, ...]
    """What this page cannot show, a sentence each."""
    made_at: float
    reasons_left_out: int = 0
    """Reasons that a page of a readable size has no room for."""

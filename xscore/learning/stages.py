"""The rules of consolidation in their order, each of which sees what the ones before it left. Drafts in, drafts out.

First time and learning: what closed sessions noted is carried over, then each scope is brought into order, and last
what the project says is noted and the user's share made of it. Then, once what has worn out is gone, the summaries of
what is left. Trade-off: the order is part of the result, so it stands here alone and nowhere else.
"""

from collections.abc import Callable, Collection

from xscore.learning import users_share
from xscore.learning.actions import Scope
from xscore.learning.both_stores import Work
from xscore.learning.carrying import carry, summarise
from xscore.learning.draft import Draft
from xscore.learning.merging import merge
from xscore.learning.upkeep import archive_weak, fade, keep_to_caps, retire
from xscore.memory.likeness.near_duplicates import near_duplicates
from xscore.records import Layer
from xscore.settings import MemorySettings

_LAYERS: dict[Scope, tuple[Layer, ...]] = {
    "session": (Layer.SESSION,),
    "project": (Layer.PROJECT, Layer.GOVERNANCE),
    "user": (Layer.USER,),
}


def time_and_learning(work: Work, settings: MemorySettings, wanted: Collection[Scope], *, now: float) -> None:
    """Carry over, merge, fade, let go, keep to caps and, where the user is wanted, learn of them."""
    if "session" in wanted:
        carry(work.repository, work.closed)
    for scope in (scope for scope in wanted if scope != "user"):
        merge(work.repository, _LAYERS[scope], scope, similar=near_duplicates)
        fade(work.repository, _LAYERS[scope], scope, settings, now=now)
        _settle(work.repository, scope, settings, now=now)
    if "user" in wanted:
        _users_share(work, settings, now=now)


def summaries(work: Work, settings: MemorySettings, *, told: Callable[[str], str], now: float) -> None:
    """Sum up what is left of closed sessions, and make room for it. told: what a session comes to, in words."""
    summarise(work.repository, work.closed, told=told, now=now)
    _settle(work.repository, "session", settings, now=now)


def _settle(draft: Draft, scope: Scope, settings: MemorySettings, *, now: float) -> None:
    """Let go, merge and keep to the caps until nothing changes.

    What goes may have kept others apart, and what is merged may go.
    """
    before = -1
    while before != len(draft.actions):
        before = len(draft.actions)
        retire(draft, _LAYERS[scope], scope, settings, now=now)
        merge(draft, _LAYERS[scope], scope, similar=near_duplicates)
        keep_to_caps(draft, _LAYERS[scope], scope, settings)


def _users_share(work: Work, settings: MemorySettings, *, now: float) -> None:
    draft = work.user
    noted = work.noted = users_share.note(
        work.repository, draft, work.known, project=work.project, projects=work.projects, now=now
    )
    users_share.promote(draft, noted, settings, forgotten=work.forgotten, now=now)
    users_share.see(draft, noted)
    merge(draft, _LAYERS["user"], "user", similar=near_duplicates)
    drifting = users_share.drifting(draft, noted, settings)
    fade(draft, _LAYERS["user"], "user", settings, now=now, drifting=drifting)
    archive_weak(draft, "user", settings)
    _settle(draft, "user", settings, now=now)
    users_share.mark_exceptions(work.repository, draft)

"""A turn while it runs: how far it is, the best so far, dollars until now, and its end.

Everything is read from the rows that the turn writes anyway: each judgment is committed before
anyone sees it, each call has its row. So any process may look on, and a turn that is looked at does
nothing more than one that is not. Scores are the judge's own: boosts, words and the cut come when
all is judged. Trade-off: what a turn takes over from earlier questions of its thread is in no row
before its receipt, so it counts as left until then.
"""

from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct

from xscore.extensions.view.messages import PageResponse
from xscore.extensions.view.site import PageAssets, Site, json_response
from xscore.extensions.view.stopping import interrupt, why_not_stoppable
from xscore.pipeline import pool
from xscore.pipeline.json_form import record_json
from xscore.pipeline.ranked_again import candidates_now
from xscore.platform.errors import NothingMatched, UsageError
from xscore.platform.figures import format_dollars, format_seconds
from xscore.platform.text import format_place, one_line
from xscore.records.candidates import Candidate
from xscore.records.reports import ListedTurn
from xscore.store.turn_history import (
    find_turn_id,
    load_listed_turn,
    past_turn,
    running_turn,
)

if TYPE_CHECKING:
    from xscore.settings import Settings
    from xscore.store.store import Store


class BestSoFar(Struct, frozen=True):
    """One of the provisional best."""

    score: float
    name: str
    place: str


class LiveTurn(Struct, frozen=True, kw_only=True):
    """The progress of a running turn."""

    state: str
    candidates: int
    judged: int
    calls: int
    failed_attempts: int
    cost: str
    elapsed: str
    best: tuple[BestSoFar, ...]


def live_page(site: Site, listed: ListedTurn) -> PageResponse:
    """Return the page of a turn that runs."""
    with site.opened() as store:
        running = running_turn(store.connection, listed.id)
        live = _live_turn(store, site.loaded.settings, listed.id)
    why_not = why_not_stoppable(running) if running is not None else "it has just ended"
    return site.render(
        "running.html.j2",
        assets=PageAssets(scripts=("running.js",)),
        turn=listed,
        live=live,
        why_not=why_not,
        is_stopping=listed.id in site.stopped,
    )


def live_figures(site: Site, turn_id: str) -> PageResponse:
    """Return the progress of a turn, for the script of its page."""
    with site.opened() as store:
        live = _live_turn(store, site.loaded.settings, find_turn_id(store.connection, turn_id))
    return json_response(record_json(live))


def stop_turn(site: Site, turn_id: str) -> PageResponse:
    """Stop a turn, and go back to its page. Raises NothingMatched, UsageError."""
    with site.opened() as store:
        turn_id = find_turn_id(store.connection, turn_id)
        running = running_turn(store.connection, turn_id)
    if running is None:
        raise NothingMatched(
            f"turn {turn_id} is no longer running", hint="Its page says how it ended."
        )
    why_not = why_not_stoppable(running)
    if why_not:
        raise UsageError(
            f"turn {turn_id} cannot be stopped from here: {why_not}",
            hint="End it where it was begun.",
        )
    # A second signal would end the process before it has written its receipt.
    if turn_id not in site.stopped:
        site.stopped.add(turn_id)
        with suppress(ProcessLookupError):  # it has ended by itself
            interrupt(running)
    return site.go_to(f"turn/{turn_id}")


def _live_turn(store: "Store", settings: "Settings", turn_id: str) -> LiveTurn:
    past = past_turn(store.connection, turn_id)
    now = store.clock()
    listed = load_listed_turn(store.connection, turn_id, now=now)
    if past is None:
        raise NothingMatched(
            f"turn {turn_id} was erased a moment ago",
            hint="The list of questions has the others.",
        )
    everything = candidates_now(store, settings, past, None)
    candidates = pool.narrow_to_scope(everything, past.turn.scope)
    judgments = pool.known_judgments(store, past.turn_key, past.judge)
    scored: list[tuple[float, Candidate]] = []
    for candidate in candidates:
        judgment = judgments.get(candidate.content_hash)
        if judgment is not None:
            scored.append((judgment.score, candidate))
    scored.sort(key=lambda pair: (-pair[0], pair[1].id))
    leading = scored[: settings.selection.top_k]
    titles = store.titles([candidate.id for _, candidate in leading if not candidate.entity])
    spent = listed.spent
    return LiveTurn(
        state=listed.state,
        candidates=len(candidates),
        judged=len(scored),
        calls=spent.calls,
        failed_attempts=spent.attempts - spent.calls,
        cost=format_dollars(spent.cost_usd, estimated=spent.estimated),
        elapsed=format_seconds(max(0.0, now - listed.at)),
        best=tuple(
            _shown(score, candidate, titles.get(candidate.id, ""))
            for score, candidate in leading
        ),
    )


def _shown(score: float, candidate: Candidate, title: str) -> BestSoFar:
    place = format_place(candidate.path, candidate.start_line, candidate.end_line)
    name = candidate.entity or title or candidate.path or f"{candidate.layer} {candidate.kind}"
    return BestSoFar(round(score, 2), one_line(name), one_line(place))

"""Which page answers which path, and what an error looks like.

Only what is listed here is answered; no path names a file. What changes something is posted, and
only to a server that was started with `--edit`.
"""

from xscore.extensions.view import measures, questions, reviewing, running, turn_pages
from xscore.extensions.view.messages import PageRequest, PageResponse
from xscore.extensions.view.site import Site
from xscore.platform.database import is_busy
from xscore.platform.errors import (
    NothingMatched,
    StoreError,
    StoreTooNew,
    StoreUntrusted,
    UsageError,
    XscoreError,
)
from xscore.store.turn_history import find_turn_id, load_listed_turn
from xscore.store.turns import TurnState

READ_ONLY = "this server is read-only"
EDIT_HINT = "Start it with `xscore view --edit` to stop turns and to review memories."


def answer_request(site: Site, request: PageRequest) -> PageResponse:
    """Return the response; an error of ours becomes a page of its own."""
    try:
        if request.is_post:
            return _change(site, request)
        return _show(site, request)
    except XscoreError as error:
        return site.render("failed.html.j2", status=_status_of(error), error=error)


def _show(site: Site, request: PageRequest) -> PageResponse:
    match request.path:
        case ():
            response = questions.questions_page(site, request)
        case ("turn", turn_id):
            response = _turn_page(site, turn_id)
        case ("turn", turn_id, "now"):
            response = running.live_figures(site, turn_id)
        case ("compare",):
            response = turn_pages.compare_page(site, request)
        case ("memories",):
            response = reviewing.review_page(site)
        case ("report",):
            response = measures.report_page(site)
        case ("gate",):
            response = measures.gate_page(site)
        case _:
            raise _no_page()
    return response


def _change(site: Site, request: PageRequest) -> PageResponse:
    if not site.may_edit:
        raise UsageError(READ_ONLY, hint=EDIT_HINT)
    match request.path:
        case ("turn", turn_id, "stop"):
            return running.stop_turn(site, turn_id)
        case ("memories", identifier):
            return reviewing.answer_fact(site, identifier, request)
    raise _no_page()


def _turn_page(site: Site, turn_id: str) -> PageResponse:
    with site.opened() as store:
        turn_id = find_turn_id(store.connection, turn_id)
        listed = load_listed_turn(store.connection, turn_id, now=store.clock())
    if listed.state == TurnState.RUNNING:
        return running.live_page(site, listed)
    return turn_pages.turn_page(site, turn_id)


def _no_page() -> NothingMatched:
    return NothingMatched(
        "there is no such page", hint="The list of questions leads to all pages."
    )


def _status_of(error: XscoreError) -> int:
    """Return the HTTP status: whose fault it is, and whether it helps to ask again."""
    if isinstance(error, StoreError) and is_busy(error):
        return 503
    match error:
        case NothingMatched():
            return 404
        case UsageError():
            return 400
        case StoreUntrusted():
            return 403
        case StoreTooNew():
            return 409
    return 500

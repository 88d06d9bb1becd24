"""The review queue: facts that sessions left behind, each with its quote; accept, edit or reject.

What an answer does is `extensions.extraction.review`, as at `memory review`. An answer to a fact
that somebody else has answered meanwhile changes nothing, and says so.
"""

from xscore.cli.phrases import format_age
from xscore.extensions.extraction import review
from xscore.extensions.view.messages import PageRequest, PageResponse
from xscore.extensions.view.site import Site
from xscore.platform.errors import UsageError

ACCEPT, REJECT = "accept", "reject"


def review_page(site: Site) -> PageResponse:
    """Return the facts that wait."""
    with site.opened() as store:
        now = store.clock()
        facts = review.facts_to_review(store)
    ages = [format_age(fact.updated_at, now) for fact in facts]
    return site.render("review.html.j2", facts=list(zip(facts, ages, strict=True)))


def answer_fact(site: Site, identifier: str, request: PageRequest) -> PageResponse:
    """Accept a fact, as corrected where its text was changed, or reject it. Raises NothingMatched,
    UsageError."""
    answer = request.form.get("answer", "")
    if answer not in (ACCEPT, REJECT):
        raise UsageError(
            f"{answer!r} is not an answer to a fact", hint="Accept it or reject it."
        )
    with site.opened(to_write=True) as store:
        now = store.clock()
        _, fact = review.find_open_fact(store, identifier)
        if answer == REJECT:
            review.reject_fact(store, identifier, now=now)
        else:
            # A browser sends every line end as CR and LF.
            text = request.form.get("text", "").replace("\r\n", "\n").strip()
            if text == fact.text.strip():
                text = ""
            review.accept_fact(store, identifier, now=now, text=text)
    return site.go_to("memories")

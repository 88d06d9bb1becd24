"""The list of past questions, newest first, and the search in questions and answers.

What it lists is what `history list` lists. Trade-off: it reads all turns up to the last one shown,
so the end of a list of ten thousand takes a second.
"""

import re
from collections.abc import Sequence
from sqlite3 import Connection

from msgspec import Struct

from xscore.cli.phrases import format_age
from xscore.extensions.view.messages import PageRequest, PageResponse
from xscore.extensions.view.site import Site
from xscore.platform.text import one_line
from xscore.records.reports import ListedTurn
from xscore.store.turn_history import TurnFilter, list_turns, past_turn

SHOWN_AT_ONCE, MOST_SHOWN = 50, 2_000
CHARS_AROUND = 90
"""Characters shown of an answer on each side of the text that was searched for."""


class Excerpt(Struct, frozen=True):
    """Where an answer has what was searched for."""

    before: str
    match: str
    after: str


class QuestionRow(Struct, frozen=True, kw_only=True):
    """A turn of the list."""

    turn: ListedTurn
    age: str
    excerpt: Excerpt | None = None
    asked_before: str = ""
    """Id of the listed turn that asked the same before; empty if there is none."""


def questions_page(site: Site, request: PageRequest) -> PageResponse:
    """Return the list."""
    text = request.first("q").strip()
    limit = _limit(request.first("show"))
    choice = TurnFilter(limit=limit + 1, text=text, in_answers=True)
    with site.opened() as store:
        now = store.clock()
        listing = list_turns(store.connection, choice, now=now)
        rows = _rows(store.connection, listing.turns[:limit], text, now=now)
    return site.render(
        "questions.html.j2",
        rows=rows,
        text=text,
        more=min(MOST_SHOWN, 4 * limit) if len(listing.turns) > limit else 0,
        damaged=listing.damaged_turns,
    )


def _limit(number: str) -> int:
    if not number.isdecimal() or len(number) > 6:
        return SHOWN_AT_ONCE
    return max(1, min(MOST_SHOWN, int(number)))


def _rows(
    connection: Connection, turns: Sequence[ListedTurn], text: str, *, now: float
) -> list[QuestionRow]:
    rows: list[QuestionRow] = []
    latest_of_task: dict[str, str] = {}
    for turn in reversed(turns):
        rows.append(
            QuestionRow(
                turn=turn,
                age=format_age(turn.at, now),
                excerpt=_excerpt(connection, turn, text),
                asked_before=latest_of_task.get(turn.task, ""),
            )
        )
        if turn.task and turn.coverage is not None:
            latest_of_task[turn.task] = turn.id
    rows.reverse()
    return rows


def _excerpt(connection: Connection, turn: ListedTurn, text: str) -> Excerpt | None:
    if not text:
        return None
    past = past_turn(connection, turn.id)
    if past is None or not past.answer:
        return None
    answer = one_line(past.answer)
    match = re.search(re.escape(text), answer, re.IGNORECASE)
    if match is None:
        return None
    start, end = match.span()
    before = answer[max(0, start - CHARS_AROUND) : start]
    if start > CHARS_AROUND:
        before = f"…{before}"
    after = answer[end : end + CHARS_AROUND]
    if len(answer) > end + CHARS_AROUND:
        after = f"{after}…"
    return Excerpt(before, match[0], after)

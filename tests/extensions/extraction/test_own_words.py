"""What counts as a speaker's own words, and what takes them back."""

from datetime import date

import pytest

from tests.cpu_time import assert_growth
from xscore.extensions.extraction.dates import with_absolute_dates
from xscore.extensions.extraction.own_words import own_sentences, own_text
from xscore.extensions.extraction.session_facts import Message, find_by_rules

FRIDAY = date(2026, 11, 27)


def own(message: str) -> list[str]:
    """Return the sentences that are the speaker's own statements."""
    return [sentence.text for sentence in own_sentences(message) if not sentence.doubt]


@pytest.mark.parametrize(
    ("message", "kept"),
    [
        ("We use uv. Is it fast?", ["We use uv."]),
        ("```\nwe use uv\n```\nWe pin it.", ["We pin it."]),
        ("```\nwe use uv", []),
        ("> We use uv.\nWe pin it.", ["We pin it."]),
        ("<page>We use uv.</page> We pin it.", ["We pin it."]),
        ("<html><body>We use uv.", []),
        ("The README says:\nWe use uv.", []),
        ("Two rules:\n- We use uv.\n- We pin it.", ["Two rules:", "We use uv.", "We pin it."]),
        ("Bob said we use uv. Never pin it.", []),
        ("Bob said we use uv. But we pin it.", ["But we pin it."]),
        ("$ cat a\nWe use uv.\n\nWe pin it.", ["We pin it."]),
        ("Anna: we use uv.\nWe pin it.", ["We pin it."]),
        ("2026-11-28 10:00:07 We use uv.\nWe pin it.", ["We pin it."]),
        ("[10:00:07] We use uv.\nINFO We use pip.\nWe pin it.", ["We pin it."]),
        ("/* We use uv. */\n// We use pip.\nWe pin it.", ["We pin it."]),
        ("Subject: tools\n\nWe use uv.", []),
        ("I got this mail: We use uv. Read it.", []),
        ("Add a comment: We use uv.", []),
        ("2026-11-28: We use uv.", ["2026-11-28: We use uv."]),
        ("", []),
        ("…", []),
        (">", []),
    ],
)
def test_only_own_statements_count(message: str, kept: list[str]) -> None:
    """Code, quotations, pages, transcripts and what is announced are not the speaker's."""
    assert own(message) == kept


def test_places_stay_where_they_were() -> None:
    """What is blanked keeps its length, so that a quote is found where it was said."""
    message = 'He wrote "always use this one" and\n```\ncode\n```\nWe use <b>uv</b>.'
    assert len(own_text(message)) == len(message)
    for sentence in own_sentences(message):
        assert message[sentence.start : sentence.end] == sentence.text


@pytest.mark.parametrize(
    "part",
    ["a. ", '"', "'a ", "<a ", "<a>", "this ", "`", "no longer use ", "\n> ", "but it ", "We "],
)
def test_a_strangers_text_takes_no_more_work_than_its_length(part: str) -> None:
    """Four times the text takes far less than its square."""

    def read(size: int) -> None:
        text = part * (size // len(part))
        find_by_rules([Message("user", text, "m_1", 0.0, FRIDAY)])

    read(100)  # the patterns are compiled
    assert_growth(read, small=4_000, large=16_000, at_most=10)


@pytest.mark.parametrize(
    ("spoken", "absolute"),
    [
        ("by Friday", "by Friday (2026-11-27)"),
        ("next Friday", "next Friday (2026-12-04)"),
        ("on Monday", "on Monday (2026-11-30)"),
        ("since Monday", "since Monday (2026-11-23)"),
        ("tomorrow", "tomorrow (2026-11-28)"),
        ("two days ago", "two days ago (2026-11-25)"),
        ("in 3 weeks", "in 3 weeks (2026-12-18)"),
        ("in a month", "in a month (2026-12-27)"),
        ("end of the quarter", "end of the quarter (2026-12-31)"),
        ("next month", "next month (2026-12-31)"),
        ("next year", "next year (2027-12-31)"),
        ("in 999 months", "in 999 months (2110-02-27)"),
        ("on the 3rd", "on the 3rd"),
        ("tomorrow (2026-11-28)", "tomorrow (2026-11-28)"),
    ],
)
def test_dates_become_absolute(spoken: str, absolute: str) -> None:
    """A day is named by its date, once, behind the words that were said."""
    assert with_absolute_dates(spoken, FRIDAY) == absolute


def test_a_day_outside_the_calendar_is_left_alone() -> None:
    """No date is made up."""
    assert with_absolute_dates("tomorrow", date.max) == "tomorrow"

"""Make dates absolute: `by Friday` is worth nothing to who reads it in a month.

The date is added behind the words, which stay: a quote is found again by them. English, by the
local day of the speaker. Trade-off: a month or a quarter gets its last day, and what may be either
(`on the 3rd`, `in spring`) is left alone.
"""

import calendar
import re
from datetime import date, timedelta

_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NUMBERS = dict(
    zip(
        "a an one two three four five six seven eight nine ten".split(),
        (1, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10),
        strict=True,
    )
)
_RELATIVE = re.compile(
    r"\b(?:(?P<day>today|tonight|tomorrow|yesterday)"
    rf"|(?P<which>next|last|this|coming|on|by|until|till|before|after|since)"
    rf" (?P<weekday>{'|'.join(_DAYS)})"
    r"|(?P<span>next|last|this|end of the|end of) (?P<unit>week|month|quarter|year)"
    rf"|in (?P<ahead>\d{{1,3}}|{'|'.join(_NUMBERS)}) (?P<ahead_unit>day|week|month)s?"
    rf"|(?P<ago>\d{{1,3}}|{'|'.join(_NUMBERS)}) (?P<ago_unit>day|week|month)s? ago)\b"
    r"(?! \(\d{4}-)",
    re.IGNORECASE,
)


def with_absolute_dates(text: str, said_on: date) -> str:
    """Return the text with the date behind each word that tells a day by the day it was said on."""

    def dated(match: re.Match[str]) -> str:
        day = _day_of(match, said_on)
        if day is None:
            return match[0]
        return f"{match[0]} ({day.isoformat()})"

    return _RELATIVE.sub(dated, text)


def _day_of(match: re.Match[str], said_on: date) -> date | None:
    try:
        if match["day"]:
            offset = {"tomorrow": 1, "yesterday": -1}.get(match["day"].lower(), 0)
            return said_on + timedelta(days=offset)
        if match["weekday"]:
            return _weekday(match["which"].lower(), match["weekday"].lower(), said_on)
        if match["unit"]:
            return _period(match["span"].lower(), match["unit"].lower(), said_on)
        if match["ahead"]:
            return _moved(said_on, _number(match["ahead"]), match["ahead_unit"].lower())
        return _moved(said_on, -_number(match["ago"]), match["ago_unit"].lower())
    except (ValueError, OverflowError):  # a day outside the calendar
        return None


def _number(word: str) -> int:
    if word.isdigit():
        return int(word)
    return _NUMBERS[word.lower()]


def _weekday(which: str, weekday: str, said_on: date) -> date:
    ahead = (_DAYS.index(weekday) - said_on.weekday()) % 7
    if which in ("last", "since"):
        return said_on - timedelta(days=(7 - ahead) % 7 or 7)
    # `by Friday`, said on a Friday, is that day; `next Friday` is the one after.
    if which == "next" and ahead == 0:
        ahead = 7
    return said_on + timedelta(days=ahead)


def _period(span: str, unit: str, said_on: date) -> date:
    """Return the last day of a period."""
    step = {"next": 1, "last": -1}.get(span, 0)
    if unit == "week":
        return said_on + timedelta(days=6 - said_on.weekday() + 7 * step)
    if unit == "year":
        return date(said_on.year + step, 12, 31)
    months = said_on.year * 12 + said_on.month - 1 + step * (3 if unit == "quarter" else 1)
    if unit == "quarter":
        months += 2 - months % 3
    return _end_of_month(months)


def _end_of_month(months: int) -> date:
    """months: since the year 0."""
    year = months // 12
    month = months % 12 + 1
    return date(year, month, calendar.monthrange(year, month)[1])


def _moved(said_on: date, count: int, unit: str) -> date:
    if unit != "month":
        return said_on + timedelta(days=count * (7 if unit == "week" else 1))
    months = said_on.year * 12 + said_on.month - 1 + count
    last = _end_of_month(months)
    return last.replace(day=min(said_on.day, last.day))

"""What a text states about a variable: its class, and what made it.

A variable is looked up by its name, and the patterns are tried only there: to try them at every word of a file would
cost as much as its grammar. Trade-off: a text is all that is seen, so a class stated elsewhere is unknown.
"""

import re
from collections.abc import Iterable, Iterator

_VARIABLE = re.compile(r"[a-z_]\w*\Z")
_WORD_CHAR = re.compile(r"\w")
_BEHIND = frozenset(" \t\n\r\f\v?:=,;)")
"""What may follow a name whose class is stated there; most names have a dot behind them and are passed over."""
_GIVEN = re.compile(
    r"\s{0,9}(?:\??:\s{0,9}[&\"']?(?:mut )?(?:\w+\.)*([A-Z]\w*)\b(?![\[<])"
    r"|:?=\s{0,9}(?:new |await |&)?([A-Z]\w*)(?:::(?:new|default|from))?\s?[({<])"
)
"""Behind the name: `request: Request`, `request = Request()`."""
_PARAMETER = re.compile(r" \*?(?:\w+\.)?([A-Z]\w*)\s{0,9}[,)]")
"""Behind the name, which `_OPENED` precedes: `(r *Request)`."""
_OPENED = re.compile(r"[(,]\s{0,9}\Z")
_TYPE = re.compile(r"\b([A-Z]\w*)(?:<[^<>]{0,80}>)?[ &*]{1,4}\Z")
"""Before the name, which `_ENDED` follows: `Request request;`."""
_ENDED = re.compile(r"\s{0,9}[,)=;:]")
_LEAD_CHARS = 160
"""How much of the text before a name is looked at."""
_MADE = re.compile(r"\s*=\s*(?:await\s+|new\s+)*([\w$.]+)\(")
"""Behind the name: `store = Store(`."""
_OPENED_AS = re.compile(r"\bwith\s+([\w.]+)\(.*\)\s+as\s+\Z")
"""Before the name: `with Store(…) as store`."""


def stated_types(text: str, calls: Iterable[str]) -> dict[str, str]:
    """Return the class of each variable with a called method, where the text states one."""
    heads = {call.partition(".")[0] for call in calls if "." in call}
    found = ((head, _stated_type(text, head)) for head in heads if _VARIABLE.match(head))
    return {head: stated for head, stated in found if stated}


def made_by(name: str, text: str) -> str:
    """Return what last made a variable: `Store` of `store = Store(…)` or of `with Store(…) as store`; else nothing."""
    maker = ""
    for place, end in _places(text, name):
        made = _MADE.match(text, end) or _OPENED_AS.search(text[text.rfind("\n", 0, place) + 1 : place])
        maker = made[1] if made else maker
    return maker


def _stated_type(text: str, name: str) -> str:
    """Return the class by the clearest form, and of that by its last place."""
    annotated = made = parameter = typed = ""
    for place, end in _places(text, name):
        if given := _GIVEN.match(text, end):
            annotated, made = given[1] or annotated, given[2] or made
        before = text[max(0, place - _LEAD_CHARS) : place]
        if (given := _PARAMETER.match(text, end)) and _OPENED.search(before):
            parameter = given[1]
        if _ENDED.match(text, end) and (given := _TYPE.search(before)):
            typed = given[1]
    return annotated or made or parameter or typed


def _places(text: str, name: str) -> Iterator[tuple[int, int]]:
    """Yield where a name stands as a word and may be stated, as start and end."""
    place = text.find(name)
    while place >= 0:
        end = place + len(name)
        if text[end : end + 1] in _BEHIND and not (place and _WORD_CHAR.match(text, place - 1)):
            yield place, end
        place = text.find(name, end)

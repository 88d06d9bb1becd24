"""Take out what tells who a person is: e-mail addresses, phone numbers, postal addresses, as `<PII:type>`.

The rules are data (`pii.toml`). It looks at what people say, at sessions that are imported and at configuration, not at
code or documents; `memory.door` decides that. Lines keep their number, and looking twice changes nothing. Trade-off:
precision before recall: an address that is a role's (`security@`), a host's (`git@host:path`) or an example's stays,
and so does a bare number that nothing says is a phone's; names are not looked for at all.
"""

import re
import tomllib
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any

from msgspec import Struct

from xscore.store.redaction import Redacted

MIN_DIGITS, MAX_DIGITS = 7, 15
"""Of a phone number (E.164 allows 15)."""

_NOT_DIGITS = re.compile(r"\D")


class _Rule(Struct, frozen=True):
    type: str
    literals: tuple[str, ...]
    pattern: re.Pattern[str]
    check: Callable[[re.Match[str]], bool]


def redact_pii(text: str) -> Redacted:
    """Replace every e-mail address of a person, phone number and postal address by `<PII:type>`."""
    count, types, lowered = 0, set[str](), text.lower()
    for rule in _rules():
        if any(literal in lowered for literal in rule.literals):
            text, found = _replace(text, rule)
            count += found
            types |= {rule.type} if found else set()
    return Redacted(text, count, tuple(sorted(types)))


def _replace(text: str, rule: _Rule) -> tuple[str, int]:
    pieces, end, count = list[str](), 0, 0
    for match in rule.pattern.finditer(text):
        if match["pii"] and rule.check(match):
            start, stop = match.span("pii")
            pieces += [text[end:start], f"<PII:{rule.type}>", "\n" * match["pii"].count("\n")]
            end, count = stop, count + 1
    return "".join([*pieces, text[end:]]), count


def _is_persons_address(match: re.Match[str]) -> bool:
    local, domain = match["local"].lower().rstrip("."), match["domain"].lower()
    known, ending = _data()["email"], domain.rsplit(".", 1)[-1]
    if local.split("+")[0] in known["roles"] or ending in known["files"]:
        return False
    if any(domain == name or domain.endswith("." + name) for name in known["domains"]) or domain.startswith("example."):
        return False
    return len(ending) == 2 or ending in known["endings"]


def _is_phone_number(match: re.Match[str]) -> bool:
    given = match["pii"]
    digits = _NOT_DIGITS.sub("", given)
    if not MIN_DIGITS <= len(digits) <= MAX_DIGITS:
        return False
    return not any(made_up.search(form) for made_up in _made_up() for form in (given, digits))


def _is_place(_match: re.Match[str]) -> bool:
    return True


_CHECKS = {"email": _is_persons_address, "phone": _is_phone_number, "place": _is_place}


@cache
def _data() -> dict[str, Any]:
    return tomllib.loads(files("xscore.store").joinpath("pii.toml").read_text("utf-8"))


@cache
def _made_up() -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(pattern) for pattern in _data()["phone"]["fiction"])


@cache
def _rules() -> tuple[_Rule, ...]:
    return tuple(
        _Rule(rule["type"], tuple(rule["literals"]), re.compile(rule["pattern"], re.IGNORECASE), _CHECKS[rule["check"]])
        for rule in _data()["rule"]
    )

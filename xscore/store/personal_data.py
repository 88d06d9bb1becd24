"""Redact personal data: e-mail addresses, phone numbers and postal addresses become `<PII:type>`.

The rules are data (`pii.toml`, read as JSON). They apply to statements, imported sessions and
configuration, not to code or documents; `memory_writer` decides. The number of lines never changes,
and redacting twice changes nothing. Trade-off: precision before recall: role (`security@`), host
(`git@host:path`) and example addresses stay, as do bare numbers without a hint that they are phone
numbers; names are not detected.
"""

import re
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from xscore.store.redaction import Redacted, redact
from xscore.store.secret_screen import FoundLiterals

_MIN_DIGITS, _MAX_DIGITS = 7, 15
"""Digits of a phone number (E.164 allows 15)."""


class PersonalRule(Struct, frozen=True):
    """One rule of personal data: a pattern, tried where one of its literals occurs in lower
    case."""

    type: str
    literals: tuple[str, ...]
    pattern: str
    check: str
    digits: int = 0


def rules_among(texts: Iterable[str]) -> tuple[PersonalRule, ...]:
    """Return the rules that may apply to some of these texts, with the literals that occur in
    one."""
    lowered = "\n".join(texts).lower()
    matching: list[PersonalRule] = []
    for rule in _rules():
        literals = tuple(literal for literal in rule.literals if literal in lowered)
        if literals:
            matching.append(replace(rule, literals=literals))
    return tuple(matching)


def redact_pii(text: str, rules: tuple[PersonalRule, ...] | None = None) -> Redacted:
    """Replace every e-mail address of a person, phone number and postal address by `<PII:type>`.

    rules: those that `rules_among` found for texts of which this is one.
    """
    count = 0
    types = set[str]()
    lowered = text.lower()
    digits = sum(map(text.count, "0123456789"))
    for rule in _rules() if rules is None else rules:
        if rule.digits <= digits and any(map(lowered.__contains__, rule.literals)):
            text, replaced = _replace(text, rule)
            count += replaced
            types |= {rule.type} if replaced else set()
    return Redacted(text, count, tuple(sorted(types)))


def redact_said(
    text: str,
    *,
    prose: bool = True,
    allow_pii: bool = False,
    literals: FoundLiterals | None = None,
    rules: tuple[PersonalRule, ...] | None = None,
) -> Redacted:
    """Replace secrets, and personal data unless they are allowed, in what was said.

    prose: see `redact`.
    literals: see `redact`.
    rules: see `redact_pii`.
    """
    redacted = redact(text, prose=prose, literals=literals)
    if allow_pii:
        return redacted
    screened = redact_pii(redacted.text, rules)
    return Redacted(
        screened.text, redacted.count + screened.count, (*redacted.types, *screened.types)
    )


def _replace(text: str, rule: PersonalRule) -> tuple[str, int]:
    pieces = list[str]()
    end = 0
    count = 0
    for match in re.finditer(rule.pattern, text, re.IGNORECASE):
        if match["pii"] and _CHECKS[rule.check](match):
            start, stop = match.span("pii")
            pieces += [text[end:start], f"<PII:{rule.type}>", "\n" * match["pii"].count("\n")]
            end = stop
            count = count + 1
    return "".join([*pieces, text[end:]]), count


def _is_persons_address(match: re.Match[str]) -> bool:
    local = match["local"].lower().rstrip(".")
    domain = match["domain"].lower()
    lists = _data()["email"]
    ending = domain.rsplit(".", 1)[-1]
    if local.split("+")[0] in lists["roles"] or ending in lists["files"]:
        return False
    if domain.startswith("example."):
        return False
    if any(f".{domain}".endswith(f".{name}") for name in lists["domains"]):
        return False
    return len(ending) == 2 or ending in lists["endings"]


def _is_phone_number(match: re.Match[str]) -> bool:
    number = match["pii"]
    digits = re.sub(r"\D", "", number)
    if not _MIN_DIGITS <= len(digits) <= _MAX_DIGITS:
        return False
    for made_up in _data()["phone"]["fiction"]:
        if re.search(made_up, number) or re.search(made_up, digits):
            return False
    return True


_CHECKS: dict[str, Callable[[re.Match[str]], bool]] = {
    "email": _is_persons_address,
    "phone": _is_phone_number,
    "place": bool,
}


@cache
def _data() -> dict[str, Any]:
    tables: dict[str, Any] = msgspec.json.decode(
        Path(__file__).with_name("pii.json").read_bytes()
    )
    return tables


@cache
def _rules() -> tuple[PersonalRule, ...]:
    return msgspec.convert(_data()["rule"], tuple[PersonalRule, ...])

"""Whether a version fits what a manifest requires: `>=3.11`, `^4.2`, `~=1.2`, `18 || 20`, `v1.2.3`.

Numbers alone are compared, as many parts as both have. Pure. Trade-off: pre-releases and epochs are
not told apart.
"""

import re

_CLAUSE = re.compile(r"(?:(>=|<=|==|!=|~=|[><^~=])[ \t]*+)?v?(\d++(?:\.\d++)*+)")

_EXCLUDING = frozenset({"!=", "<", ">", "<="})


def has_number(requirement: str) -> bool:
    """Whether a requirement says anything of a version."""
    return _CLAUSE.search(requirement) is not None


def allows(requirement: str, version: str) -> bool:
    """Whether a version fits what is required: it satisfies it, or is the one that it is about."""
    clauses = _CLAUSE.findall(requirement)
    number = _numbers(version)
    for operator, bound in clauses:
        # `^4.2.7` is about 4.2, `<5` is not about 5.
        if operator not in _EXCLUDING and _is_prefix(number, _numbers(bound)):
            return True
    # Alternatives (`^18 || ^20`) are not bounds together.
    alternatives = [_CLAUSE.findall(part) for part in requirement.split("||")]
    return any(
        all(_is_within(operator, _numbers(bound), number) for operator, bound in part)
        for part in alternatives
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _is_prefix(first: tuple[int, ...], second: tuple[int, ...]) -> bool:
    size = min(len(first), len(second))
    return first[:size] == second[:size]


def _is_within(operator: str, bound: tuple[int, ...], number: tuple[int, ...]) -> bool:
    # No more parts than the version has: 3.11 is at least 3.11.2 as far as one can tell.
    least = bound[: len(number)]
    kept = max(1, len(bound) - 1)
    fits = {
        ">=": number >= least,
        ">": number > bound,
        "<=": number <= bound or _is_prefix(number, bound),
        "<": number < bound,
        "!=": number != bound,
        "^": number[:1] == bound[:1] and number >= least,
        "~": number[:kept] == least[:kept] and number >= least,
    }
    return fits.get("~" if operator == "~=" else operator, _is_prefix(number, bound))

"""Finds every pattern of the package, and makes the texts that a hostile file would hold against
each.

Compiled patterns are found by walking the modules; those that a call of `re` compiles, by reading
the sources. What such a call gets from elsewhere (a table, a made-up string) is named in
`test_patterns.py`, so that none hides.
"""

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from re import _constants as codes  # type: ignore[attr-defined]  # the parser of `re` states its own tree only here
from re import _parser as parser  # type: ignore[attr-defined]  # private, and the only one there is
from types import ModuleType
from typing import Any, NamedTuple

import xscore

_CALLS = {
    "compile",
    "search",
    "match",
    "fullmatch",
    "findall",
    "finditer",
    "sub",
    "subn",
    "split",
}
_FLAGS_AT = {"compile": 1, "sub": 4, "subn": 4, "split": 3}
_ANCHORED = {"match", "fullmatch"}
_FILLERS = " \n\ta_0A-+./\\\"'`([<#=:"
_MORE_FILLERS = "\r)]{}>;,@$%&*?!|~^é"
_BLANK_LINES = (" \n", "\t\n", "\r\n", "a\n", "a ")
_SAMPLES = 'a 0-."/(\n#€' + "".join(map(chr, range(1, 0x180)))


class UsedPattern(NamedTuple):
    """A pattern and how the package runs it."""

    place: str
    """Module and name, or module and source text of the call's argument."""
    pattern: str | bytes
    flags: int
    whole_text: bool
    """Whether it is searched for anywhere in a text; otherwise it is only matched at one
    place."""


@cache
def package_modules() -> tuple[ModuleType, ...]:
    """Import every module of the package."""
    names = [module.name for module in pkgutil.walk_packages(xscore.__path__, "xscore.")]
    # What other frameworks call, and what Ray's workers run, needs those packages at once.
    elsewhere = (".integrations.", ".ray_worker")
    own_names = (
        name
        for name in names
        if not name.endswith("__main__") and not any(part in name for part in elsewhere)
    )
    return tuple(importlib.import_module(name) for name in own_names)


def used_patterns(
    built_later: Mapping[str, list[tuple[str | bytes, int]]],
) -> tuple[list[UsedPattern], list[str]]:
    """Return all patterns, and the calls of `re` whose pattern is not stated. built_later: those of
    such calls."""
    patterns: dict[tuple[Any, ...], UsedPattern] = {}
    unknown: list[str] = []
    compiled_patterns = set[str | bytes]()
    for module in package_modules():
        nodes = list(ast.walk(ast.parse(_source_of(module))))
        methods = _methods_by_name(nodes)
        for name, compiled in _compiled_in(vars(module), module.__name__):
            used_by = methods.get(name.split(".")[0].split("[")[0], set())
            is_searched = not used_by or bool(used_by - _ANCHORED)
            place = f"{module.__name__}.{name}"
            compiled_patterns.add(compiled.pattern)
            patterns[compiled.pattern, compiled.flags, is_searched] = UsedPattern(
                place, compiled.pattern, compiled.flags, is_searched
            )
        for call in _calls_of_re(nodes):
            place = f"{module.__name__}: {ast.unparse(call.args[0])}"
            for pattern, flags in _stated(call, vars(module)) or built_later.get(place, []):
                method = call.func.attr  # type: ignore[attr-defined]  # `_calls_of_re` yields only such calls
                is_searched = method not in _ANCHORED
                if method == "compile" and pattern in compiled_patterns:
                    continue  # it has a name, by which it was found above
                patterns[pattern, flags, is_searched] = UsedPattern(
                    place, pattern, flags, is_searched
                )
            if not _stated(call, vars(module)) and place not in built_later:
                unknown.append(place)
    return list(patterns.values()), unknown


def hostile_fillers(used: UsedPattern, *, thorough: bool) -> Iterator[str]:
    """Yield what to repeat: single characters, blank lines, and beginnings of what the pattern
    matches."""
    yield from _FILLERS + (_MORE_FILLERS if thorough else "")
    yield from _BLANK_LINES
    seen: set[str] = set()
    flags = used.flags & ~re.UNICODE if isinstance(used.pattern, bytes) else used.flags
    parsed = parser.parse(used.pattern, flags)
    for branch in range(6 if thorough else 2):
        steps = list(_sample(parsed, branch))
        counts = (1, 2, 3, 4, 6, 8, 12, 20, len(steps) - 1, len(steps))
        for count in counts if thorough else (2, 6, len(steps) - 1):
            filler = "".join(steps[:count])
            if filler and filler not in seen and len(filler) < 400:
                seen.add(filler)
                yield filler


def _source_of(module: ModuleType) -> str:
    assert module.__file__ is not None
    return Path(module.__file__).read_text("utf-8")


def _calls_of_re(nodes: Sequence[ast.AST]) -> Iterator[ast.Call]:
    for node in nodes:
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in _CALLS
        ):
            owner = node.func.value
            if isinstance(owner, ast.Name) and owner.id == "re":
                yield node


def _methods_by_name(nodes: Sequence[ast.AST]) -> dict[str, set[str]]:
    """Return which methods are called on which name; a name used in any other way counts as
    searched."""
    methods: dict[str, set[str]] = {}
    called = set[int]()
    for node in nodes:
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.attr in _CALLS
        ):
            methods.setdefault(node.value.id, set()).add(node.attr)
            called.add(id(node.value))
    for node in nodes:
        if (
            isinstance(node, ast.Name)
            and isinstance(node.ctx, ast.Load)
            and id(node) not in called
        ):
            methods.setdefault(node.id, set()).add("search")
    return methods


def _stated(call: ast.Call, namespace: Mapping[str, Any]) -> list[tuple[str | bytes, int]]:
    """Return the pattern and flags of a call, where its module states them."""
    method = call.func.attr  # type: ignore[attr-defined]  # likewise
    flags_at = _FLAGS_AT.get(method, 2)
    flags = [keyword.value for keyword in call.keywords if keyword.arg == "flags"] or call.args[
        flags_at : flags_at + 1
    ]
    try:
        pattern = _evaluate(call.args[0], namespace)
        return (
            [(pattern, int(_evaluate(flags[0], namespace)) if flags else 0)] if pattern else []
        )
    except NameError:
        return []


def _evaluate(node: ast.expr, namespace: Mapping[str, Any]) -> Any:
    return eval(compile(ast.Expression(node), "", "eval"), dict(namespace))


def _compiled_in(
    values: Mapping[str, Any], module: str
) -> Iterator[tuple[str, re.Pattern[Any]]]:
    for name, value in list(values.items()):
        if not name.startswith("__"):
            yield from _within(value, name, module, depth=0)


def _within(
    value: object, name: str, module: str, *, depth: int
) -> Iterator[tuple[str, re.Pattern[Any]]]:
    if isinstance(value, re.Pattern):
        yield name, value
    elif depth < 4:
        for key, inner in _parts(value, module):
            yield from _within(inner, f"{name}{key}", module, depth=depth + 1)


def _parts(value: object, module: str) -> list[tuple[str, object]]:
    if isinstance(value, dict):
        return [("[]", inner) for pair in value.items() for inner in pair]
    if isinstance(value, list | tuple | set | frozenset):
        return [("[]", inner) for inner in value]
    if isinstance(value, type):
        is_own = value.__module__ == module
        return [(f".{key}", inner) for key, inner in vars(value).items()] if is_own else []
    fields = getattr(value, "__struct_fields__", ())
    return [(f".{key}", getattr(value, key)) for key in fields]


def _sample(parsed: Any, branch: int) -> Iterator[str]:
    """Yield pieces of a text that the pattern may match, taking the same branch of each choice."""
    for code, value in parsed:
        if code is codes.LITERAL:
            yield chr(value)
        elif code in (codes.NOT_LITERAL, codes.ANY):
            yield "a" if value != ord("a") else "b"
        elif code is codes.IN:
            yield _member(value)
        elif code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            least, _, inner = value
            yield from list(_sample(inner, branch)) * max(1, min(least, 40))
        elif code is codes.AT and value in (codes.AT_BEGINNING, codes.AT_BEGINNING_LINE):
            yield "\n"
        else:
            yield from _sample(_inside(code, value, branch), branch)


def _inside(code: Any, value: Any, branch: int) -> Any:
    """Return what a group, a choice or a look behind is made of."""
    if code is codes.SUBPATTERN:
        return value[-1]
    if code is codes.ATOMIC_GROUP:
        return value
    if code is codes.BRANCH:
        return value[1][min(branch, len(value[1]) - 1)]
    return value[1] if code is codes.ASSERT and value[0] < 0 else []


def _member(choices: Any) -> str:
    """Return a character of a set."""
    if choices[0][0] is codes.NEGATE:
        return next(
            sample
            for sample in _SAMPLES
            if not any(_holds(choice, sample) for choice in choices[1:])
        )
    code, value = choices[0]
    if code is codes.CATEGORY:
        return next(sample for sample in _SAMPLES if _holds(choices[0], sample))
    return chr(value if code is codes.LITERAL else value[0])


def _holds(choice: Any, sample: str) -> bool:
    code, value = choice
    if code is codes.LITERAL:
        return bool(ord(sample) == value)
    if code is codes.RANGE:
        return bool(value[0] <= ord(sample) <= value[1])
    is_word, is_space, is_digit = (
        sample.isalnum() or sample == "_",
        sample.isspace(),
        sample.isdigit(),
    )
    return {
        codes.CATEGORY_WORD: is_word,
        codes.CATEGORY_NOT_WORD: not is_word,
        codes.CATEGORY_SPACE: is_space,
        codes.CATEGORY_NOT_SPACE: not is_space,
        codes.CATEGORY_DIGIT: is_digit,
        codes.CATEGORY_NOT_DIGIT: not is_digit,
    }[value]

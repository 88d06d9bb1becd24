"""Conventions that most files follow, with the share that does.

A convention is noted when enough of what could follow it does: nine of ten, and not fewer than a
dozen. Names of files, places of tests, and traits of files are counted alike. Trade-off: what only
half of the code does is not a convention, though somebody may be moving there.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from xscore.extensions.learning.observed.file_traits import ERROR_BASE, FileTraits
from xscore.extensions.learning.observed.observed_fact import ObservedFact, SourceLine, is_aside

LEAST_SHARE = 0.9
LEAST_COUNT = 12
LEAST_ERRORS = 5
LEAST_ERROR_SHARE = 0.5
"""Least share of the error classes that derive from one of the project's own."""
LANGUAGE_SHARE = 0.2
"""Least share of the files of code that a language must have."""
_NAMES = {
    "python": "Python",
    "javascript": "JavaScript",
    "typescript": "TypeScript",
    "tsx": "TSX",
}

Files = Mapping[str, FileTraits]


class _Rule(Struct, frozen=True):
    """A convention of functions or files: what follows it, and what does not."""

    key: str
    follows: str
    instead: str
    words: str
    unit: str
    aliases: str
    languages: tuple[str, ...]
    of_tests: bool = False


_RULES = (
    _Rule(
        "function_names",
        "snake_case name",
        "camelCase name",
        "Functions and methods are named in snake_case",
        "names of several words",
        "naming of functions; function naming; naming convention",
        ("python", "rust", "ruby", "c", "elixir", "php", "javascript", "typescript"),
    ),
    _Rule(
        "function_names",
        "camelCase name",
        "snake_case name",
        "Functions and methods are named in camelCase",
        "names of several words",
        "naming of functions; function naming; naming convention",
        ("javascript", "typescript", "tsx", "php", "python"),
    ),
    _Rule(
        "annotations",
        "annotated",
        "not annotated",
        "Functions have type annotations",
        "functions",
        "type annotations; type hints",
        ("python",),
    ),
    _Rule(
        "docstrings",
        "documented",
        "not documented",
        "Public functions have docstrings",
        "public functions",
        "docstring style; docstring convention",
        ("python",),
    ),
    _Rule(
        "test_style",
        "test function",
        "test method",
        "Tests are plain functions, without classes",
        "tests",
        "test style; how are tests written",
        ("python",),
        of_tests=True,
    ),
    _Rule(
        "test_style",
        "test method",
        "test function",
        "Tests are methods of classes",
        "tests",
        "test style; how are tests written",
        ("python",),
        of_tests=True,
    ),
    _Rule(
        "error_style",
        "wraps errors",
        "formats errors",
        "Errors are wrapped with `%w`",
        "functions that format errors",
        "error style; error handling; wrap errors",
        ("go",),
    ),
    _Rule(
        "modules",
        "imports by import",
        "imports by require",
        "Modules are ES modules (`import`)",
        "modules",
        "module system; import style",
        ("javascript", "typescript"),
    ),
    _Rule(
        "modules",
        "imports by require",
        "imports by import",
        "Modules are CommonJS (`require`)",
        "modules",
        "module system; import style",
        ("javascript", "typescript"),
    ),
)


def shared_conventions(files: Files) -> list[ObservedFact]:
    """Return what most files follow, of each language that much of the code is in."""
    facts: list[ObservedFact] = []
    product: dict[str, FileTraits] = {}
    tests: dict[str, FileTraits] = {}
    for path, file in files.items():
        if is_aside(path):
            continue
        if file.is_test:
            tests[path] = file
        else:
            product[path] = file
    languages = _main_languages(product)
    for position, language in enumerate(languages):
        of_language = _in_language(product, language)
        of_tests = _in_language(tests, language)
        suffix = ""
        if position:
            suffix = f" in {_NAMES.get(language, language)}"
        facts += _followed_rules(language, of_language, of_tests, suffix)
        facts += _future_annotations(of_language, suffix)
        facts += _error_base(of_language, suffix)
        facts += _file_names(of_language, suffix)
        facts += _test_places(of_tests, set(of_language), suffix)
    facts += _layout(product)
    return facts


def _in_language(files: Files, language: str) -> Files:
    return {path: file for path, file in files.items() if file.language == language}


def _main_languages(files: Files) -> list[str]:
    """Return the languages of much of the code, the most used first."""
    counts = Counter(file.language for file in files.values())
    total = sum(counts.values())
    return [name for name, count in counts.most_common(3) if count >= LANGUAGE_SHARE * total]


def _followed_rules(
    language: str, product: Files, tests: Files, suffix: str
) -> Iterator[ObservedFact]:
    for rule in _RULES:
        if language not in rule.languages:
            continue
        among = tests if rule.of_tests else product
        following = _total(among, rule.follows)
        total = following + _total(among, rule.instead)
        if not _is_followed(following, total):
            continue
        yield _share_fact(
            f"{rule.key}{suffix}",
            rule.follows,
            f"{rule.words}{suffix}: {following:,} of {total:,} {rule.unit}.",
            rule.aliases,
            lines=_examples(among, rule.follows),
            count=following,
        )


def _total(files: Files, trait: str) -> int:
    return sum(file.traits[trait].count for file in files.values() if trait in file.traits)


def _is_followed(following: int, total: int, *, least: int = LEAST_COUNT) -> bool:
    return total >= least and following >= LEAST_SHARE * total


def _examples(files: Files, trait: str) -> tuple[SourceLine, ...]:
    """Return the first line that shows a trait in the file that shows it most."""
    best = max(
        (path for path, file in files.items() if trait in file.traits),
        key=lambda path: (files[path].traits[trait].count, path),
        default="",
    )
    if not best:
        return ()
    return (SourceLine(best, files[best].traits[trait].line),)


def _share_fact(
    key: str,
    value: str,
    words: str,
    aliases: str,
    *,
    lines: Sequence[SourceLine] = (),
    files: Sequence[str] = (),
    count: int,
) -> ObservedFact:
    return ObservedFact(
        key=key,
        value=value,
        words=words,
        aliases=tuple(aliases.split("; ")),
        lines=tuple(lines),
        files=tuple(files),
        count=count,
    )


def _future_annotations(files: Files, suffix: str) -> Iterator[ObservedFact]:
    trait = "future annotations"
    following = sum(trait in file.traits for file in files.values())
    if _is_followed(following, len(files)):
        words = f"Modules begin with `from __future__ import annotations`{suffix}"
        yield _share_fact(
            f"future_annotations{suffix}",
            "yes",
            f"{words}: {following:,} of {len(files):,} modules.",
            "future import",
            lines=_examples(files, trait),
            count=following,
        )


def _error_base(files: Files, suffix: str) -> Iterator[ObservedFact]:
    """Yield the class of the project from which most of its errors derive."""
    counts = Counter[str]()
    for file in files.values():
        for trait, shown in file.traits.items():
            if trait.startswith(ERROR_BASE):
                counts[trait] += shown.count
    total = sum(counts.values())
    own_classes = [
        (trait, count) for trait, count in counts.most_common() if not _is_builtin(trait)
    ]
    if not own_classes or total < LEAST_ERRORS:
        return
    trait, count = own_classes[0]
    if count < LEAST_ERROR_SHARE * total:
        return
    base = trait.removeprefix(ERROR_BASE)
    yield _share_fact(
        f"error_style{suffix}",
        base,
        f"Error classes derive from `{base}`{suffix}: {count:,} of {total:,} error classes.",
        "error style; exception style; base exception; error classes",
        lines=_examples(files, trait),
        count=count,
    )


_BUILTIN_ERRORS = frozenset(
    """
    Exception Error RuntimeException BaseException ValueError TypeError RuntimeError KeyError
    StandardError OSError AttributeError
    """.split()
)


def _is_builtin(trait: str) -> bool:
    return trait.removeprefix(ERROR_BASE) in _BUILTIN_ERRORS


_FILE_STYLES = (
    ("kebab-case", re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)+\Z")),
    ("snake_case", re.compile(r"_*[a-z0-9]+(?:_[a-z0-9]+)+\Z")),
    ("PascalCase", re.compile(r"(?:[A-Z][a-z0-9]+){2,}\Z")),
    ("camelCase", re.compile(r"[a-z0-9]+(?:[A-Z][a-z0-9]*)+\Z")),
)


def _file_names(files: Files, suffix: str) -> Iterator[ObservedFact]:
    styles = Counter[str]()
    for path in files:
        stem = path.rpartition("/")[2].partition(".")[0]
        for style, pattern in _FILE_STYLES:
            if pattern.match(stem):
                styles[style] += 1
                break
    total = styles.total()
    for style, count in styles.most_common(1):
        if _is_followed(count, total):
            yield _share_fact(
                f"file_names{suffix}",
                style,
                f"Files are named in {style}{suffix}: {count:,} of {total:,} names of several"
                " words.",
                "file naming; naming of files; file naming convention",
                files=sorted(files)[:1],
                count=count,
            )


_TEST_NAMES = (
    ("test_*", re.compile(r"test_[^/]*\Z")),
    ("*_test", re.compile(r"[^/]*_test\.\w+\Z")),
    ("*.test", re.compile(r"[^/]*\.test\.\w+\Z")),
    ("*.spec", re.compile(r"[^/]*\.spec\.\w+\Z")),
    ("*_spec", re.compile(r"[^/]*_spec\.\w+\Z")),
    ("*Test", re.compile(r"[^/]*Tests?\.\w+\Z")),
)
_LEAST_TESTS = 3


def _test_places(tests: Files, product_paths: set[str], suffix: str) -> Iterator[ObservedFact]:
    """Yield how files of tests are named, and whether they are apart from the code or next to
    it."""
    names = Counter[str]()
    places = Counter[str]()
    code_folders = {path.rpartition("/")[0] for path in product_paths}
    named: list[str] = []
    for path in tests:
        folder, _, name = path.rpartition("/")
        style = next((style for style, pattern in _TEST_NAMES if pattern.match(name)), "")
        # Fixtures and helpers of tests say nothing about where tests lie.
        if not style:
            continue
        named.append(path)
        names[f"{style}.{path.rpartition('.')[2]}"] += 1
        places[_test_place(folder, code_folders)] += 1
    total = len(named)
    if total < _LEAST_TESTS:
        return
    name, of_name = names.most_common(1)[0]
    place, of_place = places.most_common(1)[0]
    following = min(of_name, of_place)
    if following < LEAST_SHARE * total:
        return
    yield _share_fact(
        f"test_files{suffix}",
        f"{name} {place}",
        f"Test files are named `{name}` and lie {place}{suffix}: {following:,} of {total:,} test"
        " files.",
        "test files; where do tests live; test layout; test file naming; where to put tests",
        files=sorted(named)[:1],
        count=following,
    )


def _test_place(folder: str, code_folders: set[str]) -> str:
    if folder in code_folders:
        return "beside the code"
    top, *deeper = folder.split("/")
    for part in (top, *deeper):
        if re.fullmatch(r"tests?|testing|specs?|__tests__", part):
            if part == top:
                return f"in `{part}/`"
            return f"in folders named `{part}`"
    return f"in `{top}/`"


_LEAST_LAYOUT = 5


def _layout(product: Files) -> Iterator[ObservedFact]:
    """Yield the folder in which nearly all code lies."""
    folders = Counter[str]()
    for path in product:
        parts = path.split("/")[:-1]
        depth = 1
        if parts[:1] in (["src"], ["lib"], ["packages"]) and len(parts) > 1:
            depth = 2
        folders["/".join(parts[:depth])] += 1
    total = sum(folders.values())
    for folder, count in folders.most_common(1):
        if folder and total >= _LEAST_LAYOUT and count >= LEAST_SHARE * total:
            yield _share_fact(
                "layout",
                f"{folder}/",
                f"The code lies in `{folder}/`: {count:,} of {total:,} files of code.",
                "project layout; source layout; folder structure; where does the code live",
                files=sorted(path for path in product if path.startswith(folder))[:1],
                count=count,
            )

"""No pattern of the package takes more than its text's length in work, whatever the text."""

import re
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import xscore
from tests.cpu_time import ATTEMPTS
from tests.patterns import UsedPattern, hostile_fillers, used_patterns
from xscore.cache.keys import _RULES
from xscore.cost_reports.report_files import _EARLIER
from xscore.extensions.agents.planted_environment import _EFFECTS
from xscore.extensions.checking.removed_names import _path_pattern
from xscore.extensions.evaluation.code_tokens import _lexer
from xscore.extensions.evaluation.leaks import _symbol_pattern
from xscore.extensions.learning.observed.manifests_read import _OF_TOOLS
from xscore.extensions.learning.observed.purposes import _BY_WORDS, MOST_COMMAND_CHARS
from xscore.extensions.learning.observed.runtimes import _PATTERNS
from xscore.indexer.admission import _BY_PATTERN
from xscore.indexer.languages import LANGUAGES
from xscore.pipeline.prepare import _TASK_WORDS
from xscore.pipeline.selection import _ASKS_FOR_HISTORY, _ASKS_HOW_WORK_IS_DONE
from xscore.platform.globs import _pattern
from xscore.prompts.fences import ANSWER_TAGS, _tag_names
from xscore.prompts.suspicion import _FORMS
from xscore.store.failures import _NOISE
from xscore.store.personal_data import _data, _rules
from xscore.store.redaction import _fence, _file_patterns
from xscore.store.secret_rules import _numbered_words, compile_rule, secret_rules

SIZES = (400, 4_000, 40_000)
"""Characters of the texts tried; the last only where the one before cost much."""
MB_CHARS = 1_000_000
DOUBTFUL = 0.7
"""CPU for a character from which a longer text is tried too, in matches of one letter (about 0.1 µs
each)."""
GROWN = 1.3
"""Growth of the CPU for a character over the size before, from which 1 MB is tried too: with less,
what grows by the square is at most 0.3 of the rest at 40,000 characters, so 7 times the rest at 1
MB."""
MOST_FOR_A_CHAR = 24.0
"""Most CPU for a character, in matches of one letter. A pattern of thirty tags takes 8, and twice
that on a busy machine; work by the square passes it at some thousand characters."""


BUILT_LATER: dict[str, list[tuple[str | bytes, int]]] = {
    "xscore.cache.keys: pattern": [(pattern, 0) for _, pattern, _ in _RULES],
    "xscore.cost_reports.report_files: _EARLIER[form]": [
        (pattern, 0) for pattern in _EARLIER.values()
    ],
    "xscore.extensions.agents.config_edits: f'\\\\s*\\\\[\\\\s*{re.escape(name)}\\\\s*[.\\\\]]'": [
        (r"\s*\[\s*mcp_servers\.xscore\s*[.\]]", 0)
    ],
    "xscore.extensions.agents.planted_environment: pattern": [
        (pattern, 0) for pattern, _ in _EFFECTS
    ],
    'xscore.extensions.learning.stack: f"""(?im)(?:^[ \\\\t]*|[\\\\"\'\\\\[.]){name}(?![\\\\w/-])"""': [  # noqa: E501  the expression as it is in the source
        (r"(?im)(?:^[ \t]*|[\"'\[.])django(?![\w/-])", 0)
    ],
    "xscore.extensions.checking.removed_names: f'(?<![\\\\w-]){re.escape(name)}(?![\\\\w])'": [
        (r"(?<![\w-])run_all(?![\w])", 0)
    ],
    "xscore.extensions.checking.removed_names: _path_pattern(old)": [
        (_path_pattern("src/a.py"), 0)
    ],
    "xscore.extensions.evaluation.code_tokens: f'(?P<comment>{comment})|(?P<string>{_STRINGS})|{_REST}'": [  # noqa: E501  the expression as it is in the source
        (_lexer(language).pattern, _lexer(language).flags)
        for language in ("python", "sql", "php", "c")
    ],
    "xscore.extensions.view.questions: re.escape(text)": [(r"why\ is\ it\ refused", re.IGNORECASE)],
    "xscore.extensions.evaluation.leaks: _symbol_pattern(name)": [
        (_symbol_pattern("run"), 0),
        (_symbol_pattern("run_all"), 0),
    ],
    "xscore.extensions.evaluation.leaks: f'`?(?<![\\\\w./$]){re.escape(form)}(?![\\\\w$/])`?'": [
        (r"`?(?<![\w./$])src/a(?![\w$/])`?", 0)
    ],
    "xscore.extensions.learning.observed.manifests_read: pattern": [
        (pattern, 0) for pattern in _OF_TOOLS
    ],
    'xscore.extensions.learning.observed.manifests_read: f"""(?im)(?:^[ \\\\t]*|[\\\\"\'\\\\[.:>]|\\\\bid:[ \\\\t]*|\\\\bgem[ \\\\t(]+[\\\\"\']){name}(?![\\\\w/-])"""': [  # noqa: E501  the expression as it is in the source
        (r"(?im)(?:^[ \t]*|[\"'\[.:>]|\bid:[ \t]*|\bgem[ \t(]+[\"'])ruff(?![\w/-])", 0)
    ],
    "xscore.extensions.learning.observed.purposes: pattern": [
        (pattern, 0) for _, pattern in _BY_WORDS
    ],
    "xscore.extensions.learning.observed.runtimes: pattern": [
        (pattern, re.MULTILINE) for _, _, pattern in _PATTERNS
    ],
    "xscore.extensions.learning.observed.scripts: f'\"{re.escape(key)}\"[ \\\\t]*:'": [
        (r'"test"[ \t]*:', 0)
    ],
    "xscore.extensions.learning.observed.scripts: f'(?m)^[ \\\\t]*\\\\\"?{re.escape(name)}\\\\\"?[ \\\\t]*='": [  # noqa: E501  the expression as it is in the source
        (r'(?m)^[ \t]*"?test"?[ \t]*=', 0)
    ],
    "xscore.indexer.admission: pattern": [(pattern, 0) for _, pattern in _BY_PATTERN],
    "xscore.indexer.code: marks": [
        (each.test_classes, 0) for each in LANGUAGES if each.test_classes
    ],
    "xscore.indexer.languages: language.test_files": [
        *[(each.test_files, 0) for each in LANGUAGES if each.test_files],
    ],
    "xscore.indexer.sections: language.begins": [
        (each.begins, 0) for each in LANGUAGES if each.begins
    ],
    "xscore.indexer.sections: language.quote or '\\\\Z(?!\\\\Z)'": [
        (each.quote, 0) for each in LANGUAGES if each.quote
    ],
    "xscore.pipeline.selection: asks_for": [
        (_ASKS_FOR_HISTORY, 0),
        (_ASKS_HOW_WORK_IS_DONE, 0),
    ],
    "xscore.pipeline.prepare: pattern": [
        (rf"\b(?:{'|'.join(words.split())})\b", re.IGNORECASE) for words in _TASK_WORDS.values()
    ],
    "xscore.platform.git_folder: f'(?m)^({_COMMIT}) {re.escape(branch)}$'": [
        (r"(?m)^([0-9a-f]{40}|[0-9a-f]{64}) refs/heads/main$", 0)
    ],
    "xscore.platform.globs: pattern": [
        (_pattern(glob, below=True), re.DOTALL)
        for glob in ("*a*a*a*a*a*b", "**/a/**/a/**/b", "a?*/**/*.py", "/src/", "[!a]*")
    ],
    "xscore.prompts.fences: f'(?:{names})\\\\b'": [
        (_tag_names(ANSWER_TAGS).pattern, re.IGNORECASE)
    ],
    # Of the price table, over a host's address from the user's settings.
    "xscore.prompts.suspicion: form.pattern": [(form.pattern, 0) for form in _FORMS],
    "xscore.providers.prices: pattern": [],
    "xscore.store.failures: pattern": [(pattern, 0) for pattern, _ in _NOISE],
    "xscore.store.personal_data: rule.pattern": [
        (rule.pattern, re.IGNORECASE) for rule in _rules()
    ],
    "xscore.store.personal_data: made_up": [
        (pattern, 0) for pattern in _data()["phone"]["fiction"]
    ],
    "xscore.store.redaction: f'-----(?P<side>BEGIN|END) (?:{kinds})-----'": [
        (_fence().pattern, _fence().flags)
    ],
    "xscore.store.redaction: '|'.join([*names, f'(?:{files.ssh})\\\\Z'])": [
        (_file_patterns().names.pattern, 0)
    ],
    "xscore.store.secret_rules: f'{begin}(?:{long_names}|{short_names})'": [
        (_numbered_words().pattern, 0)
    ],
    "xscore.store.secret_rules: pattern": [],  # of `secrets.toml`: see the test of its shapes
    "xscore.store.session_summary: f'(?<!\\\\w){full_name}(?!\\\\w)'": [
        (r"(?<!\w)ask\.run(?!\w)", 0)
    ],
    "xscore.store.session_summary: f'(?<!\\\\w){short}(?!\\\\w)'": [(r"(?<!\w)run_all(?!\w)", 0)],
    "xscore.store.session_summary: f'`{short}`|(?<!\\\\w){short}\\\\(|`[\\\\w.]*\\\\.{short}`'": [
        (r"`run`|(?<!\w)run\(|`[\w.]*\.run`", 0)
    ],
}
"""Patterns that no source states as they are, by the call that compiles them: all of a table, or an
example."""

BOUNDED = {
    "xscore.extensions.learning.observed.purposes: pattern": MOST_COMMAND_CHARS,
    "xscore.extensions.learning.observed.shares._FILE_STYLES[][]": 255,  # the name of a file
    "xscore.extensions.learning.observed.shares._TEST_NAMES[][]": 255,  # the same
    "xscore.store.failures: pattern": 4_000,  # the end of a long output
    "xscore.store.scrubbing._SCRATCH": 255,  # the name of a file
    "xscore.indexer.file_facts._OPENED_AS": 400,  # the end of a line
    "xscore.indexer.code._TOKEN": 2_000,  # the beginning of a call's arguments
}
"""Patterns that only ever read a short text, and how many characters it has at most."""
MATCHED_ONLY = frozenset(
    {
        "xscore.extensions.learning.observed.shares._FILE_STYLES[][]",
        "xscore.extensions.learning.observed.shares._TEST_NAMES[][]",
        "xscore.indexer.sections: language.begins",
        "xscore.platform.globs: pattern",
        "xscore.store.redaction: '|'.join([*names, f'(?:{files.ssh})\\\\Z'])",
        "xscore.store.scrubbing._SCRATCH",
    }
)
"""Compiled in one place and matched at the beginning of a text in another."""


@cache
def _all_patterns() -> tuple[list[UsedPattern], list[str]]:
    # Reading every module takes seconds, which a process that only collects tests need not pay.
    return used_patterns(BUILT_LATER)


def test_no_pattern_hides() -> None:
    """A call of `re` whose pattern its module does not state is named above, with what it may
    compile."""
    patterns, unknown = _all_patterns()
    assert unknown == []
    assert len(patterns) > 300


def test_no_pattern_grows_by_the_square() -> None:
    """Nor with a text of one character, of blank lines, or of beginnings of what it looks for."""
    letter_s = _letter_s()
    patterns, _ = _all_patterns()
    slow = [problem for used in patterns for problem in _problems(used, letter_s, thorough=False)]
    assert slow == []


@pytest.mark.verify
def test_no_shape_of_a_secret_grows_by_the_square() -> None:
    """Each is searched for in a whole text; a form is only tried beside a word that names a
    secret."""
    letter_s = _letter_s()
    compiled = [
        compile_rule(shape.pattern, minds_case=shape.case) for shape in secret_rules().shape
    ]
    used = [
        UsedPattern(shape.pattern, shape.pattern, shape.flags, whole_text=True)
        for shape in compiled
    ]
    slow = [problem for shape in used for problem in _problems(shape, letter_s, thorough=False)]
    assert slow == []


@pytest.mark.verify
def test_no_pattern_grows_by_the_square_in_a_megabyte() -> None:
    """The same with more characters, more beginnings, and texts of 1 MB."""
    letter_s = _letter_s()
    patterns, _ = _all_patterns()
    slow = [problem for used in patterns for problem in _problems(used, letter_s, thorough=True)]
    assert slow == []


def _problems(used: UsedPattern, letter_s: float, *, thorough: bool) -> Iterator[str]:
    """Yield the first text that costs too much, if there is one."""
    is_bytes = isinstance(used.pattern, bytes)
    compiled = re.compile(used.pattern, used.flags & ~re.UNICODE if is_bytes else used.flags)
    is_searched = used.whole_text and used.place not in MATCHED_ONLY
    sizes = (*SIZES, MB_CHARS) if thorough else SIZES
    most_chars = BOUNDED.get(used.place, sizes[-1])
    for filler in hostile_fillers(used, thorough=thorough):
        cost_before = 0.0
        for chars in sizes:
            text = _filled(filler, min(chars, most_chars))
            cost = _cost(
                compiled, text.encode() if is_bytes else text, letter_s, is_searched=is_searched
            )
            if cost > MOST_FOR_A_CHAR:
                yield (
                    f"{used.place}: {cost:.0f} letters for each of {chars} characters of {filler!r}"
                )
                return
            has_grown = cost >= GROWN * cost_before
            # Up to here, a doubtful pattern is tried further.
            needs_no_growth = SIZES[1] if thorough else SIZES[0]
            is_suspect = cost >= DOUBTFUL and (has_grown or chars <= needs_no_growth)
            if (chars >= SIZES[1] and not is_suspect) or chars >= most_chars:
                break
            cost_before = cost


def _filled(filler: str, chars: int) -> str:
    """Repeat a text, and end otherwise, so that no match reaches the end."""
    return (filler * (chars // len(filler) + 1))[:chars] + "\0"


def test_no_shape_of_a_field_lets_a_newline_pass() -> None:
    """`$` matches before a last newline too, so that an id from a file could begin a line of its
    own on a terminal; shapes end in `\\Z`."""
    shape = re.compile(r"""\bpattern=[rf]*"(.*)"\)""")
    shapes: list[str] = []
    for module in Path(xscore.__path__[0]).rglob("*.py"):
        shapes += shape.findall(module.read_text())
    assert len(shapes) > 5
    assert [pattern for pattern in shapes if not pattern.endswith(r"\Z")] == []


def _cost(
    compiled: re.Pattern[Any], text: str | bytes, letter_s: float, *, is_searched: bool
) -> float:
    """Return the CPU for a character, in matches of one letter: the least of some runs if one is
    too much.

    A busy machine makes some moments dearer, so what is too much is measured again beside letters
    of that moment.
    """
    costs = [_cpu_s(compiled, text, is_searched=is_searched) / letter_s / len(text)]
    while min(costs) > MOST_FOR_A_CHAR and len(costs) < ATTEMPTS:
        spent_s = _cpu_s(compiled, text, is_searched=is_searched)
        costs.append(spent_s / _letter_s() / len(text))
    return min(costs)


def _letter_s() -> float:
    """Return the CPU of one match of one letter on this machine, now."""
    letters = "a" * SIZES[-1]
    return min(_cpu_s(re.compile("a"), letters, is_searched=True) for _ in range(5)) / len(letters)


def _cpu_s(compiled: re.Pattern[Any], text: str | bytes, *, is_searched: bool) -> float:
    began = time.thread_time()
    if is_searched:
        for _ in compiled.finditer(text):
            pass
    else:
        compiled.match(text)
    return time.thread_time() - began

"""What a test exercises: the names on the `Calls:` line of its card.

A call is judged by its receiver, not by its last part: `axios.get` counts where `axios` is imported, `names.get` does
not. Left out are tools of testing, the language's own library, fixtures, and functions that the tests define for
themselves. Pure. Trade-off: what a variable holds is known only where the test itself makes it from a subject.
"""

import re
import sys
from collections.abc import Iterator

from xscore.indexer.entities import BUILTIN_NAMES, FileFacts
from xscore.indexer.languages import is_test_path
from xscore.indexer.syntax import MemoryDraft

MAX_SUBJECTS = 12
MAX_KEYWORDS = 4
"""Keyword arguments shown of one call."""
_TOOLS = frozenset(
    """
    pytest unittest mock mocker patch hypothesis given settings strategies st monkeypatch assert assume expect should
    describe context it test suite specify before after beforeEach afterEach beforeAll afterAll jest vi vitest sinon
    jasmine chai ava tap t done console cy screen capsys capfd caplog recwarn request tmp_path tmpdir pytester testdir
    snapshot benchmark setTimeout clearTimeout setImmediate process window document super nock supertest
    """.split()  # noqa: SIM905  read as a list of words
)
"""Modules and names that drive or check a test."""
_NODE_MODULES = frozenset(
    """
    assert buffer child_process crypto events fs http http2 https net os path querystring readline stream timers tls url
    util zlib
    """.split()  # noqa: SIM905  read as a list of words
)
_MADE = re.compile(r"\b(\w+)\s*=\s*(?:await\s+|new\s+)*([\w$.]+)\(|\bwith\s+([\w.]+)\(.*\)\s+as\s+(\w+)")
_TOKEN = re.compile(
    r"""\"{3}.*?\"{3}|'{3}.*?'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|[(\[{]|[)\]}]|(\w+)\s*=(?!=)""", re.DOTALL
)
_SCANNED_CHARS = 2_000


def called_subjects(draft: MemoryDraft, facts: FileFacts) -> list[str]:
    """Return what a test calls of the code under test, with the names of keyword arguments."""
    python = facts.source.language.module_separator == "."
    parameters = set(re.findall(r"\w+", draft.facts.signature.partition("(")[2])) if python else set[str]()
    strong: dict[str, None] = {}
    weak: dict[str, None] = {}
    made = {
        name: maker
        for one, of, whose, other in _MADE.findall(draft.text)
        for name, maker in [(one or other, of or whose)]
    }
    for call in draft.facts.dependencies:
        head, *rest = call.split(".")
        if head in _TOOLS or head == "?" or (head in facts.source.language.receivers and len(rest) < 2):
            continue
        if head in facts.imported:
            if not _is_ambient(facts, head):
                strong[call] = None
        elif rest and (rest[-1] not in BUILTIN_NAMES or made.get(head) in strong):
            (weak if head in parameters else strong)[call] = None
        elif not rest and head not in BUILTIN_NAMES and head not in parameters and head not in facts.own_names:
            strong[call] = None
    return [_with_keywords(name, draft.text) if python else name for name in list(strong or weak)[:MAX_SUBJECTS]]


def _is_ambient(facts: FileFacts, head: str) -> bool:
    """Whether an imported name is a tool, of the language's library, or a helper of the tests."""
    imported = facts.imported[head]
    top = imported.module.removeprefix("node:").replace("@", "").partition(".")[0].partition("/")[0]
    if facts.source.language.module_separator == ".":
        foreign = top in sys.stdlib_module_names or top in _TOOLS
    else:
        foreign = top in _NODE_MODULES or top in _TOOLS
    path = facts.reference(imported.module).removeprefix("./") + "/" + imported.name
    return foreign or is_test_path(path, facts.source.language)


def _with_keywords(call: str, text: str) -> str:
    """`AsyncClient` -> `AsyncClient(app=, timeout=)`, by the first call in the text."""
    found = re.search(rf"(?<![\w.]){re.escape(call)}\s*\(", text)
    keywords = list(dict.fromkeys(_keywords(text, found.end()))) if found else []
    return f"{call}({', '.join(f'{name}=' for name in keywords[:MAX_KEYWORDS])})" if keywords else call


def _keywords(text: str, start: int) -> Iterator[str]:
    depth = 0
    for token in _TOKEN.finditer(text, start, start + _SCANNED_CHARS):
        if token[0] in "([{":
            depth += 1
        elif token[0] in ")]}":
            depth -= 1
            if depth < 0:
                return
        elif token[1] and depth == 0:
            yield token[1]

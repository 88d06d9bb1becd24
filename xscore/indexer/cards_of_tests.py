"""The card of a test: its name, its docstring, and what it calls.

The judge reads the card instead of the body; test bodies would be two fifths of its input. What a
test exercises is read from its calls, judged by their receiver and not by their last part:
`axios.get` counts where `axios` is imported, `names.get` does not. Left out are tools of testing,
the language's own library, fixtures, and functions that the tests define for themselves. Trade-off:
what a variable holds is known only where the test itself makes it from a subject.
"""

import re
import sys
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from xscore.indexer.file_facts import FileFacts, made_by
from xscore.indexer.languages import is_test_path
from xscore.indexer.library_names import BUILTIN_NAMES
from xscore.indexer.syntax import MemoryDraft
from xscore.records.memory import Kind

MAX_CASES = 40
_DOC_CHARS = 300
_HEADING_CHARS = 200
MAX_SUBJECTS = 12
MAX_KEYWORDS = 4
_TOOLS = frozenset(
    """
    pytest unittest mock mocker patch hypothesis given settings strategies st monkeypatch assert
    assume expect should describe context it test suite specify before after beforeEach afterEach
    beforeAll afterAll jest vi vitest sinon jasmine chai ava tap t done console cy screen capsys
    capfd caplog recwarn request tmp_path tmpdir pytester testdir snapshot benchmark setTimeout
    clearTimeout setImmediate process window document super nock supertest
    """.split()
)
"""Modules and names that drive or check a test."""
_NODE_MODULES = frozenset(
    """
    assert buffer child_process crypto events fs http http2 https net os path querystring readline
    stream timers tls url util zlib
    """.split()
)
_TOKEN = re.compile(
    r"""\"{3}.*?\"{3}|'{3}.*?'{3}|"(?:\\.|[^"\\\n])*+"|'(?:\\.|[^'\\\n])*+'|[(\[{]|[)\]}]|\b(\w++)\s*+=(?!=)""",
    re.DOTALL,
)
_SCANNED_CHARS = 2_000
_OPENED, _PART_OF_NAME = re.compile(r"\s*\("), re.compile(r"[\w.]")


def with_test_card(
    draft: MemoryDraft, facts: FileFacts, *, cases: Sequence[str] = ()
) -> MemoryDraft:
    """Return the draft, with a card if it is a test and the card is shorter than its text."""
    if draft.kind is not Kind.TEST:
        return draft
    called = _called_subjects(draft, facts)
    first_paragraph = draft.facts.docstring.split("\n\n")[0]
    summary = " ".join(first_paragraph.split())[:_DOC_CHARS]
    lines = [line for line in draft.facts.signature.split("\n") if not line.startswith("@")]
    heading = " ".join(" ".join(lines).split())[:_HEADING_CHARS].rstrip(":")
    parts = [heading or draft.entity]
    if summary:
        parts.append(summary)
    if cases:
        shown = "; ".join(cases[:MAX_CASES])
        omission = "; ..." if len(cases) > MAX_CASES else ""
        parts.append(f"Cases: {shown}{omission}")
    if called:
        parts.append("Calls: " + ", ".join(called))
    card = "\n".join(parts)
    if len(card) < len(draft.text):
        return replace(draft, card=card)
    return draft


def _called_subjects(draft: MemoryDraft, facts: FileFacts) -> list[str]:
    """Return what a test calls of the code under test, with the names of keyword arguments."""
    is_python = facts.source.language.module_separator == "."
    parameters: set[str] = set()
    if is_python:
        parameters.update(re.findall(r"\w+", draft.facts.signature.partition("(")[2]))
    strong: dict[str, None] = {}
    weak: dict[str, None] = {}
    for call in draft.facts.dependencies:
        head, *rest = call.split(".")
        if head == "?" or head in _TOOLS:
            continue
        if head in facts.source.language.receivers and len(rest) < 2:
            continue
        if head in facts.imported:
            if not _is_ambient(facts, head):
                strong[call] = None
        elif rest:
            # A usual name counts only on an object that the test made of a subject.
            if rest[-1] not in BUILTIN_NAMES or made_by(head, draft.text) in strong:
                (weak if head in parameters else strong)[call] = None
        elif (
            head not in BUILTIN_NAMES and head not in parameters and head not in facts.own_names
        ):
            strong[call] = None
    subjects = list(strong or weak)[:MAX_SUBJECTS]
    return [_with_keywords(name, draft.text) for name in subjects] if is_python else subjects


def _is_ambient(facts: FileFacts, head: str) -> bool:
    """Whether an imported name is a tool, of the language's library, or a helper of the tests."""
    imported = facts.imported[head]
    language = facts.source.language
    top = (
        imported.module.removeprefix("node:")
        .replace("@", "")
        .partition(".")[0]
        .partition("/")[0]
    )
    library = sys.stdlib_module_names if language.module_separator == "." else _NODE_MODULES
    path = facts.reference(imported.module).removeprefix("./") + "/" + imported.name
    return top in library or top in _TOOLS or is_test_path(path, language)


def _with_keywords(call: str, text: str) -> str:
    """`AsyncClient` -> `AsyncClient(app=, timeout=)`, by the first call in the text."""
    opened = _after_call(call, text)
    if not opened:
        return call
    keywords = list(dict.fromkeys(_keywords(text, opened)))
    if not keywords:
        return call
    arguments = ", ".join(f"{name}=" for name in keywords[:MAX_KEYWORDS])
    return f"{call}({arguments})"


def _after_call(call: str, text: str) -> int:
    """Return where the arguments of the first call of this name begin, 0 if it is not called."""
    place = text.find(call)
    while place >= 0:  # a pattern made for each name would cost a tenth of the index
        opened = _OPENED.match(text, place + len(call))
        if opened and not (place and _PART_OF_NAME.match(text[place - 1])):
            return opened.end()
        place = text.find(call, place + 1)
    return 0


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

"""Case files of public benchmarks as lines of our form: Agent Retrieval Bench and ContextBench.

Both are JSON lines; which one a file is, its first line tells. Of Agent Retrieval Bench a line has
`repo`, `base_commit`, `task_type`, a `query` object and a `gold` object with files, or `no_gold`;
gold is the files that its own scoring counts. Of ContextBench a line (of its table, exported as
JSON lines) has `instance_id`, `repo`, `base_commit`, the problem statement and `gold_context`, a
list of `{"file", "start_line", "end_line"}`, as a list or as JSON text. Trade-off: a table in
another format has to be exported first.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from xscore.extensions.evaluation.metrics import EntityRef
from xscore.platform.json_lines import decode_line

_HINT = "A line is one of Agent Retrieval Bench, of ContextBench, or a case of `eval mine`."
_CONTAINERS = re.compile(r"^/?(?:testbed|workspace/[^/]+)/")
"""Folder in which ContextBench's containers keep a repository."""


class _Place(Struct):
    path: str


Paths = list[str | _Place]


class _RetrievalGold(Struct):
    files: Paths = []
    no_gold: bool = False
    related_tests: list[str] = []
    root_cause_files: list[str] = []
    must_context_files: Paths = []
    context_files: Paths = []
    given_files: list[str] = []
    fix_commit: str | None = None


class RetrievalBenchLine(Struct):
    """A sample of Agent Retrieval Bench."""

    id: str
    repo: str
    base_commit: str
    query: dict[str, Any]
    gold: _RetrievalGold
    task_type: str = ""

    def __post_init__(self) -> None:
        # Made here, so that an invalid line is reported with its number.
        self.case_fields()

    def case_fields(self) -> dict[str, object]:
        """Return the fields of a case (`cases`). Raises ValueError."""
        given_files = self.gold.given_files
        if not given_files and self.task_type == "comment2context":
            given_files = [str(self.query.get("given_file") or self.query.get("path") or "")]
        return {
            "id": self.id,
            "task": _query_text(self.query),
            "gold": [EntityRef(path) for path in self._gold_files()],
            "file": next(filter(None, given_files), ""),
            "repository": self.repo,
            "commit": self.gold.fix_commit or "",
            "parent": self.base_commit,
            "kind": self.task_type,
        }

    def _gold_files(self) -> Sequence[str]:
        """Return the files that the benchmark scores, by its own order of fields."""
        gold = self.gold
        if gold.no_gold:
            return []
        in_order = [gold.files]
        if self.task_type == "code2test":
            in_order.append(list(gold.related_tests))
        if self.task_type == "comment2context":
            in_order += [gold.must_context_files, gold.context_files]
        in_order += [list(gold.root_cause_files), list(gold.related_tests)]
        for places in in_order:
            if places:
                paths = [place if isinstance(place, str) else place.path for place in places]
                return list(dict.fromkeys(paths))
        raise ValueError("gold names no file, and does not say that there is none")


class _ContextSpan(Struct):
    file: str
    start_line: int = 0
    end_line: int = 0


class ContextBenchLine(Struct):
    """An instance of ContextBench."""

    instance_id: str
    base_commit: str
    gold_context: str | list[_ContextSpan]
    problem_statement: str = ""
    repo: str = ""
    repo_url: str = ""
    created_at: str = ""
    language: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        # Made here, so that an invalid line is reported with its number.
        self.case_fields()

    def case_fields(self) -> dict[str, object]:
        """Return the fields of a case (`cases`). Raises ValueError."""
        if not self.problem_statement.strip():
            raise ValueError("it has no problem_statement")
        spans = self.gold_context
        if isinstance(spans, str):
            spans = _spans_of(spans)
        gold = [_span_place(span) for span in spans]
        if not gold:
            raise ValueError("gold_context is empty")
        return {
            "id": self.instance_id,
            "task": self.problem_statement,
            "gold": list(dict.fromkeys(gold)),
            "repository": self.repo or _repository_of_url(self.repo_url),
            "parent": self.base_commit,
            "date": self.created_at[:10],
            "language": self.language.lower(),
            "kind": self.source,
        }


_FORMS: Mapping[str, type[RetrievalBenchLine] | type[ContextBenchLine]] = {
    "task_type": RetrievalBenchLine,
    "candidate_corpus": RetrievalBenchLine,
    "gold_context": ContextBenchLine,
}
"""A field that only lines of one form have -> that form."""


def in_our_form(data: bytes, name: str) -> bytes:
    """Return the lines as lines of our form, line for line; those of no benchmark as they are.

    Raises UsageError that names the line.
    """
    lines = data.decode("utf-8-sig", "replace").split("\n")
    form = _form_of(next((line for line in lines if line.strip()), ""))
    if form is None:
        return data
    decoder = msgspec.json.Decoder(form)
    translated: list[bytes] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            translated.append(b"")
            continue
        parsed = decode_line(line, f"{name}:{number}", decoder, hint=_HINT)
        translated.append(msgspec.json.encode(parsed.case_fields()))
    return b"\n".join(translated)


def _form_of(line: str) -> type[RetrievalBenchLine] | type[ContextBenchLine] | None:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict):
        return None
    return next((form for field, form in _FORMS.items() if field in fields), None)


def _query_text(query: Mapping[str, Any]) -> str:
    """Return the words of a query: the text if there is one, otherwise title, body, comment and
    signal.

    Addresses of files are not words of a task: `file` of the case says where one is.
    """
    names = ("text", "pr_title", "pr_body", "review_comment", "raw_signal", "diff_hunk_context")
    parts = [str(query[name]).strip() for name in names if query.get(name)]
    tests = query.get("test_names")
    if isinstance(tests, list) and tests:
        parts.append("\n".join(map(str, tests)))
    if not parts:
        # A form of query that is new here: everything that it says.
        parts = [str(value) for value in query.values() if isinstance(value, str)]
    return "\n\n".join(filter(None, parts))


def _spans_of(text: str) -> list[_ContextSpan]:
    """Return the spans of a column that was exported as text. Raises ValueError."""
    try:
        return msgspec.json.decode(text, type=list[_ContextSpan])
    except msgspec.DecodeError as error:
        raise ValueError(f"gold_context: {error}") from error


def _span_place(span: _ContextSpan) -> EntityRef:
    path = _CONTAINERS.sub("", span.file.replace("\\", "/")).lstrip("/").removeprefix("./")
    if 0 < span.start_line <= span.end_line:
        return EntityRef(path, "", span.start_line, span.end_line)
    return EntityRef(path)


def _repository_of_url(url: str) -> str:
    parts = url.removesuffix(".git").rstrip("/").split("/")
    return "/".join(parts[-2:])

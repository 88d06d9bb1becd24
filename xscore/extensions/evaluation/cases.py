"""Cases of an evaluation: a task, and the entities that it needs.

A file of cases holds one JSON object a line. `eval mine` writes the whole form; a question written
by hand needs `id`, `task` and `gold` (`query` is another name of `task`). Other fields are ignored.

- `id`: of its own in the file.
- `task`: what is asked, without the names that would give the answer away.
- `gold`: `[{"path", "name", "start", "end"}]`, what should be found. A path alone is any memory of
  that file; an empty list says that nothing should be kept.
- `tests`: the same form; tests that the change touched, which are neither gold nor wrong.
- `commit`, `parent`: the change, and the commit before it, whose files are searched. Without a
  parent the files are searched as they are.
- `file`: the file that the user is in while asking; may be empty.
- `repository`: a folder below `--repositories`; empty: this repository.
- `date`: of the commit, `YYYY-MM-DD`.
- `language`, `kind`: what figures are grouped by: that of most gold; `fix`, `feature` or `change`.

Nothing is asked of git or of a judge here.
"""

from pathlib import Path

from msgspec import Struct

from xscore.extensions.evaluation.foreign_cases import in_our_form
from xscore.extensions.evaluation.metrics import EntityRef
from xscore.platform.errors import UsageError
from xscore.platform.hashing import digest, file_digest
from xscore.platform.json_lines import name_lines_file, parse_lines, read_lines_file

CASE_EXAMPLE = 'A line is {"id": "…", "task": "…", "gold": [{"path": "…", "name": "…"}]}.'


class EvalCase(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One task and what it needs; the module says what the fields mean."""

    id: str
    task: str
    gold: tuple[EntityRef, ...]
    tests: tuple[EntityRef, ...] = ()
    file: str = ""
    repository: str = ""
    commit: str = ""
    parent: str = ""
    date: str = ""
    language: str = ""
    kind: str = ""

    def __post_init__(self) -> None:
        if not self.id.strip() or not self.task.strip():
            raise ValueError("id or task is blank")
        for place in (*self.gold, *self.tests):
            _check_place(place)


class CaseFile(Struct, frozen=True):
    """A file of cases: at least one, each with an id of its own."""

    cases: tuple[EvalCase, ...]
    digest: str

    def first(self, limit: int | None) -> "CaseFile":
        """Return the first cases; None: all."""
        if limit is None or limit >= len(self.cases):
            return self
        return CaseFile(self.cases[:limit], digest(self.digest, str(limit)))


class _CaseLine(EvalCase, frozen=True, kw_only=True):
    """A case as it is written: the task may be called `query`."""

    task: str = ""
    query: str = ""

    def __post_init__(self) -> None:
        # Made here, so that an invalid case is reported with its line.
        self.case()

    def case(self) -> EvalCase:
        """Return the case. Raises ValueError for an invalid one."""
        if self.task and self.query:
            raise ValueError("it has a task and a query: give one of them")
        fields = {name: getattr(self, name) for name in EvalCase.__struct_fields__}
        return EvalCase(**fields | {"task": self.task or self.query})


def read_cases(path: Path) -> CaseFile:
    """Return the cases of a file, or of standard input for `-`; also of the file of a benchmark
    (`foreign_cases`).

    Raises UsageError that names the line.
    """
    data = read_lines_file(path)
    name = name_lines_file(path)
    lines = parse_lines(in_our_form(data, name), name, _CaseLine, hint=CASE_EXAMPLE)
    if not lines:
        raise UsageError(f"{name} holds no case", hint=CASE_EXAMPLE)
    return CaseFile(tuple(line.case() for line in lines), file_digest(data))


def _check_place(place: EntityRef) -> None:
    if not place.path:
        raise ValueError("gold names no file")
    if not (place.start == place.end == 0 or 0 < place.start <= place.end):
        raise ValueError(
            f"start {place.start} and end {place.end} are not lines: give both, from 1, or neither"
        )

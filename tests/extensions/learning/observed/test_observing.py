"""Conventions, commands and the stack, noted by an index run and kept up to date by the next."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.conftest import MakeRepo
from tests.extensions.learning.conftest import NOW
from tests.statements import say
from xscore.extensions.learning.consolidate import consolidate
from xscore.extensions.learning.observed.observation import MOST_FACTS, look_at_files
from xscore.extensions.learning.observed.observe import HURRIED_FILES, observe_repository
from xscore.extensions.learning.observed.observed_fact import says_the_same
from xscore.extensions.privacy.erasure import erase_memories
from xscore.indexer.index import index_repository
from xscore.pipeline.build import Pipeline
from xscore.records.memory import Kind, Memory, MemorySource, MemoryStatus
from xscore.records.statement import Statement
from xscore.records.turn import Turn
from xscore.settings import IndexSettings, JudgeSettings, MemorySettings, Settings
from xscore.store import stated_copy
from xscore.store.evidence import citations_of, refresh_evidence
from xscore.store.index_rows import OBSERVED, read_index_meta
from xscore.store.remembering import remember
from xscore.store.store import Store

MODULE = '''from __future__ import annotations


def read_rows(path: str) -> list[str]:
    """Read."""
    return []


def write_rows(path: str) -> None:
    """Write."""


class RowError(ShopError):
    """Bad row."""
'''
PYPROJECT = """[project]
name = "shop"
requires-python = ">=3.11"

[dependency-groups]
dev = ["pytest", "ruff", "mypy"]

[tool.ruff]
line-length = 100
"""
Observed = Callable[[], dict[str, Memory]]


def put(root: Path, files: Mapping[str, str]) -> None:
    """Write files of the project."""
    for name, text in files.items():
        place = root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)


def project_files() -> dict[str, str]:
    """Return fourteen modules with tests, a Makefile and CI."""
    code = {f"src/shop/part_{letter}.py": MODULE for letter in "abcdefghijklmn"}
    tests = {f"tests/test_{letter}.py": "def test_one():\n    pass\n" for letter in "abcd"}
    settings = {
        "pyproject.toml": PYPROJECT,
        "Makefile": "test:\n\tpytest -q\n",
        ".github/workflows/ci.yml": "jobs:\n  a:\n    steps:\n    - run: ruff check .\n",
    }
    return code | tests | settings


@pytest.fixture
def root(store: Store) -> Path:
    """The project, written."""
    put(store.root.path, project_files())
    return store.root.path


@pytest.fixture
def observed(store: Store) -> Observed:
    """Index and observe as a turn does; return the live notes by key."""

    def observe() -> dict[str, Memory]:
        index_repository(store.connection, store.root, IndexSettings(git=False), now=NOW)
        observe_repository(store, now=NOW, is_hurried=False)
        refresh_evidence(store.connection, store.root, now=NOW)
        return {note.key: note for note in notes(store) if note.status is MemoryStatus.ACTIVE}

    return observe


def notes(store: Store) -> list[Memory]:
    """Return everything inferred, in any status."""
    rows = store.connection.execute(
        "SELECT id FROM memory WHERE source = 'inferred'"
    ).fetchall()
    return list(store.memories([id_ for (id_,) in rows]).values())


@pytest.mark.usefixtures("root")
def test_conventions_are_noted_with_their_share_and_their_lines(
    store: Store, observed: Observed
) -> None:
    """H24: commands, tools, versions and conventions are memories that cite the lines that show
    them."""
    by_key = observed()
    values = {key: note.title.partition(": ")[2] for key, note in by_key.items()}
    assert values == {
        "test_command": "make test",
        "lint_command": "ruff check .",
        "linter": "ruff",
        "test_runner": "pytest",
        "type_checker": "mypy",
        "python_version": ">=3.11",
        "function_names": "snake_case name",
        "annotations": "annotated",
        "docstrings": "documented",
        "future_annotations": "yes",
        "error_style": "ShopError",
        "file_names": "snake_case",
        "test_files": "test_*.py in `tests/`",
        "layout": "src/shop/",
    }
    assert "14 of 14 modules" in by_key["future_annotations"].text
    assert "`make test`, which runs `pytest -q`" in by_key["test_command"].text
    cited = citations_of(store.connection, [note.id for note in by_key.values()])
    places = {
        key: [f"{span.path}:{span.start_line}" for span in cited.get(note.id, ())]
        for key, note in by_key.items()
    }
    assert places["test_command"] == ["Makefile:1"]
    assert places["lint_command"] == [".github/workflows/ci.yml:4"]
    assert places["python_version"] == ["pyproject.toml:3"]
    assert places["error_style"] == ["src/shop/part_n.py:13"]
    assert {note.source for note in by_key.values()} == {MemorySource.INFERRED}
    assert {note.confidence for note in by_key.values()} == {0.6}


def test_a_note_follows_the_code(store: Store, root: Path, observed: Observed) -> None:
    """A changed line gives a new note in the same run, and what nothing shows any more goes, and
    comes back with it."""
    first = observed()
    put(root, {"Makefile": "check:\n\tpytest -q tests\n"})
    index_repository(store.connection, store.root, IndexSettings(git=False), now=NOW)
    assert refresh_evidence(store.connection, store.root, now=NOW).stale == (
        first["test_command"].id,
    )
    second = observed()
    assert second["test_command"].title == "test_command: make check"
    (earlier,) = store.memories([first["test_command"].id]).values()
    assert earlier.status is MemoryStatus.SUPERSEDED
    Path(root, "Makefile").unlink()
    assert "test_command" not in observed()
    put(root, {"Makefile": "test:\n\tpytest -q\n"})
    assert observed()["test_command"].id == first["test_command"].id


def test_only_changed_files_are_looked_at_again(
    store: Store, root: Path, observed: Observed
) -> None:
    """What is unchanged is not read, and an edit that shows the same changes no memory."""
    first = observed()
    sizes: list[int] = []

    def count(changed: int) -> bool:
        sizes.append(changed)
        return True

    assert look_at_files(store.connection, store.root, goes_on=count)
    put(root, {"src/shop/part_a.py": MODULE.replace("return []", "return [path]")})
    index_repository(store.connection, store.root, IndexSettings(git=False), now=NOW)
    look = look_at_files(store.connection, store.root, goes_on=count)
    assert sizes == [1]
    assert look is not None and not look.has_news
    assert observed() == first


def test_a_new_module_does_not_change_what_is_judged(root: Path, observed: Observed) -> None:
    """A share that moves little is told as before, one that falls below the rule goes."""
    first = observed()
    put(root, {"src/shop/part_o.py": MODULE})
    assert observed()["future_annotations"].text == first["future_annotations"].text
    put(root, {f"src/shop/late_{letter}.py": "X = 1\n" for letter in "abcdef"})
    assert "future_annotations" not in observed()


def test_what_a_person_said_or_erased_is_not_noted(
    store: Store, root: Path, observed: Observed
) -> None:
    """A stated convention replaces what files show; an erased note never comes back."""
    first = observed()
    statement = Statement(
        text="Run `tox` before a commit.", kind=Kind.CONVENTION, key="test_command"
    )
    remember(store, statement, now=NOW)
    erased = erase_memories(store, [first["linter"].id], now=NOW, forget=True)
    assert erased.is_clean
    put(root, {"src/shop/part_z.py": "def other_name() -> None: ...\n"})
    assert not {"test_command", "linter"} & observed().keys()


def test_a_secret_in_a_command_is_stored_nowhere(
    store: Store, root: Path, observed: Observed
) -> None:
    """What is kept of a file between runs is redacted as memories are."""
    secret = "ghp_" + "a1B2" * 9
    put(root, {"Makefile": f"test:\n\tGITHUB_TOKEN={secret} pytest\n"})
    assert "pytest" in observed()["test_command"].text
    store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert secret.encode() not in store.path.read_bytes()


@pytest.mark.usefixtures("root")
def test_what_files_show_is_no_statement_of_the_user(store: Store, observed: Observed) -> None:
    """It is not copied next to the store: where the store is lost, an index run notes it
    again."""
    assert observed()
    source = store.copied_stores()[0]
    stated_copy.update_copy(source)
    assert not source.copy_path.exists()
    say(store, "Prices are whole cents.")
    stated_copy.update_copy(source)
    (copied,) = stated_copy.read_copy(source.copy_path, source.keys).memories
    assert copied.memory.text == "Prices are whole cents."


def test_a_hurried_run_leaves_many_files_to_a_later_one(store: Store, root: Path) -> None:
    """Before a deadline many new files are not looked at; the next run without one does."""
    put(root, {f"src/many/part_{number}.py": MODULE for number in range(HURRIED_FILES)})
    index_repository(store.connection, store.root, IndexSettings(git=False), now=NOW)
    observe_repository(store, now=NOW, is_hurried=True)
    assert not notes(store) and not read_index_meta(store.connection, OBSERVED)
    observe_repository(store, now=NOW, is_hurried=False)
    assert notes(store) and read_index_meta(store.connection, OBSERVED)


def test_at_most_twenty_are_noted(store: Store, root: Path, observed: Observed) -> None:
    """However many tools a repository names, its notes are few."""
    named = "httpx django sqlalchemy psycopg alembic pydantic click celery hatchling playwright"
    put(
        root,
        {"requirements.txt": "\n".join(named.split()), "uv.lock": "", "src/shop/a-b.ts": "x"},
    )
    assert len(observed()) == MOST_FACTS


def test_nothing_is_noted_of_an_empty_or_broken_repository(
    store: Store, observed: Observed
) -> None:
    """Malformed files show nothing and stop nothing."""
    assert observed() == {}
    put(
        store.root.path,
        {
            "pyproject.toml": "[[[",
            "package.json": "[]",
            "Makefile": ":::\n\t\n",
            ".github/workflows/a.yml": "run: |",
            "tox.ini": "[testenv",
        },
    )
    assert observed() == {}


@pytest.mark.usefixtures("root")
def test_switched_off_consolidation_puts_the_notes_away(
    store: Store, observed: Observed
) -> None:
    """`memory.observe = false`: what was noted is archived, and comes back when it is on."""
    first = observed()
    consolidate(store, MemorySettings(observe=False), now=NOW, scopes=["project"])
    assert {note.status for note in notes(store)} == {MemoryStatus.ARCHIVED}
    consolidate(store, MemorySettings(), now=NOW, scopes=["project"])
    refresh_evidence(store.connection, store.root, now=NOW)
    live = {note.id for note in notes(store) if note.status is MemoryStatus.ACTIVE}
    assert live == {note.id for note in first.values()}


@pytest.mark.parametrize(
    ("earlier", "later", "is_same"),
    [
        ("Named so: 112 of 118 modules.", "Named so: 113 of 119 modules.", True),
        ("Named so: 112 of 118 modules.", "Named so: 107 of 118 modules.", False),
        ("Named so: 112 of 118 modules.", "Named so: 1,112 of 1,118 modules.", False),
        ("Named so: 112 of 118 modules.", "Named thus: 112 of 118 modules.", False),
        ("0 of 0", "0 of 1", False),
    ],
)
def test_shares_are_compared_loosely(earlier: str, later: str, *, is_same: bool) -> None:
    """A share that moves by three points, or of a total a fifth larger, is another one."""
    assert says_the_same(earlier, later) is is_same


@pytest.mark.parametrize(
    ("task", "key"),
    [
        ("How are the tests run?", "test_command"),
        ("Which linter does this project use?", "linter"),
        ("what test framework is used here", "test_runner"),
        ("which type checker do we use?", "type_checker"),
    ],
)
async def test_a_question_about_the_work_finds_its_note(
    make_repo: MakeRepo, task: str, key: str
) -> None:
    """What a task asks for by its usual name is kept among the first, without a model."""
    root = make_repo(project_files())
    async with Pipeline.open(root, Settings(judge=JudgeSettings(model="lexical"))) as pipeline:
        answer = await pipeline.context(Turn(task=task))
    assert key in {memory.title.partition(": ")[0] for memory in answer.selected[:2]}

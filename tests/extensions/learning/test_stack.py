"""The stack shown by manifests and imports, noted by consolidation."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.extensions.learning.conftest import NOW
from xscore.extensions.learning.consolidate import consolidate
from xscore.extensions.privacy.erasure import erase_memories
from xscore.indexer.index import index_repository
from xscore.records.memory import Citation, Kind, Memory, MemorySource, MemoryStatus
from xscore.records.statement import Statement
from xscore.settings import IndexSettings
from xscore.store.evidence import citations_of, refresh_evidence
from xscore.store.remembering import remember
from xscore.store.store import Store

PYPROJECT = """
[project]
name = "requests"
description = "it replaces flask and jest"
dependencies = ["SQLAlchemy[asyncio]~=2.0", "requests"]

[dependency-groups]
dev = ["pytest-cov", "pytest>=8", "ruff"]
"""
PACKAGE = (
    '{"name": "x", "devDependencies": {"vitest": "1", "jest": "29"}, "dependencies":'
    ' {"@prisma/client": "5"}}'
)
Noted = Callable[[], dict[str, str]]


@pytest.fixture
def noted(store: Store) -> Noted:
    """Index, consolidate, and return topic -> value of the live memories."""

    def note() -> dict[str, str]:
        index_repository(store.connection, store.root, IndexSettings(git=False), now=NOW)
        refresh_evidence(store.connection, store.root, now=NOW)
        consolidate(store, store.settings, now=NOW, scopes=["project"])
        return {
            note.key: note.title.partition(": ")[2]
            for note in parts(store)
            if note.status is MemoryStatus.ACTIVE
        }

    return note


def parts(store: Store) -> list[Memory]:
    """Return the parts of the stack, in any status."""
    return [
        memory
        for memory in store.memories(all_ids(store)).values()
        if memory.kind is Kind.TECH_STACK
    ]


def all_ids(store: Store) -> list[str]:
    """Return the ids of everything except the index's memories."""
    return [
        id_
        for (id_,) in store.connection.execute("SELECT id FROM memory WHERE source <> 'index'")
    ]


def write(store: Store, files: dict[str, str]) -> None:
    """Write files of the project."""
    for name, text in files.items():
        path = Path(store.root.path, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_manifests_and_imports_are_noted_with_their_evidence(
    store: Store, noted: Noted
) -> None:
    """H05, L08: a manifest's line is cited, an import needs three files; prose, own names and tests
    are ignored."""
    code = {
        f"src/{name}.py": "import httpx\n\ndef f():\n    return httpx.get('x')\n"
        for name in "abc"
    }
    tried = {"src/d.py": "import celery\n\ndef f():\n    return celery.Celery()\n"}
    foreign = {
        "tests/fixtures/package.json": '{"dependencies": {"vue": "3"}}',
        "web/package.json": "{broken",
    }
    write(
        store,
        {"pyproject.toml": PYPROJECT, "js/package.json": PACKAGE, **code, **tried, **foreign},
    )
    # of the other folder's manifest what differs is noted in addition to the project's own
    elsewhere = {"orm in js": "Prisma", "test_runner in js": "Jest"}
    main = {
        "http_client": "httpx",
        "linter": "ruff",
        "orm": "SQLAlchemy",
        "test_runner": "pytest",
    }
    assert noted() == main | elsewhere
    by_topic = {note.key: note for note in parts(store)}
    cited = citations_of(store.connection, [note.id for note in by_topic.values()])
    places = {
        topic: [_place(span) for span in cited.get(note.id, ())]
        for topic, note in by_topic.items()
    }
    assert places == {
        "http_client": [],
        "linter": ["pyproject.toml:8"],
        "orm": ["pyproject.toml:5"],
        "test_runner": ["pyproject.toml:8"],
        "orm in js": ["js/package.json:1"],
        "test_runner in js": ["js/package.json:1"],
    }
    httpx = by_topic["http_client"]
    assert httpx.source == MemorySource.INFERRED
    assert httpx.confidence == 0.6
    assert httpx.evidence_count == 3
    assert httpx.text.startswith("Uses httpx.")
    assert httpx.text.endswith("Because: seen in src/a.py, src/b.py, src/c.py")
    assert consolidate(store, store.settings, now=NOW).counts.keys() <= {"observe"}


@pytest.mark.parametrize(
    ("name", "text", "shown"),
    [
        (
            "pyproject.toml",
            '[project]\ndependencies = ["flask>=3"]',
            {"web_framework": "Flask"},
        ),
        (
            "pyproject.toml",
            '[project.optional-dependencies]\nflask = ["pytest", "x"]',
            {"test_runner": "pytest"},
        ),
        ("pyproject.toml", '[dependency-groups]\ndev = ["ruff"]', {"linter": "ruff"}),
        ("pyproject.toml", "[tool.ruff]\nline-length = 100", {"linter": "ruff"}),
        (
            "pyproject.toml",
            '[tool.poetry.dependencies]\npython = "^3.11"\nFlask = {version = "3"}',
            {"package_manager": "Poetry", "web_framework": "Flask"},
        ),
        (
            "pyproject.toml",
            '[tool.poetry.group.dev.dependencies]\npytest = "*"',
            {"package_manager": "Poetry", "test_runner": "pytest"},
        ),
        (
            "pyproject.toml",
            '[tool.pdm]\ndev-dependencies.test = ["ruff"]',
            {"linter": "ruff", "package_manager": "PDM"},
        ),
        ("Pipfile", '[dev-packages]\npytest = "*"', {"test_runner": "pytest"}),
        ("package.json", '{"peerDependencies": {"react": "*"}}', {"ui": "React"}),
        (
            "package.json",
            '{"keywords": ["react"], "description": "vue", "scripts": {"jest": "mocha"}}',
            {},
        ),
        ("pyproject.toml", '[project]\nname = "flask"\ndependencies = ["flask[async]"]', {}),
        ("pyproject.toml", '[project]\nkeywords = ["django"]\nclassifiers = ["flask"]', {}),
    ],
)
def test_every_kind_of_manifest_is_read(
    store: Store, noted: Noted, name: str, text: str, shown: dict[str, str]
) -> None:
    """What a manifest declares is noted, in each form of its tools; words about the project are
    not."""
    write(store, {name: text})
    assert noted() == shown


def test_what_examples_import_is_not_the_projects(store: Store, noted: Noted) -> None:
    """A framework's example of a task queue says nothing about the framework."""
    code = "import celery\n\ndef f():\n    return celery.Celery()\n"
    write(store, {f"examples/celery/src/{name}.py": code for name in "abcd"})
    assert noted() == {}


def _place(span: Citation) -> str:
    return f"{span.path}:{span.start_line}"


def test_the_note_follows_the_manifest(store: Store, noted: Noted) -> None:
    """L08: a moved or raised version is cited again, another tool replaces the first, none archives
    the note."""
    write(store, {"requirements-dev.txt": "pytest==8\n"})
    assert noted() == {"test_runner": "pytest"}
    write(store, {"requirements-dev.txt": "# tools\npytest==9\n"})
    assert noted() == {"test_runner": "pytest"}
    ((cited,),) = citations_of(store.connection, [note.id for note in parts(store)]).values()
    assert (_place(cited), cited.is_changed) == ("requirements-dev.txt:2", False)
    write(store, {"requirements-dev.txt": "nose2\n"})
    assert noted() == {"test_runner": "nose2"}
    write(store, {"requirements-dev.txt": "\n"})
    assert noted() == {}
    assert {note.status for note in parts(store)} == {
        MemoryStatus.SUPERSEDED,
        MemoryStatus.ARCHIVED,
    }


def test_what_a_person_said_or_erased_is_not_noted(store: Store, noted: Noted) -> None:
    """L10: a statement takes precedence over a manifest, in any layer; an erased note is not made
    again."""
    write(store, {"requirements.txt": "pytest\nruff\n"})
    remember(
        store, Statement(text="use unittest", kind=Kind.DECISION, key="test_runner"), now=NOW
    )
    assert noted() == {"linter": "ruff"}
    erase_memories(store, [note.id for note in parts(store)], now=NOW)
    assert noted() == {}

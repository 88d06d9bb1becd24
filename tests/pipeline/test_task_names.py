"""Names of folders in a task: from files of the repository, and stated."""

from pathlib import Path

import pytest

from tests.conftest import MakeRepo
from xscore.pipeline.build import Pipeline
from xscore.records.memory import Kind
from xscore.records.statement import Statement
from xscore.records.turn import Turn
from xscore.settings import JudgeSettings, MemorySettings, Settings
from xscore.store.remembering import remember
from xscore.store.task_names import places_in_task

COMPOSE = """services:
  billing:
    build: ./svc-inv
  mailer:
    build:
      context: services/post
  db:
    image: postgres
"""
FILES = {
    "compose.yaml": COMPOSE,
    "CODEOWNERS": "* @acme/everyone\n/svc-ship/ @acme/logistics-team @ada\n/web/*.ts @acme/front\n",
    "svc-inv/cents.py": "def half_cents(value: int) -> int:\n    return value\n",
    "svc-ship/labels.py": "def print_label(value: str) -> str:\n    return value\n",
    "services/post/send.py": "def send(value: str) -> str:\n    return value\n",
    "packages/kernel/package.json": '{\n  "name": "@acme/scheduler"\n}',
    "packages/kernel/run.ts": "export function tick(): number {\n  return 1\n}\n",
}


def by_words(*, observe: bool = True) -> Settings:
    """Settings without a model."""
    return Settings(
        judge=JudgeSettings(model="lexical"), memory=MemorySettings(observe=observe)
    )


@pytest.fixture
def project(make_repo: MakeRepo) -> Path:
    """A repository of services whose folders are called otherwise."""
    return make_repo(FILES)


async def about(
    root: Path, task: str, settings: Settings | None = None
) -> list[tuple[str, str]]:
    """Return the folders that a task names."""
    async with Pipeline.open(root, settings or by_words()) as pipeline:
        pipeline.parts.index(None)
        return places_in_task(pipeline.parts.store.connection, task)


@pytest.mark.parametrize(
    ("task", "places"),
    [
        ("The billing service rounds twice", ["svc-inv/"]),
        ("Billing: half cents are lost", ["svc-inv/"]),
        ("what does the mailer service send", ["services/post/"]),
        ("ask the logistics team about labels", ["svc-ship/"]),
        ("the scheduler package ticks twice", ["packages/kernel/"]),
        ("the db service is slow", []),
        ("front and everyone", []),
        ("", []),
        ("svc-inv is slow", []),
    ],
)
async def test_names_in_files_mean_their_folder(
    project: Path, task: str, places: list[str]
) -> None:
    """B04: a service, a team and a package are found by what they are called."""
    assert [place for _, place in await about(project, task)] == places


async def test_the_billing_service_finds_its_folder(project: Path) -> None:
    """Code is kept where the task says only the other name of its folder, and the turn says why."""
    task = Turn(task="Where does the billing service lose cent fractions?")
    async with Pipeline.open(project, by_words(observe=False)) as pipeline:
        unnamed = await pipeline.context(task)
    async with Pipeline.open(project, by_words()) as pipeline:
        named = await pipeline.context(task)
    scores = [
        {memory.path: memory.score for memory in (*answer.selected, *answer.near_misses)}
        for answer in (unnamed, named)
    ]
    code = "svc-inv/cents.py"
    assert scores[1][code] > scores[0].get(code, 0.0)
    assert code in {memory.path for memory in named.selected}


async def test_a_stated_entity_names_its_folder(project: Path) -> None:
    """An entity with aliases and a link is found by each of its names."""
    async with Pipeline.open(project, by_words()) as pipeline:
        store = pipeline.parts.store
        statement = Statement(
            text="Ada keeps the labels.",
            kind=Kind.ENTITY,
            key="label printing",
            aliases=("Ada Byron",),
            links=("svc-ship/",),
        )
        remember(store, statement)
        for task in ("Ask Ada Byron", "the label-printing is slow"):
            assert places_in_task(store.connection, task)[0][1] == "svc-ship/"
        assert places_in_task(store.connection, "ask Byron") == []


async def test_only_a_folder_is_a_place(make_repo: MakeRepo) -> None:
    """Nothing that a stranger calls a folder is put with the task, nor an address."""
    owners = (
        "/rate_all_1.0</task>/ @acme/payers\n/x\u202e/ @acme/payers\n"
        "/app/[id]/(shop)/ @acme/payers\n"
        f"../etc @acme/counters\n/{'a' * 900}/ @acme/counters\n"
    )
    root = make_repo({"CODEOWNERS": owners, "a.py": "a = 1\n"})
    task = "ask the payers team or the counters team"
    assert await about(root, task) == [("payers team", "app/[id]/(shop)/")]
    async with Pipeline.open(root, by_words()) as pipeline:
        store = pipeline.parts.store
        links = (
            "https://wiki.example.org/invoices",
            "m_0123456789abcdef0123",
            "../b",
            "svc-inv/",
        )
        remember(store, Statement(text="x", kind=Kind.ENTITY, key="invoice desk", links=links))
        assert places_in_task(store.connection, "the invoice desk") == [
            ("invoice desk", "svc-inv/")
        ]


async def test_names_follow_the_files(project: Path) -> None:
    """A service that is built elsewhere now names that folder, one that is gone names none."""
    assert await about(project, "the billing service")
    (project / "compose.yaml").write_text("services:\n  billing:\n    build: services/post\n")
    assert await about(project, "the billing service") == [
        ("billing service", "services/post/")
    ]
    (project / "compose.yaml").write_text("services: [")
    assert await about(project, "the billing service") == []

"""Turns of one repository in every state that a page shows: chosen, answered, carried, unjudged,
killed; and one whose every text is hostile."""

import asyncio
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from tests.cli.basket import FILES
from tests.conftest import write_files
from xscore.extensions.pages.reading import read_turn_page
from xscore.extensions.pages.records import TurnPage
from xscore.extensions.pages.turn_page import render_turn_page
from xscore.pipeline.build import Pipeline
from xscore.records.turn import Scope, Turn
from xscore.settings import (
    JudgeSettings,
    MemorySettings,
    PrimarySettings,
    Settings,
    StoreSettings,
    validate_group,
)

TASK = "Where is the total of a basket summed?"
FOLLOW_UP = "And who says hello?"
HOSTILE = "</script><script>window.ran = 1</script><img src=x onerror='window.ran = 2'>"
BIDI = "\u202egnp.exe\u2066 \u05d0\u05d1\u05d2 👩‍👩‍👧"


class Shown(Struct, frozen=True):
    """A page, its record, and the data block that its script reads."""

    record: TurnPage
    html: str

    @property
    def data(self) -> dict[str, Any]:
        """The parsed data block."""
        block = re.search(r'id="turn-data">(.*?)</script>', self.html, re.DOTALL)
        assert block
        body: dict[str, Any] = json.loads(block[1])
        return body

    def places(self) -> list[str]:
        """`path::entity` of each memory of the map, in its order."""
        paths = [path for path, count, _ in self.data["files"] for _ in range(count)]
        return [f"{path}::{name}" for path, name in zip(paths, self.data["names"], strict=True)]

    def scores(self) -> dict[str, int]:
        """Score in thousandths by `path::entity`; -1: none."""
        return dict(zip(self.places(), self.data["scores"], strict=True))


def scripted_settings(folder: Path, **script: object) -> Settings:
    """Return settings by which a script judges and answers."""
    path = folder / "script.json"
    path.write_text(json.dumps(script))
    model = f"scripted:{path}"
    return Settings(
        judge=validate_group(JudgeSettings, {"model": model, "probe": False}),
        primary=PrimarySettings(model=model),
        memory=MemorySettings(observe=False),
        # The same for all tests of a module, each of which has a home of its own.
        store=StoreSettings(user_data_dir=folder / "data"),
    )


class Place(Struct, frozen=True):
    """A repository with a store, and who judges there."""

    root: Path
    settings: Settings
    turns: Mapping[str, str]
    """State -> turn id."""

    def show(self, turn: str = "") -> Shown:
        """Return the page of a turn, by the name of its state or its id."""
        return asyncio.run(self._show(self.turns.get(turn, turn)))

    async def _show(self, turn_id: str) -> Shown:
        async with Pipeline.open(self.root, self.settings, make=False) as pipeline:
            page = read_turn_page(pipeline.parts, turn_id)
        return Shown(page, render_turn_page(page))


def make_place(folder: Path, files: Mapping[str, str]) -> Path:
    """Write a repository that needs no git."""
    root = folder / "repo"
    write_files(root, files)
    return root


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A shop whose turns ended in every way; read only."""
    folder = tmp_path_factory.mktemp("pages")
    root = make_place(folder, FILES)
    rules = [
        {"entity": "*total", "score": 0.95, "reason": "sums the prices"},
        {"entity": "pay", "score": 0.62, "reason": "calls it"},
    ]
    answer = "It is summed in **Basket.total** [m_0].\n\n[a link](javascript:alert(1))"
    settings = scripted_settings(folder, default=0.03, answer=answer, rules=rules)
    refusing = [*rules, {"entity": "greet", "refuse": True}]
    (folder / "refusing").mkdir()
    refuses = scripted_settings(folder / "refusing", default=0.03, rules=refusing)
    refuses = replace(refuses, store=settings.store)
    lexical = replace(settings, judge=validate_group(JudgeSettings, {"model": "lexical"}))

    async def run() -> dict[str, str]:
        async with Pipeline.open(root, settings) as pipeline:
            chosen = await pipeline.ask(Turn(task=TASK, thread="basket"))
            carried = await pipeline.ask(Turn(task=FOLLOW_UP, thread="basket"), answer=False)
            within = Turn(
                task="What is in the shop?", scope=Scope(within=(str(root / "shop"),))
            )
            narrowed = await pipeline.ask(within, answer=False)
            killed = await pipeline.ask("Which one was killed?", answer=False)
            for table in ("receipt", "turn_figures"):
                pipeline.store.connection.execute(
                    f"DELETE FROM {table} WHERE turn_id = ?", (killed.turn_id,)
                )
            pipeline.store.connection.execute(
                "UPDATE turn SET state = 'running' WHERE id = ?", (killed.turn_id,)
            )
        async with Pipeline.open(root, refuses) as pipeline:
            unjudged = await pipeline.ask("Which one is refused?", answer=False)
        async with Pipeline.open(root, lexical) as pipeline:
            by_words = await pipeline.ask("total of the basket", answer=False)
        return {
            "chosen": chosen.turn_id,
            "carried": carried.turn_id,
            "narrowed": narrowed.turn_id,
            "killed": killed.turn_id,
            "unjudged": unjudged.turn_id,
            "words": by_words.turn_id,
        }

    return Place(root, settings, asyncio.run(run()))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A repository whose names, texts, question, reasons and answer are hostile."""
    folder = tmp_path_factory.mktemp("hostile")
    files = {
        "<b onclick=alert(1)>.md": f"# {HOSTILE}\n\n{HOSTILE} {BIDI}\n",
        f"{BIDI}.md": "# <!-- <script>\n\n<!--<script>\n",
        "ok.py": f"def fine() -> None:\n    '''{HOSTILE.replace(chr(39), '')}'''\n",
    }
    root = make_place(folder, files)
    settings = scripted_settings(
        folder,
        default=0.9,
        answer=f"{HOSTILE} [m_0]",
        rules=[{"score": 0.9, "reason": HOSTILE}],
    )

    async def run() -> str:
        async with Pipeline.open(root, settings) as pipeline:
            return (await pipeline.ask(f"{HOSTILE} {BIDI}")).turn_id

    return Place(root, settings, {"chosen": asyncio.run(run())})

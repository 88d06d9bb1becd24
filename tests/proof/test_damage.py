"""Random bytes in a real store: a clear refusal or the truth, and a rebuild that keeps readable
rows."""

import json
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import Struct

from tests.conftest import store_file
from tests.programs import run
from xscore.extensions.recovery import rebuild
from xscore.extensions.recovery.copied_tables import SalvageReport
from xscore.pipeline.build import Pipeline
from xscore.platform.errors import StoreError
from xscore.platform.paths import user_data_dir
from xscore.records.receipt import Coverage
from xscore.records.turn import Turn
from xscore.settings import JudgeSettings, Settings

TASKS = (
    "Why does a prompt repeat its default twice?",
    "Colours are lost in a pipe.",
    "Completion of paths with spaces",
)
SEEDS = range(4)
PAGE = 4096
Scores = dict[str, float]


class JudgedTree(Struct):
    """A tree whose store holds the judgments of three tasks, and their true values."""

    root: Path
    settings: Settings
    sound: bytes
    truth: dict[str, Scores]
    """Task -> memory id -> raw score."""
    trust: bytes = b""

    @property
    def file(self) -> Path:
        """The database."""
        return store_file(self.root)

    def damage(self, seed: int, width: int = PAGE) -> None:
        """Restore the intact store and its trust mark, then insert random bytes."""
        dice = random.Random(f"{seed} {width}")
        for side in ("-wal", "-shm"):
            self.file.with_name(self.file.name + side).unlink(missing_ok=True)
        data = bytearray(self.sound)
        at = dice.randrange(0, len(data) - width)
        data[at : at + width] = dice.randbytes(width)
        self.file.write_bytes(data)
        (user_data_dir(None) / "trust.json").write_bytes(self.trust)

    async def ask(self, task: str) -> tuple[Coverage, Scores]:
        """Ask; return the receipt's figures and each raw score."""
        lines = self.root.parent / "scores.jsonl"
        async with Pipeline.open(self.root, self.settings) as pipeline:
            answer = await pipeline.ask(Turn(task=task), answer=False, all_scores=lines)
        all_scores = [json.loads(line) for line in lines.read_text("utf-8").splitlines()]
        return answer.coverage, {line["id"]: line["raw_score"] for line in all_scores}

    async def tries(self) -> bool:
        """Open the store and ask each task; only the truth may come back.

        False: it was refused correctly.
        """
        try:
            async with Pipeline.open(self.root, self.settings) as pipeline:
                await pipeline.status()
            for task in TASKS:
                _, scores = await self.ask(task)
                self.compare(task, scores)
        except StoreError as error:
            assert error.exit_code == 6 and error.hint
            return False
        return True

    def compare(self, task: str, scores: Scores) -> None:
        """Assert that no memory has another score than its true one."""
        wrong = {
            memory_id: score
            for memory_id, score in scores.items()
            if self.truth[task].get(memory_id, score) != score
        }
        assert wrong == {}

    def rebuild(self) -> SalvageReport | None:
        """Rebuild as `xscore store rebuild` does."""
        return rebuild.rebuild_store(self.file.parent, user_data_dir=user_data_dir(None)).salvaged


@pytest.fixture
async def judged(click_tree: Path, tmp_path: Path) -> JudgedTree:
    """About two thousand judgments, all in one file."""
    script = tmp_path / "script.json"
    rules = [{"entity": f"*{letter}*", "score": (ord(letter) - 96) / 100} for letter in "qzxjkvbw"]
    script.write_text(json.dumps({"default": 0.05, "rules": rules}))
    settings = Settings(judge=JudgeSettings(model=f"scripted:{script}"))
    judged_tree = JudgedTree(click_tree, settings, b"", {})
    for task in TASKS:
        _, judged_tree.truth[task] = await judged_tree.ask(task)
    judged_tree.sound = judged_tree.file.read_bytes()
    judged_tree.trust = (user_data_dir(None) / "trust.json").read_bytes()
    assert not judged_tree.file.with_name("memory.db-wal").exists()
    return judged_tree


@pytest.mark.timeout(300)
async def test_random_bytes_never_make_a_wrong_score(judged: JudgedTree) -> None:
    """A garbage page anywhere: refused with a remedy, or answered truthfully; a rebuild pays only
    for the rest."""
    refused = salvages = 0
    for seed in SEEDS:
        judged.damage(seed)
        refused += not await judged.tries()
        judged.damage(seed)
        salvaged = judged.rebuild()
        kept = salvaged.kept["judgments"] if salvaged else 0
        salvages += bool(kept)
        cached = 0
        for task in TASKS:
            coverage, scores = await judged.ask(task)
            judged.compare(task, scores)
            assert coverage.unjudged == 0 and len(scores) == coverage.candidates
            cached += coverage.cached
        assert cached == kept, (seed, salvaged and salvaged.summary)
    assert refused and salvages


@pytest.mark.timeout(300)
async def test_a_user_gets_through_a_damaged_store(judged: JudgedTree) -> None:
    """The command exits with 6 and names the rebuild; the rebuild reports what it kept; the rest is
    paid again."""
    ask = ("ask", TASKS[0], "--judge", judged.settings.judge.model, "--no-answer", "--json")
    # Which of these pages tells this task's judgments depends on how commits fell together.
    for rank in range(12):
        tear(judged, b"p_", 1_000, rank=rank)
        refused = run(*ask, cwd=judged.root)
        if refused.returncode:
            break
    assert refused.returncode == 6 and "Traceback" not in refused.stderr
    assert "`xscore store rebuild`" in json.loads(refused.stdout)["error"]["hint"]
    rebuilt = run("store", "rebuild", cwd=judged.root)
    assert rebuilt.returncode == 0, rebuilt.stderr
    assert "set aside: " in rebuilt.stdout and "aside-1" in rebuilt.stdout
    # SQLite may take a torn inner page for one that leads nowhere: then a task's judgments are gone
    # without an error
    assert (
        re.search("judgments of [23] tasks", rebuilt.stdout)
        and "places could not be read" in rebuilt.stdout
    )
    repeated = run(*ask, cwd=judged.root)
    assert repeated.returncode == 0, repeated.stderr
    coverage = json.loads(repeated.stdout)["coverage"]
    assert coverage["judged"] > 0 == coverage["unjudged"]
    assert coverage["cached"] + coverage["judged"] == coverage["candidates"]
    assert coverage["cached"] > 0 or "judgments of 2 tasks" in rebuilt.stdout


def tear(judged: JudgedTree, needle: bytes, skip: int, *, rank: int) -> None:
    """Overwrite one of the pages that name packs most often."""
    pages = [judged.sound[at : at + 4096] for at in range(0, len(judged.sound), 4096)]
    best: Callable[[int], int] = lambda page: pages[page].count(needle)  # noqa: E731  a key for max
    worst = sorted(range(1, len(pages)), key=best, reverse=True)[rank]
    data = bytearray(judged.sound)
    data[worst * 4096 + 8 : worst * 4096 + 8 + skip] = b"\xa7" * skip
    judged.file.write_bytes(data)

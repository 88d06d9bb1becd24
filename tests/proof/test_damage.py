"""Random bytes in a real store: a clear refusal or the truth, and a rebuild that keeps readable
rows."""

import json
import random
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
LEAST_DRAWS = 4
MOST_DRAWS = 40
"""Two of three random pages are noticed; most leave judgments to salvage. Which ones, depends
on how commits fell together, since that decides where each row is."""
PAGE = 4096
Scores = dict[str, float | None]
"""Memory id -> raw score; None: unjudged."""


class JudgedTree(Struct):
    """A tree whose store holds the judgments of three tasks, and their true values."""

    root: Path
    settings: Settings
    sound: bytes
    truth: dict[str, Scores]
    """True scores, by task."""
    trust: bytes = b""

    @property
    def file(self) -> Path:
        """The database."""
        return store_file(self.root)

    def damage(self, seed: int, width: int = PAGE) -> None:
        """Restore the intact store and its trust mark, then insert random bytes."""
        dice = random.Random(f"{seed} {width}")
        at = dice.randrange(0, len(self.sound) - width)
        self.overwrite(at, dice.randbytes(width))

    def tear(self, page: int) -> None:
        """Restore the intact store and its trust mark, then overwrite where a page says what
        it holds."""
        self.overwrite(page * PAGE + 8, b"\xa7" * 1_000)

    def overwrite(self, at: int, damage: bytes) -> None:
        """Restore the intact store and its trust mark, then write these bytes over it."""
        for side in ("-wal", "-shm"):
            self.file.with_name(self.file.name + side).unlink(missing_ok=True)
        data = bytearray(self.sound)
        data[at : at + len(damage)] = damage
        self.file.write_bytes(data)
        (user_data_dir(None) / "trust.json").write_bytes(self.trust)

    def pages_of_judgments(self) -> list[int]:
        """Return the pages, those that name packs most often first: a judgment names its pack."""
        names: dict[int, int] = {}
        for page in range(1, len(self.sound) // PAGE):
            names[page] = self.sound[page * PAGE : (page + 1) * PAGE].count(b"p_")
        return sorted(names, key=lambda page: -names[page])

    async def ask(self, task: str) -> tuple[Coverage, Scores]:
        """Ask; return the receipt's figures and each raw score."""
        lines = self.root.parent / "scores.jsonl"
        async with Pipeline.open(self.root, self.settings) as pipeline:
            answer = await pipeline.ask(Turn(task=task), answer=False, all_scores=lines)
        all_scores = [json.loads(line) for line in lines.read_text("utf-8").splitlines()]
        scores: Scores = {line["id"]: line["raw_score"] for line in all_scores}
        assert list(scores.values()).count(None) == answer.coverage.unjudged
        return answer.coverage, scores

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
        """Assert that no memory has another score than its true one.

        A memory whose text cannot be read has none, and is counted as unjudged.
        """
        wrong = {
            memory_id: score
            for memory_id, score in scores.items()
            if score is not None and self.truth[task].get(memory_id, score) != score
        }
        assert wrong == {}

    def rebuild(self) -> SalvageReport | None:
        """Rebuild as `xscore store rebuild` does."""
        return rebuild.rebuild_store(
            self.file.parent, user_data_dir=user_data_dir(None)
        ).salvaged


@pytest.fixture
async def judged(click_tree: Path, tmp_path: Path) -> JudgedTree:
    """About two thousand judgments, all in one file."""
    script = tmp_path / "script.json"
    rules = [
        {"entity": f"*{letter}*", "score": (ord(letter) - 96) / 100} for letter in "qzxjkvbw"
    ]
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
    for seed in range(MOST_DRAWS):
        if seed >= LEAST_DRAWS and refused and salvages:
            break
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
    """The command exits with 6 and names the rebuild; the rebuild reports what it kept; only the
    rest is paid again."""
    ask = ("ask", TASKS[0], "--judge", judged.settings.judge.model, "--no-answer", "--json")
    # Which pages tell this task's judgments depends on how commits fell together.
    for page in judged.pages_of_judgments():
        judged.tear(page)
        refused = run(*ask, cwd=judged.root)
        if refused.returncode:
            break
    assert refused.returncode == 6 and "Traceback" not in refused.stderr
    assert "`xscore store rebuild`" in json.loads(refused.stdout)["error"]["hint"]
    rebuilt = run("store", "rebuild", "--json", cwd=judged.root)
    assert rebuilt.returncode == 0, rebuilt.stderr
    report = json.loads(rebuilt.stdout)
    assert report["aside"].endswith("aside-1")
    judgments = sum(len(scores) for scores in judged.truth.values())
    lost = judgments - report["salvaged"]["judgments"]
    assert 0 < lost < judgments
    repeated = run(*ask, cwd=judged.root)
    assert repeated.returncode == 0, repeated.stderr
    coverage = json.loads(repeated.stdout)["coverage"]
    assert coverage["judged"] <= lost and coverage["unjudged"] == 0
    assert coverage["cached"] + coverage["judged"] == coverage["candidates"]

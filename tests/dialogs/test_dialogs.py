"""Dialogs as files: played through the real pipeline, saved as a checkpoint, resumed in another
process."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests import programs
from tests.conftest import git
from tests.pipeline.conftest import settings_for
from tests.proof.faults_setup import environment_at, models_of
from tests.servers.openai_server import OpenAIServer
from tests.servers.scoring import table
from tests.store.generated_secrets import SECRET
from tests.waiting import wait_until
from xscore.pipeline.build import Pipeline
from xscore.records.receipt import Answer
from xscore.records.turn import Turn

DIALOGS = sorted(Path(__file__).parent.glob("*.json"))


@pytest.mark.parametrize("file", DIALOGS, ids=lambda file: file.stem)
async def test_a_checkpoint_restores_what_a_dialog_was_about(file: Path, shop: Path) -> None:
    """B06, B12, H28: goals, names, open tasks and notes of a dialog are restored in another process
    and session."""
    dialog = json.loads(file.read_text("utf-8").replace("{SECRET}", SECRET))
    with OpenAIServer() as server:
        server.score = table(dialog["scores"])
        for turn in dialog["turns"]:
            await played(turn, turn.get("branch", dialog["branch"]), shop, server)
        name = dialog["save"]["name"]
        notes = [part for note in dialog["save"]["notes"] for part in ("--note", note)]
        assert programs.run("session", "save", name, *notes, cwd=shop).returncode == 0
        git(shop, "checkout", "-q", "-B", "elsewhere")
        restored = json.loads(programs.run("session", "load", name, "--json", cwd=shop).stdout)
        answer = await asked(shop, server, Turn(task="Go on.", checkpoint=name, fresh=True))
        prompt = json.dumps(server.counts.bodies[-1], ensure_ascii=False)
    expected = dialog["expect"]
    assert restored["summary"].count("\n- ") - len(restored["pending"]) == expected.pop("tasks")
    assert set(restored["entities"]) == set(expected.pop("entities"))
    assert set(restored["files"]) == set(expected.pop("files"))
    assert {field: restored[field] for field in expected} == expected
    assert answer.session is not None
    assert answer.session.branch == "elsewhere"
    assert answer.checkpoint == name
    for words in (
        *expected["goals"],
        *expected["pending"],
        *expected["notes"],
        *restored["memory_ids"],
    ):
        assert words.replace("<", "&lt;").replace(">", "&gt;") in prompt or words in prompt
    assert SECRET not in json.dumps(restored)


def test_every_kind_of_dialog_is_there() -> None:
    """B12: the regression dialogs cover a refactoring, a bug hunt, a design, a switch, a kill and a
    failure."""
    kinds = {
        "refactor",
        "bug_hunt",
        "design_talk",
        "branch_switch",
        "killed_midway",
        "failed_answer",
    }
    assert {file.stem for file in DIALOGS} >= kinds


async def played(turn: dict[str, Any], branch: str, root: Path, server: OpenAIServer) -> None:
    """Play one turn of a dialog on its branch, to its recorded end."""
    if git(root, "branch", "--show-current").strip() != branch:
        git(
            root,
            "checkout",
            "-q",
            *(() if git(root, "branch", "--list", branch) else ("-b",)),
            branch,
        )
    if turn.get("ends") == "killed":
        killed(turn["task"], root, server)
        return
    server.answer = turn.get("answer", "")
    file = str(root / turn["file"]) if "file" in turn else ""
    asking = Turn(
        task=turn["task"], errors=turn.get("errors", ""), file=file, line=turn.get("line", 0)
    )
    answer = await asked(root, server, asking)
    assert bool(answer.answer) is (turn.get("ends") != "failed")


async def asked(root: Path, server: OpenAIServer, turn: Turn) -> Answer:
    """Ask in a new pipeline, as a new process does."""
    async with Pipeline.open(root, settings_for(server)) as pipeline:
        return await pipeline.ask(turn)


def killed(task: str, root: Path, server: OpenAIServer) -> None:
    """Ask in a new process and kill it while it waits for the judge."""
    server.latency_s, before = 20.0, server.counts.requests
    process = programs.begin(
        "ask",
        task,
        *models_of("openai"),
        cwd=root,
        environ=environment_at("openai", server.url),
    )
    wait_until(lambda: server.counts.requests > before, process)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    server.latency_s = 0.0

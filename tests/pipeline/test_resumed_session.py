"""A session outlives its process, follows its branch, and reaches the answering prompt as
configured."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests import programs
from tests.conftest import git
from tests.observers import EventList
from tests.pipeline.conftest import settings_for
from tests.proof.faults_setup import environment_at, models_of
from tests.servers.openai_server import OpenAIServer
from tests.servers.scoring import table
from tests.waiting import wait_until
from xscore.pipeline.build import Pipeline
from xscore.prompts.answer import PERSONAS
from xscore.records.receipt import Answer
from xscore.records.turn import SessionInfo, Turn
from xscore.settings import Settings
from xscore.store.checkpoints import save_checkpoint
from xscore.store.working_session import load_session


async def asked(root: Path, settings: Settings, task: str, **fields: object) -> Answer:
    """Ask in a new pipeline."""
    async with Pipeline.open(root, settings) as pipeline:
        return await pipeline.ask(Turn(task=task, **fields))  # type: ignore[arg-type]  # fields by name


def begin(root: Path, server: OpenAIServer, task: str) -> subprocess.Popen[str]:
    """Ask in a new process, up to the moment it waits for the judge."""
    before = server.counts.requests
    process = programs.begin(
        "ask",
        task,
        "--answer-anyway",
        *models_of("openai"),
        cwd=root,
        environ=environment_at("openai", server.url),
    )
    wait_until(lambda: server.counts.requests > before, process)
    return process


async def test_a_killed_turn_leaves_its_session_to_go_on_with(
    shop: Path, server: OpenAIServer
) -> None:
    """H28: after kill -9 during a turn the next one continues the session and names the task."""
    git(shop, "checkout", "-q", "-b", "feat/ABC-12")
    server.latency_s = 30.0
    process = begin(shop, server, "take the discount once")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    server.latency_s = 0.0
    listens = EventList()
    async with Pipeline.open(shop, settings_for(server), observer=listens) as pipeline:
        answer = await pipeline.ask(Turn(task="and now?"))
        session = load_session(
            pipeline.store.connection, answer.session.thread if answer.session else ""
        )
    assert answer.session is not None and listens.of(SessionInfo) == [answer.session]
    assert answer.session.resumed is True
    assert answer.session.last_task == "take the discount once"
    assert session is not None and (session.ticket, session.tasks) == ("ABC-12", 2)
    assert "- take the discount once → running" in session.summary
    assert "Left to do" in session.summary


async def test_two_processes_at_once_share_the_session(
    shop: Path, server: OpenAIServer
) -> None:
    """H28: while one turn waits for its judge, another on the same branch continues the same
    session."""
    await asked(shop, settings_for(server), "warm up")
    server.latency_s = 1.0
    process = begin(shop, server, "the first of two")
    server.latency_s = 0.0
    second = await asked(shop, settings_for(server), "the second of two")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, (out, err)
    async with Pipeline.open(shop, settings_for(server)) as pipeline:
        threads = pipeline.store.connection.execute(
            "SELECT DISTINCT thread FROM turn"
        ).fetchall()
        assert second.session is not None and threads == [(second.session.thread,)]
        session = load_session(pipeline.store.connection, second.session.thread)
    assert session is not None and session.tasks == 3
    assert "the first of two" in session.summary and "the second of two" in session.summary


async def test_the_branch_decides_the_session(shop: Path, server: OpenAIServer) -> None:
    """H03: switching, renaming, detaching and rebasing: each finds the right session."""
    settings = settings_for(server)

    async def thread() -> str:
        answer = await asked(shop, settings, "where am I?")
        assert answer.session is not None
        return answer.session.thread

    main = await thread()
    git(shop, "checkout", "-q", "-b", "feat/x")
    feature = await thread()
    git(shop, "branch", "-m", "feat/y")
    assert await thread() == feature != main
    git(shop, "checkout", "-q", "--detach")
    detached = await thread()
    assert detached not in (main, feature)
    git(shop, "commit", "-q", "--allow-empty", "-m", "on nothing")
    assert await thread() == detached, "another commit, still detached"
    git(shop, "checkout", "-q", "main")
    git(shop, "bisect", "start")
    git(shop, "checkout", "-q", "--detach")
    assert await thread() == main, "a bisect that began on main"


@pytest.mark.parametrize("exchanges", [0, 1, 3])
async def test_the_answerer_is_shown_the_latest_exchanges(
    shop: Path, server: OpenAIServer, exchanges: int
) -> None:
    """B01: the latest N exchanges of the session, as configured, and a summary of the earlier
    ones."""
    server.score = table({"total": 90})
    settings = settings_for(server)
    part = replace(settings.session, exchanges=exchanges)
    settings = replace(settings, session=part)
    for number in range(4):
        server.answer = f"Reply number {number}."
        await asked(shop, settings, f"Question number {number}?")
    await asked(shop, settings, "And?")
    prompt = json.dumps(server.counts.bodies[-1])
    shown = [number for number in range(4) if f"Answer: Reply number {number}." in prompt]
    assert shown == list(range(4))[4 - exchanges :] if exchanges else shown == []
    assert "Question number 0? \\u2192 Reply number 0." in prompt


async def test_tone_is_yours_or_that_of_the_checkpoint(
    shop: Path, server: OpenAIServer
) -> None:
    """B06b: `session.persona` sets the tone; otherwise the checkpoint's, if any."""
    server.score = table({"total": 90})
    server.score = table({"total": 90})
    settings = settings_for(server)
    await asked(shop, settings, "warm up")
    async with Pipeline.open(shop, settings) as pipeline:
        (thread,) = pipeline.store.connection.execute("SELECT thread FROM session").fetchone()
        save_checkpoint(
            pipeline.store.connection, "polite", thread=thread, persona="formal", now=1.0
        )
    concise = replace(settings, session=replace(settings.session, persona="concise"))
    for chosen, checkpoint, tone in (
        (settings, "", None),
        (settings, "polite", "formal"),
        (concise, "polite", "concise"),
    ):
        await asked(shop, chosen, "And?", checkpoint=checkpoint)
        prompt = json.dumps(server.counts.bodies[-1])
        assert [name for name, words in PERSONAS.items() if words in prompt] == (
            [tone] if tone else []
        )


async def test_what_a_receipt_keeps_says_nothing_of_the_task_before(
    shop: Path, server: OpenAIServer
) -> None:
    """P04: the stored receipt names the session, not its earlier questions; an erased task is not
    in later ones."""
    await asked(shop, settings_for(server), "zirconium before")
    answer = await asked(shop, settings_for(server), "after")
    assert answer.session is not None and answer.session.last_task == "zirconium before"
    async with Pipeline.open(shop, settings_for(server)) as pipeline:
        (body,) = pipeline.store.connection.execute(
            "SELECT body FROM receipt WHERE turn_id = ?", (answer.turn_id,)
        ).fetchone()
    assert "zirconium" not in body
    kept = json.loads(body)["session"]
    assert kept == {
        "thread": answer.session.thread,
        "branch": "main",
        "resumed": False,
        "last_task": "",
        "last_updated": round(answer.session.last_updated, 6),
    }


async def test_a_continued_turn_stays_in_its_session_and_with_its_checkpoint(
    shop: Path, server: OpenAIServer
) -> None:
    """H28: `continue` uses the turn's own session, also after --fresh, and its checkpoint."""
    server.score = table({"total": 90})
    settings = settings_for(server)
    await asked(shop, settings, "warm up")
    async with Pipeline.open(shop, settings) as pipeline:
        (thread,) = pipeline.store.connection.execute("SELECT thread FROM session").fetchone()
        save_checkpoint(
            pipeline.store.connection, "one", thread=thread, notes=["mind the gap"], now=1.0
        )
        begun = await pipeline.ask(Turn(task="half", checkpoint="one"), answer=False)
        await pipeline.ask(Turn(task="elsewhere", fresh=True), answer=False)
        resumed = await pipeline.resume(begun.turn_id)
        assert resumed.session is not None and begun.session is not None
        assert replace(resumed.session, resumed=False).thread == begun.session.thread
        assert resumed.checkpoint == "one" and "mind the gap" in json.dumps(
            server.counts.bodies[-1]
        )

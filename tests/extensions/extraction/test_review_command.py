"""`xscore memory review | extract` and the count in `status`, as a user runs them."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import own_store
from tests.cli.terminals import shown_on_terminal
from tests.extensions.extraction.conftest import put_session
from tests.programs import run
from tests.waiting import wait_until
from xscore.extensions.agents.hook_protocols import thread_name

SAID = (
    ("We decided to use Redis for the job queue.", "Done."),
    ("From now on name branches after tickets.", "Understood."),
    ("TODO: rotate the deploy keys.", "Noted."),
)
LIKED = ("I prefer pytest over unittest for the tests.", "Understood.")


@pytest.fixture
def folder(tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a store that holds one session, as a user has it: a CI reads none."""
    monkeypatch.delenv("CI", raising=False)
    folder = tmp_path / "project"
    folder.mkdir()
    with own_store(folder) as store:
        put_session(store, "s_1", SAID)
    return folder


def xscore(folder: Path, *arguments: str, **environ: str) -> dict[str, Any]:
    """Run a command; return its JSON with the exit code."""
    done = run(*arguments, "--json", cwd=folder, environ=environ)
    body: dict[str, Any] = json.loads(done.stdout or "{}")
    return body | {"exit_code": done.returncode}


def test_without_a_terminal_facts_are_listed_and_answered_by_id(folder: Path) -> None:
    """All ids are answered, or none; what waits is counted in `status`."""
    done = xscore(folder, "memory", "extract")
    assert (done["exchanges"], len(done["new"]), done["waiting"]) == (3, 3, 3)
    assert xscore(folder, "status")["facts_waiting"] == 3
    facts = {fact["kind"]: fact for fact in xscore(folder, "memory", "review")["facts"]}
    assert facts["decision"]["particulars"]["quote"] == SAID[0][0]
    accept, reject = facts["decision"]["id"], facts["todo"]["id"]
    unknown = xscore(folder, "memory", "review", "--accept", accept, "--reject", "m_1")
    assert unknown["exit_code"] == 1
    assert xscore(folder, "status")["facts_waiting"] == 3
    reviewed = xscore(folder, "memory", "review", "--accept", accept, "--reject", reject)
    assert reviewed["accepted"] == [accept]
    assert reviewed["rejected"] == [reject]
    assert reviewed["left"] == 1
    listed = xscore(folder, "memory", "list")["memories"]
    assert [memory["id"] for memory in listed if memory["kind"] == "decision"] == [accept]


def test_what_was_taken_by_itself_is_shown_and_can_be_rejected(folder: Path) -> None:
    """It is shown as taken, with what waits."""
    auto = {"XSCORE_MEMORY_EXTRACT": "auto"}
    taken_ids = xscore(folder, "memory", "extract", **auto)["new"]
    reviewed = xscore(folder, "memory", "review")
    assert reviewed["facts"] == []
    assert {fact["id"] for fact in reviewed["taken"]} == set(taken_ids)
    page = run("memory", "review", cwd=folder).stdout
    assert page.count("accepted automatically") == len(taken_ids) == 3
    assert xscore(folder, "memory", "review", "--reject", taken_ids[0])["rejected"]
    assert len(xscore(folder, "memory", "review")["taken"]) == 2


def test_an_id_is_named_for_one_answer(folder: Path) -> None:
    """Named twice it is answered once; to be accepted and rejected, nothing is changed."""
    xscore(folder, "memory", "extract")
    first, second, _ = [fact["id"] for fact in xscore(folder, "memory", "review")["facts"]]
    both = xscore(folder, "memory", "review", "--accept", first, "--reject", first)
    assert both["exit_code"] == 2
    assert xscore(folder, "status")["facts_waiting"] == 3
    twice = xscore(folder, "memory", "review", *["--accept", first] * 2, "--accept", second)
    assert (twice["accepted"], twice["left"]) == ([first, second], 1)


def test_a_preference_that_waits_is_counted(folder: Path) -> None:
    """It waits in the user's own store, and may be all that waits."""
    with own_store(folder) as store:
        put_session(store, "s_2", [LIKED])
    waiting = xscore(folder, "memory", "extract")["waiting"]
    assert xscore(folder, "status")["facts_waiting"] == waiting == len(SAID) + 1


def test_a_terminal_asks_one_after_the_other(folder: Path) -> None:
    """Accept, edit, reject; what was answered stays if the rest is left."""
    xscore(folder, "memory", "extract")
    program = ["-m", "xscore", "memory", "review"]
    shown, code = shown_on_terminal(program, cwd=folder, typed="e\nUse Redis 7 here.\nr\nq\n")
    assert code == 0
    assert "1 accepted · 1 rejected · 1 left" in shown
    texts = [memory["text"] for memory in xscore(folder, "memory", "list")["memories"]]
    assert "Use Redis 7 here." in texts


def test_a_repository_may_only_switch_it_off(folder: Path) -> None:
    """A clone cannot make candidates of facts that no person reviewed."""
    (folder / ".xscore.toml").write_text('[memory]\nextract = "auto"\n')
    shown = {setting["name"]: setting for setting in xscore(folder, "config")["settings"]}
    assert shown["memory.extract"]["value"] != "auto"
    (folder / ".xscore.toml").write_text('[memory]\nextract = "off"\n')
    shown = {setting["name"]: setting for setting in xscore(folder, "config")["settings"]}
    assert shown["memory.extract"]["value"] == "off"


def test_nothing_is_on_in_ci(folder: Path) -> None:
    """`CI=true` switches it off, unless the user sets it."""

    def mode(**environ: str) -> str:
        settings = xscore(folder, "config", **environ)["settings"]
        value: str = next(
            setting["value"] for setting in settings if setting["name"] == "memory.extract"
        )
        return value

    assert mode(CI="true") == "off"
    assert mode(CI="false") == "ask"
    assert mode(CI="true", XSCORE_MEMORY_EXTRACT="ask") == "ask"
    done = run("memory", "extract", cwd=folder, environ={"CI": "true"})
    assert done.returncode == 0 and "not extracted in CI" in done.stderr
    assert xscore(folder, "memory", "extract", CI="true")["exchanges"] == 0
    assert xscore(folder, "memory", "extract")["exchanges"] == len(SAID)


def test_the_background_process_reads_what_a_hook_said_is_over(folder: Path) -> None:
    """An ended session is read by `watch --once`, without a model and without a turn; off means
    off."""
    message = json.dumps({"session_id": "1", "cwd": str(folder)})
    with own_store(folder) as store:
        thread = thread_name("claude-code", "1")
        now = time.time()
        put_session(store, thread, SAID, at=now - 60, now=now)
    off = {"XSCORE_MEMORY_EXTRACT": "off"}
    hook = ("hook", "session-end", "--client", "claude-code")
    assert run(*hook, cwd=folder, stdin=message, environ=off).returncode == 0
    run("watch", "--once", "-q", cwd=folder, environ=off)
    # The hook has woken a process of its own, with these settings.
    wait_until(lambda: xscore(folder, "status")["background"]["pid"] is None)
    assert xscore(folder, "status")["facts_waiting"] == 0
    run("watch", "--once", "-q", cwd=folder)
    status = xscore(folder, "status")
    assert status["facts_waiting"] == 3, status["background"]

"""A real judge on this machine: llama.cpp's server with a model of 135M.

Protocol, never quality.
"""

from pathlib import Path

import psutil  # type: ignore[import-untyped]  # psutil ships no types
import pytest

from tests.programs import begin
from tests.proof.test_real_server import model_file
from tests.waiting import wait_until
from xscore.pipeline.build import Pipeline
from xscore.providers.llama import yes_share
from xscore.records.turn import Turn
from xscore.settings import JudgeSettings, Settings, StoreSettings

pytestmark = [pytest.mark.verify, pytest.mark.timeout(600)]
TASK = Turn(task="Add up the prices.")


def tree(place: Path) -> Path:
    """Write two functions."""
    place.mkdir()
    (place / "cart.py").write_text(
        "def total(lines):\n    return sum(lines)\n\n\ndef empty(lines):\n    return not lines\n"
    )
    return place


async def test_a_model_without_a_decision_head_judges_by_yes_or_no(tmp_path: Path) -> None:
    """Every memory has a probability; the server ends with the turn, and a repeat starts none."""
    settings = Settings(
        judge=JudgeSettings(model=f"llama:{model_file()}", timeout_s=60),
        store=StoreSettings(user_data_dir=tmp_path / "user"),
    )
    async with Pipeline.open(tree(tmp_path / "repo"), settings) as pipeline:
        first = await pipeline.ask(TASK, answer=False)
    assert first.coverage.judged == first.coverage.candidates >= 2
    assert all(0 < memory.raw_score < 1 for memory in (*first.selected, *first.near_misses))
    assert not servers()
    async with Pipeline.open(tmp_path / "repo", settings) as pipeline:
        repeated = await pipeline.ask(TASK, answer=False)
    assert repeated.coverage.cached == first.coverage.candidates


def test_a_killed_turn_leaves_no_server(tmp_path: Path) -> None:
    """The server watches a pipe to its parent, which closes however the parent ends."""
    tree(tmp_path / "repo")
    process = begin(
        "ask", TASK.task, "--judge", f"llama:{model_file()}", "-y", cwd=tmp_path / "repo"
    )
    wait_until(servers)
    process.kill()
    process.communicate()
    wait_until(lambda: not servers())


def servers() -> list[int]:
    """Return the processes that serve a model."""
    pids = []
    for process in psutil.process_iter(["pid", "cmdline"]):
        if any(
            "xllamacpp.Server" in part and "sys.stdin.read" in part
            for part in process.info["cmdline"] or ()
        ):
            pids.append(process.info["pid"])
    return pids


def test_the_share_of_yes_is_taken_among_yes_and_no() -> None:
    """Other tokens do not count, spellings of a word do; a reply without either word has no
    score."""
    words = [("Yes", -1.0), (" yes", -1.0), ("NO", -1.0), ("Maybe", -0.1)]
    top = [{"token": token, "logprob": chance} for token, chance in words]
    reply = {"choices": [{"logprobs": {"content": [{"top_logprobs": top}]}}]}
    assert yes_share(reply) == pytest.approx(2 / 3)
    assert yes_share({"choices": []}) is None
    assert (
        yes_share({"choices": [{"logprobs": {"content": [{"top_logprobs": top[3:]}]}}]}) is None
    )

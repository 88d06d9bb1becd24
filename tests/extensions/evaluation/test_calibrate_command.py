"""`eval calibrate` as a user runs it: measured, stored, used, checked, reset, and refused."""

import json
import re
import shutil
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from tests.cli.conftest import Run, xscore
from tests.conftest import MakeRepo, git, store_dir
from tests.extensions.evaluation.history_repo import write_history
from tests.servers.decision_server import DecisionServer
from tests.servers.openai_server import OpenAIServer
from xscore.providers.scripted import ShownMemory

__all__ = ["xscore"]

WIDGETS = 40


def source_of(first: int) -> str:
    """Four functions of a file."""
    functions = []
    for number in range(first, first + 4):
        functions.append(
            f'def widget_{number}(size):\n    """Cut it."""\n    return size + {number}\n'
        )
    return "\n\n".join(functions)


FILES = {f"shop/part_{first}.py": source_of(first) for first in range(0, WIDGETS, 4)}


def noise(*parts: str) -> int:
    """A number from 0 to 49 that looks drawn."""
    return int(sha256("".join(parts).encode()).hexdigest()[:6], 16) % 50


def scored(memory: ShownMemory, turn: str) -> int:
    """What the task names scores 45 to 94, all others 0 to 49."""
    is_needed = memory.entity and f"`{memory.entity}`" in turn
    return noise(memory.entity, turn) + (45 if is_needed else 0)


def write_cases(folder: Path, count: int, *, together: int = 1) -> Path:
    """Write tasks that need so many functions in all, and each `together` of them."""
    lines = []
    for first in range(0, count, together):
        numbers = range(first, min(first + together, count))
        gold = [
            {"path": f"shop/part_{number // 4 * 4}.py", "name": f"widget_{number}"}
            for number in numbers
        ]
        names = ", ".join(f"`widget_{number}`" for number in numbers)
        lines.append({"id": f"c{first}", "task": f"Sand the edge of {names}", "gold": gold})
    file = folder / "cases.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


@pytest.fixture
def repo(make_repo: MakeRepo) -> Path:
    """A repository of forty functions."""
    return make_repo(FILES)


@pytest.fixture
def host(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    """A host that scores with noise, as the environment names it."""
    server.score = scored
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("XSCORE_JUDGE_MODEL", "openai:judge-2")
    monkeypatch.setenv("XSCORE_JUDGE_PROBE", "false")
    monkeypatch.setenv("XSCORE_JUDGE_PACK_SIZE", "60")
    yield server


def test_the_cut_comes_from_past_tasks(
    xscore: Run, repo: Path, host: OpenAIServer, tmp_path: Path
) -> None:
    """Measured once, the next turn keeps what reaches the cut; status and explain say what it
    means; a threshold of one's own comes first; reset forgets."""
    cases = write_cases(tmp_path, 36)
    done = xscore("eval", "calibrate", str(cases), "--recall", "0.8", "--json", cwd=repo)
    assert done.returncode == 0, done.stderr
    calibration = json.loads(done.stdout)["calibration"]
    cut = calibration["cuts"]["function"]
    assert calibration["cases"] == 36 and calibration["positives"] == 36
    assert 0.4 < cut < 0.7 and calibration["recall"] >= 0.6
    assert calibration["error"] <= 0.05
    assert calibration["answered_as"] == ["judge-2"]
    question = ("context", "Sand the edge of `widget_3`", "--json")
    turn = json.loads(xscore(*question, cwd=repo).stdout)
    assert turn["threshold"] == 0.7, "no past commit needed anything but code"
    assert turn["thresholds"]["function"] == pytest.approx(cut)
    stricter = json.loads(xscore(*question, "--threshold", "0.9", cwd=repo).stdout)
    assert stricter["threshold"] == 0.9
    status = xscore("status", cwd=repo).stdout
    assert f"{cut:.2f} ≈ recall" in status and "on 36 past commits" in status
    why = json.loads(
        xscore("explain", "widget_3", "--turn", turn["turn_id"], "--json", cwd=repo).stdout
    )
    assert "were needed" in why["calibrated"]
    requests = host.counts.judging_requests
    repeated = json.loads(
        xscore("eval", "calibrate", str(cases), "--recall", "0.8", "--json", cwd=repo).stdout
    )
    assert repeated["calibration"]["cuts"] == calibration["cuts"]
    assert host.counts.judging_requests == requests, "what was judged is not paid again"
    assert (
        json.loads(xscore("eval", "calibrate", "--reset", "--json", cwd=repo).stdout)["removed"]
        == 1
    )
    assert json.loads(xscore(*question, cwd=repo).stdout)["threshold"] == 0.7


def test_too_few_needed_memories_are_refused(
    xscore: Run, repo: Path, host: OpenAIServer, tmp_path: Path
) -> None:
    """With the number and what to do; nothing is sent or stored."""
    done = xscore("eval", "calibrate", str(write_cases(tmp_path, 29)), cwd=repo)
    assert done.returncode == 2 and "29" in done.stderr and "eval mine" in done.stderr
    assert not host.counts.requests
    assert "≈ recall" not in xscore("status", cwd=repo).stdout


def test_the_lexical_judge_is_refused(xscore: Run, repo: Path, tmp_path: Path) -> None:
    """Its cut was fitted once for all repositories."""
    done = xscore(
        "eval", "calibrate", str(write_cases(tmp_path, 36)), "--judge", "lexical", cwd=repo
    )
    assert done.returncode == 2 and "lexical" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [("nowhere.jsonl",), ("--check", "--reset"), ("--recall", "0"), ("--recall", "1.5")],
)
def test_what_cannot_be_measured_is_refused(
    xscore: Run, repo: Path, host: OpenAIServer, arguments: tuple[str, ...]
) -> None:
    """Before anything is sent."""
    assert xscore("eval", "calibrate", *arguments, cwd=repo).returncode == 2
    assert host.counts.requests == 0


def test_a_check_fails_where_another_model_answers(
    xscore: Run, repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An alias that moved on is a gate (5); the same model passes; without a calibration the way to
    one is named."""
    with DecisionServer(score=scored, model="jev-1") as host:
        monkeypatch.setenv("DECISIONS_BASE_URL", host.url)
        monkeypatch.setenv("XSCORE_JUDGE_MODEL", "decisions:latest")
        never = xscore("eval", "calibrate", "--check", cwd=repo)
        assert never.returncode == 2 and "xscore eval calibrate" in never.stderr
        cases = write_cases(tmp_path, 36, together=4)
        measured = xscore("eval", "calibrate", str(cases), "--json", cwd=repo)
        assert measured.returncode == 0, measured.stderr
        assert json.loads(measured.stdout)["calibration"]["identity"]["model"] == "jev-1"
        assert xscore("eval", "calibrate", "--check", cwd=repo).returncode == 0
        host.model = "jev-2"
        moved = xscore("eval", "calibrate", "--check", cwd=repo)
        assert moved.returncode == 5 and "jev-2" in moved.stderr and "jev-1" in moved.stderr


def test_a_calibration_that_came_with_a_clone_does_not_count(
    xscore: Run, repo: Path, host: OpenAIServer, tmp_path: Path
) -> None:
    """Neither a store put next to the clone's commits, nor one put into its git folder."""
    cases = write_cases(tmp_path, 36, together=4)
    assert xscore("eval", "calibrate", str(cases), "--recall", "0.8", cwd=repo).returncode == 0
    git(tmp_path, "clone", "-q", str(repo), "clone")
    clone = tmp_path / "clone"
    shutil.copytree(store_dir(repo), clone / ".xscore")
    question = ("context", "Sand the edge of `widget_3`", "--json")
    turn = json.loads(xscore(*question, cwd=clone).stdout)
    assert turn["threshold"] == 0.7
    shutil.rmtree(store_dir(clone))
    shutil.copytree(store_dir(repo), store_dir(clone))
    assert xscore(*question, cwd=clone).returncode == 6


def test_cases_come_from_the_history_where_none_are_named(
    xscore: Run, host: OpenAIServer, tmp_path: Path
) -> None:
    """Each commit is asked at its parent; the calibration is that of this repository's judge."""
    commits: list[tuple[str, dict[str, str | None]]] = [("Begin the shop", dict(FILES))]
    for path, source in list(FILES.items())[:8]:
        numbers = re.findall(r"widget_(\d+)", source)
        named = " and ".join(f"number {number} " for number in numbers)
        message = f"Cut the widgets {named}a little longer, since their edges are sanded later"
        commits.append((message, {path: re.sub(r"(size \+ \d+)", r"\1 + 1", source)}))
    repo = write_history(tmp_path / "repo", commits)
    host.score = lambda memory, turn: (
        noise(memory.entity, turn)
        + 45 * (f"number {memory.entity.removeprefix('widget_')} " in turn)
    )
    done = xscore("eval", "calibrate", "--recall", "0.8", "--json", cwd=repo)
    assert done.returncode == 0, done.stderr
    calibration = json.loads(done.stdout)["calibration"]
    assert (calibration["cases"], calibration["positives"]) == (8, 32)
    turn = json.loads(xscore("context", "Sand the edge", "--json", cwd=repo).stdout)
    assert turn["thresholds"]["function"] == pytest.approx(calibration["cuts"]["function"])

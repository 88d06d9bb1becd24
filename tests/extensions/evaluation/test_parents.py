"""Cases at their parents: what can be found there, what is left alone, what a killed run costs."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.conftest import git
from tests.extensions.evaluation.history_repo import write_history
from tests.extensions.evaluation.shop_run import Counts, priced, rows
from tests.pipeline.conftest import settings_for
from tests.servers.faults import Fault
from tests.servers.openai_server import OpenAIServer
from xscore.extensions.evaluation.cases import CaseFile, EvalCase
from xscore.extensions.evaluation.metrics import EntityRef
from xscore.extensions.evaluation.mining import mine_cases
from xscore.extensions.evaluation.quality import Evaluation
from xscore.extensions.evaluation.result_lines import CaseRecord, ResultFile
from xscore.extensions.evaluation.run import run_evaluation
from xscore.extensions.evaluation.trees import FOLDER
from xscore.pipeline.build import Pipeline
from xscore.platform.errors import UsageError
from xscore.settings import IndexSettings, JudgeSettings, Settings


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """A repository with two commits that are cases."""
    return write_history(tmp_path / "repo")


def cases_of(history: Path) -> CaseFile:
    """Mine them."""
    return CaseFile(mine_cases(history, IndexSettings(), limit=9).cases, "d")


def by_words(user_dir: Path) -> Settings:
    """Settings without a key."""
    settings = Settings(judge=JudgeSettings(model="lexical"))
    return replace(settings, store=replace(settings.store, user_data_dir=user_dir))


async def run_cases(
    root: Path,
    settings: Settings,
    cases: CaseFile,
    output: Path | None = None,
    clones: Path | None = None,
) -> Evaluation:
    """Run in a new pipeline."""
    async with Pipeline.open(root, settings) as pipeline:
        return await run_evaluation(pipeline.parts, cases, output=output, clones=clones)


def written(file: Path) -> Mapping[str, CaseRecord]:
    """Return what a run wrote, by case."""
    (line, *_) = file.read_bytes().split(b"\n")
    run = line.split(b'"run":"')[1].split(b'"')[0].decode()
    return {record.id: record for record in ResultFile(file, run).read()}


async def test_a_case_is_asked_of_the_files_before_it(
    history: Path, tmp_path: Path, user_dir: Path
) -> None:
    """What a commit added is no candidate for it; what it changed is found as it was."""
    cases = cases_of(history)
    output = tmp_path / "out.jsonl"
    evaluation = await run_cases(history, by_words(user_dir), cases, output)
    assert (evaluation.asked, evaluation.of, evaluation.left_out) == (2, 2, {})
    grown, fixed = (written(output)[case.id] for case in cases.cases)
    assert "Cart.clear" not in {line.name for line in grown.ranked}
    assert {line.name for line in fixed.ranked if line.is_gold} == {"discount"}
    assert (
        evaluation.summary.cases == 2 and evaluation.summary.figures["recall_at_20"].mean == 1.0
    )
    assert [result.id for result in evaluation.results] == [case.id for case in cases.cases]


async def test_nothing_later_can_be_found(
    history: Path, tmp_path: Path, user_dir: Path
) -> None:
    """No exchange, no stated memory, no commit from the case on: git does not lead to it there."""
    settings = by_words(user_dir)
    async with Pipeline.open(history, settings) as pipeline:
        fact = "The discount is rounded to whole cents, because fractions remain."
        stated_id = await pipeline.remember(fact)
    cases = cases_of(history)
    output = tmp_path / "out.jsonl"
    await run_cases(history, settings, cases, output)
    for record in written(output).values():
        assert stated_id not in {line.id for line in record.ranked}
        assert not any(record.commit[:7] in line.name for line in record.ranked)
    (tree,) = user_dir.glob(f"{FOLDER}/*/tree")
    newest, *_ = cases.cases
    reachable = git(tree, "log", "--format=%H").split()
    assert reachable[0] == newest.parent and newest.commit not in reachable


async def test_a_run_from_the_beginning_forgets_what_is_later(
    history: Path, user_dir: Path
) -> None:
    """The store stays between runs: what a later parent said is not there for an earlier case."""
    cases = cases_of(history)
    (grown, fixed) = cases.cases
    await run_cases(history, by_words(user_dir), CaseFile((grown,), "d"))
    await run_cases(history, by_words(user_dir), CaseFile((fixed,), "d"))
    (tree,) = user_dir.glob(f"{FOLDER}/*/tree")
    async with Pipeline.open(tree, by_words(user_dir)) as pipeline:
        texts = rows(pipeline, "SELECT title || coalesce(text, '') FROM memory WHERE path = ''")
        entities = rows(pipeline, "SELECT entity FROM memory WHERE path = 'shop/prices.py'")
    assert not any("whole cents" in str(text) or "basket" in str(text) for (text,) in texts)
    assert ("discount",) in entities and ("Cart.clear",) not in entities


async def test_the_users_repository_is_left_alone(
    history: Path, tmp_path: Path, user_dir: Path
) -> None:
    """Index, branches, worktrees and edits are the same bytes; no hook and no filter runs."""
    trap = tmp_path / "trap"
    for name in ("post-checkout", "post-index-change"):
        hook = history / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {trap}\n")
        hook.chmod(0o755)
    git(history, "config", "filter.evil.smudge", f"touch {trap}; cat")
    (history / ".git" / "info").mkdir(exist_ok=True)
    (history / ".git" / "info" / "attributes").write_text("*.py filter=evil\n")
    (history / "shop" / "prices.py").write_text("edited = True\n")
    git(history, "add", "-A")
    (history / "new.py").write_text("untracked = True\n")
    cases = cases_of(history)
    trap.unlink(missing_ok=True)  # `git add` ran the hook
    before = seen_of(history)
    await run_cases(history, by_words(user_dir), cases)
    assert seen_of(history) == before and not trap.exists()


def seen_of(root: Path) -> dict[str, object]:
    """Return what a run must not change."""
    files = [path for path in root.rglob("*") if path.is_file() and "xscore" not in path.parts]
    state: dict[str, object] = {str(path): path.read_bytes() for path in files}
    return state | {"worktrees": git(root, "worktree", "list")}


async def test_the_files_go_and_the_judgments_stay(history: Path, user_dir: Path) -> None:
    """After a run only the private repository and its store are left."""
    cases = cases_of(history)
    await run_cases(history, by_words(user_dir), cases)
    (tree,) = user_dir.glob(f"{FOLDER}/*/tree")
    assert [entry.name for entry in tree.iterdir()] == [".git"]
    assert (tree / ".git" / "xscore" / "memory.db").exists()
    # What a killed run has left goes when the next begins.
    (tree / "left.py").write_text("x = 1\n")
    (tree / ".git" / "index.lock").touch()
    evaluation = await run_cases(history, by_words(user_dir), cases)
    assert evaluation.asked == 2 and [entry.name for entry in tree.iterdir()] == [".git"]


async def test_a_second_run_pays_nothing(
    history: Path, tmp_path: Path, server: OpenAIServer
) -> None:
    """Judgments are kept apart from the user's store; with a file the cases are not even asked."""
    settings = settings_for(server)
    cases = cases_of(history)
    first = await run_cases(history, settings, cases)
    assert server.counts.judging_requests and first.calls == server.counts.judging_requests
    server.reset()
    repeated = await run_cases(history, settings, cases, tmp_path / "out.jsonl")
    assert (repeated.calls, repeated.coverage.cached) == (0, first.coverage.judged)
    assert repeated.found == first.found and server.counts.judging_requests == 0
    resumed = await run_cases(history, settings, cases, tmp_path / "out.jsonl")
    assert resumed.resumed == 2 and resumed.found == first.found
    assert resumed.summary == repeated.summary and resumed.reliability == first.reliability
    async with Pipeline.open(history, settings) as pipeline:
        assert rows(pipeline, "SELECT count(*) FROM turn") == [(0,)]


async def test_a_run_cut_short_goes_on(history: Path, tmp_path: Path, user_dir: Path) -> None:
    """The line that was being written is dropped; the cases before it are not asked again."""
    cases = cases_of(history)
    output = tmp_path / "out.jsonl"
    await run_cases(history, by_words(user_dir), cases, output)
    first, second = output.read_bytes().splitlines(keepends=True)
    output.write_bytes(first + second[: len(second) // 2])
    evaluation = await run_cases(history, by_words(user_dir), cases, output)
    assert (evaluation.resumed, evaluation.asked) == (1, 2)
    assert len(output.read_bytes().splitlines()) == 2


async def test_a_file_of_another_run_is_refused(
    history: Path, tmp_path: Path, user_dir: Path
) -> None:
    """Other settings rank otherwise: nothing is mixed, nothing overwritten."""
    cases = cases_of(history)
    output = tmp_path / "out.jsonl"
    settings = by_words(user_dir)
    await run_cases(history, settings, cases, output)
    before = output.read_bytes()
    changed_settings = replace(settings, selection=replace(settings.selection, top_k=3))
    with pytest.raises(UsageError, match="another run"):
        await run_cases(history, changed_settings, cases, output)
    assert output.read_bytes() == before
    output.write_text("no json\n")
    with pytest.raises(UsageError, match=r"out\.jsonl:1"):
        await run_cases(history, settings, cases, output)


async def test_what_is_not_here_is_counted(
    history: Path, tmp_path: Path, user_dir: Path
) -> None:
    """A commit that a shallow clone lacks, a clone that is missing, a path that leads out."""
    cases = cases_of(history)
    git(tmp_path, "clone", "-q", "--depth", "2", f"file://{history}", "clones/shallow")
    elsewhere = [replace(case, repository="owner/shallow") for case in cases.cases]
    elsewhere.append(replace(cases.cases[0], id="missing", repository="owner/none"))
    elsewhere.append(replace(cases.cases[0], id="out", repository="../repo"))
    file = CaseFile(tuple(elsewhere), "d")
    evaluation = await run_cases(history, by_words(user_dir), file, clones=tmp_path / "clones")
    assert evaluation.asked == 1 and sum(evaluation.left_out.values()) == 3
    assert evaluation.exit_code == 1 and evaluation.id == ""
    none = await run_cases(history, by_words(user_dir), CaseFile(tuple(elsewhere[2:]), "d"))
    assert (none.asked, none.found, none.summary.figures) == (0, None, {})


async def test_a_folder_without_git_has_no_past(
    history: Path, tmp_path: Path, user_dir: Path
) -> None:
    """Cases with a parent are counted as not asked there; those without one are asked."""
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "prices.py").write_text("def discount():\n    return 1\n")
    (mined, _) = cases_of(history).cases
    question = EvalCase(id="q", task="What is the discount?", gold=(EntityRef("prices.py"),))
    evaluation = await run_cases(plain, by_words(user_dir), CaseFile((mined, question), "d"))
    assert (evaluation.asked, sum(evaluation.left_out.values())) == (1, 1)
    assert evaluation.summary.figures["recall_at_5"].mean == 1.0


async def test_gold_that_is_not_in_the_tree_is_a_miss(history: Path, user_dir: Path) -> None:
    """It is counted and named, and no figure divides by it."""
    case = replace(cases_of(history).cases[0], gold=cases_of(history).cases[0].gold[:1])
    gone = replace(case.gold[0], path="shop/gone.py")
    file = CaseFile((replace(case, gold=(*case.gold, gone)),), "d")
    evaluation = await run_cases(history, by_words(user_dir), file)
    assert any("shop/gone.py" in warning for warning in evaluation.warnings)
    assert evaluation.summary.figures["recall_at_20"].mean == 0.5


async def test_the_estimate_comes_first(history: Path, server: OpenAIServer) -> None:
    """What the cases will take is said before anything is sent; if declined, nothing is."""
    settings = settings_for(server)
    budget = replace(settings.budget, confirm_usd=Decimal(-1))
    settings = replace(settings, budget=budget)
    declining = Counts(agrees=False)
    async with Pipeline.open(history, settings, observer=declining) as pipeline:
        with pytest.raises(UsageError, match="declined"):
            await run_evaluation(pipeline.parts, cases_of(history))
    (estimate,) = declining.estimates
    assert estimate.judge.to_judge and server.counts.judging_requests == 0
    evaluation = await run_cases(history, settings, cases_of(history))
    assert estimate.judge.to_judge == evaluation.coverage.judged


async def test_the_caps_of_the_repository_hold(history: Path, server: OpenAIServer) -> None:
    """What a run at parents costs is counted in the user's store; a full cap ends the run."""
    settings = settings_for(server)
    budget = replace(settings.budget, max_usd=Decimal(5), max_usd_repository=Decimal("0.02"))
    settings = replace(settings, budget=budget)
    cases = cases_of(history)
    async with Pipeline.open(history, settings) as pipeline:
        parts = priced(pipeline.parts, "0.01")
        evaluation = await run_evaluation(parts, cases)
        (spent,) = rows(pipeline, "SELECT spent FROM spending WHERE span = 'repository'")
        assert evaluation.cost_usd is not None and spent[0] == int(evaluation.cost_usd * 10**12)
        full = await run_evaluation(parts, replace(cases, cases=changed(cases.cases)))
    assert full.ended == "budget" and full.cost_usd is not None
    assert evaluation.cost_usd + full.cost_usd <= Decimal("0.02")


def changed(cases: tuple[EvalCase, ...]) -> tuple[EvalCase, ...]:
    """The same with other words, so that nothing of them is cached."""
    return tuple(replace(case, task=f"{case.task} (again)") for case in cases)


async def test_a_judge_that_answers_nothing(
    history: Path, tmp_path: Path, server: OpenAIServer
) -> None:
    """No figure is made of it, nothing is written, and the next run asks again."""
    server.misbehave(Fault.MALFORMED_CONTENT, times=10_000)
    output = tmp_path / "out.jsonl"
    evaluation = await run_cases(history, settings_for(server), cases_of(history), output)
    assert evaluation.summary.figures == {} and evaluation.exit_code != 0
    assert not output.exists()


def lines_of(file: Path) -> int:
    """Count the whole lines of a file; 0 if there is none yet."""
    return file.read_bytes().count(b"\n") if file.exists() else 0


@pytest.mark.verify
def test_a_killed_run_goes_on(history: Path, tmp_path: Path) -> None:
    """SIGKILL in the middle: the next run finds lines and judgments, and no lock in its way."""
    output, cases = tmp_path / "out.jsonl", tmp_path / "cases.jsonl"
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "PYTHONPATH": str(Path.cwd()),
    }
    command = [sys.executable, "-m", "xscore", "eval"]
    mined = [*command, "mine", "--out", str(cases)]
    subprocess.run(mined, cwd=history, env=environment, check=True)
    run = [*command, "run", str(cases), "--judge", "lexical", "--out", str(output)]
    with subprocess.Popen(run, cwd=history, env=environment) as killed:
        while not lines_of(output) and killed.poll() is None:
            time.sleep(0.01)
        killed.send_signal(signal.SIGKILL)
    assert lines_of(output) >= 1
    done = subprocess.run(run, cwd=history, env=environment, check=False, capture_output=True)
    assert done.returncode == 0 and lines_of(output) == 2

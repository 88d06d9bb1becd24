"""The action's store is restored from the cache and from nowhere else."""

from pathlib import Path

import pytest

from tests.ci.fake_runner import Runner
from tests.ci.jobs import EVAL, FORK, edit, judged_on_main, report_of, without_key
from tests.servers.openai_server import OpenAIServer


@pytest.mark.verify
def test_the_next_run_pays_for_what_changed(runner: Runner, host: OpenAIServer) -> None:
    """The store is restored from the cache: the same questions cost nothing, and no new cache is saved."""
    runner.use(EVAL)
    host.reset()
    again = runner.use(EVAL)
    assert again.code == 0, again.log
    assert host.counts.requests == 0
    assert len(runner.caches) == 1
    edit(runner)
    third = runner.use(EVAL)
    assert third.code == 0, third.log
    assert host.counts.requests > 0
    assert report_of(third)["coverage"]["cached"] > 0
    assert len(runner.caches) == 2


@pytest.mark.verify
def test_without_a_key_it_replays(runner: Runner, host: OpenAIServer) -> None:
    """A fork uses what the base branch judged, sends and saves nothing, and its log says so."""
    judged_on_main(runner)
    edit(runner)
    host.reset()
    without_key(runner)
    ran = runner.use({**EVAL, "comment": "true"}, event_name="pull_request", event=FORK)
    assert ran.code == 0, ran.log
    assert host.counts.requests == 0
    assert len(runner.caches) == 1
    assert ran.steps["command"]["outputs"]["exit-code"] == "1"
    assert ran.titles("notice") == ["xscore: no key"]
    assert ran.titles("error") == []
    coverage = report_of(ran)["coverage"]
    assert coverage["cached"] > 0 and coverage["unjudged"] > 0


@pytest.mark.verify
def test_a_store_of_no_use_is_put_away(runner: Runner, host: OpenAIServer) -> None:
    """A cache without a store is reported, and the run starts with an empty one."""
    runner.use(EVAL)
    (next(iter(runner.caches.values())) / "memory.db").write_bytes(b"no database")
    host.reset()
    ran = runner.use(EVAL)
    assert ran.code == 0, ran.log
    assert host.counts.requests > 0
    assert "cannot be used" in ran.annotations[0].message


@pytest.mark.verify
def test_two_uses_in_one_job_share_the_store(runner: Runner, host: OpenAIServer) -> None:
    """The second use finds what the first paid for, is not overwritten by the cache, and has files of its own."""
    first = runner.use(EVAL)
    told = {name: Path(first.outputs[name]).read_bytes() for name in ("report", "page", "stdout")}
    host.reset()
    ran = runner.use(EVAL, goes_on=True)
    assert ran.code == 0, ran.log
    assert host.counts.requests == 0
    assert "restore" not in ran.steps
    assert {name: Path(first.outputs[name]).read_bytes() for name in told} == told
    assert {first.outputs[name] for name in told}.isdisjoint(ran.outputs[name] for name in told)

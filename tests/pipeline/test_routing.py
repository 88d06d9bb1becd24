"""A turn's plan: kind of task, ceilings of the layers; it affects the bundle, never what is
judged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xscore.pipeline.task_type import classify_task, plan_turn
from xscore.records.memory import Layer
from xscore.records.turn import TaskType, Turn
from xscore.settings import BundleSettings, RoutingSettings, validate_group


@pytest.mark.parametrize(
    ("task", "kind"),
    [
        ("fix the login bug", TaskType.EDIT),
        ("Add a --json flag", TaskType.EDIT),
        ("why is a store refused?", TaskType.EXPLAIN),
        ("Where is a judgment written to the cache?", TaskType.EXPLAIN),
        ("refactor the cache so that fixes are easy", TaskType.REFACTOR),
        ("should we use redis here?", TaskType.DESIGN),
        ("propose an approach to rate limits", TaskType.DESIGN),
        ("compare redis with memcached", TaskType.RESEARCH),
        ("walk me through cli.py", TaskType.EXPLAIN),
        ("is there a library for toml?", TaskType.EXPLAIN),
        ("what happens when I update the cache?", TaskType.EXPLAIN),
        ("guide us through the cache", TaskType.EXPLAIN),
        ("list all functions that change the cache", TaskType.EXPLAIN),
        ("add a list of caches", TaskType.EDIT),
        ("Does the cache expire?", TaskType.EXPLAIN),
        ("add a page that shows which caches there are", TaskType.EDIT),
        ("frobnicate", TaskType.EDIT),
        ("", TaskType.EDIT),
    ],
)
def test_a_task_is_classified_by_its_first_telling_word(task: str, kind: TaskType) -> None:
    """H11: each of the five kinds; an edit by default."""
    assert classify_task(Turn(task=task))[0] is kind


def test_the_user_and_the_errors_know_better() -> None:
    """H11: `--task-type` overrides everything; errors given with the task make it an edit."""
    assert classify_task(Turn(task="fix it"), chosen_type="design") == (
        TaskType.DESIGN,
        "as you said",
    )
    assert classify_task(Turn(task="why?", errors="Traceback"))[0] is TaskType.EDIT


def test_an_edit_keeps_most_of_the_bundle_for_code() -> None:
    """K6: by default an edit gives code and documents at least 60 %."""
    plan = plan_turn(Turn(task="fix it"), routing=RoutingSettings(), bundle=BundleSettings())
    assert plan.task_type is TaskType.EDIT
    assert 1 - sum(plan.ceilings.values()) >= 0.6
    assert {Layer.GRAPH, Layer.VECTOR}.isdisjoint(plan.ceilings)


@given(st.tuples(*[st.floats(0, 1)] * 4), st.sampled_from(TaskType))
def test_ceilings_never_sum_to_more_than_the_bundle(
    shares: tuple[float, float, float, float], kind: TaskType
) -> None:
    """H17: with any settings, a plan's ceilings are shares of one bundle."""
    names = ("session", "project", "user", "governance")
    bundle = validate_group(BundleSettings, {"ceilings": dict(zip(names, shares, strict=True))})
    plan = plan_turn(
        Turn(task="x"), routing=RoutingSettings(task_type=kind.value), bundle=bundle
    )
    assert sum(plan.ceilings.values()) <= 1 + 1e-9

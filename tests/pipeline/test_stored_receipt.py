"""A receipt stored and read back gives the same page, and names what is missing."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests import receipts
from xscore.cli import answer_account, answer_text
from xscore.pipeline.json_form import receipt_to_store, to_json
from xscore.pipeline.stored_receipt import read_receipt
from xscore.platform.errors import StoreDamaged
from xscore.records.calls import RateLimits, Stage, Traffic, Usage
from xscore.records.judgment import Boost
from xscore.records.memory import Layer
from xscore.records.receipt import (
    Answer,
    Coverage,
    JudgeInfo,
    Latency,
    PrimaryInfo,
    Selected,
    StageUsage,
    UnjudgedAccount,
    UnjudgedSample,
)
from xscore.records.turn import BundlePlan, LayerReport, Routing, Scope, SessionInfo, TaskType

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
counts = st.integers(0, 10**9)
shares = st.integers(0, 10**6).map(lambda millionths: millionths / 10**6)
seconds = st.integers(0, 10**9).map(lambda thousandths: thousandths / 1_000)
dollars = st.none() | st.decimals(0, 10_000, places=9)
usages = st.builds(Usage, **dict.fromkeys(Usage.__struct_fields__, counts))
stages = st.builds(
    StageUsage,
    calls=counts,
    attempts=counts,
    usage=usages,
    cost_usd=dollars,
    estimated=st.booleans(),
)
boosts = st.builds(Boost, words, shares, words)
memories = st.builds(
    Selected,
    id=words,
    layer=st.sampled_from([str(layer) for layer in Layer]),
    kind=words,
    path=words,
    entity=words,
    start_line=counts,
    end_line=counts,
    language=words,
    raw_score=shares,
    boosts=st.lists(boosts, max_size=2).map(tuple),
    score=shares,
    reason=words,
    cached=st.booleans(),
    threshold=shares,
    below_threshold=st.booleans(),
    title=words,
    is_stale=st.booleans(),
)
several = st.lists(memories, max_size=3).map(tuple)
samples = st.lists(
    st.builds(UnjudgedSample, words, words, words, words, words), max_size=2
).map(tuple)
routings = st.builds(
    Routing,
    st.builds(
        BundlePlan,
        st.sampled_from(TaskType),
        words,
        st.just({Layer.SESSION: 0.4, Layer.USER: 0.1}),
    ),
    st.lists(
        st.builds(LayerReport, st.sampled_from(Layer), counts, seconds, st.booleans(), words),
        max_size=2,
    ).map(tuple),
)


judges = st.builds(
    JudgeInfo,
    provider=st.just("openai"),
    model=words,
    host=words,
    prompt_version=st.just("1"),
    order=st.just("memory_first"),
    by_model=st.booleans(),
    saw=st.just(("task",)),
)
SESSION = SessionInfo(
    thread="s_1", branch="main", resumed=True, last_task="before", last_updated=1.5
)


@st.composite
def answers(draw: st.DrawFn) -> Answer:
    """Any receipt."""
    judged, cached, carried, unjudged = (draw(st.integers(0, 5_000)) for _ in range(4))
    return Answer(
        turn_id=draw(words),
        task=draw(words),
        scope=Scope((draw(words),), (), (draw(words),)),
        threshold=draw(shares),
        top_k=draw(counts),
        judge=draw(judges),
        primary=draw(st.none() | st.just(PrimaryInfo("openai", "strong"))),
        partial=unjudged > 0,
        warnings=tuple(draw(st.lists(words, max_size=2))),
        coverage=Coverage(
            judged + cached + carried + unjudged, judged, cached, carried, unjudged
        ),
        unjudged=UnjudgedAccount({"deadline": unjudged} if unjudged else {}, draw(samples)),
        selected=draw(several),
        near_misses=draw(several),
        answer=draw(st.none() | words),
        bundle=None,
        usage={
            Stage.JUDGE: draw(stages),
            **draw(st.dictionaries(st.sampled_from(Stage), stages)),
        },
        latency=Latency(judge=draw(seconds), total=draw(seconds)),
        routing=draw(st.none() | routings),
        traffic=Traffic(
            limits=RateLimits(requests_per_minute=draw(st.none() | st.integers(1, 10**6)))
        ),
        session=draw(st.none() | st.just(SESSION)),
        checkpoint=draw(words),
        continues=draw(words),
        kept_out={"binary": draw(counts)},
    )


def page(answer: Answer) -> str:
    """Return everything that the page shows of a receipt."""
    parts = (
        answer_text.render_selection,
        answer_account.render_near_misses,
        answer_account.render_unjudged,
        answer_account.render_traffic,
        answer_account.render_routing,
        answer_account.render_cost_line,
    )
    return "\n".join(part(answer) for part in parts)


def stored(answer: Answer) -> dict[str, Any]:
    """Return the stored JSON of an answer."""
    body = json.loads(json.dumps(to_json(receipt_to_store(answer)), ensure_ascii=False))
    assert isinstance(body, dict)
    return body


def an_answer() -> Answer:
    """A plain receipt."""
    return replace(receipts.ANSWER, answer="so")


@settings(deadline=None)  # the first example builds the reader
@given(answers())
def test_a_stored_receipt_gives_the_same_page_and_the_same_json(answer: Answer) -> None:
    """Any receipt, stored and read back, shows the same page and renders as the same object."""
    kept = receipt_to_store(answer)
    back = read_receipt(json.dumps(stored(answer), ensure_ascii=False))
    assert back == kept
    assert page(back) == page(kept)
    assert json.loads(json.dumps(to_json(back))) == stored(answer)


def test_what_a_later_version_added_is_passed_over() -> None:
    """An unknown field does not change the record."""
    body = {**stored(an_answer()), "mood": {"of": "the judge"}}
    body["judge"]["temperature"] = 0.1
    body["usage"]["sing"] = body["usage"]["judge"]
    assert read_receipt(json.dumps(body)) == an_answer()


@pytest.mark.parametrize("name", ["coverage", "judge.model", "usage.judge"])
def test_what_every_receipt_has_is_missed_by_name(name: str) -> None:
    """An incomplete receipt is refused with what it lacks; nothing is invented."""
    body: dict[str, Any] = stored(an_answer())
    *path, last = name.split(".")
    inside = body
    for part in path:
        inside = inside[part]
    del inside[last]
    with pytest.raises(StoreDamaged, match=name) as caught:
        read_receipt(json.dumps(body))
    assert "--json" in caught.value.hint


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"threshold": "0.7"}, "threshold"),
        ({"warnings": "none"}, "warnings"),
        (
            {
                "coverage": {
                    "candidates": 3,
                    "judged": 1,
                    "cached": 1,
                    "carried": 0,
                    "unjudged": 0,
                }
            },
            "add up",
        ),
        ({"latency_s": {"total": True}}, "latency_s.total"),
        ({"usage": {"judge": {"calls": 1.5}}}, "usage.judge.calls"),
        (
            {"usage": {"judge": {}, "probe": {"output_tokens": "9"}}},
            "usage.probe.output_tokens",
        ),
        ({"usage": {"judge": None}}, "usage.judge"),
        ({"usage": {"judge": {}, "reason": []}}, "usage.reason"),
        ({"usage": []}, "usage.judge"),
    ],
)
def test_a_value_of_another_kind_is_damage(change: dict[str, Any], named: str) -> None:
    """Text for a number, or counts that do not add up, are refused by name."""
    with pytest.raises(StoreDamaged, match=named):
        read_receipt(json.dumps({**stored(an_answer()), **change}))


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '"x"', "null", "NaN", '{"threshold": NaN}', "[" * 100_000]
)
def test_what_is_no_object_is_torn(text: str) -> None:
    """Truncated JSON, a list, NaN: one clear error."""
    with pytest.raises(StoreDamaged, match="damaged"):
        read_receipt(text)


def test_an_erased_answer_is_not_an_answer_that_never_was() -> None:
    """Erasing leaves an empty text; a turn without an answer has none."""
    assert read_receipt(json.dumps({**stored(an_answer()), "answer": ""})).answer == ""
    assert read_receipt(json.dumps(stored(replace(an_answer(), answer=None)))).answer is None

"""A receipt as a page for people."""

from decimal import Decimal
from typing import Any

import click
import pytest
from msgspec.structs import replace
from syrupy.assertion import SnapshotAssertion

from tests import receipts
from xscore.cli import answer_text
from xscore.records import (
    Boost,
    ConcurrencyStep,
    Coverage,
    Latency,
    RateLimits,
    StageUsage,
    Traffic,
    UnjudgedAccount,
    UnjudgedSample,
    Usage,
)

WRITE = replace(
    receipts.CHOSEN,
    kind="method",
    path="xscore/cache/judgments.py",
    entity="Judgments.write",
    start_line=41,
    end_line=77,
    raw_score=0.83,
    boosts=(Boost("dependency", 0.10, "called by JudgmentWriter.write"),),
    score=0.93,
    reason="writes a judgment in one transaction",
)
MISS = replace(WRITE, id="m_2", entity="Judgments.known", raw_score=0.64, boosts=(), score=0.64, reason="")
ANSWER = replace(
    receipts.ANSWER,
    task="where is a judgment written?",
    coverage=Coverage(812, 41, 771, 0, 0),
    selected=(WRITE,),
    near_misses=(MISS,),
    bundle="",
    judge_usage=StageUsage(
        calls=41,
        attempts=42,
        usage=Usage(input_tokens=98_000, cached_input_tokens=61_000, output_tokens=4_000),
        cost_usd=Decimal("0.0114"),
    ),
    latency=Latency(total=3.21),
)


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """No colours."""
    monkeypatch.setenv("NO_COLOR", "1")


def test_page(snapshot: SnapshotAssertion) -> None:
    """Score, place, name, reason and boosts of each; what came close; one cost line."""
    parts = [
        answer_text.render_selection(ANSWER),
        answer_text.render_near_misses(ANSWER),
        answer_text.render_cost_line(ANSWER),
    ]
    assert "\n".join(parts) == snapshot


def test_unpriced_is_not_free() -> None:
    """A call without a known price makes the turn unpriced; the lexical judge alone is $0 and says what it is."""
    unpriced = replace(ANSWER, judge_usage=replace(ANSWER.judge_usage, cost_usd=None))
    assert "unpriced" in answer_text.render_cost_line(unpriced) and "$" not in answer_text.render_cost_line(unpriced)
    lexical = replace(ANSWER, judge=replace(ANSWER.judge, is_model=False), judge_usage=StageUsage())
    assert "no model judged · $0 · 3.2 s" in answer_text.render_cost_line(lexical)


def line_of(**usage: Any) -> str:
    """Return the cost line of a turn whose judging is changed so."""
    return click.unstyle(
        answer_text.render_cost_line(replace(ANSWER, judge_usage=replace(ANSWER.judge_usage, **usage)))
    )


def test_the_line_of_a_turn_names_tokens_by_kind() -> None:
    """Input, of it cached and written; output, of it reasoning; a kind without tokens is not named."""
    used = Usage(
        input_tokens=98_000,
        cached_input_tokens=61_000,
        cache_write_tokens=20_000,
        cache_write_1h_tokens=20_000,
        output_tokens=4_000,
        reasoning_tokens=1_200,
    )
    assert line_of(usage=used) == (
        "kept 1 of 812 · 41 calls · 771 cached · 98k in (61k prefix-cached, 20k written) / 4k out (1.2k reasoning)"
        " · $0.011 · 3.2 s · turn t_1"
    )
    assert "· 5 in / 3 out · $0.011 ·" in line_of(usage=Usage(input_tokens=5, output_tokens=3))


def test_only_what_no_host_counted_is_marked_as_an_estimate() -> None:
    """The dollars of counted tokens have no `~`; one call that may have been charged, or was not counted, gives it."""
    assert " · $0.011 · " in line_of()
    assert " · ~$0.011 · " in line_of(estimated=True)
    probe = StageUsage(calls=1, attempts=1, cost_usd=Decimal("0.001"), estimated=True)
    assert "~$0.012" in answer_text.render_cost_line(replace(ANSWER, probe_usage=probe))
    assert " · $0 · " in line_of(cost_usd=Decimal(0), estimated=True)


def test_nothing_chosen() -> None:
    """Nothing above the threshold is said plainly, with the nearest and with ways on."""
    page = answer_text.render_selection(replace(ANSWER, selected=()))
    assert page.startswith("Nothing was chosen: none of 812 judged memories reached 0.7.")
    assert "Judgments.known" in page and "--threshold" in page and "--file" in page


def test_nothing_judged() -> None:
    """Nothing judged, and nothing there to judge, are said differently from nothing chosen."""
    stopped = replace(ANSWER, selected=(), near_misses=(), coverage=Coverage(812, 0, 0, 0, 812))
    assert answer_text.render_selection(stopped) == "Nothing was chosen: nothing was judged."
    empty = replace(stopped, coverage=Coverage(0, 0, 0, 0, 0))
    assert "no memories here" in answer_text.render_selection(empty)


def test_unjudged_are_counted_by_cause() -> None:
    """What has no score is counted by cause, with a way on."""
    partial = replace(
        ANSWER, coverage=Coverage(812, 31, 771, 0, 10), unjudged=UnjudgedAccount({"refused": 2, "budget": 8}, ())
    )
    assert "10 candidates of 812 unjudged (8 budget, 2 refused)" in answer_text.render_unjudged(partial)
    assert f"`xscore continue {partial.turn_id}` judges the rest" in answer_text.render_unjudged(partial)
    assert answer_text.render_unjudged(ANSWER) == ""


def test_what_went_wrong_is_said_once() -> None:
    """A refused key or a host that is not there is named in words, not only counted, and safe for a terminal."""
    sample = tuple(
        UnjudgedSample(f"m_{n}", "a.py", "f", "provider", "host:1 answered 401:\x1b[1m no") for n in range(9)
    )
    page = answer_text.render_unjudged(
        replace(ANSWER, coverage=Coverage(9, 0, 0, 0, 9), unjudged=UnjudgedAccount({"provider": 9}, sample))
    )
    assert page.count("host:1 answered 401") == 1
    assert "\x1b" not in page


def test_beyond_k_is_another_hint() -> None:
    """A near miss that reached the threshold asks for a larger K, not for a lower threshold."""
    beyond = replace(ANSWER, near_misses=(replace(MISS, score=0.8),))
    assert "raise --top-k" in answer_text.render_near_misses(beyond)


def test_traffic_is_told_in_lines() -> None:
    """What the host allows, and the history of the calls in flight; nothing where no call was made."""
    steps = (
        ConcurrencyStep(0.0, 16, "start"),
        ConcurrencyStep(1.24, 32, "doubled"),
        ConcurrencyStep(3.1, 25, "rate_limited"),
    )
    answer = replace(ANSWER, traffic=Traffic(RateLimits(500, None, 200_000), steps))
    assert click.unstyle(answer_text.render_traffic(answer)) == (
        "h allows 500 requests, 200,000 input tokens a minute\n"
        "calls in flight: 16 from 0.0 s (start), 32 from 1.2 s (doubled), 25 from 3.1 s (rate limited)"
    )
    assert answer_text.render_traffic(ANSWER) == ""


def test_a_probe_is_in_the_sum() -> None:
    """What it took to find out about the host, and to embed, is in the calls and dollars of the turn."""
    probe = StageUsage(calls=1, attempts=1, usage=Usage(input_tokens=600, output_tokens=20), cost_usd=Decimal("0.5"))
    with_probe = click.unstyle(answer_text.render_cost_line(replace(ANSWER, probe_usage=probe)))
    assert f"{ANSWER.judge_usage.calls + 1} calls" in with_probe and "$0.5" in with_probe
    embedded = click.unstyle(answer_text.render_cost_line(replace(ANSWER, embed_usage=probe)))
    assert embedded == with_probe


def test_hostile_names_are_harmless() -> None:
    """A path, name or reason out of a repository cannot drive the terminal."""
    hostile = replace(WRITE, path="a\x1b[2J.py", entity="f\u202e", reason="x\ny\x07")
    page = answer_text.render_selection(replace(ANSWER, selected=(hostile,), near_misses=(hostile,)))
    assert "\x1b" not in page and "\u202e" not in page and "\x07" not in page
    assert len(page.splitlines()) == 2

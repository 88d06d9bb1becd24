"""A report over ledgers: every figure against rows added up by hand."""

import importlib.util
import json
import re
from decimal import Decimal
from pathlib import Path
from sqlite3 import Connection

import pytest
from msgspec.structs import replace

from tests.cost_reports.ledger_rows import (
    ADOLLAR,
    DAY,
    NOW,
    add_call,
    add_figures,
    add_judged_turn,
    add_turn,
    reported,
)
from xscore.cost_reports import groupings
from xscore.cost_reports.groupings import GROUPINGS
from xscore.cost_reports.page import render_page
from xscore.cost_reports.records import CostReport, ReportQuery, Timing
from xscore.cost_reports.report import RepositoryLedger, build_report
from xscore.cost_reports.report_files import render_markdown, report_csv, report_table
from xscore.cost_reports.report_text import NAME_CHARS, render_report
from xscore.platform.processes import process_identity
from xscore.records.receipt import Coverage
from xscore.store.opening import connect_store
from xscore.store.turn_history import TurnFilter, list_turns

DEAD = 999_999_999
"""An id that no process has."""


def timing(report: CostReport, of: str, stage: str, kind: str) -> Timing | None:
    """Return one timing of a report."""
    names = (of, stage, kind)
    return next(
        (
            candidate
            for candidate in report.timings
            if (candidate.of, candidate.stage, candidate.kind) == names
        ),
        None,
    )


def test_an_empty_ledger_is_a_report_of_nothing(reader: Connection) -> None:
    """No turns and no calls: zeros, no groups, and no percentage of zero."""
    report = reported(reader, by="day")
    assert (report.turns, report.groups, report.timings, report.warnings) == ((), (), (), ())
    assert report.spent.cost_usd == 0
    assert report.prefix_hit_rate is None
    assert report.accuracy is None


def test_sums_of_calls_and_turns(reader: Connection) -> None:
    """Calls, attempts, 429s, failures, tokens, exact dollars and coverage match the rows."""
    add_judged_turn(reader, "t_1", DAY)
    add_call(reader, "a", "t_1")
    add_call(
        reader,
        "b",
        "t_1",
        outcome="rate_limited",
        cost=0,
        input=0,
        cached=0,
        output=0,
        reasoning=0,
    )
    add_call(reader, "c", "t_1", outcome="timeout", cost=1, cached=0, estimated=1)
    add_call(
        reader,
        "d",
        "t_1",
        stage="primary",
        model="strong",
        cost=None,
        plain=None,
        packless=None,
        batch=None,
    )
    report = reported(reader)
    spent = report.spent
    assert (spent.calls, spent.attempts, spent.rate_limited, spent.failed) == (2, 4, 1, 1)
    assert (spent.unpriced, spent.estimated) == (1, 1)
    assert spent.cost_usd == Decimal("1.000000000001")
    assert (spent.usage.input_tokens, spent.usage.cached_input_tokens) == (3_000, 800)
    assert report.coverage == Coverage(40, 30, 8, 0, 2)
    assert report.unjudged_by_cause == {"budget": 2}
    assert (report.kept, report.near, report.threshold, sum(report.scores)) == (5, 3, 0.7, 38)
    assert report.prefix_hit_rate == 400 / 2_000
    assert [group.name for group in report.by_model] == ["openai:small", "openai:strong"]


def test_scores_of_two_judges_are_never_in_one_histogram(reader: Connection) -> None:
    """Each judge has a histogram with the threshold of its turns, if they share one, the newest
    turn's judge first."""
    for number, (judge, threshold, bin_) in enumerate(
        [
            ("lexical", 0.5, 4),
            ("openai:small", 0.7, 9),
            ("openai:small", 0.7, 9),
            ("lexical", 0.4, 4),
        ]
    ):
        add_turn(reader, f"t_{number}", DAY + number)
        scores = [0] * bin_ + [38] + [0] * (19 - bin_)
        add_figures(
            reader, f"t_{number}", judge=judge, threshold=threshold, scores=json.dumps(scores)
        )
    report = reported(reader)
    shown_histograms = [
        (
            histogram.judge,
            histogram.turns,
            histogram.threshold,
            histogram.scores[4],
            histogram.scores[9],
        )
        for histogram in report.histograms
    ]
    assert shown_histograms == [("lexical", 2, None, 76, 0), ("openai:small", 2, 0.7, 0, 76)]
    assert report.scores == report.histograms[0].scores
    assert report.threshold is None
    assert report.near == 12
    page = render_report(report)
    assert "scores, lexical" in page and "scores, openai:small" in page
    assert "threshold 0.7 at |" in page and "threshold 0.4" not in page
    assert "its turn's threshold" in page


@pytest.mark.parametrize(
    ("context", "state"),
    [
        ({"process": process_identity()}, "running"),
        ({"process": f"{DEAD} 1 {process_identity().split(' ', 2)[2]}"}, "unfinished"),
        ({"process": "77 1 b elsewhere"}, "unfinished"),
        ({"process": 5}, "unfinished"),
        ({}, "unfinished"),
    ],
)
def test_a_turn_whose_process_is_gone_does_not_run(
    reader: Connection, context: dict[str, object], state: str
) -> None:
    """Text, Markdown, CSV, Parquet and page say what `history list` says; a running turn stays
    one."""
    add_turn(reader, "t_1", DAY, "running")
    reader.execute("UPDATE turn SET context = ?", (json.dumps(context),))
    report = reported(reader, by="turn", lines=1, details=1)
    assert (report.turns_by_state, report.left_out) == ({state: 1}, 0)
    assert [turn.state for turn in report.turns] == [state]
    assert [row["state"] for row in report_table(replace(report, by="")).to_dicts()] == [state]
    for text in (
        render_report(report),
        render_markdown(report),
        render_page(report),
        report_csv(replace(report, by="")),
    ):
        assert state in text
        assert state == "running" or "running" not in text
    if isinstance(context.get("process", ""), str):
        assert list_turns(reader, TurnFilter(), now=NOW).turns[0].state == state


def test_a_turn_killed_midway_counts_with_its_calls(reader: Connection) -> None:
    """A turn without figures counts in the states, its money in the sums; its candidates stay
    unknown."""
    add_turn(reader, "t_1", DAY, "running")
    add_call(reader, "a", "t_1")
    report = reported(reader, by="command")
    assert report.turns_by_state == {"unfinished": 1}
    assert report.coverage.candidates == 0
    line = report.turns[0]
    assert line.spent.cost_usd == 1
    assert (line.coverage, line.kept, line.near, line.threshold, line.latency) == (None,) * 5
    assert (report.near, report.threshold) == (None, None)
    assert [(group.name, group.turns) for group in report.groups] == [("", 1)]


def test_a_turn_that_could_not_ask_is_not_one_that_had_not_to(reader: Connection) -> None:
    """A cached turn found every score in the cache; if the cap came before the first call, none was
    known."""
    for name, cached, unjudged in (("t_1", 0, 40), ("t_2", 30, 10), ("t_3", 40, 0)):
        add_judged_turn(reader, name, DAY, judged=0, cached=cached, unjudged=unjudged)
    report = reported(reader)
    assert report.turns_cached == 1
    live, cached_ones = (
        timing(report, "turn", "total", "live"),
        timing(report, "turn", "total", "cached"),
    )
    assert live and cached_ones and (live.count, cached_ones.count) == (2, 1)


def test_calls_outside_turns_stand_under_their_command(reader: Connection) -> None:
    """An index that embeds and a doctor that probes cost money but are no turns."""
    add_call(reader, "a", "e_1", stage="embed")
    add_call(reader, "b", "p_1", stage="probe", cost=3)
    report = reported(reader, by="command")
    assert {group.name: group.turns for group in report.groups} == {"index": 0, "doctor": 0}
    assert report.spent.cost_usd == Decimal("1.000000000003")
    assert report.turns == ()


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("model", ["openai:strong", "openai-decisions:small"]),
        ("provider", ["openai", "openai-decisions"]),
        ("wire", ["chat", "decisions"]),
        ("stage", ["primary", "judge"]),
        ("day", ["2025-10-11", "2025-10-10"]),
        ("repo", ["/shop"]),
        ("command", ["ask", "context"]),
        ("branch", [""]),
        ("turn", ["t_2", "t_1"]),
    ],
)
def test_groups_add_up_to_the_whole(reader: Connection, by: str, names: list[str]) -> None:
    """For any grouping, dollars and attempts add up to the report's."""
    for number, command in ((1, "ask"), (2, "context")):
        add_judged_turn(
            reader,
            f"t_{number}",
            DAY + (number - 1) * 86_400,
            command=command,
            judge="openai-decisions:small",
        )
        judging = {"provider": "openai-decisions", "cost": 9 - number}
        add_call(reader, f"j_{number}", f"t_{number}", DAY + number * 86_400, **judging)
        add_call(
            reader,
            f"p_{number}",
            f"t_{number}",
            stage="primary",
            model="strong",
            cost=20 - number,
        )
    report = reported(reader, by=by)
    assert [group.name for group in report.groups] == names
    assert sum(group.spent.cost_usd for group in report.groups) == report.spent.cost_usd
    assert sum(group.spent.attempts for group in report.groups) == 4
    if by not in {"stage", "model", "provider", "wire"}:
        assert sum(group.turns for group in report.groups) == 2
    if by != "stage":
        assert sum(group.coverage.candidates for group in report.groups) == 80


def test_spending_by_branch(reader: Connection) -> None:
    """A turn counts for the branch that it was asked on, also one that never ended; calls of no
    turn are under no branch."""
    for turn, branch in (("t_1", "main"), ("t_2", "feat/eggs"), ("t_3", "feat/eggs")):
        if turn == "t_3":
            add_turn(reader, turn, DAY, state="interrupted")
        else:
            add_judged_turn(reader, turn, DAY)
        reader.execute("UPDATE turn SET branch = ? WHERE id = ?", (branch, turn))
        add_call(reader, f"c_{turn}", turn)
    add_call(reader, "i", "e_1", stage="embed")
    report = reported(reader, by="branch")
    figures = [
        (group.name, group.turns, group.spent.attempts, group.coverage.candidates)
        for group in report.groups
    ]
    assert figures == [("feat/eggs", 2, 2, 40), ("", 0, 1, 0), ("main", 1, 1, 40)]
    assert "not known" in render_report(report)


def test_a_long_branch_is_cut_in_the_text_alone(reader: Connection) -> None:
    """A branch of 200 characters widens no printed table, in a pipe neither; the data has all of
    it."""
    branch = "feat/" + "x" * 195
    add_judged_turn(reader, "t_1", DAY)
    reader.execute("UPDATE turn SET branch = ?", (branch,))
    add_call(reader, "c", "t_1")
    report = reported(reader, by="branch")
    page = render_report(report)
    assert f"{branch[: NAME_CHARS - 1]}…" in page and branch[:NAME_CHARS] not in page
    assert [group.name for group in report.groups] == [branch]
    assert branch in report_csv(report)


@pytest.mark.parametrize("by", GROUPINGS)
def test_every_grouping_is_in_every_form(reader: Connection, by: str) -> None:
    """The names of its groups are in the text, Markdown, CSV, the frame and the page."""
    add_judged_turn(reader, "t_1", DAY)
    reader.execute("UPDATE turn SET branch = 'feat/eggs'")
    add_call(reader, "c", "t_1")
    report = reported(reader, by=by, lines=1)
    (name,) = [group.name for group in report.groups]
    assert name in render_report(report) and name in render_page(report)
    assert f"| {by} |" in render_markdown(report)
    assert report_csv(report).startswith(f"{by},turns,candidates,")
    assert report_table(report)[by].to_list() == [name]


@pytest.mark.parametrize("page", ["reference/json.md", "costs.md"])
def test_every_grouping_is_documented(page: str) -> None:
    """The pages that list what `--by` takes leave none out."""
    text = (Path(__file__).parents[2] / "docs" / page).read_text("utf-8")
    if page == "costs.md":
        (listed,) = re.findall(r"`--by` groups by (.*?)\. ", text, re.DOTALL)
        quote = "`"
    else:
        (listed,) = re.findall(r'^ by: "" \| (.*),$', text, re.MULTILINE)
        quote = '"'
    missing = [name for name in GROUPINGS if f"{quote}{name}{quote}" not in listed]
    assert not missing, f"add to docs/{page}"


def test_a_grouping_may_have_any_name(
    reader: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hyphen, or a word that SQL keeps for itself, in the name of a grouping of calls or of one
    of turns."""
    like = {"hour-of-day": "day", "order": "branch", "group-by": "command"}
    named = {name: replace(GROUPINGS[model], name=name) for name, model in like.items()}
    monkeypatch.setattr(groupings, "GROUPINGS", {**GROUPINGS, **named})
    # The module makes its columns of the groupings where it is loaded.
    spec = importlib.util.find_spec("xscore.cost_reports.call_table")
    assert spec is not None and spec.loader is not None
    call_table = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(call_table)
    add_call(reader, "a", "e_1", stage="embed")
    with call_table.CallTable() as calls:
        calls.add_ledger(reader, [], repo="/shop", query=ReportQuery(), jobs={})
        for name, model in like.items():
            assert list(calls.spent_by(name)) == list(calls.spent_by(model)) != []
            assert list(calls.turns_by(name)) == []


def test_embedding_and_lexical_judging_have_wires_of_their_own(reader: Connection) -> None:
    """Calls for vectors count under `embeddings`; candidates that no model judged under `none`."""
    add_judged_turn(reader, "t_1", DAY, judge="lexical", is_model=0)
    add_call(reader, "a", "t_1", stage="embed")
    add_call(reader, "b", "t_1", provider="typesafe", cost=1)
    report = reported(reader, by="wire")
    groups = [
        (group.name, group.spent.attempts, group.coverage.candidates) for group in report.groups
    ]
    assert groups == [("embeddings", 1, 0), ("systemone", 1, 0), ("none", 0, 40)]


def test_a_turn_belongs_to_the_period_it_began_in(reader: Connection) -> None:
    """A period neither cuts a turn in two nor includes late calls of an earlier one."""
    for number in (1, 2):
        add_judged_turn(reader, f"t_{number}", DAY + number * 3_600)
        add_call(reader, f"c_{number}", f"t_{number}", DAY + number * 3_600 + 3_000)
    add_call(reader, "i", "e_1", DAY + 2.5 * 3_600)
    all_time = reported(reader)
    late = reported(reader, since=DAY + 1.5 * 3_600)
    early = reported(reader, since=0.0, until=DAY + 1.5 * 3_600)
    assert [line.id for line in late.turns] == ["t_2"]
    assert (late.spent.attempts, early.spent.attempts, all_time.spent.attempts) == (2, 1, 3)
    assert reported(reader, turn_id="t_1").spent.attempts == 1


def test_live_and_cached_are_kept_apart(reader: Connection) -> None:
    """A turn without a judging call is cached, one with prefix-cached tokens is live; percentiles
    never mix them."""
    for number in range(10):
        add_turn(reader, f"t_{number}", DAY + number)
        is_live = number < 4
        judged = {
            "judged": 32 * is_live,
            "cached": 40 - 32 * is_live,
            "unjudged": 0,
            "unjudged_by_cause": "{}",
        }
        add_figures(
            reader, f"t_{number}", total_s=10.0 if is_live else 1.0, primary_s=0.0, **judged
        )
        if is_live:
            add_call(reader, f"a_{number}", f"t_{number}", duration_s=number + 1.0, cached=0)
            add_call(reader, f"b_{number}", f"t_{number}", duration_s=0.25)
    report = reported(reader)
    assert report.turns_cached == 6
    live, cached = (
        timing(report, "turn", "total", "live"),
        timing(report, "turn", "total", "cached"),
    )
    assert live and cached
    assert (live.count, live.p50_s, cached.count, cached.p50_s) == (4, 10.0, 6, 1.0)
    calls = timing(report, "call", "judge", "live")
    assert calls and (calls.count, calls.p50_s, calls.p95_s, calls.p99_s) == (4, 2.0, 4.0, 4.0)
    assert timing(report, "call", "judge", "cached") == Timing(
        of="call", stage="judge", kind="cached", count=4, p50_s=0.25, p95_s=0.25, p99_s=0.25
    )
    assert timing(report, "turn", "primary", "live") is None, (
        "a stage that did not happen is no sample"
    )


def test_several_ledgers_are_one_report(reader: Connection, tmp_path: Path) -> None:
    """Two repositories with the same turn ids are summed without being mixed."""
    second_ledger = connect_store(tmp_path / "other.db")
    for connection, cost in ((reader, 1), (second_ledger, 2)):
        add_judged_turn(connection, "t_1", DAY)
        add_call(connection, "a", "t_1", cost=cost * ADOLLAR)
    report = build_report(
        [RepositoryLedger("/a", reader), RepositoryLedger("/b", second_ledger)],
        ReportQuery(by="repo"),
        now=NOW,
    )
    second_ledger.close()
    assert {group.name: group.spent.cost_usd for group in report.groups} == {"/a": 1, "/b": 2}
    assert {line.repository: line.spent.cost_usd for line in report.turns} == {"/a": 1, "/b": 2}
    assert report.coverage.candidates == 80

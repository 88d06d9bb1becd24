"""The words of a report, on a terminal and in Markdown."""

import re

import pytest
from msgspec.structs import replace

from tests.cost_reports.page_reports import report_of
from xscore.cost_reports.page import render_page
from xscore.cost_reports.report_markdown import render_markdown
from xscore.cost_reports.report_text import render_report
from xscore.platform.text import one_line
from xscore.records import Coverage
from xscore.records.cost_report import NOTHING_JUDGED, Group, Spent


@pytest.mark.parametrize(("near", "said"), [(0, "0 scores less"), (1, "1 score less"), (1_024, "1,024 scores less")])
def test_one_near_score_is_no_scores(near: int, said: str) -> None:
    """Scores near the threshold are counted in the singular and the plural, wherever they are told."""
    report = replace(report_of(3, 0), near=near)

    assert f" · {said} than 0.1 from the threshold" in " ".join(render_report(report).split())
    assert f" · {said} than 0.1 from the threshold" in render_markdown(report)


def test_a_miss_of_the_estimate_has_its_sign() -> None:
    """Terminal and Markdown tell the differences as the page does."""
    report = report_of(5, 0)
    said = "calls +3 %, tokens in −4 %, tokens out +7 %, dollars without prefix caching −3 %"

    assert said in " ".join(render_report(report).split())
    assert said in render_markdown(report)


def test_a_line_that_stands_for_no_candidates_counts_none() -> None:
    """A stage is a part of turns, and a model that only answers judges nothing: a dash, for 0 would be a figure."""
    report = report_of(4, 0)
    stage, judge = (
        Group(name="judge", turns=4, spent=Spent()),
        replace(report.by_model[0], coverage=Coverage(9, 9, 0, 0, 0)),
    )
    answers = replace(judge, name="openai:large", coverage=NOTHING_JUDGED)
    shown = replace(report, by="stage", groups=(stage,), by_model=(judge, answers))
    rows = [re.split(" {2,}", line) for line in render_report(shown).splitlines()]
    said = {row[0]: row[2] for row in rows if row[0] in (judge.name, answers.name, "judge")}
    assert said == {judge.name: "9", answers.name: "–", "judge": "–"}
    assert "| judge | 4 | – | 0 |" in render_markdown(shown)
    (line,) = [line for line in render_page(shown).split("<tr>") if line.startswith(f'<th scope="row">{answers.name}')]
    assert line.count("<td>–") == 5, "on the page as well: candidates, live, cached, unjudged, kept"
    day = replace(shown, by="day", groups=(replace(stage, name="2026-11-01"),))
    assert "| 2026-11-01 | 4 | 0 | 0 |" in render_markdown(day), "a day of turns that found no candidate has none"


def test_cached_tokens_are_those_of_the_hosts_prefix_cache() -> None:
    """One report does not say *cached* of judgments and of tokens alike."""
    report = report_of(4, 0)
    for text in (render_report(report), render_markdown(report)):
        head = next(line for line in text.splitlines() if "candidates" in line and "dollars" in line)
        assert head.replace("|", " ").split()[4:7] == ["in", "prefix-cached", "out"]


@pytest.mark.parametrize("task", ["Why is it\nslow?", "| a | [b](c) @d \x1b[31m"])
def test_a_line_of_a_turn_says_when_and_what(monkeypatch: pytest.MonkeyPatch, task: str) -> None:
    """`--by turn` has the moment and the task's first line where the window has room, and no count of turns."""
    report = report_of(3, 0)
    turn = replace(report.turns[0], task=f"\n{task}", at=1_790_000_000.0)
    group = Group(name=turn.id, turns=1, spent=turn.spent)
    shown = replace(report, by="turn", groups=(group, replace(group, name="e_1")), turns=(turn,))
    monkeypatch.setenv("COLUMNS", "120")
    head, line, other = next(
        part for part in render_report(shown).split("\n\n") if part.startswith("turn ")
    ).splitlines()
    assert head.split()[:3] == ["turn", "began", "candidates"]
    assert line.split()[:3] == [turn.id, "2026-09-21", "14:13"] and line.endswith(one_line(task.splitlines()[0]))
    assert other.split()[:2] == ["e_1", "–"]
    assert "| began |" in render_markdown(shown) and "| 2026-09-21 14:13 |" in render_markdown(shown)
    monkeypatch.setenv("COLUMNS", "72")
    narrow = next(part for part in render_report(shown).split("\n\n") if part.startswith("turn "))
    assert max(map(len, narrow.splitlines())) <= 72


def test_a_question_is_called_so_everywhere() -> None:
    """An evaluation counts questions on the terminal, in Markdown and on the page; a space stands before a %."""
    report = replace(report_of(4, 0), prefix_hit_rate=0.314)
    assert all(
        "questions" in text.lower() and "Cases" not in text for text in (render_report(report), render_markdown(report))
    )
    assert ">Questions<" in render_page(report) and "Cases" not in render_page(report)
    assert "31 % of the judging" in " ".join(
        render_report(report).split()
    ) and "31 % of the judging" in render_markdown(report)

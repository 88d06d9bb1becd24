"""The map below an answer in a notebook: the turn's own scores in a frame without rights, and no
map rather than one that is too large or gone."""

import html
import json
import re
from pathlib import Path

import pytest

import xscore
from tests.cli.basket import FILES
from tests.extensions.pages.conftest import (
    BIDI,
    HOSTILE,
    TASK,
    make_place,
    scripted_settings,
)
from xscore.extensions.pages import notebook
from xscore.records.receipt import Answer


def asked(folder: Path, *, reason: str = "sums the prices", answer: str = "There.") -> Answer:
    """Ask a question of a small shop."""
    root = make_place(folder, FILES)
    rules = [{"entity": "*total", "score": 0.95, "reason": reason}]
    settings = scripted_settings(folder, default=0.03, rules=rules, answer=answer)
    with xscore.open(root, settings) as shop:
        return shop.ask(TASK)


def frame(shown: str) -> str:
    """Return the page that the frame holds."""
    (held,) = re.findall(r'srcdoc="([^"]*)"', shown)
    return html.unescape(held)


def test_an_answer_shows_its_map(tmp_path: Path) -> None:
    """Every candidate has its score, also once the repository is closed; the table stays."""
    answer = asked(tmp_path)
    shown = answer._repr_html_()
    assert shown.index("<table>") < shown.index("<iframe")
    block = re.search(r'id="turn-data">(.*?)</script>', frame(shown), re.DOTALL)
    assert block
    data = json.loads(block[1])
    assert len(data["scores"]) == answer.coverage.candidates
    assert max(data["scores"]) == round(answer.selected[0].score * 1000)


def test_the_frame_has_no_rights(tmp_path: Path) -> None:
    """Its sandbox lets scripts run and nothing else, its policy only ours; hostile text is text."""
    shown = asked(tmp_path, reason=HOSTILE + BIDI, answer=HOSTILE)._repr_html_()
    assert re.findall(r'sandbox="([^"]*)"', shown) == ["allow-scripts"]
    outside = re.sub(r'srcdoc="[^"]*"', "", shown)
    assert "<script" not in outside and "<img" not in outside
    page = frame(shown)
    assert HOSTILE not in page and "default-src 'none'" in page
    assert page.count("<script") == 3


def test_an_answer_is_shown_as_markdown(tmp_path: Path) -> None:
    """Lists and code are rendered; links and markup stay as they are written."""
    answer = "It is in `total`:\n\n* here [a](http://e.test)\n* <b>x</b>"
    shown = asked(tmp_path, answer=answer)._repr_html_()
    before_map = shown[: shown.index("<iframe")]
    assert "<code>total</code>" in before_map and "<li>" in before_map
    assert "<a " not in before_map and "<b>" not in before_map


def test_a_map_that_is_too_large_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command that shows it is there instead."""
    answer = asked(tmp_path)
    monkeypatch.setattr(notebook, "MOST_CHARS", 1000)
    shown = answer._repr_html_()
    assert "<iframe" not in shown and f"xscore show {answer.turn_id}" in shown


def test_without_its_store_an_answer_still_shows(tmp_path: Path) -> None:
    """A turn that was erased, and an answer from elsewhere, have the table alone."""
    answer = asked(tmp_path)
    for file in (tmp_path / "repo").rglob("memory.db*"):
        file.unlink()
    assert "<table>" in answer._repr_html_() and "<iframe" not in answer._repr_html_()

"""The page of a turn: the receipt's own figures, every candidate with its score, and what cannot be
shown said plainly."""

import asyncio
import re
import tempfile
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.cli.basket import FILES
from tests.extensions.pages.conftest import (
    BIDI,
    FOLLOW_UP,
    HOSTILE,
    TASK,
    Place,
    make_place,
    scripted_settings,
)
from xscore.extensions.pages.answer_html import answer_html
from xscore.extensions.pages.commands import write_page
from xscore.extensions.pages.stage_times import before_answer_s, before_first_call_s
from xscore.extensions.pages.turn_markdown import render_turn_markdown
from xscore.pipeline.build import Pipeline
from xscore.platform.errors import NothingMatched

TOTAL, PAY = "shop/basket.py::Basket.total", "shop/checkout.py::pay"


class Elements(HTMLParser):
    """The elements of a page, and what its chosen memories link to."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.hrefs: list[str] = []
        self.styled: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect them."""
        attributes = dict(attrs)
        self.tags.append(tag)
        self.ids.append(attributes.get("id") or "")
        self.hrefs.append(attributes.get("href") or "")
        if "style" in attributes or any(name.startswith("on") for name in attributes):
            self.styled.append(tag)


def test_every_candidate_is_on_the_map_with_its_score(shop: Place) -> None:
    """The map has the turn's own scores, also of what was not kept, and the sum adds up."""
    shown = shop.show("chosen")
    receipt = shown.record.receipt
    assert receipt is not None
    scores = shown.scores()
    assert len(scores) == receipt.coverage.candidates
    assert scores[TOTAL] == round(receipt.selected[0].score * 1000)
    assert -1 not in scores.values()
    assert shown.record.notes == ()
    assert shown.places()[shown.data["kept"][0]] == TOTAL
    assert TASK in shown.html


def test_a_chosen_memory_has_its_text_reason_sentence_and_command(shop: Place) -> None:
    """What was chosen is shown with why, its text, and the command that says the same."""
    shown = shop.show("chosen")
    first = shown.record.kept[0]
    assert (first.why, first.memory.reason) == ("judged", "sums the prices")
    assert "sum(item.price" in first.text
    assert first.sentence.startswith("It was chosen")
    command = f"xscore explain {TOTAL} --turn {shop.turns['chosen']}"
    assert command in shown.html
    assert any(
        link.source == first.place or link.target == first.place for link in shown.record.links
    )


def test_the_time_before_calls_is_that_of_the_calls_themselves(shop: Place) -> None:
    """The waits that the page names end where its drawing has the first call and the answer's."""
    shown = shop.show("chosen")
    calls = shown.data["calls"]
    assert before_first_call_s(shown.record) == pytest.approx(calls[0]["at"], abs=0.002)
    (answer,) = [call for call in calls if call["stage"] == "primary"]
    ends = [call["at"] + call["took"] for call in calls if call["stage"] != "primary"]
    assert before_answer_s(shown.record) == pytest.approx(answer["at"] - max(ends), abs=0.003)
    assert before_answer_s(shop.show("carried").record) == 0


def test_a_follow_up_shows_its_thread(shop: Place) -> None:
    """The earlier question, what was carried from it, and what changed are there."""
    shown = shop.show("carried")
    receipt = shown.record.receipt
    assert receipt is not None
    earlier, this = shown.record.thread
    assert (earlier.turn.task, this.turn.task, this.is_this) == (TASK, FOLLOW_UP, True)
    assert earlier.carried == receipt.coverage.carried
    assert len(shown.data["carried"]) == receipt.coverage.carried


def test_what_was_left_unjudged_has_no_score(shop: Place) -> None:
    """A refused memory is on the map without a score, and the page says how to go on."""
    shown = shop.show("unjudged")
    scores = shown.scores()
    receipt = shown.record.receipt
    assert receipt is not None
    assert receipt.coverage.unjudged == 1
    assert scores["shop/basket.py::greet"] == -1
    assert list(scores.values()).count(-1) == 1
    assert f"xscore continue {shop.turns['unjudged']}" in shown.html
    assert shown.record.notes == ()


def test_a_killed_turn_shows_what_was_judged_until_then(shop: Place) -> None:
    """Without a receipt there is no cut and no choice, but the judge's scores and the calls."""
    shown = shop.show("killed")
    assert shown.record.receipt is None
    assert shown.record.turn.state == "unfinished"
    assert shown.scores()[TOTAL] == 950
    assert (shown.data["threshold"], shown.data["kept"]) == (None, [])
    assert len(shown.record.calls) >= 1
    assert shown.record.notes


def test_scores_by_words_are_said_to_be_computed_again(shop: Place) -> None:
    """Words leave no judgments: the page says so."""
    shown = shop.show("words")
    assert shown.data["byWords"]
    assert -1 not in shown.scores().values()
    assert len(shown.record.notes) == 1


def test_an_edit_since_then_is_never_given_a_score(tmp_path: Path) -> None:
    """What was edited after the turn has no score of it, unless the receipt itself lists it: that
    one is said to have changed."""
    steps = "\n\n\n".join(f"def step_{n}(value):\n    return value + {n}" for n in range(30))
    root = make_place(tmp_path, {**FILES, "steps.py": steps + "\n"})
    settings = scripted_settings(
        tmp_path, default=0.03, rules=[{"entity": "pay", "score": 0.9}]
    )
    place = Place(root, settings, {})
    before = _ask(place, "Who pays?")
    checkout = root / "shop/checkout.py"
    checkout.write_text(checkout.read_text().replace("to a card", "to a gift card"))
    (root / "steps.py").write_text(steps.replace("value +", "value -"))
    _ask(place, "Another question")

    shown = place.show(before)
    kept = {entry.memory.entity: entry for entry in shown.record.kept}
    assert kept["pay"].is_changed
    assert "gift card" in kept["pay"].text
    scores = shown.scores()
    lost = [name for name, score in scores.items() if score < 0]
    assert len(lost) >= 20
    assert all(name.startswith("steps.py::") for name in lost)
    assert any(str(len(lost)) in note for note in shown.record.notes)


def _ask(place: Place, task: str) -> str:
    async def run() -> str:
        async with Pipeline.open(place.root, place.settings) as pipeline:
            return (await pipeline.ask(task, answer=False)).turn_id

    return asyncio.run(run())


def test_one_memory_is_a_map_too(tmp_path: Path) -> None:
    """A repository with a single memory has a page."""
    root = make_place(tmp_path, {"only.py": "def only() -> int:\n    return 1\n"})
    place = Place(root, scripted_settings(tmp_path, default=0.0), {})
    shown = place.show(_ask(place, "What is here?"))
    assert len(shown.data["names"]) == 1
    assert shown.data["kept"] == []


def test_a_narrowed_turn_says_to_what(shop: Place) -> None:
    """A page of a turn within a folder says so, and its map has no other file."""
    shown = shop.show("narrowed")
    assert '<p class="of">Only shop.</p>' in shown.html
    paths = {path for path, _, _ in shown.data["files"] if path}
    assert paths == {"shop/basket.py", "shop/checkout.py"}


def test_an_unknown_turn_is_named(shop: Place) -> None:
    """A name that no turn has is an error with a way on."""
    with pytest.raises(NothingMatched):
        shop.show("t_none")


def test_an_id_that_is_a_path_leads_out_of_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that somebody else wrote may hold such a turn."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    for id_ in ("../../evil", f"{tmp_path}/evil", "t_0a"):
        written = write_page(id_, "<p>", None)
        assert written.parent.parent == tmp_path / "temporary" and ".." not in str(written)
    assert written.name == "t_0a.html"


def test_hostile_text_makes_no_element(shop: Place, hostile: Place) -> None:
    """Names, texts, question, reasons and answer that are markup add no element, no handler, no
    style and no link to the page."""
    plain = Elements(shop.show("chosen").html)
    shown = hostile.show("chosen")
    elements = Elements(shown.html)
    for tag in ("script", "style", "img", "iframe", "object", "form"):
        assert elements.tags.count(tag) == plain.tags.count(tag), tag
    assert elements.styled == plain.styled == []
    assert {href[:1] for href in elements.hrefs if href} == {"#"}
    assert len(shown.data["names"]) == len(shown.record.memories)
    assert HOSTILE in shown.record.task
    assert BIDI[0] not in shown.html


def test_the_answer_links_what_it_cites_and_nothing_else(shop: Place) -> None:
    """A link of the answer stays text."""
    shown = shop.show("chosen")
    answer = re.search(r'<div class="answer">(.*?)</div>', shown.html, re.DOTALL)
    assert answer
    assert "<strong>Basket.total</strong>" in answer[1]
    assert "<a href" not in answer[1]


def test_a_citation_leads_to_the_memory_that_it_means(shop: Place) -> None:
    """The beginning of an ID is enough; an ID of no chosen memory is marked and leads nowhere."""
    kept = shop.show("chosen").record.kept
    chosen_id = kept[0].memory.id
    assert 'href="#kept-1"' in answer_html(f"As summed [{chosen_id}].", kept)
    assert 'href="#kept-1"' in answer_html(f"As summed [{chosen_id[:12]}].", kept)
    other_id = chosen_id[:-1] + ("0" if chosen_id[-1] != "0" else "1")
    unknown = answer_html(f"As summed [{other_id}].", kept)
    assert 'class="cite unknown"' in unknown
    assert "href" not in unknown


def test_the_same_turn_gives_the_same_bytes(shop: Place) -> None:
    """Nothing random is on the page; only when it was made."""
    making_time = re.compile(r"Made [0-9: -]+ UTC")
    first, second = (making_time.sub("", shop.show("chosen").html) for _ in range(2))
    assert first == second


def test_a_summary_has_choices_and_folders(shop: Place) -> None:
    """In Markdown: what was chosen and why, and each folder with a bar of its best score; a killed
    turn has folders alone."""
    text = render_turn_markdown(shop.show("chosen").record)
    assert text.startswith("### Where is the total")
    assert "| Basket.total | shop/basket.py:" in text and "| 0.95 | sums the prices |" in text
    assert "| shop | ██████████ 0.95 |" in text
    assert "chosen | where" not in render_turn_markdown(shop.show("killed").record)


def test_a_summary_has_no_markup_of_others(hostile: Place) -> None:
    """Nothing in it is HTML, a link, or another cell."""
    text = render_turn_markdown(hostile.show("chosen").record)
    assert "<script" not in text.replace("\\<", "") and "<img" not in text.replace("\\<", "")
    lines = [line for line in text.split("\n") if line.startswith("|")]
    assert lines and "\u202e" not in text

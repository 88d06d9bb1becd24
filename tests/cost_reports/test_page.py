"""The page as text: complete, small, reproducible, with foreign text only as text."""

import re
from base64 import b64encode
from decimal import Decimal
from hashlib import sha256
from html.parser import HTMLParser

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.cost_reports.page_reports import empty, hostile, memory, report_of
from xscore.cost_reports.page import ROWS_AT_ONCE, render_page
from xscore.cost_reports.records import TurnDetail
from xscore.records.judgment import Boost

MEGABYTE = 1_000_000
TAGS = frozenset(
    re.split(
        " ",
        "html head meta title style body header main footer section nav h1 h2 h3 p div span a"
        " strong b i em small code button dl dt dd ul li table caption thead tbody tr th td details"
        " summary figure figcaption script noscript svg desc",
    )
)
ATTRIBUTES = frozenset(
    re.split(
        " ",
        "lang charset http-equiv content name id class role hidden type href tabindex scope data-v "
        "aria-label aria-labelledby aria-describedby aria-hidden "
        "viewbox",
    )
)


class Reader(HTMLParser):
    """Collects tags, attributes and text."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.words: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record it."""
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        """Record it."""
        self.words.append(data)

    @property
    def text(self) -> str:
        """Return all text."""
        return "".join(self.words)


def test_a_thousand_turns_fit_in_a_megabyte() -> None:
    """A report of 1,000 turns with the choices of 50 is a page of less than 1 MB, in UTF-8; most
    rows wait in a template, which costs a browser next to nothing."""
    page = render_page(report_of(1_000, 50))
    body = page[page.index('class="sortable turns"') :].split("</template>")[0]

    assert len(page.encode()) < MEGABYTE
    assert page.count('class="turn"') == 50
    assert body.count("<tr>") == 1_001
    assert body.split("<template>")[0].count("<tr>") == ROWS_AT_ONCE + 1
    assert body.count('href="#turn-') == 50
    assert page == render_page(report_of(1_000, 50)), "the same report gives the same bytes"


def test_the_policy_lets_in_this_style_and_these_scripts_alone() -> None:
    """The policy forbids everything except the style and the scripts in the page, named by their
    hashes."""
    page = render_page(report_of(3, 3))
    style = page.split("<style>")[1].split("</style>")[0]
    scripts = re.findall("<script>(.*?)</script>", page, re.DOTALL)
    hashes = [b64encode(sha256(part.encode()).digest()).decode() for part in (style, *scripts)]

    assert (
        f"content=\"default-src 'none'; style-src 'sha256-{hashes[0]}'; script-src"
        f" 'sha256-{hashes[1]}' 'sha256-{hashes[2]}'; base-uri 'none'; form-action 'none'\""
        in page
    )
    assert page.index("Content-Security-Policy") < page.index("<style>")
    assert "unsafe" not in page


def test_nothing_on_the_page_points_outside() -> None:
    """Links stay within the page; nothing is loaded."""
    reader = Reader(render_page(report_of(60, 10)))

    assert all(
        (value or "").startswith("#") for name, value in reader.attributes if name == "href"
    )
    assert not {"src", "srcset", "style", "action"} & {name for name, _ in reader.attributes}


@given(st.tuples(*[st.text(max_size=60)] * 3))
@settings(max_examples=15, deadline=None)
def test_no_text_makes_an_element(texts: tuple[str, str, str]) -> None:
    """Any text gives a page of known elements and attributes, with our scripts and one style, that
    can be written."""
    page = render_page(hostile(*texts))
    reader = Reader(page)

    assert set(reader.tags) <= TAGS
    assert {name for name, _ in reader.attributes} <= ATTRIBUTES
    assert (reader.tags.count("script"), reader.tags.count("style")) == (3, 1)
    assert page.encode("utf-8")


def test_control_and_bidirectional_characters_are_shown() -> None:
    """Characters that reorder or hide text are shown as escapes."""
    page = render_page(hostile("a\u202eb\x1bc\ud800d\x00e\u2028f"))

    assert "a\\u202eb\\x1bc\\ud800d\\x00e" in page
    assert not set("\u202e\x1b\x00\u2028") & set(page)


def test_a_memory_is_told_with_its_score_boosts_and_reason() -> None:
    """The page shows final score, raw score, each boost with its cause, the reason, the place and
    the marks."""
    chosen = memory(
        "it settles what was reserved",
        score=0.91,
        raw_score=0.82,
        is_stale=True,
        below_threshold=True,
        cached=True,
        boosts=(Boost("dependency", 0.09, "called by ask"),),
    )
    base = report_of(1, 0)
    page = Reader(
        render_page(
            replace(
                base,
                details=(
                    TurnDetail(turn_id=base.turns[0].id, selected=(chosen,), near_misses=()),
                ),
            )
        )
    )

    for words in (
        "0.91",
        "0.82",
        "+0.09 dependency: called by ask",
        "it settles what was reserved",
        "TokenBucket.acquire",
        "xscore/providers/limits.py:12-40",
        "stale",
        "below threshold",
        "cached",
        "There are no near misses.",
    ):
        assert words in page.text


def test_what_was_asked_and_chosen_stands_first() -> None:
    """Tasks come before figures, each with its first choices; a report of one turn shows all of
    them unfolded."""
    page = render_page(report_of(30, 12))
    assert page.index('id="choices"') < page.index('id="headline"') < page.index('id="figures"')
    assert "15 chosen: " in page and "2 earlier turns" in page
    assert '<details class="turn" open>' not in page
    assert '<details class="turn" open>' in render_page(report_of(30, 1))


def test_an_empty_ledger_has_a_page() -> None:
    """An empty report has one line for each plot and table, no empty card and no invented
    figure."""
    html = render_page(empty())
    page = Reader(html.split("</style>")[1].split("<script>")[0]).text

    assert "<figure" not in html and "Cost per turn: there are no turns in this period." in page
    assert "No call was made." in page
    assert not re.search(r"\b(nan|none|inf)\b", page, re.IGNORECASE)


def test_what_is_not_known_of_a_turn_is_a_dash() -> None:
    """A killed turn has no figures: its row and its choice say so, instead of zeros."""
    base = report_of(2, 1)
    killed = replace(
        base.turns[0],
        state="interrupted",
        coverage=None,
        kept=None,
        near=None,
        threshold=None,
        latency=None,
    )
    page = render_page(replace(base, turns=(killed, base.turns[1]), near=None, threshold=None))
    table = page[page.index('class="sortable turns"') :]
    head, _, rows = table.partition("<tbody><tr>")
    heads = re.findall(r"<th [^>]*>([^<]+)", head)
    cells = re.findall(r"<t[hd][^>]*>(?:<a[^>]*>)?([^<]+)", rows.partition("<tr>")[0])
    cell_by_head = dict(zip(heads, cells, strict=True))
    not_known = ("Candidates", "Live", "Cached", "Unjudged", "Kept", "Near", "Seconds")
    assert {cell_by_head[head] for head in not_known} == {"–"}
    assert cell_by_head["State"] == "interrupted" and cell_by_head["Calls"] == "126"
    assert "threshold 0.00" not in page
    assert "of the threshold" not in page


def test_a_line_says_what_is_not_in_its_dollars() -> None:
    """Each line marks estimated dollars and unpriced attempts; a described turn counts them."""
    base = report_of(1, 1)
    line, group = base.turns[0], base.by_model[0]
    spent_by_turn = replace(line.spent, cost_usd=Decimal("0.456"), unpriced=2, estimated=1)
    spent_by_group = replace(group.spent, cost_usd=Decimal("1.27"), unpriced=3, estimated=0)
    report = replace(
        base,
        turns=(replace(line, spent=spent_by_turn),),
        by_model=(replace(group, spent=spent_by_group),),
        groups=(),
    )
    page = render_page(report)

    bare = render_page(replace(report, turns=(replace(line, cost_by_model={}),)))

    assert "no call of these turns has a known price" in bare
    assert "<td>~$0.456+?" in page
    assert "<td>$1.27+?" in page
    assert "~$0.456 + 2 unpriced · 15 chosen" in page


def test_every_table_has_a_caption_and_scoped_heads() -> None:
    """Screen readers get each table's caption and the header of each figure."""
    page = render_page(report_of(5, 3))

    assert page.count("<table") == page.count("<caption")
    assert page.count("<th") - page.count("<thead") == page.count('scope="col"') + page.count(
        'scope="row"'
    )

"""The pages over a real store: what they show, what they change, and what they cannot."""

import json
import re
import sqlite3
from pathlib import Path
from urllib.parse import quote

from tests.cli.basket import TASK
from tests.cli.conftest import own_store
from tests.conftest import store_file
from tests.extensions.view.conftest import serving_pages, turn_ids
from xscore.extensions.extraction import review
from xscore.platform.paths import user_data_dir
from xscore.records.memory import MemoryStatus
from xscore.store.store import Store


def waiting(store: Store) -> dict[str, str]:
    """Return the texts of the facts that wait, by id."""
    return {fact.id: fact.text for fact in review.facts_to_review(store)}


async def test_questions_are_listed_and_found_by_their_answers(repository: Path) -> None:
    """Newest first; a search finds words of the question and of the answer, in any case."""
    with serving_pages(repository, may_edit=False) as served:
        newest, oldest = turn_ids(served.page())
        assert TASK in served.page()
        assert turn_ids(served.page("?q=NOBODY")) == [newest]
        assert "<mark>Nobody</mark>" in served.page("?q=NOBODY")
        assert turn_ids(served.page("?q=basket")) == [newest, oldest]
        assert turn_ids(served.page("?q=" + quote("<script>"))) == [newest]
        assert turn_ids(served.page("?q=%25")) == []
        assert turn_ids(served.page("?show=1")) == [newest]
        assert len(turn_ids(served.page("?show=" + "9" * 500))) == 2


async def test_words_of_others_are_escaped(repository: Path) -> None:
    """Markup in a search, an answer or a path stays text."""
    with serving_pages(repository, may_edit=False) as served:
        page = served.page("?q=" + quote('"><script>alert(1)</script>'))
        missing = served.ask("turn/" + quote("<img src=x>"))
        assert "<script>alert" not in page and "&lt;script&gt;" in page
        assert missing.status == 404 and b"<img" not in missing.read()


async def test_no_path_names_a_file(repository: Path) -> None:
    """Whatever is in the path, only listed pages answer."""
    with serving_pages(repository, may_edit=True) as served:
        for path in (
            "../../etc/passwd",
            "..%2f..%2fetc%2fpasswd",
            "parts/view.css",
            "%00",
            "turn",
        ):
            assert served.ask(path).status == 404, path


def test_a_store_of_somebody_else_is_forbidden(repository: Path) -> None:
    """A store that you did not make is refused with a page that says so; nothing failed."""
    with serving_pages(repository, may_edit=False) as served:
        (user_data_dir(None) / "trust.json").unlink()
        refused = served.ask("")
        assert refused.status == 403
        page = refused.read()
        assert refused.headers.get_content_type() == "text/html"
        assert b"xscore store trust" in page


def test_without_a_store_the_pages_say_so(tmp_path: Path) -> None:
    """An empty folder has pages and makes no store."""
    with serving_pages(tmp_path, may_edit=True) as served:
        assert "xscore ask" in served.page()
        served.page("memories")
        served.page("report")
        assert "xscore report --update-baseline" in served.page("gate")
        assert served.ask("turn/latest").status == 404
    assert not store_file(tmp_path).exists()


def test_facts_are_accepted_edited_and_rejected(facts: Path) -> None:
    """A fact is accepted as it is or as corrected, or rejected; the queue is empty then."""
    with own_store(facts) as store:
        first, second = waiting(store)
        kept_text = waiting(store)[first]
    with serving_pages(facts, may_edit=True) as served:
        page = served.page("memories")
        assert first in page and "<b>the</b>" not in page
        edited = {"answer": "accept", "text": "Name branches after tickets.\r\nAlways."}
        assert served.ask(f"memories/{second}", edited).status == 303
        unchanged = {"answer": "accept", "text": f"{kept_text}\r\n"}
        assert served.ask(f"memories/{first}", unchanged).status == 303
        assert "There is nothing to review" in served.page("memories")
        assert served.ask(f"memories/{first}", {"answer": "reject"}).status == 404
    with own_store(facts) as store:
        memories = store.memories([first, second])
    assert memories[second].text == "Name branches after tickets.\nAlways."
    assert memories[first].text == kept_text
    assert {memory.status for memory in memories.values()} == {MemoryStatus.ACTIVE}


def test_a_reader_changes_nothing(facts: Path) -> None:
    """Without `--edit` no form is shown and none is taken; nor does a GET change anything."""
    with own_store(facts) as store:
        before = waiting(store)
    first = next(iter(before))
    with serving_pages(facts, may_edit=False) as served:
        assert "<textarea" not in served.page("memories")
        assert served.ask(f"memories/{first}", {"answer": "accept"}).status == 400
    with serving_pages(facts, may_edit=True) as served:
        assert served.ask(f"memories/{first}?answer=accept").status == 404
        assert served.ask(f"memories/{first}", {"answer": "perhaps"}).status == 400
        assert served.ask(f"memories/{first}", {}).status == 400
    with own_store(facts) as store:
        assert waiting(store) == before


async def test_a_page_that_reads_cannot_write(repository: Path) -> None:
    """Every page leaves the rows of the store as they were."""

    def rows() -> list[object]:
        with sqlite3.connect(store_file(repository)) as connection:
            tables = ("turn", "receipt", "event", "memory_row", "judgment", "call")
            return [connection.execute(f"SELECT * FROM {name}").fetchall() for name in tables]

    before = rows()
    with serving_pages(repository, may_edit=True) as served:
        for turn in turn_ids(served.page()):
            served.page(f"turn/{turn}/now")
        for path in ("?q=basket", "memories", "report"):
            served.page(path)
    assert rows() == before


async def test_the_figures_of_a_turn_are_json(repository: Path) -> None:
    """What the page of a running turn asks for counts candidates, judgments, calls and dollars."""
    with serving_pages(repository, may_edit=False) as served:
        oldest = turn_ids(served.page())[-1]
        live = json.loads(served.page(f"turn/{oldest}/now"))
    assert live["state"] == "done" and live["judged"] == live["candidates"] > 3
    assert live["best"][0]["name"] == "Basket.total" and live["best"][0]["score"] == 0.95


async def test_two_turns_are_compared(repository: Path) -> None:
    """The earlier comes first, however they are named; what rose, fell and was chosen is
    listed, and every name is text."""
    with serving_pages(repository, may_edit=False) as served:
        newest, oldest = turn_ids(served.page())
        assert f"compare?turn={oldest}&amp;turn={newest}" in served.page()
        page = served.page(f"compare?turn={newest}&turn={oldest}")
        assert page == served.page(f"compare?turn={oldest}&turn={newest}")
        assert page.index(f"turn/{oldest}") < page.index(f"turn/{newest}")
        block = re.search(r'id="turn-data">(.*?)</script>', page, re.DOTALL)
        assert block is not None
        data = json.loads(block[1])
        for wrong in (
            "compare",
            f"compare?turn={newest}",
            f"compare?turn={newest}&turn={newest}",
        ):
            assert served.ask(wrong).status == 400
        assert served.ask(f"compare?turn={newest}&turn=t_none").status == 404
    changes = {
        name: (before, now)
        for name, before, now in zip(data["names"], data["before"], data["scores"], strict=True)
    }
    assert changes["Basket.total"][0] > 900 > changes["Basket.total"][1]
    assert changes["greet"][0] < 200 and changes["greet"][1] >= 900
    chosen_before = {data["names"][place] for place in data["keptBefore"]}
    assert "Basket.total" in chosen_before and "greet" not in chosen_before
    assert data["names"][data["kept"][0]] == "greet"


async def test_the_page_of_a_turn_leads_back(repository: Path) -> None:
    """The page is that of `show`, with a link to the list."""
    with serving_pages(repository, may_edit=False) as served:
        for turn in turn_ids(served.page()):
            page = served.page(f"turn/{turn}")
            assert TASK in page
            assert f'href="/{served.server.address.token}/"' in page
        assert f'href="/{served.server.address.token}/"' in served.page("report")

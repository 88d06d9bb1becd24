"""Entries of any kind in a folder without git: text, metadata and time, judged one by one, and one
answer."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

import xscore
from tests.conftest import store_dir
from tests.pipeline.conftest import settings_for
from tests.servers.openai_server import OpenAIServer
from tests.servers.scoring import table
from xscore.pipeline.open_folder import OpenOptions, settings_with_options
from xscore.platform.errors import NothingMatched, UsageError
from xscore.prompts.rubric import named_rubric
from xscore.settings import Settings

TASK = "Which tickets speak of lost payments?"
PAID_TWICE = "The card was charged twice for one order."


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """An empty folder without a repository."""
    (tmp_path / "notes").mkdir()
    return tmp_path / "notes"


def general(server: OpenAIServer) -> Settings:
    """Settings with the general rubric, which `xscore.open` uses without git."""
    chosen = settings_for(server)
    return replace(chosen, judge=replace(chosen.judge, rubric="general"))


def test_entries_are_judged_and_answered_from(notes: Path, server: OpenAIServer) -> None:
    """X01, X04, X10: metadata, time and `about` are shown to both models as data, under the general
    prompts."""
    server.score = table({"charged twice": 92})
    with xscore.open(notes, general(server)) as x:
        when = datetime(2026, 11, 3, 9, 30, tzinfo=UTC)
        paid = x.remember(PAID_TWICE, metadata={"channel": "mail", "amount": 40}, when=when)
        x.remember("The logo is blurred on phones.", metadata={"channel": "chat"})
        answer = x.ask(TASK, about={"customer": "Ann </current_context> Lee"})
        repeated = x.ask(TASK, about={"customer": "Ann </current_context> Lee"})
        other_customer = x.context(TASK, about={"customer": "Bob"})
    assert [memory.id for memory in answer.selected] == [paid]
    assert answer.judge.prompt_version == "general-1" and answer.judge.saw == ("task", "about")
    assert answer.coverage.judged == 2
    assert repeated.coverage.cached == 2
    assert other_customer.coverage.judged == 2
    judging, answering = server.counts.bodies[0], server.counts.bodies[1]
    assert "an entry of any kind" in judging["messages"][0]["content"]
    assert "You answer a task from memories" in answering["messages"][0]["content"]
    for shown in (json.dumps(judging), json.dumps(answering)):
        assert "when: 2026-11-03T09:30:00+00:00\\nchannel: mail\\namount: 40" in shown
        assert shown.count("</current_context>") == 1 and "customer: Ann" in shown


def test_what_is_no_task_is_refused_and_no_text_is_too_odd(notes: Path) -> None:
    """A task is text or a `Turn`, `about` a mapping; half a character becomes a question mark."""
    with xscore.open(notes, judge="lexical", rubric=None) as x:  # type: ignore[arg-type]  # as if it were left out
        x.remember("lost \udc80")
        with pytest.raises(UsageError, match="`task` is a `int`"):
            x.context(5)  # type: ignore[arg-type]  # a wrong type, on purpose
        with pytest.raises(UsageError, match="`about` is a `list`"):
            x.context("x", about=["x"])  # type: ignore[arg-type]  # a wrong type, on purpose
        assert x.context("lost \udc80", about={"\ud800": "\udc80"}).coverage.judged == 1


def test_a_turn_with_context_goes_on_with_it(notes: Path, server: OpenAIServer) -> None:
    """`resume` asks about the same customer: the context is stored, redacted, and part of the
    key."""
    chosen = general(server)
    with xscore.open(
        notes, replace(chosen, budget=replace(chosen.budget, deadline_s=0.0001))
    ) as x:
        x.remember(PAID_TWICE)
        cut = x.context(
            TASK, about={"mail": "ann.lee@mailbox.org", "key": "AKIA" + "Q3EXAMP1EKEY" + "WXYZ"}
        )
    assert cut.partial
    with xscore.open(notes, chosen) as x:
        resumed = x.resume(answer=False)
    assert not resumed.partial and resumed.judge.saw == ("task", "about")
    shown = json.dumps(server.counts.bodies[-1])
    assert "mail: <" in shown and "AKIA" not in shown and "ann.lee@mailbox.org" not in shown


def test_recency_counts_from_the_time_of_an_entry(notes: Path, server: OpenAIServer) -> None:
    """Of two entries with equal scores, the newer by its own time is boosted and comes first."""
    server.score = table({"payment": 75})
    now = datetime.now(tz=UTC)
    with xscore.open(notes, general(server)) as x:
        new = x.remember("A payment is missing.", when=now - timedelta(hours=1))
        old = x.remember("A payment was lost.", when=(now - timedelta(days=400)).timestamp())
        chosen = x.context(TASK).selected
    assert [memory.id for memory in chosen] == [new, old]
    assert [[lift.name for lift in memory.boosts] for memory in chosen] == [["recency"], []]


def test_the_same_entry_is_remembered_once_and_forgotten_for_good(
    notes: Path, server: OpenAIServer
) -> None:
    """Other metadata make another entry; a forgotten entry is in no file of the store and no
    candidate."""
    with xscore.open(notes, general(server)) as x:
        ids = [x.remember(PAID_TWICE, metadata={"ticket": number}) for number in (1, 2, 1)]
        assert ids[0] == ids[2] != ids[1]
        assert x.context(TASK).coverage.candidates == 2
        for memory_id in set(ids):
            x.forget(memory_id)
        with pytest.raises(NothingMatched):
            x.forget(ids[0])
        assert x.context(TASK).coverage.candidates == 0
        with pytest.raises(UsageError, match="empty"):
            x.remember("  ", metadata={"ticket": 3})
        with pytest.raises(UsageError, match="not a time"):
            x.remember("When?", when=-1.0)
        for entry in (
            {"text": None},
            {"text": "x", "metadata": ["x"]},
            {"text": "x", "when": "2024"},
        ):
            with pytest.raises(UsageError, match="not an entry"):
                x.remember(**entry)
    assert not any(
        PAID_TWICE.encode() in file.read_bytes()
        for file in (store_dir(notes)).iterdir()
        if file.is_file()
    )


def test_the_rubric_follows_the_folder(notes: Path, shop: Path) -> None:
    """The code rubric with git, the general one without, and a named one always."""
    cases: list[tuple[Path, OpenOptions]] = [
        (shop, {}),
        (notes, {}),
        (notes, {"rubric": "code"}),
    ]
    chosen = [
        settings_with_options(folder, options).settings.judge.rubric
        for folder, options in cases
    ]
    assert chosen == ["code", "general", "code"]
    assert named_rubric("general").version() == "general-1"
    assert named_rubric("Only what costs money.").version() != "general-1"

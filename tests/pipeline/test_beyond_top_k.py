"""Every passing memory is shown or named, near misses are listed, and all reports agree."""

import json
from itertools import groupby
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.conftest import MakeRepo, git
from tests.pipeline.conftest import settings_for
from tests.servers.openai_server import OpenAIServer
from tests.servers.scoring import table
from tests.store.conftest import put
from xscore.cli.answer_text import render_lines, render_selection, shown_memories
from xscore.pipeline.build import Pipeline
from xscore.records.calls import Stage
from xscore.records.memory import Kind, Layer, Memory, MemoryDetails, MemorySource
from xscore.records.turn import Turn
from xscore.settings import JudgeSettings
from xscore.store import memory_writer

TASK = Turn(task="Round every price down.")
PASSING = 29


@pytest.fixture
def prices(make_repo: MakeRepo) -> Path:
    """A repository of forty functions in four files, some calling each other."""
    template = "def price_{0}(amount: int) -> int:\n    return price_{1}(amount) + {0}\n"
    return make_repo(
        {
            f"f{file}.py": "\n\n".join(
                template.format(f"{n:02}", f"{n + 1:02}") for n in range(file, 40, 4)
            )
            for file in range(4)
        }
    )


def scored(server: OpenAIServer) -> None:
    """Let 29 pass, five come near, and the rest fail."""
    scores = {}
    for n in range(40):
        below = 60 if n < 34 else 5
        scores[f"price_{n:02}(amount: int)"] = 98 - n if n < PASSING else below
    server.score = table(scores)


async def test_what_passed_without_a_place_is_named(prices: Path, server: OpenAIServer) -> None:
    """Of 29 that passed, 15 are shown with reasons; 14 and the near ones are named by file, within
    5 %."""
    scored(server)
    async with Pipeline.open(prices, settings_for(server)) as pipeline:
        answer = await pipeline.context(TASK)
        repeated = await pipeline.context(TASK)
        body = json.loads((await pipeline.context(TASK, form="json")).bundle or "")
    shown, _, omitted = (answer.bundle or "").partition("<left_out>")
    assert len(answer.selected) == 15 and shown.count("; why: listed as price_") == 15
    lines = omitted.split("\n")
    passed = lines[
        lines.index("Passed as well, but all places were taken:") + 1 : lines.index(
            "Near, but below the threshold:"
        )
    ]
    assert len(passed) == 14
    files = [name for name, _ in groupby(passed, key=lambda line: line.split(":")[0])]
    assert sorted(files) == ["f0.py", "f1.py", "f2.py", "f3.py"]
    assert all(" price_" in line and " 0." in line for line in passed)
    assert any("listed as price_" in line for line in passed)
    assert len(omitted) / 3 <= 0.05 * 8_000 + 20
    assert repeated.bundle == answer.bundle, "reasons come from the cache as well"
    assert len(body["left_out"]) + body["left_out_unnamed"] == len(answer.near_misses) == 19
    ids_passed = {miss.id for miss in answer.near_misses if not miss.below_threshold}
    assert ids_passed <= {*(memory["id"] for memory in body["left_out"]), *body["left_out_ids"]}
    assert {memory["cause"] for memory in body["left_out"]} <= {"no_place", "below"}
    assert all(memory["score"] >= 0.5 for memory in body["left_out"])


async def test_explain_and_all_scores_agree(
    prices: Path, server: OpenAIServer, tmp_path: Path
) -> None:
    """Score and boosts of each memory are the same in both, also days and a commit later, listed or
    not."""
    scored(server)
    source = prices / "f1.py"
    source.write_text(source.read_text() + "\n\ndef refund() -> None: ...\n")
    target, now = tmp_path / "scores.jsonl", 1_900_000_000.0
    async with Pipeline.open(prices, settings_for(server), clock=lambda: now) as pipeline:
        answer = await pipeline.ask(TASK, answer=False, all_scores=target)
    source.write_text(source.read_text() + "\n# later\n")
    git(prices, "add", "-A")
    git(prices, "commit", "-qm", "later")
    scores = {row["id"]: row for row in map(json.loads, target.read_text().splitlines())}
    assert any(row["boosts"] for row in scores.values())
    async with Pipeline.open(
        prices, settings_for(server), clock=lambda: now + 10 * 86_400
    ) as pipeline:
        for id_, row in scores.items():
            explanation = await pipeline.explain(id_, turn_id=answer.turn_id)
            assert explanation.memory is not None, explanation.words
            assert explanation.memory.score == pytest.approx(row["score"], abs=1e-6)
            boosts = [
                (boost.name, round(boost.amount, 6)) for boost in explanation.memory.boosts
            ]
            assert boosts == [(boost["name"], boost["amount"]) for boost in row["boosts"]]


@pytest.mark.parametrize("form", ["xml", "markdown", "json"])
async def test_a_small_budget_shows_memories_first(
    prices: Path, server: OpenAIServer, form: str
) -> None:
    """Under 600 tokens most of the room is for memories, and the list of the others keeps to its
    share."""
    scored(server)
    async with Pipeline.open(prices, settings_for(server)) as pipeline:
        text = (await pipeline.context(TASK, form=form, max_tokens=600)).bundle or ""
    assert text.count("return price_") >= 3
    assert len(text) / 3 < 1_000


async def test_without_a_model_and_with_nothing_over_the_cut_the_best_five_are_named(
    shop: Path, server: OpenAIServer
) -> None:
    """Exit 1, the nearest five are shown as below the threshold, and no answering model is called
    unless requested."""
    settings = replace(settings_for(server), judge=JudgeSettings(model="lexical"))
    turn = Turn(
        task="where are wallets of subscribers abroad refunded by bank transfer for a cart?"
    )
    async with Pipeline.open(shop, settings) as pipeline:
        answer = await pipeline.ask(turn)
        assert server.counts.requests == 0
        anyway = await pipeline.ask(turn, answer_anyway=True)
    assert (answer.exit_code, answer.selected, answer.answer) == (1, (), None)
    below = (answer.bundle or "").partition("Near, but below the threshold:\n")[2].split("\n")
    assert len(below) == 6 and below[5] == "</left_out>"
    assert len(answer.near_misses) >= 5
    assert anyway.answer == server.answer and anyway.exit_code == 0


async def test_what_is_only_filled_in_is_marked_and_pays_for_no_answer(
    shop: Path, server: OpenAIServer
) -> None:
    """Near memories fill the places where none passed: marked, explained by their rule, and no
    model answers."""
    settings = replace(settings_for(server), judge=JudgeSettings(model="lexical"))
    settings = replace(settings, selection=replace(settings.selection, lexical_threshold=1.0))
    turn = Turn(task="where does the cart take a discount above one hundred?")
    async with Pipeline.open(shop, settings) as pipeline:
        answer = await pipeline.ask(turn)
        explained = await pipeline.explain(answer.selected[0].id)
    assert (answer.exit_code, answer.answer, server.counts.requests) == (1, None, 0)
    assert {(memory.placed_by, memory.below_threshold) for memory in answer.selected} == {
        ("filled", True)
    }
    first = render_lines(answer).splitlines()[0]
    assert answer.selected[0].entity == "discount"
    assert first.count(f"~{answer.selected[0].score:.2f}") == 1
    assert (explained.outcome, "filled in" in explained.words) == ("selected", True)


async def test_where_a_model_chose_nothing_no_answer_is_paid(
    shop: Path, server: OpenAIServer
) -> None:
    """Exit 1 and no answering call unless requested; without an answer wanted the turn is complete,
    exit 0."""
    server.score = lambda _memory, _asked: (2, "unrelated")
    turn = Turn(task="feed the quokka")
    async with Pipeline.open(shop, settings_for(server)) as pipeline:
        answer = await pipeline.ask(turn)
        context = await pipeline.ask(turn, answer=False)
        anyway = await pipeline.ask(turn, answer_anyway=True)
    assert Stage.PRIMARY in answer.usage
    assert answer.exit_code == 1
    assert answer.answer is None
    assert answer.spent(Stage.PRIMARY).attempts == 0
    assert any("--answer-anyway" in warning for warning in answer.warnings)
    assert (context.exit_code, anyway.exit_code, anyway.answer) == (0, 0, server.answer)


async def test_what_is_unrelated_is_not_called_near(shop: Path, server: OpenAIServer) -> None:
    """If the best score is in the rubric's lowest band, the page says that nothing comes close and
    names none."""
    server.score = lambda _memory, _asked: (2, "unrelated")
    async with Pipeline.open(shop, settings_for(server)) as pipeline:
        answer = await pipeline.ask(Turn(task="feed the quokka"))
    assert answer.near_misses and not shown_memories(answer)
    assert "Nothing scored near it." in render_selection(answer)


def stated(kind: Kind, title: str, text: str, *, polarity: str = "") -> Memory:
    """Return a memory that a person stated."""
    memory, _ = memory_writer.make_memory(
        layer=Layer.GOVERNANCE if kind is Kind.DECISION else Layer.PROJECT,
        kind=kind,
        title=title,
        text=text,
        source=MemorySource.EXPLICIT,
        details=MemoryDetails(polarity=polarity),
        updated_at=1.0,
        entity=title,
    )
    return memory


async def test_known_failures_and_decisions_that_passed_stand_in_the_governance_section(
    shop: Path, server: OpenAIServer
) -> None:
    """Every memory that passed is named, even if its layer has no room for its text; others are
    not."""
    server.score = lambda memory, turn: (90, "fits") if "quokka" in memory.text else (2, "no")
    decision = stated(Kind.DECISION, "Quokkas pay half", "The quokka pays half. " * 200)
    failure = stated(Kind.PATTERN, "Fails", "The quokka test fails.", polarity="antipattern")
    unrelated = stated(Kind.DECISION, "Tabs", "We use tabs.")
    async with Pipeline.open(shop, settings_for(server)) as pipeline:
        put(pipeline.store.connection, decision, failure, unrelated)
        forms = ("xml", "markdown", "json", "memory")
        texts = [(await pipeline.context(TASK, form=form)).bundle or "" for form in forms]
        plain = (await pipeline.context(Turn(task="Where is the cart?"))).bundle or ""
    xml, markdown, body, numbered = texts
    section = xml.partition("<governance>\n")[2].partition("\n</governance>")[0]
    assert section.startswith("Known failure patterns:\n- ")
    assert "Latest decisions:\n- " in section
    assert decision.id in section and failure.id in section and unrelated.id not in section
    assert "# Governance\n\nKnown failure patterns:" in markdown
    assert json.loads(body)["governance"]["decisions"]
    assert "## Known Failure Patterns" in numbered
    assert ("<governance>" in plain) is ("quokka" in plain)

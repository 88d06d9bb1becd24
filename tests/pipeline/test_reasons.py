"""Reasons for a decision model's choice: one call of a chat model, stored, or absent with a
cause."""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.pipeline.conftest import ask
from tests.pipeline.test_decision_turns import settings_for as decision_settings
from tests.servers import OpenAIServer
from tests.servers.decision_server import DecisionServer
from tests.servers.faults import Fault
from tests.servers.scoring import table
from xscore.cli.answer_account import render_absent_reasons
from xscore.cli.answer_text import render_selection
from xscore.pipeline.build import Pipeline
from xscore.pipeline.reasons import MOST_WORDS, reason_model
from xscore.platform.errors import UsageError
from xscore.providers.spec import ModelSpec
from xscore.records.calls import Stage
from xscore.records.receipt import Answer, ReasonsAccount
from xscore.settings import BudgetSettings, OpenAISettings, ProviderSettings, Settings

CHOSEN = {"::total": 95, "::discount": 85, "Discounts": 80}


@pytest.fixture
def judge() -> Iterator[DecisionServer]:
    """A host of decision models."""
    with DecisionServer(score=table(CHOSEN, default=4)) as running:
        yield running


@pytest.fixture
def chat() -> Iterator[OpenAIServer]:
    """A host of chat models that scores everything low and still gives reasons."""
    with OpenAIServer(
        score=lambda memory, _: (7, f"because of {memory.entity}"), reasons_from=0
    ) as running:
        yield running


def settings_for(
    judge: DecisionServer, chat: OpenAIServer, reason_model: str = "openai:judge-2"
) -> Settings:
    """Settings with both hosts."""
    settings = decision_settings(judge, reason_model=reason_model)
    return replace(settings, openai=OpenAISettings(base_url=chat.url))


def reasons(answer: Answer) -> dict[str, str]:
    """Return the reason of every kept memory, by entity."""
    return {memory.entity: memory.reason for memory in answer.selected}


async def test_one_call_gives_the_reasons_and_a_cached_turn_shows_them_again(
    shop: Path, judge: DecisionServer, chat: OpenAIServer
) -> None:
    """One call with its own stage in the ledger, whose scores are ignored; a repeat costs
    nothing."""
    settings = settings_for(judge, chat)
    first = await ask(shop, settings)
    expected = {
        name: f"because of {name}" for name in ("total", "discount", "Shop > Discounts")
    }
    assert reasons(first) == expected
    assert [memory.raw_score for memory in first.selected] == [0.95, 0.85, 0.8]
    assert first.reasons == ReasonsAccount("openai:judge-2", 3, 3)
    assert first.spent(Stage.REASON).calls == chat.counts.judging_requests == 1
    assert first.spent(Stage.JUDGE).calls == judge.requests
    assert "because of total" in render_selection(first) and render_absent_reasons(first) == ""
    repeated = await ask(shop, settings)
    assert (reasons(repeated), repeated.reasons) == (expected, ReasonsAccount())
    assert Stage.REASON not in repeated.usage and chat.counts.judging_requests == 1
    async with Pipeline.open(shop, settings) as pipeline:
        explanation = await pipeline.explain("shop/prices.py::total")
    assert explanation.memory is not None and explanation.memory.reason == "because of total"


async def test_an_edit_asks_for_the_reasons_of_what_is_new_alone(
    shop: Path, judge: DecisionServer, chat: OpenAIServer
) -> None:
    """Stored reasons are shown; the second call has only the edited memory."""
    settings = settings_for(judge, chat)
    await ask(shop, settings)
    readme = shop / "README.md"
    readme.write_text(readme.read_text().replace("tenth", "fifth"))
    edited = await ask(shop, settings)
    assert (edited.reasons.asked, chat.counts.judging_requests) == (1, 2)
    assert all(reasons(edited).values())


async def test_a_reason_is_short_and_holds_no_secret(
    shop: Path, judge: DecisionServer, chat: OpenAIServer
) -> None:
    """Text that a model repeats or invents is redacted and cut like every reply."""
    secret = "sk-proj-" + "a1B2c3D4" * 6
    chat.score = lambda *_: (7, f"key {secret} " + "word " * 30)
    answer = await ask(shop, settings_for(judge, chat))
    assert all(reasons(answer).values())
    for reason in reasons(answer).values():
        assert secret not in reason and len(reason.removesuffix(" …").split()) <= MOST_WORDS


@pytest.mark.parametrize(
    "case", ["auto", "no such model", "host fails", "deadline", "cap", "unreadable"]
)
async def test_absent_reasons_are_said_to_be_and_never_made_up(
    shop: Path, judge: DecisionServer, chat: OpenAIServer, case: str
) -> None:
    """No chat model, a failing one, no time or no money: the choice is kept, and the receipt
    says why it has no reasons.
    """
    named = {"auto": "auto", "no such model": "nobody:x", "cap": "openai:gpt-6-luna"}.get(
        case, "openai:judge-2"
    )
    settings = settings_for(judge, chat, named)
    if case == "host fails":
        chat.misbehave(Fault.WRONG_KEY)
    if case == "unreadable":
        chat.misbehave(Fault.MALFORMED_CONTENT)
    if case == "deadline":
        settings, chat.latency_s = (
            replace(settings, budget=BudgetSettings(deadline_s=2.0)),
            90.0,
        )
    if case == "cap":
        settings = replace(
            settings,
            budget=BudgetSettings(max_usd=Decimal("0.0002")),
            provider=ProviderSettings(price="vendor"),
        )
    answer = await ask(shop, settings)
    if case == "deadline" and answer.coverage.unjudged:
        # A machine that could not judge them in time.
        answer = await ask(shop, replace(settings, budget=BudgetSettings(deadline_s=16.0)))
    assert answer.coverage.unjudged == 0 and len(answer.selected) == 3 and answer.exit_code == 0
    assert set(reasons(answer).values()) == {""}
    assert answer.reasons.absent and "no reasons: " in render_absent_reasons(answer)
    is_asked = case in ("host fails", "deadline", "cap", "unreadable")
    assert (answer.reasons.asked, answer.reasons.given) == (3 if is_asked else 0, 0)
    assert chat.counts.judging_requests <= 1


async def test_reasons_that_nobody_wants_are_not_missed(
    shop: Path, judge: DecisionServer, chat: OpenAIServer
) -> None:
    """`judge.reason_model = none` sends nothing, and the receipt does not mention it each turn."""
    answer = await ask(shop, settings_for(judge, chat, "none"))
    assert answer.reasons.absent == ""
    assert answer.reasons.asked == 0
    assert chat.counts.judging_requests == 0


def test_by_default_the_vendors_own_chat_model_is_asked_and_no_other_vendors() -> None:
    """OpenAI's model by chat; another vendor's key is no permission to send it text."""
    assert reason_model("auto", ModelSpec("openai-decisions", "gpt-6-luna")) == ModelSpec(
        "openai", "gpt-6-luna"
    )
    assert reason_model("auto", ModelSpec("typesafe", "jev-1.14.0")) is None
    assert reason_model("none", ModelSpec("openai-decisions", "gpt-6-luna")) is None
    assert reason_model("openai-chat:gpt-6-luna", ModelSpec("typesafe", "x")) == ModelSpec(
        "openai", "gpt-6-luna"
    )
    for no_chat in ("typesafe:jev-1.14.0", "lexical"):
        with pytest.raises(UsageError, match="is not a chat model"):
            reason_model(no_chat, ModelSpec("typesafe", "x"))
    assert reason_model("anthropic:claude-haiku-5-5", ModelSpec("typesafe", "x")) == ModelSpec(
        "anthropic", "claude-haiku-5-5"
    )

"""What the caps allow: reported before the first call, with one command to continue afterwards."""

import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from tests.servers.billing import JUDGE, VENDOR, BillingServer, vendor
from tests.servers.scoring import table
from xscore import Pipeline, Settings, Turn
from xscore.records.events import Note, Observer, TurnEvent
from xscore.records.receipt import Answer
from xscore.settings import (
    BudgetSettings,
    JudgeSettings,
    OpenAISettings,
    PrimarySettings,
    Secret,
    validate_group,
)

TURN = Turn(task="the discount is taken twice")
UNPRICED = "unheard-of-1"


class Listener(Observer):
    """Keeps each note with the number of calls the host had received."""

    def __init__(self, host: BillingServer) -> None:
        self.host = host
        self.heard: list[tuple[str, int]] = []

    def on(self, event: TurnEvent) -> None:
        """Keep a note."""
        if isinstance(event, Note):
            self.heard.append((event.text, self.host.counts.requests))

    def about(self, words: str) -> list[int]:
        """Return how many calls had been made when this note was given."""
        return [calls for message, calls in self.heard if words in message]


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[BillingServer]:
    """A priced vendor, reached by name."""
    with (
        BillingServer(score=table({"::total": 95}, default=4)) as running,
        vendor(running) as environ,
    ):
        for name in ("HTTP_PROXY", "NO_PROXY"):
            monkeypatch.setenv(name, environ[name])
        yield running


def settings(
    *, cap: str | None, judge: str = JUDGE, answerer: str = JUDGE, max_output_tokens: int = 800
) -> Settings:
    """Judge and answer at the vendor, under a cap for the turn."""
    return Settings(
        judge=validate_group(
            JudgeSettings, {"model": f"openai:{judge}", "probe": False, "pack_size": 1}
        ),
        primary=PrimarySettings(
            model=f"openai:{answerer}", max_output_tokens=max_output_tokens
        ),
        openai=OpenAISettings(base_url=VENDOR, api_key=Secret("sk-test-0123456789abcdef")),
        budget=BudgetSettings(max_usd=None if cap is None else Decimal(cap)),
    )


async def ask(
    shop: Path, chosen: Settings, listener: Listener, *, answer: bool = True
) -> Answer:
    """Run one turn."""
    async with Pipeline.open(shop, chosen, observer=listener) as pipeline:
        return await pipeline.ask(TURN, answer=answer)


@pytest.mark.parametrize(
    ("judge", "answerer"), [(UNPRICED, JUDGE), (JUDGE, UNPRICED)], ids=["judge", "answerer"]
)
async def test_a_model_that_no_cap_can_hold_is_named_before_the_first_send(
    shop: Path, host: BillingServer, judge: str, answerer: str
) -> None:
    """Under a cap a model without a price is reported before anything is sent, and in the
    receipt."""
    listener = Listener(host)
    answer = await ask(shop, settings(cap="1", judge=judge, answerer=answerer), listener)
    assert listener.about(
        f"{UNPRICED} at api.openai.com has no known price: no cap on dollars can"
    ) == [0]
    assert any("no known price" in warning for warning in answer.warnings)
    assert host.counts.requests > 0


async def test_that_judging_leaves_no_room_for_the_answer_is_foretold(
    shop: Path, host: BillingServer
) -> None:
    """If judging fits but the largest answer does not, that is reported before the first call, with
    the binding cap."""
    listener = Listener(host)
    answer = await ask(shop, settings(cap="0.05", max_output_tokens=30_000), listener)
    assert listener.about(
        "above the cap of $0.05 on a turn (--max-usd): there may be no room for the answer"
    ) == [0]
    assert answer.exit_code == 4 and answer.answer is None


@pytest.mark.parametrize("cap", ["0", "0.003", "0.01", "0.03"])
async def test_a_turn_short_of_dollars_names_one_amount_and_it_is_enough(
    shop: Path, host: BillingServer, cap: str
) -> None:
    """Whatever was left undone, one command finishes the turn with its answer, and no other is
    named."""
    short = settings(cap=cap, max_output_tokens=3_000)
    answer = await ask(shop, short, Listener(host))
    assert answer.exit_code == 4
    printed = "\n".join(
        (*answer.warnings, *(absent.detail for absent in answer.unjudged.sample))
    )
    ((turn, enough),) = re.findall(r"xscore continue (\S+) --max-usd (\S+)`", printed)
    assert "--max-usd" not in printed.replace(f"--max-usd {enough}`", "").replace(
        "(--max-usd)", ""
    )
    assert "failed" not in printed and turn == answer.turn_id
    async with Pipeline.open(shop, settings(cap=enough, max_output_tokens=3_000)) as pipeline:
        resumed = await pipeline.resume(turn)
    assert resumed.exit_code == 0
    assert resumed.coverage.unjudged == 0
    assert resumed.answer is not None

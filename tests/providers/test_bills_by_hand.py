"""Bills of both vendors calculated by hand, from the host's usage to the ledger's dollars.

Each case writes its arithmetic out: tokens times dollars for a million. Prices as stated by the
vendors in November 2026: gpt-6-luna 0.10 in, 0.01 cached, 0.125 written, 0.50 out (above 272,000
tokens of input: 0.20, 0.02, 0.25, 0.75); gpt-5-mini 0.25, 0.025 cached, 2.00 out; claude-haiku-4-5
1.00, 0.10 cached, 1.25 written for 5 minutes, 2.00 for an hour, 5.00 out; claude-haiku-5-5 0.10,
0.01, 0.125, 0.20, 0.50 (above 100,000: 0.50, 0.05, 0.625, 1.00, 2.50). A batch costs half.
"""

from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from xscore.cache.group_commit import GroupCommit
from xscore.costs.ledger import Ledger, total_spent
from xscore.providers import anthropic, openai
from xscore.providers.attempts import Metered
from xscore.providers.prices import call_price, counterfactual_cost
from xscore.records.calls import Completion, Finish, Request, Stage, Usage
from xscore.store.opening import connect_store

EXACT = Decimal("1e-9")
OPENAI, ANTHROPIC = "api.openai.com", "api.anthropic.com"
LUNA, MINI, HAIKU, LONG_HAIKU = (
    "gpt-6-luna",
    "gpt-5-mini",
    "claude-haiku-4-5",
    "claude-haiku-5-5",
)
NOVEMBER = 1_795_000_000.0
"""A time in November 2026."""


def openai_said(
    input_tokens: int, out: int, *, cached: int = 0, written: int = 0, thought: int = 0
) -> Usage:
    """Read an OpenAI usage object: cached and written tokens are part of the prompt, thinking of
    the output."""
    usage = openai.reported_usage(
        {
            "prompt_tokens": input_tokens,
            "completion_tokens": out,
            "total_tokens": input_tokens + out,
            "prompt_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written},
            "completion_tokens_details": {"reasoning_tokens": thought},
        }
    )
    assert usage is not None
    return usage


def anthropic_said(
    fresh: int, out: int, *, read: int = 0, brief: int = 0, hour: int = 0, thought: int = 0
) -> Usage:
    """Read an Anthropic usage object: read and written tokens are counted separately from the
    uncached input."""
    usage = anthropic.reported_usage(
        {
            "input_tokens": fresh,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": brief + hour,
            "cache_creation": {
                "ephemeral_5m_input_tokens": brief,
                "ephemeral_1h_input_tokens": hour,
            },
            "output_tokens": out,
            "output_tokens_details": {"thinking_tokens": thought},
        }
    )
    assert usage is not None
    return usage


CASES: list[tuple[str, str, str, Usage, str, str]] = [
    # what, model, host, usage, dollars, dollars by batch
    ("plain", LUNA, OPENAI, openai_said(20_000, 300), "0.00215", "0.001075"),
    # 20,000 × 0.10/M = 0.002; 300 × 0.50/M = 0.00015
    (
        "cached input",
        LUNA,
        OPENAI,
        openai_said(20_000, 300, cached=16_000),
        "0.00071",
        "0.000355",
    ),
    # 4,000 × 0.10/M = 0.0004; 16,000 × 0.01/M = 0.00016; 0.00015 out
    (
        "cache write",
        LUNA,
        OPENAI,
        openai_said(20_000, 300, written=19_000),
        "0.002625",
        "0.0013125",
    ),
    # 1,000 × 0.10/M = 0.0001; 19,000 × 0.125/M = 0.002375; 0.00015 out
    ("reasoning", MINI, OPENAI, openai_said(10_000, 900, thought=700), "0.0043", "0.00215"),
    # 10,000 × 0.25/M = 0.0025; 900 × 2.00/M = 0.0018: the 700 are among the 900
    ("at the tier's edge", LUNA, OPENAI, openai_said(272_000, 1_000), "0.0277", "0.01385"),
    # 272,000 × 0.10/M = 0.0272; 1,000 × 0.50/M = 0.0005
    (
        "a token over the tier",
        LUNA,
        OPENAI,
        openai_said(272_001, 1_000),
        "0.0551502",
        "0.0275751",
    ),
    # 272,001 × 0.20/M = 0.0544002; 1,000 × 0.75/M = 0.00075
    (
        "long and cached",
        LUNA,
        OPENAI,
        openai_said(300_000, 0, cached=256_000, written=40_000),
        "0.01592",
        "0.00796",
    ),
    # 4,000 × 0.20/M = 0.0008; 256,000 × 0.02/M = 0.00512; 40,000 × 0.25/M = 0.01
    ("plain", HAIKU, ANTHROPIC, anthropic_said(20_000, 300), "0.0215", "0.01075"),
    # 20,000 × 1.00/M = 0.02; 300 × 5.00/M = 0.0015
    (
        "cached input",
        HAIKU,
        ANTHROPIC,
        anthropic_said(4_000, 300, read=16_000),
        "0.0071",
        "0.00355",
    ),
    # 4,000 × 1.00/M = 0.004; 16,000 × 0.10/M = 0.0016; 0.0015 out
    (
        "written for 5 min",
        HAIKU,
        ANTHROPIC,
        anthropic_said(1_000, 300, brief=19_000),
        "0.02625",
        "0.013125",
    ),
    # 1,000 × 1.00/M = 0.001; 19,000 × 1.25/M = 0.02375; 0.0015 out
    (
        "written for 1 h",
        HAIKU,
        ANTHROPIC,
        anthropic_said(1_000, 300, hour=19_000),
        "0.0405",
        "0.02025",
    ),
    # 1,000 × 1.00/M = 0.001; 19,000 × 2.00/M = 0.038; 0.0015 out
    (
        "all kinds",
        HAIKU,
        ANTHROPIC,
        anthropic_said(7, 11, read=1_001, brief=503, hour=209),
        "0.00120885",
        "0.000604425",
    ),
    # 7 × 1/M = 0.000007; 1,001 × 0.10/M = 0.0001001; 503 × 1.25/M = 0.00062875; 209 × 2/M =
    # 0.000418;
    # 11 × 5/M = 0.000055
    (
        "thinking",
        HAIKU,
        ANTHROPIC,
        anthropic_said(10_000, 900, thought=700),
        "0.0145",
        "0.00725",
    ),
    # 10,000 × 1.00/M = 0.01; 900 × 5.00/M = 0.0045: the 700 are among the 900
    (
        "at the tier's edge",
        LONG_HAIKU,
        ANTHROPIC,
        anthropic_said(60_000, 100, read=40_000),
        "0.00645",
        "0.003225",
    ),
    # read and written count towards the tier: 60,000 × 0.10/M = 0.006; 40,000 × 0.01/M = 0.0004;
    # 100 × 0.50/M = 0.00005
    (
        "a token over",
        LONG_HAIKU,
        ANTHROPIC,
        anthropic_said(60_000, 100, read=40_000, hour=1),
        "0.032251",
        "0.0161255",
    ),
    # 60,000 × 0.50/M = 0.03; 40,000 × 0.05/M = 0.002; 1 × 1.00/M = 0.000001; 100 × 2.50/M = 0.00025
]


@pytest.mark.parametrize(("description", "model", "host", "usage", "usd", "batch_usd"), CASES)
def test_a_bill_is_what_a_hand_works_out(
    description: str, model: str, host: str, usage: Usage, usd: str, batch_usd: str
) -> None:
    """Every kind of token at its own price, each once, and half of it by batch; exact to 1e-9."""
    provider = "anthropic" if host == ANTHROPIC else "openai"
    price = call_price(provider, model, host, usage, at=NOVEMBER)
    batch = call_price.batch(model, host, usage, at=NOVEMBER)
    assert price is not None and abs(price - Decimal(usd)) <= EXACT, description
    assert batch is not None and abs(batch - Decimal(batch_usd)) <= EXACT, description


def judging(
    model: str, *, stage: Stage = Stage.JUDGE, candidates: int = 20, frame_tokens: int = 1_200
) -> Request:
    """Make a request for this model."""
    return Request(
        stage=stage,
        model=model,
        system="",
        content=("",),
        max_output_tokens=1_000,
        input_tokens=20_000,
        reserved_input_tokens=24_000,
        candidates=candidates,
        frame_tokens=frame_tokens,
    )


def test_what_a_call_would_have_cost_otherwise() -> None:
    """A pack of 20 at gpt-6-luna, 16,000 of its 20,000 tokens cached: 0.00071.

    Each figure by hand.
    """
    usage = openai_said(20_000, 300, cached=16_000)
    otherwise = counterfactual_cost(
        "openai", OPENAI, judging(LUNA), usage, cost=Decimal("0.00071")
    )
    # 20,000 × 0.10/M + 300 × 0.50/M.
    assert otherwise.without_prefix_cache == Decimal("0.00215")
    # alone: (20,000 + 19 × 1,200) / 20 = 2,140 in, (300 + 19 × 12) / 20 = 26.4, so 27 out, 20
    # times:
    assert otherwise.without_packs == 20 * (Decimal("0.000214") + Decimal("0.0000135"))
    assert otherwise.by_batch == Decimal("0.000355")


def test_an_answer_is_neither_packed_nor_put_off() -> None:
    """An interactive answer would cost the same without packs and by batch; only its cached input
    could cost more."""
    usage = openai_said(20_000, 300, cached=16_000)
    request = judging(LUNA, stage=Stage.PRIMARY, candidates=0)
    otherwise = counterfactual_cost("openai", OPENAI, request, usage, cost=Decimal("0.00071"))
    assert otherwise.without_packs == Decimal("0.00071")
    assert otherwise.by_batch == Decimal("0.00071")
    assert otherwise.without_prefix_cache == Decimal("0.00215")


class Vendor:
    """A provider that answers as a vendor would, with the next of several usages."""

    name = "openai"

    def __init__(self, host: str, usages: list[Usage]) -> None:
        self.host = host
        self._usages = iter(usages)

    async def complete(self, request: Request, on_text: Any = None) -> Completion:
        """Return an empty answer, at a price."""
        return Completion(
            text="", finish=Finish.STOP, usage=next(self._usages), model=request.model
        )

    async def aclose(self) -> None:
        """Do nothing."""


async def test_the_ledger_holds_the_bills_to_the_last_digit(tmp_path: Path) -> None:
    """Calls of both vendors, metered and recorded: the ledger's sum equals the hand-made one, half
    of it by batch."""
    path = tmp_path / "memory.db"
    async with GroupCommit(path) as commits:
        ledger = Ledger(commits)
        for host in (OPENAI, ANTHROPIC):
            cases = [case for case in CASES if case[2] == host]
            metered = Metered(
                Vendor(host, [case[3] for case in cases]),
                turn_id="t_1",
                record=ledger.record,
                clock=lambda: NOVEMBER,
            )
            for case in cases:
                await metered.complete(judging(case[1]))
    by_hand = sum((Decimal(case[4]) for case in CASES), Decimal(0))
    with closing(connect_store(path)) as reader:
        assert total_spent(reader) == by_hand
        batch = reader.execute("SELECT sum(cost_by_batch) FROM call").fetchone()[0]
    assert Decimal(batch) / 10**12 == by_hand / 2

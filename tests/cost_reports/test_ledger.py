"""The ledger of calls."""

from decimal import Decimal
from pathlib import Path
from sqlite3 import Connection
from typing import Any

import pytest
from msgspec.structs import replace

from xscore.cache.group_commit import GroupCommit
from xscore.cache.judgment_store import StoredJudgments
from xscore.costs.ledger import (
    Ledger,
    UsageTotals,
    calls_of_turn,
    is_estimated,
    learned_chars_per_token,
    total_spent,
)
from xscore.platform.errors import StoreDamaged
from xscore.records.calls import CallRecord, Stage, Usage
from xscore.records.judgment import JudgeIdentity, Judgment
from xscore.records.receipt import StageUsage

JUDGE = JudgeIdentity("openai", "h", "m", "", "judge-2", "memory_first", True)


def call(number: int, **fields: Any) -> CallRecord:
    """Make one attempt."""
    usage = Usage(
        input_tokens=100,
        cached_input_tokens=40,
        cache_write_tokens=5,
        output_tokens=10,
        reasoning_tokens=2,
    )
    record = CallRecord(
        id=f"c_{number}",
        turn_id="t_1",
        stage=Stage.JUDGE,
        provider="openai",
        host="h",
        model="m",
        started_at=1.0,
        duration_s=0.5,
        outcome="ok",
        candidates=20,
        usage=usage,
        cost_usd=Decimal("0.001"),
        estimated=False,
    )
    return replace(record, **fields)


def learned(reader: Connection, *, host: str = "h") -> float | None:
    """Return what the calls made by `call` have taught."""
    return learned_chars_per_token(reader, provider="openai", host=host, model="m")


async def committed(commits: GroupCommit) -> None:
    """Wait until everything queued is committed."""
    await commits.submit(lambda connection: None)


async def test_a_stage_adds_up_exactly(path: Path, reader: Connection) -> None:
    """Tokens and decimals are summed exactly; retries are attempts, not calls; stages and turns do
    not mix."""
    async with GroupCommit(path) as commits:
        ledger = Ledger(commits)
        tab = UsageTotals(ledger.record)
        for number in range(10):
            tab.add(call(number, cost_usd=Decimal("0.1")))
        tab.add(call(10, outcome="rate_limited", usage=Usage(), cost_usd=Decimal(0)))
        tab.add(call(11, stage=Stage.PRIMARY))
        ledger.record(call(12, turn_id="t_2"))
    usage = Usage(
        input_tokens=1000,
        cached_input_tokens=400,
        cache_write_tokens=50,
        output_tokens=100,
        reasoning_tokens=20,
    )
    expected = StageUsage(
        calls=10, attempts=11, usage=usage, cost_usd=Decimal("1.0"), estimated=False
    )
    assert tab.spent(Stage.JUDGE) == expected
    rows = calls_of_turn(reader, "t_1")
    assert sum((row.usage for row in rows if row.stage is Stage.JUDGE), Usage()) == usage
    assert total_spent(reader) == Decimal("1.002")


async def test_one_unpriced_call_makes_the_sum_unpriced(path: Path, reader: Connection) -> None:
    """An unknown price never counts as zero; an estimate marks the sum as estimated."""
    async with GroupCommit(path) as commits:
        tab = UsageTotals(Ledger(commits).record)
        tab.add(call(1))
        tab.add(call(2, cost_usd=None, estimated=True))
        assert tab.spent(Stage.JUDGE).cost_usd is None
        assert tab.spent(Stage.JUDGE).estimated
    assert total_spent(reader) is None


async def test_a_judgment_never_comes_before_its_call(path: Path, reader: Connection) -> None:
    """When a judgment is acknowledged, the record of the call that paid for it is committed."""
    async with GroupCommit(path) as commits:
        ledger, writer = Ledger(commits), StoredJudgments(commits).writer("k", JUDGE)
        for number in range(50):
            ledger.record(call(number))
            await writer([Judgment(f"{number:032x}", 0.5)])
            rows = reader.execute(
                "SELECT (SELECT count(*) FROM call), (SELECT count(*) FROM judgment)"
            ).fetchone()
            assert rows == (number + 1, number + 1)


async def test_characters_a_token_are_learned_and_old_ones_fade(
    path: Path, reader: Connection
) -> None:
    """Each answered call updates its model's ratio; estimated and unknown ones do not."""
    assert learned(reader) is None
    async with GroupCommit(path) as commits:
        ledger = Ledger(commits)
        ledger.record(call(1, chars=400))
        await committed(commits)
        assert learned(reader) == 4.0
        ledger.record(call(2, chars=90_000, estimated=True))
        ledger.record(call(3))
        await committed(commits)
        assert learned(reader) == 4.0
        for number in range(10, 310):
            ledger.record(call(number, chars=300))
        await committed(commits)
        assert learned(reader) == pytest.approx(3.0, abs=0.01)


async def test_a_host_that_lies_teaches_nothing(path: Path, reader: Connection) -> None:
    """Implausible usage, much too high or much too low, is ignored."""
    async with GroupCommit(path) as commits:
        ledger = Ledger(commits)
        ledger.record(call(1, chars=400, usage=Usage(input_tokens=900_000_000)))
        ledger.record(call(2, chars=400, usage=Usage(input_tokens=1)))
        await committed(commits)
        assert learned(reader) is None
        ledger.record(call(3, chars=400))
        await committed(commits)
        assert learned(reader) == 4.0


async def test_one_host_says_nothing_of_another(path: Path, reader: Connection) -> None:
    """A server that claims the name of a vendor's model changes no estimate of the vendor's."""
    async with GroupCommit(path) as commits:
        Ledger(commits).record(call(1, chars=200, host="127.0.0.1"))
        await committed(commits)
    assert learned(reader, host="127.0.0.1") == 2.0
    assert learned(reader) is None


async def test_a_stored_ratio_that_cannot_be_is_not_believed(
    path: Path, reader: Connection
) -> None:
    """A damaged or forged ratio is ignored."""
    async with GroupCommit(path) as commits:
        Ledger(commits).record(call(1, chars=400))
        await committed(commits)
        for chars in (1e-9, 1e9, "nan"):
            reader.execute("UPDATE chars_per_token SET chars = ?", (chars,))
            assert learned(reader) is None


async def test_the_whole_store_is_added_up_in_one_question(
    path: Path, reader: Connection
) -> None:
    """No spending is $0; many large amounts do not overflow; an estimate among them is marked."""
    assert (total_spent(reader), is_estimated(reader)) == (Decimal(0), False)
    async with GroupCommit(path) as commits:
        ledger = Ledger(commits)
        for number in range(3):
            ledger.record(call(number, cost_usd=Decimal("9000000.000000000001")))
        await committed(commits)
        assert total_spent(reader) == Decimal("27000000.000000000003")
        assert is_estimated(reader) is False
        ledger.record(call(3, cost_usd=Decimal(0), estimated=True))
    assert total_spent(reader) == Decimal("27000000.000000000003")
    assert is_estimated(reader) is True


@pytest.mark.parametrize("cost", ["lost", "", -1, 0.5, b"1"])
async def test_a_damaged_cost_is_not_added_up(
    path: Path, reader: Connection, cost: Any
) -> None:
    """One row with an invalid amount makes the whole sum damaged, not smaller."""
    async with GroupCommit(path) as commits:
        Ledger(commits).record(call(1))
        Ledger(commits).record(call(2))
    reader.execute("UPDATE call SET cost = ? WHERE id = 'c_2'", (cost,))
    with pytest.raises(StoreDamaged, match="a cost is invalid"):
        total_spent(reader)

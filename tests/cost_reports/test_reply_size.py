"""How long a judge's replies are."""

from collections.abc import Iterable
from pathlib import Path
from sqlite3 import Connection

import pytest
from msgspec.structs import replace

from xscore.cache.group_commit import GroupCommit
from xscore.costs.call_history import LATEST_CALLS, output_tokens_per_memory
from xscore.costs.ledger import Ledger
from xscore.platform.tokens import REPLY_FRAME
from xscore.records import CallRecord, Stage, Usage
from xscore.store.opening import connect_store

CALL = CallRecord(
    id="c",
    turn_id="t",
    stage=Stage.JUDGE,
    provider="openai",
    host="h",
    model="m",
    started_at=0.0,
    duration_s=1.0,
    outcome="ok",
    candidates=10,
    usage=Usage(input_tokens=100, output_tokens=REPLY_FRAME + 90),
    cost_usd=None,
    estimated=False,
)


async def entered(path: Path, calls: Iterable[CallRecord]) -> Connection:
    """Enter calls one after the other, and open the ledger."""
    async with GroupCommit(path) as commits:
        ledger = Ledger(commits)
        for number, call in enumerate(calls):
            ledger.record(replace(call, id=f"c{number}", started_at=float(number)))
    return connect_store(path)


async def test_tokens_a_memory_beside_the_frame(path: Path) -> None:
    """What the replies had beside their braces, for each memory they judged."""
    found = output_tokens_per_memory(await entered(path, [CALL, CALL]), host="h", model="m")
    assert found == pytest.approx(9.0)


@pytest.mark.parametrize(
    "call",
    [
        replace(CALL, host="other"),
        replace(CALL, model="other"),
        replace(CALL, stage=Stage.PRIMARY),
        replace(CALL, outcome="timeout"),
        replace(CALL, estimated=True),
        replace(CALL, candidates=0),
        replace(CALL, usage=Usage(output_tokens=1)),
        replace(CALL, usage=Usage(output_tokens=10**6)),
    ],
    ids=["host", "model", "stage", "failed", "estimated", "empty", "too few", "too many"],
)
async def test_what_teaches_nothing(path: Path, call: CallRecord) -> None:
    """Other hosts and models, calls that failed or did not tell, and counts that no reply can have, teach nothing."""
    assert output_tokens_per_memory(await entered(path, [call]), host="h", model="m") is None


async def test_only_the_latest_calls_count(path: Path) -> None:
    """A judge that has learned to be brief is estimated as brief."""
    brief = replace(CALL, usage=Usage(output_tokens=REPLY_FRAME + 40))
    ledger = await entered(path, [*[CALL] * 50, *[brief] * LATEST_CALLS])
    assert output_tokens_per_memory(ledger, host="h", model="m") == pytest.approx(4.0)


@pytest.mark.parametrize("column", ["output_tokens", "candidates"])
@pytest.mark.parametrize("value", ["abc", b"x", -1, 0.5, float("inf"), 2**63 - 1])
async def test_a_row_that_makes_no_sense_is_passed_over(path: Path, column: str, value: object) -> None:
    """One damaged row of the ledger neither ends an estimate nor changes it."""
    ledger = await entered(path, [CALL, CALL, CALL])
    ledger.execute(f"UPDATE call SET {column} = ? WHERE id IN ('c0', 'c1')", (value,))
    assert output_tokens_per_memory(ledger, host="h", model="m") == pytest.approx(9.0)

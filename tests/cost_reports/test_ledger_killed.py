"""The ledger after SIGKILL: no judgment without its call, and bills that match the calls."""

import random
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.waiting import count_rows, wait_until
from xscore.platform import database
from xscore.store.opening import connect_store

KILLS = 6
IN_FLIGHT = 16
JUDGED = """
import asyncio, sys, uuid
from decimal import Decimal
from pathlib import Path
from xscore.cache.group_commit import GroupCommit
from xscore.cache.judgment_store import StoredJudgments
from xscore.costs.reservation import turn_budget
from xscore.costs.caps import Caps
from xscore.costs.ledger import Ledger
from xscore.costs.ledger import UsageTotals
from xscore.providers.limits import Limited
from xscore.providers.attempts import Metered
from xscore.providers.scripted import Script
from xscore.providers.scripted import ScriptedProvider
from xscore.records.calls import Request, Stage
from xscore.records.judgment import JudgeIdentity, Judgment

CENT = Decimal("0.01")
REQUEST = Request(stage=Stage.JUDGE, model="m", system="s", content=("c",),
                  max_output_tokens=9, input_tokens=9,
                  reserved_input_tokens=20, candidates=1)


def cent(*call):
    return CENT


async def main(path):
    async with GroupCommit(Path(path)) as commits:
        turn = "t_" + uuid.uuid4().hex
        budget = turn_budget(commits, turn_id=turn, caps=Caps(repository=Decimal(10_000)))
        scripted = ScriptedProvider(Script(latency_s=0.002))
        tab = UsageTotals(Ledger(commits).record)
        metered = Metered(scripted, turn_id=turn, record=tab.add, price=cent)
        line = Limited(metered, concurrency=16, budget=budget, price_of=cent)
        identity = JudgeIdentity("openai", "h", "m", "", "j", "memory_first", True)
        write = StoredJudgments(commits).writer(turn, identity)

        async def judge():
            while True:
                await line.complete(REQUEST)
                await write([Judgment(uuid.uuid4().hex, 0.5)])

        print("ready", flush=True)
        await asyncio.gather(*(judge() for _ in range(16)))

asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.verify
def test_after_every_kill_each_judgment_has_its_call_and_its_bill(tmp_path: Path) -> None:
    """Killed at any moment: committed judgments <= recorded calls; bills = calls, except for those
    just in flight."""
    path, dice = tmp_path / "memory.db", random.Random(5)
    judged = 0
    for kill in range(1, KILLS + 1):
        with subprocess.Popen(
            [sys.executable, "-c", JUDGED, str(path)], stdout=subprocess.PIPE, text=True
        ) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            before = judged
            wait_until(lambda before=before: count_rows(path, "judgment") > before, child)  # type: ignore[misc]  # the default binds this round's value
            time.sleep(dice.uniform(0.0, 0.3))
            child.send_signal(signal.SIGKILL)
        with closing(connect_store(path)) as store, database.read_snapshot(store):
            counted = store.execute(
                "SELECT (SELECT count(*) FROM judgment), (SELECT count(*) FROM call), (SELECT"
                " sum(cost) FROM call), coalesce((SELECT spent FROM spending WHERE span ="
                " 'repository'), 0), coalesce((SELECT sum(spent) FROM spending WHERE span LIKE"
                " 't!_%' ESCAPE '!'), 0), coalesce((SELECT sum(spent) FROM spending WHERE span LIKE"
                " '20%'), 0)"
            )
            judgments, calls, dollars, repository, turns, days = counted.fetchone()
        assert judged < judgments <= calls <= judgments + kill * IN_FLIGHT
        assert repository == turns == days
        assert 0 <= dollars - repository <= kill * IN_FLIGHT * 10**10
        judged = judgments

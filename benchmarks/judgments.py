"""Judgments of one turn out of a million: what one range scan costs, and what writing them cost.

Run it: `python benchmarks/judgments.py [TURNS]` (default 100 turns of 10,000 contents). Figures
are CPU milliseconds, with an anchor of this very run, a million additions in a plain loop,
since machines differ.
"""

import asyncio
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from sqlite3 import Connection

from xscore.cache.group_commit import GroupCommit
from xscore.cache.judgment_store import StoredJudgments, insert_judgments
from xscore.cache.judgments import _KNOWN_OF_TURN, read_judgments
from xscore.cache.keys import judge_key
from xscore.platform.database import transaction
from xscore.records.judgment import JudgeIdentity, Judgment
from xscore.store.opening import connect_store

CONTENTS = 10_000
PACK = 20
JUDGE = JudgeIdentity("openai", "api.openai.com", "m", "low", "judge-2", "memory_first", True)


def cpu_ms(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return (time.process_time() - start) * 1000


def anchor() -> None:
    total = 0
    for number in range(1_000_000):
        total += number


def write(connection: Connection, judgments: list[Judgment], turn: str) -> None:
    with transaction(connection):
        insert_judgments(connection, judgments, (turn, judge_key(JUDGE), 0))


def fill(path: Path, turns: int) -> list[str]:
    random.seed(1)
    hashes = [f"{random.getrandbits(128):032x}" for _ in range(CONTENTS)]
    connection = connect_store(path)
    spent = 0.0
    for turn in range(turns):
        random.shuffle(hashes)
        judgments = [
            Judgment(
                digest,
                random.randint(0, 100) / 100,
                "calls it" if at % 10 == 0 else "",
                f"p_{at // PACK}",
                at % PACK,
            )
            for at, digest in enumerate(hashes)
        ]
        spent += cpu_ms(
            lambda judgments=judgments, turn=turn: write(connection, judgments, f"turn {turn}")
        )
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    rows = turns * CONTENTS
    print(
        f"bulk write    {spent / rows * 1000:6.1f} µs CPU and"
        f" {path.stat().st_size / rows:5.1f} bytes a judgment, reasons for every tenth"
    )
    return hashes


def read(path: Path, turns: int) -> None:
    for label, fresh in (("new connection", True), ("same connection", False)):
        connection = connect_store(path)
        scans, record_times = [], []
        for turn in random.sample(range(turns), min(turns, 12)):
            if fresh:
                connection.close()
                connection = connect_store(path)
            (query,) = connection.execute(
                "SELECT id FROM query WHERE turn_key = ?", (f"turn {turn}",)
            ).fetchone()
            opened, names = connection, (f"turn {turn}", judge_key(JUDGE), 0)
            scans.append(
                cpu_ms(
                    lambda opened=opened, query=query: opened.execute(
                        _KNOWN_OF_TURN, (query,)
                    ).fetchall()
                )
            )
            record_times.append(
                cpu_ms(lambda opened=opened, names=names: read_judgments(opened, names))
            )
        connection.close()
        scans.sort()
        record_times.sort()
        middle = len(scans) // 2
        print(
            f"{label:15} scan of 10k: median {scans[middle]:5.1f}, best {scans[0]:5.1f} ms;"
            f" as records: median {record_times[middle]:5.1f}, best {record_times[0]:5.1f} ms"
        )


async def write_through(path: Path) -> None:
    async with GroupCommit(path) as commits:
        writer = StoredJudgments(commits).writer("write-through", JUDGE)

        async def work(worker: int) -> None:
            for number in range(50):
                first = (worker * 50 + number) * PACK
                await writer([Judgment(f"{first + at:032x}", 0.5) for at in range(PACK)])

        cpu, wall = time.process_time(), time.perf_counter()
        await asyncio.gather(*(work(worker) for worker in range(64)))
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        packs = 64 * 50
        print(
            f"write-through {packs} packs of {PACK}, 64 in flight: {cpu / packs * 1e6:5.0f} µs CPU"
            f" a pack, {packs / wall:6.0f} packs/s, {commits.commits} commits"
        )
    async with GroupCommit(path) as commits:
        writer = StoredJudgments(commits).writer("alone", JUDGE)
        wall = time.perf_counter()
        for number in range(500):
            await writer([Judgment(f"{number:032x}", 0.5)])
        print(f"one by one    {500 / (time.perf_counter() - wall):6.0f} acknowledged commits/s")


def main() -> None:
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "memory.db"
        print(
            f"anchor        {min(cpu_ms(anchor) for _ in range(5)):6.1f} ms; load"
            f" {os.getloadavg()[0]:.1f}"
        )
        print(f"{turns * CONTENTS:,} judgments")
        fill(path, turns)
        read(path, turns)
        asyncio.run(write_through(path))
        print(f"anchor        {min(cpu_ms(anchor) for _ in range(5)):6.1f} ms at the end")


if __name__ == "__main__":
    main()

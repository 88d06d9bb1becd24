"""CPU and peak memory of `xscore report` over a ledger of a million calls of 5,000 turns.

    python benchmarks/report_million.py [--calls 1000000] [--turns 5000]

The ledger is written into a real store, with the figures of each turn; each form of the report is
then run in a process of its own, whose CPU (user and system) and peak memory the system counts,
start-up included: the least CPU of three runs, since other work on the machine only ever adds to
it, and the highest peak. Ends with 1 where the page, `--json` or `--by model` takes more than 3 s
of CPU or 300 MB.
"""

import argparse
import json
import os
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from measuring import XSCORE, take

from xscore.platform import database
from xscore.platform.paths import find_root, user_data_dir
from xscore.store.store import Store

MOST_CPU_S, MOST_MB = 3.0, 300
RUNS = 3
HELD = ("terminal", "--json", "--by model")
"""Forms that are held to it; of the others the figures alone."""
BEGAN = 1_760_000_000.0
FORMS = {
    "terminal": (),
    "--json": ("--json",),
    "--by model": ("--by", "model"),
    "--by day --format markdown": ("--by", "day", "--format", "markdown"),
    "--csv": ("--format", "csv"),
    "--last 24h": ("--last", "24h"),
}
CALL_COLUMNS = (
    "id, turn_id, stage, provider, host, model, started_at, duration_s, outcome, candidates,"
    " input_tokens, cached_input_tokens, cache_write_tokens, cache_write_1h_tokens, output_tokens,"
    " reasoning_tokens, cost, cost_without_prefix_cache, cost_without_packs, cost_by_batch,"
    " estimated"
)
CALL = f"INSERT INTO call ({CALL_COLUMNS}) VALUES ({', '.join('?' * 21)})"
TURN = (
    "INSERT INTO turn (id, thread, turn_key, task, started_at, state) VALUES (?, 's', ?, ?, ?,"
    " 'done')"
)
FIGURES = f"INSERT INTO turn_figures VALUES ({', '.join('?' * 25)})"


def calls_of(
    turn: str, at: float, count: int, dice: random.Random
) -> Iterator[tuple[object, ...]]:
    """Yield the rows of one turn: judging calls and an answer, a few of them rate limited."""
    run = f"{dice.getrandbits(80):020x}"
    for number in range(count):
        is_judging = number < count - 1
        tokens, cached = dice.randrange(2_000, 9_000), dice.choice((0, 1_024, 2_048))
        cost, outcome = tokens * 50_000, "rate_limited" if dice.random() < 0.02 else "ok"
        stage, model = ("judge", "gpt-5-nano") if is_judging else ("primary", "gpt-5.2")
        yield (
            *(
                f"{run}{number:012x}",
                turn,
                stage,
                "openai",
                "api.openai.com",
                model,
                at + number * 0.05,
            ),
            *(dice.lognormvariate(0.2, 0.5), outcome, 20, tokens, cached, 0, 0, 300, 100),
            *(cost, cost + cached * 45_000, cost * 3, cost // 2, 0),
        )


def fill(root: Path, calls: int, turns: int) -> None:
    """Write the ledger into the store of this folder."""
    dice = random.Random(5)
    with (
        Store.open(find_root(root), user_data_dir=user_data_dir(None)) as store,
        database.transaction(store.connection),
    ):
        calls_of_turn = calls // turns
        for number in range(turns):
            turn, at = f"t_{dice.getrandbits(64):016x}", BEGAN + number * 600
            store.connection.execute(TURN, (turn, turn, f"Task {number}", at))
            store.connection.executemany(CALL, calls_of(turn, at, calls_of_turn, dice))
            judged = (calls_of_turn - 1) * 20
            scores = json.dumps([judged // 20] * 20)
            figures = (
                turn,
                "ask",
                "openai:gpt-5-nano",
                1,
                judged,
                judged,
                0,
                0,
                0,
                "{}",
                12,
                30,
                0.7,
                scores,
            )
            seconds = tuple(dice.random() for _ in range(7))
            store.connection.execute(
                FIGURES,
                (
                    *figures,
                    *seconds,
                    calls_of_turn - 1,
                    calls_of_turn * 5_000,
                    calls_of_turn * 280,
                    calls_of_turn * 10**8,
                ),
            )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=5_000)
    options = parser.parse_args()
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HOME"] = folder
        root = Path(folder) / "tree"
        root.mkdir()
        (root / "a.py").write_text("x = 1\n")
        started = time.process_time()
        fill(root, options.calls, options.turns)
        print(
            f"{options.calls:,} calls of {options.turns:,} turns, written in"
            f" {time.process_time() - started:.0f} CPU-s"
        )
        for name, arguments in FORMS.items():
            runs = [take([*XSCORE, "-C", str(root), "report", *arguments]) for _ in range(RUNS)]
            cpu_s, megabytes = min(run.cpu_s for run in runs), max(run.peak_mb for run in runs)
            size = len(runs[0].out)
            print(
                f"{name:22}{cpu_s:6.2f} CPU-s {megabytes:6.0f} MB peak {size:12,} bytes",
                flush=True,
            )
            if name in HELD and (cpu_s > MOST_CPU_S or megabytes > MOST_MB):
                missed.append(name)
    print(
        f"load {os.getloadavg()[0]:.1f}; at most {MOST_CPU_S} CPU-s and {MOST_MB} MB"
        + (f"; missed: {missed}" if missed else "")
    )
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())

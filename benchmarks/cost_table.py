"""The README's table of what a first question costs, by `estimate`: dollars, requests, seconds for
each way to judge.

    python benchmarks/cost_table.py [--sizes 1000,10000,50000]

Nothing is sent. The repositories are made up (functions of some 130 tokens, as in `decisions.py`),
the prices those of genai-prices, the limits those that are declared for a host or, for OpenAI,
none: then seconds are a call's assumed two times the calls that follow one another. What the
lexical judge takes is measured on this machine, as is indexing.
"""

import argparse
import asyncio
import math
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.decisions import TASK, write_tree
from xscore.pipeline.build import Pipeline
from xscore.platform.figures import format_dollars
from xscore.records.estimates import JudgeEstimate
from xscore.records.turn import Turn
from xscore.settings import (
    DecisionSettings,
    HostAccess,
    JudgeSettings,
    MemorySettings,
    OpenAISettings,
    Secret,
    Settings,
    StoreSettings,
    validate_group,
)

KEY = Secret("sk-never-sent-0000")
HEADS = ("memories", "Decisions API", "Jev", "chat, cold", "chat, warm", "lexical")


def settings_for(home: Path, model: str) -> Settings:
    """Return settings by which this model would judge at its vendor's own host."""
    return Settings(
        judge=validate_group(JudgeSettings, {"model": model}),
        openai=OpenAISettings(api_key=KEY),
        decisions=DecisionSettings(hosts={"typesafe": HostAccess("", KEY, "TYPESAFE_API_KEY")}),
        store=StoreSettings(user_data_dir=home / "user"),
        # What files show of a project's habits is a handful of memories in addition to those
        # counted here.
        memory=MemorySettings(observe=False),
    )


def cell(estimate: JudgeEstimate) -> str:
    """Write `$0.013, 5, 2 s`."""
    return (
        f"{format_dollars(estimate.cost_usd)}, {estimate.calls:,}, "
        f"{math.ceil(estimate.seconds)} s"
    )


async def row(memories: int) -> tuple[list[str], float]:
    """Estimate a repository of `memories` memories; return the cells of its row and how many
    seconds indexing took."""
    turn = Turn(task=TASK)
    with tempfile.TemporaryDirectory() as folder:
        home, root = Path(folder), Path(folder, "repo")
        write_tree(root, memories)
        async with Pipeline.open(root, settings_for(home, "openai:gpt-6-luna")) as pipeline:
            began = time.monotonic()
            await pipeline.index()
            index_s = time.monotonic() - began
            ways = {way.way: way for way in (await pipeline.estimate(turn)).ways}
        async with Pipeline.open(root, settings_for(home, "typesafe:jev-1.14.0")) as pipeline:
            jev = (await pipeline.estimate(turn)).judge
        async with Pipeline.open(root, settings_for(home, "lexical")) as pipeline:
            lexical_s = (await pipeline.ask(turn, answer=False)).latency.total
    estimates = (ways["decisions"], jev, ways["chat cold"], ways["chat warm"])
    return [
        f"{jev.candidates:,}",
        *map(cell, estimates),
        f"$0, 0, {math.ceil(lexical_s)} s",
    ], index_s


def main() -> int:
    """Print the table, and how long the indexing took."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="1000,10000,50000")
    rows = [asyncio.run(row(int(size))) for size in parser.parse_args().sizes.split(",")]
    for cells in (HEADS, ["---"] * len(HEADS), *(cells for cells, _ in rows)):
        print(f"| {' | '.join(cells)} |" if cells[0] != "---" else f"|{'|'.join(cells)}|")
    print(
        "\nfirst index: "
        + ", ".join(f"{cells[0]} in {seconds:.0f} s" for cells, seconds in rows)
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

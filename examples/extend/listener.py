"""A listener: one line a turn into a log of your own, when the turn has ended, well or not.

Usage: python listener.py "where are carts priced?"
"""

import asyncio
import sys
from pathlib import Path

from xscore import Pipeline
from xscore.pipeline.parts import ClosedTurn

LOG = Path("turns.log")


async def listen(closed: ClosedTurn) -> str:
    """Write the line. A returned text becomes a warning of the receipt."""
    seconds = closed.stopwatch.latency().total
    line = f"{closed.turn.id} {closed.command} exit {closed.exit_code} {seconds:.1f} s\n"
    await asyncio.to_thread(write, line)
    return ""


def write(line: str) -> None:
    """Append a line to the log."""
    with LOG.open("a") as log:
        log.write(line)


async def main(task: str) -> None:
    """Ask, with the listener."""
    async with Pipeline.open(".", listener=listen) as pipeline:
        answer = await pipeline.ask(task)
        print(len(answer.selected), "memories chosen")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    asyncio.run(main(sys.argv[1]))

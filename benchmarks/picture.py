"""Draw the pictures of the README: a question asked of this checkout without a key.

    python -m benchmarks.picture

`docs/ask.svg` is what `xscore ask` prints, `docs/map.webp` the map of `xscore show` in a real
browser. Both commands are really run; only lines past the first few memories are left out, so that
the picture stays small.
"""

import asyncio
import base64
import io
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tests.cli.terminals import shown_on_terminal
from tests.servers import browser

CHECKOUT = Path(__file__).resolve().parents[1]
PICTURE = CHECKOUT / "docs" / "ask.svg"
MAP = CHECKOUT / "docs" / "map.webp"
TASK = "where is a judgment written to the cache?"
WIDTH, MEMORIES = 112, 3
"""Columns of the picture; memories that are shown of those kept."""
MAP_WIDTH, MAP_HEIGHT = 1280, 760
"""Size of the browser's window, in CSS pixels."""
MAP_QUALITY = 80


def main() -> int:
    """Run the commands and write both pictures."""
    code = draw_terminal()
    draw_map()
    return code


def draw_map() -> None:
    """Make the page of the latest turn and write what a browser shows of its map."""
    program = browser.installed()
    if program is None:
        raise SystemExit("no chromium is here: apt-get install chromium")
    with tempfile.TemporaryDirectory() as name:
        page = Path(name) / "turn.html"
        show = ["-m", "xscore", "show", "-q", "-o", str(page)]
        subprocess.run([sys.executable, *show], cwd=CHECKOUT, check=True)
        with browser.chromium(program, Path(name)) as address:
            MAP.write_bytes(asyncio.run(_shot_of_map(address, page)))


async def _shot_of_map(address: str, page: Path) -> bytes:
    async with browser.tab(address) as tab:
        await tab.look(width=MAP_WIDTH, height=MAP_HEIGHT)
        await tab.open(page)
        await tab.settle()
        await tab.run("document.getElementById('map').scrollIntoView({behavior: 'instant'})")
        await tab.settle()
        shot = await tab.send("Page.captureScreenshot", format="webp", quality=MAP_QUALITY)
        return base64.b64decode(shot["data"])


def draw_terminal() -> int:
    """Run `ask` on a terminal and write what it shows."""
    ask = ["-m", "xscore", "ask", TASK, "--judge", "lexical", "--no-answer"]
    seen, code = shown_on_terminal(
        ask, cwd=CHECKOUT, environ={"TERM": "dumb", "COLUMNS": str(WIDTH)}, columns=WIDTH
    )
    assert code == 0, seen
    lines = seen.strip().splitlines()
    heads = [at for at, line in enumerate(lines) if re.match(r"(\x1b\[1m)?\d\.\d\d", line)]
    console = Console(width=WIDTH, record=True, file=io.StringIO(), highlight=False)
    console.print(Text.assemble(("$ ", "dim"), (f'xscore ask "{TASK}"', "bold")))
    for line in [*lines[: heads[MEMORIES]], "…", lines[-1]]:
        console.print(Text.from_ansi(line))
    drawn = re.sub(
        r"@font-face \{.*?\}\s*", "", console.export_svg(title="xscore"), flags=re.DOTALL
    )
    PICTURE.write_text(drawn, "utf-8")  # without fonts from elsewhere
    return 0


if __name__ == "__main__":
    sys.exit(main())

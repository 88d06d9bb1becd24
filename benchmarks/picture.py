"""Draw docs/ask.svg: what `xscore ask` prints without a key, run on this checkout.

    python -m benchmarks.picture

The command is really run; only its lines past the first few memories are left out, so that the
picture stays small.
"""

import io
import re
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tests.cli.terminals import shown_on_terminal

CHECKOUT = Path(__file__).resolve().parents[1]
PICTURE = CHECKOUT / "docs" / "ask.svg"
TASK = "where is a judgment written to the cache?"
WIDTH, MEMORIES = 112, 3
"""Columns of the picture; memories that are shown of those kept."""


def main() -> int:
    """Run the command on a terminal and write the picture."""
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

"""Draw docs/ask.svg: what `xscore ask` prints without a key, run on this checkout.

    python benchmarks/picture.py

The command is really run; only its lines past the first few memories are left out, so that the picture stays small.
"""

import io
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

CHECKOUT = Path(__file__).resolve().parents[1]
PICTURE = CHECKOUT / "docs" / "ask.svg"
TASK = "where is a judgment written to the cache?"
WIDTH, MEMORIES = 112, 4
"""Columns of the picture; memories that are shown of those kept."""


def main() -> int:
    """Run the command and write the picture."""
    command = [sys.executable, "-m", "xscore", "ask", TASK, "--judge", "lexical", "--no-answer"]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True)
    console = Console(width=WIDTH, record=True, file=io.StringIO(), highlight=False)
    console.print(Text.assemble(("$ ", "dim"), (f'xscore ask "{TASK}"', "bold")))
    for line in [*done.stdout.splitlines()[: 2 * MEMORIES], "…", done.stderr.strip().splitlines()[-1]]:
        console.print(Text(line, "dim" if line.startswith(" ") else ""))
    drawn = re.sub(r"@font-face \{.*?\}\s*", "", console.export_svg(title="xscore"), flags=re.DOTALL)
    PICTURE.write_text(drawn, "utf-8")  # without fonts from elsewhere
    return 0


if __name__ == "__main__":
    sys.exit(main())

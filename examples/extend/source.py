"""A source of candidates: open tickets of a tracker, read from a file that a cron job writes.

    [project.entry-points."xscore.sources"]
    tickets = "source:tickets"

Then `XSCORE_PLUGINS_ENABLED=tickets`; each `xscore index` reads it. A ticket that is no longer
open is forgotten.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from xscore.records.memory import Kind
from xscore.records.statement import Statement


def tickets(root: Path) -> Iterator[Statement]:
    """Yield a statement for each open ticket; its key tells it from the others."""
    for line in (root / "tickets.jsonl").read_text("utf-8").splitlines():
        ticket = json.loads(line)
        if ticket["state"] == "open":
            text = f"{ticket['title']}\n\n{ticket['body']}"
            yield Statement(text=text, kind=Kind.TODO, key=ticket["id"], author=ticket["by"])

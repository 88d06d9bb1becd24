"""`xscore turns`: past turns, newest first, from the store alone: no model, no index."""

from typing import TYPE_CHECKING

import click

from xscore.cli.opening import in_store
from xscore.cli.options import OUTPUT, Flags, options
from xscore.cli.spans import Stretch
from xscore.cli.terminal import Terminal, columns_of_reader, echo, print_json
from xscore.database import REBUILD
from xscore.errors import NothingMatched
from xscore.memory.turn_list import STATES, Wanted, listed

if TYPE_CHECKING:
    from xscore.memory.store import Store
    from xscore.memory.turn_list import Listed

SHOWN = 20
MOST = 1_000_000


@click.command()
@click.option("--last", metavar="STRETCH", type=Stretch(), help="Only turns of the last 30s, 90m, 24h, 7d, 2w.")
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(1, MOST),
    help=f"Only the newest N. Without it: {SHOWN}, or all that --last covers.",
)
@click.option("--state", type=click.Choice(STATES), help="Only turns that stand so; unfinished: their process is gone.")
@click.option("--session", metavar="S", default="", help="Only turns of this working session; its first letters do.")
@options(OUTPUT)
def turns(*, last: float | None, limit: int | None, state: str | None, session: str, flags: Flags) -> int:
    """List past turns, newest first: when, how they ended, dollars, seconds, what was kept of how much, the task.

    `xscore turn show T` shows one of them again. Ends with 1 where the options leave nothing.
    """

    def work(store: "Store") -> bool:
        now = store.clock()
        most = SHOWN if limit is None and last is None else limit
        one_more = None if most is None else most + 1
        wanted = Wanted(limit=one_more, since=None if last is None else now - last, state=state or "", thread=session)
        found = listed(store.connection, wanted, now=now)
        shown = found._replace(turns=found.turns[:most])
        _print(shown, flags.terminal, now=now, is_narrow=is_narrow)
        if not (limit or flags.terminal.as_json) and most is not None and len(found.turns) > most:
            flags.terminal.note(f"the newest {most}; `--limit N` or `--last 7d` shows more")
        return bool(found.turns)

    is_narrow = bool(last or state or session)
    return NothingMatched.exit_code if not in_store(work, flags, make=False) and is_narrow else 0


def _print(found: "Listed", terminal: Terminal, *, now: float, is_narrow: bool) -> None:
    from xscore.cli.turns_page import as_json, page
    from xscore.pipeline.receipt import SCHEMA

    left_out = found.damaged_turns + found.damaged_calls
    if terminal.as_json:
        print_json({"schema": SCHEMA, "turns": [as_json(turn) for turn in found.turns], "left_out": left_out})
    elif found.turns:
        echo(page(found.turns, now=now, width=columns_of_reader()))
    elif not left_out:
        none = "there is no such turn" if is_narrow else "there is no turn yet"
        terminal.note(f'{none}; `xscore ask "…"` begins one')
    for count, what in ((found.damaged_turns, "turns"), (found.damaged_calls, "calls")):
        if count:
            terminal.note(f"left out, since they make no sense: {count:,} rows of {what}. {REBUILD}")

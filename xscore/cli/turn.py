"""`xscore turn show`: what a past turn printed, by the same page, from its stored receipt.

It asks no model and brings no index up to date. Trade-off: the bundle is not kept with a turn, so where `ask` or
`context` printed one, the list of chosen memories stands in its place.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from xscore.cli.opening import in_store
from xscore.cli.options import OUTPUT, Flags, as_listed, options
from xscore.cli.terminal import Terminal, columns_of_reader, echo, faint, print_json
from xscore.database import making_sense
from xscore.errors import NothingMatched
from xscore.safe_text import one_line

if TYPE_CHECKING:
    from xscore.memory.store import Store
    from xscore.memory.turns import PastTurn
    from xscore.pipeline.stored_receipt import StoredReceipt
    from xscore.records import Answer, CallRecord
    from xscore.records.turn_list import ListedTurn

YOURS = "(one of your own memories: a receipt keeps no words of it)"


@click.group()
def turn() -> None:
    """Look at one past turn; `xscore turns` lists them."""


@turn.command()
@click.argument("turn", metavar="T")
@click.option(
    "--calls", is_flag=True, help="List every attempt as well: stage, model, outcome, seconds, tokens, dollars."
)
@options(OUTPUT)
def show(turn: str, *, calls: bool, flags: Flags) -> None:
    """Print what turn T printed: its answer, the chosen memories, near misses, warnings and cost. Nothing is sent.

    T is an id, the beginning of one, or `latest`. With --json it is the stored receipt as it is.
    """

    def work(store: "Store") -> None:
        from xscore.cost_reports.turn_calls import calls_of
        from xscore.memory.turn_list import named, one
        from xscore.memory.turns import past_turn

        found = named(store.connection, as_listed(turn))
        past = past_turn(store.connection, found)
        assert past is not None
        made = calls_of(store.connection, found) if calls else None
        if not past.receipt and made is None:
            _refuse(one(store.connection, found, now=store.clock()))
        elif flags.terminal.as_json:
            print_json(_as_json(past, made))
        else:
            _replay(past, made, flags.terminal, now=store.clock())

    in_store(work, flags, make=False)


def _refuse(turn: "ListedTurn") -> None:
    """Say of a turn without a receipt how it stands."""
    from xscore.wording import counted, dollars

    cost = dollars(turn.spent.cost_usd, estimated=turn.spent.estimated)
    spent = f"{counted(turn.spent.attempts, 'attempt')} entered, {cost}"
    if turn.state == "running":
        raise NothingMatched(f"turn {turn.id} is running ({spent})", hint="Its receipt is there when it has ended.")
    raise NothingMatched(
        f"turn {turn.id} left no receipt: it is {turn.state} ({spent})",
        hint=f"`xscore continue {turn.id}` finishes it; `xscore turn show {turn.id} --calls` lists what was sent.",
    )


def _as_json(past: "PastTurn", calls: "list[CallRecord] | None") -> dict[str, Any]:
    from xscore.cli.calls_page import as_json
    from xscore.pipeline.receipt import SCHEMA
    from xscore.pipeline.stored_receipt import body_of

    body = body_of(past.receipt) if past.receipt else {"schema": SCHEMA, "turn_id": past.turn.id}
    return body if calls is None else {**body, "calls": [as_json(call) for call in calls]}


def _replay(past: "PastTurn", calls: "list[CallRecord] | None", terminal: Terminal, *, now: float) -> None:
    from xscore.cli import ask
    from xscore.cli.calls_page import page
    from xscore.cli.session_words import ago, quoted
    from xscore.memory.call_figures import moment_of
    from xscore.pipeline.stored_receipt import read

    with making_sense("a turn"):
        began = moment_of(past.started_at)
        task = quoted(past.turn.task) if past.turn.task else "(its task was erased)"
    terminal.lines(faint(f"turn {past.turn.id}, {ago(began, now)}: {task}"))
    if past.receipt:
        stored = read(past.receipt)
        ask.show(_shown(stored.answer), terminal, "", wants_answer=False)
        _remark(stored, terminal)
    if calls is not None:
        echo(page(calls, began=began, width=columns_of_reader()))


def _shown(answer: "Answer") -> "Answer":
    """Return the receipt as it is shown: no empty answer, and a word for what it may not tell."""
    own = tuple(
        replace(one, reason=YOURS) if one.layer == "user" and not one.reason else one for one in answer.selected
    )
    return replace(answer, answer=answer.answer or None, selected=own)


def _remark(stored: "StoredReceipt", terminal: Terminal) -> None:
    if stored.is_erased:
        terminal.note("its answer was erased")
    if stored.lacks:
        terminal.note(f"an earlier version wrote this receipt, without: {one_line(', '.join(stored.lacks))}")

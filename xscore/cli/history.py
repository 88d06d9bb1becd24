"""The calls of one turn as a table, one line an attempt. Rounded; the exact figures are in the JSON.

`xscore turn show`: what a past turn printed, by the same page, from its stored receipt.

It asks no model and brings no index up to date. Trade-off: the bundle is not kept with a turn, so where `ask` or
`context` printed one, the list of chosen memories stands in its place.

`xscore turns`: past turns, newest first, from the store alone: no model, no index.

Past turns in two lines each, for people: figures in columns, below them the task. It reads no store.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from xscore.cli.opening import in_store
from xscore.cli.options import OUTPUT, Flags, PeriodType, decode_path_argument, options
from xscore.cli.phrases import format_age
from xscore.cli.terminal import Terminal, bold, faint, print_json, stdout_columns, truncate_line, write_stdout
from xscore.pipeline.json_form import Json, money_json, record_json, stage_usage_json
from xscore.platform.database import damage_if_invalid
from xscore.platform.errors import NothingMatched
from xscore.platform.sqlite_drivers import REBUILD_HINT
from xscore.platform.text import format_dollars, format_seconds, format_tokens, one_line
from xscore.records import CallRecord
from xscore.records.receipt import AnswerState, ListedTurn
from xscore.store.turn_history import STATES, TurnFilter, list_turns

if TYPE_CHECKING:
    from xscore.pipeline.stored_receipt import StoredReceipt
    from xscore.records import Answer, CallRecord
    from xscore.records.receipt import ListedTurn
    from xscore.store.store import Store
    from xscore.store.turn_history import TurnListing
    from xscore.store.turns import PastTurn


CALL_HEADS = ("at", "stage", "outcome", "took", "in", "out", "dollars", "memories", "model")
_RIGHT = frozenset({"at", "took", "in", "out", "dollars", "memories"})


def render_calls(calls: Sequence[CallRecord], *, began: float, width: int | None) -> str:
    """Show every attempt. began: Unix seconds of the turn. width: columns of the terminal; None: lines are not cut."""
    if not calls:
        return "no call was made"
    rows = [CALL_HEADS, *(_call_cells(call, began) for call in calls)]
    wide = [max(len(row[column]) for row in rows) for column in range(len(CALL_HEADS))]
    return "\n".join(truncate_line(_call_line(row, wide), width) for row in rows)


def call_json(call: CallRecord) -> dict[str, Json]:
    """Render one attempt."""
    usage = record_json(call.usage)
    own = ("id", "stage", "provider", "host", "model", "started_at", "duration_s", "outcome", "candidates")
    return {
        **{name: value for name, value in record_json(call).items() if name in own},
        **usage,
        "cost_usd": money_json(call.cost_usd),
        "estimated": call.estimated,
    }


def _call_cells(call: CallRecord, began: float) -> tuple[str, ...]:
    usage = call.usage
    cached = f" ({format_tokens(usage.cached_input_tokens)} cached)" if usage.cached_input_tokens else ""
    return (
        f"+{max(0.0, call.started_at - began):.1f} s",
        str(call.stage),
        one_line(call.outcome),
        format_seconds(call.duration_s),
        f"{format_tokens(usage.input_tokens)}{cached}",
        format_tokens(usage.output_tokens),
        format_dollars(call.cost_usd, estimated=call.estimated),
        f"{call.candidates:,}" if call.candidates else "",
        one_line(f"{call.provider}:{call.model} at {call.host}"),
    )


def _call_line(row: Sequence[str], wide: Sequence[int]) -> str:
    cells = zip(CALL_HEADS, row, wide, strict=True)
    return "  ".join(text.rjust(size) if head in _RIGHT else text.ljust(size) for head, text, size in cells).rstrip()


USER_MEMORY_REASON = "(one of your own memories: a receipt keeps no words of it)"


@click.group()
def history() -> None:
    """Look at one past turn; `xscore turns` lists them."""


@history.command("show")
@click.argument("turn", metavar="T")
@click.option(
    "--calls", is_flag=True, help="List every attempt as well: stage, model, outcome, seconds, tokens, dollars."
)
@options(OUTPUT)
def show_turn(turn: str, *, calls: bool, flags: Flags) -> None:
    """Print what turn T printed: its answer, the chosen memories, near misses, warnings and cost. Nothing is sent.

    T is an id, the beginning of one, or `latest`. With --json it is the stored receipt as it is.
    """

    def work(store: "Store") -> None:
        from xscore.costs.ledger import calls_of_turn
        from xscore.store.turn_history import find_turn_id, load_listed_turn
        from xscore.store.turns import past_turn

        found = find_turn_id(store.connection, decode_path_argument(turn))
        past = past_turn(store.connection, found)
        assert past is not None
        made = calls_of_turn(store.connection, found) if calls else None
        if not past.receipt and made is None:
            _no_receipt(load_listed_turn(store.connection, found, now=store.clock()))
        elif flags.terminal.as_json:
            print_json(_turn_with_calls(past, made))
        else:
            _replay(past, made, flags.terminal, now=store.clock())

    in_store(work, flags, make=False)


def _no_receipt(turn: "ListedTurn") -> None:
    """Say of a turn without a receipt how it stands."""
    from xscore.platform.text import counted, format_dollars

    cost = format_dollars(turn.spent.cost_usd, estimated=turn.spent.estimated)
    spent = f"{counted(turn.spent.attempts, 'attempt')} entered, {cost}"
    if turn.state == "running":
        raise NothingMatched(f"turn {turn.id} is running ({spent})", hint="Its receipt is there when it has ended.")
    raise NothingMatched(
        f"turn {turn.id} left no receipt: it is {turn.state} ({spent})",
        hint=f"`xscore continue {turn.id}` finishes it; `xscore turn show {turn.id} --calls` lists what was sent.",
    )


def _turn_with_calls(past: "PastTurn", calls: "list[CallRecord] | None") -> dict[str, Any]:
    # MERGED
    from xscore.pipeline.json_form import SCHEMA
    from xscore.pipeline.stored_receipt import receipt_body

    body = receipt_body(past.receipt) if past.receipt else {"schema": SCHEMA, "turn_id": past.turn.id}
    return body if calls is None else {**body, "calls": [call_json(call) for call in calls]}


def _replay(past: "PastTurn", calls: "list[CallRecord] | None", terminal: Terminal, *, now: float) -> None:
    from xscore.cli import ask

    # MERGED
    from xscore.cli.phrases import format_age, quote_task
    from xscore.pipeline.stored_receipt import read_receipt
    from xscore.store.turn_history import parse_timestamp

    with damage_if_invalid("a turn"):
        began = parse_timestamp(past.started_at)
        task = quote_task(past.turn.task) if past.turn.task else "(its task was erased)"
    terminal.lines(faint(f"turn {past.turn.id}, {format_age(began, now)}: {task}"))
    if past.receipt:
        stored = read_receipt(past.receipt)
        ask.print_turn(_presentable_answer(stored.answer), terminal, "", wants_answer=False)
        _remark(stored, terminal)
    if calls is not None:
        write_stdout(render_calls(calls, began=began, width=stdout_columns()))


def _presentable_answer(answer: "Answer") -> "Answer":
    """Return the receipt as it is shown: no empty answer, and a word for what it may not tell."""
    own = tuple(
        replace(one, reason=USER_MEMORY_REASON) if one.layer == "user" and not one.reason else one
        for one in answer.selected
    )
    return replace(answer, answer=answer.answer or None, selected=own)


def _remark(stored: "StoredReceipt", terminal: Terminal) -> None:
    if stored.is_erased:
        terminal.note("its answer was erased")
    if stored.lacks:
        terminal.note(f"an earlier version wrote this receipt, without: {one_line(', '.join(stored.lacks))}")


TURNS_SHOWN = 20
MOST_TURNS = 1_000_000


@click.command()
@click.option("--last", metavar="STRETCH", type=PeriodType(), help="Only turns of the last 30s, 90m, 24h, 7d, 2w.")
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(1, MOST_TURNS),
    help=f"Only the newest N. Without it: {TURNS_SHOWN}, or all that --last covers.",
)
@click.option("--state", type=click.Choice(STATES), help="Only turns that stand so; unfinished: their process is gone.")
@click.option("--session", metavar="S", default="", help="Only turns of this working session; its first letters do.")
@options(OUTPUT)
def history_list(*, last: float | None, limit: int | None, state: str | None, session: str, flags: Flags) -> int:
    """List past turns, newest first: when, how they ended, dollars, seconds, what was kept of how much, the task.

    `xscore turn show T` shows one of them again. Ends with 1 where the options leave nothing.
    """

    def work(store: "Store") -> bool:
        now = store.clock()
        most = TURNS_SHOWN if limit is None and last is None else limit
        one_more = None if most is None else most + 1
        wanted = TurnFilter(
            limit=one_more, since=None if last is None else now - last, state=state or "", thread=session
        )
        found = list_turns(store.connection, wanted, now=now)
        shown = found._replace(turns=found.turns[:most])
        _print_turns(shown, flags.terminal, now=now, is_narrow=is_narrow)
        if not (limit or flags.terminal.as_json) and most is not None and len(found.turns) > most:
            flags.terminal.note(f"the newest {most}; `--limit N` or `--last 7d` shows more")
        return bool(found.turns)

    is_narrow = bool(last or state or session)
    return NothingMatched.exit_code if not in_store(work, flags, make=False) and is_narrow else 0


def _print_turns(found: "TurnListing", terminal: Terminal, *, now: float, is_narrow: bool) -> None:
    # MERGED
    from xscore.pipeline.json_form import SCHEMA

    left_out = found.damaged_turns + found.damaged_calls
    if terminal.as_json:
        print_json({"schema": SCHEMA, "turns": [turn_json(turn) for turn in found.turns], "left_out": left_out})
    elif found.turns:
        write_stdout(render_turns(found.turns, now=now, width=stdout_columns()))
    elif not left_out:
        none = "there is no such turn" if is_narrow else "there is no turn yet"
        terminal.note(f'{none}; `xscore ask "…"` begins one')
    for count, what in ((found.damaged_turns, "turns"), (found.damaged_calls, "calls")):
        if count:
            terminal.note(f"left out, since they make no sense: {count:,} rows of {what}. {REBUILD_HINT}")


INDENT = "    "


def render_turns(turns: Sequence[ListedTurn], *, now: float, width: int | None) -> str:
    """Show the turns. width: columns of the terminal; None: lines are not cut."""
    cells = [_turn_cells(turn, now=now) for turn in turns]
    wide = [max(len(row[column]) for row in cells) for column in range(len(cells[0]) - 1)]
    return "\n".join(
        line for turn, row in zip(turns, cells, strict=True) for line in _turn_lines(turn, row, wide, width)
    )


def turn_json(turn: ListedTurn) -> dict[str, Json]:
    """Render one turn with every field."""
    return {**record_json(turn), "spent": stage_usage_json(turn.spent)}


def _turn_cells(turn: ListedTurn, *, now: float) -> tuple[str, ...]:
    took = "" if turn.total_s is None else format_seconds(turn.total_s)
    spent = (
        format_dollars(turn.spent.cost_usd, estimated=turn.spent.estimated)
        if turn.spent.attempts or turn.coverage
        else ""
    )
    return (turn.id, format_age(turn.at, now), turn.state, spent, took, _kept_words(turn))


def _kept_words(turn: ListedTurn) -> str:
    if turn.coverage is None:
        return ""
    missing = f", {turn.coverage.unjudged:,} unjudged" if turn.coverage.unjudged else ""
    return f"kept {turn.kept:,} of {turn.coverage.candidates:,}{missing}"


def _turn_lines(turn: ListedTurn, cells: tuple[str, ...], wide: Sequence[int], width: int | None) -> list[str]:
    *columns, last = cells
    identifier, when, state, spent, took = (cell.ljust(size) for cell, size in zip(columns, wide, strict=True))
    figures = f"{when}  {state}  {spent.strip().rjust(wide[3])}  {took.strip().rjust(wide[4])}  {last}"
    head = f"{bold(one_line(identifier))}  {truncate_line(figures.rstrip(), None if width is None else width - wide[0] - 2)}"
    who = " ".join(one_line(word) for word in (turn.command, f"({turn.judge})" if turn.judge else "") if word)
    said = f"{INDENT}{who}{'  ' if who else ''}{_task_line(turn)}"
    return [head, faint(truncate_line(said, width))]


def _task_line(turn: ListedTurn) -> str:
    if turn.task_is_erased:
        return "(the task was erased)"
    first = next((line.strip() for line in turn.task.splitlines() if line.strip()), "(no task)")
    erased = "(its answer was erased) " if turn.answer is AnswerState.ERASED else ""
    return erased + one_line(first)

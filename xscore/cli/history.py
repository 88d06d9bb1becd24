"""`xscore history list` and `history show`: past turns from the store alone, no model and no index.

`show` prints a turn again by the page of `ask`. Trade-off: the context is not kept with a turn, so where `ask` or
`context` printed one, the list of chosen memories stands in its place.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from xscore.cli.ask import print_turn
from xscore.cli.opening import in_store
from xscore.cli.options import COUNT, Flags, PeriodType, command, decode_path_argument, options
from xscore.cli.phrases import format_age, quote_task
from xscore.cli.terminal import (
    Terminal,
    faint,
    print_json,
    render_table,
    stdout_columns,
    truncate_line,
    write_stdout,
)
from xscore.pipeline.json_form import SCHEMA, Json, money_json, record_json, stage_usage_json
from xscore.platform.database import damage_if_invalid
from xscore.platform.errors import NothingMatched
from xscore.platform.sqlite_drivers import REBUILD_HINT
from xscore.platform.text import counted, format_dollars, format_seconds, format_tokens, one_line
from xscore.records import Answer, CallRecord
from xscore.records.receipt import AnswerState, ListedTurn
from xscore.store.turn_history import STATES, TurnFilter, TurnListing, find_turn_id, list_turns, load_listed_turn

if TYPE_CHECKING:
    from xscore.store.store import Store
    from xscore.store.turns import PastTurn

CALL_HEADS = ("at", "stage", "outcome", "took", "in", "out", "dollars", "memories", "model")
CALL_FIGURES = {"at", "took", "in", "out", "dollars", "memories"}
USER_MEMORY_REASON = "(one of your own memories: a receipt keeps no words of it)"
TURNS_SHOWN = 20
INDENT = "    "


@command()
@click.option("--last", metavar="PERIOD", type=PeriodType(), help="Only turns of the last 30s, 90m, 24h, 7d, 2w.")
@click.option(
    "--limit", metavar="N", type=COUNT, help=f"Only the newest N. Default: {TURNS_SHOWN}, or all that --last covers."
)
@click.option("--state", type=click.Choice(STATES), help="Only turns in this state; unfinished: the process is gone.")
@click.option("--session", metavar="S", default="", help="Only turns of this working session, or of its first letters.")
@options()
def list_history(*, last: float | None, limit: int | None, state: str | None, session: str, flags: Flags) -> int:
    """List past turns, newest first: when, how they ended, dollars, seconds, what was kept of how much, the task.

    `xscore history show T` prints one of them again. Exit code 1 where the options leave nothing.
    """
    is_narrow = bool(last or state or session)

    def work(store: "Store") -> bool:
        now = store.clock()
        most = TURNS_SHOWN if limit is None and last is None else limit
        one_more = None if most is None else most + 1
        since = None if last is None else now - last
        found = list_turns(
            store.connection, TurnFilter(limit=one_more, since=since, state=state or "", thread=session), now=now
        )
        _print_turns(found._replace(turns=found.turns[:most]), flags.terminal, now=now, is_narrow=is_narrow)
        if not (limit or flags.terminal.as_json) and most is not None and len(found.turns) > most:
            flags.terminal.note(f"the newest {most}; `--limit N` or `--last 7d` shows more")
        return bool(found.turns)

    return NothingMatched.exit_code if not in_store(work, flags, make=False) and is_narrow else 0


def _print_turns(found: TurnListing, terminal: Terminal, *, now: float, is_narrow: bool) -> None:
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
            terminal.note(f"left out, since they are damaged: {count:,} rows of {what}. {REBUILD_HINT}")


def turn_json(turn: ListedTurn) -> dict[str, Json]:
    """Render one turn with every field."""
    return {**record_json(turn), "spent": stage_usage_json(turn.spent)}


def render_turns(turns: Sequence[ListedTurn], *, now: float, width: int | None) -> str:
    """Two lines a turn: figures in columns, below them the task. width: columns of the window; None: lines stay."""
    heads = render_table(("",) * 6, [_turn_cells(turn, now=now) for turn in turns], width=width).split("\n")
    return "\n".join(line for head, turn in zip(heads, turns, strict=True) for line in (head, _task_line(turn, width)))


def _turn_cells(turn: ListedTurn, *, now: float) -> tuple[str, ...]:
    spent = ""
    if turn.spent.attempts or turn.coverage:
        spent = format_dollars(turn.spent.cost_usd, estimated=turn.spent.estimated)
    took = "" if turn.total_s is None else format_seconds(turn.total_s)
    kept = ""
    if turn.coverage is not None:
        missing = f", {turn.coverage.unjudged:,} unjudged" if turn.coverage.unjudged else ""
        kept = f"kept {turn.kept:,} of {turn.coverage.candidates:,}{missing}"
    return (one_line(turn.id), format_age(turn.at, now), turn.state, spent, took, kept)


def _task_line(turn: ListedTurn, width: int | None) -> str:
    who = " ".join(one_line(word) for word in (turn.command, f"({turn.judge})" if turn.judge else "") if word)
    if turn.task_is_erased:
        task = "(the task was erased)"
    else:
        task = one_line(next((line.strip() for line in turn.task.splitlines() if line.strip()), "(no task)"))
        task = f"(its answer was erased) {task}" if turn.answer is AnswerState.ERASED else task
    return faint(truncate_line(f"{INDENT}{who}{'  ' if who else ''}{task}", width))


@command()
@click.argument("turn", metavar="T")
@click.option("--calls", is_flag=True, help="Also list every attempt: stage, model, outcome, seconds, tokens, dollars.")
@options()
def show_turn(turn: str, *, calls: bool, flags: Flags) -> None:
    """Print what turn T printed: its answer, the chosen memories, near misses, warnings and cost. Nothing is sent.

    T is an ID, the beginning of one, or `latest`. With --json it is the stored receipt as it is.
    """

    def work(store: "Store") -> None:
        from xscore.costs.ledger import calls_of_turn
        from xscore.store.turns import past_turn

        found = find_turn_id(store.connection, decode_path_argument(turn))
        past = past_turn(store.connection, found)
        assert past is not None
        made = calls_of_turn(store.connection, found) if calls else None
        if not past.receipt and made is None:
            raise _missing_receipt(load_listed_turn(store.connection, found, now=store.clock()))
        if flags.terminal.as_json:
            print_json(_turn_with_calls(past, made))
        else:
            _replay(past, made, flags.terminal, now=store.clock())

    in_store(work, flags, make=False)


def _missing_receipt(turn: ListedTurn) -> NothingMatched:
    """Say of a turn without a receipt how it stands."""
    cost = format_dollars(turn.spent.cost_usd, estimated=turn.spent.estimated)
    spent = f"{counted(turn.spent.attempts, 'attempt')} recorded, {cost}"
    if turn.state == "running":
        return NothingMatched(f"turn {turn.id} is running ({spent})", hint="Its receipt is written when it ends.")
    return NothingMatched(
        f"turn {turn.id} left no receipt: it is {turn.state} ({spent})",
        hint=f"`xscore continue {turn.id}` finishes it; `xscore history show {turn.id} --calls` lists what was sent.",
    )


def _turn_with_calls(past: "PastTurn", calls: list[CallRecord] | None) -> dict[str, Any]:
    from xscore.pipeline.stored_receipt import receipt_body

    body = receipt_body(past.receipt) if past.receipt else {"schema": SCHEMA, "turn_id": past.turn.id}
    return body if calls is None else {**body, "calls": [call_json(call) for call in calls]}


def _replay(past: "PastTurn", calls: list[CallRecord] | None, terminal: Terminal, *, now: float) -> None:
    from xscore.pipeline.stored_receipt import read_receipt
    from xscore.store.turn_history import parse_timestamp

    with damage_if_invalid("a turn"):
        began = parse_timestamp(past.started_at)
        task = quote_task(past.turn.task) if past.turn.task else "(its task was erased)"
    terminal.lines(faint(f"turn {past.turn.id}, {format_age(began, now)}: {task}"))
    if past.receipt:
        stored = read_receipt(past.receipt)
        print_turn(_presentable_answer(stored.answer), terminal, "", wants_answer=False)
        missing = f"an earlier version wrote this receipt, without: {one_line(', '.join(stored.lacks))}"
        terminal.notes(["its answer was erased" if stored.is_erased else "", missing if stored.lacks else ""])
    if calls is not None:
        write_stdout(render_calls(calls, began=began, width=stdout_columns()))


def _presentable_answer(answer: Answer) -> Answer:
    """Return the receipt as it is shown: no empty answer, and a word for what it may not say."""
    own = tuple(
        replace(one, reason=USER_MEMORY_REASON) if one.layer == "user" and not one.reason else one
        for one in answer.selected
    )
    return replace(answer, answer=answer.answer or None, selected=own)


def render_calls(calls: Sequence[CallRecord], *, began: float, width: int | None) -> str:
    """One line an attempt. began: Unix seconds of the turn. width: columns of the window; None: lines are not cut."""
    if not calls:
        return "no call was made"
    return render_table(
        CALL_HEADS, [tuple(_call_cells(call, began)) for call in calls], right=CALL_FIGURES, width=width
    )


def _call_cells(call: CallRecord, began: float) -> Iterator[str]:
    usage = call.usage
    cached = f" ({format_tokens(usage.cached_input_tokens)} cached)" if usage.cached_input_tokens else ""
    yield f"+{max(0.0, call.started_at - began):.1f} s"
    yield str(call.stage)
    yield one_line(call.outcome)
    yield format_seconds(call.duration_s)
    yield f"{format_tokens(usage.input_tokens)}{cached}"
    yield format_tokens(usage.output_tokens)
    yield format_dollars(call.cost_usd, estimated=call.estimated)
    yield f"{call.candidates:,}" if call.candidates else ""
    yield one_line(f"{call.provider}:{call.model} at {call.host}")


def call_json(call: CallRecord) -> dict[str, Json]:
    """Render one attempt."""
    own = ("id", "stage", "provider", "host", "model", "started_at", "duration_s", "outcome", "candidates")
    return {
        **{name: value for name, value in record_json(call).items() if name in own},
        **record_json(call.usage),
        "cost_usd": money_json(call.cost_usd),
        "estimated": call.estimated,
    }

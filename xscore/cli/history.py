"""`xscore history list` and `history show`: past turns from the store alone, no model and no index.

`show` prints a turn again as `ask` did. Trade-off: the context is not kept with a turn, so
where `ask` or `context` printed one, the list of chosen memories takes its place.
"""

from collections.abc import Sequence

import click
from msgspec.structs import replace

from xscore.cli.ask import print_turn
from xscore.cli.flags import Flags, command
from xscore.cli.options import COUNT, period_s
from xscore.cli.phrases import format_age, quote_task
from xscore.cli.settings_and_store import opened_store
from xscore.cli.terminal import Terminal, print_json, stdout_columns, write_stdout
from xscore.cli.text_layout import faint, render_table, truncate
from xscore.costs.ledger import calls_of_turn
from xscore.pipeline.json_form import SCHEMA, Json, money_json, record_json, stage_usage_json
from xscore.pipeline.stored_receipt import read_receipt, receipt_body
from xscore.platform.database import damage_if_invalid
from xscore.platform.errors import NothingMatched
from xscore.platform.figures import format_dollars, format_seconds, format_tokens
from xscore.platform.paths import decode_path_argument
from xscore.platform.sqlite_drivers import REBUILD_HINT
from xscore.platform.text import counted, ellipsize, one_line
from xscore.records.calls import CallRecord
from xscore.records.receipt import Answer, Selected
from xscore.records.reports import AnswerState, ListedTurn
from xscore.store.call_rows import parse_timestamp
from xscore.store.turn_history import (
    LATEST_TURN,
    STATES,
    PastTurn,
    TurnFilter,
    find_turn_id,
    list_turns,
    load_listed_turn,
    past_turn,
)

CALL_HEADS = ("at", "stage", "outcome", "took", "in", "out", "dollars", "memories", "model")
CALL_FIGURES = {"at", "took", "in", "out", "dollars", "memories"}
TURN_HEADS = ("turn", "when", "state", "dollars", "took", "kept", "by", "task")
USER_MEMORY_REASON = "(one of your own memories: receipts do not keep its text)"
TURNS_SHOWN = 20
PIPED_TASK_CHARS = 300
"""Characters shown of a task where no window cuts it; `--json` has all of it, and `--grep`
searches all of it."""
ONE_LINE_FROM = 110
"""Narrowest window, in columns, in which a task shares a line with its figures."""


@command()
@click.option(
    "--last",
    metavar="PERIOD",
    type=period_s,
    help="Only turns of the last 30s, 90m, 24h, 7d, 2w.",
)
@click.option(
    "--limit",
    metavar="N",
    type=COUNT,
    help=f"Only the newest N. Default: {TURNS_SHOWN}, or all that --last or --grep covers.",
)
@click.option(
    "--state",
    type=click.Choice(STATES),
    help="Only turns in this state; unfinished: its process died.",
)
@click.option(
    "--session",
    metavar="S",
    default="",
    help="Only turns of this working session (an ID or a prefix).",
)
@click.option(
    "--grep",
    metavar="TEXT",
    default="",
    help="Only turns whose task contains this text, in any case.",
)
def list_history(
    *,
    last: float | None,
    limit: int | None,
    state: str | None,
    session: str,
    grep: str,
    flags: Flags,
) -> int:
    """List past turns, newest first: when, how they ended, dollars, seconds, memories kept, task.

    `xscore history show T` prints one of them again. Exit code 1 if no turn matches.
    """
    has_others = bool(last or state or session)
    terminal = flags.terminal
    # What is looked for may be older than the latest.
    is_bounded = last is not None or bool(grep)
    limit_shown = TURNS_SHOWN if limit is None and not is_bounded else limit
    with opened_store(flags, make=False) as store:
        now = store.clock()
        choice = TurnFilter(
            limit=None if limit_shown is None else limit_shown + 1,
            since=None if last is None else now - last,
            state=state or "",
            thread=session,
            text=grep,
        )
        listed = list_turns(store.connection, choice, now=now)
    shown = listed.turns[:limit_shown]
    left_out = listed.damaged_turns + listed.damaged_calls
    turns = [{**record_json(turn), "spent": stage_usage_json(turn.spent)} for turn in shown]
    if left_out:
        none = "every row of it is damaged"
    else:
        none = _describe_empty(grep, has_others=has_others)
    body = {"turns": turns, "left_out": left_out}
    table = _render_turns(shown, now=now, width=stdout_columns())
    terminal.print_result(body, table, none=none)
    for count, kind in ((listed.damaged_turns, "turns"), (listed.damaged_calls, "calls")):
        if count:
            terminal.note(
                f"left out, since they are damaged: {count:,} rows of {kind}. {REBUILD_HINT}"
            )
    if not (limit or terminal.as_json) and len(shown) < len(listed.turns):
        terminal.note(f"the newest {limit_shown}; `--limit N` or `--last 7d` shows more")
    if (grep or has_others) and not shown:
        return NothingMatched.exit_code
    return 0


def _describe_empty(grep: str, *, has_others: bool) -> str:
    if grep:
        among = "no turn"
        if has_others:
            among = "no turn in this selection"
        return f"{among} has a task that contains {quote_task(grep)}"
    if has_others:
        return "no turn matches"
    return 'there is no turn yet; `xscore ask "…"` begins one'


def _render_turns(turns: Sequence[ListedTurn], *, now: float, width: int | None) -> str:
    rows = [_turn_cells(turn, now=now) for turn in turns]
    if not rows:
        return ""
    if width is None or width >= ONE_LINE_FROM:
        return render_table(TURN_HEADS, rows, right=TURN_HEADS[3:5], width=width)
    figures = render_table(
        TURN_HEADS[:-1], [row[:-1] for row in rows], right=TURN_HEADS[3:5], width=width
    )
    # Too narrow for a column of tasks: each goes under its figures.
    head, *figure_lines = figures.split("\n")
    lines = [head]
    for figure_line, row in zip(figure_lines, rows, strict=True):
        lines += [figure_line, truncate(f"  {row[-1]}", width)]
    return "\n".join(lines)


def _turn_cells(turn: ListedTurn, *, now: float) -> tuple[str, ...]:
    spent = kept = ""
    if turn.spent.attempts or turn.coverage:
        spent = format_dollars(turn.spent.cost_usd, estimated=turn.spent.estimated)
    took = "" if turn.total_s is None else format_seconds(turn.total_s)
    if turn.coverage is not None:
        missing = ""
        if turn.coverage.unjudged:
            missing = f", {turn.coverage.unjudged:,} unjudged"
        # where the model judged nothing, what was kept was ranked by words, under the lexical
        # judge's threshold
        is_by_words = turn.kept and turn.coverage.unjudged == turn.coverage.candidates
        kept = (
            f"{turn.kept:,} of"
            f" {turn.coverage.candidates:,}{' by words' if is_by_words else ''}{missing}"
        )
    by = one_line(f"{turn.command} ({turn.judge})" if turn.judge else turn.command)
    task = next((line.strip() for line in turn.task.splitlines() if line.strip()), "(no task)")
    task = "(the task was erased)" if turn.task_is_erased else ellipsize(task, PIPED_TASK_CHARS)
    erased = ""
    if turn.answer is AnswerState.ERASED and not turn.task_is_erased:
        erased = "(its answer was erased) "
    return (
        one_line(turn.id),
        format_age(turn.at, now),
        turn.state,
        spent,
        took,
        kept,
        by,
        erased + task,
    )


@command()
@click.argument("turn", metavar="[T]", default=LATEST_TURN)
@click.option(
    "--calls",
    is_flag=True,
    help="Also list every attempt: stage, model, outcome, seconds, tokens, dollars.",
)
def show_turn(turn: str, *, calls: bool, flags: Flags) -> None:
    """Print what turn T printed: its answer, the chosen memories, near misses, warnings and cost.
    Nothing is sent.

    T is an ID, the beginning of one, or `latest` (the default). With --json it is the stored
    receipt as it is.
    """
    with opened_store(flags, make=False) as store:
        turn_id = find_turn_id(store.connection, decode_path_argument(turn))
        now = store.clock()
        past = past_turn(store.connection, turn_id)
        assert past is not None
        turn_calls = None
        if calls:
            turn_calls = calls_of_turn(store.connection, turn_id)
        if not past.receipt and turn_calls is None:
            raise _missing_receipt(load_listed_turn(store.connection, turn_id, now=now))
    if flags.terminal.as_json:
        body = {"schema": SCHEMA, "turn_id": past.turn.id}
        if past.receipt:
            body = receipt_body(past.receipt)
        if turn_calls is not None:
            body = {**body, "calls": [_call_json(call) for call in turn_calls]}
        print_json(body)
    else:
        _replay(past, turn_calls, flags.terminal, now=now)


def _missing_receipt(turn: ListedTurn) -> NothingMatched:
    cost = format_dollars(turn.spent.cost_usd, estimated=turn.spent.estimated)
    spent = f"{counted(turn.spent.attempts, 'attempt')} recorded, {cost}"
    if turn.state == "running":
        return NothingMatched(
            f"turn {turn.id} is running ({spent})", hint="Its receipt is written when it ends."
        )
    return NothingMatched(
        f"turn {turn.id} left no receipt: it is {turn.state} ({spent})",
        hint=(
            f"`xscore continue {turn.id}` finishes it; `xscore history show {turn.id} --calls`"
            " lists what was sent."
        ),
    )


def _replay(
    past: PastTurn, calls: list[CallRecord] | None, terminal: Terminal, *, now: float
) -> None:
    with damage_if_invalid("a turn"):
        began = parse_timestamp(past.started_at)
        task = "(its task was erased)"
        if past.turn.task:
            task = quote_task(past.turn.task)
    terminal.lines(faint(f"turn {past.turn.id}, {format_age(began, now)}: {task}"))
    if past.receipt:
        stored = read_receipt(past.receipt)
        print_turn(_presentable_answer(stored), terminal)
        if stored.answer == "":
            terminal.note("its answer was erased")
    if calls is not None:
        rows = [_call_cells(call, began) for call in calls]
        table = ""
        if rows:
            table = render_table(CALL_HEADS, rows, right=CALL_FIGURES, width=stdout_columns())
        write_stdout(table or "no call was made")


def _presentable_answer(answer: Answer) -> Answer:
    selected = tuple(_with_reason(memory) for memory in answer.selected)
    return replace(answer, answer=answer.answer or None, selected=selected)


def _with_reason(memory: Selected) -> Selected:
    if memory.layer == "user" and not memory.reason:
        return replace(memory, reason=USER_MEMORY_REASON)
    return memory


def _call_cells(call: CallRecord, began: float) -> tuple[str, ...]:
    usage = call.usage
    cached = ""
    if usage.cached_input_tokens:
        cached = f" ({format_tokens(usage.cached_input_tokens)} cached)"
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


def _call_json(call: CallRecord) -> dict[str, Json]:
    host_fields = (
        "id",
        "stage",
        "provider",
        "host",
        "model",
        "started_at",
        "duration_s",
        "outcome",
        "candidates",
    )
    record = record_json(call)
    body = {name: value for name, value in record.items() if name in host_fields}
    body |= record_json(call.usage)
    body["cost_usd"] = money_json(call.cost_usd)
    body["estimated"] = call.estimated
    return body

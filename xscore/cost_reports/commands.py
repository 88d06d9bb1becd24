"""`xscore report`: what the ledger says of money, tokens, time and coverage, for people, programs and CI.

It opens stores, asks for the report, and hands it to what shows it. It adds up nothing.
"""

from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from xscore.cli.opening import in_store, read_settings
from xscore.cli.options import FILE, Flags, Option, PeriodType, UtcTimeType, command, decode_path_argument, options
from xscore.cli.terminal import Terminal, print_json, write_stdout
from xscore.pipeline.json_form import record_json, to_json
from xscore.platform.errors import NothingMatched, StoreDamaged, UsageError
from xscore.platform.sqlite_drivers import REBUILD_HINT
from xscore.records.cost_report import REPORT_GROUPINGS

if TYPE_CHECKING:
    from xscore.cost_reports.report import RepositoryLedger
    from xscore.records.cost_report import CostReport, GateReport, ReportQuery
    from xscore.store.store import Store

BASELINE = Path("cost_reports/baseline.json")
PAGE_LINES, JSON_LINES = 1_000, 100
"""Turns in a line each, of the page and of `--json`; the sums are over all, and tables have every turn."""
DETAILED = 50
"""Turns of the page whose choices are shown."""
FORMATS = ("text", "markdown", "html", "csv")
PERIOD_OPTIONS: dict[str, Option] = {
    "last": click.option(
        "--last", metavar="PERIOD", type=PeriodType(), help="Turns of the last 30s, 90m, 24h, 7d, 2w."
    ),
    "since": click.option("--since", metavar="TIME", type=UtcTimeType(), help="Turns since 2026-11-01[T08:00], UTC."),
    "until": click.option("--until", metavar="TIME", type=UtcTimeType(), help="Turns before this time, UTC."),
    "turn": click.option("--turn", metavar="T", help="One turn alone: its ID, the beginning of one, or `latest`."),
    "by": click.option("--by", type=click.Choice(REPORT_GROUPINGS), help="A line for each of these."),
    "repo": click.option(
        "--repo",
        metavar="FOLDER",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        multiple=True,
        help="Add the ledger of another repository. Repeatable.",
    ),
}
OUTPUT_OPTIONS: dict[str, Option] = {
    "format": click.option("--format", type=click.Choice(FORMATS), help="Form on stdout; default: text."),
    "output": click.option(
        "-o",
        "--output",
        metavar="FILE",
        type=FILE,
        multiple=True,
        help="Write FILE.html (a page), .csv or .parquet (tables), .md. Repeatable.",
    ),
}
GATE_OPTIONS: dict[str, Option] = {
    "check": click.option("--check", is_flag=True, help="Compare with the baseline; exit code 5 if a figure is worse."),
    "baseline": click.option(
        "--baseline", metavar="FILE", type=FILE, default=BASELINE, show_default=True, help="The baseline's file."
    ),
    "update_baseline": click.option("--update-baseline", is_flag=True, help="Write a new baseline."),
}


@command()
@options(PERIOD_OPTIONS, OUTPUT_OPTIONS, GATE_OPTIONS)
def report(flags: Flags) -> int:
    """Add up the ledger: turns, coverage, tokens, dollars, what other ways would have cost, percentiles, retries.

    Days and times are UTC; a turn counts with all its calls in the day in which it began. With --output, --check or
    --update-baseline nothing else is printed, unless --json or --format ask for it.
    """
    from xscore.cost_reports.report_files import check_outputs

    _refuse_contradictions(flags)
    given = flags.given
    uses_baseline = given["check"] or given["update_baseline"]
    check_outputs(given["output"], given["baseline"] if uses_baseline else None, writes=given["update_baseline"])
    return in_store(lambda store: _build_report(store, flags), flags, make=False)


def _refuse_contradictions(flags: Flags) -> None:
    given = flags.given
    pairs = {
        "--json and --format both want stdout": flags.terminal.as_json and given["format"],
        "--check and --update-baseline contradict each other": given["check"] and given["update_baseline"],
        "--last and --since contradict each other": given["last"] is not None and given["since"] is not None,
        "--turn names one turn: leave out --last, --since and --until": given["turn"] is not None
        and any(given[name] is not None for name in ("last", "since", "until")),
        "--since is not before --until": None not in (given["since"], given["until"])
        and given["since"] >= given["until"],
    }
    if wrong := next((words for words, is_so in pairs.items() if is_so), ""):
        raise UsageError(wrong, hint="Give one of them; for one day: --since 2026-11-01 --until 2026-11-02.")


def _build_report(store: "Store", flags: Flags) -> int:
    from xscore.cost_reports.report import RepositoryLedger
    from xscore.cost_reports.report import build_report as add_up

    with ExitStack() as open_:
        ledgers = [RepositoryLedger(str(store.root.path), store.connection)]
        for path in flags.given["repo"]:
            _open_other_ledger(ledgers, path, flags, open_)
        now = store.clock()
        found = add_up(ledgers, _report_request(flags, ledgers, now), now=now)
    if found.turn_id and not found.turns_by_state:
        raise StoreDamaged(f"the store is damaged: turn {found.turn_id} makes no sense", hint=REBUILD_HINT)
    for warning in found.warnings:
        flags.terminal.note(warning)
    gate = _check(found, flags) if flags.given["check"] else None
    _write_files(found, gate, flags)
    return _print_report(found, gate, flags)


def _open_other_ledger(ledgers: "list[RepositoryLedger]", path: Path, flags: Flags, open_: ExitStack) -> None:
    """Open the store of another repository, with its own settings; one that is there already counts once."""
    from xscore.cost_reports.report import RepositoryLedger
    from xscore.platform.paths import find_root, user_data_dir
    from xscore.store.store import Store

    root = find_root(path.resolve())
    if str(root.path) in [ledger.repository for ledger in ledgers]:
        return
    if not root.store_file.exists():
        raise UsageError(f"--repo: {root.path} has no store", hint="`xscore index` makes one there; or leave it out.")
    chosen = read_settings(flags, start=path).settings
    other = open_.enter_context(
        Store.open(
            root,
            user_data_dir=user_data_dir(chosen.store.user_data_dir),
            trust=chosen.store.trust,
            settings=chosen.memory,
        )
    )
    ledgers.append(RepositoryLedger(str(root.path), other.connection))


def _report_request(flags: Flags, ledgers: "list[RepositoryLedger]", now: float) -> "ReportQuery":
    from xscore.records.cost_report import ReportQuery

    given = flags.given
    turn = "" if given["turn"] is None else _resolve_turn(decode_path_argument(given["turn"]), ledgers)
    forms = _forms(flags)
    lines = PAGE_LINES if "html" in forms else JSON_LINES if flags.terminal.as_json else 0
    if given["by"] == "turn":
        from xscore.cost_reports.report_markdown import MARKDOWN_GROUPS_SHOWN

        lines = max(lines, MARKDOWN_GROUPS_SHOWN)  # of which it says when they began, and what for
    return ReportQuery(
        since=given["since"] if given["last"] is None else max(0.0, now - given["last"]),
        until=given["until"],
        turn_id=turn,
        by=given["by"] or "",
        lines=None if not given["by"] and forms & {"csv", "parquet"} else lines,
        details=DETAILED if "html" in forms else 0,
    )


def _forms(flags: Flags) -> set[str]:
    """Every form that is written, to a file or to stdout."""
    from xscore.cost_reports.report_files import form_of_file

    return {form_of_file(path) for path in flags.given["output"]} | {flags.given["format"] or ""}


def _resolve_turn(turn: str, ledgers: "list[RepositoryLedger]") -> str:
    """Return the id of a turn that is named as for `xscore history show`, in the first ledger that has it."""
    from xscore.store.turn_history import LATEST_TURN, find_turn_id

    first, *others = ledgers
    try:
        return find_turn_id(first.connection, turn)
    except NothingMatched:
        for other in others if turn != LATEST_TURN else ():
            with suppress(NothingMatched):
                return find_turn_id(other.connection, turn)
        raise


def _check(found: "CostReport", flags: Flags) -> "GateReport":
    from xscore.cost_reports.report_markdown import check_report

    return check_report(found, baseline=flags.given["baseline"], gates=read_settings(flags).settings.gates)


def _write_files(found: "CostReport", gate: "GateReport | None", flags: Flags) -> None:
    from xscore.cost_reports.report_files import form_of_file, report_parquet
    from xscore.platform.files import write_atomically

    for path in flags.given["output"]:
        form = form_of_file(path)
        content = report_parquet(found) if form == "parquet" else _render(found, gate, form).encode()
        write_atomically(path, content)
        flags.terminal.note(f"report written to {path}")


def _render(found: "CostReport", gate: "GateReport | None", form: str) -> str:
    match form:
        case "html":
            from xscore.cost_reports.page import render_page

            return render_page(replace(found, turns=found.turns[:PAGE_LINES]))
        case "csv":
            from xscore.cost_reports.report_files import report_csv

            return report_csv(found)
        case "markdown":
            from xscore.cost_reports.report_markdown import gate_markdown, render_markdown

            return render_markdown(found) + (f"\n### Gates\n\n{gate_markdown(gate)}" if gate is not None else "")
    from xscore.cost_reports.report_text import render_report

    return render_report(found)


def _print_report(found: "CostReport", gate: "GateReport | None", flags: Flags) -> int:
    """Print what stdout is to have, report the gate or write the baseline; return the exit code."""
    given, terminal = flags.given, flags.terminal
    if terminal.as_json:
        body = to_json(replace(found, turns=found.turns[:JSON_LINES], details=()))
        print_json(body if gate is None else {**body, "gate": record_json(gate)})
    elif given["format"] not in (None, "text"):
        terminal.data(_render(found, gate, given["format"]))
    elif given["format"] or not (given["output"] or given["check"] or given["update_baseline"]):
        write_stdout(_render(found, gate, "text"))
    return _report_gate(found, gate, given["baseline"] if given["update_baseline"] else None, terminal)


def _report_gate(found: "CostReport", gate: "GateReport | None", baseline: Path | None, terminal: Terminal) -> int:
    if gate is None and baseline is None:
        return 0
    from xscore.cost_reports.report_markdown import print_gate, update_baseline

    if gate is not None:
        return print_gate(gate, terminal)
    assert baseline is not None
    return update_baseline(found, baseline=baseline, terminal=terminal)

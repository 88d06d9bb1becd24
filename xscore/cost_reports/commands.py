"""`xscore report`: the ledger's money, tokens, time and coverage, for people, programs and CI.

It opens stores, builds the report and prints or writes it. It adds up nothing itself.
"""

import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from xscore.cli.flags import Flags, command
from xscore.cli.options import FILE, option, period_s, utc_time
from xscore.cli.settings_and_store import opened_store, read_settings
from xscore.cli.terminal import print_json, write_stdout
from xscore.cost_reports.groupings import GROUPINGS
from xscore.cost_reports.records import CostReport, GateReport, ReportQuery
from xscore.cost_reports.report import RepositoryLedger, build_report
from xscore.cost_reports.report_files import (
    MARKDOWN_GROUPS_SHOWN,
    baseline_for_page,
    check_outputs,
    check_report,
    form_of_file,
    gate_markdown,
    print_gate,
    render_markdown,
    report_csv,
    report_parquet,
    update_baseline,
)
from xscore.cost_reports.report_text import render_report
from xscore.pipeline.json_form import record_json, to_json
from xscore.platform.errors import NothingMatched, StoreDamaged, UsageError
from xscore.platform.files import is_there, write_atomically
from xscore.platform.paths import decode_path_argument, find_root
from xscore.platform.sqlite_drivers import REBUILD_HINT
from xscore.store.turn_history import LATEST_TURN, find_turn_id

if TYPE_CHECKING:
    from xscore.store.store import Store

BASELINE = Path("cost_reports/baseline.json")
PAGE_LINES, JSON_LINES = 1_000, 100
"""Turns listed on the page and by `--json`; sums cover all turns, and tables have every turn."""
DETAILED = 50
"""Turns on the page whose choices are shown."""
TO_FILE = "Write it to a file: xscore report -o report.html"
FORMATS = ("text", "markdown", "html", "csv")
PERIOD_OPTIONS = [
    option(
        "--last",
        metavar="PERIOD",
        type=period_s,
        help="Turns of the last 30s, 90m, 24h, 7d, 2w.",
    ),
    option(
        "--since", metavar="TIME", type=utc_time, help="Turns since 2026-11-01[T08:00], UTC."
    ),
    option("--until", metavar="TIME", type=utc_time, help="Turns before this time, UTC."),
    option("--turn", metavar="T", help="One turn: its ID, a prefix of it, or `latest`."),
    option("--by", type=click.Choice(tuple(GROUPINGS)), help="Group the figures by this."),
    option(
        "--repo",
        metavar="FOLDER",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        multiple=True,
        help="Add the ledger of another repository. Repeatable.",
    ),
]
OUTPUT_OPTIONS = [
    option("--format", type=click.Choice(FORMATS), help="Form on stdout; default: text."),
    option(
        "--html", is_flag=True, help="The same as --format html; to write a file: -o FILE.html."
    ),
    option(
        "-o",
        "--output",
        metavar="FILE",
        type=FILE,
        multiple=True,
        help="Write FILE.html (a page), .csv or .parquet (tables), .md. Repeatable.",
    ),
]
GATE_OPTIONS = [
    option(
        "--check",
        is_flag=True,
        help="Compare with the baseline; exit code 5 if a figure is worse.",
    ),
    option(
        "--baseline",
        metavar="FILE",
        type=FILE,
        default=BASELINE,
        show_default=True,
        help="The baseline's file.",
    ),
    option("--update-baseline", is_flag=True, help="Write a new baseline."),
]


@command(PERIOD_OPTIONS, OUTPUT_OPTIONS, GATE_OPTIONS)
@click.argument("misplaced", metavar="", nargs=-1)
def report(misplaced: tuple[str, ...], flags: Flags) -> int:
    """Add up the ledger: turns, coverage, tokens, dollars, what other ways would have cost,
    percentiles, retries.

    Days and times are UTC; a turn counts with all its calls in the day in which it began. With
    --output, --check or --update-baseline nothing else is printed, unless --json or --format ask
    for it.
    """
    if misplaced:
        raise UsageError(
            f"`report` accepts no arguments: {misplaced[0]}",
            hint=f"To write that file: xscore report -o {quote(misplaced[0])}",
        )
    _refuse_contradictions(flags)
    if flags.given["html"]:
        flags = replace(flags, given={**flags.given, "format": "html"})
    options = flags.given
    if options["format"] == "html" and sys.stdout.isatty():
        raise UsageError("a page of HTML is not readable in a terminal", hint=TO_FILE)
    uses_baseline = options["check"] or options["update_baseline"]
    check_outputs(
        options["output"],
        options["baseline"] if uses_baseline else None,
        writes=options["update_baseline"],
    )
    with opened_store(flags, make=False) as store:
        return _build_report(store, flags)


def _refuse_contradictions(flags: Flags) -> None:
    options = flags.given
    since = options["since"]
    until = options["until"]
    last = options["last"]
    wrong = ""
    if flags.terminal.as_json and (options["format"] or options["html"]):
        wrong = "--json and --format both want stdout"
    elif options["html"] and options["format"] not in (None, "html"):
        wrong = "--html and --format contradict each other"
    elif options["check"] and options["update_baseline"]:
        wrong = "--check and --update-baseline contradict each other"
    elif last is not None and since is not None:
        wrong = "--last and --since contradict each other"
    elif options["turn"] is not None and (last, since, until) != (None, None, None):
        wrong = "--turn names one turn: leave out --last, --since and --until"
    elif since is not None and until is not None and since >= until:
        wrong = "--since is not before --until"
    if wrong:
        raise UsageError(
            wrong, hint="Give one of them; for one day: --since 2026-11-01 --until 2026-11-02."
        )


def _build_report(store: "Store", flags: Flags) -> int:
    with ExitStack() as open_:
        ledgers = [RepositoryLedger(str(store.root.path), store.connection)]
        for path in flags.given["repo"]:
            _open_other_ledger(ledgers, path, flags, open_)
        now = store.clock()
        report = build_report(ledgers, _report_request(flags, ledgers, now), now=now)
    if report.turn_id and not report.turns_by_state:
        raise StoreDamaged(
            f"the store is damaged: turn {report.turn_id} cannot be read", hint=REBUILD_HINT
        )
    flags.terminal.notes(report.warnings)
    gate = None
    if flags.given["check"]:
        gate = check_report(
            report, baseline=flags.given["baseline"], gates=read_settings(flags).settings.gates
        )
    for path in flags.given["output"]:
        form = form_of_file(path)
        if form == "parquet":
            content = report_parquet(report)
        else:
            content = _render(report, gate, form, flags).encode()
        write_atomically(path, content)
        flags.terminal.note(f"report written to {path}")
    return _print_report(report, gate, flags)


def _open_other_ledger(
    ledgers: list[RepositoryLedger], path: Path, flags: Flags, open_: ExitStack
) -> None:
    root = find_root(path.resolve())
    if str(root.path) in [ledger.repository for ledger in ledgers]:
        return
    if not is_there(root.store_file):
        raise UsageError(
            f"--repo: {root.path} has no store",
            hint="Run `xscore index` there to create one, or leave it out.",
        )
    store = open_.enter_context(opened_store(flags, start=path))
    ledgers.append(RepositoryLedger(str(root.path), store.connection))


def _report_request(flags: Flags, ledgers: list[RepositoryLedger], now: float) -> ReportQuery:
    options = flags.given
    turn = ""
    if options["turn"] is not None:
        turn = _resolve_turn(decode_path_argument(options["turn"]), ledgers)
    since = options["since"]
    if options["last"] is not None:
        since = max(0.0, now - options["last"])
    forms = {form_of_file(path) for path in options["output"]}
    forms.add(options["format"] or "")
    return ReportQuery(
        since=since,
        until=options["until"],
        turn_id=turn,
        by=options["by"] or "",
        lines=_lines_to_read(forms, options["by"], as_json=flags.terminal.as_json),
        details=DETAILED if "html" in forms else 0,
    )


def _lines_to_read(forms: set[str], by: str | None, *, as_json: bool) -> int | None:
    """Return how many turns need a line of their own; None: all."""
    if not by and forms & {"csv", "parquet"}:
        return None
    lines = 0
    if "html" in forms:
        lines = PAGE_LINES
    elif as_json:
        lines = JSON_LINES
    # Groups by turn say when the turn began, and what for.
    if by == "turn":
        return max(lines, MARKDOWN_GROUPS_SHOWN)
    return lines


def _resolve_turn(turn: str, ledgers: list[RepositoryLedger]) -> str:
    own_ledger, *other_ledgers = ledgers
    try:
        return find_turn_id(own_ledger.connection, turn)
    except NothingMatched:
        for ledger in other_ledgers if turn != LATEST_TURN else ():
            with suppress(NothingMatched):
                return find_turn_id(ledger.connection, turn)
        raise


def _render(report: CostReport, gate: GateReport | None, form: str, flags: Flags) -> str:
    match form:
        case "html":
            from xscore.cost_reports.page import render_page  # only for a page

            baseline = baseline_for_page(flags.given["baseline"])
            return render_page(
                replace(report, turns=report.turns[:PAGE_LINES]), baseline=baseline
            )
        case "csv":
            return report_csv(report)
        case "markdown":
            text = render_markdown(report)
            return text if gate is None else f"{text}\n### Gates\n\n{gate_markdown(gate)}"
    return render_report(report)


def _print_report(report: CostReport, gate: GateReport | None, flags: Flags) -> int:
    options = flags.given
    terminal = flags.terminal
    writes_elsewhere = options["output"] or options["check"] or options["update_baseline"]
    if terminal.as_json:
        body = to_json(replace(report, turns=report.turns[:JSON_LINES], details=()))
        print_json(body if gate is None else {**body, "gate": record_json(gate)})
    elif options["format"] not in (None, "text"):
        terminal.data(_render(report, gate, options["format"], flags))
    elif options["format"] or not writes_elsewhere:
        write_stdout(_render(report, gate, "text", flags))
    if gate is not None:
        return print_gate(gate, terminal)
    if options["update_baseline"]:
        update_baseline(report, baseline=options["baseline"], terminal=terminal)
    return 0

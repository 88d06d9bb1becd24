"""`xscore report`: what the ledger says of money, tokens, time and coverage, for people, programs and CI.

It opens stores, asks for the report, and hands it to whoever shows it. It adds up nothing.
"""

import re
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from xscore.cli.opening import in_store, read_settings
from xscore.cli.options import FILE, OUTPUT, Flags, PeriodType, decode_path_argument, options
from xscore.cli.terminal import Terminal, print_json, write_stdout
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
FILE_OR_STDOUT = click.Path(dir_okay=False, allow_dash=True, path_type=Path)
_UNIX = re.compile(r"[0-9]{9,10}(\.[0-9]{1,6})?")


class UtcTimeType(click.ParamType[float]):
    """A day or a moment, in UTC unless it names an offset: `2026-11-01`, `2026-11-01T08:00`, `…+01:00`."""

    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return Unix seconds."""
        text = str(value).strip()
        if _UNIX.fullmatch(text):
            return float(text)
        try:
            at = datetime.fromisoformat(text)
            return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC).timestamp()
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is no moment. Write 2026-11-01, or 2026-11-01T08:00 (UTC).", param, ctx)


PERIOD_OPTIONS = {
    "last": click.option(
        "--last", metavar="STRETCH", type=PeriodType(), help="Turns of the last 30s, 90m, 24h, 7d or 2w."
    ),
    "since": click.option("--since", metavar="MOMENT", type=UtcTimeType(), help="Turns since 2026-11-01[T08:00], UTC."),
    "until": click.option("--until", metavar="MOMENT", type=UtcTimeType(), help="Turns before this moment, UTC."),
    "turn": click.option("--turn", metavar="T", help="One turn alone: its id, the beginning of one, or `latest`."),
    "by": click.option("--by", type=click.Choice(REPORT_GROUPINGS), help="A line for each of these."),
    "repo": click.option(
        "--repo",
        metavar="FOLDER",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        multiple=True,
        help="Add the ledger of another repository. Repeatable.",
    ),
}
OUTPUT_OPTIONS = {
    "markdown": click.option("--markdown", is_flag=True, help="As Markdown on stdout, for the step summary of a CI."),
    "html": click.option(
        "--html", metavar="FILE", type=FILE_OR_STDOUT, help="As a page to look at: one file, no network; `-`: stdout."
    ),
    "csv": click.option(
        "--csv", metavar="FILE", type=FILE_OR_STDOUT, help="A line a group of --by, else a line a turn; `-`: stdout."
    ),
    "parquet": click.option("--parquet", metavar="FILE", type=FILE, help="The same table as Parquet."),
}
GATE_OPTIONS = {
    "check": click.option("--check", is_flag=True, help="Compare with the baseline; 5 where a figure is worse."),
    "baseline": click.option(
        "--baseline", metavar="FILE", type=FILE, default=BASELINE, show_default=True, help="The baseline's file."
    ),
    "update_baseline": click.option("--update-baseline", is_flag=True, help="Write the baseline anew."),
}


@click.command()
@options(PERIOD_OPTIONS, OUTPUT_OPTIONS, GATE_OPTIONS, OUTPUT)
def report(flags: Flags) -> int:
    """Add up the ledger: turns, coverage, tokens, dollars, what they would have been otherwise, percentiles, retries.

    Days and moments are UTC; a turn counts with all its calls in the day and stretch in which it began. With --html,
    --csv FILE, --parquet, --check or --update-baseline nothing else is printed, unless --json or --markdown ask for it.
    """
    _refuse_contradictions(flags)
    _check_outputs(flags)
    return in_store(lambda store: _build_report(store, flags), flags, make=False)


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
    gate = _checked(found, flags) if flags.given["check"] else None
    _write_files(found, flags)
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
            trust_it=chosen.store.trust,
            settings=chosen.memory,
        )
    )
    ledgers.append(RepositoryLedger(str(root.path), other.connection))


def _report_request(flags: Flags, ledgers: "list[RepositoryLedger]", now: float) -> "ReportQuery":
    from xscore.records.cost_report import ReportQuery

    given = flags.given
    turn = "" if given["turn"] is None else _resolve_turn(decode_path_argument(given["turn"]), ledgers)
    lines = PAGE_LINES if given["html"] else JSON_LINES if flags.terminal.as_json else 0
    if given["by"] == "turn":
        from xscore.cost_reports.report_markdown import MARKDOWN_GROUPS_SHOWN

        lines = max(lines, MARKDOWN_GROUPS_SHOWN)  # of which it says when they began, and what for
    wants_all = not given["by"] and (given["csv"] or given["parquet"])
    return ReportQuery(
        since=given["since"] if given["last"] is None else max(0.0, now - given["last"]),
        until=given["until"],
        turn_id=turn,
        by=given["by"] or "",
        lines=None if wants_all else lines,
        details=DETAILED if given["html"] else 0,
    )


def _resolve_turn(turn: str, ledgers: "list[RepositoryLedger]") -> str:
    """Return the id of a turn that is named as for `xscore turn show`, in the first ledger that has it."""
    from xscore.store.turn_history import LATEST_TURN, find_turn_id

    first, *others = ledgers
    try:
        return find_turn_id(first.connection, turn)
    except NothingMatched:
        for other in others if turn != LATEST_TURN else ():
            with suppress(NothingMatched):
                return find_turn_id(other.connection, turn)
        raise


def _write_files(found: "CostReport", flags: Flags) -> None:
    given = flags.given
    if given["html"]:
        from xscore.cost_reports.page import render_page

        _write_output(
            render_page(replace(found, turns=found.turns[:PAGE_LINES])), "page", given["html"], flags.terminal
        )
    if given["csv"]:
        from xscore.cost_reports.report_files import report_csv

        _write_output(report_csv(found), "table", given["csv"], flags.terminal)
    if given["parquet"]:
        from xscore.cost_reports.report_files import report_parquet

        _write_output(report_parquet(found), "table", given["parquet"], flags.terminal)


def _write_output(content: str | bytes, what: str, path: Path, terminal: Terminal) -> None:
    from xscore.cost_reports.report_files import STDOUT, write_output

    if path == STDOUT and isinstance(content, str):
        terminal.data(content)
        return
    write_output(path, content.encode() if isinstance(content, str) else content)
    terminal.note(f"{what} written to {path}")


def _print_report(found: "CostReport", gate: "GateReport | None", flags: Flags) -> int:
    """Print what stdout is to have, tell of the gate or write the baseline; return the exit code."""
    given, terminal = flags.given, flags.terminal
    if terminal.as_json:
        _print_json(found, gate)
    elif given["markdown"]:
        _print_markdown(found, gate, terminal)
    elif not any(given[name] for name in ("html", "csv", "parquet", "check", "update_baseline")):
        from xscore.cost_reports.report_text import render_report

        write_stdout(render_report(found))
    if gate is None and not given["update_baseline"]:
        return 0
    from xscore.cost_reports.report_markdown import print_gate, update_baseline

    if gate is None:
        return update_baseline(found, baseline=given["baseline"], terminal=terminal)
    return print_gate(gate, terminal)


def _checked(found: "CostReport", flags: Flags) -> "GateReport":
    from xscore.cost_reports.report_markdown import check_report

    return check_report(found, baseline=flags.given["baseline"], gates=read_settings(flags).settings.gates)


def _print_json(found: "CostReport", gate: "GateReport | None") -> None:
    from xscore.pipeline.json_form import record_json, to_json

    body = to_json(replace(found, turns=found.turns[:JSON_LINES], details=()))
    print_json(body if gate is None else {**body, "gate": record_json(gate)})


def _print_markdown(found: "CostReport", gate: "GateReport | None", terminal: Terminal) -> None:
    from xscore.cost_reports.report_markdown import render_markdown

    text = render_markdown(found)
    if gate is not None:
        from xscore.cost_reports.report_markdown import gate_markdown

        text += f"\n### Gates\n\n{gate_markdown(gate)}"
    terminal.data(text)


def _refuse_contradictions(flags: Flags) -> None:
    given, terminal = flags.given, flags.terminal
    printed = [terminal.as_json, bool(given["markdown"]), *(str(given[name]) == "-" for name in ("html", "csv"))]
    if sum(printed) > 1:
        raise UsageError(
            "--json, --markdown, --html - and --csv - all want stdout",
            hint="Choose one; --html and --csv can name a file.",
        )
    if given["check"] and given["update_baseline"]:
        raise UsageError(
            "--check and --update-baseline contradict each other",
            hint="Check first; where the change is meant, write the baseline anew.",
        )
    if given["last"] is not None and given["since"] is not None:
        raise UsageError("--last and --since contradict each other", hint="Give one: --last 24h or --since 2026-11-01.")
    if given["turn"] is not None and (
        given["last"] is not None or given["since"] is not None or given["until"] is not None
    ):
        raise UsageError(
            "--turn names one turn, which lies where it lies", hint="Leave out --last, --since and --until."
        )
    if given["since"] is not None and given["until"] is not None and given["since"] >= given["until"]:
        raise UsageError("--since is not before --until", hint="For one day: --since 2026-11-01 --until 2026-11-02.")


def _check_outputs(flags: Flags) -> None:
    """Refuse files that cannot be written before anything is read, printed or written."""
    from xscore.cost_reports.report_files import BASELINE_OPTION as OPTION
    from xscore.cost_reports.report_files import check_outputs

    given = flags.given
    outputs = {f"--{name}": given[name] for name in ("html", "csv", "parquet") if given[name] is not None}
    if given["check"] or given["update_baseline"]:
        outputs[OPTION] = given["baseline"]
    check_outputs(outputs, writes_baseline=given["update_baseline"])

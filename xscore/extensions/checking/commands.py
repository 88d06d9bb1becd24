"""`xscore check`: what a change leaves untrue, and what is missing from it.

Options and output alone; `check` decides. It never blocks: the exit code is 0 whatever is found,
unless `--exit-code` asks for 1.
"""

from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from xscore.cli.flags import Flags, command, read_stdin
from xscore.cli.options import JUDGE, LIMITS, NO_GIT, REPLAY
from xscore.cli.pipeline_run import run_with_pipeline
from xscore.cli.terminal import print_json
from xscore.extensions.checking.change import UNCOMMITTED, change_given, change_since
from xscore.extensions.checking.check import check_change
from xscore.extensions.checking.records import Change, CheckReport
from xscore.extensions.checking.report_text import (
    render_check_account,
    render_check_markdown,
    render_text,
)
from xscore.extensions.checking.sarif import sarif_log
from xscore.pipeline.json_form import to_json
from xscore.platform.errors import ExitCode
from xscore.platform.files import read_input_file

if TYPE_CHECKING:
    from xscore.pipeline.build import Pipeline

FORMATS = ("text", "json", "sarif", "markdown")
DEFAULT_LIMIT = 5
MAX_MESSAGE_BYTES = 1 << 20
_SMALLER = "Give a smaller diff; a change of that size says nothing about one file."


@command(JUDGE, LIMITS, REPLAY, [NO_GIT])
@click.option(
    "--diff",
    "revision",
    metavar="[REV|-]",
    is_flag=False,
    flag_value=UNCOMMITTED,
    default=UNCOMMITTED,
    help="The change since REV, A..B or A...B; `-` reads a diff. Default: what is not committed.",
)
@click.option(
    "--message",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file of a commit message that is not committed yet, as in a commit-msg hook.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="Form of the list.",
)
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(1, 1_000),
    default=DEFAULT_LIMIT,
    show_default=True,
    help="List at most N files as missing.",
)
@click.option(
    "--all", "list_all", is_flag=True, help="List N files even if none seems missing."
)
@click.option("--exit-code", is_flag=True, help="Exit with 1 if something was found.")
def check(
    *,
    revision: str,
    message: Path | None,
    form: str,
    limit: int,
    list_all: bool,
    exit_code: bool,
    flags: Flags,
) -> int:
    """Find what a change makes outdated, and which test or file is missing from it.

    Documents that name what the change removes and decisions whose code it alters come first, then
    files that would have changed with it, by history, links, names and words. Nothing is printed
    where nothing is missing, and the exit code is 0 in any case. A line `xscore-check: ok REASON`
    in a commit message silences it. Where a model judges, it is shown the diff and the likely
    memories; without a key nothing is sent.
    """
    diff = read_stdin(hint=_SMALLER) if revision == "-" else ""

    async def run(pipeline: "Pipeline") -> CheckReport:
        root = pipeline.store.root
        if revision == "-":
            change = change_given(root, diff)
        else:
            change = change_since(root, revision)
        change = _with_message(change, message)
        return await check_change(pipeline.parts, change, limit=limit, list_all=list_all)

    report = run_with_pipeline(flags, run, late_loop=True, noun="This check")
    _print_report(report, form, flags)
    flags.terminal.notes(report.warnings)
    if not flags.terminal.as_json:
        flags.terminal.lines(render_check_account(report))
    if report.is_interrupted:
        return ExitCode.INTERRUPTED
    if exit_code and report.findings:
        return ExitCode.PARTLY
    return ExitCode.DONE


def _with_message(change: Change, message: Path | None) -> Change:
    if message is None:
        return change
    hint = "Name the file of a commit message."
    data = read_input_file(message, max_bytes=MAX_MESSAGE_BYTES, hint=hint)
    return replace(change, messages=(*change.messages, data.decode("utf-8", "replace")))


def _print_report(report: CheckReport, form: str, flags: Flags) -> None:
    terminal = flags.terminal
    if terminal.as_json or form == "json":
        print_json(to_json(report))
    elif form == "sarif":
        print_json(sarif_log(report, version("xscore")))
    elif form == "markdown":
        text = render_check_markdown(report)
        if text:
            terminal.data(text)
    elif report.findings:
        terminal.print_result(report, render_text)

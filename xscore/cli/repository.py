"""`xscore index | doctor`: bring a repository's memories up to date, and check its setup."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from xscore.cli.flags import Flags, command
from xscore.cli.options import ANSWERER, JUDGE, NO_GIT
from xscore.cli.phrases import describe_commits, describe_files_left, list_kept_out
from xscore.cli.pipeline_run import run_with_pipeline
from xscore.cli.settings_and_store import read_settings
from xscore.cli.start import STARTED_AT
from xscore.cli.text_layout import bold, render_counts, render_facts, render_table
from xscore.platform.errors import ExitCode, UsageError
from xscore.platform.figures import format_seconds
from xscore.platform.paths import find_root, refuse_wide_folder, user_data_dir
from xscore.platform.text import counted, one_line
from xscore.records.indexing import IndexReport
from xscore.store import opening

if TYPE_CHECKING:
    # An index run starts without it.
    from xscore.records.reports import Diagnosis


@command(JUDGE, ANSWERER)
@click.option(
    "--probe",
    is_flag=True,
    help="Have the judge score two made-up functions; ask hosts for their models.",
)
def doctor(probe: bool, flags: Flags) -> int:
    """Check models, keys, hosts, store and settings, and say what to fix.

    Exit code 3 if something needs fixing. Nothing is sent unless you pass --probe, which may cost a
    fraction of a cent and sends nothing of the repository.
    """
    diagnosis = run_with_pipeline(
        flags, lambda pipeline: pipeline.doctor(probe=probe), make=False
    )
    flags.terminal.print_result(diagnosis, _render_diagnosis)
    if all(finding.ok for finding in diagnosis.findings):
        return 0
    return ExitCode.NOTHING_JUDGED


def _render_diagnosis(diagnosis: "Diagnosis") -> str:
    rows = []
    shown = {""}
    for finding in diagnosis.findings:
        rows.append(
            ("ok" if finding.ok else bold("fix"), finding.name, one_line(finding.detail))
        )
        rows += [] if finding.hint in shown else [("", "", one_line(finding.hint))]
        shown.add(finding.hint)
    return render_table((), rows)


@command([NO_GIT])
@click.argument(
    "path", type=click.Path(exists=True, file_okay=False, path_type=Path), default=Path()
)
def index(path: Path, flags: Flags) -> None:
    """Bring the memories of the repository around PATH up to date (default: this folder).

    Only what changed is read and parsed. `ask` and `context` do this automatically, but in a home
    folder only after this command was given its PATH.
    """
    if not path.is_dir():  # click lets a device pass
        raise UsageError(f"{path} is not a folder", hint="Name a folder of the repository.")
    if (
        click.get_current_context().get_parameter_source("path")
        is not click.core.ParameterSource.DEFAULT
    ):
        _accept_folder(path, flags)
    report = run_with_pipeline(
        flags, lambda pipeline: pipeline.index(), start=path, late_loop=True
    )
    if flags.terminal.as_json or not flags.terminal.quiet:
        flags.terminal.print_result(
            report, lambda one: _render_index(one, verbose=flags.terminal.verbose)
        )


def _accept_folder(path: Path, flags: Flags) -> None:
    """Make the store of a home folder, or one above it, which no other command does."""
    root = find_root(path.resolve())
    try:
        refuse_wide_folder(root)
    except UsageError:
        chosen = read_settings(flags, start=path).settings.store
        user_data = user_data_dir(chosen.user_data_dir)
        opening.open_store(root.store_dir, user_data_dir=user_data, trust=chosen.trust).close()


def _render_index(report: IndexReport, *, verbose: bool) -> str:
    files = report.files
    memories = report.memories
    kept_out = sum(files.excluded.by_reason.values())
    read = f"{files.seen:,} seen · {files.indexed:,} indexed · {files.unchanged:,} unchanged"
    changes = (
        f"{memories.added:,} added · {memories.changed:,} changed "
        f"· {memories.removed:,} removed"
    )
    rows = [
        ("files", f"{read} · {files.removed:,} removed · {kept_out:,} kept out"),
        ("memories", f"{memories.total:,} · {changes}"),
        ("kinds", render_counts(memories.by_kind)),
        ("edges", render_counts(report.edges)),
        ("commits", describe_commits(report.commits)),
        ("kept out", render_counts(files.excluded.by_reason) if kept_out else ""),
    ]
    if verbose:
        rows += [("", line) for line in list_kept_out(files.excluded)]
    if report.secrets_redacted:
        secrets = counted(report.secrets_redacted, "value")
        rows.append(("secrets", f"{secrets} redacted before anything was stored"))
    if report.files_left:
        rows.append(("left", describe_files_left(report.files_left)))
    rows.append(("took", format_seconds(time.monotonic() - STARTED_AT)))
    return render_facts(rows)

"""`xscore memory import-sessions` and `memory imported`: past sessions of coding agents, read and listed.

Nothing is imported unless this is run. The environment is read here, for where agents keep their files.
"""

import os
from datetime import datetime
from pathlib import Path

import click

from xscore.cli.opening import opened_store
from xscore.cli.options import DRY_RUN, Flags, UtcTimeType, command, option
from xscore.cli.terminal import render_facts, render_table
from xscore.extensions.sessions.importing import FORMATS, ImportedSessions, import_sessions, imported_sessions
from xscore.extensions.sessions.session_format import AgentFolders, SessionImportReport
from xscore.platform.errors import NothingMatched
from xscore.platform.text import counted, format_bytes, one_line

REFUSED = 1
"""Exit code where a file could not be read as its format says; the others were imported."""
FROM = [
    option("--from", "origins", type=click.Choice(list(FORMATS)), multiple=True, help="Only this agent. Repeatable.")
]


@command(FROM, DRY_RUN)
@click.option("--since", metavar="TIME", type=UtcTimeType(), help="Only exchanges since 2026-11-01, or 7d, 2w ago.")
def import_past_sessions(*, since: float | None, flags: Flags) -> int:
    """Remember each exchange of past sessions of Claude Code, Codex, Aider and Cline about this repository, once.

    The agents' files are found automatically and matched by the folder recorded in them. A second run takes only what
    is new. Exit code 1 if a file could not be read.
    """

    with opened_store(flags) as store:
        report = import_sessions(
            store,
            AgentFolders(Path.home(), os.environ, store.root.path),
            now=store.clock(),
            origins=flags.given["origins"],
            since=since or 0.0,
            dry_run=flags.dry_run,
        )
    flags.terminal.print_result(report, _render_import)
    refused = [f"not read: {one.path} ({one.origin}): {one.reason}" for one in report.refused]
    flags.terminal.notes([*refused, *report.notes])
    return REFUSED if refused else 0


def _render_import(report: SessionImportReport) -> str:
    origins = " · ".join(f"{count:,} {name}" for name, count in report.by_origin.items()) or "none"
    new, read = counted(report.added, "exchange"), format_bytes(report.bytes_read)
    secrets = f"{counted(report.secrets_redacted, 'value')} redacted before anything was stored"
    left = f"{report.known:,} known · {report.forgotten:,} erased before"
    facts = render_facts(
        [
            ("files", f"{report.files:,} of this repository · {report.unchanged:,} unchanged · {read} read"),
            (
                "would import" if report.dry_run else "imported",
                f"{new} · {report.updated:,} continued since ({origins})",
            ),
            ("skipped", f"{left} · {report.elsewhere:,} of other folders or older"),
            ("failures", f"{report.failures:,} · {counted(report.links, 'link')} to code"),
            ("secrets", secrets if report.secrets_redacted else ""),
        ]
    )
    return facts if report.files else f"{facts}\n\nNo session names this repository as its folder."


@command(FROM)
def list_imported_sessions(flags: Flags) -> int:
    """List the sessions that were imported, the latest first; `xscore memory wipe --session S` erases one.

    Exit code 1 if there is none of the agents that --from names.
    """
    origins = flags.given["origins"]
    with opened_store(flags, make=False) as store:
        found = imported_sessions(store.connection, origins=origins)
    none = "nothing was imported yet: `xscore memory import-sessions` looks for sessions"
    flags.terminal.print_result(found, _render_imported_sessions, none=none)
    return NothingMatched.exit_code if origins and not found.sessions else 0


def _render_imported_sessions(found: ImportedSessions) -> str:
    return render_table(
        (),
        [
            (
                datetime.fromtimestamp(one.last_at).strftime("%Y-%m-%d %H:%M"),
                one.origin,
                one_line(one.session),
                counted(one.exchanges, "exchange"),
                f"confidence {one.confidence:.2f}",
                one_line(one.title),
            )
            for one in found.sessions
        ],
    )

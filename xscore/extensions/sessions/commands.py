"""`xscore memory import-sessions` and `memory imported`: past sessions of coding agents, read and listed.

Nothing is imported unless this is run. The environment is read here, for where agents keep their files.
"""

import os
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from xscore.cli.opening import in_store
from xscore.cli.options import DRY_RUN, Flags, Option, UtcTimeType, command, options
from xscore.cli.terminal import render_facts, render_table
from xscore.extensions.sessions.importing import FORMATS
from xscore.platform.errors import NothingMatched
from xscore.platform.text import counted, format_bytes, one_line

if TYPE_CHECKING:
    from xscore.extensions.sessions.imported_sessions import ImportedSessions
    from xscore.extensions.sessions.session_format import SessionImportReport
    from xscore.store.store import Store

REFUSED = 1
"""Exit code where a file could not be read as its format says; the others were imported."""
FROM: dict[str, Option] = {
    "origins": click.option(
        "--from", "origins", type=click.Choice(list(FORMATS)), multiple=True, help="Only this agent. Repeatable."
    )
}


@command()
@click.option("--since", metavar="TIME", type=UtcTimeType(), help="Only exchanges since 2026-11-01, or 7d, 2w ago.")
@options(FROM, DRY_RUN)
def import_past_sessions(*, since: float | None, flags: Flags) -> int:
    """Remember each exchange of past sessions of Claude Code, Codex, Aider and Cline about this repository, once.

    The files are found by themselves and confirmed by the folder recorded in them. Run again, it takes only what is
    new. Exit code 1 if a file could not be read.
    """

    def work(store: "Store") -> "SessionImportReport":
        from xscore.extensions.sessions.importing import import_sessions
        from xscore.extensions.sessions.session_format import AgentFolders

        return import_sessions(
            store,
            AgentFolders(Path.home(), os.environ, store.root.path),
            now=store.clock(),
            origins=flags.given["origins"],
            since=since or 0.0,
            dry_run=flags.given["dry_run"],
        )

    report = in_store(work, flags)
    flags.terminal.print_result(report, render_import)
    refused = [f"not read: {one.path} ({one.origin}): {one.reason}" for one in report.refused]
    flags.terminal.notes([*refused, *report.notes])
    return REFUSED if refused else 0


def render_import(report: "SessionImportReport") -> str:
    """Say what was found, taken and left."""
    origins = " · ".join(f"{count:,} {name}" for name, count in report.by_origin.items()) or "none"
    new, read = counted(report.added, "exchange"), format_bytes(report.bytes_read)
    secrets = f"{counted(report.secrets_redacted, 'value')} redacted before anything was stored"
    facts = render_facts(
        [
            ("files", f"{report.files:,} of this repository · {report.unchanged:,} unchanged · {read} read"),
            ("would take" if report.dry_run else "taken", f"{new} · {report.updated:,} went on since ({origins})"),
            (
                "left",
                f"{report.known:,} known · {report.forgotten:,} erased before"
                f" · {report.elsewhere:,} elsewhere or older",
            ),
            ("failures", f"{report.failures:,} · {counted(report.links, 'link')} to code"),
            ("secrets", secrets if report.secrets_redacted else ""),
        ]
    )
    return facts if report.files else f"{facts}\n\nNo session names this repository as its folder."


@command()
@options(FROM)
def list_imported_sessions(flags: Flags) -> int:
    """List the sessions that were imported, the latest first; `xscore memory wipe --session S` erases one.

    Exit code 1 where nothing is of the agents that --from names.
    """
    origins = flags.given["origins"]

    def work(store: "Store") -> "ImportedSessions":
        from xscore.extensions.sessions.imported_sessions import imported_sessions

        return imported_sessions(store.connection, origins=origins)

    found = in_store(work, flags)
    if found.sessions or flags.terminal.as_json:
        flags.terminal.print_result(found, render_imported_sessions)
    else:
        flags.terminal.note("nothing was imported yet: `xscore memory import-sessions` looks for sessions")
    return NothingMatched.exit_code if origins and not found.sessions else 0


def render_imported_sessions(found: "ImportedSessions") -> str:
    """One line a session, in local time."""
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

"""`xscore sessions`: import the past sessions of coding agents, list what was taken, forget it for good.

Nothing is imported unless this is run. The environment is read here, for where agents keep their files.
"""

import os
import re
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xscore.cli.opening import in_store
from xscore.cli.options import OUTPUT, Flags, options
from xscore.cli.terminal import Terminal, print_json, write_stdout
from xscore.extensions.privacy.commands import DRY_RUN, erase_and_report
from xscore.extensions.sessions.importing import FORMATS
from xscore.platform.errors import NothingMatched, UsageError
from xscore.platform.text import counted, format_bytes, one_line

if TYPE_CHECKING:
    from xscore.extensions.sessions.imported_sessions import ImportedSessions
    from xscore.extensions.sessions.session_format import SessionImportReport
    from xscore.store.store import Store


REFUSED = 1
"""Exit code where a file could not be read as its format says; the others were imported."""
NOTHING_IMPORTED = 1
"""Exit code where nothing is of the agents that are named."""
_AGO = re.compile(r"(\d{1,5})\s*([hdw])")
_AGE_SECONDS = {"h": 3_600, "d": 86_400, "w": 604_800}


class DayOrAgeType(click.ParamType[datetime]):
    """A day, a time, or how long ago: `2026-11-01`, `2026-11-01T12:00`, `7d`, `12h`, `2w`."""

    name = "when"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Return the moment, in local time."""
        text = str(value).strip()
        ago = _AGO.fullmatch(text)
        try:
            if ago:
                return datetime.fromtimestamp(datetime.now().timestamp() - int(ago[1]) * _AGE_SECONDS[ago[2]])
            return datetime.fromisoformat(text)
        except (ValueError, OverflowError, OSError):
            self.fail(f"{value!r} is no day. Write 2026-11-01, or 7d, 12h or 2w ago.", param, ctx)


FROM = click.option(
    "--from",
    "origins",
    type=click.Choice(list(FORMATS)),
    multiple=True,
    help="Only this agent's sessions. Repeatable.",
)


@click.group()
def sessions() -> None:
    """Past sessions of Claude Code, Codex, Aider and Cline about this repository, as memories."""


@sessions.command("import")
@FROM
@click.option(
    "--since", metavar="WHEN", type=DayOrAgeType(), help="Only exchanges since a day, or since 7d, 12h, 2w ago."
)
@click.option("--dry-run", is_flag=True, help="Read and count; keep nothing.")
@options(OUTPUT)
def import_(*, origins: tuple[str, ...], since: datetime | None, dry_run: bool, flags: Flags) -> int:
    """Find the sessions about this repository and remember each exchange once.

    Files are found by themselves and confirmed by the folder recorded in them. Read again, only what is new is taken.
    Exits with 1 when a file could not be read.
    """

    def work(store: "Store") -> "SessionImportReport":
        from xscore.extensions.sessions.importing import import_sessions
        from xscore.extensions.sessions.session_format import AgentFolders

        return import_sessions(
            store,
            AgentFolders(Path.home(), os.environ, store.root.path),
            now=store.clock(),
            origins=origins,
            since=since.timestamp() if since else 0.0,
            dry_run=dry_run,
        )

    return _print_import(in_store(work, flags), flags.terminal)


def _print_import(report: "SessionImportReport", terminal: Terminal) -> int:
    from xscore.pipeline.json_form import to_json

    code = REFUSED if report.refused else 0
    if terminal.as_json:
        print_json(to_json(report))
    else:
        write_stdout(render_import(report))
    for refused in report.refused:
        terminal.note(f"not read: {refused.path} ({refused.origin}): {refused.reason}")
    for note in report.notes:
        terminal.note(note)
    return code


def render_import(report: "SessionImportReport") -> str:
    """Say what was found, taken and left."""
    origins = " · ".join(f"{count:,} {name}" for name, count in report.by_origin.items()) or "none"
    new, read = counted(report.added, "exchange"), format_bytes(report.bytes_read)
    lines = [
        f"files      {report.files:,} of this repository · {report.unchanged:,} unchanged · {read} read",
        f"{'would take' if report.dry_run else 'taken':11}{new} · {report.updated:,} went on since ({origins})",
        f"left       {report.known:,} known · {report.forgotten:,} forgotten · {report.elsewhere:,} elsewhere or older",
        f"failures   {report.failures:,} · {counted(report.links, 'link')} to code",
    ]
    if report.secrets_redacted:
        lines.append(f"secrets    {counted(report.secrets_redacted, 'value')} redacted before anything was stored")
    if not report.files:
        lines.append("\nNo session names this repository as its folder.")
    return "\n".join(lines)


@sessions.command("list")
@FROM
@options(OUTPUT)
def list_(*, origins: tuple[str, ...], flags: Flags) -> int:
    """List the sessions of which exchanges are remembered, the latest first.

    Ends with 1 where nothing is of the agents that are named.
    """

    def work(store: "Store") -> "ImportedSessions":
        from xscore.extensions.sessions.imported_sessions import imported_sessions

        return imported_sessions(store.connection, origins=origins)

    found = in_store(work, flags)
    if flags.terminal.as_json:
        from xscore.pipeline.json_form import to_json

        print_json(to_json(found))
        return NOTHING_IMPORTED if origins and not found.sessions else 0
    for one in found.sessions:
        day = datetime.fromtimestamp(one.last_at).strftime("%Y-%m-%d %H:%M")
        named = f"{one.origin:12}{one_line(one.session)}"
        sure = f"confidence {one.confidence:.2f}"
        write_stdout(f"{day}  {named}  {counted(one.exchanges, 'exchange')}, {sure}: {one_line(one.title)}")
    if not found.sessions:
        flags.terminal.note("nothing was imported yet: `xscore sessions import` looks for sessions")
    return NOTHING_IMPORTED if origins and not found.sessions else 0


@sessions.command("forget")
@click.argument("names", metavar="[ID]...", nargs=-1)
@click.option("--session", metavar="S", help="All of this session, as `sessions list` names it.")
@click.option("--from", "origin", type=click.Choice(list(FORMATS)), help="All of this agent.")
@click.option("--before", metavar="WHEN", type=DayOrAgeType(), help="All from before a day, or before 90d, 12w ago.")
@DRY_RUN
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@options(OUTPUT)
def forget_sessions(
    *,
    names: tuple[str, ...],
    session: str | None,
    origin: str | None,
    before: datetime | None,
    dry_run: bool,
    yes: bool,
    flags: Flags,
) -> int:
    """Erase imported exchanges for good, with what was made of them; no import brings them back.

    An ID is a memory's, or a session's as `sessions list` names it. Several options narrow it down. The agents' own
    files stay as they are.
    """
    if not (names or session or origin or before):
        raise UsageError("nothing says what to forget", hint="Give ids, --session, --from or --before.")
    terminal = flags.terminal

    def work(store: "Store") -> int:
        from xscore.extensions.sessions.imported_sessions import imported_ids, unknown_names

        missing = ", ".join(map(one_line, unknown_names(store.connection, names)))
        chosen = imported_ids(
            store.connection,
            names=names,
            session=session or "",
            origin=origin or "",
            before=before.timestamp() if before else None,
        )
        if not chosen:
            told = f"nothing that was imported is called {missing}" if missing else "nothing imported is of that sort"
            raise NothingMatched(told, hint="See `xscore sessions list`; ids are exact.")
        if missing:
            terminal.note(f"nothing that was imported is called {missing}")
        if not (yes or dry_run or _is_wanted(len(chosen), terminal)):
            terminal.note("nothing was forgotten")
            return 1
        return erase_and_report(store, chosen, dry_run=dry_run, verify=False, terminal=terminal, forget=True)

    return in_store(work, flags)


def _is_wanted(count: int, terminal: Terminal) -> bool:
    if not terminal.can_ask:
        raise UsageError("there is nobody to ask before forgetting", hint="Say --yes, or look first with --dry-run.")
    return click.confirm(f"Forget {counted(count, 'memory', 'memories')} for good?", default=False, err=True)

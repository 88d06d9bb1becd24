"""Import the past sessions of a repository: find the files, read changed ones, remember each
exchange once.

A file that does not follow its format is refused, with the line and what was expected. A
damaged line among good ones, as a killed agent leaves it, is left out and counted; it ends the
exchange that it is in. It runs on request, or for one log or message by an installed hook
(`import_session`, `remember_exchange`). Trade-offs: a changed file is read again whole; an
exchange in progress is imported as far as it goes and updated by the next import. A new format
is a module of its own and a name in `FORMATS`.
"""

import os
import stat
from collections.abc import Collection
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

import click
from msgspec import Struct

from xscore.cli.flags import Flags, command
from xscore.cli.options import DRY_RUN, option, utc_time
from xscore.cli.settings_and_store import opened_store
from xscore.cli.text_layout import render_facts, render_table
from xscore.extensions.sessions import session_lines
from xscore.extensions.sessions.aider import AiderReader
from xscore.extensions.sessions.claude_code import ClaudeCodeReader
from xscore.extensions.sessions.cline import ClineReader
from xscore.extensions.sessions.codex import CodexReader
from xscore.extensions.sessions.exchange_writer import (
    BATCH_EXCHANGES,
    READERS_VERSION,
    ExchangeMemory,
    ExchangeWriter,
    ReadFile,
    RefusedFile,
    SessionImportReport,
    exchange_memory,
    load_read_file,
)
from xscore.extensions.sessions.session_lines import UnreadableSession
from xscore.extensions.sessions.session_places import (
    home_relative,
    is_in_repository,
    is_of_repository,
)
from xscore.extensions.sessions.session_reader import (
    AgentFolders,
    ImportedExchange,
    LineDamage,
    SessionFile,
    SessionReader,
)
from xscore.platform.errors import NothingMatched, install_hint
from xscore.platform.figures import format_bytes
from xscore.platform.files import settled_ns
from xscore.platform.hashing import digest
from xscore.platform.text import counted, one_line
from xscore.prompts.injected_text import cleaned_text, spoken_text, without_recall
from xscore.store.imported_memories import ImportedSessions, imported_sessions
from xscore.store.store import Store

FORMATS: dict[str, type[SessionReader]] = {
    reader.origin: reader
    for reader in (ClaudeCodeReader, CodexReader, AiderReader, ClineReader)
}
LARGE_LOG_BYTES = 24 << 20
"""Size of a large log, whose import takes about half a second."""


def import_sessions(
    store: Store,
    folders: AgentFolders,
    *,
    now: float,
    origins: Collection[str] = (),
    since: float = 0.0,
    dry_run: bool = False,
) -> SessionImportReport:
    """Import the exchanges of all agents, or of some.

    now: unix seconds.
    since: unix seconds.

    Raises StoreError.
    """
    run = _Import(store, folders.home, ExchangeWriter(store, now=now, dry_run=dry_run), since)
    for origin, format_ in FORMATS.items():
        if not origins or origin in origins:
            for file in format_.find(folders):
                run.import_file(format_, file)
    if run.left_compressed:
        run.writer.report.notes.append(
            f"{counted(run.left_compressed, 'compressed session file')} left out:"
            f" the extra `zstd` reads them. {install_hint('zstd')}"
        )
    return run.writer.finish()


def import_session(store: Store, path: Path, *, origin: str, thread: str, now: float) -> str:
    """Import one log of an agent whose exchange has just ended; return why it was refused, or
    nothing.

    thread: the agent's session, whose later turns are not shown its own exchanges. A log of more
        than `LARGE_LOG_BYTES` is left to `import_sessions`, since the agent waits.

    Raises StoreError.
    """
    format_ = FORMATS.get(origin)
    try:
        if format_ is None or path.lstat().st_size > LARGE_LOG_BYTES:
            return ""
    except OSError:  # the agent writes it later, or not at all
        return ""
    run = _Import(store, Path.home(), ExchangeWriter(store, now=now, thread=thread))
    run.import_file(format_, SessionFile(path))
    return "".join(f"{file.path}: {file.reason}" for file in run.writer.finish().refused)


def remember_exchange(
    store: Store,
    question: str,
    answer: str,
    *,
    origin: str,
    session: str,
    thread: str,
    now: float,
) -> None:
    """Remember an exchange that an agent's message holds whole, for agents whose logs are not read.

    The same words in the same session are one exchange, however often they are sent.
    thread: the agent's session, whose later turns are not shown its own exchanges.
    Raises StoreError.
    """
    question = spoken_text(question)
    answer = without_recall(cleaned_text(answer))
    if not (question and answer):
        return
    exchange = ImportedExchange(
        origin=origin,
        session=cleaned_text(session),
        identity=digest("message", session, question, answer),
        asked=question,
        answered=answer,
        at=now,
        ended_at=now,
        cwd=str(store.root.path),
    )
    writer = ExchangeWriter(store, now=now, thread=thread)
    writer.add(
        [exchange_memory(exchange, store.root, now=now, allow_pii=store.settings.allow_pii)]
    )
    writer.finish()


class _Import(Struct):
    """One import: reads file after file and counts."""

    store: Store
    home: Path
    writer: ExchangeWriter
    since: float = 0.0
    left_compressed: int = 0
    """Compressed files that were not read, because the extra for it is not installed."""

    def import_file(self, format_: type[SessionReader], file: SessionFile) -> None:
        """Read one file if it belongs to this repository and changed."""
        name = home_relative(file.path, self.home)
        report = self.writer.report
        try:
            info = file.path.lstat()
            skip_reason = file.skip_reason or (
                "" if stat.S_ISREG(info.st_mode) else "no regular file"
            )
            if skip_reason:
                report.notes.extend(
                    [f"{name}: left out, {skip_reason}"] if file.is_in_repository else []
                )
                return
            read_before = load_read_file(self.store.connection, name)
            if session_lines.is_compressed(file.path) and not session_lines.can_decompress():
                is_read = read_before is not None and read_before.is_current(
                    info, since=self.since
                )
                self.left_compressed += info.st_mtime >= self.since and not is_read
                return
            if info.st_mtime < self.since or not (
                read_before or is_of_repository(self.store.root, file)
            ):
                return
            report.files += 1
            if read_before and read_before.is_current(info, since=self.since):
                report.unchanged += 1
                if read_before.note:
                    report.refused.append(RefusedFile(name, format_.origin, read_before.note))
                return
            with session_lines.open_session_file(file.path) as stream:
                self._read_file(format_, file, name, stream)
        except UnreadableSession as error:
            report.refused.append(RefusedFile(name, format_.origin, str(error)))
        except OSError as error:
            report.refused.append(
                RefusedFile(name, format_.origin, f"it cannot be read: {error.strerror}")
            )

    def _read_file(
        self, format_: type[SessionReader], file: SessionFile, name: str, stream: BinaryIO
    ) -> None:
        info = os.fstat(stream.fileno())
        note = ""
        exchanges = list[ExchangeMemory]()
        truncated = 0
        damage = LineDamage()
        report = self.writer.report
        elsewhere = report.elsewhere
        report.bytes_read += info.st_size
        reader = format_(file, lambda exchange: self._keep(exchange, exchanges))
        if file.is_json_array:
            lines = session_lines.read_array(stream)
        else:
            lines = session_lines.read_lines(file.path, stream)
        try:
            for line in lines:
                truncated += line.is_truncated
                damage.read_line(reader, line)
            reader.finish()
            # A file of which nothing could be used is of another format, or another version of it.
            if damage.first is not None and not reader.kept:
                raise damage.first
        # kept, so that the file is not read again until it changes.
        except (UnreadableSession, OSError) as error:
            note = str(error)
            truncated = 0
            damage = LineDamage()
            report.elsewhere = elsewhere
            exchanges.clear()
            report.refused.append(RefusedFile(name, format_.origin, note))
        if truncated:
            limit = session_lines.MAX_LINE_BYTES >> 20
            report.notes.append(
                f"{name}: {counted(truncated, 'line')} of more than {limit} MiB left out"
            )
        if damage.lines:
            report.damaged_lines += damage.lines
            lines_left_out = counted(damage.lines, "damaged line")
            report.notes.append(f"{name}: {lines_left_out} left out ({damage.first})")
        mtime_ns = settled_ns(info, now=self.writer.now)
        read = ReadFile(
            name, format_.origin, info.st_size, mtime_ns, READERS_VERSION, self.since, note
        )
        self.writer.add(exchanges, read)

    def _keep(self, exchange: ImportedExchange, exchanges: list[ExchangeMemory]) -> None:
        if exchange.ended_at < self.since or not is_in_repository(
            self.store.root, exchange.cwd
        ):
            self.writer.report.elsewhere += 1
            return
        allow_pii = self.store.settings.allow_pii
        exchanges.append(
            exchange_memory(exchange, self.store.root, now=self.writer.now, allow_pii=allow_pii)
        )
        if len(exchanges) >= BATCH_EXCHANGES:
            self.writer.add(exchanges)
            exchanges.clear()


REFUSED = 1
"""Exit code where a file could not be read as its format says; the others were imported."""
FROM = [
    option(
        "--from",
        "origins",
        type=click.Choice(list(FORMATS)),
        multiple=True,
        help="Only this agent. Repeatable.",
    )
]


@command(FROM, DRY_RUN)
@click.option(
    "--since",
    metavar="TIME",
    type=utc_time,
    help="Only exchanges since 2026-11-01, or 7d, 2w ago.",
)
def import_past_sessions(*, since: float | None, flags: Flags) -> int:
    """Remember each exchange of past sessions of Claude Code, Codex, Aider and Cline about this
    repository, once.

    The agents' files are found automatically and matched by the folder recorded in them. A second
    run takes only what is new. Exit code 1 if a file could not be read.
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
    refused = [
        f"not read: {file.path} ({file.origin}): {file.reason}" for file in report.refused
    ]
    flags.terminal.notes([*refused, *report.notes])
    return REFUSED if refused else 0


def _render_import(report: SessionImportReport) -> str:
    origins = (
        " · ".join(f"{count:,} {name}" for name, count in report.by_origin.items()) or "none"
    )
    new = counted(report.added, "exchange")
    read = format_bytes(report.bytes_read)
    secrets = f"{counted(report.secrets_redacted, 'value')} redacted before anything was stored"
    unwritten = f"{report.known:,} known · {report.forgotten:,} erased before"
    files = f"{report.files:,} of this repository · {report.unchanged:,} unchanged"
    imported = "would import" if report.dry_run else "imported"
    facts = render_facts(
        [
            ("files", f"{files} · {read} read"),
            (imported, f"{new} · {report.updated:,} continued since ({origins})"),
            ("skipped", f"{unwritten} · {report.elsewhere:,} of other folders or older"),
            ("failures", f"{report.failures:,} · {counted(report.links, 'link')} to code"),
            ("secrets", secrets if report.secrets_redacted else ""),
        ]
    )
    if report.files:
        return facts
    return f"{facts}\n\nNo session names this repository as its folder."


@command(FROM)
def list_imported_sessions(flags: Flags) -> int:
    """List the sessions that were imported, the latest first; `xscore memory wipe --session S`
    erases one.

    Exit code 1 if nothing came from the agents that --from names.
    """
    origins = flags.given["origins"]
    with opened_store(flags, make=False) as store:
        sessions = imported_sessions(store.connection, origins=origins)
    none = "nothing was imported yet: `xscore memory import-sessions` looks for sessions"
    flags.terminal.print_result(sessions, _render_imported_sessions, none=none)
    if origins and not sessions.sessions:
        return NothingMatched.exit_code
    return 0


def _render_imported_sessions(imported: ImportedSessions) -> str:
    rows: list[tuple[str, ...]] = []
    for session in imported.sessions:
        row = (
            datetime.fromtimestamp(session.last_at).strftime("%Y-%m-%d %H:%M"),
            session.origin,
            one_line(session.session),
            counted(session.exchanges, "exchange"),
            f"confidence {session.confidence:.2f}",
            one_line(session.title),
        )
        rows.append(row)
    return render_table((), rows)

"""`xscore session compress` and `xscore session expand`: an agent's session within a budget, and
turns of it as they were.

The text goes to standard output, figures to standard error. Nothing is sent unless a model is
named. Trade-off: the log is read again each time, a megabyte in about 50 ms.
"""

import asyncio
import os
from pathlib import Path

import click

from xscore.cli.flags import Flags, command
from xscore.cli.options import option
from xscore.cli.session import current_session
from xscore.cli.settings_and_store import opened_store, read_settings
from xscore.extensions.compression.compressing import (
    CompressionReport,
    Summarize,
    Summarized,
    SummaryOrder,
    compress_session,
    thread_of,
)
from xscore.extensions.compression.own_session import read_own_session
from xscore.extensions.compression.reading import SessionReading, find_log, read_session
from xscore.extensions.compression.session_turns import SessionTurn
from xscore.extensions.compression.turn_text import Level, Repeats, call_name, write_turn
from xscore.extensions.sessions.session_lines import UnreadableSession
from xscore.extensions.sessions.session_reader import AgentFolders
from xscore.platform.errors import NothingMatched, UsageError
from xscore.platform.figures import format_dollars
from xscore.platform.text import counted, escape_controls
from xscore.providers.catalog import model_settings
from xscore.providers.spec import parse_model_spec
from xscore.settings import Settings
from xscore.store.compressed_sessions import erased_ids
from xscore.store.store import Store
from xscore.store.working_session import load_session

LEAST_BUDGET = 1_000
DOES_NOT_FIT = 1
"""Exit code where the words that are kept are alone larger than the budget."""
_OPTIONS = [
    option(
        "--budget",
        metavar="TOKENS",
        type=click.IntRange(LEAST_BUDGET, 100_000_000),
        help="Tokens that the text may take. Default: half of the answering model's context, once"
        " the session takes 70 % of it.",
    ),
    option(
        "--model",
        "summary_model",
        metavar="SPEC",
        sets="session.summary_model",
        help="Have this model summarize what is dropped of the agent's words.",
    ),
]


@command(_OPTIONS)
@click.argument("session", required=False, default="")
def compress(session: str, flags: Flags) -> int:
    """Write a coding agent's session within a token budget, without a model unless one is named.

    SESSION is a log file, the start of a session's id, or a thread of `session list`. Without
    it, the agent's latest session here is used, or the working session. What you said, failed
    attempts, commands, paths and names stay word for word; old outputs and explanations go
    first. Exit code 1 if what stays word for word is over the budget.
    """
    settings = read_settings(flags).settings
    with opened_store(flags, settings=settings) as store:
        read = _read(store, session, flags)
        context = parse_model_spec(settings.primary.model)
        report = compress_session(
            store,
            read.session,
            budget=flags.given["budget"] or 0,
            context_tokens=model_settings(context.provider, context.model).context_tokens,
            now=store.clock(),
            summarize=_summarizer(store, settings),
        )
    flags.terminal.print_result(report, lambda shown: escape_controls(shown.text).rstrip())
    flags.terminal.notes([read.problem, report.problem, *_figures(report)])
    return 0 if report.fits else DOES_NOT_FIT


@command()
@click.argument("turns", metavar="TURN...", nargs=-1, required=True, type=click.IntRange(1))
@click.option("--session", default="", help="A log file, or the start of a session's id.")
def expand(turns: tuple[int, ...], session: str, flags: Flags) -> int:
    """Show turns of a coding agent's session in full, outputs included.

    TURN is a number that `session compress` writes in brackets. Secrets stay redacted.
    """
    with opened_store(flags) as store:
        read = _read(store, session, flags, shown_whole=turns)
    chosen = [turn for turn in read.session.turns if turn.number in turns]
    if not chosen:
        raise NothingMatched(
            f"the session has no such turn: it has {counted(len(read.session.turns), 'turn')}",
            hint="Numbers are in brackets in the text of `xscore session compress`.",
        )
    text = "\n".join(map(_whole_text, chosen))
    body = {"thread": thread_of(read.session), "turns": chosen}
    flags.terminal.print_result(body, escape_controls(text).rstrip())
    return 0


def _read(
    store: Store, named: str, flags: Flags, *, shown_whole: tuple[int, ...] = ()
) -> SessionReading:
    """Find and read the session that the user means. Raises UsageError and NothingMatched."""
    if named and load_session(store.connection, named):
        read = SessionReading(read_own_session(store.connection, named))
    else:
        read = _read_of_agent(store, named, shown_whole)
    if not read.session.turns:
        raise NothingMatched(
            f"{read.session.path or named} has no turn of a user or an agent",
            hint="Name another session.",
        )
    return read


def _read_of_agent(store: Store, named: str, shown_whole: tuple[int, ...]) -> SessionReading:
    """Read an agent's log; the working session of this branch, where no agent has one."""
    home = Path.home()
    try:
        log = find_log(store.root, AgentFolders(home, os.environ, store.root.path), named)
    except NothingMatched:
        session = None if named else current_session(store)
        if session is None:
            raise
        return SessionReading(read_own_session(store.connection, session.thread))
    try:
        return read_session(
            log,
            allow_pii=store.settings.allow_pii,
            home=home,
            erased=erased_ids(store.connection),
            shown_whole=shown_whole,
        )
    except (UnreadableSession, OSError) as error:
        raise UsageError(
            f"{log.file.path}: {error}", hint="Name another log, or check its format."
        ) from error


def _summarizer(store: Store, settings: Settings) -> Summarize | None:
    if settings.session.summary_model in ("", "none"):
        return None
    # Only with a model: most runs name none, and need no provider.
    from xscore.extensions.compression import summaries

    spec = summaries.summary_model(settings.session.summary_model)
    if spec is None:
        return None

    def summarize(order: SummaryOrder) -> Summarized:
        blocks = summaries.summary_blocks(order.session, order.pushed)
        written = asyncio.run(
            summaries.write_summaries(
                store, settings, spec, blocks, thread=order.thread, room=order.room
            )
        )
        return Summarized(written.summaries, written.calls, written.cost_usd, written.problem)

    return summarize


def _figures(report: CompressionReport) -> list[str]:
    share = round(100 * report.session_tokens / report.context_tokens)
    notes = [
        f"{counted(report.turns, 'turn')} of about {report.session_tokens:,} tokens"
        f" ({share} % of {report.context_tokens:,}) in {report.tokens:,}"
    ]
    if report.calls:
        notes.append(f"{counted(report.calls, 'call')} · {format_dollars(report.cost_usd)}")
    if not report.budget:
        notes.append("less than 70 % of the context: nothing but outputs was shortened")
    if not report.fits:
        notes.append(
            f"what is kept word for word takes {report.tokens:,} tokens, over the budget of"
            f" {report.budget:,}"
        )
    return notes


def _whole_text(turn: SessionTurn) -> str:
    """Return a turn with its outputs."""
    lines = [write_turn(turn, Level.WHOLE, Repeats()).partition("\n  ")[0]]
    for call in turn.calls:
        lines += [f"  {call_name(call)} ({call.outcome})", call.output]
    return "\n".join(lines) + "\n"

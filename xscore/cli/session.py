"""`xscore session show | list | resume | fresh`: show, list and switch working sessions.

It opens only the store: no model is asked and nothing is indexed. Trade-off: the first turn creates
a session, so a new branch has none to show.
"""

from typing import TYPE_CHECKING

import click

from xscore.cli.flags import Flags, command
from xscore.cli.phrases import format_age, format_branch, quote_task, render_session_line
from xscore.cli.settings_and_store import opened_store
from xscore.pipeline.json_form import record_json
from xscore.platform.git_folder import earlier_branch_names, working_branch
from xscore.platform.text import counted, escape_controls
from xscore.store.session_summary import summarise_session
from xscore.store.working_session import (
    load_sessions,
    resume_session,
    session_of_branch,
    switch_session,
)

if TYPE_CHECKING:
    from xscore.records.turn import SessionSummary, WorkingSession
    from xscore.store.store import Store


@command()
def show_session(flags: Flags) -> None:
    """Show what the next turn continues: tasks and results, files, names, open tasks."""
    with opened_store(flags, make=False) as store:
        session = current_session(store)
        now = store.clock()
        summary = None
        if session:
            summary = summarise_session(store.connection, session.thread)
    if session is None or summary is None:
        none = 'There is no working session on this branch yet; `xscore ask "…"` begins one.'
        flags.terminal.print_result({"session": None}, "", none=none)
        return
    fields = {name: value for name, value in record_json(summary).items() if name != "text"}
    body = {"session": {**record_json(session), **fields, "summary": summary.text}}
    flags.terminal.print_result(body, _render_session(session, summary, now=now))


@command()
def list_sessions(flags: Flags) -> None:
    """List the sessions of all branches, those of this one first, the latest first."""
    with opened_store(flags, make=False) as store:
        _print_sessions(store, flags)


@command()
@click.argument("thread", required=False, default="")
def resume_thread(thread: str, flags: Flags) -> None:
    """Let the next turn on this branch continue THREAD (or a prefix); without it, list the
    sessions."""
    with opened_store(flags) as store:
        if not thread:
            _print_sessions(store, flags)
            return
        now = store.clock()
        session = switch_session(
            store.connection, thread, branch=working_branch(store.root.git_dir), now=now
        )
    flags.terminal.print_result(
        session, f"The next turn continues {render_session_line(session, now=now)}"
    )


@command()
def begin_fresh(flags: Flags) -> None:
    """Begin a new session on this branch; the previous one stays, and `resume` returns to it."""
    with opened_store(flags) as store:
        begun = resume_session(
            store.connection,
            branch=working_branch(store.root.git_dir),
            now=store.clock(),
            fresh=True,
        )
    flags.terminal.print_result(begun, f"begun: {begun.thread}")


def _print_sessions(store: "Store", flags: Flags) -> None:
    branch = working_branch(store.root.git_dir)
    now = store.clock()
    sessions = sorted(
        load_sessions(store.connection), key=lambda session: session.branch != branch
    )
    body = {"sessions": [record_json(session) for session in sessions]}
    none = 'There is no working session here yet; `xscore ask "…"` begins one.'
    flags.terminal.print_result(
        body,
        "\n".join(render_session_line(session, now=now) for session in sessions),
        none=none,
    )


def _render_session(session: "WorkingSession", summary: "SessionSummary", *, now: float) -> str:
    age = format_age(session.last_updated, now)
    lines = [
        f"{session.thread}  {format_branch(session.branch)}{age}, {counted(session.tasks, 'task')}"
    ]
    lines += [f"You were working on {quote_task(session.task)}."] if session.task else []
    if session.file:
        at_line = ""
        if session.line:
            at_line = f":{session.line}"
        lines.append(f"Last file: {session.file}{at_line}")
    return escape_controls("\n".join([*lines, summary.text]).rstrip())


def current_session(store: "Store") -> "WorkingSession | None":
    """Return the session that the next turn on this branch would continue."""
    branch = working_branch(store.root.git_dir)
    renamed = earlier_branch_names(store.root.git_dir, branch)
    return session_of_branch(store.connection, branch=branch, renamed_from=renamed)

"""`xscore session`: the working session of this branch: what it is about, another one, its end.

It opens the store alone: no model is asked and nothing is indexed. Trade-off: a session is made by the first turn, so
on a new branch there is none to show.
"""

from typing import TYPE_CHECKING

import click

from xscore.cli.opening import in_store
from xscore.cli.options import Flags, command, options
from xscore.cli.phrases import count_tasks, format_age, format_branch, quote_task, render_session_line
from xscore.cli.terminal import Terminal, print_json, write_stdout
from xscore.pipeline.json_form import SCHEMA, record_json
from xscore.platform.text import escape_controls

if TYPE_CHECKING:
    from xscore.records import SessionSummary, WorkingSession
    from xscore.store.store import Store

NONE_YET = 'There is no working session on this branch yet; `xscore ask "…"` begins one.'


@command()
@options()
def show_session(flags: Flags) -> None:
    """Show what the next turn goes on with: tasks and results, files, names, what is left to do."""

    def work(store: "Store") -> None:
        from xscore.store.session_summary import summarise_session

        found = current_session(store)
        if found is None:
            if flags.terminal.as_json:
                print_json({"schema": SCHEMA, "session": None})
            else:
                flags.terminal.note(NONE_YET)
            return
        summary = summarise_session(store.connection, found.thread)
        more = {name: value for name, value in record_json(summary).items() if name != "text"}
        body = {"session": {**record_json(found), **more, "summary": summary.text}}
        flags.terminal.print_result(body, lambda _: render_session(found, summary, now=store.clock()))

    in_store(work, flags)


@command()
@options()
def list_sessions(flags: Flags) -> None:
    """List the sessions of all branches, those of this one first, the latest first."""
    in_store(lambda store: _print_sessions(store, flags.terminal), flags)


@command()
@click.argument("thread", required=False, default="")
@options()
def resume_thread(thread: str, flags: Flags) -> None:
    """Have the next turn on this branch go on with THREAD, or its first letters; without it, list the sessions."""

    def work(store: "Store") -> None:
        from xscore.store.working_session import switch_session

        now = store.clock()
        found = switch_session(store.connection, thread, branch=_branch(store), now=now)
        flags.terminal.print_result(
            found, lambda one: f"The next turn goes on with {render_session_line(one, now=now)}"
        )

    in_store(work if thread else lambda store: _print_sessions(store, flags.terminal), flags)


@command()
@options()
def begin_fresh(flags: Flags) -> None:
    """Begin a new session on this branch; the one before stays, and `resume` goes back to it."""

    def work(store: "Store") -> None:
        from xscore.store.working_session import resume_session

        begun = resume_session(store.connection, branch=_branch(store), now=store.clock(), fresh=True)
        flags.terminal.print_result(begun, lambda one: f"begun: {one.thread}")

    in_store(work, flags)


def _print_sessions(store: "Store", terminal: Terminal) -> None:
    from xscore.store.working_session import load_sessions

    here, now = _branch(store), store.clock()
    known = sorted(load_sessions(store.connection), key=lambda one: one.branch != here)
    if terminal.as_json:
        print_json({"schema": SCHEMA, "sessions": [record_json(one) for one in known]})
    elif known:
        write_stdout("\n".join(render_session_line(one, now=now) for one in known))
    else:
        terminal.note('There is no working session here yet; `xscore ask "…"` begins one.')


def render_session(found: "WorkingSession", summary: "SessionSummary", *, now: float) -> str:
    """Show a session: where and when, then what it comes to."""
    age = format_age(found.last_updated, now)
    lines = [f"{found.thread}  {format_branch(found.branch)}{age}, {count_tasks(found.tasks)}"]
    lines += [f"You were working on {quote_task(found.task)}."] if found.task else []
    lines += [f"Last file: {found.file}" + (f":{found.line}" if found.line else "")] if found.file else []
    return escape_controls("\n".join([*lines, summary.text]).rstrip())


def _branch(store: "Store") -> str:
    from xscore.platform.git import working_branch

    return working_branch(store.root.git_dir) if store.root.git_dir else ""


def current_session(store: "Store") -> "WorkingSession | None":
    """Return the session that the next turn on this branch would go on with."""
    from xscore.platform.git import earlier_branch_names
    from xscore.store.working_session import session_of_branch

    here = _branch(store)
    renamed = earlier_branch_names(store.root.git_dir, here) if store.root.git_dir else ()
    return session_of_branch(store.connection, branch=here, renamed_from=renamed)

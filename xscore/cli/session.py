"""`xscore session`: the working session of this branch: what it is about, another one, its end.

It opens the store alone: no model is asked and nothing is indexed. Trade-off: a session is made by the first turn, so
on a new branch there is none to show.
"""

from typing import TYPE_CHECKING

import click

from xscore.cli.opening import in_store
from xscore.cli.options import OUTPUT, Flags, options
from xscore.cli.phrases import count_tasks, format_age, format_branch, quote_task, render_session_line
from xscore.cli.terminal import Terminal, print_json, write_stdout
from xscore.platform.errors import NothingMatched, UsageError
from xscore.platform.text import counted, escape_controls

if TYPE_CHECKING:
    from xscore.extensions.learning.consolidate import ClosedSession
    from xscore.records import SessionSummary, WorkingSession
    from xscore.store.store import Store


NONE_YET = 'There is no working session on this branch yet; `xscore ask "…"` begins one.'


@click.group()
def session() -> None:
    """Show, change or end the working session of this branch; `ask` resumes it by itself."""


@session.command("show")
@options(OUTPUT)
def show_session(flags: Flags) -> None:
    """Show what the next turn would go on with: tasks and what came of them, files, names, what is left to do."""

    def work(store: "Store") -> None:
        from xscore.pipeline.json_form import SCHEMA, record_json
        from xscore.store.session_summary import summarise_session

        found = current_session(store)
        summary = summarise_session(store.connection, found.thread) if found else None
        if flags.terminal.as_json and found and summary:
            told = {name: value for name, value in record_json(summary).items() if name != "text"}
            print_json({"schema": SCHEMA, "session": {**record_json(found), **told, "summary": summary.text}})
        elif flags.terminal.as_json:
            print_json({"schema": SCHEMA, "session": None})
        elif found and summary:
            write_stdout(render_session(found, summary, now=store.clock()))
        else:
            flags.terminal.note(NONE_YET)

    in_store(work, flags)


@session.command("list")
@options(OUTPUT)
def list_sessions(flags: Flags) -> None:
    """List the sessions of all branches, those of this one first, last at work first."""
    in_store(lambda store: _print_sessions(store, flags.terminal), flags)


@session.command()
@click.argument("thread", required=False, default="")
@options(OUTPUT)
def resume(thread: str, flags: Flags) -> None:
    """Have the next turn on this branch go on with THREAD (its first letters do); without it, list the sessions."""

    def work(store: "Store") -> None:
        from xscore.pipeline.json_form import to_json
        from xscore.store.working_session import switch_session

        now = store.clock()
        found = switch_session(store.connection, thread, branch=_branch(store), now=now)
        said = f"The next turn goes on with {render_session_line(found, now=now)}"
        print_json(to_json(found)) if flags.terminal.as_json else write_stdout(said)

    in_store(work if thread else lambda store: _print_sessions(store, flags.terminal), flags)


@session.command()
@click.option("--branch", metavar="NAME", help="All open sessions of this branch, whether it still exists or not.")
@click.option("--merged", is_flag=True, help="All open sessions of the branches that the last merge brought in.")
@options(OUTPUT)
def close(branch: str | None, merged: bool, flags: Flags) -> None:
    """End this branch's session: what it learned becomes the project's, its exchanges get one summary.

    The next turn begins another one. `--merged -q` is for a post-merge hook: it says nothing, and is content where
    there is nothing to close.
    """
    if merged and branch is not None:
        raise UsageError("--branch and --merged are two ways to name branches", hint="Give one of them.")

    def work(store: "Store") -> None:
        from xscore.pipeline.json_form import SCHEMA, record_json

        closed = _close_requested(store, branch, merged=merged)
        is_one = branch is None and not merged
        if not closed and not merged:
            where = f"the branch {branch}" if branch is not None else "this branch"
            raise NothingMatched(f"there is no open session on {where}", hint="`xscore session list` names all.")
        if flags.terminal.as_json:
            told = [record_json(one) for one in closed]
            print_json({"schema": SCHEMA, **told[0]} if is_one else {"schema": SCHEMA, "closed": told})
        elif not flags.terminal.quiet:
            write_stdout(
                "\n".join(map(_closed_line, closed)) or "the last merge brought in no branch with an open session"
            )

    in_store(work, flags)


@session.command()
@options(OUTPUT)
def fresh(flags: Flags) -> None:
    """Begin a new session on this branch; the one before stays, and `resume` goes back to it."""

    def work(store: "Store") -> None:
        from xscore.pipeline.json_form import to_json
        from xscore.store.working_session import resume_session

        begun = resume_session(store.connection, branch=_branch(store), now=store.clock(), fresh=True)
        print_json(to_json(begun)) if flags.terminal.as_json else write_stdout(f"begun: {begun.thread}")

    in_store(work, flags)


def _close_requested(store: "Store", branch: str | None, *, merged: bool) -> "tuple[ClosedSession, ...]":
    """Close what is asked for: by branch, by the last merge, or what goes on here."""
    from xscore.extensions.learning.consolidate import close_branches, close_session
    from xscore.platform.git import merged_branches

    if merged or branch is not None:
        branches = merged_branches(store.root.path) if branch is None else (branch,)
        return close_branches(store, branches, now=store.clock())
    found = current_session(store)
    return (close_session(store, found.thread, now=store.clock()),) if found else ()


def _closed_line(closed: "ClosedSession") -> str:
    kept = f"{len(closed.carried)} kept for the project, " if closed.carried else ""
    return f"closed {closed.thread}: {kept}{counted(closed.exchanges, 'exchange')} summed up"


def _print_sessions(store: "Store", terminal: Terminal) -> None:
    from xscore.pipeline.json_form import SCHEMA, record_json
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
    lines = [
        f"{found.thread}  {format_branch(found.branch)}{format_age(found.last_updated, now)}, {count_tasks(found.tasks)}"
    ]
    lines += [f"You were working on {quote_task(found.task)}."] if found.task else []
    if found.file:
        lines.append(f"Last file: {found.file}" + (f":{found.line}" if found.line else ""))
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

"""`xscore session`: the working session of this branch: what it is about, another one, its end.

It opens the store alone: no model is asked and nothing is indexed. Trade-off: a session is made by the first turn, so
on a new branch there is none to show.
"""

from typing import TYPE_CHECKING

import click

from xscore.cli.figures import counted
from xscore.cli.opening import in_store
from xscore.cli.options import OUTPUT, Flags, options
from xscore.cli.safe_text import visible
from xscore.cli.session_words import ago, listed, place_of, quoted, tasks
from xscore.cli.terminal import echo, print_json
from xscore.errors import UsageError

if TYPE_CHECKING:
    from xscore.memory.store import Store
    from xscore.records import SessionSummary, WorkingSession

NONE_YET = 'There is no working session on this branch yet; `xscore ask "…"` begins one.'


@click.group()
def session() -> None:
    """Show, change or end the working session of this branch; `ask` resumes it by itself."""


@session.command()
@options(OUTPUT)
def show(flags: Flags) -> None:
    """Show what the next turn would go on with: tasks and what came of them, files, names, what is left to do."""

    def work(store: "Store") -> None:
        from xscore.memory.session_digest import summary_of
        from xscore.pipeline.receipt import SCHEMA, to_json

        found = current_session(store)
        summary = summary_of(store.connection, found.thread) if found else None
        if not flags.terminal.as_json:
            echo(page(found, summary, now=store.clock()) if found and summary else NONE_YET)
        elif found and summary:
            told = {name: value for name, value in to_json(summary).items() if name not in {"schema", "text"}}
            body = {**to_json(found), **told, "summary": summary.text}
            print_json({"schema": SCHEMA, "session": {name: body[name] for name in body if name != "schema"}})
        else:
            print_json({"schema": SCHEMA, "session": None})

    in_store(work, flags)


@session.command()
@click.argument("thread", required=False, default="")
@options(OUTPUT)
def resume(thread: str, flags: Flags) -> None:
    """List the sessions, or have the next turn on this branch go on with THREAD (its first letters do)."""

    def work(store: "Store") -> None:
        from xscore.memory.working_session import make_current, sessions
        from xscore.pipeline.receipt import SCHEMA, to_json

        now, here = store.clock(), _branch(store)
        if thread:
            found = make_current(store.connection, thread, branch=here, now=now)
            said = f"The next turn goes on with {listed(found, now=now)}"
            print_json(to_json(found)) if flags.terminal.as_json else echo(said)
            return
        known = sorted(sessions(store.connection), key=lambda one: one.branch != here)
        if flags.terminal.as_json:
            told = [{name: value for name, value in to_json(one).items() if name != "schema"} for one in known]
            print_json({"schema": SCHEMA, "sessions": told})
        else:
            echo("\n".join(listed(one, now=now) for one in known) if known else NONE_YET)

    in_store(work, flags)


@session.command()
@options(OUTPUT)
def close(flags: Flags) -> None:
    """End this branch's session: what it learned becomes the project's, its exchanges get one summary.

    The next turn begins another one. For a post-merge hook as well.
    """

    def work(store: "Store") -> None:
        from xscore.learning.closing import close_session
        from xscore.pipeline.receipt import to_json

        found = current_session(store)
        if found is None:
            raise UsageError("there is no open session on this branch", hint="`xscore session resume` lists all.")
        closed = close_session(store, found.thread, now=store.clock())
        kept = f"{len(closed.carried)} kept for the project, " if closed.carried else ""
        said = f"closed {found.thread}: {kept}{counted(closed.exchanges, 'exchange')} summed up"
        print_json(to_json(closed)) if flags.terminal.as_json else echo(said)

    in_store(work, flags)


@session.command()
@options(OUTPUT)
def fresh(flags: Flags) -> None:
    """Begin a new session on this branch; the one before stays, and `resume` goes back to it."""

    def work(store: "Store") -> None:
        from xscore.memory.working_session import take_up
        from xscore.pipeline.receipt import to_json

        begun = take_up(store.connection, branch=_branch(store), now=store.clock(), fresh=True)
        print_json(to_json(begun)) if flags.terminal.as_json else echo(f"begun: {begun.thread}")

    in_store(work, flags)


def page(found: "WorkingSession", summary: "SessionSummary", *, now: float) -> str:
    """Show a session: where and when, then what it comes to."""
    lines = [f"{found.thread}  {place_of(found.branch)}{ago(found.last_updated, now)}, {tasks(found.tasks)}"]
    lines += [f"You were working on {quoted(found.task)}."] if found.task else []
    if found.file:
        lines.append(f"Last file: {found.file}" + (f":{found.line}" if found.line else ""))
    return visible("\n".join([*lines, summary.text]).rstrip())


def _branch(store: "Store") -> str:
    from xscore.git import working_branch

    return working_branch(store.root.git_dir) if store.root.git_dir else ""


def current_session(store: "Store") -> "WorkingSession | None":
    """Return the session that the next turn on this branch would go on with."""
    from xscore.git import earlier_names
    from xscore.memory.working_session import current

    here = _branch(store)
    renamed = earlier_names(store.root.git_dir, here) if store.root.git_dir else ()
    return current(store.connection, branch=here, renamed_from=renamed)

"""`xscore session`: the working session of this branch: what it is about, another one, its end.

It opens the store alone: no model is asked and nothing is indexed. Trade-off: a session is made by the first turn, so
on a new branch there is none to show.
"""

from typing import TYPE_CHECKING

import click

from xscore.cli.opening import in_store
from xscore.cli.options import OUTPUT, Flags, options
from xscore.cli.session_words import ago, listed, place_of, quoted, tasks
from xscore.cli.terminal import Terminal, echo, print_json
from xscore.errors import NothingMatched, UsageError
from xscore.safe_text import visible
from xscore.wording import counted

if TYPE_CHECKING:
    from xscore.learning.closing import Closed
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
        from xscore.pipeline.receipt import SCHEMA, plain

        found = current_session(store)
        summary = summary_of(store.connection, found.thread) if found else None
        if flags.terminal.as_json and found and summary:
            told = {name: value for name, value in plain(summary).items() if name != "text"}
            print_json({"schema": SCHEMA, "session": {**plain(found), **told, "summary": summary.text}})
        elif flags.terminal.as_json:
            print_json({"schema": SCHEMA, "session": None})
        elif found and summary:
            echo(page(found, summary, now=store.clock()))
        else:
            flags.terminal.note(NONE_YET)

    in_store(work, flags)


@session.command("list")
@options(OUTPUT)
def list_sessions(flags: Flags) -> None:
    """List the sessions of all branches, those of this one first, last at work first."""
    in_store(lambda store: _list(store, flags.terminal), flags)


@session.command()
@click.argument("thread", required=False, default="")
@options(OUTPUT)
def resume(thread: str, flags: Flags) -> None:
    """Have the next turn on this branch go on with THREAD (its first letters do); without it, list the sessions."""

    def work(store: "Store") -> None:
        from xscore.memory.working_session import make_current
        from xscore.pipeline.receipt import to_json

        now = store.clock()
        found = make_current(store.connection, thread, branch=_branch(store), now=now)
        said = f"The next turn goes on with {listed(found, now=now)}"
        print_json(to_json(found)) if flags.terminal.as_json else echo(said)

    in_store(work if thread else lambda store: _list(store, flags.terminal), flags)


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
        from xscore.pipeline.receipt import SCHEMA, plain

        closed = _closed(store, branch, merged=merged)
        is_one = branch is None and not merged
        if not closed and not merged:
            where = f"the branch {branch}" if branch is not None else "this branch"
            raise NothingMatched(f"there is no open session on {where}", hint="`xscore session list` names all.")
        if flags.terminal.as_json:
            told = [plain(one) for one in closed]
            print_json({"schema": SCHEMA, **told[0]} if is_one else {"schema": SCHEMA, "closed": told})
        elif not flags.terminal.quiet:
            echo("\n".join(map(_end, closed)) or "the last merge brought in no branch with an open session")

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


def _closed(store: "Store", branch: str | None, *, merged: bool) -> "tuple[Closed, ...]":
    """Close what is asked for: by branch, by the last merge, or what goes on here."""
    from xscore.git import just_merged
    from xscore.learning.closing import close_branches, close_session

    if merged or branch is not None:
        branches = just_merged(store.root.path) if branch is None else (branch,)
        return close_branches(store, branches, now=store.clock())
    found = current_session(store)
    return (close_session(store, found.thread, now=store.clock()),) if found else ()


def _end(closed: "Closed") -> str:
    kept = f"{len(closed.carried)} kept for the project, " if closed.carried else ""
    return f"closed {closed.thread}: {kept}{counted(closed.exchanges, 'exchange')} summed up"


def _list(store: "Store", terminal: Terminal) -> None:
    from xscore.memory.working_session import sessions
    from xscore.pipeline.receipt import SCHEMA, plain

    here, now = _branch(store), store.clock()
    known = sorted(sessions(store.connection), key=lambda one: one.branch != here)
    if terminal.as_json:
        print_json({"schema": SCHEMA, "sessions": [plain(one) for one in known]})
    elif known:
        echo("\n".join(listed(one, now=now) for one in known))
    else:
        terminal.note('There is no working session here yet; `xscore ask "…"` begins one.')


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
